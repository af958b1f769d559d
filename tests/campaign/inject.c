/* SPDX-License-Identifier: MIT */
/*
 * inject [-w K] [-e ERRNO] [-o FILE] [-t SECONDS] CMD…: runs CMD under ptrace and makes its K-th system call fail with
 * ERRNO, once; the call itself is not made. Calls of its children count too. Without -w: only counts. FILE gets one
 * line: calls counted, number of the call that failed (or -1), exit status of CMD (128 + signal when it died of one,
 * 255 when it was still there after SECONDS: then all of it is killed).
 * Counting begins when CMD ignores SIGPIPE (the first thing gpufree's main() does), after the dynamic loader.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_TASKS 256

#if defined(__x86_64__)
struct task {
        pid_t pid;
        bool inside, fail;
};

static struct task tasks[MOST_TASKS];
static size_t n_tasks;
static long counted, when = -1, failed_call = -1;
static bool counting;
static unsigned heap_calls;
static int error_number = ENOMEM, main_status = -1;
static volatile sig_atomic_t out_of_time;

static void on_alarm(int signo)
{
        (void)signo;
        out_of_time = 1;
}

static struct task *task_of(pid_t pid)
{
        for (size_t i = 0; i < n_tasks; i++)
                if (tasks[i].pid == pid)
                        return &tasks[i];
        if (n_tasks == MOST_TASKS)
                abort();
        tasks[n_tasks] = (struct task){ .pid = pid };
        return &tasks[n_tasks++];
}

static void forget(pid_t pid)
{
        struct task *task = task_of(pid);

        *task = tasks[--n_tasks];
}

/* What cannot fail, or where a failure means nothing. */
static bool is_counted(long number)
{
        switch (number) {
        case SYS_exit:
        case SYS_exit_group:
        case SYS_rt_sigreturn:
        case SYS_restart_syscall:
        case SYS_munmap:
        case SYS_futex:
        case SYS_getpid:
        case SYS_getuid:
        case SYS_geteuid:
        case SYS_set_robust_list:
        case SYS_rseq:
        case SYS_set_tid_address:
                return false;
        default:
                return true;
        }
}

static bool is_about_memory(long number)
{
        return number == SYS_mmap || number == SYS_brk || number == SYS_mremap || number == SYS_mprotect;
}

static void at_syscall(struct task *task)
{
        struct user_regs_struct regs;

        if (ptrace(PTRACE_GETREGS, task->pid, NULL, &regs) < 0)
                return;
        task->inside = !task->inside;
        if (task->inside) {
                long number = (long)regs.orig_rax;

                if (!counting) {
                        counting = number == SYS_rt_sigaction && regs.rdi == SIGPIPE;
                        return;
                }
                /* The C library (2.36) falls over, in any program, when its heap cannot be begun. */
                if (!is_counted(number) || (number == SYS_brk && ++heap_calls <= 2))
                        return;
                if (++counted != when)
                        return;
                failed_call = number;
                /* A brk() that fails returns the end as it is, no error number. */
                task->fail = number != SYS_brk;
                if (number == SYS_brk)
                        regs.rdi = 0;
                else
                        regs.orig_rax = (unsigned long long)-1;
                (void)ptrace(PTRACE_SETREGS, task->pid, NULL, &regs);
        } else if (task->fail) {
                task->fail = false;
                regs.rax = (unsigned long long)-(long long)(is_about_memory(failed_call) ? ENOMEM : error_number);
                (void)ptrace(PTRACE_SETREGS, task->pid, NULL, &regs);
        }
}

static void trace(pid_t first)
{
        const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                             PTRACE_O_EXITKILL;
        int status;

        if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status) ||
            ptrace(PTRACE_SETOPTIONS, first, NULL, options) < 0)
                exit(126);
        (void)task_of(first);
        (void)ptrace(PTRACE_SYSCALL, first, NULL, NULL);
        while (!out_of_time) {
                pid_t pid = waitpid(-1, &status, __WALL);
                long signal = 0;

                if (pid < 0 && errno == EINTR)
                        continue;
                if (pid < 0)
                        return;
                if (WIFEXITED(status) || WIFSIGNALED(status)) {
                        if (pid == first)
                                main_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                        forget(pid);
                        continue;
                }
                if (WSTOPSIG(status) == (SIGTRAP | 0x80))
                        at_syscall(task_of(pid));
                else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP && WSTOPSIG(status) != SIGTRAP)
                        signal = WSTOPSIG(status);
                else
                        (void)task_of(pid);
                (void)ptrace(PTRACE_SYSCALL, pid, NULL, signal);
        }
        main_status = 255;
        for (size_t i = 0; i < n_tasks; i++)
                (void)kill(tasks[i].pid, SIGKILL);
}

int main(int argc, char **argv)
{
        const char *out = NULL;
        unsigned seconds = 60;
        pid_t child;
        FILE *f;
        int c;

        while ((c = getopt(argc, argv, "+w:e:o:t:")) != -1) {
                switch (c) {
                case 'w':
                        when = strtol(optarg, NULL, 10);
                        break;
                case 'e':
                        error_number = (int)strtol(optarg, NULL, 10);
                        break;
                case 'o':
                        out = optarg;
                        break;
                case 't':
                        seconds = (unsigned)strtoul(optarg, NULL, 10);
                        break;
                default:
                        return 126;
                }
        }
        child = fork();
        if (child == 0) {
                (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
                (void)raise(SIGSTOP);
                (void)execvp(argv[optind], argv + optind);
                _exit(127);
        }
        struct sigaction action = { .sa_handler = on_alarm };
        (void)sigaction(SIGALRM, &action, NULL);
        (void)alarm(seconds);
        trace(child);
        f = out ? fopen(out, "we") : stderr;
        if (!f)
                return 126;
        (void)fprintf(f, "%ld %ld %d\n", counted, failed_call, main_status);
        return fclose(f) == 0 ? 0 : 126;
}
#else
int main(void)
{
        (void)fprintf(stderr, "inject: made for x86-64 alone\n");
        return 77;
}
#endif

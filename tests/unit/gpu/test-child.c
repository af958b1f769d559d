/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../skip.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "gpufree.h"
#include "sys/child.h"
#include "sys/clock.h"

#define LONG_MS 20000

static int echo(int socket, void *userdata)
{
        char buf[65536];
        ssize_t n;

        (void)userdata;
        while ((n = recv(socket, buf, sizeof(buf), 0)) > 0)
                if (send(socket, buf, (size_t)n, MSG_NOSIGNAL) < 0)
                        return 1;
        return 0;
}

static int hang(int socket, void *userdata)
{
        (void)socket;
        (void)userdata;
        while (pause() < 0)
                ;
        return 0;
}

static int hang_once_ready(int socket, void *userdata)
{
        return send(socket, "ready", 5, MSG_NOSIGNAL) == 5 ? hang(socket, userdata) : 1;
}

static int crash(int socket, void *userdata)
{
        (void)socket;
        (void)userdata;
        raise(SIGSEGV);
        return 0;
}

/* What the child looks like from the inside, as text. */
static int inspect(int socket, void *userdata)
{
        char text[4096] = "";
        size_t fill = 0;
        struct sigaction action;
        struct stat st, null;
        sigset_t mask;

        (void)userdata;
        (void)stat("/dev/null", &null);
        for (int fd = 0; fd < 1024; fd++)
                if (fstat(fd, &st) == 0)
                        fill += (size_t)snprintf(text + fill, sizeof(text) - fill, "%d%s ", fd,
                                                 st.st_rdev == null.st_rdev ? "=null"
                                                 : S_ISSOCK(st.st_mode)     ? "=socket"
                                                                            : "=?");
        (void)sigprocmask(SIG_SETMASK, NULL, &mask);
        for (int sig = 1; sig < 32; sig++) {
                if (sigaction(sig, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
                        fill += (size_t)snprintf(text + fill, sizeof(text) - fill, "handler:%d ", sig);
                if (sigismember(&mask, sig))
                        fill += (size_t)snprintf(text + fill, sizeof(text) - fill, "blocked:%d ", sig);
        }
        return send(socket, text, fill, MSG_NOSIGNAL) < 0;
}

static void start(gf_child_main child_main, struct gf_child *child)
{
        assert_int_equal(gf_child_start(child_main, NULL, child), 0);
        assert_true(child->pid > 0);
        assert_true(child->pidfd >= 0);
}

static void answers_and_ends(void **state)
{
        struct gf_child child;
        char buf[64];

        (void)state;
        start(echo, &child);
        assert_int_equal(gf_child_send(&child, "hello", 5), 0);
        assert_int_equal(gf_child_receive(&child, buf, sizeof(buf), gf_deadline_in(LONG_MS), -1), 5);
        assert_memory_equal(buf, "hello", 5);
        gf_child_stop(&child);
        assert_int_equal(child.pid, 0); /* reaped */
        assert_int_equal(child.socket, -1);
        gf_child_stop(&child); /* twice is fine */
        assert_int_equal(gf_child_send(&child, "x", 1), -EPIPE);
        assert_int_equal(gf_child_receive(&child, buf, sizeof(buf), gf_deadline_in(LONG_MS), -1), 0);
}

static void stop_of_a_zeroed_child_is_safe(void **state)
{
        struct gf_child child = { .pidfd = -1, .socket = -1 };

        (void)state;
        gf_child_stop(&child);
}

static void start_ticks_are_those_of_proc(void **state)
{
        _cleanup_fclose_ FILE *f = NULL;
        struct gf_child child;
        char path[64], line[2048], *p;
        unsigned long long ticks = 0;

        (void)state;
        start(echo, &child);
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)child.pid);
        f = fopen(path, "re");
        assert_non_null(f);
        assert_non_null(fgets(line, sizeof(line), f));
        p = strrchr(line, ')');
        assert_non_null(p);
        assert_int_equal(sscanf(p + 2,
                                "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                                &ticks),
                         1);
        assert_true(ticks > 0);
        assert_int_equal(child.start_ticks, ticks);
        gf_child_stop(&child);
}

static void a_hang_ends_at_the_deadline(void **state)
{
        struct gf_child child;
        uint64_t before;
        char buf[8];

        (void)state;
        start(hang, &child);
        before = gf_now_ms();
        assert_int_equal(gf_child_receive(&child, buf, sizeof(buf), gf_deadline_in(150), -1), -ETIMEDOUT);
        assert_true(gf_now_ms() - before >= 149);
        assert_true(gf_now_ms() - before < LONG_MS);
        gf_child_stop(&child);
        assert_int_equal(child.pid, 0);
}

static void a_stopped_child_is_ended_as_well(void **state)
{
        struct gf_child child;

        (void)state;
        start(hang, &child);
        assert_int_equal(syscall(SYS_pidfd_send_signal, child.pidfd, SIGSTOP, NULL, 0), 0);
        gf_child_stop(&child);
        assert_int_equal(child.pid, 0);
}

static void cancel_ends_the_wait(void **state)
{
        struct gf_child child;
        char buf[8];
        int fds[2];

        (void)state;
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        start(hang, &child);
        assert_int_equal(gf_child_receive(&child, buf, sizeof(buf), GPUFREE_UNKNOWN, fds[0]), -ECANCELED);
        gf_child_stop(&child);
        close(fds[0]);
        close(fds[1]);
}

static void a_crash_is_an_end(void **state)
{
        struct gf_child child;
        char buf[8];

        (void)state;
        start(crash, &child);
        assert_int_equal(gf_child_receive(&child, buf, sizeof(buf), gf_deadline_in(LONG_MS), -1), 0);
        assert_int_equal(gf_child_send(&child, "x", 1), -EPIPE);
        gf_child_stop(&child);
        assert_int_equal(child.pid, 0);
}

static void too_long_a_message_is_said(void **state)
{
        struct gf_child child;
        char buf[4];

        (void)state;
        start(echo, &child);
        assert_int_equal(gf_child_send(&child, "too long", 8), 0);
        assert_int_equal(gf_child_receive(&child, buf, sizeof(buf), gf_deadline_in(LONG_MS), -1), -EMSGSIZE);
        gf_child_stop(&child);
}

static void a_child_that_does_not_read_blocks_nobody(void **state)
{
        _cleanup_free_ char *big = calloc(1, 60000);
        struct gf_child child;
        int r = 0;

        (void)state;
        assert_non_null(big);
        start(hang, &child);
        for (int i = 0; i < 10000 && r == 0; i++)
                r = gf_child_send(&child, big, 60000);
        assert_int_equal(r, -EAGAIN);
        gf_child_stop(&child);
}

static void on_signal(int sig)
{
        (void)sig;
}

static void nothing_is_inherited(void **state)
{
        struct sigaction action = { .sa_handler = on_signal }, before;
        struct gf_child child;
        sigset_t block, saved;
        char text[4096];
        ssize_t n;
        int leak;

        (void)state;
        leak = open("/proc/self/stat", O_RDONLY); /* without O_CLOEXEC, on purpose */
        assert_true(leak >= 0);
        assert_true(dup2(leak, 400) == 400);
        assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
        sigemptyset(&block);
        sigaddset(&block, SIGTERM);
        assert_int_equal(sigprocmask(SIG_BLOCK, &block, &saved), 0);
        start(inspect, &child);
        n = gf_child_receive(&child, text, sizeof(text) - 1, gf_deadline_in(LONG_MS), -1);
        assert_true(n > 0);
        text[n] = '\0';
        assert_string_equal(text, "0=null 1=null 2=null 3=socket ");
        gf_child_stop(&child);
        /* The parent's own are as they were. */
        assert_int_equal(sigprocmask(SIG_SETMASK, &saved, &block), 0);
        assert_true(sigismember(&block, SIGTERM));
        assert_false(sigismember(&block, SIGUSR2));
        assert_int_equal(sigaction(SIGUSR1, &before, &action), 0);
        assert_true(action.sa_handler == on_signal);
        close(leak);
        close(400);
}

/* In a process that has closed its standard descriptors: the socket may have got one of their numbers. */
static void works_without_standard_descriptors(void **state)
{
        int status;
        pid_t pid;

        (void)state;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct gf_child child;
                char text[4096] = "";

                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                close(0);
                close(1);
                close(2);
                if (gf_child_start(inspect, NULL, &child) < 0 ||
                    gf_child_receive(&child, text, sizeof(text) - 1, gf_deadline_in(LONG_MS), -1) <= 0)
                        _exit(1);
                gf_child_stop(&child);
                _exit(strcmp(text, "0=null 1=null 2=null 3=socket ") == 0 ? 0 : 2);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* From here on this process and its children get ENOSYS from one system call, as on an older kernel. */
static bool take_away(uint32_t number)
{
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { ELEMENTSOF(code), code };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Exit statuses: 0 as it should be, 77 no filter can be set here. */
static int on_an_older_kernel(uint32_t number, int (*play)(void))
{
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                _exit(take_away(number) ? play() : 77);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static int play_without_close_range(void)
{
        struct gf_child child;
        char text[4096] = "";

        if (dup2(2, 400) != 400 || gf_child_start(inspect, NULL, &child) < 0 ||
            gf_child_receive(&child, text, sizeof(text) - 1, gf_deadline_in(LONG_MS), -1) <= 0)
                return 1;
        gf_child_stop(&child);
        return strcmp(text, "0=null 1=null 2=null 3=socket ") == 0 ? 0 : 2;
}

static void closes_all_without_close_range(void **state)
{
        int r = on_an_older_kernel(SYS_close_range, play_without_close_range);

        (void)state;
        if (r == 77)
                skip_because("this machine does not let it be done");
        assert_int_equal(r, 0);
}

/* There is no child that cannot be ended: it goes by itself, and the caller hears why. */
static int play_without_pidfd(void)
{
        struct gf_child child = { .pid = -7 };
        int r = gf_child_start(hang, NULL, &child);
        siginfo_t info = { 0 };

        if (r != -ENOSYS || child.pid != -7)
                return 1;
        /* Reaped already, or about to end by itself. */
        return waitid(P_ALL, 0, &info, WEXITED) == 0 || errno == ECHILD ? 0 : 2;
}

static void without_pidfds_there_is_no_child(void **state)
{
        int r = on_an_older_kernel(SYS_pidfd_open, play_without_pidfd);

        (void)state;
        if (r == 77)
                skip_because("this machine does not let it be done");
        assert_int_equal(r, 0);
}

/* The grandchild must die with the process that started it, however that ends. */
static void dies_with_its_parent(void **state)
{
        struct pollfd wait = { .events = POLLIN };
        int fds[2], status;
        struct gf_child child = { 0 };
        char buf[8];
        pid_t pid;

        (void)state;
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (gf_child_start(hang_once_ready, NULL, &child) < 0 ||
                    gf_child_receive(&child, buf, sizeof(buf), gf_deadline_in(LONG_MS), -1) != 5 ||
                    write(fds[1], &child, sizeof(child)) != (ssize_t)sizeof(child))
                        _exit(1);
                for (;;)
                        pause();
        }
        assert_int_equal(read(fds[0], &child, sizeof(child)), sizeof(child));
        wait.fd = (int)syscall(SYS_pidfd_open, child.pid, 0);
        assert_true(wait.fd >= 0);
        assert_int_equal(kill(pid, SIGKILL), 0); /* our own, not reaped yet */
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(poll(&wait, 1, LONG_MS), 1);
        close(wait.fd);
        close(fds[0]);
        close(fds[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(answers_and_ends),
                cmocka_unit_test(stop_of_a_zeroed_child_is_safe),
                cmocka_unit_test(start_ticks_are_those_of_proc),
                cmocka_unit_test(a_hang_ends_at_the_deadline),
                cmocka_unit_test(a_stopped_child_is_ended_as_well),
                cmocka_unit_test(cancel_ends_the_wait),
                cmocka_unit_test(a_crash_is_an_end),
                cmocka_unit_test(too_long_a_message_is_said),
                cmocka_unit_test(a_child_that_does_not_read_blocks_nobody),
                cmocka_unit_test(nothing_is_inherited),
                cmocka_unit_test(works_without_standard_descriptors),
                cmocka_unit_test(closes_all_without_close_range),
                cmocka_unit_test(without_pidfds_there_is_no_child),
                cmocka_unit_test(dies_with_its_parent),
        };

        return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}

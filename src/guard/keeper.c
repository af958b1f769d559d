/* SPDX-License-Identifier: MIT */
#include "guard/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"
#include "sys/clock.h"
#include "sys/pidwait.h"
#include "sys/procfs.h"

/* When the guard itself was killed, whoever did it is in a hurry. */
#define ORPHAN_GRACE_MS 2000

struct keeper {
        struct gpufree_guard *guard;
        const struct gf_keeper_order *order;
        pid_t self, parent, group, command; /* command 0: ended and reaped */
        int socket, signals;
        bool guard_gone, said_gone;
        struct gf_cgroup cgroup;
        struct gf_ending ending;
};

/* Not found by those who look for the guard's name to end it: then nobody would be left to clean up. */
void gf_keeper_rename(const char *name)
{
        _cleanup_free_ char *text = NULL;
        char *p, *save = NULL;
        uint64_t start = 0, end = 0;

        (void)prctl(PR_SET_NAME, name);
        if (gf_read_file(AT_FDCWD, "/proc/self/stat", 4096, &text, NULL) < 0)
                return;
        p = strrchr(text, ')');
        p = p ? strtok_r(p + 1, " ", &save) : NULL;
        for (int field = 3; p; field++, p = strtok_r(NULL, " ", &save)) {
                if (field == 48 && gf_parse_u64(p, &start) < 0)
                        return;
                if (field == 49 && gf_parse_u64(p, &end) < 0)
                        return;
        }
        /* The command has its own copy by now: its argv may point in there. */
        if (start > 0 && end > start + strlen(name) && end - start < (1u << 22)) {
                char *area = (char *)(uintptr_t)start; /* NOLINT: where the kernel put our arguments */

                memset(area, 0, end - start);
                memcpy(area, name, strlen(name));
        }
}

/* ---- the command ---- */

static int put_environment(const struct keeper *k, int ready_fd)
{
        for (size_t i = 0; i < k->guard->environment.n; i++) {
                _cleanup_free_ char *name = strdup(k->guard->environment.v[i]);
                char *equals = name ? strchr(name, '=') : NULL;

                if (!equals)
                        return -ENOMEM;
                *equals = '\0';
                if (setenv(name, equals + 1, 1) < 0)
                        return -errno;
        }
        if (k->order->no_notify)
                (void)unsetenv("NOTIFY_SOCKET");
        if (ready_fd >= 0) {
                char text[16];

                (void)snprintf(text, sizeof(text), "%d", ready_fd);
                if (setenv("GPUFREE_READY_FD", text, 1) < 0)
                        return -errno;
        }
        return 0;
}

static void restore_signals(const struct keeper *k)
{
        struct sigaction action;

        /* Handlers would be reset by execve() anyway; what was ignored stays so, as without a guard. */
        for (int signal = 1; signal < NSIG; signal++)
                if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_IGN &&
                    action.sa_handler != SIG_DFL) {
                        action = (struct sigaction){ .sa_handler = SIG_DFL };
                        (void)sigaction(signal, &action, NULL);
                }
        if (k->guard->options.default_pipe) {
                action = (struct sigaction){ .sa_handler = SIG_DFL };
                (void)sigaction(SIGPIPE, &action, NULL);
        }
        (void)sigprocmask(SIG_SETMASK, &k->guard->mask, NULL);
}

/* The lowest number that the command will not have otherwise: shells can name one digit only. */
static int low_descriptor(int tell)
{
        for (int fd = 3;; fd++) {
                int flags = fcntl(fd, F_GETFD);

                if (fd != tell && (flags < 0 || (flags & FD_CLOEXEC)))
                        return fd;
        }
}

/* Ends with execve(), or tells why not. */
__attribute__((noreturn)) static void become_command(const struct keeper *k, int tell, char *const argv[])
{
        int ready = -1, error;

        (void)setpgid(0, k->group);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != k->self) /* it died before that was set */
                _exit(GPUFREE_GUARD_NO_EXEC);
        if (k->order->output >= 0 &&
            (dup2(k->order->output, STDOUT_FILENO) < 0 || dup2(k->order->output, STDERR_FILENO) < 0))
                goto failed;
        if (k->order->ready_fd >= 0) {
                ready = low_descriptor(tell);
                if (dup2(k->order->ready_fd, ready) < 0 || fcntl(ready, F_SETFD, 0) < 0)
                        goto failed;
        }
        if (put_environment(k, ready) < 0) {
                errno = ENOMEM;
                goto failed;
        }
        restore_signals(k);
        (void)execvp(argv[0], argv);
failed:
        error = errno;
        (void)!write(tell, &error, sizeof(error));
        _exit(error == ENOENT ? GPUFREE_GUARD_NO_FILE : GPUFREE_GUARD_NO_EXEC);
}

/* 0; positive: errno of the exec. */
static int start_command(struct keeper *k)
{
        _cleanup_close_ int told = -1, tell = -1;
        int fds[2], error = 0;
        ssize_t n;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return errno;
        told = fds[0];
        tell = fds[1];
        k->command = gf_cgroup_fork(&k->cgroup);
        if (k->command < 0) {
                k->command = 0;
                return errno;
        }
        if (k->command == 0)
                become_command(k, tell, k->order->argv);
        tell = gf_close(tell);
        do
                n = read(told, &error, sizeof(error));
        while (n < 0 && errno == EINTR);
        return n == sizeof(error) ? error : 0;
}

static void start_on_ready(const struct keeper *k)
{
        char *command = k->guard->options.on_ready ? strdup(k->guard->options.on_ready) : NULL;
        char sh[] = "/bin/sh", c[] = "-c";
        char *argv[] = { sh, c, command, NULL };

        if (command && gf_cgroup_fork(&k->cgroup) == 0)
                become_command(k, -1, argv);
        free(command);
}

/* ---- its life ---- */

static int compare(const void *a, const void *b)
{
        return *(const int *)a - *(const int *)b;
}

/* What was opened for the guard's own use is not kept open by its keeper. */
static void close_others(const struct keeper *k)
{
        int keep[64], n = 0, from = 3;

        keep[n++] = k->socket;
        keep[n++] = k->signals;
        keep[n++] = k->cgroup.dir;
        keep[n++] = k->order->output;
        for (size_t i = 0; i < k->guard->locks.n; i++) {
                if (n + 2 > (int)ELEMENTSOF(keep))
                        return; /* rather too many than a claim too few */
                keep[n++] = k->guard->locks.v[i].socket;
                keep[n++] = k->guard->locks.v[i].file;
        }
        qsort(keep, (size_t)n, sizeof(*keep), compare);
        for (int i = 0; i < n; i++) {
                if (keep[i] < from)
                        continue;
                if (keep[i] > from)
                        (void)syscall(SYS_close_range, (unsigned)from, (unsigned)keep[i] - 1, 0U);
                from = keep[i] + 1;
        }
        (void)syscall(SYS_close_range, (unsigned)from, ~0U, 0U);
}

/* Are there descendants at all? With none, waitid() says so at once. */
static bool has_children(void)
{
        siginfo_t info;

        return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void reap(struct keeper *k)
{
        for (;;) {
                siginfo_t info = { 0 };

                if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) < 0 || info.si_pid == 0)
                        return;
                if (info.si_pid != k->command)
                        continue;
                /* The guard stops with the command, and must not sleep on when somebody else continues or ends it. */
                if (info.si_code != CLD_STOPPED && !k->guard_gone && getppid() == k->parent)
                        (void)kill(k->parent, SIGCONT);
                if (info.si_code == CLD_CONTINUED)
                        continue;
                if (info.si_code == CLD_STOPPED) {
                        (void)gf_say(k->socket, GF_SAY_STOPPED, info.si_status, getpgid(k->command), 0);
                        continue;
                }
                k->command = 0;
                (void)gf_say(k->socket, GF_SAY_EXITED, info.si_code == CLD_EXITED ? info.si_status : 0,
                             info.si_code == CLD_EXITED ? 0 : info.si_status, has_children());
        }
}

/* All but SIGCHLD are taken so that they end nobody here: the guard passes on what is meant for the command. */
static void drain_signals(const struct keeper *k)
{
        struct signalfd_siginfo info;

        while (read(k->signals, &info, sizeof(info)) == sizeof(info))
                ;
}

static void continue_command(const struct keeper *k)
{
        pid_t group;

        if (k->command == 0)
                return;
        group = getpgid(k->command);
        (void)(group > 0 && group != k->group ? kill(-group, SIGCONT) : kill(k->command, SIGCONT));
}

static void hear_guard(struct keeper *k)
{
        struct gf_said said;
        int r;

        while ((r = gf_hear(k->socket, &said)) > 0) {
                if (said.what == GF_SAY_SIGNAL && k->command > 0)
                        (void)kill(k->command, said.a); /* ours, not reaped: nobody else has that number */
                else if (said.what == GF_SAY_CONTINUE)
                        continue_command(k);
                else if (said.what == GF_SAY_END)
                        gf_ending_begin(&k->ending, said.a, said.b != 0, said.n);
                else if (said.what == GF_SAY_ON_READY)
                        start_on_ready(k);
                else if (said.what == GF_SAY_UNCLAIM) {
                        gf_locks_done(&k->guard->locks);
                        (void)gf_say(k->socket, GF_SAY_UNCLAIMED, 0, 0, 0);
                }
        }
        if (r < 0 && !k->guard_gone) {
                uint64_t grace = k->guard->options.ladder.grace_ms;

                k->guard_gone = true;
                gf_ending_begin(&k->ending, SIGTERM, k->guard->options.ladder.force,
                                grace < ORPHAN_GRACE_MS ? grace : ORPHAN_GRACE_MS);
        }
}

static void end_step(struct keeper *k)
{
        bool killing = k->ending.killing;
        int n;

        if (!has_children()) {
                if (!k->said_gone)
                        (void)gf_say(k->socket, GF_SAY_GONE, k->ending.signalled, k->ending.killed, 0);
                k->said_gone = true;
                return;
        }
        n = gf_ending_step(&k->ending);
        if (!killing && k->ending.killing && n > 0)
                (void)gf_say(k->socket, GF_SAY_KILLING, n, 0, 0);
        if (k->ending.killing && !k->ending.told_stuck && gf_now_ms() >= k->ending.stuck_at) {
                k->ending.told_stuck = true;
                (void)gf_say(k->socket, GF_SAY_STUCK, n, 0, 0);
        }
}

static int open_signals(void)
{
        static const int heard[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
        static const int ignored[] = { SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU, SIGALRM };
        struct sigaction reset = { .sa_handler = SIG_DFL }, ignore = { .sa_handler = SIG_IGN };
        sigset_t set;

        (void)sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(heard); i++) {
                (void)sigaddset(&set, heard[i]);
                (void)sigaction(heard[i], &reset, NULL); /* an ignored SIGCHLD would lose the command's status */
        }
        for (size_t i = 0; i < ELEMENTSOF(ignored); i++)
                (void)sigaction(ignored[i], &ignore, NULL);
        (void)sigprocmask(SIG_SETMASK, &set, NULL);
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void live(struct keeper *k)
{
        reap(k); /* its SIGCHLD may have come before they were listened to */
        while (!k->said_gone) {
                struct pollfd fds[] = {
                        { .fd = k->guard_gone ? -1 : k->socket, .events = POLLIN },
                        { .fd = k->signals, .events = POLLIN },
                };
                int timeout = k->ending.begun ? gf_deadline_poll_ms(k->ending.next_look) : -1;

                if (poll(fds, ELEMENTSOF(fds), timeout) < 0 && errno != EINTR)
                        return;
                drain_signals(k);
                reap(k);
                if (!k->guard_gone)
                        hear_guard(k);
                if (k->ending.begun)
                        end_step(k);
        }
}

__attribute__((noreturn)) static void keeper_main(struct keeper *k)
{
        int error;

        k->self = getpid();
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        k->ending = (struct gf_ending){ .cgroup = &k->cgroup, .env = &k->guard->context->env, .root = getpid() };
        error = gf_cgroup_make(k->ending.env, &k->cgroup) < 0 ? ENOMEM : start_command(k);
        k->signals = open_signals();
        gf_keeper_rename("gpu-keeper");
        close_others(k);
        if (error == 0 && k->signals >= 0) {
                (void)gf_say(k->socket, GF_SAY_STARTED, k->command, 0, 0);
                live(k);
        } else {
                if (k->command > 0)
                        (void)waitpid(k->command, NULL, 0);
                (void)gf_say(k->socket, GF_SAY_NO_EXEC, error, 0, 0);
        }
        gf_cgroup_done(&k->cgroup);
        _exit(0);
}

int gf_keeper_start(struct gpufree_guard *guard, const struct gf_keeper_order *order, struct gf_keeper *ret_keeper)
{
        struct keeper k = { .guard = guard,
                            .order = order,
                            .parent = getpid(),
                            .group = getpgrp(),
                            .socket = -1,
                            .signals = -1,
                            .cgroup = GF_CGROUP_NONE };
        _cleanup_close_ int ours = -1, theirs = -1;
        struct gf_keeper keeper = GF_KEEPER_NONE;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        ours = pair[0];
        theirs = pair[1];
        keeper.pid = fork();
        if (keeper.pid < 0)
                return -errno;
        if (keeper.pid == 0) {
                ours = gf_close(ours);
                k.socket = theirs;
                keeper_main(&k);
        }
        keeper.pidfd = (int)syscall(SYS_pidfd_open, keeper.pid, 0U);
        if (keeper.pidfd < 0) {
                int r = -errno;

                ours = gf_close(ours); /* it ends by itself */
                return r;
        }
        keeper.socket = TAKE_FD(ours);
        *ret_keeper = keeper;
        return 0;
}

void gf_keeper_stop(struct gf_keeper *keeper, uint64_t ms)
{
        if (keeper->pid <= 0)
                return;
        keeper->socket = gf_close(keeper->socket);
        if (gf_pidfds_wait(&keeper->pidfd, 1, gf_deadline_in(ms), -1) == 1)
                (void)waitpid(keeper->pid, NULL, WNOHANG);
        keeper->pidfd = gf_close(keeper->pidfd);
        keeper->pid = 0;
}

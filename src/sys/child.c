/* SPDX-License-Identifier: MIT */
#include "sys/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/clock.h"

/* How long a stopped child may take to end before it is left to be reaped by others. */
#define REAP_MS 1000
#define CHILD_SOCKET 3

/* Closes everything from `first` on. */
static int close_from(int first)
{
        _cleanup_closedir_ DIR *dir = NULL;
        const struct dirent *entry;

        if (close_range((unsigned)first, ~0U, 0) == 0)
                return 0;
        dir = opendir("/proc/self/fd"); /* Linux before 5.9, or a filter that forbids the call */
        if (!dir)
                return -errno;
        while ((entry = readdir(dir))) {
                uint32_t fd;

                if (gf_parse_u32(entry->d_name, &fd) == 0 && (int)fd >= first && (int)fd != dirfd(dir))
                        (void)close((int)fd);
        }
        return 0;
}

/* Leaves the socket at CHILD_SOCKET and nothing else but a standard input, output and error that go nowhere. */
static int child_descriptors(int socket)
{
        int null, high;

        high = fcntl(socket, F_DUPFD_CLOEXEC, CHILD_SOCKET);
        if (high < 0)
                return -errno;
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0)
                null = open("/", O_PATH | O_CLOEXEC); /* reads and writes fail, which is as good */
        if (null < 0)
                return -errno;
        /* dup2() onto itself would keep O_CLOEXEC, which is all the same here. */
        for (int fd = 0; fd < CHILD_SOCKET; fd++)
                if (dup2(null, fd) < 0)
                        return -errno;
        if (high != CHILD_SOCKET && dup3(high, CHILD_SOCKET, O_CLOEXEC) < 0)
                return -errno;
        return close_from(CHILD_SOCKET + 1);
}

static void child_signals(void)
{
        struct sigaction action = { .sa_handler = SIG_DFL };
        sigset_t none;

        for (int sig = 1; sig < NSIG; sig++)
                (void)sigaction(sig, &action, NULL); /* SIGKILL, SIGSTOP and libc's own refuse */
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void child_run(gf_child_main child_main, void *userdata, int socket, pid_t parent)
{
        struct rlimit no_core = { 0 };
        char go;

        /* A terminal's Ctrl-C is for the parent, which still wants to ask what became of the memory. */
        (void)setsid();
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || child_descriptors(socket) < 0)
                _exit(127);
        (void)setrlimit(RLIMIT_CORE, &no_core); /* a crash of the driver's library is reported, not dumped */
        child_signals();
        /* The parent may have died before the death signal was set: it is another one then (0: another PID namespace).
         */
        if (getppid() != parent && getppid() != 0)
                _exit(127);
        /* Until the parent has its pidfd, this child must not end: its PID could be somebody else's by then. */
        if (recv(CHILD_SOCKET, &go, 1, 0) != 1)
                _exit(127);
        _exit(child_main(CHILD_SOCKET, userdata));
}

/* Field 22 of /proc/PID/stat; 0 unknown. */
static uint64_t read_start_ticks(pid_t pid)
{
        _cleanup_close_ int fd = -1;
        char path[64], buf[2048], *p, *save = NULL;
        uint64_t ticks = 0;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return 0;
        n = read(fd, buf, sizeof(buf) - 1);
        if (n <= 0)
                return 0;
        buf[n] = '\0';
        p = strrchr(buf, ')'); /* comm may hold anything */
        if (!p)
                return 0;
        p = strtok_r(p + 1, " ", &save);
        for (int field = 3; p && field < 22; field++)
                p = strtok_r(NULL, " ", &save);
        return p && gf_parse_u64(p, &ticks) == 0 ? ticks : 0;
}

/* Forks with signals blocked, so that no handler of the parent's runs in the child. */
static pid_t fork_quietly(void)
{
        sigset_t all, saved;
        int error;
        pid_t pid;

        (void)sigfillset(&all);
        if (pthread_sigmask(SIG_SETMASK, &all, &saved) != 0)
                return -1;
        pid = fork();
        if (pid == 0)
                return 0; /* child_signals() opens the mask again */
        error = errno;
        (void)pthread_sigmask(SIG_SETMASK, &saved, NULL);
        errno = error;
        return pid;
}

int gf_child_start(gf_child_main main, void *userdata, struct gf_child *ret_child)
{
        struct gf_child child = { .pidfd = -1, .socket = -1 };
        _cleanup_close_ int ours = -1, theirs = -1;
        int pair[2], r;
        pid_t parent = getpid();

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        ours = pair[0];
        theirs = pair[1];
        child.pid = fork_quietly();
        if (child.pid < 0)
                return -errno;
        if (child.pid == 0)
                child_run(main, userdata, theirs, parent);
        theirs = gf_close(theirs);
        child.socket = TAKE_FD(ours);
        child.pidfd = (int)syscall(SYS_pidfd_open, child.pid, 0U);
        r = child.pidfd < 0 ? -errno : 0;
        if (r == 0) {
                child.start_ticks = read_start_ticks(child.pid);
                r = gf_child_send(&child, "", 1);
        }
        if (r < 0) {
                gf_child_stop(&child); /* it ends by itself when its socket closes */
                return r;
        }
        *ret_child = child;
        return 0;
}

int gf_child_send(struct gf_child *child, const void *data, size_t length)
{
        if (child->socket < 0)
                return -EPIPE;
        for (;;) {
                ssize_t n = send(child->socket, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n >= 0)
                        return 0;
                if (errno == EINTR)
                        continue;
                return errno == ECONNRESET || errno == ENOTCONN ? -EPIPE : -errno;
        }
}

/* One message that is there: its length, 0 at the end, -EAGAIN when none is. */
static ssize_t receive_now(int socket, void *data, size_t size)
{
        for (;;) {
                ssize_t n = recv(socket, data, size, MSG_DONTWAIT | MSG_TRUNC);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == ECONNRESET ? 0 : -errno;
                return (size_t)n > size ? -EMSGSIZE : n;
        }
}

ssize_t gf_child_receive(struct gf_child *child, void *data, size_t size, uint64_t deadline, int cancel_fd)
{
        if (child->socket < 0)
                return 0;
        for (;;) {
                struct pollfd fds[] = {
                        { .fd = child->socket, .events = POLLIN },
                        { .fd = cancel_fd, .events = POLLIN },
                };
                ssize_t n;
                int r;

                r = poll(fds, ELEMENTSOF(fds), gf_deadline_poll_ms(deadline));
                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return -errno;
                if (fds[1].revents & POLLNVAL)
                        return -EBADF;
                if (fds[1].revents)
                        return -ECANCELED;
                if (fds[0].revents) {
                        n = receive_now(child->socket, data, size);
                        if (n != -EAGAIN)
                                return n;
                }
                if (gf_deadline_left(deadline) == 0)
                        return -ETIMEDOUT;
        }
}

/* Readable means ended. */
static bool ended_within(int pidfd, uint64_t ms)
{
        struct pollfd wait = { .fd = pidfd, .events = POLLIN };
        uint64_t deadline = gf_deadline_in(ms);
        int r;

        do
                r = poll(&wait, 1, gf_deadline_poll_ms(deadline));
        while (r < 0 && errno == EINTR);
        return r > 0;
}

void gf_child_stop(struct gf_child *child)
{
        siginfo_t info = { 0 };
        int r = -1;

        if (child->pidfd >= 0)
                (void)syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0U);
        child->socket = gf_close(child->socket);
        if (child->pidfd >= 0 && ended_within(child->pidfd, REAP_MS))
                r = waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOHANG);
        else if (child->pidfd < 0 && child->pid > 0)
                r = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG);
        /* ECHILD: reaped by somebody else, as where SIGCHLD is ignored. */
        if ((r == 0 && info.si_pid > 0) || (r < 0 && errno == ECHILD)) {
                child->pid = 0;
                child->start_ticks = 0;
        }
        child->pidfd = gf_close(child->pidfd);
}

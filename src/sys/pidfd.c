/* SPDX-License-Identifier: MIT */
#include "sys/pidfd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/num.h"
#include "sys/pidstat.h"
#include "sys/procfs.h"

/* The numbers are the same on every architecture. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/*
 * Which PID does the descriptor's process have in the PID namespace of this /proc? A /proc of another namespace
 * numbers processes otherwise than pidfd_open() does: its PID 100 is not ours, and the start time read there would
 * seem to fit. *ret_pid -1: it has ended and was reaped.
 */
static int pid_of_pidfd(struct gf_env *env, int pidfd, int64_t *ret_pid)
{
        _cleanup_free_ char *path = NULL, *text = NULL;
        char *at, *save = NULL;
        uint32_t pid;
        int r;

        path = gf_asprintf("%s/thread-self/fdinfo/%d", env->proc_root ? env->proc_root : "/proc", pidfd);
        if (!path)
                return -ENOMEM;
        r = gf_read_file(AT_FDCWD, path, 16384, &text, NULL);
        if (r < 0)
                return r;
        for (at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
                if (!gf_startswith(at, "Pid:"))
                        continue;
                at += strlen("Pid:");
                at += strspn(at, "\t ");
                if (strcmp(at, "-1") == 0) {
                        *ret_pid = -1;
                        return 0;
                }
                if (gf_parse_u32(at, &pid) < 0)
                        return -EBADMSG;
                *ret_pid = pid;
                return 0;
        }
        return -EBADMSG;
}

static int is_that_process(struct gf_env *env, int pidfd, const struct gf_ident *id)
{
        struct gf_pidstat stat;
        int64_t pid = 0;
        int r;

        r = pid_of_pidfd(env, pidfd, &pid);
        if (r < 0)
                return r;
        if (pid < 0)
                return -ESRCH;
        if (pid != id->pid)
                return -EXDEV;
        r = gf_pidstat_of(env, id, &stat);
        /* Another start time: a successor with the same PID. No entry at all while the process lives: /proc hides it.
         */
        if (r == -ESRCH && gf_pidstat_read(env, id->pid, &stat) == -ESRCH && gf_pidfd_ended(pidfd) == 0)
                return -EACCES;
        return r;
}

int gf_pidfd_pin(struct gf_env *env, const struct gf_ident *id)
{
        _cleanup_close_ int fd = -1;
        int r;

        if (id->pid <= 0 || id->start_ticks == 0)
                return -EINVAL;
        /* The thread-group leader's descriptor, also when the leader is a zombie: it lives until its last thread ends.
         */
        fd = (int)syscall(SYS_pidfd_open, id->pid, 0);
        if (fd < 0)
                return -errno;
        /* pidfd_open() sets it on every kernel so far; a descriptor that leaks into a child would be ours to answer
         * for. */
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                return -errno;
        r = is_that_process(env, fd, id);
        if (r < 0)
                return r;
        return TAKE_FD(fd);
}

int gf_pidfd_signal(int pidfd, int signal)
{
        if (syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0) < 0)
                return -errno;
        return 0;
}

int gf_pidfd_ended(int pidfd)
{
        struct pollfd p = { .fd = pidfd, .events = POLLIN };
        int r;

        do
                r = poll(&p, 1, 0);
        while (r < 0 && errno == EINTR);
        if (r < 0)
                return -errno;
        if (p.revents & POLLNVAL)
                return -EBADF;
        return r > 0 && (p.revents & (POLLIN | POLLHUP)) ? 1 : 0;
}

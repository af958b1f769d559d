/* SPDX-License-Identifier: MIT */
#include "sys/pidwait.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "sys/clock.h"

int gf_pidfds_wait(const int *pidfds, size_t n, uint64_t deadline, int cancel_fd)
{
        _cleanup_free_ struct pollfd *p = calloc(n + 1, sizeof(*p));

        if (!p)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                p[i] = (struct pollfd){ .fd = pidfds[i], .events = POLLIN };
        /* poll() passes over negative descriptors. */
        p[n] = (struct pollfd){ .fd = cancel_fd, .events = POLLIN };
        for (;;) {
                int r = poll(p, n + 1, gf_deadline_poll_ms(deadline));

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return -errno;
                if (cancel_fd >= 0 && p[n].revents)
                        return -ECANCELED;
                for (size_t i = 0; i < n; i++)
                        if (p[i].revents & POLLNVAL)
                                return -EBADF;
                if (r > 0)
                        return 1;
                if (gf_deadline_left(deadline) == 0)
                        return 0;
        }
}

int gf_cancelled(int cancel_fd)
{
        return gf_pidfds_wait(NULL, 0, 0, cancel_fd) == -ECANCELED;
}

static size_t open_descriptors(void)
{
        _cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        if (!dir)
                return 64;
        while (readdir(dir))
                n++;
        return n > 3 ? n - 3 : 0; /* ".", ".." and the directory itself */
}

size_t gf_descriptor_room(void)
{
        const size_t most = 8192;
        struct rlimit limit;
        size_t used, room;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return 16;
        if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > 4 * most)
                return most;
        used = open_descriptors();
        room = limit.rlim_cur > used ? ((size_t)limit.rlim_cur - used) / 2 : 0;
        if (room > most)
                return most;
        return room > 0 ? room : 1;
}

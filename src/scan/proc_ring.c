/* SPDX-License-Identifier: MIT */
#include "scan/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "parse/fdinfo.h"
#include "parse/text.h"

#define PATH_BYTES 4096
/* A ring's fdinfo also prints its queues; beyond this it is not read on. */
#define RING_TEXT_MAX (16U * 1024 * 1024)

/*
 * Opens for naming only (O_PATH). From the kernel's cache of names first: the file asked about is open, so all the
 * names on the way are there, and a hung file system is not asked.
 */
static int open_named(int rootfd, const char *path)
{
        struct open_how how = {
                .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                .resolve = RESOLVE_CACHED | RESOLVE_IN_ROOT,
        };
        int fd;

        for (unsigned i = 0; i < 3; i++) {
                fd = (int)syscall(SYS_openat2, rootfd, path, &how, sizeof(how));
                if (fd >= 0)
                        return fd;
                if (errno != EAGAIN)
                        break;
        }
        if (errno != EAGAIN && errno != ENOSYS && errno != EINVAL && errno != EPERM)
                return -errno;
        /* Not in the cache, or an old kernel: the slow way, watched over as all workers are. */
        while (*path == '/')
                path++;
        fd = openat(rootfd, *path ? path : ".", O_PATH | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int resolve_in(struct gf_proc_worker *w, int rootfd, const char *path, struct gf_hit *hit)
{
        _cleanup_close_ int fd = -1;
        struct statx sx;
        int r;

        fd = open_named(rootfd, path);
        if (fd < 0)
                return fd;
        r = gf_statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_NLINK, &sx);
        if (r < 0)
                return r;
        if (!gf_proc_wants(w->job, &sx, &hit->rdev, &hit->block))
                return 0;
        hit->node_dev = makedev(sx.stx_dev_major, sx.stx_dev_minor);
        hit->node_ino = sx.stx_ino;
        hit->unlinked = sx.stx_nlink == 0;
        return 1;
}

int gf_proc_resolve(struct gf_proc_worker *w, const char *path, struct gf_hit *hit)
{
        int theirs = -ENOENT, ours;

        if (w->rootfd < 0)
                w->rootfd = openat(w->dirfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (w->rootfd >= 0)
                theirs = resolve_in(w, w->rootfd, path, hit);
        if (theirs > 0)
                return theirs;
        /* A process under chroot: /proc prints the path as we see it. */
        ours = resolve_in(w, w->job->rootfd, path, hit);
        if (ours > 0)
                return ours;
        return theirs == 0 || ours == 0 ? 0 : -ENOENT;
}

/* Old kernels print the last part of the name alone: the places where device nodes live. */
static int resolve_bare(struct gf_proc_worker *w, const char *name, struct gf_hit *hit)
{
        static const char *const places[] = {
                "/dev/", "/dev/dri/", "/dev/accel/", "/dev/vfio/", "/dev/vfio/devices/", "/dev/nvidia-caps/",
        };
        char path[PATH_BYTES];

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                int n = snprintf(path, sizeof(path), "%s%s", places[i], name);

                if (n > 0 && (size_t)n < sizeof(path) && gf_proc_resolve(w, path, hit) > 0)
                        return 1;
        }
        return 0;
}

static bool is_plain_memory(const char *path)
{
        return gf_startswith(path, "/memfd:") || gf_startswith(path, "/dev/shm/") || gf_startswith(path, "/SYSV") ||
               gf_startswith(path, "/dev/zero ") || gf_startswith(path, "/anon_hugepage ") || gf_startswith(path, "/#");
}

/* One registered file. True: what it is cannot be told. */
static bool registered(struct gf_proc_worker *w, const char *escaped, size_t length, struct gf_hit hit)
{
        char path[PATH_BYTES];
        int r;

        if (!gf_text_unescape(escaped, length, path, sizeof(path)))
                return true;
        if (gf_startswith(path, "/dmabuf:"))
                return w->job->dmabufs;
        if (path[0] == '/')
                r = gf_proc_resolve(w, path, &hit);
        else if (strchr(path, ':'))
                return false; /* socket:[1], pipe:[2], anon_inode:[eventfd] */
        else
                r = resolve_bare(w, path, &hit);
        if (r > 0)
                gf_proc_hit(w, &hit);
        return r < 0 && !is_plain_memory(path);
}

/* 1: read; 0: the ring was busy; -errno. */
static int read_ring(struct gf_proc_worker *w, int fd, const struct gf_hit *hit, bool *ret_opaque)
{
        struct gf_ring_text ring = { 0 };
        size_t have = 0, total = 0;
        bool opaque = false;

        for (;;) {
                ssize_t k = read(fd, w->text + have, GF_PROC_BUFFER - have);
                struct gf_text t, line;

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                gf_proc_beat(w);
                have += (size_t)k;
                total += (size_t)k;
                t = (struct gf_text){ w->text, w->text + have };
                while (t.p < t.end && (k == 0 || memchr(t.p, '\n', (size_t)(t.end - t.p)))) {
                        const char *name;
                        size_t n;

                        (void)gf_text_line(&t, &line);
                        if (gf_ring_line(&ring, line.p, (size_t)(line.end - line.p), &name, &n))
                                opaque = registered(w, name, n, *hit) || opaque;
                }
                have = (size_t)(t.end - t.p);
                memmove(w->text, t.p, have);
                if (k == 0 || have == GF_PROC_BUFFER || total > RING_TEXT_MAX)
                        break;
        }
        *ret_opaque = opaque || total > RING_TEXT_MAX || have > 0;
        if (!ring.seen)
                return 0;
        return ring.slots == 0 || ring.lines > 0;
}

void gf_proc_ring(struct gf_proc_worker *w, const char *fdinfo, pid_t tid, int fd, uint64_t ino)
{
        struct gf_hit hit = { .tid = tid, .via = GPUFREE_VIA_IO_URING, .fd = fd, .bytes = GPUFREE_UNKNOWN };
        bool opaque = true, seen = false;

        /* A ring that is in use at this moment leaves its files out: ask again. An empty table looks the same. */
        for (unsigned i = 0; i < 4; i++) {
                _cleanup_close_ int info = openat(w->dirfd, fdinfo, O_RDONLY | O_CLOEXEC);
                int r;

                if (info < 0)
                        break;
                r = read_ring(w, info, &hit, &opaque);
                if (r < 0)
                        break;
                seen = true;
                if (r > 0)
                        break;
                (void)sched_yield();
        }
        if (seen ? opaque : !w->gone)
                gf_proc_note_opaque(w, ino);
}

/* SPDX-License-Identifier: MIT */
#include "scan/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "parse/fdinfo.h"

#ifndef SYS_getxattrat
#define SYS_getxattrat 464
#endif

/* The kernel's struct xattr_args. */
struct xattr_args {
        uint64_t value;
        uint32_t size, flags;
};

#define FDINFO_MAX 4096

int gf_proc_statx(int dirfd, const char *name, struct statx *ret)
{
        const int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;
        int r;

        r = gf_statx(dirfd, name, flags, STATX_TYPE | STATX_INO | STATX_NLINK, ret);
        if (r != -EACCES)
                return r;
        /*
         * A FUSE file system of another user answers EACCES even to root, unless nothing is asked. Such a mount is
         * never allowed device files.
         */
        r = gf_statx(dirfd, name, flags, 0, ret);
        if (r < 0)
                return -EACCES;
        ret->stx_mode = S_IFREG;
        ret->stx_ino = 0;
        ret->stx_nlink = 1;
        return 0;
}

bool gf_proc_link_deleted(int dirfd, const char *name)
{
        static const char mark[] = " (deleted)";
        char target[4096];
        ssize_t n;

        n = readlinkat(dirfd, name, target, sizeof(target));
        return n >= (ssize_t)sizeof(mark) - 1 && memcmp(target + n - (sizeof(mark) - 1), mark, sizeof(mark) - 1) == 0;
}

/* One descriptor while it is looked at. */
struct fd_at {
        int dir;          /* the "fd" directory */
        const char *name; /* its number as text */
        const char *prefix;
        pid_t tid;
        int fd;
};

/* fdinfo is one record: a first read has all of it that fits, and a second one would only say that this was the end. */
static ssize_t read_at_once(int dirfd, const char *path, char *buf, size_t size)
{
        _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        ssize_t n;

        if (fd < 0)
                return -errno;
        do
                n = read(fd, buf, size);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

static int read_fdinfo(struct gf_proc_worker *w, const struct fd_at *at, struct gf_fdinfo *ret)
{
        char path[64], text[FDINFO_MAX];
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%sfdinfo/%d", at->prefix, at->fd);
        n = read_at_once(w->dirfd, path, text, sizeof(text));
        if (n < 0)
                return (int)n;
        gf_parse_fdinfo(text, (size_t)n, ret);
        return 0;
}

/*
 * Was it opened with O_PATH? The link's own permissions say whether the file is open for reading or writing; with
 * neither, fdinfo tells O_PATH from the rare access mode 3. fdinfo is not asked first: it calls into the driver.
 */
static bool is_o_path(struct gf_proc_worker *w, const struct fd_at *at)
{
        struct gf_fdinfo info;
        struct statx sx;

        if (gf_statx(at->dir, at->name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_MODE, &sx) < 0)
                return false;
        if (sx.stx_mode & (S_IRUSR | S_IWUSR))
                return false;
        return read_fdinfo(w, at, &info) == 0 && gf_fdinfo_o_path(&info);
}

static void device(struct gf_proc_worker *w, const struct fd_at *at, const struct statx *sx)
{
        struct gf_hit hit = { .tid = at->tid, .via = GPUFREE_VIA_FD, .fd = at->fd, .bytes = GPUFREE_UNKNOWN };

        if (!gf_proc_wants(w->job, sx, &hit.rdev, &hit.block) || is_o_path(w, at))
                return;
        hit.node_dev = makedev(sx->stx_dev_major, sx->stx_dev_minor);
        hit.node_ino = sx->stx_ino;
        hit.unlinked = sx->stx_nlink == 0 || gf_proc_link_deleted(at->dir, at->name);
        gf_proc_hit(w, &hit);
}

/* UNIX sockets alone carry descriptors; the protocol's name costs a fraction of what fdinfo does. */
static bool maybe_unix(struct gf_proc_worker *w, const struct fd_at *at)
{
        static const char attribute[] = "system.sockprotoname";
        char name[32] = "", path[64 + 4096];
        ssize_t n = -1;

        if (!atomic_load_explicit(&w->job->no_xattrat, memory_order_relaxed)) {
                struct xattr_args args = { .value = (uintptr_t)name, .size = sizeof(name) - 1 };

                n = syscall(SYS_getxattrat, at->dir, at->name, 0, attribute, &args, sizeof(args));
                if (n < 0 && (errno == ENOSYS || errno == EPERM))
                        atomic_store_explicit(&w->job->no_xattrat, true, memory_order_relaxed);
                else if (n < 0)
                        return errno != ENOENT && errno != ESRCH;
        }
        if (n < 0) {
                int k = snprintf(path, sizeof(path), "%s/self/fd/%d/%s", w->job->root, at->dir, at->name);

                if (k < 0 || (size_t)k >= sizeof(path))
                        return true;
                n = getxattr(path, attribute, name, sizeof(name) - 1);
        }
        return n < 0 || gf_startswith(name, "UNIX");
}

static void socket_queue(struct gf_proc_worker *w, const struct fd_at *at, const struct statx *sx)
{
        struct gf_fdinfo info;

        if (!maybe_unix(w, at))
                return;
        if (read_fdinfo(w, at, &info) == 0 && info.scm_fds > 0)
                gf_proc_note_opaque(w, sx->stx_ino);
}

static void dmabuf(struct gf_proc_worker *w, const struct fd_at *at, const struct statx *sx)
{
        struct gf_hit hit = { .tid = at->tid, .via = GPUFREE_VIA_DMABUF, .fd = at->fd, .bytes = GPUFREE_UNKNOWN };
        struct gf_fdinfo info;

        if (!w->job->dmabufs)
                return;
        hit.node_dev = makedev(sx->stx_dev_major, sx->stx_dev_minor);
        hit.node_ino = sx->stx_ino;
        if (read_fdinfo(w, at, &info) == 0) {
                hit.bytes = info.size;
                memcpy(hit.exporter, info.exporter, sizeof(hit.exporter));
        }
        gf_proc_hit(w, &hit);
}

/* A file without a type: an anonymous inode, whose link says what it is. */
static void anonymous(struct gf_proc_worker *w, const struct fd_at *at, const struct statx *sx)
{
        const struct gf_proc_job *job = w->job;
        char target[64], path[64];
        ssize_t n;

        if (job->anon_known && sx->stx_ino == job->anon_ino && sx->stx_dev_major == job->anon_major &&
            sx->stx_dev_minor == job->anon_minor)
                return;
        n = readlinkat(at->dir, at->name, target, sizeof(target) - 1);
        if (n <= 0)
                return;
        target[n] = '\0';
        if (gf_startswith(target, "/dmabuf:") || gf_startswith(target, "anon_inode:dmabuf")) {
                dmabuf(w, at, sx);
        } else if (gf_startswith(target, "anon_inode:[io_uring]")) {
                uint64_t *ring = gf_vec_add(&w->rings);

                if (!ring) {
                        w->error = -ENOMEM;
                        return;
                }
                *ring = sx->stx_ino;
                (void)snprintf(path, sizeof(path), "%sfdinfo/%d", at->prefix, at->fd);
                gf_proc_ring(w, path, at->tid, at->fd, sx->stx_ino);
        }
}

static int descriptor(struct gf_proc_worker *w, const struct fd_at *at)
{
        struct statx sx;
        int r;

        r = gf_proc_statx(at->dir, at->name, &sx);
        if (r == -ENOENT || r == -ESRCH)
                return 0; /* closed meanwhile */
        if (r < 0)
                return r;
        switch (sx.stx_mode & S_IFMT) {
        case S_IFCHR:
        case S_IFBLK:
                device(w, at, &sx);
                break;
        case S_IFSOCK:
                socket_queue(w, at, &sx);
                break;
        case 0:
                anonymous(w, at, &sx);
                break;
        default:
                break;
        }
        return 0;
}

void gf_proc_table(struct gf_proc_worker *w, const char *prefix, pid_t tid)
{
        _cleanup_close_ int dir = -1;
        struct gf_dirwalk walk;
        const char *name;
        uint32_t fd;
        char path[64];
        int r;

        (void)snprintf(path, sizeof(path), "%sfd", prefix);
        dir = gf_open_dir(w->dirfd, path);
        if (dir < 0) {
                gf_proc_refuse(w, dir, "fd");
                return;
        }
        gf_dirwalk_init(&walk, dir, w->names, GF_PROC_BUFFER);
        while ((r = gf_dirwalk_next_number(&walk, &fd, &name)) > 0) {
                struct fd_at at = { .dir = dir, .name = name, .prefix = prefix, .tid = tid, .fd = (int)fd };

                gf_proc_beat(w);
                r = descriptor(w, &at);
                if (r < 0) {
                        gf_proc_refuse(w, r, "fd");
                        if (r == -EACCES || r == -EPERM)
                                break; /* the others say the same */
                }
                if (w->error < 0)
                        return;
        }
        if (r < 0)
                gf_proc_refuse(w, r, "fd");
}

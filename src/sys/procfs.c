/* SPDX-License-Identifier: MIT */
#include "sys/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"

#define LINK_MAX_BYTES (64U * 1024)

static int open_retry(int dirfd, const char *path, int flags)
{
        int fd;

        do
                fd = openat(dirfd, path, flags | O_CLOEXEC);
        while (fd < 0 && errno == EINTR);
        return fd < 0 ? -errno : fd;
}

static ssize_t read_retry(int fd, void *buf, size_t size)
{
        ssize_t n;

        do
                n = read(fd, buf, size);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

int gf_open_dir(int dirfd, const char *path)
{
        return open_retry(dirfd, path, O_RDONLY | O_DIRECTORY);
}

int gf_open_proc(struct gf_env *env)
{
        _cleanup_close_ int fd = -1;
        struct statfs fs;
        char self[32];

        fd = gf_open_dir(AT_FDCWD, env->proc_root);
        if (fd == -ENOENT || fd == -ENOTDIR)
                return gf_fail(env, -ENOENT, "%s: there is no such directory; mount it: mount -t proc proc %s",
                               env->proc_root, env->proc_root);
        if (fd < 0)
                return gf_fail(env, fd, "open %s: %s", env->proc_root, strerror(-fd));
        if (fstatfs(fd, &fs) < 0)
                return gf_fail(env, -errno, "statfs %s: %s", env->proc_root, strerror(errno));
        if ((unsigned long)fs.f_type != PROC_SUPER_MAGIC)
                return gf_fail(env, -ENOENT, "%s: no procfs is mounted there; mount it: mount -t proc proc %s",
                               env->proc_root, env->proc_root);
        if (readlinkat(fd, "self", self, sizeof(self)) <= 0)
                return gf_fail(env, -ENOENT,
                               "%s: it shows another PID namespace, not the one gpufree runs in; mount its own: "
                               "mount -t proc proc %s",
                               env->proc_root, env->proc_root);
        return TAKE_FD(fd);
}

int gf_read_file(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_length)
{
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *text = NULL;
        size_t n = 0, cap = 0;

        /* O_NONBLOCK: a FIFO put where a file should be must not stop us. */
        fd = open_retry(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return fd;
        for (;;) {
                ssize_t k;

                if (cap - n < 2) {
                        size_t want = cap ? cap * 2 : 4096;
                        char *grown;

                        /* One byte more than allowed tells "just fits" from "there is more"; one for the NUL. */
                        if (want > max + 2)
                                want = max + 2;
                        grown = realloc(text, want);
                        if (!grown)
                                return -ENOMEM;
                        text = grown;
                        cap = want;
                }
                k = read_retry(fd, text + n, cap - n - 1);
                if (k < 0)
                        return (int)k;
                if (k == 0)
                        break;
                n += (size_t)k;
                if (n > max)
                        return -EFBIG;
        }
        text[n] = '\0';
        *ret_text = TAKE(text);
        if (ret_length)
                *ret_length = n;
        return 0;
}

ssize_t gf_read_head(int dirfd, const char *path, char *buf, size_t size)
{
        _cleanup_close_ int fd = -1;
        size_t n = 0;

        fd = open_retry(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return fd;
        while (n < size) {
                ssize_t k = read_retry(fd, buf + n, size - n);

                if (k < 0)
                        return k;
                if (k == 0)
                        break;
                n += (size_t)k;
        }
        return (ssize_t)n;
}

int gf_read_link(int dirfd, const char *path, char **ret_target)
{
        for (size_t size = 256; size <= LINK_MAX_BYTES; size *= 4) {
                _cleanup_free_ char *target = malloc(size);
                ssize_t n;

                if (!target)
                        return -ENOMEM;
                n = readlinkat(dirfd, path, target, size);
                if (n < 0)
                        return -errno;
                if ((size_t)n < size) {
                        target[n] = '\0';
                        *ret_target = TAKE(target);
                        return 0;
                }
        }
        return -ENAMETOOLONG;
}

int gf_statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *ret)
{
        return syscall(SYS_statx, dirfd, path, flags, mask, ret) < 0 ? -errno : 0;
}

void gf_dirwalk_init(struct gf_dirwalk *walk, int fd, char *buf, size_t size)
{
        *walk = (struct gf_dirwalk){ .fd = fd, .buf = buf, .size = size };
}

/* What getdents64 writes; the C library's struct dirent64 has a name of fixed size. */
struct entry {
        uint64_t ino;
        int64_t off;
        uint16_t reclen;
        uint8_t type;
        char name[];
};

int gf_dirwalk_next(struct gf_dirwalk *walk, const char **ret_name)
{
        for (;;) {
                const char *record, *name;
                uint16_t reclen;

                if (walk->at >= walk->fill) {
                        long k;

                        if (walk->eof)
                                return 0;
                        k = syscall(SYS_getdents64, walk->fd, walk->buf, walk->size);
                        if (k < 0)
                                return -errno;
                        walk->fill = (size_t)k;
                        walk->at = 0;
                        walk->eof = k == 0;
                        continue;
                }
                record = walk->buf + walk->at;
                memcpy(&reclen, record + offsetof(struct entry, reclen), sizeof(reclen));
                name = record + offsetof(struct entry, name);
                walk->at += reclen;
                if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                        continue;
                *ret_name = name;
                return 1;
        }
}

int gf_dirwalk_next_number(struct gf_dirwalk *walk, uint32_t *ret_number, const char **ret_name)
{
        const char *name;
        uint32_t number;
        int r;

        while ((r = gf_dirwalk_next(walk, &name)) > 0) {
                if (gf_parse_u32(name, &number) < 0)
                        continue;
                *ret_number = number;
                if (ret_name)
                        *ret_name = name;
                return 1;
        }
        return r;
}

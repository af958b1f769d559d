/* SPDX-License-Identifier: MIT */
#include "sys/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"

int gf_open_dir(int dirfd, const char *path)
{
        int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

int gf_read_file(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_length)
{
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *buf = NULL;
        size_t fill = 0;

        fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        buf = malloc(max + 2);
        if (!buf)
                return -ENOMEM;
        for (;;) {
                ssize_t n = read(fd, buf + fill, max + 1 - fill);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                fill += (size_t)n;
                if (fill > max)
                        return -EFBIG;
        }
        buf[fill] = '\0';
        if (ret_length)
                *ret_length = fill;
        *ret_text = TAKE(buf);
        return 0;
}

int gf_read_link(int dirfd, const char *path, char **ret_target)
{
        _cleanup_free_ char *buf = malloc(65536);
        ssize_t n;

        if (!buf)
                return -ENOMEM;
        n = readlinkat(dirfd, path, buf, 65535);
        if (n < 0)
                return -errno;
        buf[n] = '\0';
        *ret_target = TAKE(buf);
        return 0;
}

void gf_dirwalk_init(struct gf_dirwalk *walk, int fd, char *buf, size_t size)
{
        *walk = (struct gf_dirwalk){ .fd = fd, .buf = buf, .size = size };
}

struct dirent_head {
        uint64_t ino;
        int64_t off;
        unsigned short reclen;
        unsigned char type;
        char name[];
};

int gf_dirwalk_next(struct gf_dirwalk *walk, const char **ret_name)
{
        for (;;) {
                const struct dirent_head *entry;

                if (walk->at >= walk->fill) {
                        ssize_t n = getdents64(walk->fd, walk->buf, walk->size);

                        if (n < 0)
                                return -errno;
                        if (n == 0)
                                return 0;
                        walk->fill = (size_t)n;
                        walk->at = 0;
                }
                entry = (const void *)(walk->buf + walk->at);
                walk->at += entry->reclen;
                if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0)
                        continue;
                *ret_name = entry->name;
                return 1;
        }
}

int gf_dirwalk_next_number(struct gf_dirwalk *walk, uint32_t *ret_number, const char **ret_name)
{
        const char *name;
        int r;

        while ((r = gf_dirwalk_next(walk, &name)) > 0) {
                if (gf_parse_u32(name, ret_number) < 0)
                        continue;
                if (ret_name)
                        *ret_name = name;
                return 1;
        }
        return r;
}

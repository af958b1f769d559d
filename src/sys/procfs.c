/* SPDX-License-Identifier: MIT */
#include "sys/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/num.h"
#include "base/str.h"

int gf_open_dir(int dirfd, const char *path)
{
        int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

int gf_read_file(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_length)
{
        _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct gf_str text = { 0 };
        size_t length;
        int r;

        if (fd < 0)
                return -errno;
        for (;;) {
                char buf[4096];
                ssize_t n = read(fd, buf, sizeof(buf));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 || text.n + (size_t)n > max) {
                        r = n < 0 ? -errno : -EFBIG;
                        gf_str_done(&text);
                        return r;
                }
                if (n == 0)
                        break;
                gf_str_addn(&text, buf, (size_t)n);
        }
        length = text.n;
        r = gf_str_take(&text, ret_text);
        if (r == 0 && ret_length)
                *ret_length = length;
        return r;
}

void gf_dirwalk_init(struct gf_dirwalk *walk, int fd, char *buf, size_t size)
{
        *walk = (struct gf_dirwalk){ .fd = fd, .buf = buf, .size = size };
}

int gf_dirwalk_next(struct gf_dirwalk *walk, const char **ret_name)
{
        for (;;) {
                struct dirent64 *entry;

                if (walk->at >= walk->fill) {
                        long n = walk->eof ? 0 : syscall(SYS_getdents64, walk->fd, walk->buf, walk->size);

                        if (n < 0)
                                return -errno;
                        walk->eof = n == 0;
                        if (walk->eof)
                                return 0;
                        walk->fill = (size_t)n;
                        walk->at = 0;
                }
                entry = (struct dirent64 *)(void *)(walk->buf + walk->at);
                walk->at += entry->d_reclen;
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                *ret_name = entry->d_name;
                return 1;
        }
}

int gf_dirwalk_next_number(struct gf_dirwalk *walk, uint32_t *ret_number, const char **ret_name)
{
        const char *name;
        int r;

        do {
                r = gf_dirwalk_next(walk, &name);
                if (r <= 0)
                        return r;
        } while (gf_parse_u32(name, ret_number) < 0);
        if (ret_name)
                *ret_name = name;
        return 1;
}

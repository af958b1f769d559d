/* SPDX-License-Identifier: MIT */
#include "sys/procfs.h"

#include <errno.h>
#include <fcntl.h>

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

/* SPDX-License-Identifier: MIT */
/* The kernel log. Reading it from its beginning never waits (O_NONBLOCK) and takes nothing away from other readers. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "explain/xid.h"
#include "gpufree.h"
#include "sys/clock.h"

#define RECORD_MAX 8192 /* the kernel's own limit of a record */
#define READ_MS 2000
#define MOST_KEPT 64

static int note_error(struct gf_kernel_log *log, const char *path, int error)
{
        if (error == EPERM || error == EACCES)
                log->error = gf_asprintf("The kernel log is not readable here (%s: %s): run as root to see it.", path,
                                         strerror(error));
        else
                log->error = gf_asprintf("The kernel log could not be read (%s: %s).", path, strerror(error));
        return log->error ? 0 : -ENOMEM;
}

static int keep(gf_xids *list, struct gf_xid *xid)
{
        struct gf_xid *slot;

        if (list->n == MOST_KEPT) { /* the oldest goes */
                free(list->v[0].line);
                memmove(list->v, list->v + 1, (list->n - 1) * sizeof(list->v[0]));
                list->n--;
        }
        slot = gf_vec_add(list);
        if (!slot) {
                free(xid->line);
                return -ENOMEM;
        }
        *slot = *xid;
        return 0;
}

/* The device gives a record a read; a file that stands in for it, in a test, several. */
static int take_records(const char *buf, size_t n, struct gf_kernel_log *log)
{
        uint64_t now = gf_now_us();

        for (const char *at = buf, *end = buf + n; at < end;) {
                const char *newline = memchr(at, '\n', (size_t)(end - at));
                size_t length = (size_t)((newline ? newline + 1 : end) - at);
                struct gf_xid xid;
                int r = gf_xid_parse(at, length, &xid);

                if (r == 1) {
                        xid.age_ms = now > xid.time_us ? (now - xid.time_us) / 1000 : 0;
                        r = keep(&log->xids, &xid);
                }
                if (r < 0)
                        return r;
                at += length;
        }
        return 0;
}

static void latest_first(gf_xids *list)
{
        for (size_t i = 0; i < list->n / 2; i++) {
                struct gf_xid other = list->v[i];

                list->v[i] = list->v[list->n - 1 - i];
                list->v[list->n - 1 - i] = other;
        }
}

static int read_records(int fd, const char *path, struct gf_kernel_log *log)
{
        uint64_t deadline = gf_deadline_in(READ_MS);
        char buf[RECORD_MAX];

        while (gf_deadline_left(deadline) > 0) {
                ssize_t n = read(fd, buf, sizeof(buf));
                int r;

                if (n == 0 || (n < 0 && errno == EAGAIN))
                        return 0;
                if (n < 0 && (errno == EINTR || errno == EPIPE)) /* EPIPE: overwritten while we read; go on */
                        continue;
                if (n < 0)
                        return note_error(log, path, errno);
                r = take_records(buf, (size_t)n, log);
                if (r < 0)
                        return r;
        }
        log->error = gf_asprintf("The kernel log could not be read to its end within %d s.", READ_MS / 1000);
        return log->error ? 0 : -ENOMEM;
}

int gf_kernel_log_read(const char *path, struct gf_kernel_log *ret_log)
{
        _cleanup_(gf_kernel_log_done) struct gf_kernel_log log = { 0 };
        _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        int r = fd < 0 ? note_error(&log, path, errno) : read_records(fd, path, &log);

        if (r < 0)
                return r;
        latest_first(&log.xids);
        *ret_log = log;
        log = (struct gf_kernel_log){ 0 };
        return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * A check that nothing was missed: the kernel counts the open files of a device (bpf/watch.bpf.h), and the pass knows
 * which open files it met. A file that is open all through a pass and in no process is one that the look does not
 * explain: a request under way whose descriptor is closed, a process that is ending, a process that is hidden.
 *
 * The count is not taken at the moment of the walk, and descriptors wander: so what counts is the lower of the counts
 * before and after, and only what is missing in several looks in a row is said.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "scan/bpf_scan.h"

/* Two programs that do nothing but open and close the device look like a missed file in one look of four. */
#define LOOKS 10
#define PAUSE_MS 20 /* between looks: what a process that is ending needs to close its files */

struct gf_bpf_watch {
        size_t n;
        int fd[GF_BPF_WATCH_MAX];
        dev_t rdev[GF_BPF_WATCH_MAX];
        uint32_t missed[GF_BPF_WATCH_MAX];
};

struct gf_bpf_watch *gf_bpf_watch_free(struct gf_bpf_watch *watch)
{
        for (size_t i = 0; watch && i < watch->n; i++)
                (void)gf_close(watch->fd[i]);
        free(watch);
        return NULL;
}

int gf_bpf_watch_open(const struct gf_wanted *wanted, struct gf_bpf *bpf, struct gf_bpf_watch **ret_watch)
{
        _cleanup_(gf_bpf_watch_freep) struct gf_bpf_watch *watch = calloc(1, sizeof(*watch));

        if (!watch)
                return -ENOMEM;
        /* A look at a few processes is no look at everything. */
        for (size_t i = 0; !wanted->only && i < wanted->n_nodes && watch->n < GF_BPF_WATCH_MAX; i++) {
                int fd = open(wanted->nodes[i].path, O_PATH | O_CLOEXEC);
                struct stat st;

                if (fd < 0)
                        continue;
                if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != wanted->nodes[i].rdev) {
                        (void)gf_close(fd);
                        continue;
                }
                watch->fd[watch->n] = fd;
                watch->rdev[watch->n++] = st.st_rdev;
        }
        gf_bpf_watch_set(bpf, watch->fd, watch->n);
        *ret_watch = TAKE(watch);
        return 0;
}

static int compare_files(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return (x > y) - (x < y);
}

/* How many open files of a device are among the records from `from` on. UINT32_MAX: a process was not walked whole. */
static int count_files(const gf_bpf_records *records, size_t from, dev_t rdev, uint32_t *ret_n)
{
        _cleanup_free_ uint64_t *files = calloc(records->n - from + 1, sizeof(*files));
        uint32_t n = 0, kept = 0;

        if (!files)
                return -ENOMEM;
        for (size_t i = from; i < records->n; i++) {
                const struct gf_bpf_record *record = &records->v[i];

                if (record->kind == GF_BPF_LOOK) {
                        *ret_n = UINT32_MAX;
                        return 0;
                }
                if (record->flags & (GF_BPF_BLOCK | GF_BPF_DMABUF))
                        continue;
                if (makedev(record->rdev >> 20, record->rdev & 0xfffff) == rdev)
                        files[n++] = record->file;
        }
        if (n > 1)
                qsort(files, n, sizeof(*files), compare_files);
        for (uint32_t i = 0; i < n; i++)
                if (kept == 0 || files[kept - 1] != files[i])
                        files[kept++] = files[i];
        *ret_n = kept;
        return 0;
}

/* What the last pass, whose records begin at `from`, leaves open; 1: something is missing still. */
static int compare(struct gf_bpf_watch *watch, const struct gf_bpf *bpf, const gf_bpf_records *records, size_t from)
{
        int any = 0;

        for (size_t i = 0; i < watch->n; i++) {
                uint32_t opens, seen, missed = 0;
                int r;

                if (watch->missed[i] == 0 || !gf_bpf_watch_get(bpf, i, &opens) || opens == 0) {
                        watch->missed[i] = 0;
                        continue;
                }
                r = count_files(records, from, watch->rdev[i], &seen);
                if (r < 0)
                        return r;
                if (opens > seen)
                        missed = opens - seen;
                watch->missed[i] = missed < watch->missed[i] ? missed : watch->missed[i];
                any |= watch->missed[i] > 0;
        }
        return any;
}

int gf_bpf_watch_judge(struct gf_bpf_watch *watch, struct gf_bpf *bpf, int cancel_fd, gf_bpf_records *records,
                       struct gf_scan *scan)
{
        size_t from = 0;
        int r;

        for (size_t i = 0; i < watch->n; i++)
                watch->missed[i] = UINT32_MAX;
        for (unsigned looks = 1; (r = compare(watch, bpf, records, from)) > 0 && looks < LOOKS; looks++) {
                struct pollfd p = { .fd = cancel_fd, .events = POLLIN };

                if (poll(&p, 1, PAUSE_MS) > 0)
                        return -ECANCELED;
                from = records->n;
                r = gf_bpf_pass(bpf, cancel_fd, NULL, 0, records);
                if (r < 0)
                        return r;
        }
        if (r <= 0)
                return r;
        for (size_t i = 0; i < watch->n; i++) {
                struct gf_missed *missed;

                if (watch->missed[i] == 0)
                        continue;
                missed = gf_vec_add(&scan->missed);
                if (!missed)
                        return -ENOMEM;
                *missed = (struct gf_missed){ .rdev = watch->rdev[i], .n = watch->missed[i] };
        }
        return 0;
}

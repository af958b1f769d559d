/* SPDX-License-Identifier: MIT */
/*
 * Loads the BPF programs and reads their iterators. A light skeleton: the programs come with their own loader, which
 * the kernel runs; libbpf is not needed at run time.
 */
#include <poll.h>
#include <sys/sysmacros.h>

#include "scan/bpf_scan.h"

#include "gf_bpf_fast.lskel.h"
#include "gf_bpf_vma.lskel.h"

#define READ_SIZE (64u << 10)
/* Far beyond any real machine; a bound on what we keep in memory. */
#define RECORDS_MAX (200u * 1000u)

/* Room for the processes that a first pass finds something of. */
#define PIDS_FOUND 16384u

enum {
        FILTER_NONE,
        FILTER_SKIP,
        FILTER_ONLY,
};

/* What user space shares with either variant. */
struct gf_bpf {
        struct gf_bpf_fast *fast;
        struct gf_bpf_vma *vma;
        int wanted_fd, pids_fd;
        unsigned round;
        uint64_t processes, threads;
        /* What it was loaded for, and what was put into the map of PIDs since. */
        dev_t *chr, *blk;
        size_t n_chr, n_blk, room;
        bool dmabufs;
        GF_VEC(__u32) pids;
};

struct gf_bpf *gf_bpf_free(struct gf_bpf *bpf)
{
        if (!bpf)
                return NULL;
        gf_bpf_fast__destroy(bpf->fast);
        gf_bpf_vma__destroy(bpf->vma);
        free(bpf->chr);
        free(bpf->blk);
        gf_vec_done(&bpf->pids);
        free(bpf);
        return NULL;
}

/* The kernel's own encoding of a device number. */
static __u64 wanted_key(dev_t dev, bool block)
{
        return (__u64)block << 32 | (__u64)(major(dev) << 20 | minor(dev));
}

static int add_wanted(int fd, const dev_t *numbers, size_t n, bool block)
{
        for (size_t i = 0; i < n; i++) {
                __u64 key = wanted_key(numbers[i], block);
                __u32 one = 1;

                if (skel_map_update_elem(fd, &key, &one, 0) < 0)
                        return -errno;
        }
        return 0;
}

static int add_pids(struct gf_bpf *bpf, const pid_t *pids, size_t n, __u32 round)
{
        for (size_t i = 0; i < n; i++) {
                __u32 *key = gf_vec_add(&bpf->pids);

                if (!key)
                        return -ENOMEM;
                *key = (__u32)pids[i];
                if (skel_map_update_elem(bpf->pids_fd, key, &round, 0) < 0)
                        return -errno;
        }
        return 0;
}

/* The loader's error, which some paths leave positive or zero with errno set. */
static int load_error(int r)
{
        if (r < 0)
                return r;
        return errno > 0 ? -errno : -EINVAL;
}

#define LOAD(bpf, member, name, n_wanted, n_pids, dmabufs)                                                             \
        __extension__({                                                                                                \
                int _r = 0;                                                                                            \
                                                                                                                       \
                (bpf)->member = name##__open();                                                                        \
                if (!(bpf)->member) {                                                                                  \
                        _r = -ENOMEM;                                                                                  \
                } else {                                                                                               \
                        (bpf)->member->rodata->want_dmabufs = (dmabufs);                                               \
                        (bpf)->member->maps.wanted.max_entries = (n_wanted);                                           \
                        (bpf)->member->maps.pids.max_entries = (n_pids);                                               \
                        errno = 0;                                                                                     \
                        _r = name##__load((bpf)->member);                                                              \
                        if (_r != 0) {                                                                                 \
                                _r = load_error(_r);                                                                   \
                        } else {                                                                                       \
                                (bpf)->wanted_fd = (bpf)->member->maps.wanted.map_fd;                                  \
                                (bpf)->pids_fd = (bpf)->member->maps.pids.map_fd;                                      \
                        }                                                                                              \
                }                                                                                                      \
                _r;                                                                                                    \
        })

static int copy_numbers(const dev_t *from, size_t n, dev_t **ret, size_t *ret_n)
{
        *ret = calloc(n + 1, sizeof(**ret));
        if (!*ret)
                return -ENOMEM;
        if (n > 0)
                memcpy(*ret, from, n * sizeof(**ret));
        *ret_n = n;
        return 0;
}

static int remember(struct gf_bpf *bpf, const struct gf_wanted *wanted, size_t room)
{
        int r = copy_numbers(wanted->chr, wanted->n_chr, &bpf->chr, &bpf->n_chr);

        bpf->dmabufs = wanted->dmabufs;
        bpf->room = room;
        return r < 0 ? r : copy_numbers(wanted->blk, wanted->n_blk, &bpf->blk, &bpf->n_blk);
}

/* Whom the first pass is about. */
static int choose_pids(struct gf_bpf *bpf, const struct gf_wanted *wanted)
{
        if (!wanted->only) {
                if (wanted->n_skip == 0)
                        return 0;
                bpf->round = 1;
                return add_pids(bpf, wanted->skip, wanted->n_skip, bpf->round);
        }
        bpf->round = 2;
        for (size_t i = 0; i < wanted->n_only; i++) {
                int r;

                if (wanted->n_skip &&
                    bsearch(&wanted->only[i], wanted->skip, wanted->n_skip, sizeof(pid_t), gf_bpf_pid_compare))
                        continue;
                r = add_pids(bpf, &wanted->only[i], 1, bpf->round);
                if (r < 0)
                        return r;
        }
        return 0;
}

int gf_bpf_open(enum gf_bpf_variant variant, const struct gf_wanted *wanted, struct gf_bpf **ret_bpf)
{
        _cleanup_(gf_bpf_freep) struct gf_bpf *bpf = calloc(1, sizeof(*bpf));
        size_t n_wanted = wanted->n_chr + wanted->n_blk, n_pids = wanted->n_skip + wanted->n_only + PIDS_FOUND;
        int r;

        if (!bpf)
                return -ENOMEM;
        if (n_wanted > 1u << 20 || n_pids > 1u << 22)
                return -E2BIG;
        if (variant == GF_BPF_VARIANT_FAST)
                r = LOAD(bpf, fast, gf_bpf_fast, (__u32)n_wanted + 1, (__u32)n_pids, wanted->dmabufs);
        else
                r = LOAD(bpf, vma, gf_bpf_vma, (__u32)n_wanted + 1, (__u32)n_pids, wanted->dmabufs);
        if (r < 0)
                return r;
        r = add_wanted(bpf->wanted_fd, wanted->chr, wanted->n_chr, false);
        if (r < 0)
                return r;
        r = add_wanted(bpf->wanted_fd, wanted->blk, wanted->n_blk, true);
        if (r >= 0)
                r = remember(bpf, wanted, n_pids);
        if (r >= 0)
                r = choose_pids(bpf, wanted);
        if (r < 0)
                return r;
        *ret_bpf = TAKE(bpf);
        return 0;
}

static bool same_numbers(const dev_t *a, size_t n_a, const dev_t *b, size_t n_b)
{
        return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * sizeof(*a)) == 0);
}

bool gf_bpf_reuse(struct gf_bpf *bpf, const struct gf_wanted *wanted)
{
        if (bpf->dmabufs != wanted->dmabufs || wanted->n_skip + wanted->n_only + PIDS_FOUND > bpf->room ||
            !same_numbers(bpf->chr, bpf->n_chr, wanted->chr, wanted->n_chr) ||
            !same_numbers(bpf->blk, bpf->n_blk, wanted->blk, wanted->n_blk))
                return false;
        for (size_t i = 0; i < bpf->pids.n; i++)
                if (skel_map_delete_elem(bpf->pids_fd, &bpf->pids.v[i]) < 0 && errno != ENOENT)
                        return false;
        bpf->pids.n = 0;
        bpf->round = 0;
        if (bpf->fast)
                bpf->fast->bss->processes = bpf->fast->bss->threads = 0;
        else
                bpf->vma->bss->processes = bpf->vma->bss->threads = 0;
        return choose_pids(bpf, wanted) >= 0;
}

static bool cancelled(int cancel_fd)
{
        struct pollfd p = { .fd = cancel_fd, .events = POLLIN };

        return cancel_fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Reads an iterator to its end. A record may be cut by the end of a read; the rest comes with the next. */
static int drain(int fd, int cancel_fd, gf_bpf_records *records)
{
        size_t size = sizeof(struct gf_bpf_record), fill = records->n * size;
        ssize_t n;

        for (;;) {
                if (cancelled(cancel_fd))
                        return -ECANCELED;
                while (records->cap * size - fill < READ_SIZE) {
                        size_t cap = records->cap < 512 ? 1024 : records->cap * 2;
                        struct gf_bpf_record *v;

                        if (cap > 2 * RECORDS_MAX)
                                return -EOVERFLOW;
                        v = realloc(records->v, cap * size);
                        if (!v)
                                return -ENOMEM;
                        records->v = v;
                        records->cap = cap;
                }
                n = read(fd, (char *)records->v + fill, READ_SIZE);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                fill += (size_t)n;
                records->n = fill / size;
        }
        return fill % size == 0 ? 0 : -EIO;
}

static int iterate(int prog_fd, int cancel_fd, gf_bpf_records *records)
{
        _cleanup_close_ int link = -1, iter = -1;
        union bpf_attr attr;

        link = skel_link_create(prog_fd, 0, BPF_TRACE_ITER);
        if (link < 0)
                return -errno;
        memset(&attr, 0, sizeof(attr));
        attr.iter_create.link_fd = (__u32)link;
        iter = skel_sys_bpf(BPF_ITER_CREATE, &attr, sizeof(attr.iter_create));
        if (iter < 0)
                return -errno;
        return drain(iter, cancel_fd, records);
}

/* The cache of tables already shown is of one pass. */
#define RESET(bss, f, r)                                                                                               \
        do {                                                                                                           \
                memset((bss)->seen_ptr, 0, sizeof((bss)->seen_ptr));                                                   \
                (bss)->filter = (f);                                                                                   \
                (bss)->want_round = (r);                                                                               \
                (bss)->cur_pid = 0;                                                                                    \
                (bss)->last_file = 0;                                                                                  \
                (bss)->watch_begun = 0;                                                                                \
        } while (0)

int gf_bpf_pass(struct gf_bpf *bpf, int cancel_fd, const pid_t *pids, size_t n_pids, gf_bpf_records *records)
{
        unsigned filter = bpf->round == 0 ? FILTER_NONE : bpf->round == 1 ? FILTER_SKIP : FILTER_ONLY;
        bool first = !pids;
        int r;

        if (!first) {
                bpf->round = bpf->round < 2 ? 2 : bpf->round + 1;
                filter = FILTER_ONLY;
                /* Those to be skipped are never found: they have the value 1 or none. */
                r = add_pids(bpf, pids, n_pids, bpf->round);
                if (r < 0)
                        return r;
        }
        if (bpf->fast) {
                RESET(bpf->fast->bss, filter, bpf->round);
                r = iterate(bpf->fast->progs.scan_tasks.prog_fd, cancel_fd, records);
                if (r >= 0 && bpf->fast->bss->unsupported)
                        r = -EOPNOTSUPP;
        } else {
                RESET(bpf->vma->bss, filter, bpf->round);
                r = iterate(bpf->vma->progs.scan_tasks.prog_fd, cancel_fd, records);
                if (r >= 0)
                        r = iterate(bpf->vma->progs.scan_vmas.prog_fd, cancel_fd, records);
        }
        if (r < 0)
                return r;
        if (first) {
                bpf->processes = bpf->fast ? bpf->fast->bss->processes : bpf->vma->bss->processes;
                bpf->threads = bpf->fast ? bpf->fast->bss->threads : bpf->vma->bss->threads;
        }
        return 0;
}

void gf_bpf_watch_set(struct gf_bpf *bpf, const int *fds, size_t n)
{
        int *to = bpf->fast ? bpf->fast->bss->watch_fd : bpf->vma->bss->watch_fd;

        n = n < GF_BPF_WATCH_MAX ? n : GF_BPF_WATCH_MAX;
        if (n > 0)
                memcpy(to, fds, n * sizeof(*fds));
        if (bpf->fast)
                bpf->fast->bss->watch_n = (unsigned)n;
        else
                bpf->vma->bss->watch_n = (unsigned)n;
}

bool gf_bpf_watch_get(const struct gf_bpf *bpf, size_t i, uint32_t *ret_opens)
{
        uint32_t before = bpf->fast ? bpf->fast->bss->watch_before[i] : bpf->vma->bss->watch_before[i];
        uint32_t after = bpf->fast ? bpf->fast->bss->watch_after[i] : bpf->vma->bss->watch_after[i];

        if (before == GF_BPF_UNCOUNTED || after == GF_BPF_UNCOUNTED)
                return false;
        *ret_opens = before < after ? before : after;
        return true;
}

void gf_bpf_counts(const struct gf_bpf *bpf, uint64_t *ret_processes, uint64_t *ret_threads)
{
        *ret_processes = bpf->processes;
        *ret_threads = bpf->threads;
}

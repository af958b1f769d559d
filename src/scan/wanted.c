/* SPDX-License-Identifier: MIT */
#include "scan/wanted.h"

static int compare_numbers(const void *a, const void *b)
{
        dev_t x = *(const dev_t *)a, y = *(const dev_t *)b;

        return (x > y) - (x < y);
}

/* Sorts, and leaves each number once. */
static size_t unique(dev_t *numbers, size_t n)
{
        size_t kept = 0;

        if (n > 1)
                qsort(numbers, n, sizeof(*numbers), compare_numbers);
        for (size_t i = 0; i < n; i++)
                if (kept == 0 || numbers[kept - 1] != numbers[i])
                        numbers[kept++] = numbers[i];
        return kept;
}

int gf_wanted_make(const struct gf_inventory *inventory, bool paths_only, struct gf_wanted_set *ret_set)
{
        struct gf_wanted_set set = { 0 };

        for (size_t i = 0; i < inventory->devices.n; i++) {
                const struct gpufree_device *device = &inventory->devices.v[i];
                dev_t *number = device->block ? gf_vec_add(&set.blk) : gf_vec_add(&set.chr);

                if (!number) {
                        gf_wanted_set_done(&set);
                        return -ENOMEM;
                }
                *number = device->rdev;
                if (!device->block && device->path) {
                        struct gf_node *node = gf_vec_add(&set.nodes);

                        if (!node) {
                                gf_wanted_set_done(&set);
                                return -ENOMEM;
                        }
                        *node = (struct gf_node){ .path = device->path, .rdev = device->rdev };
                }
        }
        set.chr.n = unique(set.chr.v, set.chr.n);
        set.blk.n = unique(set.blk.v, set.blk.n);
        set.wanted.chr = set.chr.v;
        set.wanted.n_chr = set.chr.n;
        set.wanted.blk = set.blk.v;
        set.wanted.n_blk = set.blk.n;
        set.wanted.nodes = set.nodes.v;
        set.wanted.n_nodes = set.nodes.n;
        set.wanted.dmabufs = !paths_only;
        *ret_set = set;
        return 0;
}

void gf_wanted_skip(struct gf_wanted_set *set, pid_t pid)
{
        if (set->wanted.n_skip >= ELEMENTSOF(set->skip))
                return;
        set->skip[set->wanted.n_skip++] = pid;
        set->wanted.skip = set->skip;
}

void gf_wanted_set_done(struct gf_wanted_set *set)
{
        gf_vec_done(&set->chr);
        gf_vec_done(&set->blk);
        gf_vec_done(&set->nodes);
        set->wanted = (struct gf_wanted){ 0 };
}

static int compare_hits(const void *a, const void *b)
{
        const struct gf_hit *x = a, *y = b;

        if (x->id.pid != y->id.pid)
                return x->id.pid < y->id.pid ? -1 : 1;
        if (x->tid != y->tid)
                return x->tid < y->tid ? -1 : 1;
        if (x->via != y->via)
                return x->via < y->via ? -1 : 1;
        return (x->fd > y->fd) - (x->fd < y->fd);
}

void gf_scan_sort(struct gf_scan *scan)
{
        if (scan->hits.n > 1)
                qsort(scan->hits.v, scan->hits.n, sizeof(*scan->hits.v), compare_hits);
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/cleanup.h"
#include "base/vec.h"
#include "model/device.h"
#include "model/scan.h"

typedef GF_VEC(pid_t) gf_pidv;
static inline void gf_pidv_done(gf_pidv *pids)
{
        gf_vec_done(pids);
}

/* A gf_wanted with the arrays it borrows. */
struct gf_wanted_set {
        struct gf_wanted wanted;
        GF_VEC(dev_t) chr, blk;
        GF_VEC(struct gf_node) nodes;
        pid_t skip[2];
};

/* The numbers of every device of the inventory, each once; paths are borrowed from it. `paths_only`: dma-bufs were not asked about. */
int gf_wanted_make(const struct gf_inventory *inventory, bool paths_only, struct gf_wanted_set *ret_set);
void gf_wanted_skip(struct gf_wanted_set *set, pid_t pid);
void gf_wanted_set_done(struct gf_wanted_set *set);

/* By PID, thread, form, descriptor. */
void gf_scan_sort(struct gf_scan *scan);

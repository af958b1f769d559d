/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/holder.h"

typedef GF_VEC(size_t) gf_gpu_set; /* positions of GPUs in a snapshot */
static inline void gf_gpu_set_done(gf_gpu_set *set)
{
        gf_vec_done(set);
}

/* The GPUs that were asked about. */
int gf_choose_asked(const struct gpufree_snapshot *snapshot, gf_gpu_set *ret_set);
/* 1: this GPU is free, really: no holder, memory at its idle figure. 0: it is not, *ret_why says why. Pure. */
int gf_choose_is_free(const struct gpufree_snapshot *snapshot, size_t gpu, char **ret_why);
/*
 * Could it be freed by ending only what `uid` left behind: every process that keeps it is this user's, can be ended,
 * and (`orphans`) has lost its parent? At least one does. Pure.
 */
bool gf_choose_is_leftover(const struct gpufree_snapshot *snapshot, size_t gpu, uint32_t uid, bool orphans);
/* A selection of these GPUs alone, by what names them best. */
int gf_choose_selection(const struct gpufree_snapshot *snapshot, const size_t *gpus, size_t n,
                        struct gpufree_selection **ret_selection);

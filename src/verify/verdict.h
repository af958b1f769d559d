/* SPDX-License-Identifier: MIT */
#pragma once

#include "verify/verify.h"

/* An open device without a context costs up to 3 MiB a process; this much more than accounted for is no residue. */
#define GF_TOLERANCE (32ULL << 20)
#define GF_OPENER_COST (3ULL << 20)
/* An older driver counts what it reserves for itself as used: 615 MiB on an H200. */
#define GF_RESERVED_AT_MOST (768ULL << 20)

/* The use of this GPU by the holder, or NULL. */
const struct gf_gpu_use *gf_use_of(const struct gpufree_holder *holder, size_t gpu);
/*
 * Does this selected holder keep this GPU from being free? A context does; an open file alone only where the process
 * was selected for it, that is where it has no context on any GPU that was asked about.
 */
bool gf_keeps_gpu(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder, size_t gpu);
/* Is this GPU judged? The selected ones; with devices named by path, only those that one of them belongs to. */
bool gf_is_judged(const struct gpufree_snapshot *snapshot, size_t gpu);
/* The GPU of another look, by UUID, PCI address, minor, index: its position, or -1. */
int gf_same_gpu(const struct gpufree_gpu *gpu, const struct gpufree_snapshot *in);
/*
 * The driver lists a process on this GPU that could not be looked at: somebody else's, where completeness was measured
 * against one's own. -1 when there is none after `from`, else its position in the driver's list.
 */
int gf_next_unseen(const struct gpufree_snapshot *snapshot, const struct gf_driver_gpu *driver, int from);
/* Is anybody else's context on it: an unselected holder's, or one of the unseen? */
bool gf_has_others(const struct gpufree_snapshot *snapshot, size_t gpu);
/* The figure of this GPU in a driver's report; GPUFREE_UNKNOWN. */
uint64_t gf_used_in(const struct gpufree_gpu *gpu, const struct gf_driver_report *driver);

int gf_verdict_add(const struct gpufree_snapshot *snapshot, size_t gpu, uint64_t used_before,
                   struct gpufree_report *report);
/*
 * What the look and verdict->used_after say about this GPU: sets `verified` and the sentence, which
 * names neither the GPU nor the verdict: whoever shows it puts them in front. The outcome of this GPU alone
 * (OK, HELD, INCOMPLETE, RESIDUE), or -ENOMEM. Pure.
 */
int gf_verdict_judge(const struct gpufree_snapshot *snapshot, struct gf_gpu_verdict *verdict);
/* About memory that nobody explains (RESIDUE): what is known, what to do next, with the GPU's name. */
int gf_verdict_advise(const struct gpufree_snapshot *snapshot, const struct gf_gpu_verdict *verdict,
                      gf_strv *sentences);
/* "GPU 1"; into the text. */
void gf_gpu_label(const struct gpufree_gpu *gpu, struct gf_str *text);

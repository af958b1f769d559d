/* SPDX-License-Identifier: MIT */
#pragma once

#include "end/end.h"
#include "model/report.h"

/* The idle figure of a GPU: what the holders that stay account for (reserved is not in `used`), plus a tolerance. Pure.
 */
uint64_t gf_idle_figure(const struct gpufree_snapshot *snapshot, size_t gpu);
/*
 * Judges one look: fills report->gpus (every selected GPU), report->outcome and the sentences of `check`. Pure.
 */
int gf_judge(const struct gpufree_snapshot *snapshot, struct gpufree_report *report);
/* Waits at most `settle_ms` for the memory of the report's GPUs to fall to their idle figure; marks them verified or
 * not. */
int gf_settle(struct gf_env *env, const struct gf_eyes *eyes, uint64_t settle_ms, struct gpufree_report *report);
/* Blocks until free: pidfds of the holders, not a timer; see gpufree_wait(). */
int gf_wait_free(struct gf_env *env, const struct gf_eyes *eyes, uint64_t timeout_ms, uint64_t settle_ms,
                 struct gpufree_report **ret_report);

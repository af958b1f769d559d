/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"
#include "model/holder.h"

/*
 * What this look could not see of what was asked about: fills snapshot->gaps, one sentence each with what to do, and
 * snapshot->unreadable. An empty list means complete. -ENOMEM, -errno.
 */
int gf_gaps_find(struct gf_env *env, const struct gpufree_selection *selection, struct gpufree_snapshot *snapshot);
/* Did the driver's library answer, or is there no GPU that it would know? */
bool gf_driver_answered(const struct gpufree_snapshot *snapshot);

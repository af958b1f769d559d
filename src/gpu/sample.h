/* SPDX-License-Identifier: MIT */
#pragma once

#include "gpu/nvml.h"
#include "model/holder.h"

/*
 * Asks the driver again and again for `ms` how busy each process keeps its GPU, and puts the average into the uses of
 * the holders. 0 also where the driver cannot say. -ECANCELED, -ENOMEM.
 */
int gf_sample(struct gf_env *env, struct gf_nvml *nvml, struct gpufree_snapshot *snapshot, uint64_t ms);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/holder.h"

/*
 * The variables that show a program these GPUs (positions) and no others, by vendor: "CUDA_VISIBLE_DEVICES=GPU-…".
 * UUIDs where the vendor takes them. Pure. -ENOMEM.
 */
int gf_visible(const struct gpufree_snapshot *snapshot, const size_t *gpus, size_t n, gf_strv *environment);

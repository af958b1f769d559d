/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"
#include "model/holder.h"

/*
 * Which of the candidates (positions of GPUs) lie closest together, by their places in the tree of PCI bridges and
 * NUMA nodes? Moves the best `n` to the front, sorted. Where nothing is known of their places, the first n stay.
 */
int gf_near_first(struct gf_env *env, const struct gpufree_snapshot *snapshot, size_t *candidates, size_t count,
                  size_t n);
/* How far apart two paths of /sys/devices are: 0 the same bridge, up to 100 nothing in common. Pure. */
unsigned gf_near_distance(const char *a, const char *b);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/holder.h"

/*
 * Turns the hits of snapshot->scan into snapshot->holders, one a process, with their device uses; pure. Facts are
 * not filled. A dma-buf's size counts once a holder however many descriptors it has. Notes "own-device-node" and
 * "unlinked-node" come from here.
 */
int gf_merge_hits(struct gpufree_snapshot *snapshot);

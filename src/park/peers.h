/* SPDX-License-Identifier: MIT */
#pragma once

#include "park/park.h"

/* Sentences about processes that share memory with those to be parked, or may: what they share does not come back.
 * Pure. */
int gf_peers_warn(struct gpufree_parking *parking, const struct gpufree_snapshot *snapshot);
/* Does it hold nvidiactl alone, as who keeps an exported memory handle does, or a dma-buf alone? Pure. */
bool gf_peer_keeps_handle(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder);
bool gf_parking_has(const struct gpufree_parking *parking, const struct gf_ident *id);

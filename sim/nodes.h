/* SPDX-License-Identifier: MIT */
#pragma once

#include "state.h"

/* What keeps the stand-in devices ours: claims on numbers, masters of pseudo-terminals. Held until the keeper ends. */
struct sim_nodes {
        GF_VEC(int) fds;
};
void sim_nodes_done(struct sim_nodes *nodes);

/*
 * Makes the nodes of `state` under dev/: ttys that nobody has open where we may make and open such nodes, else
 * pseudo-terminals behind symlinks. Sets state->ttys. -errno; *ret_what (static) says what failed.
 */
int sim_nodes_make(int dir, struct sim_state *state, bool ptys, struct sim_nodes *nodes, const char **ret_what);

/*
 * Makes nvidia-uvm a node that can be mapped: /dev/zero's number, which a machine has once. Only before anybody holds
 * the old one. -EBUSY: another simulated node has it, or some process has /dev/zero open; -EPERM and others: no mknod.
 */
int sim_nodes_make_mappable(int dir, struct sim_nodes *nodes);

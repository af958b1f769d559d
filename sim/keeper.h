/* SPDX-License-Identifier: MIT */
#pragma once

#include "spawn.h"

/*
 * The keeper of a node: a daemon that has the claims on its device numbers (or the masters of its pseudo-terminals), is
 * the parent of its holders and reaps them. `gpufree-sim add` asks it for more over DIR/keeper.sock.
 */
struct sim_keeper_options {
        bool ptys;     /* pseudo-terminals even where ttys would do */
        bool mappable; /* make nvidia-uvm mappable if possible */
};

/* Starts it; returns once the node is there, and reads back its state. The text of a failure is in `error`. */
int sim_keeper_start(int dir, const struct sim_keeper_options *options, struct sim_state *state, char *error,
                     size_t size);
/* Asks it for a holder. The text of a failure is in the report. */
int sim_keeper_add(int dir, const struct sim_params *params, struct sim_report *ret_report);

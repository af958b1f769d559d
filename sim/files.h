/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "state.h"

/* Copies a file; -EEXIST leaves the existing one. */
int sim_copy(int from_at, const char *from, int to_at, const char *to, mode_t mode);
/* A file that was built or installed next to this program, or under the data directory: its path, or NULL. */
char *sim_find_part(const char *name);

/* Ends every process of the node, whatever it forked or respawned meanwhile; the keeper last. -ETIMEDOUT. */
int sim_end_all(int dir, const struct sim_state *state);
/* Removes what `up` made in the directory, never following a link nor entering a mount. */
int sim_remove_all(int dir);

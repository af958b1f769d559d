/* SPDX-License-Identifier: MIT */
#pragma once

#include "end/end.h"

/* Same user, same program, same arguments: what a supervisor starts again. Unknown facts are never the same. Pure. */
bool gf_same_program(const struct gpufree_holder *a, const struct gpufree_holder *b);
/* Did it start after the plan's look began? Pure. */
bool gf_started_since(const struct gpufree_snapshot *snapshot, uint64_t start_ticks);
/* Same user and cgroup (a known one). Pure. */
bool gf_same_place(const struct gpufree_holder *a, const struct gpufree_holder *b);

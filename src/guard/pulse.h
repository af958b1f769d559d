/* SPDX-License-Identifier: MIT */
#pragma once

#include "guard/guard.h"
#include "guard/own.h"

/* Does the command still get anywhere? Memory on its GPUs, processor time of its own, its log. */
struct gf_pulse {
        bool begun, busy; /* busy: more than heartbeats, since the sample before */
        unsigned samples;
        uint64_t memory;              /* on all its GPUs; GPUFREE_UNKNOWN */
        uint64_t cpu_ticks, log;      /* so far */
        uint64_t sampled_ms;          /* when */
        uint64_t moved_ms, memory_ms; /* when anything, when the memory was last seen to move */
        unsigned percent;             /* of one processor, since the sample before */
        size_t processes;
};

/* One sample. `root`: whose descendants. */
int gf_pulse_take(struct gpufree_guard *guard, pid_t root, uint64_t log_bytes, struct gf_pulse *pulse);
/* One more sample's figures: sets what moved when. Pure. */
void gf_pulse_note(struct gf_pulse *pulse, uint64_t now_ms, uint64_t memory, uint64_t cpu_ticks, uint64_t log,
                   size_t processes, uint64_t ticks_per_second);

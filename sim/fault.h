/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How the stand-in driver library misbehaves: GPUFREE_SIM_FAULT, a comma-separated list. */
enum sim_call {
        SIM_CALL_NONE,
        SIM_CALL_INIT,
        SIM_CALL_HANDLE,
        SIM_CALL_LIST,
        SIM_CALL_MEMORY,
};
struct sim_fault {
        bool dead_pids;   /* ended holders stay listed */
        bool hide_pids;   /* nobody is listed */
        bool never;       /* memory of ended holders never comes back */
        uint64_t late_ms; /* or comes back this much later */
        bool no_v2, no_v3;
        bool stride32;
        uint64_t busy; /* percent that every listed process shows; 0: no samples */
        bool full_list;            /* as many processes as the driver lists at most */
        enum sim_call hang, crash; /* in which call */
        unsigned error;            /* an NVML return code; 0 none */
        int error_gpu;             /* -1: every GPU */
        enum sim_call error_call;
};

/*
 * dead-pids, hide-pids, never, late=MS, no-v2, no-v3, stride32, full-list, busy=PERCENT, hang[=CALL], crash[=CALL],
 * error=CODE[:GPU[:CALL]]; CALL is init, handle, list or memory. Without GPU an error comes from init, with one from
 * handle, unless said. NULL is no fault. -EINVAL.
 */
int sim_fault_parse(const char *text, struct sim_fault *ret_fault);

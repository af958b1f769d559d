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
        SIM_CALL_UTILIZATION,
};
/* The calls of the stand-in libcuda.so.1. */
enum sim_cuda_call {
        SIM_CUDA_NONE,
        SIM_CUDA_STATE,
        SIM_CUDA_LOCK,
        SIM_CUDA_CHECKPOINT,
        SIM_CUDA_RESTORE,
        SIM_CUDA_UNLOCK,
};
struct sim_fault {
        bool dead_pids;   /* ended holders stay listed */
        bool hide_pids;   /* nobody is listed */
        bool never;       /* memory of ended holders never comes back */
        uint64_t late_ms; /* or comes back this much later */
        bool no_v2, no_v3;
        bool stride32;
        uint64_t busy;             /* percent that every listed process shows; 0: no samples */
        bool full_list;            /* as many processes as the driver lists at most */
        enum sim_call hang, crash; /* in which call */
        unsigned error;            /* an NVML return code; 0 none */
        int error_gpu;             /* -1: every GPU */
        enum sim_call error_call;
        enum sim_cuda_call cuda_hang, cuda_lost, cuda_crash, cuda_error_call;
        unsigned cuda_error;   /* a CUresult; 0 none */
        unsigned cuda_pid;     /* for this process alone; 0: all */
        uint64_t cuda_slow_ms; /* how long copying takes */
        bool cuda_keep;        /* a checkpoint leaves a descriptor open */
        bool cuda_old;         /* the driver is older than restoring to another GPU */
};

/*
 * dead-pids, hide-pids, never, late=MS, no-v2, no-v3, stride32, full-list, busy=PERCENT, hang[=CALL], crash[=CALL],
 * error=CODE[:GPU[:CALL]]; CALL is init, handle, list, memory or utilization. Without GPU an error comes from init,
 * with one from handle, unless said. Of libcuda: cuda-hang=CALL (before it does anything), cuda-lost=CALL (after it has
 * done it), cuda-crash=CALL, cuda-error=CODE:CALL[:PID], cuda-slow=MS, cuda-keep, cuda-old; CALL is state, lock,
 * checkpoint, restore or unlock. NULL is no fault. -EINVAL.
 */
int sim_fault_parse(const char *text, struct sim_fault *ret_fault);

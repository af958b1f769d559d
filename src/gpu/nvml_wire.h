/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * What the NVML child and its parent say to each other: fixed records, one a message. The parent believes none of it:
 * sizes, counts and numbers are checked, texts cut, and what breaks the rules ends the child.
 *
 * parent: ASK
 * child:  STATUS, then for each GPU BEGIN (so that a hang has a name), GPU, PROCESSES… or SAMPLES…, then END
 */
#define GF_WIRE_MAGIC 0x4c4d5647u

enum gf_wire_type {
        GF_WIRE_ASK = 1,
        GF_WIRE_STATUS,
        GF_WIRE_BEGIN,
        GF_WIRE_GPU,
        GF_WIRE_PROCESSES,
        GF_WIRE_END,
        GF_WIRE_SAMPLES,
};

struct gf_wire_head {
        uint32_t magic, type;
        uint64_t sequence; /* of the question that this answers */
};

struct gf_wire_ask {
        struct gf_wire_head head;
        uint32_t question; /* enum gf_nvml_question */
};

/* Where NVML failed, for the sentence. */
enum gf_wire_call {
        GF_CALL_LOAD,   /* dlopen, dlsym */
        GF_CALL_INIT,   /* nvmlInit_v2 */
        GF_CALL_COUNT,  /* nvmlDeviceGetCount_v2 */
        GF_CALL_HANDLE, /* nvmlDeviceGetHandleByIndex_v2 */
        GF_CALL_MEMORY,
        GF_CALL_LISTS,
        GF_CALL_SAMPLES,
        GF_CALL_MAX_,
};

/* Beyond NVML's own return codes, in `code` of a record. */
#define GF_CODE_NO_LIBRARY 10000  /* libnvidia-ml.so.1 is not there */
#define GF_CODE_BAD_LIBRARY 10001 /* it is, and cannot be loaded */
#define GF_CODE_ODD_LIST 10002    /* a process list of no known layout */
#define GF_CODE_CUT_LIST 10003    /* as many processes as the driver lists at most */

struct gf_wire_status {
        struct gf_wire_head head;
        uint32_t call, code; /* code 0: GPUs follow */
        uint32_t gpus;
        char version[96];
        char detail[160]; /* dlerror(); "" */
};

struct gf_wire_gpu {
        struct gf_wire_head head;
        uint32_t index;
        int32_t minor;
        uint32_t call, code; /* the first thing that failed; code 0: nothing */
        uint32_t lists_ok, mig;
        uint32_t busy; /* percent, or: */
#define GF_WIRE_NO_BUSY UINT32_MAX
        uint64_t total, used, reserved;
        char uuid[96], pci[32], name[96];
};

struct gf_wire_process {
        uint32_t pid, lists;
        uint64_t memory;
        uint32_t gpu_instance, compute_instance;
};

#define GF_WIRE_BATCH 256 /* small enough for any socket buffer */
struct gf_wire_processes {
        struct gf_wire_head head;
        uint32_t index, n;
        struct gf_wire_process v[GF_WIRE_BATCH];
};

struct gf_wire_sample {
        uint32_t pid, sm; /* percent */
};
struct gf_wire_samples {
        struct gf_wire_head head;
        uint32_t index, n;
        struct gf_wire_sample v[GF_WIRE_BATCH];
};

/* Also for BEGIN (index of the GPU) and END. */
struct gf_wire_mark {
        struct gf_wire_head head;
        uint32_t index;
};

#define GF_WIRE_GPUS_MAX 256
#define GF_WIRE_PROCESSES_MAX 16384 /* a GPU */

union gf_wire {
        struct gf_wire_head head;
        struct gf_wire_ask ask;
        struct gf_wire_status status;
        struct gf_wire_gpu gpu;
        struct gf_wire_processes processes;
        struct gf_wire_samples samples;
        struct gf_wire_mark mark;
};

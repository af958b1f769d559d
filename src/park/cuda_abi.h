/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * The few calls of libcuda.so.1 that park a process, as NVIDIA's public documentation of the driver interface describes
 * them (section "CUDA Checkpointing"). None of them needs a CUDA context in the caller.
 */
typedef int cuda_result;
#define CUDA_OK 0
#define CUDA_INVALID_VALUE 1
#define CUDA_OUT_OF_MEMORY 2
#define CUDA_NOT_INITIALIZED 3
#define CUDA_ILLEGAL_STATE 401
#define CUDA_NOT_READY 600
#define CUDA_NOT_PERMITTED 800
#define CUDA_NOT_SUPPORTED 801
#define CUDA_UNKNOWN 999

struct cuda_lock_args {
        unsigned timeout_ms; /* 0: none */
        unsigned reserved0;
        uint64_t reserved1[7];
};
struct cuda_checkpoint_args {
        uint64_t reserved[8];
};
struct cuda_gpu_pair {
        unsigned char old_uuid[16], new_uuid[16];
};
/* Before CUDA 13 (driver 580) the whole of it was reserved. */
struct cuda_restore_args {
        struct cuda_gpu_pair *pairs;
        unsigned n_pairs;
        char reserved[52 - sizeof(void *)];
        uint64_t reserved1;
};
struct cuda_unlock_args {
        uint64_t reserved[8];
};
_Static_assert(sizeof(struct cuda_lock_args) == 64, "as the driver has it");
_Static_assert(sizeof(struct cuda_restore_args) == 64, "as the driver has it");
_Static_assert(sizeof(struct cuda_gpu_pair) == 32, "as the driver has it");

#define CUDA_VERSION_PAIRS 13000 /* the first that takes pairs */

typedef cuda_result (*cuda_init_fn)(unsigned flags);
typedef cuda_result (*cuda_version_fn)(int *version);
typedef cuda_result (*cuda_name_fn)(cuda_result result, const char **name);
typedef cuda_result (*cuda_state_fn)(int pid, int *state);
typedef cuda_result (*cuda_lock_fn)(int pid, struct cuda_lock_args *args);
typedef cuda_result (*cuda_checkpoint_fn)(int pid, struct cuda_checkpoint_args *args);
typedef cuda_result (*cuda_restore_fn)(int pid, struct cuda_restore_args *args);
typedef cuda_result (*cuda_unlock_fn)(int pid, struct cuda_unlock_args *args);

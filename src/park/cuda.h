/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "sys/child.h"

/*
 * libcuda's checkpoint calls behind one door: a child process loads libcuda.so.1 and makes one call at a time. A call
 * may take as long as copying the memory takes, or for ever: the parent waits with a deadline, then ends the child and
 * asks the driver with a new one what has become of the process.
 */
#define GF_CUDA_PAIRS 16

enum gf_cuda_op {
        GF_CUDA_STATE,
        GF_CUDA_LOCK,
        GF_CUDA_CHECKPOINT,
        GF_CUDA_RESTORE,
        GF_CUDA_UNLOCK,
};

struct gf_cuda_request {
        uint32_t op; /* enum gf_cuda_op */
        int32_t pid;
        uint32_t timeout_ms; /* of a lock */
        uint32_t n_pairs;    /* of a restore */
        unsigned char pairs[GF_CUDA_PAIRS][2][16];
};

enum gf_cuda_fail {
        GF_CUDA_CALLED,
        GF_CUDA_NO_LIBRARY,
        GF_CUDA_NO_CALL,  /* the library has no such function: the driver is too old */
        GF_CUDA_NO_PAIRS, /* the driver is too old to restore to another GPU */
};

struct gf_cuda_reply {
        uint32_t fail;    /* enum gf_cuda_fail */
        int32_t code;     /* CUresult */
        int32_t state;    /* of GF_CUDA_STATE */
        int32_t version;  /* cuDriverGetVersion(): 13000 for 13.0; 0 unknown */
        char detail[160]; /* the driver's name of the code, or why the library could not be loaded */
};

struct gf_cuda {
        struct gf_child child;
        bool started;
};

int gf_cuda_start(struct gf_cuda *cuda);
void gf_cuda_stop(struct gf_cuda *cuda); /* zeroed is fine, twice is fine */
int gf_cuda_ask(struct gf_cuda *cuda, const struct gf_cuda_request *request);
/* 0; -ETIMEDOUT, -ECANCELED: it still works on it; -EPIPE: the child has ended (the library crashed); -errno. */
int gf_cuda_answer(struct gf_cuda *cuda, struct gf_cuda_reply *ret_reply, uint64_t deadline, int cancel_fd);

/* "GPU-1a2b…": the 16 bytes. -EINVAL. Pure. */
int gf_cuda_uuid(const char *text, unsigned char ret[static 16]);
/* What a code means for parking, as the end of a sentence; never NULL. Pure. */
const char *gf_cuda_words(int code);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "model/ident.h"

/*
 * What the NVIDIA driver's own structures say about the descriptors of a process: a second opinion beside the driver's
 * library. What is not in it is unknown, not untrue.
 */
enum gf_fact_kind {
        GF_FACT_NODE,    /* a descriptor of this GPU's node */
        GF_FACT_HANDLE,  /* memory handles of this GPU exported through nvidiactl */
        GF_FACT_DMABUF,  /* a dma-buf of this GPU's memory */
        GF_FACT_SPACE,   /* a UVM descriptor all of whose GPUs are told: on any other, it has no address space */
        GF_FACT_BLUR,    /* a UVM descriptor of which not all could be read: it may be on any GPU */
        GF_FACT_CONTEXT, /* this GPU has address space there: a context */
};

struct gf_fact {
        struct gf_ident id; /* the thread group */
        enum gf_fact_kind kind;
        int fd;
        char pci[32];      /* as sysfs writes it; "" unknown, and of a whole space */
        char uuid[48];     /* "GPU-…"; "" unknown */
        uint64_t space;    /* of a space and its contexts: the same in processes that share it */
        uint64_t instance; /* of a handle: the driver's number of the GPU; GPUFREE_UNKNOWN otherwise */
        ino_t ino;         /* of a dma-buf */
        uint64_t bytes;    /* of a dma-buf; GPUFREE_UNKNOWN otherwise */
};

struct gf_witness {
        bool asked;   /* it was read; no facts then means: no descriptor of the driver's */
        char *reason; /* why not; NULL */
        uint64_t load_us, pass_us;
        GF_VEC(struct gf_fact) facts; /* by PID */
};

void gf_witness_done(struct gf_witness *witness);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "model/device.h"

/* What the driver's library says. PIDs in it are hints: nothing is done on their word alone. */
enum gf_list {
        GF_LIST_COMPUTE = 1 << 0,
        GF_LIST_GRAPHICS = 1 << 1,
        GF_LIST_MPS = 1 << 2,
};

struct gf_driver_process {
        pid_t pid;                               /* as seen from our PID namespace */
        uint64_t memory;                         /* GPUFREE_UNKNOWN: not available */
        unsigned lists;                          /* bits of gf_list */
        uint32_t gpu_instance, compute_instance; /* UINT32_MAX: no MIG */
};

/* A process's share of a GPU over the time since the question before. */
struct gf_driver_sample {
        pid_t pid;
        unsigned sm; /* percent, 0 to 100 */
};

/* One MIG instance of a GPU; old drivers name it "MIG-GPU-…/1/0", newer ones "MIG-…". */
struct gf_driver_mig {
        char uuid[96];
        uint32_t gpu_instance, compute_instance;
};

struct gf_driver_gpu {
        int index, minor;                 /* -1 unknown */
        char uuid[96], pci[32], name[96]; /* "" unknown; pci as sysfs writes it: "0000:18:00.0" */
        struct gf_memory memory;
        bool lists_ok; /* every list that this driver has could be read, none was cut short */
        bool mig;
        bool busy_known;                            /* only where it was asked for */
        unsigned busy;                              /* percent of the GPU as a whole, 0 to 100 */
        bool lost;                                  /* the driver cannot use it: off the bus, or waiting for a reset */
        char error[256];                            /* a sentence with the next step; "" */
        GF_VEC(struct gf_driver_process) processes; /* each PID once per instance */
        GF_VEC(struct gf_driver_mig) migs;
        GF_VEC(struct gf_driver_sample) samples;
};

struct gf_driver_report {
        bool asked; /* a library was found and answered */
        char version[96];
        char error[256]; /* why nothing, or not all, is known; "" */
        bool timed_out;
        GF_VEC(struct gf_driver_gpu) gpus;
};

void gf_driver_report_done(struct gf_driver_report *report);
/* What the driver said about this GPU: the same UUID, else PCI address, else minor number, else index; or NULL. */
const struct gf_driver_gpu *gf_driver_gpu_of(const struct gf_driver_report *report, const struct gpufree_gpu *gpu);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "base/vec.h"
#include "gpufree.h"

/* What a device node is for. The table in gpu/classes.c gives names and rules; one place to add a vendor. */
enum gf_class {
        GF_CLASS_OTHER, /* a positional path that is no GPU device */
        GF_CLASS_NVIDIA_GPU,
        GF_CLASS_NVIDIA_CTL,
        GF_CLASS_NVIDIA_UVM,
        GF_CLASS_NVIDIA_UVM_TOOLS,
        GF_CLASS_NVIDIA_MODESET,
        GF_CLASS_NVIDIA_CAP,
        GF_CLASS_NVIDIA_NVSWITCH,
        GF_CLASS_DRM_CARD,
        GF_CLASS_DRM_RENDER,
        GF_CLASS_KFD,
        GF_CLASS_ACCEL,
        GF_CLASS_VFIO_GROUP,
        GF_CLASS_VFIO_CDEV,
        GF_CLASS_NEURON,
        GF_CLASS_ASCEND,
        GF_CLASS_JETSON,
        GF_CLASS_WSL,
};

struct gpufree_device {
        char *path; /* as found or as given */
        dev_t rdev;
        bool block;
        dev_t node_dev; /* the node itself: a holder with another inode uses a node of its own */
        ino_t node_ino;
        enum gf_class cls;
        enum gpufree_vendor vendor;
        int minor;  /* the driver's own number, N of nvidiaN; -1 none */
        int gpu;    /* position in the inventory's GPUs; -1 none in particular */
        bool asked; /* named by path: every opener counts as a holder */
};

struct gf_memory {
        uint64_t total, used, reserved; /* used without reserved; each may be GPUFREE_UNKNOWN */
};

struct gpufree_gpu {
        int index; /* as nvidia-smi counts; -1 unknown */
        int minor; /* -1 unknown */
        char *uuid, *pci, *name;
        enum gpufree_vendor vendor;
        struct gf_memory memory;
        char *error; /* what the driver said about this GPU, with the next step; NULL */
        bool lost;   /* it cannot be used as it is: never free */
        bool selected;
        /* filled by attribution */
        uint64_t accounted, unaccounted; /* GPUFREE_UNKNOWN */
        size_t holders, openers;
        bool lists_complete; /* the driver's process lists of this GPU could be read */
        size_t listed;       /* processes on them */
};

/* The devices and GPUs of this machine: the input of a scan. Owns everything in it. */
struct gf_inventory {
        GF_VEC(struct gpufree_device) devices;
        GF_VEC(struct gpufree_gpu) gpus;
};

void gf_inventory_done(struct gf_inventory *inventory);
/* The device with this number, or NULL. Character and block numbers are different things. */
const struct gpufree_device *gf_inventory_find(const struct gf_inventory *inventory, dev_t rdev, bool block);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/device.h"

/* How a class's nodes relate to GPUs. */
enum gf_class_gpu {
        GF_GPU_NONE,   /* shared by all GPUs, or none's: makes no GPU */
        GF_GPU_MINOR,  /* nameN is the GPU with minor N */
        GF_GPU_SYSFS,  /* /sys says which PCI device it is, and whether that is a GPU at all */
        GF_GPU_SINGLE, /* the machine's one GPU of this kind */
};

/* One row of the table: the nodes of a class. The one place to add a vendor. */
struct gf_class_row {
        enum gf_class cls;
        const char *name;   /* "nvidia-gpu": for people and for JSON */
        const char *dir;    /* under the device root; "" itself */
        const char *prefix; /* of the node's name */
        enum {
                GF_NAME_EXACT,  /* the prefix is the name */
                GF_NAME_NUMBER, /* a number follows */
                GF_NAME_ANY,    /* anything follows */
        } rest;
        enum gpufree_vendor vendor; /* NONE: /sys says */
        enum gf_class_gpu gpu;
        const char *driver; /* begin of the driver's name in /proc/devices; NULL: not asked */
};

const struct gf_class_row *gf_class_rows(size_t *ret_n);
/* The row for a node called `name` in directory `dir` of the device root; its number in *ret_number, -1 none. NULL. */
const struct gf_class_row *gf_class_match(const char *dir, const char *name, int *ret_number);

/* A kernel driver behind DRM, accel and PCI devices. */
struct gf_driver_row {
        const char *driver;
        enum gpufree_vendor vendor;
        bool gpu; /* false: a virtual or server-management display adapter, nothing that computes */
};
const struct gf_driver_row *gf_driver_match(const char *driver);
/* By the PCI vendor's number. OTHER when it is not in the table. */
enum gpufree_vendor gf_pci_vendor(uint32_t vendor);
/* PCI class (24 bits) of a display adapter or processing accelerator. */
bool gf_pci_class_is_gpu(uint32_t pci_class);

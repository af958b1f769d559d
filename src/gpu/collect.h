/* SPDX-License-Identifier: MIT */
#pragma once

#include "gpu/classes.h"
#include "model/device.h"
#include "model/driver.h"
#include "model/env.h"
#include "parse/nvidia.h"

/* An inventory in the making; what the files of this room share. */
struct gf_collect {
        struct gf_env *env;
        gf_strv *gaps;
        struct gf_majors majors;
        struct gf_inventory inventory;
        bool proc_gpus; /* the NVIDIA driver listed its GPUs in /proc */
};

/* inventory.c */
/* The GPU that these say (NULL, "" and -1: not known), or -1. Two that are both known and differ are two GPUs. */
int gf_gpu_find(const struct gf_inventory *inventory, enum gpufree_vendor vendor, const char *pci, const char *uuid,
                int minor);
/* The same, added when it is not there. Its position, or -ENOMEM. */
int gf_gpu_find_or_add(struct gf_inventory *inventory, enum gpufree_vendor vendor, const char *pci, const char *uuid,
                       int minor);
/* Does this node carry a number of its driver's, so that the driver's files speak of it? */
bool gf_device_is_drivers(const struct gf_collect *collect, const struct gpufree_device *device,
                          const struct gf_class_row *row);

/* nvidia.c: -errno only when memory ran out. */
int gf_nvidia_collect(struct gf_collect *collect);                             /* GPUs from /proc */
int gf_nvidia_place(struct gf_collect *collect, struct gpufree_device *device, /* a node nvidiaN */
                    const struct gf_class_row *row);
int gf_nvidia_add_missing_nodes(struct gf_collect *collect); /* known by number, not there by name */

/* sysfs.c: 0, or 1: this is no GPU's, it is not wanted. */
int gf_sysfs_place(struct gf_collect *collect, struct gpufree_device *device);

/* join.c: -ENOMEM. */
int gf_place_shared(struct gf_inventory *inventory);
int gf_sort_gpus(struct gf_inventory *inventory);

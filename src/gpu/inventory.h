/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/device.h"
#include "model/driver.h"
#include "model/env.h"

/*
 * The GPUs and device nodes of this machine, from the nodes under dev_root, /proc/devices, /proc/driver/nvidia, /sys
 * and, where given, the driver library's report (indices, UUIDs, memory). With positional paths, the devices are those
 * alone; the GPUs are all the same. Fails on a positional path that is missing or no device (sentence in env):
 * -ENOENT, -ENOTBLK; an unreadable directory is not a failure but a sentence in `gaps`.
 */
int gf_inventory_read(struct gf_env *env, const struct gf_driver_report *report, gf_strv *gaps,
                      struct gf_inventory *ret_inventory);
/*
 * Joins the driver library's report to an inventory that was read without it (`report` NULL above): for a pipeline that
 * scans while the library still initialises. Devices keep their positions; GPUs are added and sorted anew, devices
 * follow. A GPU without a node to look for is a sentence in `gaps`.
 */
int gf_inventory_add_report(struct gf_env *env, const struct gf_driver_report *report, gf_strv *gaps,
                            struct gf_inventory *inventory);
/* Follows symlinks, checks that it is a device: -ENOENT, -ENOTBLK, -errno; sentence in env. */
int gf_device_check_path(struct gf_env *env, const char *path);
/* "nvidia-gpu", "nvidia-uvm", …, "other" */
const char *gf_class_name(enum gf_class cls);

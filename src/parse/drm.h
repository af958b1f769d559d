/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* /proc/PID/fdinfo/N of a DRM device, as the kernel's drm-usage-stats document has it (amdgpu, i915, xe, nouveau …). */
struct gf_drm_fdinfo {
        char driver[32];
        char pdev[32];   /* PCI address, "0000:03:00.0"; "" none */
        bool has_client; /* the same client behind several descriptors is one */
        uint64_t client;
        uint64_t local; /* bytes in the device's own memory: resident, else what older drivers give; GPUFREE_UNKNOWN */
};
/* false: it is none. Absurd sums are unknown. */
bool gf_parse_drm_fdinfo(const char *text, size_t length, struct gf_drm_fdinfo *ret);

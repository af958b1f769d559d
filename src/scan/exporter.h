/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/*
 * Is this the name under which a GPU or accelerator driver exports dma-bufs? Others (cameras, plain memory) do not
 * count. "drm" is what drivers without an export function of their own show.
 */
static inline bool gf_exporter_of_gpu(const char *exporter)
{
        static const char *const begins[] = { "nv",         "amdgpu",    "radeon",  "amdkfd",  "amdxdna",
                                              "i915",       "xe",        "drm",     "nouveau", "virtio_gpu",
                                              "habanalabs", "intel_vpu", "ivpu",    "neuron",  "tegra",
                                              "msm",        "panfrost",  "panthor", "vfio",    "qaic" };

        for (size_t i = 0; i < ELEMENTSOF(begins); i++)
                if (gf_startswith(exporter, begins[i]))
                        return true;
        return false;
}

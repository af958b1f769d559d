/* SPDX-License-Identifier: MIT */
#include "guard/visible.h"

#include <errno.h>
#include <stdbool.h>

/* Its number among the GPUs of its vendor, which are sorted. */
static int number_of(const struct gpufree_snapshot *snapshot, size_t gpu)
{
        int number = 0;

        for (size_t i = 0; i < gpu; i++)
                number += snapshot->inventory.gpus.v[i].vendor == snapshot->inventory.gpus.v[gpu].vendor;
        return number;
}

static bool has_vendor(const struct gpufree_snapshot *snapshot, const size_t *gpus, size_t n,
                       enum gpufree_vendor vendor)
{
        for (size_t i = 0; i < n; i++)
                if (snapshot->inventory.gpus.v[gpus[i]].vendor == vendor)
                        return true;
        return false;
}

static int add(const struct gpufree_snapshot *snapshot, const size_t *gpus, size_t n, enum gpufree_vendor vendor,
               const char *variable, bool uuids, bool from_zero, gf_strv *environment)
{
        _cleanup_free_ char *text = NULL;
        struct gf_str list = { 0 };
        int count = 0, r;

        if (!has_vendor(snapshot, gpus, n, vendor))
                return 0;
        gf_str_addf(&list, "%s=", variable);
        for (size_t i = 0; i < n; i++) {
                const struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[gpus[i]];

                if (gpu->vendor != vendor)
                        continue;
                gf_str_add(&list, count > 0 ? "," : "");
                if (uuids && gpu->uuid)
                        gf_str_add(&list, gpu->uuid);
                else
                        gf_str_addf(&list, "%d",
                                    from_zero         ? count
                                    : gpu->index >= 0 ? gpu->index
                                                      : number_of(snapshot, gpus[i]));
                count++;
        }
        r = gf_str_take(&list, &text);
        return r < 0 ? r : gf_strv_add(environment, text);
}

int gf_visible(const struct gpufree_snapshot *snapshot, const size_t *gpus, size_t n, gf_strv *environment)
{
        int r = add(snapshot, gpus, n, GPUFREE_VENDOR_NVIDIA, "CUDA_VISIBLE_DEVICES", true, false, environment);

        if (r == 0)
                r = add(snapshot, gpus, n, GPUFREE_VENDOR_AMD, "ROCR_VISIBLE_DEVICES", false, false, environment);
        /* HIP counts what ROCR left visible. */
        if (r == 0)
                r = add(snapshot, gpus, n, GPUFREE_VENDOR_AMD, "HIP_VISIBLE_DEVICES", false, true, environment);
        if (r == 0)
                r = add(snapshot, gpus, n, GPUFREE_VENDOR_INTEL, "ZE_AFFINITY_MASK", false, false, environment);
        return r;
}

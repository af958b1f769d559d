/* SPDX-License-Identifier: MIT */
/* NVML's report joined to the inventory, and the order of the GPUs. */
#include <errno.h>
#include <string.h>

#include "gpu/collect.h"
#include "gpu/inventory.h"

static bool same_or_unknown(const char *a, const char *b)
{
        return !a || !a[0] || !b || !b[0] || gf_streq(a, b);
}

/* The GPU without a known place that this one of NVML's must be: one is left on either side, and nothing contradicts.
 */
static int find_last(const struct gf_inventory *inventory, const bool *taken, const struct gf_driver_gpu *gpu)
{
        int found = -1;

        for (size_t i = 0; i < inventory->gpus.n; i++) {
                const struct gpufree_gpu *candidate = &inventory->gpus.v[i];

                if (taken[i] || candidate->vendor != GPUFREE_VENDOR_NVIDIA)
                        continue;
                if (found >= 0)
                        return -1;
                found = (int)i;
        }
        if (found < 0)
                return -1;
        if (!same_or_unknown(inventory->gpus.v[found].pci, gpu->pci) ||
            !same_or_unknown(inventory->gpus.v[found].uuid, gpu->uuid) ||
            (inventory->gpus.v[found].minor >= 0 && gpu->minor >= 0))
                return -1;
        return found;
}

static int fill_gpu(struct gpufree_gpu *gpu, const struct gf_driver_gpu *from)
{
        gpu->index = from->index;
        if (from->minor >= 0)
                gpu->minor = from->minor;
        gpu->memory = from->memory;
        gpu->lost = from->lost;
        if ((from->uuid[0] && gf_strset(&gpu->uuid, from->uuid) < 0) ||
            (from->pci[0] && gf_strset(&gpu->pci, from->pci) < 0) ||
            (from->name[0] && gf_strset(&gpu->name, from->name) < 0))
                return -ENOMEM;
        return gf_strset(&gpu->error, from->error[0] ? from->error : NULL);
}

/* A GPU of NVML's that cannot be told from what /proc and the nodes say gets what is left. */
static int join_leftover(struct gf_inventory *inventory, bool *taken, const struct gf_driver_gpu *from, bool only_one)
{
        int position = only_one ? find_last(inventory, taken, from) : -1;

        if (position < 0) {
                struct gpufree_gpu *gpu = gf_vec_add(&inventory->gpus);

                if (!gpu)
                        return -ENOMEM;
                *gpu = (struct gpufree_gpu){ .index = -1, .minor = -1, .vendor = GPUFREE_VENDOR_NVIDIA };
                position = (int)inventory->gpus.n - 1;
        } else
                taken[position] = true;
        return fill_gpu(&inventory->gpus.v[position], from);
}

static int find_reported(const struct gf_inventory *inventory, const struct gf_driver_gpu *gpu)
{
        int position = gf_gpu_find(inventory, GPUFREE_VENDOR_NVIDIA, gpu->pci, gpu->uuid, gpu->minor);

        if (position >= 0 || gpu->pci[0] || gpu->uuid[0] || gpu->minor >= 0)
                return position;
        for (size_t i = 0; i < inventory->gpus.n; i++) /* from a report before this one */
                if (inventory->gpus.v[i].index == gpu->index)
                        return (int)i;
        return -1;
}

static int join_report(struct gf_inventory *inventory, const struct gf_driver_report *report)
{
        _cleanup_free_ bool *taken = calloc(inventory->gpus.n + 1, sizeof(*taken)), *joined = NULL;
        size_t leftover = 0;
        int r;

        joined = calloc(report->gpus.n + 1, sizeof(*joined));
        if (!taken || !joined)
                return -ENOMEM;
        for (size_t i = 0; i < report->gpus.n; i++) {
                int position = find_reported(inventory, &report->gpus.v[i]);

                if (position < 0 || taken[position]) {
                        leftover++;
                        continue;
                }
                taken[position] = joined[i] = true;
                r = fill_gpu(&inventory->gpus.v[position], &report->gpus.v[i]);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < report->gpus.n; i++) {
                if (joined[i])
                        continue;
                r = join_leftover(inventory, taken, &report->gpus.v[i], leftover == 1);
                if (r < 0)
                        return r;
        }
        return 0;
}

/*
 * Nodes that all GPUs of a kind share (Jetson, WSL): on a machine with one GPU they are that one's. When nobody knows
 * of a GPU, the nodes show that there is one.
 */
int gf_place_shared(struct gf_inventory *inventory)
{
        for (size_t i = 0; i < inventory->devices.n; i++) {
                struct gpufree_device *device = &inventory->devices.v[i];
                size_t candidates = 0;
                int last = -1;

                if (device->cls != GF_CLASS_JETSON && device->cls != GF_CLASS_WSL)
                        continue;
                for (size_t k = 0; k < inventory->gpus.n; k++)
                        if (inventory->gpus.v[k].vendor == GPUFREE_VENDOR_NVIDIA ||
                            inventory->gpus.v[k].vendor == device->vendor) {
                                last = (int)k;
                                candidates++;
                        }
                if (candidates == 0) {
                        last = gf_gpu_find_or_add(inventory, device->vendor, NULL, NULL, -1);
                        if (last < 0)
                                return last;
                }
                device->gpu = candidates <= 1 ? last : -1;
        }
        return 0;
}

/* Takes out the GPU that only gf_place_shared() knew of: NVML knows better. */
static void drop_nameless(struct gf_inventory *inventory)
{
        for (size_t i = 0; i < inventory->gpus.n; i++) {
                const struct gpufree_gpu *gpu = &inventory->gpus.v[i];

                if (gpu->index >= 0 || gpu->minor >= 0 || gpu->uuid || gpu->pci || gpu->name)
                        continue;
                free(gpu->error);
                memmove(&inventory->gpus.v[i], &inventory->gpus.v[i + 1],
                        (inventory->gpus.n - i - 1) * sizeof(inventory->gpus.v[0]));
                inventory->gpus.n--;
                for (size_t k = 0; k < inventory->devices.n; k++) {
                        if (inventory->devices.v[k].gpu == (int)i)
                                inventory->devices.v[k].gpu = -1;
                        else if (inventory->devices.v[k].gpu > (int)i)
                                inventory->devices.v[k].gpu--;
                }
                return;
        }
}

struct ranked {
        struct gpufree_gpu gpu;
        int before; /* its position until now */
};

static int compare_unsigned(unsigned a, unsigned b)
{
        return a < b ? -1 : a > b;
}

/* NVML's index first, then the minor, then the PCI address; -1 as an unsigned number is the last. */
static int compare_gpus(const void *a, const void *b)
{
        const struct ranked *x = a, *y = b;
        int r = compare_unsigned((unsigned)x->gpu.index, (unsigned)y->gpu.index);

        if (r == 0)
                r = compare_unsigned(x->gpu.vendor, y->gpu.vendor);
        if (r == 0)
                r = compare_unsigned((unsigned)x->gpu.minor, (unsigned)y->gpu.minor);
        if (r == 0)
                r = strcmp(x->gpu.pci ? x->gpu.pci : "", y->gpu.pci ? y->gpu.pci : "");
        return r != 0 ? r : compare_unsigned((unsigned)x->before, (unsigned)y->before);
}

int gf_sort_gpus(struct gf_inventory *inventory)
{
        size_t n = inventory->gpus.n;
        _cleanup_free_ struct ranked *ranked = calloc(n + 1, sizeof(*ranked));
        _cleanup_free_ int *now = calloc(n + 1, sizeof(*now));

        if (!ranked || !now)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                ranked[i] = (struct ranked){ inventory->gpus.v[i], (int)i };
        qsort(ranked, n, sizeof(*ranked), compare_gpus);
        for (size_t i = 0; i < n; i++) {
                inventory->gpus.v[i] = ranked[i].gpu;
                now[ranked[i].before] = (int)i;
        }
        for (size_t i = 0; i < inventory->devices.n; i++)
                if (inventory->devices.v[i].gpu >= 0)
                        inventory->devices.v[i].gpu = now[inventory->devices.v[i].gpu];
        return 0;
}

static bool has_node(const struct gf_inventory *inventory, size_t gpu)
{
        for (size_t i = 0; i < inventory->devices.n; i++)
                if (inventory->devices.v[i].gpu == (int)gpu || inventory->devices.v[i].cls == GF_CLASS_JETSON ||
                    inventory->devices.v[i].cls == GF_CLASS_WSL) /* one node for every GPU */
                        return true;
        return false;
}

/* A GPU whose node is not there cannot be looked for: this is never the same as nobody having it open. */
static int note_missing_nodes(const struct gf_env *env, const struct gf_inventory *inventory, gf_strv *gaps)
{
        for (size_t i = 0; i < inventory->gpus.n; i++) {
                const struct gpufree_gpu *gpu = &inventory->gpus.v[i];
                int r;

                if (gpu->vendor != GPUFREE_VENDOR_NVIDIA || has_node(inventory, i))
                        continue;
                if (gpu->index >= 0)
                        r = gf_strv_addf(gaps,
                                         "GPU %d has no device node in %s that could be tied to it: who holds it is "
                                         "not known; nvidia-modprobe -c %d makes the node",
                                         gpu->index, env->dev_root, gpu->minor >= 0 ? gpu->minor : gpu->index);
                else
                        r = gf_strv_addf(gaps, "the GPU at %s has no device node in %s: who holds it is not known",
                                         gpu->pci ? gpu->pci : "an unknown address", env->dev_root);
                if (r < 0)
                        return r;
        }
        return 0;
}

int gf_inventory_add_report(struct gf_env *env, const struct gf_driver_report *report, gf_strv *gaps,
                            struct gf_inventory *inventory)
{
        int r;

        if (report->gpus.n > 0)
                drop_nameless(inventory);
        r = join_report(inventory, report);
        if (r < 0)
                return r;
        r = gf_place_shared(inventory);
        if (r < 0)
                return r;
        r = gf_sort_gpus(inventory);
        /* Of devices that were named by path, those alone are asked about. */
        if (r < 0 || env->paths.n > 0)
                return r;
        return note_missing_nodes(env, inventory, gaps);
}

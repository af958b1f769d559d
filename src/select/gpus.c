/* SPDX-License-Identifier: MIT */
#include <limits.h>

#include "select/criteria.h"
#include "select/select.h"
#include "select/values.h"

/* So many names are listed in a sentence. */
#define LISTED 8

static bool index_is_there(const struct gf_inventory *inventory, uint32_t index)
{
        for (size_t i = 0; i < inventory->gpus.n; i++)
                if (inventory->gpus.v[i].index >= 0 && (uint32_t)inventory->gpus.v[i].index == index)
                        return true;
        return false;
}

static int compare_ints(const void *a, const void *b)
{
        const int *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

/* "0-3, 5": the indices that there are. Empty: none is known. */
static int format_indices(const struct gf_inventory *inventory, struct gf_str *str)
{
        _cleanup_free_ int *sorted = calloc(inventory->gpus.n + 1, sizeof(int));
        size_t n = 0;

        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < inventory->gpus.n; i++)
                if (inventory->gpus.v[i].index >= 0)
                        sorted[n++] = inventory->gpus.v[i].index;
        qsort(sorted, n, sizeof(int), compare_ints);
        for (size_t i = 0; i < n;) {
                size_t last = i;

                while (last + 1 < n && sorted[last + 1] <= sorted[last] + 1)
                        last++;
                gf_str_addf(str, "%s%d", i ? ", " : "", sorted[i]);
                if (sorted[last] != sorted[i])
                        gf_str_addf(str, "-%d", sorted[last]);
                i = last + 1;
        }
        return 0;
}

static void add_name(struct gf_str *str, size_t *n, const char *name)
{
        if (!name || !*name || *n > LISTED)
                return;
        if (*n == LISTED)
                gf_str_add(str, ", …");
        else
                gf_str_addf(str, "%s%s", *n ? ", " : "", name);
        (*n)++;
}

/* The names of the kind that the term is of. */
static void format_names(const struct gpufree_snapshot *snapshot, enum gf_gpu_term_kind kind, struct gf_str *str)
{
        size_t n = 0;

        if (kind == GF_GPU_MIG) {
                for (size_t i = 0; i < snapshot->driver.gpus.n; i++)
                        for (size_t j = 0; j < snapshot->driver.gpus.v[i].migs.n; j++)
                                add_name(str, &n, snapshot->driver.gpus.v[i].migs.v[j].uuid);
                return;
        }
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                add_name(str, &n,
                         kind == GF_GPU_PCI ? snapshot->inventory.gpus.v[i].pci : snapshot->inventory.gpus.v[i].uuid);
}

static int fail_missing(struct gf_env *env, const struct gpufree_snapshot *snapshot, const struct gf_gpu_term *term,
                        const char *name)
{
        const char *what = term->kind == GF_GPU_MIG ? "MIG instance" : "GPU";
        struct gf_str str = { 0 };
        _cleanup_free_ char *present = NULL;

        if (term->kind == GF_GPU_INDEX) {
                int r = format_indices(&snapshot->inventory, &str);

                if (r < 0)
                        return r;
                if (!str.s && snapshot->inventory.gpus.n > 0) {
                        format_names(snapshot, GF_GPU_PCI, &str);
                        if (gf_str_take(&str, &present) < 0)
                                return -ENOMEM;
                        return gf_fail(env, -ENODEV,
                                       "there is no GPU %s here (the driver does not say which index a GPU has; "
                                       "there are %s)",
                                       name, *present ? present : "some without a name");
                }
        } else
                format_names(snapshot, term->kind, &str);
        if (gf_str_take(&str, &present) < 0)
                return -ENOMEM;
        if (!*present)
                return gf_fail(env, -ENODEV, "there is no %s %s here (there are none%s)", what, name,
                               snapshot->inventory.gpus.n > 0 && term->kind != GF_GPU_MIG ? " named so" : "");
        return gf_fail(env, -ENODEV, "there is no %s %s here (there %s %s)", what, name,
                       strpbrk(present, ",-") || term->kind != GF_GPU_INDEX ? "are" : "is only", present);
}

/* Several GPUs fit a name that is to mean one. */
static int fail_ambiguous(struct gf_env *env, const struct gpufree_snapshot *snapshot, const struct gf_gpu_term *term)
{
        struct gf_str str = { 0 };
        _cleanup_free_ char *fitting = NULL;
        size_t n = 0;

        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++) {
                const struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[i];

                if (gf_gpu_term_names(term, snapshot, gpu))
                        add_name(&str, &n, term->kind == GF_GPU_PCI ? gpu->pci : gpu->uuid);
        }
        if (gf_str_take(&str, &fitting) < 0)
                return -ENOMEM;
        return gf_fail(env, -ENODEV, "\"%s\" fits more than one GPU (%s): give more of it", term->text, fitting);
}

/* 0 or the one beginning; several instances on one GPU count as well. */
static int check_mig(struct gf_env *env, const struct gpufree_snapshot *snapshot, const struct gf_gpu_term *term)
{
        struct gf_str str = { 0 };
        _cleanup_free_ char *fitting = NULL;
        size_t n = 0;

        for (size_t i = 0; i < snapshot->driver.gpus.n; i++) {
                const struct gf_driver_gpu *gpu = &snapshot->driver.gpus.v[i];

                for (size_t j = 0; j < gpu->migs.n; j++)
                        if (gf_gpu_term_names_instance(term, gpu, gpu->migs.v[j].gpu_instance,
                                                       gpu->migs.v[j].compute_instance))
                                add_name(&str, &n, gpu->migs.v[j].uuid);
        }
        if (gf_str_take(&str, &fitting) < 0)
                return -ENOMEM;
        if (n > 1)
                return gf_fail(env, -ENODEV, "\"%s\" fits more than one MIG instance (%s): give more of it", term->text,
                               fitting);
        return 0;
}

static int check_term(struct gf_env *env, const struct gpufree_snapshot *snapshot, const struct gf_gpu_term *term)
{
        size_t fitting = 0;

        if (term->kind == GF_GPU_ALL)
                return 0;
        if (term->kind == GF_GPU_INDEX) {
                char name[16];

                /* Ends at the first that is missing, so that the width of the range does not matter. */
                for (uint32_t i = term->first; i <= term->last; i++) {
                        if (index_is_there(&snapshot->inventory, i))
                                continue;
                        snprintf(name, sizeof(name), "%u", i);
                        return fail_missing(env, snapshot, term, name);
                }
                return 0;
        }
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                if (gf_gpu_term_names(term, snapshot, &snapshot->inventory.gpus.v[i]))
                        fitting++;
        if (fitting == 0)
                return fail_missing(env, snapshot, term, term->text);
        if (term->kind == GF_GPU_MIG && !term->mig_parent) {
                int r = check_mig(env, snapshot, term);

                if (r < 0)
                        return r;
        }
        return fitting > 1 ? fail_ambiguous(env, snapshot, term) : 0;
}

/* Where no GPU is named: without paths every GPU is meant, with paths those whose devices were named. */
static bool meant_by_path(const struct gpufree_snapshot *snapshot, size_t gpu)
{
        bool paths = false;

        for (size_t i = 0; i < snapshot->inventory.devices.n; i++) {
                const struct gpufree_device *device = &snapshot->inventory.devices.v[i];

                paths = paths || device->asked;
                if (device->asked && device->gpu >= 0 && (size_t)device->gpu == gpu)
                        return true;
        }
        return !paths;
}

int gf_select_gpus(struct gf_env *env, const struct gpufree_selection *selection, struct gpufree_snapshot *snapshot)
{
        struct gf_inventory *inventory = &snapshot->inventory;

        for (size_t i = 0; selection && i < selection->gpus.n; i++) {
                int r = check_term(env, snapshot, &selection->gpus.v[i]);

                if (r < 0)
                        return r;
        }
        snapshot->by_process = gf_selection_by_process(selection);
        for (size_t i = 0; i < inventory->gpus.n; i++) {
                struct gpufree_gpu *gpu = &inventory->gpus.v[i];
                bool meant = false;

                if (!selection || selection->gpus.n == 0)
                        meant = meant_by_path(snapshot, i);
                for (size_t j = 0; selection && !meant && j < selection->gpus.n; j++)
                        meant = gf_gpu_term_names(&selection->gpus.v[j], snapshot, gpu);
                gpu->selected = meant && gf_selection_allows_vendor(selection, gpu->vendor);
        }
        return 0;
}

/* SPDX-License-Identifier: MIT */
/* What stands in the way of a reset, a change of MIG mode, an unload, an unbind; in the order to clear it. */
#include "explain/blockers.h"

#include <errno.h>

int gf_way_add(struct gf_way *way, const char *kind, struct gf_str *sentence, const char *command)
{
        struct gf_blocker *step = gf_vec_add(&way->blockers->steps);

        if (!step) {
                gf_str_done(sentence);
                return -ENOMEM;
        }
        step->kind = kind;
        if (gf_str_take(sentence, &step->sentence) < 0)
                return -ENOMEM;
        return gf_strset(&step->command, command);
}

/* Of what vendor are the GPUs that are asked about? The module of another one is not in question. */
static bool vendor_asked(const struct gpufree_snapshot *snapshot, enum gpufree_vendor vendor)
{
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                if (snapshot->inventory.gpus.v[i].selected && snapshot->inventory.gpus.v[i].vendor == vendor)
                        return true;
        return false;
}

static bool is_asked(const struct gpufree_snapshot *snapshot, int gpu, enum gpufree_purpose purpose)
{
        const struct gpufree_gpu *g;

        if (gpu < 0)
                return false;
        g = &snapshot->inventory.gpus.v[gpu];
        return purpose == GPUFREE_FOR_UNLOAD ? vendor_asked(snapshot, g->vendor) : g->selected;
}

bool gf_stands_in_the_way(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder,
                          enum gpufree_purpose purpose)
{
        for (size_t i = 0; i < holder->gpus.n; i++)
                if (is_asked(snapshot, holder->gpus.v[i].gpu, purpose))
                        return true;
        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gf_device_use *use = &holder->devices.v[i];
                const struct gpufree_device *device;

                /* A dma-buf whose GPU is not known may be of this one. */
                if (use->device < 0) {
                        if (holder->gpus.n == 0)
                                return true;
                        continue;
                }
                device = &snapshot->inventory.devices.v[use->device];
                if (is_asked(snapshot, device->gpu, purpose))
                        return true;
                if (purpose == GPUFREE_FOR_UNLOAD && device->gpu < 0 && vendor_asked(snapshot, device->vendor))
                        return true;
        }
        return false;
}

const char *gf_way_module(const struct gf_way *way, size_t gpu)
{
        const struct gf_ground_gpu *ground = &way->ground->gpus.v[gpu];

        if (ground->module[0] && !gf_streq(ground->driver, "vfio-pci"))
                return ground->module;
        switch (way->snapshot->inventory.gpus.v[gpu].vendor) {
        case GPUFREE_VENDOR_NVIDIA:
                return "nvidia";
        case GPUFREE_VENDOR_AMD:
                return "amdgpu";
        case GPUFREE_VENDOR_INTEL:
                return gf_module_find(&way->ground->modules, "xe") ? "xe" : "i915";
        case GPUFREE_VENDOR_HABANA:
                return "habanalabs";
        case GPUFREE_VENDOR_AWS:
                return "neuron";
        case GPUFREE_VENDOR_NONE:
        case GPUFREE_VENDOR_GOOGLE:
        case GPUFREE_VENDOR_HUAWEI:
        case GPUFREE_VENDOR_MICROSOFT:
        case GPUFREE_VENDOR_OTHER:
        default:
                return NULL;
        }
}

/* The command that is free to run then; commands of several GPUs are joined. */
static void add_goal(const struct gf_way *way, size_t gpu, struct gf_str *goal)
{
        const struct gpufree_gpu *g = &way->snapshot->inventory.gpus.v[gpu];
        const char *and = goal->n ? "; " : "", *driver = way->ground->gpus.v[gpu].driver,
                   *module = gf_way_module(way, gpu);
        _cleanup_free_ char *name = g->index >= 0 ? gf_asprintf("%d", g->index)
                                                  : gf_asprintf("%s", g->pci ? g->pci : "?");

        goal->failed |= !name;
        switch (way->purpose) {
        case GPUFREE_FOR_RESET:
                if (g->vendor == GPUFREE_VENDOR_NVIDIA)
                        gf_str_addf(goal, "%snvidia-smi --gpu-reset -i %s", and, name);
                else if (g->pci)
                        gf_str_addf(goal, "%secho 1 > /sys/bus/pci/devices/%s/reset", and, g->pci);
                break;
        case GPUFREE_FOR_MIG:
                gf_str_addf(goal, "%snvidia-smi -i %s -mig 1", and, name);
                break;
        case GPUFREE_FOR_UNLOAD:
                if (module && (!goal->s || !gf_endswith(goal->s, module)))
                        gf_str_addf(goal, "%smodprobe -r %s", and, module);
                break;
        case GPUFREE_FOR_UNBIND:
                if (g->pci && driver[0])
                        gf_str_addf(goal, "%secho %s > /sys/bus/pci/drivers/%s/unbind", and, g->pci, driver);
                break;
        }
}

static int add_goals(struct gf_way *way)
{
        struct gf_str goal = { 0 };

        for (size_t i = 0; i < way->snapshot->inventory.gpus.n; i++)
                if (way->snapshot->inventory.gpus.v[i].selected)
                        add_goal(way, i, &goal);
        if (goal.n == 0) {
                gf_str_done(&goal);
                return 0;
        }
        return gf_str_take(&goal, &way->blockers->goal);
}

static int add_notes(struct gf_way *way)
{
        const struct gpufree_snapshot *snapshot = way->snapshot;
        gf_strv *notes = &way->blockers->notes;
        bool switches = false;
        int r = 0;

        for (size_t i = 0; i < snapshot->inventory.devices.n; i++)
                switches = switches || snapshot->inventory.devices.v[i].cls == GF_CLASS_NVIDIA_NVSWITCH;
        if (switches && way->purpose == GPUFREE_FOR_RESET)
                r = gf_strv_add(notes,
                                "The GPUs here are joined by NVSwitch: some models are only reset all together "
                                "(nvidia-smi --gpu-reset without -i), so look at all of them: gpufree check --for "
                                "reset --gpu all.");
        if (r >= 0 && way->purpose == GPUFREE_FOR_UNBIND)
                r = gf_strv_add(notes,
                                "An unbind that is begun while something still has the GPU open does not end, and "
                                "cannot be taken back: check again right before it.");
        if (r >= 0 && snapshot->scan.refused.n > 0)
                r = gf_strv_addf(notes, "%zu process%s could not be looked at: run as root to see %s.",
                                 snapshot->scan.refused.n, snapshot->scan.refused.n == 1 ? "" : "es",
                                 snapshot->scan.refused.n == 1 ? "it" : "them");
        if (r >= 0 && way->purpose == GPUFREE_FOR_UNLOAD && way->ground->modules_error < 0)
                r = gf_strv_add(notes,
                                way->ground->modules_error == -ENOENT
                                        ? "This kernel lists no modules (/proc/modules is not there): a driver that "
                                          "is built in cannot be unloaded."
                                        : "/proc/modules could not be read: which modules hold the driver is not "
                                          "known.");
        return r;
}

static int check_able(const struct gpufree_snapshot *snapshot, enum gpufree_purpose purpose)
{
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                if (purpose == GPUFREE_FOR_MIG && snapshot->inventory.gpus.v[i].selected &&
                    snapshot->inventory.gpus.v[i].vendor != GPUFREE_VENDOR_NVIDIA)
                        return -EOPNOTSUPP;
        return 0;
}

int gf_blockers_make(const struct gpufree_snapshot *snapshot, const struct gf_ground *ground,
                     enum gpufree_purpose purpose, struct gpufree_blockers **ret_blockers)
{
        struct gpufree_blockers *blockers;
        struct gf_way way = { .snapshot = snapshot, .ground = ground, .purpose = purpose };
        int r = check_able(snapshot, purpose);

        if (r < 0)
                return r;
        blockers = calloc(1, sizeof(*blockers));
        if (!blockers)
                return -ENOMEM;
        way.blockers = blockers;
        r = gf_way_processes(&way);
        if (r >= 0)
                r = gf_way_kernel(&way);
        if (r >= 0)
                r = add_goals(&way);
        if (r >= 0)
                r = add_notes(&way);
        if (r < 0) {
                gpufree_blockers_unref(blockers);
                return r;
        }
        if (blockers->steps.n > 0)
                blockers->outcome = GPUFREE_HELD;
        else if (snapshot->gaps.n > 0 || snapshot->scan.refused.n > 0 ||
                 (purpose == GPUFREE_FOR_UNLOAD && ground->modules_error < 0 && ground->modules_error != -ENOENT))
                blockers->outcome = GPUFREE_INCOMPLETE;
        *ret_blockers = blockers;
        return 0;
}

gpufree_blockers *gpufree_blockers_unref(gpufree_blockers *blockers)
{
        if (!blockers)
                return NULL;
        for (size_t i = 0; i < blockers->steps.n; i++) {
                free(blockers->steps.v[i].sentence);
                free(blockers->steps.v[i].command);
        }
        gf_vec_done(&blockers->steps);
        gf_strv_done(&blockers->notes);
        free(blockers->goal);
        free(blockers);
        return NULL;
}

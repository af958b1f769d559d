/* SPDX-License-Identifier: MIT */
/* What a process holds: GPUs, vendors, paths; and when having a device open is enough. */
#include "select/criteria_match.h"

bool gf_use_holds(const struct gf_gpu_use *use)
{
        return use->context || (use->memory != GPUFREE_UNKNOWN && use->memory > 0);
}

static bool is_dmabuf_with_memory(const struct gf_device_use *use)
{
        return use->device < 0 && use->bytes != GPUFREE_UNKNOWN && use->bytes > 0;
}

bool gf_holds_anything(const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < holder->gpus.n; i++)
                if (gf_use_holds(&holder->gpus.v[i]))
                        return true;
        for (size_t i = 0; i < holder->devices.n; i++)
                if (is_dmabuf_with_memory(&holder->devices.v[i]))
                        return true;
        return false;
}

/* The PID that the driver knows it by: its own, or that of the dead process whose memory it keeps. */
static bool is_listed_as(const struct gpufree_holder *holder, pid_t pid)
{
        char note[48];

        if (holder->id.pid == pid)
                return true;
        snprintf(note, sizeof(note), "inherited-from:%d", (int)pid);
        return gf_strv_has(&holder->notes, note);
}

static bool is_on_instance(const struct gf_gpu_term *term, const struct gpufree_snapshot *snapshot,
                           const struct gpufree_gpu *gpu, const struct gpufree_holder *holder)
{
        const struct gf_driver_gpu *known = gf_driver_gpu_of(&snapshot->driver, gpu);

        for (size_t i = 0; known && i < known->processes.n; i++) {
                const struct gf_driver_process *process = &known->processes.v[i];

                if (is_listed_as(holder, process->pid) &&
                    gf_gpu_term_names_instance(term, known, process->gpu_instance, process->compute_instance))
                        return true;
        }
        return false;
}

static bool is_on_gpu(const struct gpufree_selection *selection, const struct gpufree_snapshot *snapshot,
                      const struct gpufree_gpu *gpu, const struct gpufree_holder *holder)
{
        if (!selection || selection->gpus.n == 0)
                return true;
        /* Set by gf_select_gpus() where no name was missing or ambiguous. */
        if (!gpu->selected)
                return false;
        for (size_t i = 0; i < selection->gpus.n; i++) {
                const struct gf_gpu_term *term = &selection->gpus.v[i];

                if (term->kind == GF_GPU_MIG ? is_on_instance(term, snapshot, gpu, holder)
                                             : gf_gpu_term_names(term, snapshot, gpu))
                        return true;
        }
        return false;
}

/* One GPU is meant rather than any. */
static bool names_gpus(const struct gpufree_selection *selection)
{
        if (!selection || selection->gpus.n == 0)
                return false;
        for (size_t i = 0; i < selection->gpus.n; i++)
                if (selection->gpus.v[i].kind == GF_GPU_ALL)
                        return false;
        return true;
}

static enum gpufree_vendor vendor_of(const struct gpufree_snapshot *snapshot, const struct gf_device_use *use)
{
        static const struct {
                const char *begins;
                enum gpufree_vendor vendor;
        } exporters[] = {
                { "nv", GPUFREE_VENDOR_NVIDIA },         { "amdgpu", GPUFREE_VENDOR_AMD },
                { "i915", GPUFREE_VENDOR_INTEL },        { "xe", GPUFREE_VENDOR_INTEL },
                { "habanalabs", GPUFREE_VENDOR_HABANA },
        };

        if (use->device >= 0)
                return (size_t)use->device < snapshot->inventory.devices.n
                               ? snapshot->inventory.devices.v[use->device].vendor
                               : GPUFREE_VENDOR_NONE;
        for (size_t i = 0; i < ELEMENTSOF(exporters); i++)
                if (gf_startswith(use->exporter, exporters[i].begins))
                        return exporters[i].vendor;
        return GPUFREE_VENDOR_OTHER;
}

/*
 * Some accelerators have no device of their own each (WSL, Jetson, the managers of others). Where no GPU of that maker
 * is known to tell more, having such a device open is all the evidence there can be.
 */
static bool is_sole_evidence(const struct gpufree_snapshot *snapshot, const struct gf_device_use *use)
{
        static const enum gf_class classes[] = { GF_CLASS_WSL,       GF_CLASS_JETSON, GF_CLASS_ASCEND,
                                                 GF_CLASS_NEURON,    GF_CLASS_ACCEL,  GF_CLASS_VFIO_GROUP,
                                                 GF_CLASS_VFIO_CDEV, GF_CLASS_KFD };
        const struct gpufree_device *device;
        bool known = false;

        if (use->device < 0 || (size_t)use->device >= snapshot->inventory.devices.n)
                return false;
        device = &snapshot->inventory.devices.v[use->device];
        if (device->gpu >= 0)
                return false;
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                if (snapshot->inventory.gpus.v[i].vendor == device->vendor)
                        return false;
        for (size_t i = 0; i < ELEMENTSOF(classes); i++)
                known = known || device->cls == classes[i];
        return known;
}

/* Devices that belong to no GPU in particular. */
static bool matches_loose_devices(const struct gpufree_selection *selection, const struct gpufree_snapshot *snapshot,
                                  const struct gpufree_holder *holder, bool open_counts)
{
        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gf_device_use *use = &holder->devices.v[i];
                enum gpufree_vendor vendor = vendor_of(snapshot, use);

                if (!gf_selection_allows_vendor(selection, vendor))
                        continue;
                /* `--gpu all` together with the path of something that is no GPU. */
                if (selection && selection->gpus.n > 0 && vendor == GPUFREE_VENDOR_NONE)
                        continue;
                if (open_counts || is_dmabuf_with_memory(use) || is_sole_evidence(snapshot, use))
                        return true;
        }
        return false;
}

static bool has_paths(const struct gpufree_snapshot *snapshot)
{
        for (size_t i = 0; i < snapshot->inventory.devices.n; i++)
                if (snapshot->inventory.devices.v[i].asked)
                        return true;
        return false;
}

bool gf_matches_devices(const struct gpufree_selection *selection, const struct gpufree_snapshot *snapshot,
                        const struct gpufree_holder *holder)
{
        bool paths = has_paths(snapshot);
        /* An open device counts where it was asked for by path, the process by PID, or with any-open. */
        bool open_counts = paths || (selection && selection->any_open) ||
                           gf_selection_names_pid(selection, holder->id.pid);

        if (paths && !holder->asked)
                return false;
        for (size_t i = 0; i < holder->gpus.n; i++) {
                const struct gf_gpu_use *use = &holder->gpus.v[i];
                const struct gpufree_gpu *gpu;

                if (use->gpu < 0 || (size_t)use->gpu >= snapshot->inventory.gpus.n)
                        continue;
                gpu = &snapshot->inventory.gpus.v[use->gpu];
                if ((open_counts || gf_use_holds(use)) && gf_selection_allows_vendor(selection, gpu->vendor) &&
                    is_on_gpu(selection, snapshot, gpu, holder))
                        return true;
        }
        if (names_gpus(selection))
                return false;
        return matches_loose_devices(selection, snapshot, holder, open_counts);
}

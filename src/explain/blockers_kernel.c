/* SPDX-License-Identifier: MIT */
/* What holds a GPU inside the kernel: consoles, modules, another driver. */
#include <errno.h>
#include <inttypes.h>

#include "explain/blockers.h"

/* A text console on the GPU's frame buffer keeps its driver. */
static int add_consoles(struct gf_way *way)
{
        const struct gf_ground *ground = way->ground;

        for (size_t i = 0; i < ground->gpus.n; i++) {
                const struct gpufree_gpu *gpu = &way->snapshot->inventory.gpus.v[i];
                const struct gf_ground_gpu *g = &ground->gpus.v[i];

                if (!gpu->selected || g->framebuffers.n == 0)
                        continue;
                for (size_t k = 0; k < ground->consoles.n; k++) {
                        _cleanup_free_ char *command = gf_asprintf("echo 0 > /sys/class/vtconsole/%s/bind",
                                                                   ground->consoles.v[k]);
                        struct gf_str text = { 0 };
                        bool again = false;

                        if (!command)
                                return -ENOMEM;
                        for (size_t n = 0; n < way->blockers->steps.n; n++)
                                again = again || gf_streq(way->blockers->steps.v[n].command, command);
                        if (again)
                                continue;
                        gf_str_addf(&text, "the text console (%s) is shown on ", ground->consoles.v[k]);
                        gf_word_gpu(&text, gpu);
                        gf_str_addf(&text, " (%s)", g->framebuffers.v[0]);
                        if (gf_way_add(way, "console", &text, command) < 0)
                                return -ENOMEM;
                }
        }
        return 0;
}

static int add_module(struct gf_way *way, const char *name, const char *held)
{
        const struct gf_module *module = gf_module_find(&way->ground->modules, name);
        _cleanup_free_ char *command = gf_asprintf("modprobe -r %s", name);
        struct gf_str text = { 0 };

        if (!command)
                return -ENOMEM;
        for (size_t i = 0; i < way->blockers->steps.n; i++)
                if (gf_streq(way->blockers->steps.v[i].command, command))
                        return 0;
        gf_str_addf(&text, "module %s holds %s", name, held);
        if (module && module->refs != GPUFREE_UNKNOWN && module->refs > module->users.n)
                gf_str_addf(&text, " (and is itself held %" PRIu64 " time%s by what has it open)",
                            module->refs - module->users.n, module->refs - module->users.n == 1 ? "" : "s");
        return gf_way_add(way, "module", &text, command);
}

/* Everything that holds the module, leaves first. */
static int add_modules(struct gf_way *way, const char *name)
{
        gf_strv before = { 0 };
        int r = gf_modules_before(&way->ground->modules, name, &before);

        for (size_t i = 0; i < before.n && r >= 0; i++)
                r = add_module(way, before.v[i], name);
        gf_strv_done(&before);
        return r;
}

/* References that neither a module nor a process explains: something in the kernel, or a process that was not seen. */
static int add_references(struct gf_way *way, const char *name)
{
        const struct gf_module *module = gf_module_find(&way->ground->modules, name);
        struct gf_str text = { 0 };

        if (!module || module->refs == GPUFREE_UNKNOWN || module->refs <= module->users.n || way->processes > 0)
                return 0;
        gf_str_addf(&text,
                    "module %s has %" PRIu64
                    " reference%s that no module and no process seen explains: a client inside "
                    "the kernel (a console, a display), or a process that could not be seen",
                    name, module->refs - module->users.n, module->refs - module->users.n == 1 ? "" : "s");
        return gf_way_add(way, "reference", &text, NULL);
}

static int add_unload(struct gf_way *way)
{
        const char *last = NULL;

        for (size_t i = 0; i < way->ground->gpus.n; i++) {
                const char *name = way->snapshot->inventory.gpus.v[i].selected ? gf_way_module(way, i) : NULL;
                int r;

                if (!name || gf_streq(name, last))
                        continue;
                last = name;
                r = add_modules(way, name);
                if (r >= 0)
                        r = add_references(way, name);
                if (r >= 0 && way->ground->modules_error == 0 && !gf_module_find(&way->ground->modules, name))
                        r = gf_strv_addf(&way->blockers->notes, "The module %s is not loaded.", name);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* nvidia_drm with mode setting is a client of every NVIDIA GPU, without a process. */
static int add_drm(struct gf_way *way)
{
        struct gf_str text = { 0 };
        bool nvidia = false;
        int r;

        for (size_t i = 0; i < way->snapshot->inventory.gpus.n; i++)
                nvidia = nvidia || (way->snapshot->inventory.gpus.v[i].selected &&
                                    way->snapshot->inventory.gpus.v[i].vendor == GPUFREE_VENDOR_NVIDIA &&
                                    !gf_streq(way->ground->gpus.v[i].driver, "vfio-pci"));
        if (!nvidia || !way->ground->drm_modeset)
                return 0;
        r = add_modules(way, "nvidia_drm");
        if (r < 0)
                return r;
        gf_str_add(&text,
                   "module nvidia_drm drives displays (modeset=Y) and keeps every NVIDIA GPU open inside the kernel");
        return gf_way_add(way, "module", &text, "modprobe -r nvidia_drm");
}

/* Passed through to a virtual machine: its own driver has not got it. */
static int add_vfio(struct gf_way *way)
{
        for (size_t i = 0; i < way->ground->gpus.n; i++) {
                const struct gpufree_gpu *gpu = &way->snapshot->inventory.gpus.v[i];
                _cleanup_free_ char *command = NULL;
                struct gf_str text = { 0 };

                if (!gpu->selected || !gf_streq(way->ground->gpus.v[i].driver, "vfio-pci"))
                        continue;
                gf_word_gpu(&text, gpu);
                gf_str_add(&text, " is bound to vfio-pci, for a virtual machine: give it back to its own driver first");
                command = gf_asprintf("echo > /sys/bus/pci/devices/%s/driver_override; echo %s > "
                                      "/sys/bus/pci/drivers/vfio-pci/unbind; echo %s > /sys/bus/pci/drivers_probe",
                                      gpu->pci, gpu->pci, gpu->pci);
                if (!command) {
                        gf_str_done(&text);
                        return -ENOMEM;
                }
                if (gf_way_add(way, "vfio", &text, command) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int add_unbound_notes(struct gf_way *way)
{
        for (size_t i = 0; i < way->ground->gpus.n; i++) {
                const struct gf_ground_gpu *g = &way->ground->gpus.v[i];
                struct gf_str text = { 0 };

                if (!way->snapshot->inventory.gpus.v[i].selected || g->driver[0])
                        continue;
                gf_word_gpu(&text, &way->snapshot->inventory.gpus.v[i]);
                gf_str_add(&text, g->sysfs ? " is bound to no driver: there is nothing to unbind."
                                           : ": /sys does not show which driver it is bound to.");
                if (gf_word_take(&text, &way->blockers->notes) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int gf_way_kernel(struct gf_way *way)
{
        int r = add_consoles(way);

        if (r < 0)
                return r;
        switch (way->purpose) {
        case GPUFREE_FOR_UNLOAD:
                return add_unload(way);
        case GPUFREE_FOR_UNBIND:
                r = add_drm(way);
                return r < 0 ? r : add_unbound_notes(way);
        case GPUFREE_FOR_RESET:
        case GPUFREE_FOR_MIG:
        default:
                r = add_vfio(way);
                return r < 0 ? r : add_drm(way);
        }
}

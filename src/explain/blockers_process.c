/* SPDX-License-Identifier: MIT */
/* The processes in the way: jobs first, then what serves them, the driver's own daemons last. */
#include <errno.h>
#include <string.h>

#include "explain/blockers.h"

#define SERVICES 20

/* Services, in the order to stop them: who uses the GPU through another one goes before it. */
static const struct {
        const char *comm; /* as the kernel cuts it, 15 characters */
        const char *what, *command;
} services[SERVICES] = {
        { "nvidia-cuda-mps", "the Multi-Process Service", "echo quit | nvidia-cuda-mps-control" },
        { "dcgm-exporter", "the DCGM exporter", "systemctl stop dcgm-exporter" },
        { "nvidia-device-p", "the Kubernetes device plugin", NULL },
        { "gpu-feature-dis", "GPU feature discovery", NULL },
        { "nvidia-mig-mana", "the MIG manager", "systemctl stop nvidia-mig-manager" },
        { "kubelet", "kubelet", "systemctl stop kubelet" },
        { "nv-hostengine", "the DCGM host engine", "systemctl stop nvidia-dcgm" },
        { "gnome-shell", "a desktop", "systemctl isolate multi-user.target" },
        { "kwin_wayland", "a desktop", "systemctl isolate multi-user.target" },
        { "Xorg", "a display server", "systemctl isolate multi-user.target" },
        { "Xwayland", "a display server", "systemctl isolate multi-user.target" },
        { "nvidia-powerd", "the power daemon", "systemctl stop nvidia-powerd" },
        { "nvidia-vgpu-mgr", "the vGPU manager", "systemctl stop nvidia-vgpu-mgr" },
        { "nvidia-vgpud", "the vGPU daemon", "systemctl stop nvidia-vgpud" },
        { "nvidia-imex", "NVIDIA IMEX", "systemctl stop nvidia-imex" },
        { "nvidia-persiste", "the persistence daemon", "systemctl stop nvidia-persistenced" },
        { "nv-fabricmanage", "the fabric manager", "systemctl stop nvidia-fabricmanager" },
        { "nvlsm", "the NVLink subnet manager", NULL },
};

static size_t service_of(const struct gpufree_holder *holder)
{
        for (size_t i = 0; holder->facts.comm && i < SERVICES; i++)
                if (services[i].comm && strncmp(holder->facts.comm, services[i].comm, 15) == 0)
                        return i;
        return SERVICES;
}

static bool is_vm(const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < holder->owners.n; i++)
                if (gf_streq(holder->owners.v[i].kind, "vm"))
                        return true;
        return holder->facts.comm && gf_startswith(holder->facts.comm, "qemu-system");
}

enum rank {
        RANK_JOB,
        RANK_VM,
        RANK_SERVICE,
        RANK_SELF, /* cannot be ended from here */
};

static enum rank rank_of(const struct gpufree_holder *holder)
{
        if (holder->protected_absolute)
                return RANK_SELF;
        if (is_vm(holder))
                return RANK_VM;
        return holder->protected_why ? RANK_SERVICE : RANK_JOB;
}

static const struct gf_stop *stop_of(const struct gf_way *way, size_t holder)
{
        return holder < way->ground->stops.n ? &way->ground->stops.v[holder] : NULL;
}

/* Does a plain kill not do, so that its owner must be stopped? */
static bool needs_stop(const struct gf_stop *stop)
{
        return stop && stop->again == GF_AGAIN_YES && stop->text;
}

static bool is_context(const struct gf_way *way, const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < holder->gpus.n; i++)
                if (holder->gpus.v[i].context && way->snapshot->inventory.gpus.v[holder->gpus.v[i].gpu].selected)
                        return true;
        return false;
}

/* "gpufree kill --gpu 0,1", or by PID where a selection by GPU would not mean them. */
static void word_kill(const struct gf_way *way, const gf_holder_list *jobs, struct gf_str *text)
{
        const struct gf_inventory *inventory = &way->snapshot->inventory;
        bool by_gpu = way->purpose != GPUFREE_FOR_UNLOAD;
        const char *gap = " --gpu ";

        for (size_t i = 0; i < jobs->n; i++)
                by_gpu = by_gpu && is_context(way, jobs->v[i]);
        for (size_t i = 0; i < inventory->gpus.n; i++)
                by_gpu = by_gpu && (!inventory->gpus.v[i].selected || inventory->gpus.v[i].index >= 0);
        gf_str_add(text, "gpufree kill");
        if (!by_gpu) {
                gf_str_add(text, " --pid ");
                gf_word_pids(text, jobs);
        }
        for (size_t i = 0; i < inventory->gpus.n && by_gpu; i++)
                if (inventory->gpus.v[i].selected && inventory->gpus.v[i].holders > 0) {
                        gf_str_addf(text, "%s%d", gap, inventory->gpus.v[i].index);
                        gap = ",";
                }
}

static int add_jobs(struct gf_way *way)
{
        gf_holder_list jobs = { 0 };
        struct gf_str text = { 0 }, command = { 0 };
        _cleanup_free_ char *typed = NULL;
        int r = 0;

        for (size_t i = 0; i < way->snapshot->holders.n && r >= 0; i++) {
                const struct gpufree_holder *holder = &way->snapshot->holders.v[i];

                if (gf_stands_in_the_way(way->snapshot, holder, way->purpose) && rank_of(holder) == RANK_JOB &&
                    !needs_stop(stop_of(way, i)))
                        r = gf_holder_list_add(&jobs, holder);
        }
        if (r >= 0 && jobs.n > 0) {
                gf_str_addf(&text, "end %zu process%s that %s it: ", jobs.n, jobs.n == 1 ? "" : "es",
                            jobs.n == 1 ? "has" : "have");
                gf_word_holders(&text, &jobs);
                word_kill(way, &jobs, &command);
                r = gf_str_take(&command, &typed);
                if (r >= 0)
                        r = gf_way_add(way, "process", &text, typed);
                way->processes += jobs.n;
        }
        gf_str_done(&text);
        gf_vec_done(&jobs);
        return r;
}

/* What would come back after a kill: its owner is stopped, each once. */
static int add_owned(struct gf_way *way)
{
        for (size_t i = 0; i < way->snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &way->snapshot->holders.v[i];
                const struct gf_stop *stop = stop_of(way, i);
                struct gf_str text = { 0 };
                bool again = false;

                if (!gf_stands_in_the_way(way->snapshot, holder, way->purpose) || rank_of(holder) != RANK_JOB ||
                    !needs_stop(stop))
                        continue;
                way->processes++;
                for (size_t k = 0; k < way->blockers->steps.n; k++)
                        again = again || gf_streq(way->blockers->steps.v[k].command, stop->text);
                if (again)
                        continue;
                gf_str_addf(&text, "stop %s: it has ", stop->owner ? stop->owner : "its owner");
                gf_word_holder(&text, holder);
                if (stop->why)
                        gf_str_addf(&text, "; %s", stop->why);
                if (gf_way_add(way, "process", &text, stop->text) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int add_one(struct gf_way *way, size_t i, enum rank rank)
{
        const struct gpufree_holder *holder = &way->snapshot->holders.v[i];
        const struct gf_stop *stop = stop_of(way, i);
        size_t service = service_of(holder);
        const char *known = service < SERVICES ? services[service].command : NULL;
        _cleanup_free_ char *command = NULL;
        struct gf_str text = { 0 };

        way->processes++;
        if (rank == RANK_SELF) {
                gf_word_holder(&text, holder);
                gf_str_addf(&text, " has it open, and gpufree never ends it: %s", holder->protected_why);
                return gf_way_add(way, "process", &text, NULL);
        }
        gf_str_add(&text, rank == RANK_VM ? "shut down the virtual machine that has it: " : "stop ");
        if (service < SERVICES)
                gf_str_addf(&text, "%s, ", services[service].what);
        gf_word_holder(&text, holder);
        if (rank == RANK_SERVICE && holder->protected_why)
                gf_str_addf(&text, ": %s", holder->protected_why);
        if (stop && stop->text && stop->argv.n > 0)
                command = strdup(stop->text);
        else if (known)
                command = strdup(known);
        else
                command = gf_asprintf("gpufree kill --pid %d --include %d", (int)holder->id.pid, (int)holder->id.pid);
        if (!command) {
                gf_str_done(&text);
                return -ENOMEM;
        }
        return gf_way_add(way, rank == RANK_VM ? "vm" : "service", &text, command);
}

/* Those of one rank; services in the order of their table, unknown ones before the driver's daemons. */
static int add_rank(struct gf_way *way, enum rank rank)
{
        for (size_t at = 0; at <= SERVICES; at++) {
                /* The unknown ones come after the Multi-Process Service, before everything else. */
                size_t service = at == 0 ? 0 : at == 1 ? SERVICES : at - 1;

                for (size_t i = 0; i < way->snapshot->holders.n; i++) {
                        const struct gpufree_holder *holder = &way->snapshot->holders.v[i];

                        if (!gf_stands_in_the_way(way->snapshot, holder, way->purpose) || rank_of(holder) != rank ||
                            service_of(holder) != service)
                                continue;
                        if (add_one(way, i, rank) < 0)
                                return -ENOMEM;
                }
        }
        return 0;
}

int gf_way_processes(struct gf_way *way)
{
        int r = add_jobs(way);

        if (r >= 0)
                r = add_owned(way);
        if (r >= 0)
                r = add_rank(way, RANK_VM);
        if (r >= 0)
                r = add_rank(way, RANK_SERVICE);
        return r < 0 ? r : add_rank(way, RANK_SELF);
}

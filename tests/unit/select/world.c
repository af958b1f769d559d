/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <string.h>

#include "base/str.h"

static char selected_pids[1024];

static char *copy(const char *text)
{
        char *s = strdup(text);

        if (!s)
                abort();
        return s;
}

void world_init(struct world *world, size_t gpus)
{
        *world = (struct world){ 0 };
        gf_env_init(&world->env);
        world->self = (struct gf_self){ .pid = 900, .uid = 1001, .session = 800, .login_session = 4 };
        world->snapshot = calloc(1, sizeof(*world->snapshot));
        if (!world->snapshot)
                abort();
        world->snapshot->refs = 1;
        world->snapshot->initial_pidns = true;
        world->snapshot->boot_ticks = 1000000;
        for (size_t i = 0; i < gpus + 2; i++) {
                struct gpufree_device *device = must_add(&world->snapshot->inventory.devices);

                device->path = gf_asprintf("/dev/nvidia%zu", i);
                device->vendor = GPUFREE_VENDOR_NVIDIA;
                device->cls = i < gpus ? GF_CLASS_NVIDIA_GPU : i == gpus ? GF_CLASS_NVIDIA_CTL : GF_CLASS_NVIDIA_UVM;
                device->gpu = i < gpus ? (int)i : -1;
        }
        for (size_t i = 0; i < gpus; i++) {
                struct gpufree_gpu *gpu = must_add(&world->snapshot->inventory.gpus);

                gpu->index = gpu->minor = (int)i;
                gpu->vendor = GPUFREE_VENDOR_NVIDIA;
                gpu->uuid = gf_asprintf("GPU-0000000%zu-aaaa-bbbb-cccc-1234567890ab", i);
                gpu->pci = gf_asprintf("0000:%zu8:00.0", i + 1);
        }
        world_ask_nothing(world);
}

void world_done(struct world *world)
{
        gpufree_selection_unref(world->selection);
        gpufree_snapshot_unref(world->snapshot);
        gf_vec_done(&world->self.ancestors);
        gf_env_done(&world->env);
}

void world_ask_nothing(struct world *world)
{
        world->selection = gpufree_selection_unref(world->selection);
        assert_int_equal(gpufree_selection_new(&world->selection), 0);
}

void world_ask(struct world *world, enum gpufree_criterion criterion, const char *value)
{
        char *error = NULL;
        int r = gpufree_selection_add(world->selection, criterion, value, &error);

        if (r < 0)
                print_message("# %s\n", error ? error : "?");
        free(error);
        assert_int_equal(r, 0);
}

struct gpufree_holder *world_add(struct world *world, pid_t pid, const char *comm)
{
        struct gpufree_holder *holder = must_add(&world->snapshot->holders);

        holder->id = (struct gf_ident){ .pid = pid, .start_ticks = 1000 };
        holder->facts.comm = copy(comm);
        holder->facts.exe = copy("/home/alice/app");
        holder->facts.uid = 1001;
        holder->facts.state = 'S';
        holder->facts.ppid = 500;
        holder->facts.pgrp = holder->facts.session = 500;
        holder->facts.pidns_pid = pid;
        holder->facts.login_session = UINT32_MAX;
        holder->facts.threads = 1;
        return holder;
}

static void add_use(struct gpufree_holder *holder, int gpu, uint64_t memory, bool context)
{
        struct gf_gpu_use *use = must_add(&holder->gpus);

        *use = (struct gf_gpu_use){ .gpu = gpu, .memory = memory, .context = context, .listed = context };
        world_use_device(holder, gpu);
}

void world_hold(struct gpufree_holder *holder, int gpu, uint64_t memory)
{
        add_use(holder, gpu, memory, true);
}

void world_open(struct gpufree_holder *holder, int gpu)
{
        add_use(holder, gpu, GPUFREE_UNKNOWN, false);
}

void world_use_device(struct gpufree_holder *holder, int device)
{
        struct gf_device_use *use = must_add(&holder->devices);

        *use = (struct gf_device_use){ .device = device, .via = GPUFREE_VIA_FD, .fds = 1, .bytes = GPUFREE_UNKNOWN };
}

void world_use_dmabuf(struct gpufree_holder *holder, const char *exporter, uint64_t bytes)
{
        struct gf_device_use *use = must_add(&holder->devices);

        *use = (struct gf_device_use){ .device = -1, .via = GPUFREE_VIA_DMABUF, .fds = 1, .bytes = bytes };
        snprintf(use->exporter, sizeof(use->exporter), "%s", exporter);
}

void world_own(struct gpufree_holder *holder, const char *kind, const char *id, const char *name)
{
        struct gf_owner *owner = must_add(&holder->owners);

        owner->kind = copy(kind);
        owner->id = id ? copy(id) : NULL;
        owner->name = name ? copy(name) : NULL;
}

void world_run_by(struct gpufree_holder *holder, const char *runtime)
{
        holder->owners.v[holder->owners.n - 1].runtime = copy(runtime);
}

void world_command(struct gpufree_holder *holder, const char *arguments)
{
        free(holder->facts.cmdline);
        holder->facts.cmdline = copy(arguments);
        holder->facts.cmdline_length = *arguments ? strlen(arguments) + 1 : 0;
        for (char *p = holder->facts.cmdline; *p; p++)
                if (*p == '|')
                        *p = '\0';
}

const char *world_selected(struct world *world)
{
        size_t n = 0;

        if (gf_select_gpus(&world->env, world->selection, world->snapshot) < 0)
                return world->env.error;
        assert_int_equal(gf_select_holders(world->selection, &world->self, world->snapshot), 0);
        selected_pids[0] = '\0';
        for (size_t i = 0; i < world->snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &world->snapshot->holders.v[i];

                if (!holder->selected)
                        continue;
                n += (size_t)snprintf(selected_pids + n, sizeof(selected_pids) - n, "%s%d", n ? " " : "",
                                      (int)holder->id.pid);
                assert_true(n < sizeof(selected_pids));
        }
        return selected_pids;
}

struct gpufree_holder *world_find(struct world *world, pid_t pid)
{
        for (size_t i = 0; i < world->snapshot->holders.n; i++)
                if (world->snapshot->holders.v[i].id.pid == pid)
                        return &world->snapshot->holders.v[i];
        fail();
        return NULL;
}

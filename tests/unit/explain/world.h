/* SPDX-License-Identifier: MIT */
#pragma once

#include "../unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/attribute.h"
#include "model/holder.h"

/* A made look: GPUs with what the driver says of each, holders with what they have open; then attributed. */

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

struct world {
        struct gpufree_snapshot *s;
        int ctl, uvm; /* positions of the devices that are all GPUs' */
};

static inline void *must(void *p)
{
        if (!p)
                abort();
        return p;
}

static inline int world_device(struct world *w, enum gf_class cls, int gpu, const char *path)
{
        struct gpufree_device *device = must(gf_vec_add(&w->s->inventory.devices));

        *device = (struct gpufree_device){ .path = must(strdup(path)),
                                           .rdev = w->s->inventory.devices.n,
                                           .cls = cls,
                                           .vendor = GPUFREE_VENDOR_NVIDIA,
                                           .minor = gpu,
                                           .gpu = gpu };
        return (int)w->s->inventory.devices.n - 1;
}

static inline struct world world_make(size_t gpus, const uint64_t *used)
{
        struct world w = { .s = must(calloc(1, sizeof(*w.s))) };

        w.s->refs = 1;
        w.s->initial_pidns = true;
        w.s->driver.asked = true;
        w.s->scan.method = GPUFREE_SCAN_BPF;
        for (size_t i = 0; i < gpus; i++) {
                struct gpufree_gpu *gpu = must(gf_vec_add(&w.s->inventory.gpus));
                struct gf_driver_gpu *driver = must(gf_vec_add(&w.s->driver.gpus));

                *gpu = (struct gpufree_gpu){ .index = (int)i,
                                             .minor = (int)i,
                                             .vendor = GPUFREE_VENDOR_NVIDIA,
                                             .selected = true,
                                             .pci = must(gf_asprintf("0000:%02x:00.0", 0x18 + (int)i)),
                                             .memory = { 140 * GIB, used[i], 615 * MIB } };
                *driver = (struct gf_driver_gpu){ .index = (int)i, .minor = (int)i, .lists_ok = true };
                driver->memory = gpu->memory;
                (void)snprintf(driver->pci, sizeof(driver->pci), "%s", gpu->pci);
        }
        for (size_t i = 0; i < gpus; i++) {
                char path[32];

                (void)snprintf(path, sizeof(path), "/dev/nvidia%zu", i);
                (void)world_device(&w, GF_CLASS_NVIDIA_GPU, (int)i, path);
        }
        w.ctl = world_device(&w, GF_CLASS_NVIDIA_CTL, -1, "/dev/nvidiactl");
        w.uvm = world_device(&w, GF_CLASS_NVIDIA_UVM, -1, "/dev/nvidia-uvm");
        return w;
}

static inline void world_end(struct world *w)
{
        gpufree_snapshot_unref(w->s);
}

static inline struct gpufree_holder *world_get(struct world *w, pid_t pid)
{
        for (size_t i = 0; i < w->s->holders.n; i++)
                if (w->s->holders.v[i].id.pid == pid)
                        return &w->s->holders.v[i];
        abort();
}

static inline void world_holder(struct world *w, pid_t pid, const char *comm)
{
        struct gpufree_holder *holder = must(gf_vec_add(&w->s->holders));

        holder->id = (struct gf_ident){ pid, 1000 + (uint64_t)pid };
        holder->facts.ppid = 1;
        holder->facts.pgrp = holder->facts.session = pid;
        holder->facts.state = 'S';
        holder->facts.age_ms = 1000;
        holder->facts.comm = must(strdup(comm));
        holder->facts.user = must(strdup("alice"));
}

static inline void world_hold(struct world *w, pid_t pid, int device, uint64_t fds, uint64_t maps)
{
        struct gf_device_use *use = must(gf_vec_add(&world_get(w, pid)->devices));

        *use = (struct gf_device_use){ .device = device, .fds = fds, .maps = maps, .bytes = GPUFREE_UNKNOWN };
        use->via = GPUFREE_VIA_FD;
}

/* A CUDA process on that GPU. */
static inline void world_cuda(struct world *w, pid_t pid, const char *comm, int gpu)
{
        world_holder(w, pid, comm);
        world_hold(w, pid, gpu, 20, 31);
        world_hold(w, pid, w->ctl, 1, 0);
        world_hold(w, pid, w->uvm, 2, 0);
}

static inline void world_listed(struct world *w, int gpu, pid_t pid, uint64_t memory, unsigned lists)
{
        struct gf_driver_process *process = must(gf_vec_add(&w->s->driver.gpus.v[gpu].processes));

        *process = (struct gf_driver_process){
                .pid = pid, .memory = memory, .lists = lists, .gpu_instance = UINT32_MAX, .compute_instance = UINT32_MAX
        };
}

static inline void world_dmabuf(struct world *w, pid_t pid, ino_t ino, uint64_t bytes)
{
        struct gf_device_use *use = must(gf_vec_add(&world_get(w, pid)->devices));
        struct gf_hit *hit = must(gf_vec_add(&w->s->scan.hits));

        *use = (struct gf_device_use){ .device = -1, .via = GPUFREE_VIA_DMABUF, .fds = 1, .bytes = bytes };
        (void)snprintf(use->exporter, sizeof(use->exporter), "nv_dmabuf");
        *hit = (struct gf_hit){
                .id = world_get(w, pid)->id, .via = GPUFREE_VIA_DMABUF, .node_ino = ino, .bytes = bytes
        };
        (void)snprintf(hit->exporter, sizeof(hit->exporter), "nv_dmabuf");
}

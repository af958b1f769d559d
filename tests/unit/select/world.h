/* SPDX-License-Identifier: MIT */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "select/criteria.h"
#include "select/select.h"

/* A made machine: one snapshot, and who asks. */
struct world {
        struct gf_env env;
        struct gf_self self;
        struct gpufree_snapshot *snapshot;
        struct gpufree_selection *selection;
};

/* gf_vec_add() that can't fail. */
#define must_add(vec)                                                                                                  \
        __extension__({                                                                                                \
                __typeof__((vec)->v) _added = gf_vec_add(vec);                                                         \
                if (!_added)                                                                                           \
                        abort();                                                                                       \
                _added;                                                                                                \
        })

#define GIB (1ULL << 30)
/* 0:18:00.0, 0:28:00.0, … and UUIDs "GPU-0000000N-…"; a device nvidiaN each, and nvidiactl and nvidia-uvm. */
void world_init(struct world *world, size_t gpus);
void world_done(struct world *world);
/* Replaces the selection by an empty one. */
void world_ask_nothing(struct world *world);
/* Adds a criterion that must be good. */
void world_ask(struct world *world, enum gpufree_criterion criterion, const char *value);
/* A process that holds nothing yet: uid 1001, an ordinary program of its own in /home, started at 1000 ticks. */
struct gpufree_holder *world_add(struct world *world, pid_t pid, const char *comm);
void world_hold(struct gpufree_holder *holder, int gpu, uint64_t memory);
void world_open(struct gpufree_holder *holder, int gpu);
void world_use_device(struct gpufree_holder *holder, int device);
void world_use_dmabuf(struct gpufree_holder *holder, const char *exporter, uint64_t bytes);
void world_own(struct gpufree_holder *holder, const char *kind, const char *id, const char *name);
/* The runtime of the last owner. */
void world_run_by(struct gpufree_holder *holder, const char *runtime);
/* Arguments separated by '|', stored as the kernel does. */
void world_command(struct gpufree_holder *holder, const char *arguments);
/* gf_select_gpus() and gf_select_holders(); then the selected PIDs in order, as "12 7 3". */
const char *world_selected(struct world *world);
struct gpufree_holder *world_find(struct world *world, pid_t pid);

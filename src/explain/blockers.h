/* SPDX-License-Identifier: MIT */
#pragma once

#include "explain/words.h"
#include "model/env.h"
#include "model/holder.h"
#include "owner/restart.h"

/* A kernel module, and the modules that hold it. */
struct gf_module {
        char name[64];
        uint64_t refs; /* GPUFREE_UNKNOWN */
        gf_strv users;
};
typedef GF_VEC(struct gf_module) gf_modules;
void gf_modules_done(gf_modules *list);
/* /proc/modules: "nvidia 56717312 77 nvidia_uvm,nvidia_modeset, Live 0x0000000000000000 (OE)". Pure. -ENOMEM. */
int gf_parse_modules(const char *text, gf_modules *ret);
const struct gf_module *gf_module_find(const gf_modules *list, const char *name);
/* Everything that must go before `name` can, in that order, `name` left out. Each once, also in a ring. -ENOMEM. */
int gf_modules_before(const gf_modules *list, const char *name, gf_strv *ret_names);

/* What /sys says of one GPU. Texts are "" where they are not known. */
struct gf_ground_gpu {
        char driver[32], module[64]; /* the driver it is bound to, and that one's module */
        bool sysfs;                  /* /sys has the device */
        gf_strv framebuffers;        /* "fb0" */
};

/* What the kernel says about drivers and consoles: read once, judged by gf_blockers_make(). */
struct gf_ground {
        gf_modules modules;
        int modules_error;                 /* 0, or the negative errno of /proc/modules */
        bool drm_modeset;                  /* nvidia_drm drives displays: it keeps every GPU open in the kernel */
        gf_strv consoles;                  /* "vtcon1": bound to frame buffers */
        GF_VEC(struct gf_ground_gpu) gpus; /* as many as the inventory has */
        GF_VEC(struct gf_stop) stops;      /* as many as holders: how each is stopped; empty of those not asked for */
};
void gf_ground_done(struct gf_ground *ground);
/* ground.c: reads it under env->proc_root and env->sys_root. -ENOMEM. */
int gf_ground_read(struct gf_env *env, const struct gpufree_snapshot *snapshot, enum gpufree_purpose purpose,
                   struct gf_ground *ret_ground);
/* Does this holder stand in the way of that? Pure. */
bool gf_stands_in_the_way(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder,
                          enum gpufree_purpose purpose);

struct gf_blocker {
        const char *kind; /* static */
        char *sentence, *command;
};

struct gpufree_blockers {
        enum gpufree_outcome outcome;
        GF_VEC(struct gf_blocker) steps;
        gf_strv notes;
        char *goal;
};
/* Pure. -EOPNOTSUPP: a selected GPU cannot do that (MIG, not NVIDIA's). -ENOMEM. */
int gf_blockers_make(const struct gpufree_snapshot *snapshot, const struct gf_ground *ground,
                     enum gpufree_purpose purpose, struct gpufree_blockers **ret_blockers);

/* blockers_process.c: the steps that end or stop processes; blockers_kernel.c: those in the kernel. */
struct gf_way {
        const struct gpufree_snapshot *snapshot;
        const struct gf_ground *ground;
        enum gpufree_purpose purpose;
        struct gpufree_blockers *blockers;
        size_t processes; /* steps about processes */
};
/* Takes `sentence` over; `command` may be NULL. */
int gf_way_add(struct gf_way *way, const char *kind, struct gf_str *sentence, const char *command);
int gf_way_processes(struct gf_way *way);
int gf_way_kernel(struct gf_way *way);
/* The module that drives this GPU: of /sys, else by vendor; NULL. */
const char *gf_way_module(const struct gf_way *way, size_t gpu);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"
#include "model/holder.h"

/*
 * Drivers that say in /sys or /proc who uses a GPU and how much. NVIDIA's is asked through its library (nvml.h); the
 * others are rows of one table in vendor.c: to add one, write its `read` and its row.
 */
struct gf_vendor_use {
        pid_t pid;
        int gpu;        /* position in the inventory; -1: the driver lists the process, on no GPU that is known */
        uint64_t bytes; /* GPUFREE_UNKNOWN */
        bool alone;     /* the driver's word is enough: it lists processes that have no file open any more */
};
typedef GF_VEC(struct gf_vendor_use) gf_vendor_uses;
static inline void gf_vendor_uses_done(gf_vendor_uses *uses)
{
        gf_vec_done(uses);
}

struct gf_vendor_driver {
        const char *name;
        /* Appends what it knows. Needs the holders. What cannot be read is left out; -ENOMEM. */
        bool global_pids; /* its PIDs are those of the initial PID namespace: elsewhere they are other processes' */
        int (*read)(struct gf_env *env, const struct gpufree_snapshot *snapshot, gf_vendor_uses *uses);
};

/* Asks every driver of the table; nothing where the device nodes are not this machine's own. */
int gf_vendor_read(struct gf_env *env, const struct gpufree_snapshot *snapshot, gf_vendor_uses *ret_uses);
/* A process that a driver lists and that has no file open becomes a holder (GPUFREE_VIA_DRIVER). Before its facts are
 * read. */
int gf_vendor_add_holders(struct gf_env *env, struct gpufree_snapshot *snapshot, const gf_vendor_uses *uses);
/* The figures into the holders, after attribution. */
int gf_vendor_apply(struct gpufree_snapshot *snapshot, const gf_vendor_uses *uses);
/* Does a driver still list this holder, which has no file open? */
bool gf_vendor_still_lists(struct gf_env *env, const struct gpufree_holder *holder);

/* The drivers. */
int gf_kfd_read(struct gf_env *env, const struct gpufree_snapshot *snapshot, gf_vendor_uses *uses);
int gf_drm_read(struct gf_env *env, const struct gpufree_snapshot *snapshot, gf_vendor_uses *uses);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "gpu/nvml.h"
#include "model/env.h"
#include "model/holder.h"
#include "model/report.h"
#include "select/select.h"

/* What ending needs from the stages before it: one more look, and the memory alone. Handed in, so that tests can play
 * them. */
struct gf_eyes {
        int (*look)(void *userdata, struct gpufree_snapshot **ret_snapshot);
        /* Is this process (still) holding something that the plan is about? 1, 0, -ESRCH, -errno. */
        int (*still_holds)(void *userdata, const struct gpufree_holder *holder);
        /* Memory of all GPUs now, cheaply. */
        int (*memory)(void *userdata, struct gf_driver_report *ret_report);
        /* As memory(), and how busy each GPU is. */
        int (*activity)(void *userdata, struct gf_driver_report *ret_report);
        void *userdata;
        gpufree_event_handler on_event; /* may be NULL */
        void *event_userdata;
        const char *const *program_dirs; /* where owners' programs are looked for; NULL: the system's places */
};

int gf_plan_make(struct gpufree_snapshot *snapshot, struct gpufree_plan **ret_plan); /* pure */
/* Adds who would start the targets again, and what stops that. `me`: the uid that would run it. 0, -ENOMEM. */
int gf_plan_find_stops(struct gf_env *env, uint32_t me, struct gpufree_plan *plan);
/* Of the target at this position; NULL: nothing is known. */
const struct gf_plan_stop *gf_plan_stop_of(const struct gpufree_plan *plan, size_t target);
/* Is this what stop_owner runs? Not where a signal does as well and ends less, nor what was refused. */
bool gf_stop_runs(const struct gf_stop *stop);
/* Was it parked, or may the driver be at it? Then it is never ended by this plan. Pure. */
bool gf_plan_keeps(const struct gpufree_plan *plan, const struct gf_ident *id);
/* Is `candidate`, found after the plan was shown, a fork or a replacement of one of the ended? Pure. */
bool gf_is_kin(const struct gpufree_plan *plan, const struct gpufree_report *report,
               const struct gpufree_holder *candidate);
int gf_execute(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_plan *plan,
               const struct gpufree_ladder *ladder, struct gpufree_report **ret_report);

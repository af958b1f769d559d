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
        void *userdata;
        gpufree_event_handler on_event; /* may be NULL */
        void *event_userdata;
};

int gf_plan_make(struct gpufree_snapshot *snapshot, struct gpufree_plan **ret_plan); /* pure */
/* Is `candidate`, found after the plan was shown, a fork or a replacement of one of the ended? Pure. */
bool gf_is_kin(const struct gpufree_plan *plan, const struct gpufree_report *report,
               const struct gpufree_holder *candidate);
int gf_execute(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_plan *plan,
               const struct gpufree_ladder *ladder, struct gpufree_report **ret_report);

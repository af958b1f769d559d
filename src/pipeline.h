/* SPDX-License-Identifier: MIT */
#pragma once

#include "end/end.h"
#include "lib/context.h"
#include "model/holder.h"

/*
 * One look at the machine: all stages before the plan. The same errors as gpufree_look(); the sentence is in the
 * context. `selection` may be NULL.
 */
int gf_look(struct gpufree *context, const struct gpufree_selection *selection, struct gpufree_snapshot **ret_snapshot);

/* What ending and verifying see with: the stages above, bound to a context and a selection. */
struct gf_sight {
        struct gpufree *context;
        const struct gpufree_selection *selection;
        const struct gpufree_snapshot *first; /* the devices that the plan is about; may be NULL */
};
struct gf_eyes gf_eyes_of(struct gf_sight *sight);

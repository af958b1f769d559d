/* SPDX-License-Identifier: MIT */
#include "end/end.h"

/* Protection that was not lifted, or cannot be. PID 1 and below are never anybody's target, whatever the marks say. */
static bool is_spared(const struct gpufree_holder *holder)
{
        if (holder->id.pid <= 1 || holder->facts.kernel_thread)
                return true;
        return holder->protected_absolute || (holder->protected_why && !holder->lifted);
}

int gf_plan_make(struct gpufree_snapshot *snapshot, struct gpufree_plan **ret_plan)
{
        _cleanup_plan_ struct gpufree_plan *plan = calloc(1, sizeof(*plan));

        if (!plan)
                return -ENOMEM;
        plan->snapshot = gpufree_snapshot_ref(snapshot);
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &snapshot->holders.v[i], **slot;

                if (!holder->selected)
                        continue;
                slot = is_spared(holder) ? gf_vec_add(&plan->spared) : gf_vec_add(&plan->targets);
                if (!slot)
                        return -ENOMEM;
                *slot = holder;
        }
        *ret_plan = TAKE(plan);
        return 0;
}

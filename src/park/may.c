/* SPDX-License-Identifier: MIT */
/* Could it be parked? The checks that parking begins with, and nothing of what it goes on to do. */
#include <errno.h>

#include "park/may.h"
#include "park/peers.h"

void gf_may_park_done(struct gf_may_park *may)
{
        free(may->why);
        gf_strv_done(&may->warnings);
        *may = (struct gf_may_park){ .state = GPUFREE_PARK_UNKNOWN };
}

static bool has_nvidia(const struct gpufree_snapshot *snapshot)
{
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                if (snapshot->inventory.gpus.v[i].vendor == GPUFREE_VENDOR_NVIDIA)
                        return true;
        return false;
}

/* A time-out, or a process that has ended meanwhile, is no answer; everything else that is in the way is one. */
static enum gf_may judge(const struct gf_parked *item)
{
        if (item->sentence)
                return item->outcome == GPUFREE_REFUSED ? GF_MAY_NOT : GF_MAY_UNKNOWN;
        return item->state == GPUFREE_PARK_RUNNING ? GF_MAY : GF_MAY_NOT;
}

int gf_may_park_ask(struct gf_env *env, const struct gpufree_snapshot *snapshot, const struct gpufree_holder *process,
                    struct gf_may_park *ret_may)
{
        _cleanup_(gf_may_park_done) struct gf_may_park may = { .state = GPUFREE_PARK_UNKNOWN };
        _cleanup_parking_ struct gpufree_parking *parking = NULL;
        const struct gpufree_park_options options = GPUFREE_PARK_OPTIONS_INIT;
        int r;

        if (has_nvidia(snapshot)) {
                parking = gf_parking_new();
                r = parking ? gf_parked_from_holder(parking, snapshot, process) : -ENOMEM;
                if (r >= 0)
                        r = gf_park_check(env, parking, snapshot, &options);
                if (r == -ENOMEM || r == -ECANCELED)
                        return r;
                if (r >= 0) {
                        may.answer = judge(&parking->items.v[0]);
                        may.state = parking->items.v[0].state;
                        may.why = TAKE(parking->items.v[0].sentence);
                        /* Warnings are about parking it: of use only where that is possible. */
                        if (may.answer == GF_MAY) {
                                may.warnings = parking->sentences;
                                parking->sentences = (gf_strv){ 0 };
                        }
                }
        }
        *ret_may = may;
        may = (struct gf_may_park){ .state = GPUFREE_PARK_UNKNOWN };
        return 0;
}

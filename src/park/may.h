/* SPDX-License-Identifier: MIT */
#pragma once

#include "park/park.h"

enum gf_may {
        GF_MAY_UNKNOWN, /* not asked (no GPU of NVIDIA's here), or the driver did not answer */
        GF_MAY,
        GF_MAY_NOT, /* for the reason in `why`, or because of its state */
};

struct gf_may_park {
        enum gf_may answer;
        enum gpufree_park_state state;
        char *why;        /* a sentence; NULL */
        gf_strv warnings; /* what would not come back, if it were parked */
};
void gf_may_park_done(struct gf_may_park *may);

/*
 * Asks the driver, without changing anything, whether and why not `process` could be parked now: its state, the
 * driver's calls, host memory, the right to, and processes that share memory with it. -ENOMEM, -ECANCELED.
 */
int gf_may_park_ask(struct gf_env *env, const struct gpufree_snapshot *snapshot, const struct gpufree_holder *process,
                    struct gf_may_park *ret_may);

/* SPDX-License-Identifier: MIT */
/* The parking half of the stand-in library: GPUFREE_FAKE_PARK=ok|refused plays one process; without it nobody is
 * parked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "gpufree.h"

struct gpufree_parking {
        bool one, refused;
};

static int make(gpufree_parking **ret_parking)
{
        const char *how = getenv("GPUFREE_FAKE_PARK");
        struct gpufree_parking *parking = calloc(1, sizeof(*parking));

        if (!parking)
                return -ENOMEM;
        parking->one = how != NULL;
        parking->refused = gf_streq(how, "refused");
        *ret_parking = parking;
        return 0;
}

int gpufree_park(gpufree *context, const gpufree_selection *selection, const gpufree_plan *plan,
                 const struct gpufree_park_options *options, gpufree_parking **ret_parking)
{
        (void)context, (void)selection, (void)plan, (void)options;
        return make(ret_parking);
}

int gpufree_plan_without_parked(gpufree_plan *plan, const gpufree_parking *parking, enum gpufree_outcome *ret_outcome)
{
        (void)plan, (void)parking, (void)ret_outcome;
        return 0;
}

int gpufree_unpark(gpufree *context, const pid_t *pids, size_t n, const struct gpufree_park_options *options,
                   gpufree_parking **ret_parking)
{
        (void)context, (void)pids, (void)n, (void)options;
        return make(ret_parking);
}

int gpufree_parked(gpufree *context, gpufree_parking **ret_parking)
{
        (void)context;
        return make(ret_parking);
}

gpufree_parking *gpufree_parking_unref(gpufree_parking *parking)
{
        free(parking);
        return NULL;
}

enum gpufree_outcome gpufree_parking_outcome(const gpufree_parking *parking)
{
        return parking->refused ? GPUFREE_REFUSED : GPUFREE_OK;
}

const char *gpufree_parking_sentence(const gpufree_parking *parking, size_t index)
{
        return parking->one && index == 0 ? "A warning." : NULL;
}

uint64_t gpufree_parking_elapsed_ms(const gpufree_parking *parking)
{
        return parking->one ? 31000 : 0;
}

size_t gpufree_parking_count(const gpufree_parking *parking)
{
        return parking->one ? 1 : 0;
}

int gpufree_parking_process(const gpufree_parking *parking, size_t position, size_t size,
                            struct gpufree_parked_process *ret_process)
{
        struct gpufree_parked_process process = {
                .pid = 4711,
                .start_ticks = 12,
                .comm = "e\033[31mvil",
                .state = parking->refused ? GPUFREE_PARK_NOT_CUDA : GPUFREE_PARK_PARKED,
                .step = GPUFREE_PARK_VERIFY,
                .memory = 62ULL << 30,
                .copy_ms = 31000,
                .outcome = gpufree_parking_outcome(parking),
                .sentence = parking->refused ? "4711 is no CUDA process" : "4711 is parked",
                .gpus = "3",
                .since = -1
        };

        if (!parking->one || position > 0 || size > sizeof(process))
                return -EINVAL;
        memcpy(ret_process, &process, size);
        return 0;
}

const char *gpufree_park_state_name(enum gpufree_park_state state)
{
        return state == GPUFREE_PARK_PARKED ? "parked" : "not-cuda";
}

const char *gpufree_park_step_name(enum gpufree_park_step step)
{
        return step == GPUFREE_PARK_VERIFY ? "verify" : "check";
}

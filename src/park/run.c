/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "park/park.h"
#include "sys/clock.h"

#define TICK_MS 100 /* how often progress is told */

void gf_parked_begin(const struct gf_eyes *eyes, struct gf_parked *item, enum gpufree_park_step step)
{
        item->step = step;
        if (eyes->on_event)
                eyes->on_event(eyes->event_userdata, &(struct gpufree_event){ .type = GPUFREE_EVENT_PARK_STEP,
                                                                              .pid = item->id.pid,
                                                                              .count = (uint64_t)step });
}

/*
 * How much was copied, by the resident memory of the process: it grows by what leaves the GPU and falls again. The
 * driver's own figure is not asked for: while it copies, a question to it may block for as long.
 */
static void tell_copied(struct gf_env *env, const struct gf_eyes *eyes, const struct gf_parked *item, uint64_t before,
                        uint64_t started)
{
        uint64_t now = gf_host_resident(env, item->id.pid);

        if (!eyes->on_event || now == GPUFREE_UNKNOWN || before == GPUFREE_UNKNOWN)
                return;
        eyes->on_event(eyes->event_userdata,
                       &(struct gpufree_event){ .type = GPUFREE_EVENT_COPIED,
                                                .pid = item->id.pid,
                                                .bytes = now > before ? now - before : before - now,
                                                .count = item->memory,
                                                .elapsed_ms = gf_now_ms() - started });
}

static int begin_all(struct gf_env *env, const struct gf_eyes *eyes, struct gpufree_parking *parking,
                     enum gpufree_park_step step, uint64_t *resident, gf_run_finish finish)
{
        for (size_t i = 0; i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];
                struct gf_cuda_reply none = { 0 };
                int r;

                if (item->done)
                        continue;
                resident[i] = gf_host_resident(env, item->id.pid);
                gf_parked_begin(eyes, item, step);
                r = gf_cuda_ask(&item->cuda, &item->request);
                if (r < 0) {
                        r = finish(env, item, &none, r);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

int gf_run_all(struct gf_env *env, const struct gf_eyes *eyes, struct gpufree_parking *parking,
               enum gpufree_park_step step, uint64_t timeout_ms, gf_run_finish finish)
{
        uint64_t started = gf_now_ms(), deadline = gf_deadline_in(timeout_ms);
        _cleanup_free_ uint64_t *resident = calloc(parking->items.n + 1, sizeof(*resident));
        int r;

        if (!resident)
                return -ENOMEM;
        r = begin_all(env, eyes, parking, step, resident, finish);
        for (size_t i = 0; r >= 0 && i < parking->items.n;) {
                struct gf_parked *item = &parking->items.v[i];
                struct gf_cuda_reply reply = { 0 };
                uint64_t tick = gf_deadline_in(TICK_MS);
                int k;

                if (item->done) {
                        i++;
                        continue;
                }
                k = gf_cuda_answer(&item->cuda, &reply, tick < deadline ? tick : deadline, -1);
                if (k == -ETIMEDOUT && gf_deadline_left(deadline) > 0) {
                        for (size_t n = i; n < parking->items.n; n++)
                                if (!parking->items.v[n].done)
                                        tell_copied(env, eyes, &parking->items.v[n], resident[n], started);
                        continue;
                }
                item->copy_ms = gf_now_ms() - started;
                if (k < 0)
                        gf_cuda_stop(&item->cuda); /* the next call gets a new child */
                r = finish(env, item, &reply, k);
                item->done = true;
        }
        return r;
}

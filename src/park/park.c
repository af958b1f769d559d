/* SPDX-License-Identifier: MIT */
/*
 * Parking, in order: check all → record → lock all → copy all, at the same time → ask what became of each → verify.
 * Until the copying begins, everything is taken back when one of them fails. Whatever happens, the truth is with the
 * driver: at each step another run can ask it and go on from there.
 */
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "park/cuda_abi.h"
#include "park/park.h"
#include "sys/clock.h"
#include "sys/pidwait.h"

#define LOCK_MARGIN_MS 5000

/* It goes on if we locked it, and has a sentence. */
static int take_back_one(struct gf_env *env, struct gf_parked *item, enum gpufree_outcome outcome, const char *why)
{
        struct gf_cuda_reply reply = { 0 };
        bool ours = item->locked_by_us;
        int pid = (int)item->id.pid;

        if (ours && gf_parked_unlock(env, item, &reply) < 0)
                return gf_parked_say(item, GPUFREE_HELD,
                                     "%d is locked and could not be unlocked again (%s): it stands still until "
                                     "\"gpufree unpark %d\" succeeds",
                                     pid, gf_cuda_words(reply.code), pid);
        if (ours)
                item->state = GPUFREE_PARK_RUNNING;
        if (item->state == GPUFREE_PARK_RUNNING)
                gf_record_drop(&item->id);
        if (item->sentence)
                return 0;
        if (item->state == GPUFREE_PARK_LOCKED)
                return gf_parked_say(item, outcome,
                                     "%d was not parked (%s) and is locked, as it was found: \"gpufree unpark %d\" "
                                     "lets it go on",
                                     pid, why, pid);
        if (item->state == GPUFREE_PARK_PARKED)
                return gf_parked_say(item, GPUFREE_OK, "%d is parked already", pid);
        return gf_parked_say(item, outcome, "%d was not parked: %s", pid, why);
}

/* Nobody is left standing: those locked by us go on, and each that has no reason of its own gets this one. */
static int take_back(struct gf_env *env, struct gpufree_parking *parking, enum gpufree_outcome outcome, const char *why)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < parking->items.n; i++)
                r = take_back_one(env, &parking->items.v[i], outcome, why);
        return r;
}

static int lock_failed(struct gf_env *env, struct gf_parked *item, const struct gf_cuda_reply *reply, int error)
{
        struct gf_cuda_reply asked = { 0 };
        int pid = (int)item->id.pid;

        if (error == -ESRCH)
                return gf_parked_say(item, GPUFREE_HELD, "%d has ended meanwhile", pid);
        if (error == 0)
                return gf_parked_say(item, reply->code == CUDA_NOT_READY ? GPUFREE_TIMEOUT : GPUFREE_HELD,
                                     "%d could not be locked: %s (%s, %d)", pid, gf_cuda_words(reply->code),
                                     reply->detail[0] ? reply->detail : "CUDA error", (int)reply->code);
        /* The call did not come back: the process may be locked by now all the same. */
        (void)gf_parked_ask_state(env, item, &asked);
        item->locked_by_us = item->state == GPUFREE_PARK_LOCKED;
        if (item->state == GPUFREE_PARK_UNKNOWN)
                return gf_parked_say(
                        item, GPUFREE_TIMEOUT,
                        "%d could not be locked, and the driver does not tell its state: it may stand still; "
                        "\"gpufree unpark %d\" asks again and lets it go on",
                        pid, pid);
        if (error == -ETIMEDOUT)
                return gf_parked_say(item, GPUFREE_TIMEOUT, "%d could not be locked: the driver did not answer", pid);
        return gf_parked_say(item, GPUFREE_HELD, "%d could not be locked: %s", pid,
                             error == -EPIPE ? "libcuda.so.1 crashed" : strerror(-error));
}

/* 1: locked; 0: said why not. */
static int lock(struct gf_env *env, const struct gf_eyes *eyes, struct gf_parked *item, uint64_t lock_ms)
{
        struct gf_cuda_request request = { .op = GF_CUDA_LOCK,
                                           .pid = item->id.pid,
                                           .timeout_ms = lock_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)lock_ms };
        struct gf_cuda_reply reply = { 0 };
        int r;

        if (item->state != GPUFREE_PARK_RUNNING || item->left_out)
                return 1;
        gf_parked_begin(eyes, item, GPUFREE_PARK_LOCK);
        r = gf_parked_call(env, item, &request, lock_ms + LOCK_MARGIN_MS, &reply);
        if (r < 0 || reply.fail != GF_CUDA_CALLED || reply.code != CUDA_OK) {
                r = lock_failed(env, item, &reply, r);
                return r < 0 ? r : 0;
        }
        item->state = GPUFREE_PARK_LOCKED;
        item->locked_by_us = true;
        return 1;
}

static int lock_all(struct gf_env *env, const struct gf_eyes *eyes, struct gpufree_parking *parking,
                    const struct gpufree_park_options *options)
{
        for (size_t i = 0; i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];
                int r = gf_cancelled(env->cancel_fd) ? -ECANCELED : lock(env, eyes, item, options->lock_ms);

                if (r == -ECANCELED) {
                        r = gf_strv_add(&parking->sentences, "Interrupted: nothing was parked.");
                        return r < 0 ? r : take_back(env, parking, GPUFREE_HELD, "interrupted");
                }
                if (r == 0 && options->each) {
                        item->left_out = true;
                        r = take_back_one(env, item, GPUFREE_HELD, "it could not be locked");
                        if (r < 0)
                                return r;
                        continue;
                }
                if (r < 0)
                        return r;
                if (r == 0)
                        return take_back(env, parking, GPUFREE_HELD, "another of them could not be locked");
        }
        return 1;
}

/* The copying of one has come to an end: what is it now? */
static int finish_copy(struct gf_env *env, struct gf_parked *item, const struct gf_cuda_reply *reply, int error)
{
        struct gf_cuda_reply asked = { 0 };
        int pid = (int)item->id.pid;
        const char *why = error == -ETIMEDOUT ? "the driver did not come to an end in time"
                          : error == -EPIPE   ? "libcuda.so.1 crashed"
                          : error < 0         ? strerror(-error)
                                              : gf_cuda_words(reply->code);

        item->done = true;
        if (error == -ESRCH)
                return gf_parked_say(item, GPUFREE_HELD, "%d has ended meanwhile", pid);
        if (gf_parked_ask_state(env, item, &asked) == -ESRCH)
                return gf_parked_say(item, GPUFREE_HELD, "%d ended while it was parked", pid);
        if (item->state == GPUFREE_PARK_PARKED)
                return 0; /* whatever the call said */
        if (item->state == GPUFREE_PARK_LOCKED || item->state == GPUFREE_PARK_RUNNING) {
                if (item->state == GPUFREE_PARK_RUNNING || gf_parked_unlock(env, item, &asked) == 0) {
                        item->state = GPUFREE_PARK_RUNNING;
                        gf_record_drop(&item->id);
                        return gf_parked_say(item, error == -ETIMEDOUT ? GPUFREE_TIMEOUT : GPUFREE_HELD,
                                             "%d was not parked and runs on: %s", pid, why);
                }
                return gf_parked_say(item, GPUFREE_HELD,
                                     "%d was not parked (%s) and is locked: \"gpufree unpark %d\" lets it go on", pid,
                                     why, pid);
        }
        if (item->state == GPUFREE_PARK_FAILED)
                return gf_parked_say(item, GPUFREE_HELD,
                                     "%d: the driver has given it up (%s): it can only be ended: gpufree kill --pid %d",
                                     pid, why, pid);
        return gf_parked_say(item, error == -ETIMEDOUT || error == 0 ? GPUFREE_TIMEOUT : GPUFREE_HELD,
                             "%d: %s, and its state is %s: \"gpufree unpark %d\" asks again and brings it back", pid,
                             why, gpufree_park_state_name(item->state), pid);
}

/* Not interrupted: half a copy is nothing to anybody. */
static int copy_all(struct gf_env *env, const struct gf_eyes *eyes, struct gpufree_parking *parking,
                    uint64_t timeout_ms)
{
        for (size_t i = 0; i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];

                item->done = item->state == GPUFREE_PARK_PARKED || item->left_out;
                item->request = (struct gf_cuda_request){ .op = GF_CUDA_CHECKPOINT, .pid = item->id.pid };
        }
        return gf_run_all(env, eyes, parking, GPUFREE_PARK_COPY, timeout_ms, finish_copy);
}

static int write_records(struct gpufree_parking *parking)
{
        for (size_t i = 0; i < parking->items.n; i++) {
                _cleanup_free_ char *why = NULL;
                struct gf_parked *item = &parking->items.v[i];

                if (item->state == GPUFREE_PARK_PARKED || item->left_out || gf_record_write(item, &why) >= 0)
                        continue;
                if (gf_strv_addf(
                            &parking->sentences,
                            "No record of %d could be written (%s): \"gpufree list\" and \"gpufree unpark --all\" will "
                            "not find it, \"gpufree unpark %d\" will",
                            (int)item->id.pid, why ? why : "out of memory", (int)item->id.pid) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int already_parked(struct gpufree_parking *parking)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];

                if (item->state != GPUFREE_PARK_PARKED || item->sentence)
                        continue;
                (void)gf_record_read(&item->id, item);
                r = gf_parked_say(item, GPUFREE_OK, "%d is parked already; gpufree unpark %d brings it back",
                                  (int)item->id.pid, (int)item->id.pid);
        }
        return r;
}

int gf_park(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_snapshot *before,
            const struct gpufree_park_options *options, struct gpufree_parking *parking)
{
        uint64_t started = gf_now_ms();
        int r, cancel_fd = env->cancel_fd;

        r = gf_park_check(env, parking, before, options);
        if (r < 0)
                return r;
        for (size_t i = 0; i < parking->items.n; i++)
                parking->items.v[i].left_out = parking->items.v[i].sentence != NULL;
        if (!options->each && gf_parking_worst(parking) != GPUFREE_OK) {
                parking->outcome = gf_parking_worst(parking);
                r = take_back(env, parking, parking->outcome, "another of them is refused");
                parking->elapsed_ms = gf_now_ms() - started;
                return r < 0 ? r : 0;
        }
        r = already_parked(parking);
        if (r >= 0)
                r = write_records(parking);
        if (r >= 0)
                r = lock_all(env, eyes, parking, options);
        if (r > 0) {
                r = copy_all(env, eyes, parking, options->timeout_ms);
                for (size_t i = 0; i < parking->items.n; i++)
                        gf_cuda_stop(
                                &parking->items.v[i].cuda); /* libcuda may have devices open: no holder to be found */
                env->cancel_fd = -1;                        /* what was done is looked at to its end */
                if (r >= 0)
                        r = gf_park_verify(env, eyes, before, options->settle_ms, parking);
                env->cancel_fd = cancel_fd;
        }
        if (r < 0)
                return r;
        parking->outcome = gf_parking_worst(parking);
        parking->elapsed_ms = gf_now_ms() - started;
        return 0;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "sys/clock.h"
#include "sys/pidwait.h"
#include "verify/verdict.h"

/*
 * The driver has no event for memory that came back, so it is asked again: after a tenth of the time that it has taken
 * so far. The longest pause is what the answer may come too late; at it, asking takes less than a hundredth of a
 * processor.
 */
#define FIRST_PAUSE_MS 1
#define LAST_PAUSE_MS 10
#define EVENT_EVERY_MS 500

static bool is_held(const struct gpufree_snapshot *snapshot, size_t gpu)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (gf_keeps_gpu(snapshot, &snapshot->holders.v[i], gpu))
                        return true;
        return false;
}

/* Only where nobody selected is left, and the figures are known, can memory be waited for. */
static bool is_awaited(const struct gpufree_snapshot *snapshot, const struct gf_gpu_verdict *verdict)
{
        uint64_t idle = gf_idle_figure(snapshot, (size_t)verdict->gpu);

        return verdict->used_after != GPUFREE_UNKNOWN && idle != GPUFREE_UNKNOWN && verdict->used_after > idle &&
               !is_held(snapshot, (size_t)verdict->gpu);
}

static size_t count_awaited(const struct gpufree_report *report)
{
        size_t n = 0;

        for (size_t i = 0; i < report->gpus.n; i++)
                n += is_awaited(report->snapshot, &report->gpus.v[i]);
        return n;
}

static void tell(const struct gf_eyes *eyes, const struct gpufree_report *report, uint64_t elapsed)
{
        for (size_t i = 0; eyes->on_event && i < report->gpus.n; i++) {
                const struct gf_gpu_verdict *verdict = &report->gpus.v[i];

                if (!is_awaited(report->snapshot, verdict))
                        continue;
                eyes->on_event(eyes->event_userdata,
                               &(struct gpufree_event){ .type = GPUFREE_EVENT_MEMORY,
                                                        .gpu = &report->snapshot->inventory.gpus.v[verdict->gpu],
                                                        .bytes = verdict->used_after,
                                                        .elapsed_ms = elapsed });
        }
}

/* New figures for those waited for. A driver that fails now leaves them unknown: an old figure proves nothing. */
static int measure(const struct gf_eyes *eyes, struct gpufree_report *report, uint64_t started)
{
        struct gf_driver_report driver = { 0 };
        int r;

        r = eyes->memory(eyes->userdata, &driver);
        if (r == -ECANCELED || r == -ENOMEM)
                return r;
        for (size_t i = 0; i < report->gpus.n; i++) {
                struct gf_gpu_verdict *verdict = &report->gpus.v[i];

                if (!is_awaited(report->snapshot, verdict))
                        continue;
                verdict->used_after = r < 0 ? GPUFREE_UNKNOWN
                                            : gf_used_in(&report->snapshot->inventory.gpus.v[verdict->gpu], &driver);
                verdict->elapsed_ms = gf_now_ms() - started;
        }
        if (r == 0)
                gf_driver_report_done(&driver);
        return 0;
}

static uint64_t pause_after(uint64_t elapsed)
{
        uint64_t pause = elapsed / 10;

        if (pause < FIRST_PAUSE_MS)
                return FIRST_PAUSE_MS;
        return pause > LAST_PAUSE_MS ? LAST_PAUSE_MS : pause;
}

static int wait_for_memory(struct gf_env *env, const struct gf_eyes *eyes, uint64_t settle_ms,
                           struct gpufree_report *report)
{
        uint64_t started = gf_now_ms(), deadline = gf_deadline_in(settle_ms), told = 0;

        while (count_awaited(report) > 0) {
                uint64_t next = gf_deadline_in(pause_after(gf_now_ms() - started));
                int r;

                if (told == 0 || gf_now_ms() - told >= EVENT_EVERY_MS) {
                        tell(eyes, report, gf_now_ms() - started);
                        told = gf_now_ms();
                }
                if (gf_deadline_left(deadline) == 0)
                        return 0;
                r = gf_pidfds_wait(NULL, 0, next < deadline ? next : deadline, env->cancel_fd);
                if (r < 0)
                        return r;
                r = measure(eyes, report, started);
                if (r < 0)
                        return r;
        }
        return 0;
}

int gf_settle(struct gf_env *env, const struct gf_eyes *eyes, uint64_t settle_ms, struct gpufree_report *report)
{
        int r = wait_for_memory(env, eyes, settle_ms, report);

        for (size_t i = 0; i < report->gpus.n; i++) {
                int k = gf_verdict_judge(report->snapshot, &report->gpus.v[i]);

                if (k < 0)
                        return k;
        }
        return r;
}

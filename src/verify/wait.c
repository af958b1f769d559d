/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "base/num.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidwait.h"
#include "verify/verdict.h"

/* Where the kernel has no event to wait for. */
#define FIRST_PAUSE_MS 100
#define LAST_PAUSE_MS 2000

struct waiting {
        struct gf_env *env;
        const struct gf_eyes *eyes;
        struct gpufree_report *report; /* of the last look */
        uint64_t started, deadline, settle_ms;
        uint64_t residue_since; /* 0: no residue at the last look */
        bool settled;           /* the short wait after a holder's end is over */
        uint64_t pause, looks;
        struct gpufree_snapshot *first;
};

struct pin {
        const struct gpufree_holder *holder;
        int fd;
};
typedef GF_VEC(struct pin) pins;

static void pins_done(pins *p)
{
        for (size_t i = 0; i < p->n; i++)
                gf_close(p->v[i].fd);
        gf_vec_done(p);
}

static void tell(const struct waiting *w, struct gpufree_event event)
{
        event.elapsed_ms = gf_now_ms() - w->started;
        if (w->eyes->on_event)
                w->eyes->on_event(w->eyes->event_userdata, &event);
}

/* Sleeps for the pause, which grows. -ECANCELED. */
static int pause_once(struct waiting *w)
{
        uint64_t next = gf_deadline_in(w->pause);

        /* Not past the end of the settling time: then the answer is due. */
        if (w->residue_since > 0 && w->settle_ms < GPUFREE_UNKNOWN - w->residue_since &&
            next > w->residue_since + w->settle_ms)
                next = w->residue_since + w->settle_ms;
        w->pause = w->pause * 2 > LAST_PAUSE_MS ? LAST_PAUSE_MS : w->pause * 2;
        return gf_pidfds_wait(NULL, 0, next < w->deadline ? next : w->deadline, w->env->cancel_fd);
}

/* All selected holders that can be pinned. *ret_all: each one is, so that nothing but their pidfds need be watched. */
static int pin_holders(struct waiting *w, pins *p, bool *ret_all)
{
        const struct gpufree_snapshot *snapshot = w->report->snapshot;
        size_t room = gf_descriptor_room();

        *ret_all = true;
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &snapshot->holders.v[i];
                struct pin *pin;
                int fd;

                if (!holder->selected)
                        continue;
                /* Enough to sleep on: who is left over is found by the next look. */
                if (p->n >= room)
                        return 0;
                fd = gf_pidfd_pin(w->env, &holder->id);
                if (fd < 0) {
                        if (fd != -ESRCH)
                                *ret_all = false;
                        continue;
                }
                pin = gf_vec_add(p);
                if (!pin) {
                        gf_close(fd);
                        return -ENOMEM;
                }
                *pin = (struct pin){ holder, fd };
        }
        return 0;
}

static int drop_pin(pins *p, size_t i)
{
        gf_close(p->v[i].fd);
        p->v[i] = p->v[--p->n];
        return 0;
}

/* Drops who has ended; with `ask`, also who lives and holds nothing any more. */
static int thin_out(struct waiting *w, pins *p, bool ask)
{
        for (size_t i = p->n; i > 0; i--) {
                struct pin *pin = &p->v[i - 1];
                int r;

                if (gf_pidfd_ended(pin->fd) != 0) {
                        drop_pin(p, i - 1);
                        continue;
                }
                if (!ask)
                        continue;
                r = w->eyes->still_holds(w->eyes->userdata, pin->holder);
                if (r == -ECANCELED || r == -ENOMEM)
                        return r;
                if (r == 0 || r == -ESRCH)
                        drop_pin(p, i - 1);
        }
        return 0;
}

/* Sleeps until none of the pinned holds any more; letting go makes no event, so they are asked, ever more rarely. */
static int wait_for_pins(struct waiting *w, pins *p)
{
        _cleanup_free_ int *fds = calloc(p->n + 1, sizeof(*fds));
        uint64_t ask = LAST_PAUSE_MS / 2, next = gf_deadline_in(ask);
        size_t told = 0;

        if (!fds)
                return -ENOMEM;
        while (p->n > 0) {
                bool due;
                int r;

                if (p->n != told)
                        tell(w, (struct gpufree_event){ .type = GPUFREE_EVENT_WAITING, .count = p->n });
                told = p->n;
                for (size_t i = 0; i < p->n; i++)
                        fds[i] = p->v[i].fd;
                r = gf_pidfds_wait(fds, p->n, next < w->deadline ? next : w->deadline, w->env->cancel_fd);
                if (r < 0)
                        return r;
                due = gf_deadline_left(next) == 0;
                r = thin_out(w, p, due);
                if (r < 0)
                        return r;
                if (gf_deadline_left(w->deadline) == 0)
                        return 0;
                if (due)
                        next = gf_deadline_in(LAST_PAUSE_MS);
        }
        return 0;
}

static size_t count_selected(const struct gpufree_snapshot *snapshot)
{
        size_t n = 0;

        for (size_t i = 0; i < snapshot->holders.n; i++)
                n += snapshot->holders.v[i].selected;
        return n;
}

static int wait_for_holders(struct waiting *w)
{
        pins p = { 0 };
        bool all;
        int r = pin_holders(w, &p, &all);

        if (r == 0 && p.n > 0 && all) {
                w->pause = FIRST_PAUSE_MS;
                r = wait_for_pins(w, &p);
        } else if (r == 0) {
                tell(w, (struct gpufree_event){ .type = GPUFREE_EVENT_WAITING,
                                                .count = count_selected(w->report->snapshot) });
                r = pause_once(w);
        }
        pins_done(&p);
        return r;
}

/* Memory above what is accounted for, or a process that only the driver sees: it is worth waiting. */
static bool is_in_use(const struct gpufree_report *report)
{
        for (size_t i = 0; i < report->gpus.n; i++) {
                const struct gf_gpu_verdict *verdict = &report->gpus.v[i];
                const struct gpufree_gpu *gpu = &report->snapshot->inventory.gpus.v[verdict->gpu];
                uint64_t idle = gf_idle_figure(report->snapshot, (size_t)verdict->gpu);

                if (verdict->verified || verdict->used_after == GPUFREE_UNKNOWN)
                        continue;
                if (gpu->listed > 0 || (idle != GPUFREE_UNKNOWN && verdict->used_after > idle))
                        return true;
        }
        return false;
}

static void tell_memory(const struct waiting *w)
{
        for (size_t i = 0; i < w->report->gpus.n; i++) {
                const struct gf_gpu_verdict *verdict = &w->report->gpus.v[i];

                if (!verdict->verified && verdict->used_after != GPUFREE_UNKNOWN)
                        tell(w, (struct gpufree_event){ .type = GPUFREE_EVENT_MEMORY,
                                                        .gpu = &w->report->snapshot->inventory.gpus.v[verdict->gpu],
                                                        .bytes = verdict->used_after });
        }
}

/* Each GPU's figure when the waiting began, so that the sentence says what came back. */
static int recall(struct waiting *w)
{
        for (size_t i = 0; i < w->report->gpus.n; i++) {
                struct gf_gpu_verdict *verdict = &w->report->gpus.v[i];
                int at = gf_same_gpu(&w->report->snapshot->inventory.gpus.v[verdict->gpu], w->first);
                int r;

                verdict->elapsed_ms = gf_now_ms() - w->started;
                if (at < 0)
                        continue;
                verdict->used_before = w->first->inventory.gpus.v[at].memory.used;
                r = gf_verdict_judge(w->report->snapshot, verdict);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int look(struct waiting *w)
{
        _cleanup_report_ struct gpufree_report *report = NULL;
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        int r;

        tell(w, (struct gpufree_event){ .type = GPUFREE_EVENT_RESCAN, .count = ++w->looks });
        r = w->eyes->look(w->eyes->userdata, &snapshot);
        if (r < 0)
                return r;
        r = gf_report_new(snapshot, &report);
        if (r == 0)
                r = gf_judge(snapshot, report);
        if (r < 0)
                return r;
        if (!w->first)
                w->first = gpufree_snapshot_ref(snapshot);
        gpufree_report_unref(w->report);
        w->report = TAKE(report);
        return recall(w);
}

/* 1: the answer stands; 0: look again; -errno. */
static int step(struct waiting *w)
{
        enum gpufree_outcome outcome = w->report->outcome;

        if (outcome == GPUFREE_OK)
                return 1;
        if (outcome != GPUFREE_RESIDUE) {
                w->residue_since = 0;
                w->settled = false;
        } else if (w->residue_since == 0) {
                w->residue_since = gf_now_ms();
                w->pause = FIRST_PAUSE_MS;
        }
        if (outcome == GPUFREE_HELD)
                return gf_deadline_left(w->deadline) == 0 ? 1 : wait_for_holders(w);
        if (outcome == GPUFREE_INCOMPLETE && !is_in_use(w->report))
                return 1;
        /* Nobody is left to wait for, and it has not come back in time: that is the answer. */
        if (outcome == GPUFREE_RESIDUE && w->settle_ms != GPUFREE_UNKNOWN &&
            gf_now_ms() - w->residue_since >= w->settle_ms)
                return 1;
        if (gf_deadline_left(w->deadline) == 0)
                return 1;
        /* Memory comes back within a moment of its holder's end: the cheap question, often. Then whole looks, rarely.
         */
        if (outcome == GPUFREE_RESIDUE && !w->settled) {
                uint64_t left = gf_deadline_left(w->deadline), span = w->settle_ms < left ? w->settle_ms : left;

                w->settled = true;
                return gf_settle(w->env, w->eyes, span < LAST_PAUSE_MS ? span : LAST_PAUSE_MS, w->report);
        }
        tell_memory(w);
        return pause_once(w);
}

static int conclude(struct waiting *w)
{
        char buf[GF_TEXT_MAX];

        w->report->elapsed_ms = gf_now_ms() - w->started;
        if (gf_deadline_left(w->deadline) > 0)
                return 0;
        if (w->report->outcome == GPUFREE_HELD || (w->report->outcome == GPUFREE_INCOMPLETE && is_in_use(w->report)) ||
            (w->report->outcome == GPUFREE_RESIDUE && gf_now_ms() - w->residue_since < w->settle_ms)) {
                w->report->outcome = GPUFREE_TIMEOUT;
                return gf_strv_addf(&w->report->sentences, "Not free after %s: the time given is over.",
                                    gf_format_duration(w->report->elapsed_ms, buf));
        }
        return 0;
}

int gf_wait_free(struct gf_env *env, const struct gf_eyes *eyes, uint64_t timeout_ms, uint64_t settle_ms,
                 struct gpufree_report **ret_report)
{
        struct waiting w = { .env = env,
                             .eyes = eyes,
                             .started = gf_now_ms(),
                             .deadline = gf_deadline_in(timeout_ms),
                             .settle_ms = settle_ms,
                             .pause = FIRST_PAUSE_MS };
        int r;

        do {
                r = gf_cancelled(env->cancel_fd) ? -ECANCELED : look(&w);
                if (r == 0)
                        r = step(&w);
        } while (r == 0);
        if (r > 0)
                r = conclude(&w);
        if (r == 0)
                *ret_report = TAKE(w.report);
        gpufree_report_unref(w.report);
        gpufree_snapshot_unref(w.first);
        return r;
}

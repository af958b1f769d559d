/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>

#include "end/run.h"
#include "sys/clock.h"
#include "sys/pidwait.h"

void gf_run_done(struct gf_run *run)
{
        for (size_t i = 0; i < run->targets.n; i++)
                gf_unpin(run, &run->targets.v[i]);
        gf_vec_done(&run->targets);
        run->report = gpufree_report_unref(run->report);
}

struct gf_fate_entry *gf_run_fate(const struct gf_run *run, const struct gf_target *target)
{
        return &run->report->fates.v[target->fate];
}

void gf_run_event(const struct gf_run *run, struct gpufree_event event)
{
        if (run->eyes->on_event)
                run->eyes->on_event(run->eyes->event_userdata, &event);
}

struct gf_fate_entry *gf_run_find(const struct gf_run *run, const struct gf_ident *id)
{
        for (size_t i = 0; i < run->report->fates.n; i++)
                if (gf_ident_equal(&run->report->fates.v[i].holder->id, id))
                        return &run->report->fates.v[i];
        return NULL;
}

int gf_run_note(struct gf_run *run, struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder,
                enum gpufree_fate fate, char *detail)
{
        struct gf_fate_entry *entry = gf_vec_add(&run->report->fates);

        if (!entry) {
                free(detail);
                return -ENOMEM;
        }
        *entry = (struct gf_fate_entry){
                .snapshot = gpufree_snapshot_ref(snapshot), .holder = holder, .fate = fate, .detail = detail
        };
        return 0;
}

int gf_run_add(struct gf_run *run, struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder,
               unsigned generation)
{
        struct gf_target *target = gf_vec_add(&run->targets);
        int r;

        if (!target)
                return -ENOMEM;
        *target = (struct gf_target){ .fate = run->report->fates.n, .pidfd = -1, .generation = generation };
        /* Until anything better is known of it, it lives. */
        r = gf_run_note(run, snapshot, holder, GPUFREE_FATE_SURVIVED, NULL);
        if (r < 0)
                run->targets.n--;
        return r;
}

void gf_run_time(const struct gf_run *run, uint64_t *timing)
{
        *timing = gf_now_us() - run->started_us;
}

static void note_end(struct gf_run *run)
{
        run->last_end_ms = gf_now_ms();
        gf_run_time(run, &run->report->timings.last_exit);
}

void gf_run_settle(struct gf_run *run, struct gf_target *target, enum gpufree_fate fate, char *detail)
{
        struct gf_fate_entry *entry = gf_run_fate(run, target);

        entry->fate = fate;
        entry->elapsed_ms = target->since_ms ? gf_now_ms() - target->since_ms : 0;
        free(entry->detail);
        entry->detail = detail;
        target->stage = GF_STAGE_DONE;
        if (fate == GPUFREE_FATE_ENDED_BY_SIGNAL || fate == GPUFREE_FATE_KILLED || fate == GPUFREE_FATE_BY_OWNER)
                note_end(run);
        gf_unpin(run, target);
        if (fate == GPUFREE_FATE_ENDED_BY_SIGNAL || fate == GPUFREE_FATE_KILLED || fate == GPUFREE_FATE_ALREADY_GONE ||
            fate == GPUFREE_FATE_BY_OWNER)
                gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_GONE,
                                                          .pid = entry->holder->id.pid,
                                                          .elapsed_ms = entry->elapsed_ms,
                                                          .holder = entry->holder });
}

static int add_plan(struct gf_run *run)
{
        const struct gpufree_plan *plan = run->plan;
        int r;

        for (size_t i = 0; i < plan->targets.n; i++) {
                r = gf_run_add(run, plan->snapshot, plan->targets.v[i], 0);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < plan->kept.n; i++) {
                const struct gf_kept *kept = &plan->kept.v[i];

                r = kept->why ? gf_run_note(run, plan->snapshot, kept->holder, GPUFREE_FATE_REFUSED, strdup(kept->why))
                              : 0;
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < plan->spared.n; i++) {
                const struct gpufree_holder *holder = plan->spared.v[i];
                const char *why = holder->protected_why ? holder->protected_why : "never ended";

                r = gf_run_note(run, plan->snapshot, holder, GPUFREE_FATE_REFUSED,
                                holder->protected_absolute ? gf_asprintf("protected, always: %s", why)
                                                           : gf_asprintf("protected: %s; --include %d lifts that", why,
                                                                         (int)holder->id.pid));
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool has_begun(const struct gf_run *run)
{
        for (size_t i = 0; i < run->targets.n; i++)
                if (run->targets.v[i].since_ms != 0)
                        return true;
        return false;
}

static int carry_out(struct gf_run *run)
{
        int r;

        r = gf_stop_owners(run);
        if (r == 0)
                r = gf_mps_release(run);
        if (r == 0)
                r = gf_ladder_climb(run, run->ladder.force);
        if (r == -ETIMEDOUT)
                (void)gf_rounds_look(run);
        if (r == 0)
                r = gf_rounds(run);
        /* What was begun is reported, whatever happened. */
        if (r == -ENOMEM || r == -ENOSYS) {
                if (!has_begun(run))
                        return r;
                run->broken = r;
        }
        r = gf_conclude(run);
        if (r < 0 && has_begun(run)) {
                run->broken = r;
                gf_conclude_poorly(run);
                r = 0;
        }
        return r;
}

int gf_execute(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_plan *plan,
               const struct gpufree_ladder *ladder, struct gpufree_report **ret_report)
{
        struct gf_run run = { .env = env, .eyes = eyes, .plan = plan, .ladder = *ladder };
        int r;

        if (ladder->signal <= 0 || ladder->signal >= NSIG)
                return gf_fail(env, -EINVAL, "%d is no signal", ladder->signal);
        r = gf_report_new(plan->snapshot, &run.report);
        if (r < 0)
                return gf_fail(env, r, "out of memory");
        run.ladder.force = ladder->force || ladder->signal == SIGKILL;
        run.started_ms = gf_now_ms();
        run.started_us = gf_now_us();
        run.report->timings.planned = plan->snapshot->elapsed_us;
        run.deadline = gf_deadline_in(ladder->timeout_ms);
        run.room = gf_descriptor_room();
        r = add_plan(&run);
        if (r == 0)
                r = carry_out(&run);
        if (r == 0) {
                run.report->elapsed_ms = gf_now_ms() - run.started_ms;
                *ret_report = TAKE(run.report);
        } else if (r == -ENOMEM) {
                (void)gf_fail(env, r, "out of memory");
        }
        gf_run_done(&run);
        return r;
}

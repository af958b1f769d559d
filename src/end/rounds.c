/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "end/kin.h"
#include "end/run.h"
#include "sys/clock.h"
#include "sys/pidwait.h"

/* A restarted process is ended this often; then whoever starts it again is named. */
#define MOST_RESTARTS 2
/* A process that lets go and takes again: as often. */
#define MOST_REGRABS 2
/* What looks like a restart may be a chain of forks that outruns us: it is chased this often before it is called one.
 */
#define MOST_CHASES 8
#define MOST_FORCED_CHASES 200
/* From this climb on, what is left are forks of forks: no more asking. */
#define HURRY_FROM 3

static struct gf_target *target_of(const struct gf_run *run, const struct gf_fate_entry *entry)
{
        for (size_t i = 0; i < run->targets.n; i++)
                if (gf_run_fate(run, &run->targets.v[i]) == entry)
                        return &run->targets.v[i];
        return NULL;
}

/* Shown in the plan, let go, and took it again: it is still what the plan showed. */
static int take_up_again(struct gf_run *run, const struct gf_fate_entry *entry)
{
        struct gf_target *target = target_of(run, entry);

        if (!target || entry->fate != GPUFREE_FATE_LET_GO)
                return 0;
        if (target->regrabs++ >= MOST_REGRABS) {
                gf_run_settle(run, target, GPUFREE_FATE_SURVIVED,
                              gf_asprintf("it lets go when it is signalled and then takes the GPU again: stop what it "
                                          "serves, or use --force"));
                return 0;
        }
        target->stage = GF_STAGE_TODO;
        target->loose = 0;
        return 1;
}

static void note_newcomer(const struct gf_run *run, const struct gpufree_holder *holder)
{
        gf_run_event(run,
                     (struct gpufree_event){ .type = GPUFREE_EVENT_NEWCOMER, .pid = holder->id.pid, .holder = holder });
}

/* Kin that had gone before it could be pinned, from target `from` on: it hops on as we look. */
static bool is_hopping(const struct gf_run *run, size_t from)
{
        for (size_t i = from; i < run->targets.n; i++)
                if (gf_run_fate(run, &run->targets.v[i])->fate == GPUFREE_FATE_ALREADY_GONE)
                        return true;
        return false;
}

static bool may_chase(const struct gf_run *run)
{
        return run->chases < (run->ladder.force ? MOST_FORCED_CHASES : MOST_CHASES);
}

static int add_restarted(struct gf_run *run, struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder,
                         unsigned generation)
{
        int r;

        /* Nobody restarts what ends by itself all the time: that is a chain of forks. */
        if (generation > MOST_RESTARTS && is_hopping(run, run->plan->targets.n) && may_chase(run))
                run->chase = true;
        else if (generation > MOST_RESTARTS)
                return gf_run_note(run, snapshot, holder, GPUFREE_FATE_SURVIVED,
                                   gf_respawn_sentence(run, holder, true));
        r = gf_run_add(run, snapshot, holder, generation);
        return r < 0 ? r : 1;
}

/* 1: there is something to do about this holder; 0: nothing (more); -ENOMEM. */
static int sift_one(struct gf_run *run, struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder)
{
        const struct gf_fate_entry *entry = gf_run_find(run, &holder->id);
        unsigned generation;

        if (entry)
                return take_up_again(run, entry);
        note_newcomer(run, holder);
        if (holder->id.pid <= 1 || holder->facts.kernel_thread || holder->protected_absolute ||
            (holder->protected_why && !holder->lifted))
                return gf_run_note(run, snapshot, holder, GPUFREE_FATE_REFUSED,
                                   gf_asprintf("it came later and is protected: %s",
                                               holder->protected_why ? holder->protected_why : "never ended"));
        generation = gf_respawn_generation(run, holder);
        if (generation > 0 || gf_is_kin(run->plan, run->report, holder))
                return add_restarted(run, snapshot, holder, generation);
        /*
         * The plan said that holders had ended before they could be described, and it was to be carried out by force:
         * what is selected and has come since is what they handed it on to.
         */
        if (run->ladder.force && run->plan->snapshot->slipped > 0 &&
            gf_started_since(run->plan->snapshot, holder->id.start_ticks)) {
                int r = gf_run_add(run, snapshot, holder, 0);

                run->chase = true;
                return r < 0 ? r : 1;
        }
        return gf_run_note(run, snapshot, holder, GPUFREE_FATE_NOT_IN_PLAN,
                           gf_asprintf("it is not known to come from one of the ended, so it was "
                                       "not signalled; the same command shows it when run again"));
}

static int look(struct gf_run *run, struct gpufree_snapshot **ret)
{
        struct gpufree_snapshot *snapshot = NULL;
        int r;

        gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_RESCAN, .count = ++run->looks });
        r = run->eyes->look(run->eyes->userdata, &snapshot);
        if (r == -ECANCELED)
                run->cancelled = true;
        else if (r < 0)
                run->look_error = r;
        if (r < 0)
                return r;
        run->look_error = 0;
        run->looked_after = true;
        gf_report_set_snapshot(run->report, snapshot);
        gpufree_snapshot_unref(snapshot);
        *ret = run->report->snapshot;
        return 0;
}

int gf_rounds_look(struct gf_run *run)
{
        struct gpufree_snapshot *snapshot;

        return look(run, &snapshot);
}

static bool was_there(const struct gpufree_snapshot *snapshot, const struct gf_ident *id)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (gf_ident_equal(&snapshot->holders.v[i].id, id))
                        return true;
        return false;
}

/*
 * Selected by its PID, its age or its state, a process that is started again is not selected any more: it has another
 * PID, it is young. The end of its like has brought nothing all the same.
 */
static bool is_restart_unselected(const struct gf_run *run, const struct gpufree_snapshot *snapshot,
                                  const struct gpufree_holder *holder)
{
        bool meant = holder->asked;

        for (size_t i = 0; i < holder->gpus.n; i++) {
                const struct gf_gpu_use *use = &holder->gpus.v[i];

                meant |= use->context && use->gpu >= 0 && (size_t)use->gpu < snapshot->inventory.gpus.n &&
                         snapshot->inventory.gpus.v[use->gpu].selected;
        }
        return meant && !was_there(run->plan->snapshot, &holder->id) && !gf_run_find(run, &holder->id) &&
               gf_respawn_generation(run, holder) > 0;
}

/* It was not asked for, so it is not ended: only told. */
static int note_restart(struct gf_run *run, struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder)
{
        note_newcomer(run, holder);
        return gf_run_note(run, snapshot, holder, GPUFREE_FATE_SURVIVED, gf_respawn_sentence(run, holder, false));
}

/* 1: something is to be done; 0: a quiet look. */
static int look_and_sift(struct gf_run *run)
{
        struct gpufree_snapshot *snapshot;
        int r, work = 0;

        r = look(run, &snapshot);
        if (r < 0)
                return r;
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                if (snapshot->holders.v[i].selected)
                        r = sift_one(run, snapshot, &snapshot->holders.v[i]);
                else if (is_restart_unselected(run, snapshot, &snapshot->holders.v[i]))
                        r = note_restart(run, snapshot, &snapshot->holders.v[i]);
                else
                        continue;
                if (r < 0)
                        return r;
                work |= r;
        }
        /* Not quiet: what was seen to hold has ended, and may have handed it on. */
        if (snapshot->slipped > 0 && may_chase(run)) {
                run->chase = true;
                work = 1;
        }
        return work;
}

int gf_rounds(struct gf_run *run)
{
        for (unsigned quiet = 0; quiet < 2;) {
                size_t known = run->targets.n;
                int r;

                if (gf_cancelled(run->env->cancel_fd)) {
                        run->cancelled = true;
                        return -ECANCELED;
                }
                r = look_and_sift(run);
                if (r < 0)
                        return r;
                if (r == 0) {
                        if (++quiet < 2)
                                gf_restarts_wait(run);
                        continue;
                }
                quiet = 0;
                r = gf_ladder_climb(run, run->ladder.force || run->climbs + 1 >= HURRY_FROM);
                if (r == 0 && (run->chase || is_hopping(run, known))) {
                        run->chases += run->chase;
                        run->chase = false;
                        r = gf_chase(run);
                }
                if (r == -ETIMEDOUT) /* its last look shows what is left */
                        return gf_rounds_look(run) < 0 ? run->look_error : r;
                if (r < 0)
                        return r;
        }
        gf_run_time(run, &run->report->timings.quiet);
        return 0;
}

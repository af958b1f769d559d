/* SPDX-License-Identifier: MIT */
/*
 * --stop-owner: before any signal, each owner's own command, once. What it leaves is for the ladder; whether anything
 * is free is for the looks and the memory, as after any kill.
 */
#include <errno.h>
#include <string.h>

#include "end/owner_stop.h"
#include "end/run.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidwait.h"

/* The ladder's share of the time for the whole, at least. */
#define LADDER_MS 5000
/* How much of a command's words a sentence repeats. */
#define MOST_WORDS 300

static bool has_stop(const struct gf_run *run, const struct gf_target *target, const struct gf_plan_stop *stop)
{
        return gf_plan_stop_of(run->plan, (size_t)(target - run->targets.v)) == stop;
}

/* Is any of its targets still there, holding? An owner whose process has let go is left alone. */
static int is_needed(struct gf_run *run, const struct gf_plan_stop *stop)
{
        for (size_t i = 0; i < run->targets.n; i++) {
                struct gf_target *target = &run->targets.v[i];
                int r;

                if (target->stage != GF_STAGE_TODO || !has_stop(run, target, stop))
                        continue;
                r = gf_pin(run, target);
                if (r == -ENOMEM)
                        return r;
                if (r < 0 || gf_pidfd_ended(target->pidfd) == 1)
                        continue; /* the ladder says what became of it */
                r = run->eyes->still_holds(run->eyes->userdata, gf_run_fate(run, target)->holder);
                if (r == -ECANCELED || r == -ENOMEM || r > 0)
                        return r;
        }
        return 0;
}

static uint64_t time_for(const struct gf_run *run)
{
        uint64_t left = gf_deadline_left(run->deadline), rest = run->ladder.grace_ms;

        if (__builtin_add_overflow(rest, LADDER_MS, &rest) || rest > left / 2)
                rest = left / 2;
        return left - rest;
}

/* The last line that it printed, for the sentence. */
static char *last_words(const char *output)
{
        size_t end = output ? strlen(output) : 0, begin;

        while (end > 0 && strchr(" \t\r\n", output[end - 1]))
                end--;
        for (begin = end; begin > 0 && output[begin - 1] != '\n';)
                begin--;
        if (end == begin)
                return NULL;
        if (end - begin > MOST_WORDS)
                end = begin + MOST_WORDS;
        return strndup(output + begin, end - begin);
}

static int note_stop(struct gf_run *run, const struct gf_plan_stop *stop, struct gf_stopped *stopped)
{
        struct gf_stop_entry *entry = gf_vec_add(&run->report->stops);
        _cleanup_free_ char *words = NULL;

        if (!entry)
                return -ENOMEM;
        entry->outcome = (int)stopped->outcome;
        entry->status = stopped->outcome == GF_STOP_DONE || stopped->outcome == GF_STOP_FAILED ? stopped->status : -1;
        entry->elapsed_ms = stopped->elapsed_ms;
        entry->command = TAKE(stopped->command);
        entry->output = TAKE(stopped->output);
        entry->sentence = TAKE(stopped->sentence);
        if (stop->stop.owner && gf_strset(&entry->owner, stop->stop.owner) < 0)
                return -ENOMEM;
        gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_STOPPED,
                                                  .elapsed_ms = entry->elapsed_ms,
                                                  .text = entry->sentence });
        if (entry->outcome == GF_STOP_DONE)
                return 0;
        words = last_words(entry->output);
        return gf_strv_addf(&run->report->sentences, "%s%s%s%s", entry->sentence, words ? "; it said: " : "",
                            words ? words : "", words ? "" : ".");
}

/* Those of the stop's targets that live: their pins. */
static size_t list_living(struct gf_run *run, const struct gf_plan_stop *stop, int *fds)
{
        size_t n = 0;

        for (size_t i = 0; i < run->targets.n; i++) {
                struct gf_target *target = &run->targets.v[i];
                int r;

                if (target->stage != GF_STAGE_TODO || !has_stop(run, target, stop))
                        continue;
                r = gf_pin(run, target);
                if (r == -ESRCH || (r == 0 && gf_pidfd_ended(target->pidfd) == 1)) {
                        gf_run_settle(run, target, GPUFREE_FATE_BY_OWNER, NULL);
                        continue;
                }
                if (r < 0)
                        continue;
                /* Those that there is no room for are asked when one of the others has ended. */
                if (run->pinned > run->room)
                        gf_unpin(run, target);
                else
                        fds[n++] = target->pidfd;
        }
        return n;
}

/* Some commands only ask (scancel, sv, runc kill): their owner carries it out in its own time, up to the grace. */
static int await_end(struct gf_run *run, const struct gf_plan_stop *stop, uint64_t grace_ms)
{
        _cleanup_free_ int *fds = calloc(run->targets.n + 1, sizeof(*fds));
        uint64_t until = gf_deadline_in(grace_ms);

        if (!fds)
                return -ENOMEM;
        if (until > run->deadline)
                until = run->deadline;
        for (;;) {
                size_t n = list_living(run, stop, fds);
                int r;

                if (n == 0 || gf_deadline_left(until) == 0)
                        return 0;
                r = gf_pidfds_wait(fds, n, until, run->env->cancel_fd);
                if (r < 0)
                        return r;
        }
}

/* From here on they count as sent to their end: what comes back is a restart. */
static void mark(struct gf_run *run, const struct gf_plan_stop *stop)
{
        for (size_t i = 0; i < run->targets.n; i++) {
                struct gf_target *target = &run->targets.v[i];

                if (target->stage != GF_STAGE_TODO || !has_stop(run, target, stop))
                        continue;
                target->since_ms = gf_now_ms();
                target->signal_ticks = gf_boottime_ticks();
        }
}

static void unmark(struct gf_run *run, const struct gf_plan_stop *stop)
{
        for (size_t i = 0; i < run->targets.n; i++)
                if (run->targets.v[i].stage == GF_STAGE_TODO && has_stop(run, &run->targets.v[i], stop))
                        run->targets.v[i].since_ms = run->targets.v[i].signal_ticks = 0;
}

static int stop_one(struct gf_run *run, const struct gf_plan_stop *stop)
{
        _cleanup_(gf_stopped_done) struct gf_stopped stopped = { 0 };
        bool done;
        int r = is_needed(run, stop);

        if (r <= 0)
                return r;
        gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_STOPPING, .text = stop->stop.text });
        mark(run, stop);
        r = gf_owner_stop(run->env, &stop->stop, time_for(run), &stopped);
        if (r < 0)
                return r;
        done = stopped.outcome == GF_STOP_DONE;
        if (stopped.outcome == GF_STOP_CANCELLED)
                run->cancelled = true;
        r = note_stop(run, stop, &stopped);
        if (r == 0)
                r = await_end(run, stop, done ? run->ladder.grace_ms : 0);
        unmark(run, stop);
        if (r == -ECANCELED)
                run->cancelled = true;
        return r == 0 && run->cancelled ? -ECANCELED : r;
}

int gf_stop_owners(struct gf_run *run)
{
        for (size_t i = 0; run->ladder.stop_owner && i < run->plan->stops.n; i++) {
                int r;

                if (!gf_stop_runs(&run->plan->stops.v[i].stop))
                        continue;
                if (gf_cancelled(run->env->cancel_fd)) {
                        run->cancelled = true;
                        return -ECANCELED;
                }
                r = stop_one(run, &run->plan->stops.v[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool was_stopped(const struct gf_run *run, const struct gf_plan_stop *stop)
{
        for (size_t i = 0; i < run->report->stops.n; i++)
                if (run->report->stops.v[i].outcome == GF_STOP_DONE &&
                    gf_streq(run->report->stops.v[i].command, stop->stop.text))
                        return true;
        return false;
}

/* Was a target of it ended in a way that its owner undoes? */
static bool is_undone(const struct gf_run *run, const struct gf_plan_stop *stop)
{
        if (stop->stop.again != GF_AGAIN_YES && stop->stop.again != GF_AGAIN_ON_KILL)
                return false;
        if (was_stopped(run, stop))
                return false;
        for (size_t i = 0; i < run->targets.n; i++) {
                enum gpufree_fate fate = gf_run_fate(run, &run->targets.v[i])->fate;

                if (run->targets.v[i].stage != GF_STAGE_DONE || !has_stop(run, &run->targets.v[i], stop))
                        continue;
                if (fate == GPUFREE_FATE_KILLED ||
                    (fate == GPUFREE_FATE_ENDED_BY_SIGNAL && stop->stop.again == GF_AGAIN_YES))
                        return true;
        }
        return false;
}

bool gf_restart_is_due(const struct gf_run *run)
{
        for (size_t i = 0; i < run->plan->stops.n; i++)
                if (is_undone(run, &run->plan->stops.v[i]))
                        return true;
        return false;
}

/* Some program came back and is named already. */
static bool came_back(const struct gf_run *run)
{
        for (size_t i = 0; i < run->targets.n; i++)
                if (run->targets.v[i].generation > 0)
                        return true;
        return false;
}

int gf_say_restarts(struct gf_run *run)
{
        for (size_t i = 0; i < run->plan->stops.n && !came_back(run); i++) {
                const struct gf_stop *stop = &run->plan->stops.v[i].stop;
                int r;

                if (!is_undone(run, &run->plan->stops.v[i]) || !stop->why)
                        continue;
                r = gf_strv_addf(&run->report->sentences, "%s; what it starts holds no GPU so far. %s%s%s.", stop->why,
                                 stop->text ? "To keep it ended: " : "Nothing is known that keeps it ended",
                                 stop->text ? stop->text : "",
                                 gf_stop_runs(stop) && !run->ladder.stop_owner ? ", or --stop-owner" : "");
                if (r < 0)
                        return r;
        }
        return 0;
}

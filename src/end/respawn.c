/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <unistd.h>

#include "end/kin.h"
#include "end/run.h"
#include "owner/restart.h"
#include "sys/pidstat.h"

/*
 * A restart, not a fork: the same program by the same hand (its parent lives and is not PID 1; or the same cgroup, as
 * with systemd and container runtimes), started after its like was signalled. Not: after it was seen to have ended; a
 * quick supervisor is there before that.
 */
static bool follows(const struct gf_run *run, const struct gf_target *ended, const struct gpufree_holder *holder)
{
        const struct gf_fate_entry *entry = gf_run_fate(run, ended);

        if (entry->fate != GPUFREE_FATE_ENDED_BY_SIGNAL && entry->fate != GPUFREE_FATE_KILLED &&
            entry->fate != GPUFREE_FATE_BY_OWNER)
                return false;
        if (ended->signal_ticks == 0 || holder->id.start_ticks < ended->signal_ticks)
                return false;
        if (!gf_same_program(entry->holder, holder))
                return false;
        return (holder->facts.ppid > 1 && holder->facts.ppid == entry->holder->facts.ppid) ||
               gf_same_place(entry->holder, holder);
}

unsigned gf_respawn_generation(const struct gf_run *run, const struct gpufree_holder *holder)
{
        unsigned generation = 0;

        for (size_t i = 0; i < run->targets.n; i++)
                if (run->targets.v[i].generation >= generation && follows(run, &run->targets.v[i], holder))
                        generation = run->targets.v[i].generation + 1;
        return generation;
}

/* Was this owner's command run already? Then it is no advice any more. */
static bool was_run(const struct gf_run *run, const char *command)
{
        for (size_t i = 0; i < run->report->stops.n; i++)
                if (run->report->stops.v[i].outcome == GPUFREE_STOP_DONE &&
                    gf_streq(run->report->stops.v[i].command, command))
                        return true;
        return false;
}

static char *sentence_by_owner(const struct gf_run *run, const struct gpufree_holder *holder,
                               const struct gf_stop *stop, const char *back)
{
        const char *who = stop->owner ? stop->owner : holder->owner_label ? holder->owner_label : "its owner";
        const char *unasked = gf_stop_runs(stop) && !run->ladder.stop_owner ? ", or add --stop-owner" : "";

        if (was_run(run, stop->text))
                return gf_asprintf("it came back although %s was stopped (%s): something else starts it again", who,
                                   stop->text);
        if (stop->again == GF_AGAIN_YES && stop->why)
                return gf_asprintf("%s: %s. Stop that first: %s%s", back, stop->why, stop->text, unasked);
        return gf_asprintf("%s: %s starts it again. Stop that first: %s%s", back, who, stop->text, unasked);
}

char *gf_respawn_sentence(struct gf_run *run, const struct gpufree_holder *holder, bool each_time)
{
        _cleanup_(gf_stop_done) struct gf_stop stop = { 0 };
        _cleanup_free_ char *comm = NULL;
        const char *back = each_time ? "it comes back each time it is ended" : "it was started again";

        /* A shell that is seen to start it again is named below; what stops a login is no answer. */
        if (gf_stop_find(run->env, geteuid(), holder, &stop) == 0 && stop.text && !stop.plain &&
            (stop.argv.n > 0 || stop.again == GF_AGAIN_YES))
                return sentence_by_owner(run, holder, &stop, back);
        if (holder->facts.ppid <= 1)
                return gf_asprintf("%s, and its parent is PID 1: a service or a container runtime starts it again; "
                                   "stop it there%s%s",
                                   back, holder->owner_label ? ": " : "",
                                   holder->owner_label ? holder->owner_label : "");
        (void)gf_pid_text(run->env, holder->facts.ppid, "comm", &comm);
        if (comm)
                comm[strcspn(comm, "\n")] = '\0';
        return gf_asprintf("%s: its parent %d (%s) starts it again. Stop that first: kill %d", back,
                           (int)holder->facts.ppid, comm ? comm : "unknown", (int)holder->facts.ppid);
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include "end/end.h"

/* How far one process has been taken. */
enum gf_stage {
        GF_STAGE_TODO,
        GF_STAGE_SIGNALLED,
        GF_STAGE_KILLED, /* SIGKILL was sent */
        GF_STAGE_DONE,   /* gone, or left for good: its fate is final */
};

struct gf_target {
        size_t fate; /* position in report->fates */
        int pidfd;   /* -1: not pinned at the moment */
        enum gf_stage stage;
        uint64_t since_ms;     /* its first signal */
        uint64_t signal_ticks; /* the same, as start times are counted; 0 */
        unsigned generation;   /* how many of its like were ended before it */
        unsigned regrabs;      /* how often it took the GPU again after letting go */
        bool cut_short;        /* the clock or a cancel came before SIGKILL */
        unsigned loose;        /* looks in a row that found it holding nothing */
        bool in_last_look;
};

/* One execution of a plan. */
struct gf_run {
        struct gf_env *env;
        const struct gf_eyes *eyes;
        const struct gpufree_plan *plan;
        struct gpufree_ladder ladder;
        struct gpufree_report *report;
        GF_VEC(struct gf_target) targets;
        size_t pinned, room;
        uint64_t started_ms, started_us, deadline;
        uint64_t last_end_ms; /* when a signalled process was last seen to have ended; 0 */
        uint64_t looks;
        unsigned climbs; /* how often a ladder was climbed */
        unsigned chases; /* how often a restart was taken for a chain of forks and chased */
        bool chase;      /* this round's newcomers are to be chased */
        bool cancelled, timed_out;
        int look_error;    /* why a look failed; 0 */
        int broken;        /* why it was broken off half-way: -ENOMEM, …; 0 */
        bool looked_after; /* report->snapshot was taken after the last signal */
};

void gf_run_done(struct gf_run *run);
struct gf_fate_entry *gf_run_fate(const struct gf_run *run, const struct gf_target *target);
/* Notes in a field of report->timings that it has come to that now. */
void gf_run_time(const struct gf_run *run, uint64_t *timing);
void gf_run_event(const struct gf_run *run, struct gpufree_event event);
/* Adds a process of `snapshot` with its first fate: a target to be ended, or (gf_run_note) one that is left. */
int gf_run_add(struct gf_run *run, struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder,
               unsigned generation);
int gf_run_note(struct gf_run *run, struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder,
                enum gpufree_fate fate, char *detail);
struct gf_fate_entry *gf_run_find(const struct gf_run *run, const struct gf_ident *id);
/* The target's fate is final. Takes `detail` (may be NULL). */
void gf_run_settle(struct gf_run *run, struct gf_target *target, enum gpufree_fate fate, char *detail);

/* ---- pins.c ---- */
/* Pins unless it is. -ESRCH: gone. */
int gf_pin(struct gf_run *run, struct gf_target *target);
void gf_unpin(struct gf_run *run, struct gf_target *target);
/* Gives pins back until no more are held than there is room for. */
void gf_pins_trim(struct gf_run *run);
/*
 * Waits until all targets that were signalled have ended (0), `until` has passed (-ETIMEDOUT) or a cancel (-ECANCELED).
 * Gone ones get their fate, as do those that live on and hold nothing any more.
 */
int gf_pins_wait(struct gf_run *run, uint64_t until);

/* ---- stop_owners.c: with ladder.stop_owner, each owner's own command. 0, -ECANCELED, -ENOMEM ---- */
int gf_stop_owners(struct gf_run *run);
/* Was something ended that is known to be started again, and its owner not stopped? */
bool gf_restart_is_due(const struct gf_run *run);
/* The same as a sentence of the report, where nothing has come back yet. */
int gf_say_restarts(struct gf_run *run);

/*
 * ---- mps.c: clients of NVIDIA's Multi-Process Service ----
 * Before any signal, their server is told through its control daemon to end their work: a client that is killed in the
 * middle of it takes the others of its server along. The signals follow in any case. 0, -ECANCELED, -ENOMEM.
 */
int gf_mps_release(struct gf_run *run);

/* ---- ladder.c: first signal, wait, SIGKILL, wait, for every target that is still to do ---- */
/* 0; -ECANCELED, -ETIMEDOUT (run->cancelled, run->timed_out say so as well); -ENOSYS, -ENOMEM. */
int gf_ladder_climb(struct gf_run *run, bool force);

/* SIGKILL at once to one that is pinned and was seen to hold. */
void gf_ladder_strike(struct gf_run *run, struct gf_target *target);

/* ---- rounds.c: look again until two looks in a row find nothing to do ---- */
int gf_rounds(struct gf_run *run);
/* One more look, without acting on it. */
int gf_rounds_look(struct gf_run *run);

/*
 * ---- chase.c: who forks a successor and exits faster than a look can be taken ----
 * Walks the processes and ends, at detection, what is the same program of the same user and group as an ended target,
 * started since the plan was shown, and holds. Until two walks in a row find none. 0, -ECANCELED, -ETIMEDOUT, -ENOMEM.
 */
int gf_chase(struct gf_run *run);

/* ---- restarts.c ---- */
/* Between two quiet looks: time for whoever may start again what was ended to do so, where there is such. */
void gf_restarts_wait(struct gf_run *run);

/* ---- respawn.c ---- */
/* How many ended processes this one follows as a restart: 0, it is none. */
unsigned gf_respawn_generation(const struct gf_run *run, const struct gpufree_holder *holder);
/* Who starts it again, and the command that stops that. `each_time`: it was ended more than once. */
char *gf_respawn_sentence(struct gf_run *run, const struct gpufree_holder *holder, bool each_time);

/* ---- stuck.c: why a process lives on ---- */
/* "state D (uninterruptible), waits in nv_close, SIGKILL pending: …"; NULL: gone, or out of memory. */
char *gf_stuck_sentence(struct gf_env *env, const struct gf_ident *id);
/* From the text of stat's state letter, /proc/PID/wchan and /proc/PID/status (each may be NULL). Pure. */
char *gf_stuck_describe(char state, const char *wchan, const char *status);

/* ---- outcome.c: the report's last part: memory, outcome, sentences ---- */
int gf_conclude(struct gf_run *run);
/* The same where even that fails for lack of memory: what was begun is reported, nothing is verified. */
void gf_conclude_poorly(struct gf_run *run);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "guard/guard.h"
#include "sys/child.h"

/*
 * --park-on: on a signal the command's own CUDA processes are parked, on another one they are brought back. A child
 * does it, the parker, so that the guard goes on hearing signals while memory is copied. While they are parked the
 * claims are let go of; they are taken again before anything is brought back.
 */
enum gf_park_at {
        GF_PARK_RUNS,
        GF_PARK_PARKING,
        GF_PARK_PARKED, /* or whatever else became of some of them: `pids` */
        GF_PARK_UNPARKING,
};

struct gf_guard_park {
        enum gf_park_at at;
        int next;              /* what was asked for meanwhile: the signal; 0 */
        struct gf_child child; /* while parking and unparking */
        GF_VEC(pid_t) pids;    /* that do not run */
        gf_strv claims;        /* what was let go of; empty: nothing */
        bool letting_go;       /* the keeper has not answered yet */
        uint64_t since_ms;     /* when it ceased to run */
        unsigned outcome;
        int asker;         /* of --preempt: the one it is parked for; -1 */
        bool wants_back;   /* by itself, since that one is gone */
        unsigned tries;    /* of that, that failed */
        uint64_t retry_at; /* when to try next */
};
#define GF_GUARD_PARK_NONE                                                                                             \
        {                                                                                                              \
                .child = { 0, -1, -1, 0 }, .asker = -1                                                                 \
        }

struct gf_life;
/* "SIGUSR1" */
const char *gf_park_signal_name(int signal);
/* Is this signal for us, not for the command? Then it is obeyed. */
bool gf_park_signal(struct gf_life *life, int signal);
/* What the parker has to say, and what follows; what is due. Never waits. */
void gf_park_step(struct gf_life *life);
uint64_t gf_park_next(const struct gf_life *life);
/* The keeper has let go of its claims, too. */
void gf_park_unclaimed(struct gf_life *life);
void gf_park_done(struct gf_guard_park *park);

/* ---- the parker: parker.c ---- */
enum gf_parker_say {
        GF_PARKER_TARGET = 1, /* pid: will be parked */
        GF_PARKER_PROCESS,    /* pid, state, and a sentence about it (may be empty) */
        GF_PARKER_SENTENCE,
        GF_PARKER_DONE, /* outcome */
};
struct gf_parker_said {
        uint32_t what, outcome;
        int32_t pid, state;
        char text[1000];
};
struct gf_parker_order {
        struct gpufree_guard *guard;
        pid_t root;        /* whose descendants */
        const pid_t *pids; /* to be brought back; NULL: park */
        size_t n;
};
int gf_parker_start(struct gf_parker_order *order, struct gf_child *ret_child);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "guard/cgroup.h"
#include "guard/guard.h"
#include "guard/own.h"
#include "guard/wire.h"

/*
 * The keeper: a small process between the guard and the command. It adopts the orphans among the command's descendants,
 * tells the guard what became of the command, and ends what is left when the guard asks for it or is gone: the guard's
 * own death, even by SIGKILL, leaves nothing behind. It has the claims as well, so that the GPUs are given up when the
 * last of both has ended.
 *
 *     shell → guard (the command's process group) → keeper (a group of its own) → command → …
 *
 * The command is in the guard's process group, so that a terminal treats it as if there were no guard.
 */
struct gf_keeper {
        pid_t pid; /* 0: none */
        int pidfd, socket;
};
#define GF_KEEPER_NONE                                                                                                 \
        {                                                                                                              \
                0, -1, -1                                                                                              \
        }

struct gf_keeper_order {
        char *const *argv;
        int output;     /* standard output and error of the command; -1: as they are */
        int ready_fd;   /* the write end for $GPUFREE_READY_FD; -1 */
        bool no_notify; /* readiness is told to systemd by the guard: the command is not to do it too */
};

int gf_keeper_start(struct gpufree_guard *guard, const struct gf_keeper_order *order, struct gf_keeper *ret_keeper);
/* Gives it up: it ends what is left, quickly, and itself. Waits for that, `ms` at most. */
void gf_keeper_stop(struct gf_keeper *keeper, uint64_t ms);

/* This process is called so from now on, in ps too. Only where its arguments are not needed any more. */
void gf_keeper_rename(const char *name);

/* ---- inside the keeper: keeper_end.c ---- */
struct gf_ending {
        bool begun, killing, told_stuck;
        int signal;
        uint64_t kill_at, stuck_at, next_look;
        bool sent; /* the first signal */
        int signalled, killed;
        struct gf_cgroup *cgroup;
        struct gf_env *env;
        pid_t root;    /* whose descendants */
        pid_t spare;   /* one of them that is not the command's; 0 */
        int last_left; /* how many at the last look */
};
/* First signals, and when to go on: gf_ending_step() is due at ending->next_look and whenever a child has ended. */
void gf_ending_begin(struct gf_ending *ending, int signal, bool force, uint64_t grace_ms);
/* What is due now. The number of those left, -errno. */
int gf_ending_step(struct gf_ending *ending);

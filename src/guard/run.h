/* SPDX-License-Identifier: MIT */
#pragma once

#include "guard/follow.h"
#include "guard/guard.h"
#include "guard/keeper.h"
#include "guard/park.h"
#include "guard/probe.h"
#include "guard/pulse.h"
#include "guard/tty.h"

/* A signal that came, until it is known whether the command got it as well. */
struct gf_held_signal {
        int signal;
        pid_t sender;
        uint64_t due;
};

/* One life of the command. */
struct gf_life {
        struct gpufree_guard *guard;
        char *const *argv;
        struct gf_keeper keeper;
        struct gf_tty *tty;
        struct gf_follow *follow;
        struct gf_probe probe;
        struct gf_pulse pulse;
        struct gf_guard_park park;
        struct gf_held_signal held[8];
        size_t n_held;
        int canary;   /* a socket; -1 */
        int ready_fd; /* the read end; -1 */
        pid_t command;
        bool started, ready, exited, gone, failed_ready, stalled, asked_to_end, keeper_lost;
        int no_exec; /* errno */
        int status, signal;
        int signalled, killed, stuck;
        unsigned interrupts; /* asked to end, after the end began */
        uint64_t ready_ms;   /* how long it took */
        uint64_t begun_ms, ready_deadline, next_probe, probe_pause, next_pulse;
};

/* signals.c: what comes by the signalfd, and the canary that tells group signals from single ones. */
int gf_canary_start(int *ret_pidfd, int *ret_socket);
void gf_signals_read(struct gf_life *life);
void gf_signals_due(struct gf_life *life);
void gf_canary_read(struct gf_life *life);
void gf_say_stopped(struct gf_life *life, int signal, pid_t group);

/* ready.c */
void gf_ready_begin(struct gf_life *life);
void gf_ready_step(struct gf_life *life); /* what is due now */
uint64_t gf_ready_next(const struct gf_life *life);

/* finish.c: are the GPUs free? true: yes, or there are none. Says so. */
bool gf_finish_verify(struct gpufree_guard *guard);
/* Ends what is left by itself, when the keeper was killed. */
void gf_finish_alone(struct gf_life *life);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* What the guard and its keeper say to each other: one record a message, over a SOCK_SEQPACKET. */
enum gf_wire_say {
        /* to the keeper */
        GF_SAY_SIGNAL = 1, /* a: signal for the command */
        GF_SAY_CONTINUE,   /* SIGCONT to the command, and to its process group where it has its own */
        GF_SAY_END,        /* a: first signal, b: SIGKILL at once, n: grace; ends everything that is left */
        GF_SAY_ON_READY,   /* start what is to be started then */
        GF_SAY_UNCLAIM,    /* let go of the claims */
        /* from the keeper */
        GF_SAY_STARTED, /* a: PID */
        GF_SAY_NO_EXEC, /* a: errno */
        GF_SAY_STOPPED, /* a: signal, b: process group of the command */
        GF_SAY_EXITED,  /* a: status, b: signal or 0, n: are others of its own left? */
        GF_SAY_KILLING, /* a: how many are still there after the grace */
        GF_SAY_GONE,    /* a: how many were signalled, b: how many of them SIGKILL */
        GF_SAY_UNCLAIMED,
        GF_SAY_STUCK, /* a: how many survived SIGKILL */
};
struct gf_said {
        uint32_t what;
        int32_t a, b;
        uint64_t n;
};

int gf_say(int socket, enum gf_wire_say what, int a, int b, uint64_t n); /* -EPIPE: nobody there */
/* 1; 0: nothing is there now; -EPIPE: the other one is gone. Does not wait. */
int gf_hear(int socket, struct gf_said *ret_said);

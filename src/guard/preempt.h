/* SPDX-License-Identifier: MIT */
#pragma once

#include "guard/guard.h"

/*
 * --preempt: a guard asks another one, of the same user and with --park-on, to park its command. It asks over the
 * socket that is the claim, so nobody is taken for somebody else, and keeps the connection: when that closes, by
 * whatever death, the one who was asked takes its GPUs back.
 */
enum gf_preempt_answer {
        GF_PREEMPT_HEARD = 1, /* at once; the other answer follows when that is done */
        GF_PREEMPT_PARKED,
        GF_PREEMPT_NO, /* with the reason */
};
struct gf_preempt_said {
        uint32_t magic, what; /* what: of the answer */
        int32_t priority;     /* of who asks */
        char text[240];       /* a sentence, of the answer */
};
#define GF_PREEMPT_MAGIC 0x67667031U

struct gf_life;

/* The one who asks. 1: parked, *ret_fd is to be kept open until the GPU is given back; 0: no, *ret_why says why (NULL:
 * nobody has claimed it); -ECANCELED, -ENOMEM. `name`: of the claim. */
int gf_preempt_ask(struct gpufree_guard *guard, const char *name, const char *label, int *ret_fd, char **ret_why);

/* The one who is asked: preempt_answer.c. Somebody may be at one of the claims, or gone. Never waits for long. */
void gf_preempt_listen(struct gf_life *life);
/* Parking for the asker has come to its end. */
void gf_preempt_reply(struct gf_life *life, bool parked, const char *why);

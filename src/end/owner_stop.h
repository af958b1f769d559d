/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/env.h"
#include "owner/restart.h"

/*
 * --stop-owner: the owner's own command instead of a signal. It says nothing about the GPU: whether the memory came
 * back is verified afterwards like after any kill.
 */
enum gf_stop_outcome {
        GF_STOP_DONE,      /* the command ended with 0 */
        GF_STOP_FAILED,    /* it ended otherwise: status, output */
        GF_STOP_REFUSED,   /* not run: no command known, not to be trusted, not the right owner */
        GF_STOP_TIMED_OUT, /* ended by us after the deadline; the owner may still be at it */
        GF_STOP_CANCELLED,
};

struct gf_stopped {
        enum gf_stop_outcome outcome;
        int status;     /* of the command, when it ended; 128 + signal */
        char *command;  /* what was (or would have been) run, quoted for a shell; NULL: nothing known */
        char *output;   /* what it printed, raw: escape it before a terminal; NULL when not run */
        char *sentence; /* what happened, with the next step; never NULL */
        uint64_t elapsed_ms;
};
void gf_stopped_done(struct gf_stopped *stopped);

/*
 * Runs stop->argv: found in the fixed directories (never PATH), root's own file, no shell, until `timeout_ms`, or until
 * env->cancel_fd is readable. 0: see the outcome; -ENOMEM.
 */
int gf_owner_stop(struct gf_env *env, const struct gf_stop *stop, uint64_t timeout_ms, struct gf_stopped *ret_stopped);
/* The same with programs from `dirs` (NULL-terminated; NULL: the fixed ones). */
int gf_owner_stop_in(struct gf_env *env, const char *const *dirs, const struct gf_stop *stop, uint64_t timeout_ms,
                     struct gf_stopped *ret_stopped);

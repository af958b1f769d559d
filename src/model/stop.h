/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"

/* Would a plain kill of this process be undone, by whom, and what stops it so that it stays stopped? */
enum gf_again {
        GF_AGAIN_UNKNOWN, /* could not be found out: `why` tells */
        GF_AGAIN_NO,
        GF_AGAIN_ON_KILL, /* after SIGKILL, not after SIGTERM (systemd's on-failure and the like) */
        GF_AGAIN_YES,
};

struct gf_stop {
        enum gf_again again;
        char *owner;   /* what is stopped, as in a label: "docker:3f2a1b2c3d4e (vllm)", "vllm.service"; NULL: none */
        char *why;     /* a sentence: "Docker starts it again (restart policy always)" */
        gf_strv argv;  /* the command that stops it; none: no command is known */
        char *text;    /* the same for people, quoted for a shell; or what to do instead; NULL: nothing to say */
        char *warning; /* what else that does: "ends the whole login session 3 with everything in it"; NULL */
        char *refusal; /* why gpufree does not run it itself, though it may be right; NULL: it may */
        /* a question before: this command must print the number of this process, else argv is not run */
        gf_strv ask;
        pid_t ask_pid;
        bool plain; /* a signal does as well and ends less (a login session, a scope): not run unasked */
};
void gf_stop_done(struct gf_stop *stop);

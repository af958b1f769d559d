/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/env.h"
#include "model/holder.h"

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
};
void gf_stop_done(struct gf_stop *stop);

/* 0 also where there is no owner (argv and owner are empty then). `me`: the uid that would run the command. Needs the
 * holder's facts; of its owners, the names. */
int gf_stop_find(struct gf_env *env, uint32_t me, const struct gpufree_holder *holder, struct gf_stop *ret_stop);
/* Do both run the same command? Several holders of one container are one stop. */
bool gf_stop_same(const struct gf_stop *a, const struct gf_stop *b);

/* A command as one types it: words that need it in single quotes. NULL: no memory. */
char *gf_shell_quote(const gf_strv *argv);

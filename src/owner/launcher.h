/* SPDX-License-Identifier: MIT */
#pragma once

#include "owner/places.h"
#include "owner/procs.h"

#define GF_ANCESTORS_MAX 64

/*
 * The nearest ancestor that a person would recognise: what started this, and what may start it again. Recognised by
 * name, which can be faked: good for a label and for advice; a command is only ever run as the user the ancestor runs
 * as.
 */
enum gf_launcher_kind {
        GF_LAUNCHER_NONE,
        GF_LAUNCHER_LOGIN,      /* tmux, screen, ssh, console, cron, jupyter, …: starts nothing again */
        GF_LAUNCHER_SUPERVISOR, /* starts its child again */
        GF_LAUNCHER_SHELL,      /* a script that may be a loop; only when it is the parent itself */
};
struct gf_launcher {
        enum gf_launcher_kind kind;
        const char *name; /* static: "tmux", "ssh", "supervisord", "runit", … */
        struct gf_brief process;
        struct gf_ident child; /* its child on the way down to the holder (or the holder itself) */
        char *what; /* supervisors: the service ("web:worker", "/etc/service/vllm"); shells: the script; NULL */
        char *conf; /* supervisord: its configuration file, absolute; NULL unknown */
};
void gf_launcher_done(struct gf_launcher *launcher);
int gf_launcher_find(struct gf_env *env, const struct gpufree_holder *holder, struct gf_launcher *ret_launcher);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/str.h"

/* HOST[/KIND:NAME]...: where a command runs; each hop goes on from the one before it. */
enum fleet_hop_kind {
        FLEET_HOP_PCT,
        FLEET_HOP_LXC,
        FLEET_HOP_DOCKER,
        FLEET_HOP_PODMAN,
        FLEET_HOP_NSPAWN,
};

struct fleet_hop {
        enum fleet_hop_kind kind;
        char *name;
};

struct fleet_target {
        char *text; /* as it was written */
        char *host; /* for ssh: never begins with "-", nothing in it that a shell would read as more than a name */
        GF_VEC(struct fleet_hop) hops;
};

/* -EINVAL: *ret_error (malloc'ed) is one line. *ret_target is the caller's to end with fleet_target_done(). */
int fleet_target_parse(const char *text, struct fleet_target *ret_target, char **ret_error);
void fleet_target_done(struct fleet_target *target);

/*
 * One word for the shell of a remote login, whichever it is (sh, csh, fish): it reads as just these bytes. A word of
 * plain characters stays as it is.
 */
void fleet_quote(struct gf_str *out, const char *word);
/*
 * The line for the remote shell that runs argv behind the last hop. The programs of the hops take an argv and start no
 * shell, so that one level of quoting is all there is. malloc'ed.
 */
int fleet_target_line(const struct fleet_target *target, const gf_strv *argv, char **ret_line);

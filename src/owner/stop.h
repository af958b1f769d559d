/* SPDX-License-Identifier: MIT */
#pragma once

#include "owner/launcher.h"
#include "owner/places.h"

/* The parts of gf_stop_find(), for this room alone. */

/* What a search for the stop works with. `failed` (no memory) is looked at once, at the end. */
struct gf_search {
        struct gf_env *env;
        const struct gf_places *places;
        const struct gpufree_holder *holder;
        uint32_t me; /* who would run the command */
        struct gf_stop *stop;
        bool failed;
};

_printf_(3, 4) void gf_search_say(struct gf_search *s, char **dst, const char *format, ...);
void gf_search_word(struct gf_search *s, const char *text);
/* argv from words, "%" standing for `arg`. */
void gf_search_command(struct gf_search *s, const char *const *words, const char *arg);
#define GF_COMMAND(s, arg, ...) gf_search_command(s, (const char *const[]){ __VA_ARGS__, NULL }, arg)
/*
 * What follows runs as user `uid`: with that user's rights alone, so that a name which the user made up can do no harm
 * to others. false: we are neither that user nor root. `variable`: "NAME=value" for it, or NULL.
 */
bool gf_search_as(struct gf_search *s, uint32_t uid, const char *variable);
/* May this be given to a command as a name: nothing that reads as an option, nothing that cannot be a name. */
bool gf_plain_id(const char *id);

/* stop_runtime.c: containers, VMs, pods, jobs */
void gf_stop_by_row(struct gf_search *s, const struct gf_cgroup_owner *owner, const char *runtime);
/* Adds "-P PATH" for a container that LXC finds there alone. */
void gf_stop_lxc_path(struct gf_search *s, const char *id);
void gf_stop_pod(struct gf_search *s, const struct gf_cgroup_owner *owner);
void gf_stop_slurm(struct gf_search *s, const char *id, bool claimed);
/* stop_unit.c: systemd, supervisors, loops */
void gf_stop_unit(struct gf_search *s, const struct gf_cgroup_owner *owner);
void gf_stop_session(struct gf_search *s, const struct gf_cgroup_owner *owner);
void gf_stop_launcher(struct gf_search *s, const struct gf_launcher *l);

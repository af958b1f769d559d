/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "model/env.h"
#include "model/ident.h"

/* What is needed of a process that is no holder itself: an ancestor. */
struct gf_brief {
        struct gf_ident id;
        pid_t ppid;
        char comm[64];
        uint32_t uid; /* effective; UINT32_MAX not known */
};

/* -ESRCH: gone. */
int gf_brief_read(struct gf_env *env, pid_t pid, struct gf_brief *ret_brief);
/* Is this still the process it was? 0, -ESRCH. */
int gf_still_there(struct gf_env *env, const struct gf_ident *id);

/*
 * The ancestors of `child` (NULL: not known), whose parent is `ppid`; parent first, up to PID 1 or `max` of them; stops
 * where one has gone. Their uid is not read: gf_brief_uid().
 */
size_t gf_ancestors(struct gf_env *env, const struct gf_ident *child, pid_t ppid, struct gf_brief *ret_briefs,
                    size_t max);
/* Fills in brief->uid. -ESRCH: it is another process now. */
int gf_brief_uid(struct gf_env *env, struct gf_brief *brief);

/* Every line of /proc/PID/cgroup. */
int gf_cgroup_lines_read(struct gf_env *env, pid_t pid, gf_strv *ret_lines);
/* The command line as words; at most 64 KiB of it. */
int gf_words_read(struct gf_env *env, const struct gf_ident *id, gf_strv *ret_words);

/*
 * The values of a few variables of a process; those that are not there stay NULL. Nothing else of its environment is
 * kept: it may hold secrets. The process wrote it: a hint, never a reason to end somebody else. -EACCES, -ESRCH.
 */
int gf_environ_read(struct gf_env *env, const struct gf_ident *id, const char *const *keys, char **ret_values,
                    size_t n_keys);

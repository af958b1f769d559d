/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"
#include "model/holder.h"
#include "model/scan.h"

/*
 * Who keeps the wanted devices open, mapped, queued, registered: every thread of every process. Chooses the method by
 * env->scan_method. -ECANCELED, -ENOENT (no /proc), -ENOMEM, -EOPNOTSUPP (a method was demanded that does not work
 * here; the sentence is in env). What could not be looked at is in the answer, not an error.
 */
int gf_scan_run(struct gf_env *env, const struct gf_wanted *wanted, struct gf_scan *ret_scan);

/* The two scanners. gf_scan_bpf: -EOPNOTSUPP with the reason in *ret_reason (free()) where it cannot run. */
int gf_scan_proc(struct gf_env *env, const struct gf_wanted *wanted, struct gf_scan *ret_scan);
int gf_scan_bpf(struct gf_env *env, const struct gf_wanted *wanted, struct gf_scan *ret_scan, char **ret_reason);

/*
 * Does this process have a wanted device open that `counts`? The leader's descriptors alone, in the caller's own
 * thread: a fraction of what a scan takes, for who may be gone before one has begun. 1: yes; everything else, 0 and
 * -errno, says nothing: a scan tells.
 */
int gf_scan_glance(struct gf_env *env, const struct gf_wanted *wanted, const struct gf_ident *id,
                   bool (*counts)(const struct gf_hit *hit, void *userdata), void *userdata);

/* Reads what /proc says about a process. -ESRCH: it is gone, or the PID is another process now. */
int gf_facts_read(struct gf_env *env, const struct gf_ident *id, struct gf_facts *ret_facts);

/*
 * Is this PID namespace the machine's first? 1, 0, -errno. And what hides processes from us in general: adds a
 * sentence to `gaps` for a /proc mounted with hidepid that applies to us.
 */
int gf_initial_pidns(struct gf_env *env);
int gf_proc_gaps(struct gf_env *env, gf_strv *gaps);

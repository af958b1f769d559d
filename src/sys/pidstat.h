/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/env.h"
#include "model/ident.h"

/* The few fields of /proc/PID/stat that ending needs, read anew each time: what a snapshot says is old by then. */
struct gf_pidstat {
        char state;
        pid_t ppid, pgrp, session;
        uint64_t start_ticks;
};

/* -ESRCH: no such process; -EBADMSG: not the text of a stat file; -errno. */
int gf_pidstat_read(struct gf_env *env, pid_t pid, struct gf_pidstat *ret_stat);
/* The same of this very process: -ESRCH also when the PID is somebody else's now. */
int gf_pidstat_of(struct gf_env *env, const struct gf_ident *id, struct gf_pidstat *ret_stat);
/* A small text file of a process, "status", "wchan", "comm"; bounded to 16 KiB. free() it. */
int gf_pid_text(struct gf_env *env, pid_t pid, const char *file, char **ret_text);
/* Effective user (of a process that may be traced; of others root), and the file it runs. -ESRCH, -errno. */
int gf_pid_uid(struct gf_env *env, pid_t pid, uint32_t *ret_uid);
int gf_pid_exe(struct gf_env *env, pid_t pid, uint64_t *ret_dev, uint64_t *ret_ino);
/*
 * Calls `each` for every PID in /proc, in a small step at a time, so that who is forked while the walk is under way is
 * met by it. A non-zero return ends the walk and is handed on.
 */
int gf_pid_walk(struct gf_env *env, int (*each)(pid_t pid, void *userdata), void *userdata);
/* This very process? */
bool gf_pid_is_ours(pid_t pid);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "gpufree.h"

/*
 * Where to look and under what limits: the settings of a context, passed to every room that touches the kernel.
 * The roots let a test point a room at a made tree.
 */
struct gf_env {
        char *dev_root;  /* "/dev" */
        char *proc_root; /* "/proc" */
        char *sys_root;  /* "/sys" */
        bool dev_root_set;
        enum gpufree_scan_method scan_method;
        enum gpufree_scope scope;
        uint64_t driver_deadline_ms;
        int cancel_fd; /* readable: stop with -ECANCELED; -1 none */
        gf_strv paths; /* positional devices as given; none: every GPU device */
        char *error;   /* the last failure, a sentence; see gf_fail() */
        /*
         * What a scanner loaded, for its next look: loading takes longer than looking. Only with `keeps`; ended by
         * gf_env_done(), which need not know what it is.
         */
        bool keeps;
        void *kept;
        void (*kept_free)(void *kept);
};

void gf_env_init(struct gf_env *env); /* strings NULL: gf_env_defaults() fills them */
int gf_env_defaults(struct gf_env *env);
void gf_env_done(struct gf_env *env);

/* Notes the sentence of a failure ("open /proc/12/fd: Permission denied") and returns `error` (a negative errno). */
_printf_(3, 4) int gf_fail(struct gf_env *env, int error, const char *format, ...);

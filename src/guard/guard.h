/* SPDX-License-Identifier: MIT */
#pragma once

#include <regex.h>
#include <signal.h>
#include <termios.h>

#include "guard/lock.h"
#include "lib/context.h"
#include "model/holder.h"
#include "model/report.h"

enum gf_ready_kind {
        GF_READY_NONE,
        GF_READY_URL,
        GF_READY_TCP,
        GF_READY_LOG,
        GF_READY_FD,
};

struct gpufree_guard {
        struct gpufree *context;
        struct gpufree_guard_options options; /* texts are copies */
        enum gf_ready_kind ready_kind;
        regex_t *ready_regex;
        sigset_t mask; /* for the command */
        int signal_fd; /* -1 */
        gpufree_guard_handler handler;
        void *userdata;
        gf_locks locks;
        GF_VEC(int) preempted;               /* connections to those who parked for us */
        struct gpufree_selection *selection; /* the claimed GPUs, by UUID or PCI address; NULL: none were claimed */
        struct gpufree_snapshot *snapshot;   /* the look that the claim rests on */
        GF_VEC(size_t) gpus;                 /* the claimed ones: positions in it */
        char *label;                         /* "GPU 0-7" */
        struct gpufree_guard_result result;
        struct gpufree_report *report; /* of the last look at the claimed GPUs; NULL */
        gf_strv environment;           /* "CUDA_VISIBLE_DEVICES=GPU-…" */
};

/* A sentence for people, by way of the handler. */
_printf_(2, 3) void gf_guard_say(const struct gpufree_guard *guard, const char *format, ...);
_printf_(2, 3) void gf_guard_warn(const struct gpufree_guard *guard, const char *format, ...);
_printf_(2, 3) void gf_guard_progress(const struct gpufree_guard *guard, const char *format, ...);
/* "GPU 0-3, 5", "GPU 0000:18:00.0"; malloc'ed. */
char *gf_guard_label(const struct gpufree_snapshot *snapshot, const size_t *gpus, size_t n);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/holder.h"
#include "model/stop.h"

/* An owner and what stops it: one for all targets that the same command stops. */
struct gf_plan_stop {
        struct gf_stop stop;
        gf_strv others; /* "123 (comm)": holders that are no targets and would be ended with it */
};

/* One run of such a command. */
struct gf_stop_entry {
        char *owner, *command, *output, *sentence; /* output: raw, NULL when not run */
        int outcome;                               /* enum gpufree_stop_outcome */
        int status;                                /* of the command; -1: it did not end */
        uint64_t elapsed_ms;
};

/* One that was a target until it was parked. */
struct gf_kept {
        const struct gpufree_holder *holder;
        char *why; /* it is not parked, and is not ended all the same; NULL: it is parked */
};

/* What a kill would do. Targets and spared point into the snapshot, which the plan keeps alive. */
struct gpufree_plan {
        struct gpufree_snapshot *snapshot;
        GF_VEC(const struct gpufree_holder *) targets;
        GF_VEC(const struct gpufree_holder *) spared;
        GF_VEC(struct gf_kept) kept;
        char *refusal; /* why it is not carried out; NULL: it is */
        GF_VEC(struct gf_plan_stop) stops;
        GF_VEC(size_t) stop_of; /* of each target, its position in `stops`; empty: not looked for */
};

struct gf_fate_entry {
        struct gpufree_snapshot *snapshot; /* keeps `holder` alive; a reference */
        const struct gpufree_holder *holder;
        enum gpufree_fate fate;
        uint64_t elapsed_ms; /* from its first signal */
        int error;
        char *detail; /* a sentence or NULL */
};

struct gf_gpu_verdict {
        int gpu; /* position in the report's snapshot */
        uint64_t used_before, used_after, elapsed_ms;
        bool verified;
        char *sentence;
        /* Of a quiet time: what the driver last said of it. */
        bool busy_asked, busy_known;
        unsigned busy;  /* percent */
        char *busy_why; /* a sentence, where it was asked and is not known */
};

/* When a kill had come how far, in µs; GPUFREE_UNKNOWN: it had not. */
struct gf_timings {
        uint64_t planned;                               /* how long the look took that the plan was made from */
        uint64_t signalled, last_exit, quiet, verified; /* since the plan began to be carried out */
};

struct gpufree_report {
        enum gpufree_outcome outcome;
        gf_strv sentences;
        uint64_t elapsed_ms;
        struct gpufree_snapshot *snapshot; /* a reference */
        GF_VEC(struct gf_fate_entry) fates;
        GF_VEC(struct gf_gpu_verdict) gpus;
        GF_VEC(struct gf_stop_entry) stops;
        struct gf_timings timings;
};
int gf_report_new(struct gpufree_snapshot *snapshot, struct gpufree_report **ret_report);
void gf_report_set_snapshot(struct gpufree_report *report, struct gpufree_snapshot *snapshot);
GF_DEFINE_CLEANUP(gpufree_report *, gpufree_report_unref)
GF_DEFINE_CLEANUP(gpufree_plan *, gpufree_plan_unref)
#define _cleanup_report_ _cleanup_(gpufree_report_unrefp)
#define _cleanup_plan_ _cleanup_(gpufree_plan_unrefp)

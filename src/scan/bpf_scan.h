/* SPDX-License-Identifier: MIT */
#pragma once

#include <linux/types.h>

#include "../bpf/record.h"
#include "model/env.h"
#include "model/scan.h"

/* Between the files of the BPF scanner. */

typedef GF_VEC(struct gf_bpf_record) gf_bpf_records;

enum gf_bpf_variant {
        GF_BPF_VARIANT_FAST, /* the maple tree walked by hand: Linux 6.4 */
        GF_BPF_VARIANT_VMA,  /* the kernel's VMA iterator: Linux 5.17 */
};

struct gf_bpf; /* loaded programs */

/* Loads and fills the wanted numbers. -EPERM: not permitted; any other: this kernel does not take them. */
int gf_bpf_open(enum gf_bpf_variant variant, const struct gf_wanted *wanted, struct gf_bpf **ret_bpf);
/* Made ready for another look for the same numbers; false: it cannot be, load it anew. */
bool gf_bpf_reuse(struct gf_bpf *bpf, const struct gf_wanted *wanted);
struct gf_bpf *gf_bpf_free(struct gf_bpf *bpf);
GF_DEFINE_CLEANUP(struct gf_bpf *, gf_bpf_free)

/*
 * One pass. Adds to `records`. The first is over what `wanted` says; later ones over `pids` alone, each a subset of
 * the one before. -EOPNOTSUPP: this variant does not know the kernel's structures.
 */
int gf_bpf_pass(struct gf_bpf *bpf, int cancel_fd, const pid_t *pids, size_t n_pids, gf_bpf_records *records);
/* What the first pass met. */
void gf_bpf_counts(const struct gf_bpf *bpf, uint64_t *ret_processes, uint64_t *ret_threads);

/* Does BPF see here what /proc shows? 0; -EOPNOTSUPP with the reason (free()); -ENOMEM. */
int gf_bpf_check_place(struct gf_env *env, char **ret_reason);

/* Descriptors (O_PATH) of at most GF_BPF_WATCH_MAX devices whose open files the passes to come shall count. */
void gf_bpf_watch_set(struct gf_bpf *bpf, const int *fds, size_t n);
/* How often the i-th was open all through the last pass. false: the kernel has no count to compare with. */
bool gf_bpf_watch_get(const struct gf_bpf *bpf, size_t i, uint32_t *ret_opens);

/*
 * After the first pass over everything: are there open files of a wanted device that no process has? Looks again before
 * it says so, adding to `records`. What is missed is in scan->missed. 0, -errno.
 */
struct gf_bpf_watch;
int gf_bpf_watch_open(const struct gf_wanted *wanted, struct gf_bpf *bpf, struct gf_bpf_watch **ret_watch);
int gf_bpf_watch_judge(struct gf_bpf_watch *watch, struct gf_bpf *bpf, int cancel_fd, gf_bpf_records *records,
                       struct gf_scan *scan);
struct gf_bpf_watch *gf_bpf_watch_free(struct gf_bpf_watch *watch);
GF_DEFINE_CLEANUP(struct gf_bpf_watch *, gf_bpf_watch_free)

/* For sorted PIDs. */
int gf_bpf_pid_compare(const void *a, const void *b);

/* Sorts by process, thread, kind, place, and drops what was seen twice. */
void gf_bpf_sort(gf_bpf_records *records);
/* Orders two records by everything that says that they are the same thing. */
int gf_bpf_compare(const struct gf_bpf_record *a, const struct gf_bpf_record *b);

/* The look at /proc that a record needs before it counts; shared by the records of one scan. */
struct gf_bpf_confirm {
        int proc_fd;
        int64_t boot_offset_ns; /* of our time namespace */
        uint64_t ticks_per_s;
};
int gf_bpf_confirm_init(struct gf_bpf_confirm *confirm, struct gf_env *env);
void gf_bpf_confirm_done(struct gf_bpf_confirm *confirm);

enum gf_bpf_verdict {
        GF_BPF_GONE,   /* the process ended, or let go of everything */
        GF_BPF_HELD,   /* hits were added */
        GF_BPF_UNSURE, /* it lives and keeps changing: look at it in /proc */
};
/* Judges records of one process that two passes agreed on; adds hits. A verdict, or -ENOMEM. */
int gf_bpf_confirm_process(struct gf_bpf_confirm *confirm, const struct gf_bpf_record *records, size_t n,
                           struct gf_scan *scan);

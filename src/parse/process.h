/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* /proc/PID/stat. The name stands there as it is: it may hold blanks, brackets and newlines. */
struct gf_stat {
        pid_t pid;
        char comm[64]; /* kernel threads' names are longer than 15 */
        char state;
        pid_t ppid, pgrp, session;
        int tty;
        uint32_t flags;
        uint64_t threads;
        uint64_t start_ticks;
};
#define GF_STAT_MAX 2048 /* longer than any stat: a name of 64 and 52 numbers */
#define GF_STAT_KTHREAD 0x00200000U
static inline bool gf_stat_kernel_thread(const struct gf_stat *stat)
{
        return stat->flags & GF_STAT_KTHREAD;
}
/* Ended, and no other thread of it lives: holds nothing any more. */
static inline bool gf_stat_dead(const struct gf_stat *stat)
{
        return (stat->state == 'Z' || stat->state == 'X') && stat->threads <= 1;
}
int gf_parse_stat(const char *text, size_t length, struct gf_stat *ret); /* -EINVAL */

/* /proc/PID/status, as far as it is used. A line that is not there leaves its field at "unknown". */
struct gf_status {
        uint32_t ruid, euid;     /* UINT32_MAX unknown */
        pid_t tgid, ppid;        /* 0 unknown */
        pid_t nspid;             /* the PID in its own, innermost namespace; 0 unknown */
        size_t nspid_levels;     /* how many namespaces it is visible in, ours included; 0 unknown */
        uint64_t threads;        /* 0 unknown */
        uint64_t sig_pending;    /* of the thread; bit N-1 is signal N */
        uint64_t shared_pending; /* of the process */
        uint64_t sig_blocked, sig_ignored;
        uint64_t cap_effective;
};
void gf_parse_status(const char *text, size_t length, struct gf_status *ret);

/* A line of /proc/PID/cgroup, "4:cpu,memory:/a:b": only the first two colons count. The parts point into it. */
struct gf_cgroup_line {
        uint64_t id;
        const char *controllers, *path;
        size_t n_controllers, n_path;
};
int gf_parse_cgroup_line(const char *line, size_t length, struct gf_cgroup_line *ret); /* -EINVAL */

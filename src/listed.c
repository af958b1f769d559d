/* SPDX-License-Identifier: MIT */
/* What the driver lists, held against what the scan showed: who came late, who is just ending, who is dead. */
#include "listed.h"

#include <stdio.h>
#include <string.h>

#include "gpu/nvml.h"
#include "parse/process.h"
#include "scan/scan.h"
#include "scan/wanted.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidwait.h"
#include "sys/procfs.h"

/* How often the driver is asked again because a PID that it lists had just ended, or had just come. */
#define REPORT_ROUNDS 3
/* How long a listed process may take to end once its descriptors are gone from view: freeing 120 GiB took 0.2 s. */
#define EXIT_MS 3000
#define STAT_EXITING 0x00000004U /* PF_EXITING */

static bool has_hit(const struct gf_scan *scan, pid_t pid)
{
        for (size_t i = 0; i < scan->hits.n; i++)
                if (scan->hits.v[i].id.pid == pid)
                        return true;
        return false;
}

static bool is_refused(const struct gf_scan *scan, pid_t pid)
{
        for (size_t i = 0; i < scan->refused.n; i++)
                if (scan->refused.v[i].pid == pid)
                        return true;
        return false;
}

static bool is_opaque(const struct gf_scan *scan, pid_t pid)
{
        for (size_t i = 0; i < scan->opaque.n; i++)
                if (scan->opaque.v[i] == pid)
                        return true;
        return false;
}

/* Takes over what a second, smaller scan found. */
static int add_hits(struct gf_scan *scan, struct gf_scan *more)
{
        for (size_t i = 0; i < more->hits.n; i++) {
                struct gf_hit *hit = gf_vec_add(&scan->hits);

                if (!hit)
                        return -ENOMEM;
                *hit = more->hits.v[i];
        }
        for (size_t i = 0; i < more->refused.n; i++) {
                struct gf_refused *refused = gf_vec_add(&scan->refused);

                if (!refused)
                        return -ENOMEM;
                *refused = more->refused.v[i];
        }
        for (size_t i = 0; i < more->opaque.n; i++) {
                pid_t *pid = gf_vec_add(&scan->opaque);

                if (!pid)
                        return -ENOMEM;
                *pid = more->opaque.v[i];
        }
        scan->opaque_queues += more->opaque_queues;
        return 0;
}

/* A process that began to hold a GPU while the scan ran is listed by the driver and in no hit: look at it alone. */
static int scan_latecomers(struct gpufree *context, struct gpufree_snapshot *snapshot, const gf_pidv *pids)
{
        _cleanup_(gf_wanted_set_done) struct gf_wanted_set wanted = { 0 };
        _cleanup_(gf_scan_done) struct gf_scan more = { 0 };
        int r;

        if (pids->n == 0)
                return 0;
        r = gf_wanted_make(&snapshot->inventory, context->env.paths.n > 0, &wanted);
        if (r < 0)
                return r;
        wanted.wanted.only = pids->v;
        wanted.wanted.n_only = pids->n;
        /* Only BPF sees into queues: what it looked into before is not to be called unseen now. */
        r = snapshot->scan.method == GPUFREE_SCAN_BPF ? gf_scan_run(&context->env, &wanted.wanted, &more)
                                                      : gf_scan_proc(&context->env, &wanted.wanted, &more);
        if (r < 0)
                return r;
        r = add_hits(&snapshot->scan, &more);
        if (r < 0)
                return r;
        gf_scan_sort(&snapshot->scan);
        return 0;
}

static int compare_pids(const void *a, const void *b)
{
        pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

        return (x > y) - (x < y);
}

/* What a PID is that the driver lists and that the scan did not show. */
enum listed {
        LISTED_ENDED,  /* it does not run: dead, or its list entry is about to go */
        LISTED_ENDING, /* it was still letting go after a generous time */
        LISTED_LATE,   /* it runs: it came to the GPU after the scan had passed it, or it is somebody else */
};

/*
 * A process that is ending has no descriptors to be seen any more while the driver still frees its memory. It is
 * waited for: taken for dead, it would make heirs of its neighbours.
 */
static int judge_listed(struct gf_env *env, pid_t pid)
{
        _cleanup_close_ int procfd = -1, pidfd = -1;
        char path[32], text[GF_STAT_MAX];
        struct gf_stat stat;
        ssize_t n;
        int r;

        procfd = gf_open_proc(env);
        if (procfd < 0)
                return procfd;
        (void)snprintf(path, sizeof(path), "%d/stat", pid);
        n = gf_read_head(procfd, path, text, sizeof(text));
        if (n == -ENOENT || n == -ESRCH)
                return LISTED_ENDED;
        if (n < 0 || gf_parse_stat(text, (size_t)n, &stat) < 0)
                return LISTED_LATE;
        pidfd = gf_pidfd_pin(env, &(struct gf_ident){ .pid = pid, .start_ticks = stat.start_ticks });
        if (pidfd == -ESRCH)
                return LISTED_ENDED;
        if (pidfd < 0)
                return LISTED_LATE;
        if (gf_pidfd_ended(pidfd) == 1)
                return LISTED_ENDED;
        if (!(stat.flags & STAT_EXITING))
                return LISTED_LATE;
        r = gf_pidfds_wait(&pidfd, 1, gf_deadline_in(EXIT_MS), env->cancel_fd);
        if (r < 0)
                return r;
        return r == 1 ? LISTED_ENDED : LISTED_ENDING;
}

static int add_pid(gf_pidv *pids, pid_t pid)
{
        pid_t *slot;

        for (size_t i = 0; i < pids->n; i++)
                if (pids->v[i] == pid)
                        return 0;
        slot = gf_vec_add(pids);
        if (!slot)
                return -ENOMEM;
        *slot = pid;
        return 0;
}

/* It lives, and what it has open cannot be seen: that is what "refused" means. */
static int refuse_ending(struct gf_scan *scan, pid_t pid)
{
        struct gf_refused *refused = gf_vec_add(&scan->refused);

        if (!refused)
                return -ENOMEM;
        *refused = (struct gf_refused){
                .pid = pid, .uid = UINT32_MAX, .why = GF_REFUSED_IO, .error = EBUSY, .what = "it does not finish to end"
        };
        return 0;
}

/* Which listed PIDs did the scan not show? Those that run go to `late`; were there any that do not run? */
static int sort_listed(struct gpufree *context, struct gpufree_snapshot *snapshot, gf_pidv *late, bool *ret_ended)
{
        bool ended = false;

        for (size_t i = 0; i < snapshot->driver.gpus.n; i++)
                for (size_t k = 0; k < snapshot->driver.gpus.v[i].processes.n; k++) {
                        pid_t pid = snapshot->driver.gpus.v[i].processes.v[k].pid;
                        int r;

                        if (has_hit(&snapshot->scan, pid) || is_refused(&snapshot->scan, pid) ||
                            is_opaque(&snapshot->scan, pid))
                                continue;
                        r = judge_listed(&context->env, pid);
                        if (r == LISTED_ENDED) {
                                ended = true;
                                continue;
                        }
                        if (r == LISTED_ENDING)
                                r = refuse_ending(&snapshot->scan, pid);
                        else if (r == LISTED_LATE)
                                r = add_pid(late, pid);
                        if (r < 0)
                                return r;
                }
        if (late->n > 1)
                qsort(late->v, late->n, sizeof(*late->v), compare_pids);
        *ret_ended = ended;
        return 0;
}

/*
 * The driver's lists are asked for after the scan. A PID that is listed and does not run either ended a moment ago, or
 * something keeps its memory. Only a PID that did not run *before* the driver was asked is really dead: so the driver
 * is asked again when there is one, and a process that just ended never makes heirs of its neighbours.
 */
int gf_ask_driver(struct gpufree *context, struct gpufree_snapshot *snapshot)
{
        for (int round = 0; round < REPORT_ROUNDS; round++) {
                _cleanup_(gf_pidv_done) gf_pidv late = { 0 };
                bool ended;
                int r;

                gf_driver_report_done(&snapshot->driver);
                r = gf_nvml_ask(context->nvml, GF_NVML_ALL);
                if (r < 0 && r != -EPIPE)
                        return r;
                r = gf_nvml_answer(context->nvml, &snapshot->driver);
                if (r < 0)
                        return r;
                r = sort_listed(context, snapshot, &late, &ended);
                if (r < 0)
                        return r;
                r = scan_latecomers(context, snapshot, &late);
                if (r < 0)
                        return r;
                if (!ended || round > 0)
                        break;
        }
        return 0;
}

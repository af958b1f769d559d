/* SPDX-License-Identifier: MIT */
/*
 * The stages, in order:
 *
 *     devices → scan (who holds them) → attribute (GPU memory, owner) → select (filters, protection)
 *
 * and, over them, plan → end → verify → report (lib/act.c).
 */
#include "pipeline.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "gpu/attribute.h"
#include "gpu/inventory.h"
#include "gpu/vendor.h"
#include "owner/owner.h"
#include "gaps.h"
#include "scan/merge.h"
#include "scan/scan.h"
#include "scan/wanted.h"
#include "parse/process.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidwait.h"
#include "sys/procfs.h"

/* How often the driver is asked again because a PID that it lists had just ended, or had just come. */
#define REPORT_ROUNDS 3
/* How long a listed process may take to end once its descriptors are gone from view: freeing 120 GiB took 0.2 s. */
#define EXIT_MS 3000
/* How often a look is taken again because holders slipped away while it was taken. */
#define MOST_LOOKS 4
#define STAT_EXITING 0x00000004U /* PF_EXITING */

/* 1. The driver's child starts to initialise while everything else goes on. */
static int start_driver(struct gpufree *context)
{
        if (context->nvml)
                return 0;
        return gf_nvml_start(&context->env, &context->nvml);
}

/* Without a device and without a GPU there is nothing to be held: no process needs to be looked at. */
static bool worth_a_scan(const struct gf_env *env, const struct gf_inventory *inventory)
{
        return inventory->devices.n > 0 || inventory->gpus.n > 0 || env->paths.n > 0 ||
               env->scan_method != GPUFREE_SCAN_AUTO;
}

static int no_scan(struct gpufree_snapshot *snapshot)
{
        snapshot->scan.method = GPUFREE_SCAN_AUTO;
        snapshot->scan.method_reason = gf_asprintf("there is no GPU and no device of one: nothing to look for");
        return snapshot->scan.method_reason ? 0 : -ENOMEM;
}

/* 2. and 3. Devices, and who holds them. */
static int scan_devices(struct gpufree *context, struct gpufree_snapshot *snapshot)
{
        _cleanup_(gf_wanted_set_done) struct gf_wanted_set wanted = { 0 };
        struct gf_ident child = gf_nvml_child(context->nvml);
        int r;

        if (!worth_a_scan(&context->env, &snapshot->inventory))
                return no_scan(snapshot);
        r = gf_wanted_make(&snapshot->inventory, context->env.paths.n > 0, &wanted);
        if (r < 0)
                return r;
        gf_wanted_skip(&wanted, getpid());
        if (child.pid > 0)
                gf_wanted_skip(&wanted, child.pid);
        return gf_scan_run(&context->env, &wanted.wanted, &snapshot->scan);
}

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

static bool pid_runs(const struct gf_env *env, pid_t pid)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%d", env->proc_root, pid);

        return path && access(path, F_OK) == 0;
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
static int ask_driver(struct gpufree *context, struct gpufree_snapshot *snapshot)
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

/* A node that was not there when the scan began: nobody looked for its number. */
static bool has_new_device(const struct gf_inventory *before, const struct gf_inventory *after)
{
        for (size_t i = 0; i < after->devices.n; i++)
                if (!gf_inventory_find(before, after->devices.v[i].rdev, after->devices.v[i].block))
                        return true;
        return false;
}

/*
 * The inventory again, now with what the driver said. When that brings a device that nobody looked for, it is looked
 * for now, and the driver is asked once more: its word must be younger than the scan.
 */
static int place_devices(struct gpufree *context, struct gpufree_snapshot *snapshot)
{
        for (int round = 0;; round++) {
                _cleanup_(gf_strv_done) gf_strv gaps = { 0 };
                struct gf_inventory placed = { 0 };
                bool again;
                int r;

                r = gf_inventory_read(&context->env, &snapshot->driver, &gaps, &placed);
                for (size_t i = 0; r == 0 && i < gaps.n; i++) /* the first reading has said some of it */
                        if (!gf_strv_has(&snapshot->gaps, gaps.v[i]))
                                r = gf_strv_add(&snapshot->gaps, gaps.v[i]);
                if (r < 0) {
                        gf_inventory_done(&placed);
                        return r;
                }
                again = has_new_device(&snapshot->inventory, &placed) ||
                        worth_a_scan(&context->env, &placed) != worth_a_scan(&context->env, &snapshot->inventory);
                gf_inventory_done(&snapshot->inventory);
                snapshot->inventory = placed;
                if (!again || round > 0)
                        return 0;
                gf_scan_done(&snapshot->scan);
                snapshot->scan = (struct gf_scan){ 0 };
                r = scan_devices(context, snapshot);
                if (r >= 0)
                        r = ask_driver(context, snapshot);
                if (r < 0)
                        return r;
        }
}

/* 5. What /proc and the runtimes say about each holder. One that has ended since is dropped. */
static int describe_holders(struct gpufree *context, struct gpufree_snapshot *snapshot)
{
        size_t kept = 0;

        for (size_t i = 0; i < snapshot->holders.n; i++) {
                struct gpufree_holder *holder = &snapshot->holders.v[i];
                int r = gf_facts_read(&context->env, &holder->id, &holder->facts);

                if (r == -ESRCH) {
                        gf_holder_done(holder);
                        snapshot->slipped++;
                        continue;
                }
                if (r >= 0)
                        r = gf_owner_read(&context->env, holder);
                if (kept != i)
                        snapshot->holders.v[kept] = *holder;
                kept++;
                if (r < 0) {
                        /* The rest is still owned by the vector: close the gap that dropping left. */
                        for (size_t k = i + 1; k < snapshot->holders.n; k++)
                                snapshot->holders.v[kept++] = snapshot->holders.v[k];
                        snapshot->holders.n = kept;
                        return r;
                }
        }
        snapshot->holders.n = kept;
        return 0;
}

static int look_stages(struct gpufree *context, const struct gpufree_selection *selection,
                       struct gpufree_snapshot *snapshot)
{
        _cleanup_(gf_self_done) struct gf_self self = { 0 };
        _cleanup_(gf_vendor_uses_done) gf_vendor_uses vendor_uses = { 0 };
        struct gf_env *env = &context->env;
        int r;

        r = start_driver(context);
        if (r < 0)
                return gf_fail(env, r, "starting the driver's child: %s", strerror(-r));
        /* Attribution and selection ask for it. */
        r = gf_initial_pidns(env);
        if (r == -ENOMEM)
                return r;
        snapshot->initial_pidns = r == 1;
        r = gf_inventory_read(env, NULL, &snapshot->gaps, &snapshot->inventory);
        if (r < 0)
                return r;
        r = scan_devices(context, snapshot);
        if (r < 0)
                return r;
        r = ask_driver(context, snapshot);
        if (r < 0)
                return r;
        r = place_devices(context, snapshot);
        if (r < 0)
                return r;
        r = gf_merge_hits(snapshot);
        if (r >= 0)
                r = gf_vendor_read(env, snapshot, &vendor_uses);
        if (r >= 0)
                r = gf_vendor_add_holders(env, snapshot, &vendor_uses);
        if (r < 0)
                return r;
        snapshot->boot_ticks = gf_boottime_ticks();
        snapshot->slipped = snapshot->scan.slipped;
        r = describe_holders(context, snapshot);
        if (r < 0)
                return r;
        r = gf_attribute(snapshot);
        if (r >= 0)
                r = gf_vendor_apply(snapshot, &vendor_uses);
        if (r < 0)
                return r;
        r = gf_self_read(env, &self);
        if (r < 0)
                return r;
        self.rules = &context->rules;
        r = gf_select_gpus(env, selection, snapshot);
        /* A driver that does not answer does not say which index a GPU has either: that is no mistake of the user's. */
        if (r == -ENODEV && !gf_driver_answered(snapshot))
                return gf_fail(env, -ENODATA,
                               "which GPU is meant cannot be told, the driver's library gave no answer (%s); name the "
                               "device (/dev/nvidia0) or processes (--pid)",
                               snapshot->driver.error[0] ? snapshot->driver.error : "libnvidia-ml.so.1 was not found");
        if (r < 0)
                return r;
        r = gf_select_holders(selection, &self, snapshot);
        if (r < 0)
                return r;
        snapshot->blind = !gf_driver_answered(snapshot) && env->paths.n == 0 && !gf_selection_is_by_hand(selection);
        return gf_gaps_find(env, selection, snapshot);
}

static int look_once(struct gpufree *context, const struct gpufree_selection *selection,
                     struct gpufree_snapshot **ret_snapshot)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = calloc(1, sizeof(*snapshot));
        uint64_t begin = gf_now_us();
        int r;

        if (!snapshot)
                return gf_fail(&context->env, -ENOMEM, "out of memory");
        snapshot->refs = 1;
        r = look_stages(context, selection, snapshot);
        if (r == -ENOMEM)
                return gf_fail(&context->env, r, "out of memory");
        if (r == -ECANCELED)
                return gf_fail(&context->env, r, "interrupted");
        if (r < 0)
                return r;
        snapshot->elapsed_us = gf_now_us() - begin;
        *ret_snapshot = TAKE(snapshot);
        return 0;
}

/*
 * Who was seen to hold and ended before it was described may have handed on what it held, to a fork that no look has
 * seen: such a look proves nothing. It is taken again; where that goes on, it is said.
 */
int gf_look(struct gpufree *context, const struct gpufree_selection *selection, struct gpufree_snapshot **ret_snapshot)
{
        for (unsigned looks = 1;; looks++) {
                _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
                int r = look_once(context, selection, &snapshot);

                if (r < 0 || !snapshot)
                        return r;
                if (snapshot->slipped > 0 && looks < MOST_LOOKS)
                        continue;
                if (snapshot->slipped > 0)
                        r = gf_strv_addf(&snapshot->gaps,
                                         "in each of %d looks in a row, processes that held a device ended before they "
                                         "could be described: something forks faster than it can be looked at (gpufree "
                                         "kill --force outruns most of that)",
                                         MOST_LOOKS);
                if (r < 0)
                        return gf_fail(&context->env, r, "out of memory");
                *ret_snapshot = TAKE(snapshot);
                return 0;
        }
}

static int eye_look(void *userdata, struct gpufree_snapshot **ret_snapshot)
{
        struct gf_sight *sight = userdata;

        return gf_look(sight->context, sight->selection, ret_snapshot);
}

/*
 * A confirmation can take minutes. Who has let go of the GPU that it was shown for, and has another one by now, is not
 * what the plan showed. NVIDIA's contexts do not outlive the GPU's own node; elsewhere any device will do.
 */
static bool is_what_was_shown(const struct gpufree_snapshot *first, const struct gpufree_holder *holder,
                              const struct gf_hit *hit)
{
        bool has_node = false;

        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gf_device_use *use = &holder->devices.v[i];
                const struct gpufree_device *device;

                if (use->device < 0 || (size_t)use->device >= first->inventory.devices.n)
                        continue;
                device = &first->inventory.devices.v[use->device];
                if (device->cls != GF_CLASS_NVIDIA_GPU || device->gpu < 0 ||
                    !first->inventory.gpus.v[device->gpu].selected)
                        continue;
                if (hit->rdev == device->rdev && hit->block == device->block)
                        return true;
                has_node = true;
        }
        return !has_node;
}

static bool shows(const struct gf_scan *scan, const struct gpufree_snapshot *first, const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < scan->hits.n; i++)
                if (gf_ident_equal(&scan->hits.v[i].id, &holder->id) &&
                    is_what_was_shown(first, holder, &scan->hits.v[i]))
                        return true;
        return false;
}

/*
 * /proc answers at once for one process. What it does not show may still wait in a socket, or be hidden from it: what
 * was found by BPF has let go only when BPF says so.
 */
static int eye_still_holds(void *userdata, const struct gpufree_holder *holder)
{
        _cleanup_(gf_wanted_set_done) struct gf_wanted_set wanted = { 0 };
        _cleanup_(gf_scan_done) struct gf_scan near = { 0 }, deep = { 0 };
        struct gf_sight *sight = userdata;
        struct gf_env *env = &sight->context->env;
        const struct gf_scan *last = &near;
        int r;

        if (!sight->first)
                return 1;
        r = gf_wanted_make(&sight->first->inventory, env->paths.n > 0, &wanted);
        if (r < 0)
                return r;
        wanted.wanted.only = &holder->id.pid;
        wanted.wanted.n_only = 1;
        r = gf_scan_proc(env, &wanted.wanted, &near);
        if (r < 0)
                return r;
        if (shows(&near, sight->first, holder))
                return 1;
        if (sight->first->scan.method == GPUFREE_SCAN_BPF && pid_runs(env, holder->id.pid)) {
                r = gf_scan_run(env, &wanted.wanted, &deep);
                if (r < 0)
                        return r;
                if (shows(&deep, sight->first, holder))
                        return 1;
                last = &deep;
        }
        if (last->refused.n > 0)
                return -last->refused.v[0].error;
        /* A queue that nobody can see into: it was not seen to let go. */
        if (last->opaque.n > 0)
                return 1;
        if (!pid_runs(env, holder->id.pid))
                return -ESRCH;
        return gf_vendor_still_lists(env, holder) ? 1 : 0;
}

static int eye_memory(void *userdata, struct gf_driver_report *ret_report)
{
        struct gf_sight *sight = userdata;
        int r;

        r = gf_nvml_ask(sight->context->nvml, GF_NVML_MEMORY);
        if (r < 0 && r != -EPIPE)
                return r;
        return gf_nvml_answer(sight->context->nvml, ret_report);
}

struct gf_eyes gf_eyes_of(struct gf_sight *sight)
{
        return (struct gf_eyes){
                .look = eye_look,
                .still_holds = eye_still_holds,
                .memory = eye_memory,
                .userdata = sight,
                .on_event = sight->context->on_event,
                .event_userdata = sight->context->event_userdata,
        };
}

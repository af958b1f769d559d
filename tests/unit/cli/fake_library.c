/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for libgpufree behind the real command line. It plays scenes (GPUFREE_FAKE), ends calls as told
 * (GPUFREE_FAKE_END), and writes down what it was asked (GPUFREE_FAKE_LOG). It looks at no process and signals none.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "fake_scenes.h"
#include "gpufree.h"

/* A test program without memory may as well end. */
#define ADD(vec, value)                                                                                                \
        do {                                                                                                           \
                __typeof__((vec)->v) _slot = gf_vec_add(vec);                                                          \
                if (!_slot)                                                                                            \
                        abort();                                                                                       \
                *_slot = (value);                                                                                      \
        } while (0)

struct gpufree {
        char *error, *dev_root;
        int cancel_fd;
        gpufree_event_handler handler;
        void *userdata;
        size_t paths;
};

struct gpufree_selection {
        GF_VEC(pid_t) pids;
        uint64_t gpus; /* bits; 0: all */
        bool missing_gpu, any_open, included, filtered;
};

struct gpufree_plan {
        gpufree_snapshot *snapshot;
        GF_VEC(const gpufree_holder *) targets, spared;
};

struct gpufree_report {
        enum gpufree_outcome outcome;
        gpufree_snapshot *snapshot;
        gf_strv sentences;
        bool killed;
        enum gpufree_fate fate;
        GF_VEC(const gpufree_holder *) targets;
        uint64_t before[FAKE_GPUS], after[FAKE_GPUS];
};

_printf_(1, 2) static void note(const char *format, ...)
{
        const char *path = getenv("GPUFREE_FAKE_LOG");
        _cleanup_close_ int fd = -1;
        va_list ap;

        if (!path)
                return;
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0)
                return;
        va_start(ap, format);
        (void)vdprintf(fd, format, ap);
        va_end(ap);
}

static bool ends_as(const char *how)
{
        return gf_streq(getenv("GPUFREE_FAKE_END"), how);
}

_printf_(3, 4) static int fail(gpufree *context, int error, const char *format, ...)
{
        va_list ap;

        free(context->error);
        va_start(ap, format);
        context->error = gf_vasprintf(format, ap);
        va_end(ap);
        return error;
}

static bool cancelled(const gpufree *context, int timeout_ms)
{
        struct pollfd p = { .fd = context->cancel_fd, .events = POLLIN };
        int r;

        do
                r = poll(&p, 1, timeout_ms);
        while (r < 0 && errno == EINTR);
        return r == 1;
}

int gpufree_new(gpufree **ret_context)
{
        *ret_context = calloc(1, sizeof(**ret_context));
        if (!*ret_context)
                return -ENOMEM;
        (*ret_context)->cancel_fd = -1;
        return 0;
}

gpufree *gpufree_unref(gpufree *context)
{
        if (context) {
                free(context->error);
                free(context->dev_root);
        }
        free(context);
        return NULL;
}

const char *gpufree_error(const gpufree *context)
{
        return context->error ? context->error : "no failure";
}

int gpufree_set_dev_root(gpufree *context, const char *directory)
{
        struct stat st;

        note("dev-root %s\n", directory);
        if (stat(directory, &st) < 0)
                return fail(context, -ENOENT, "%s: %s", directory, strerror(errno));
        return S_ISDIR(st.st_mode) ? 0 : fail(context, -ENOTDIR, "%s is no directory", directory);
}

int gpufree_set_scan_method(gpufree *context, enum gpufree_scan_method method)
{
        (void)context;
        note("scan %d\n", (int)method);
        return 0;
}

int gpufree_load_config(gpufree *context, const char *path)
{
        (void)context;
        if (path)
                note("config %s\n", path);
        return 0;
}

int gpufree_set_driver_deadline(gpufree *context, uint64_t milliseconds)
{
        (void)context;
        (void)milliseconds;
        return 0;
}

int gpufree_set_scope(gpufree *context, enum gpufree_scope scope)
{
        (void)context;
        note("scope %d\n", (int)scope);
        return 0;
}

int gpufree_set_cancel_fd(gpufree *context, int fd)
{
        context->cancel_fd = fd;
        return 0;
}

int gpufree_add_device(gpufree *context, const char *path)
{
        struct stat st;

        note("device %s\n", path);
        if (stat(path, &st) < 0)
                return fail(context, -ENOENT, "%s: No such file or directory", path);
        if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
                return fail(context, -ENOTBLK, "%s is no device", path);
        context->paths++;
        return 0;
}

void gpufree_set_event_handler(gpufree *context, gpufree_event_handler handler, void *userdata)
{
        context->handler = handler;
        context->userdata = userdata;
}

int gpufree_selection_new(gpufree_selection **ret_selection)
{
        *ret_selection = calloc(1, sizeof(**ret_selection));
        return *ret_selection ? 0 : -ENOMEM;
}

gpufree_selection *gpufree_selection_unref(gpufree_selection *selection)
{
        if (selection)
                gf_vec_done(&selection->pids);
        free(selection);
        return NULL;
}

static int add_numbers(gpufree_selection *selection, enum gpufree_criterion criterion, const char *value)
{
        _cleanup_free_ char *copy = strdup(value);
        char *save = NULL;

        for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
                uint32_t n;

                if (strcmp(word, "all") == 0)
                        continue;
                if (gf_parse_u32(word, &n) < 0)
                        return -EINVAL;
                if (criterion == GPUFREE_BY_GPU && n >= FAKE_GPUS)
                        selection->missing_gpu = true;
                else if (criterion == GPUFREE_BY_GPU)
                        selection->gpus |= 1ULL << n;
                else
                        ADD(&selection->pids, (pid_t)n);
        }
        return 0;
}

int gpufree_selection_add(gpufree_selection *selection, enum gpufree_criterion criterion, const char *value,
                          char **ret_error)
{
        note("criterion %d %s\n", (int)criterion, value ? value : "-");
        if (criterion == GPUFREE_ANY_OPEN) {
                selection->any_open = true;
        } else if (criterion == GPUFREE_INCLUDE) {
                selection->included = true;
        } else if (criterion == GPUFREE_BY_GPU || criterion == GPUFREE_BY_PID) {
                if (add_numbers(selection, criterion, value) < 0) {
                        *ret_error = gf_asprintf("\"%s\" is no list of numbers (like 0,2)", value);
                        return -EINVAL;
                }
        } else {
                selection->filtered = true;
        }
        return 0;
}

static bool is_selected(const gpufree_selection *selection, const gpufree_holder *holder)
{
        bool on_gpu = selection->gpus == 0, named = selection->pids.n == 0;

        for (size_t i = 0; i < selection->pids.n; i++)
                named |= selection->pids.v[i] == holder->pid;
        for (size_t i = 0; i < holder->n_gpus; i++)
                on_gpu |= (selection->gpus >> holder->gpus[i].gpu & 1) != 0;
        if (holder->open_only && !selection->any_open && selection->pids.n == 0)
                return false;
        return on_gpu && named && !selection->filtered;
}

int gpufree_look(gpufree *context, const gpufree_selection *selection, gpufree_snapshot **ret_snapshot)
{
        const char *scene = getenv("GPUFREE_FAKE");
        gpufree_snapshot *snapshot;

        note("look\n");
        if (ends_as("look-hangs") && cancelled(context, 60000))
                return fail(context, -ECANCELED, "cancelled");
        if (ends_as("look-fails"))
                return fail(context, -ENOENT, "open /proc: No such file or directory");
        if (selection->missing_gpu)
                return fail(context, -ENODEV, "no GPU 99 here: there are GPU 0 to 7");
        snapshot = fake_scene(scene ? scene : "story");
        if (!snapshot)
                return fail(context, -EINVAL, "no such scene");
        for (size_t i = 0; i < snapshot->n_gpus; i++)
                snapshot->gpus[i].selected = selection->gpus == 0 || (selection->gpus >> i & 1) != 0;
        for (size_t i = 0; i < snapshot->n_holders; i++) {
                snapshot->holders[i].selected = is_selected(selection, &snapshot->holders[i]);
                if (selection->included && !snapshot->holders[i].absolute)
                        snapshot->holders[i].protected_why = NULL;
        }
        *ret_snapshot = snapshot;
        return 0;
}

/* ---- plan, kill, wait, check ---- */

int gpufree_plan_new(gpufree *context, gpufree_snapshot *snapshot, gpufree_plan **ret_plan)
{
        gpufree_plan *plan = calloc(1, sizeof(*plan));

        (void)context;
        if (!plan)
                return -ENOMEM;
        plan->snapshot = gpufree_snapshot_ref(snapshot);
        for (size_t i = 0; i < snapshot->n_holders; i++) {
                const gpufree_holder *holder = &snapshot->holders[i];

                if (!holder->selected)
                        continue;
                if (holder->protected_why)
                        ADD(&plan->spared, holder);
                else
                        ADD(&plan->targets, holder);
        }
        *ret_plan = plan;
        return 0;
}

gpufree_plan *gpufree_plan_unref(gpufree_plan *plan)
{
        if (plan) {
                gpufree_snapshot_unref(plan->snapshot);
                gf_vec_done(&plan->targets);
                gf_vec_done(&plan->spared);
        }
        free(plan);
        return NULL;
}

size_t gpufree_plan_target_count(const gpufree_plan *plan)
{
        return plan->targets.n;
}

const gpufree_holder *gpufree_plan_target(const gpufree_plan *plan, size_t position)
{
        return plan->targets.v[position];
}

const char *gpufree_plan_refusal(const gpufree_plan *plan)
{
        (void)plan;
        return NULL;
}

size_t gpufree_plan_spared_count(const gpufree_plan *plan)
{
        return plan->spared.n;
}

const gpufree_holder *gpufree_plan_spared(const gpufree_plan *plan, size_t position)
{
        return plan->spared.v[position];
}

uint64_t gpufree_plan_memory(const gpufree_plan *plan, size_t gpu)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < plan->targets.n; i++)
                for (size_t k = 0; k < plan->targets.v[i]->n_gpus; k++)
                        if (plan->targets.v[i]->gpus[k].gpu == (int)gpu) {
                                if (plan->targets.v[i]->gpus[k].memory == GPUFREE_UNKNOWN)
                                        return GPUFREE_UNKNOWN;
                                sum += plan->targets.v[i]->gpus[k].memory;
                        }
        return sum;
}

static void tell(gpufree *context, const gpufree_holder *holder, enum gpufree_event_type type, int signo, uint64_t ms)
{
        struct gpufree_event event = { .type = type, .signal = signo, .elapsed_ms = ms, .count = 1, .holder = holder };

        if (!context->handler)
                return;
        event.pid = holder ? holder->pid : 0;
        event.error = type == GPUFREE_EVENT_REFUSED ? -EPERM : 0;
        context->handler(context->userdata, &event);
}

static void play(gpufree *context, const gpufree_plan *plan, const struct gpufree_ladder *ladder)
{
        for (size_t i = 0; i < plan->targets.n; i++)
                tell(context, plan->targets.v[i], ends_as("refused") ? GPUFREE_EVENT_REFUSED : GPUFREE_EVENT_SIGNALLED,
                     ladder->force ? SIGKILL : ladder->signal, 0);
        tell(context, NULL, GPUFREE_EVENT_WAITING, 0, 100);
        for (size_t i = 0; i < plan->targets.n && !ends_as("refused"); i++) {
                if (ends_as("killed") || ends_as("survived"))
                        tell(context, plan->targets.v[i], GPUFREE_EVENT_SIGNALLED, SIGKILL, ladder->grace_ms);
                tell(context, plan->targets.v[i], ends_as("survived") ? GPUFREE_EVENT_SURVIVED : GPUFREE_EVENT_GONE, 0,
                     ends_as("killed") ? ladder->grace_ms + 200 : 200);
        }
        tell(context, NULL, GPUFREE_EVENT_RESCAN, 0, 300);
}

static gpufree_report *report_new(gpufree_snapshot *snapshot)
{
        gpufree_report *report = calloc(1, sizeof(*report));

        if (!report)
                abort();
        report->snapshot = gpufree_snapshot_ref(snapshot);
        for (size_t i = 0; i < snapshot->n_gpus; i++)
                report->before[i] = report->after[i] = snapshot->gpus[i].used;
        return report;
}

int gpufree_kill(gpufree *context, const gpufree_selection *selection, const gpufree_plan *plan,
                 const struct gpufree_ladder *ladder, gpufree_report **ret_report)
{
        static const struct {
                const char *how;
                enum gpufree_outcome outcome;
                enum gpufree_fate fate;
                const char *sentence;
        } ends[] = {
                { "killed", GPUFREE_OK, GPUFREE_FATE_KILLED, NULL },
                { "survived", GPUFREE_HELD, GPUFREE_FATE_SURVIVED, "1 holder is still there: state D." },
                { "refused", GPUFREE_REFUSED, GPUFREE_FATE_REFUSED, "Not permitted; run as root." },
                { "residue", GPUFREE_RESIDUE, GPUFREE_FATE_KILLED, "Ended, but the memory did not come back." },
                { "timeout", GPUFREE_TIMEOUT, GPUFREE_FATE_SURVIVED, "Not gone within the timeout." },
                { "incomplete", GPUFREE_INCOMPLETE, GPUFREE_FATE_ENDED_BY_SIGNAL, "Not everything could be seen." },
                { "interrupted", GPUFREE_HELD, GPUFREE_FATE_ENDED_BY_SIGNAL, "Cancelled." },
        };
        gpufree_report *report;
        bool gone;

        (void)selection;
        note("kill signal %d force %d grace %llu timeout %llu settle %llu targets %zu\n", ladder->signal,
             (int)ladder->force, (unsigned long long)ladder->grace_ms, (unsigned long long)ladder->timeout_ms,
             (unsigned long long)ladder->settle_ms, plan->targets.n);
        if (ends_as("kill-hangs") && cancelled(context, 60000))
                return fail(context, -ECANCELED, "cancelled");
        report = report_new(plan->snapshot);
        report->killed = true;
        play(context, plan, ladder);
        for (size_t i = 0; i < ELEMENTSOF(ends); i++)
                if (ends_as(ends[i].how)) {
                        report->outcome = ends[i].outcome;
                        report->fate = ends[i].fate;
                        if (ends[i].sentence)
                                (void)gf_strv_add(&report->sentences, ends[i].sentence);
                }
        if (ends_as("interrupted")) { /* the first one ended, then the signal */
                (void)cancelled(context, 60000);
                ADD(&report->targets, plan->targets.v[0]);
        }
        for (size_t i = 0; i < plan->targets.n && !ends_as("interrupted"); i++)
                ADD(&report->targets, plan->targets.v[i]);
        gone = report->outcome == GPUFREE_OK;
        for (size_t i = 0; gone && i < plan->snapshot->n_gpus; i++) {
                report->after[i] -= gpufree_plan_memory(plan, i);
                plan->snapshot->gpus[i].used = report->after[i];
                plan->snapshot->gpus[i].holders = report->after[i] > 0;
        }
        *ret_report = report;
        return 0;
}

static void judge(gpufree_report *report)
{
        const gpufree_snapshot *snapshot = report->snapshot;
        size_t held = 0;
        bool residue = false;

        for (size_t i = 0; i < snapshot->n_holders; i++)
                held += snapshot->holders[i].selected && !snapshot->holders[i].open_only;
        for (size_t i = 0; i < snapshot->n_gpus; i++)
                residue |= snapshot->gpus[i].used > (32ULL << 20) && snapshot->gpus[i].holders == 0;
        report->outcome = held > 0            ? GPUFREE_HELD
                          : residue           ? GPUFREE_RESIDUE
                          : snapshot->gaps[0] ? GPUFREE_INCOMPLETE
                                              : GPUFREE_OK;
        if (held > 0)
                (void)gf_strv_addf(&report->sentences, "Held by %zu processes: gpufree list shows them.", held);
        else if (residue)
                (void)gf_strv_add(&report->sentences, "GPU 3 keeps memory and no holder was found.");
}

int gpufree_wait(gpufree *context, const gpufree_selection *selection, uint64_t timeout_ms, uint64_t settle_ms,
                 gpufree_report **ret_report)
{
        _cleanup_(gpufree_snapshot_unrefp) gpufree_snapshot *snapshot = NULL;
        int r = gpufree_look(context, selection, &snapshot);

        if (r < 0)
                return r;
        note("wait timeout %llu settle %llu\n", (unsigned long long)timeout_ms, (unsigned long long)settle_ms);
        tell(context, NULL, GPUFREE_EVENT_WAITING, 0, 1200);
        if (ends_as("wait-hangs") && cancelled(context, 60000))
                return fail(context, -ECANCELED, "cancelled");
        *ret_report = report_new(snapshot);
        judge(*ret_report);
        if ((*ret_report)->outcome == GPUFREE_HELD)
                (*ret_report)->outcome = GPUFREE_TIMEOUT;
        return 0;
}

int gpufree_check(gpufree *context, gpufree_snapshot *snapshot, gpufree_report **ret_report)
{
        (void)context;
        *ret_report = report_new(snapshot);
        judge(*ret_report);
        return 0;
}

gpufree_report *gpufree_report_unref(gpufree_report *report)
{
        if (report) {
                gpufree_snapshot_unref(report->snapshot);
                gf_strv_done(&report->sentences);
                gf_vec_done(&report->targets);
        }
        free(report);
        return NULL;
}

enum gpufree_outcome gpufree_report_outcome(const gpufree_report *report)
{
        return report->outcome;
}

const char *gpufree_report_sentence(const gpufree_report *report, size_t index)
{
        return index < report->sentences.n ? report->sentences.v[index] : NULL;
}

int gpufree_report_timings(const gpufree_report *report, uint64_t *ret_planned_us, uint64_t *ret_signalled_us,
                           uint64_t *ret_last_exit_us, uint64_t *ret_quiet_us, uint64_t *ret_verified_us)
{
        (void)report;
        *ret_planned_us = 21000;
        *ret_signalled_us = 1500;
        *ret_last_exit_us = 181500;
        *ret_quiet_us = 195250;
        *ret_verified_us = report->fate == GPUFREE_FATE_SURVIVED ? GPUFREE_UNKNOWN : 196000;
        return 0;
}

uint64_t gpufree_report_elapsed_ms(const gpufree_report *report)
{
        (void)report;
        return 312;
}

const gpufree_snapshot *gpufree_report_snapshot(const gpufree_report *report)
{
        return report->snapshot;
}

const char *gpufree_fate_name(enum gpufree_fate fate)
{
        static const char *const names[] = { "ended",   "killed",   "already-gone", "let-go",
                                             "refused", "survived", "not-in-plan" };

        return names[fate];
}

size_t gpufree_report_fate_count(const gpufree_report *report)
{
        return report->targets.n;
}

int gpufree_report_fate(const gpufree_report *report, size_t position, const gpufree_holder **ret_holder,
                        enum gpufree_fate *ret_fate, uint64_t *ret_elapsed_ms, const char **ret_detail)
{
        *ret_holder = report->targets.v[position];
        *ret_fate = report->fate;
        *ret_elapsed_ms = 200;
        *ret_detail = report->fate == GPUFREE_FATE_SURVIVED ? "waits in the kernel (nv_wait)" : NULL;
        return 0;
}

size_t gpufree_report_gpu_count(const gpufree_report *report)
{
        size_t n = 0;

        for (size_t i = 0; i < report->snapshot->n_gpus; i++)
                n += report->snapshot->gpus[i].selected;
        return n;
}

/* The position-th selected one. */
static size_t judged_gpu(const gpufree_report *report, size_t position)
{
        for (size_t i = 0; i < report->snapshot->n_gpus; i++)
                if (report->snapshot->gpus[i].selected && position-- == 0)
                        return i;
        abort();
}

int gpufree_report_gpu(const gpufree_report *report, size_t position, const gpufree_gpu **ret_gpu,
                       uint64_t *ret_used_before, uint64_t *ret_used_after, uint64_t *ret_elapsed_ms,
                       bool *ret_verified, const char **ret_sentence)
{
        size_t at = judged_gpu(report, position);
        const gpufree_gpu *gpu = &report->snapshot->gpus[at];

        *ret_gpu = gpu;
        *ret_used_before = report->before[at];
        *ret_used_after = report->after[at];
        *ret_elapsed_ms = 180;
        *ret_verified = gpu->holders == 0 && gpu->used <= (32ULL << 20) && !report->snapshot->gaps[0];
        *ret_sentence = *ret_verified ? "0 B held, no holder found (every process looked at)." : NULL;
        return 0;
}

const char *gpufree_outcome_name(enum gpufree_outcome outcome)
{
        static const char *const names[] = { "ok", "held", "usage", "incomplete", "refused", "residue", "timeout" };

        return (size_t)outcome < ELEMENTSOF(names) ? names[outcome] : NULL;
}

const char *gpufree_restart_name(enum gpufree_restart restart)
{
        return restart == GPUFREE_RESTART_YES ? "yes" : "unknown";
}

/* GPUFREE_FAKE_OWNER: every target has one owner, whose name it is. */
int gpufree_plan_owner(const gpufree_plan *plan, size_t position, enum gpufree_restart *ret_restart,
                       const char **ret_owner, const char **ret_why, const char **ret_command, const char **ret_advice,
                       const char **ret_warning, const char **ret_refusal, int *ret_stop, bool *ret_run)
{
        const char *name = getenv("GPUFREE_FAKE_OWNER");

        if (position >= plan->targets.n)
                return -ERANGE;
        *ret_restart = name ? GPUFREE_RESTART_YES : GPUFREE_RESTART_UNKNOWN;
        *ret_owner = *ret_why = *ret_command = *ret_warning = name;
        *ret_advice = *ret_refusal = NULL;
        *ret_stop = name ? 0 : -1;
        *ret_run = name != NULL;
        return 0;
}

const char *gpufree_stop_outcome_name(enum gpufree_stop_outcome outcome)
{
        return outcome == GPUFREE_STOP_FAILED ? "failed" : "done";
}

size_t gpufree_report_stop_count(const gpufree_report *report)
{
        return report->killed && getenv("GPUFREE_FAKE_OWNER") ? 1 : 0;
}

int gpufree_report_stop(const gpufree_report *report, size_t position, const char **ret_owner, const char **ret_command,
                        enum gpufree_stop_outcome *ret_outcome, int *ret_status, const char **ret_output,
                        const char **ret_sentence, uint64_t *ret_elapsed_ms)
{
        if (position >= gpufree_report_stop_count(report))
                return -ERANGE;
        *ret_owner = *ret_command = *ret_output = *ret_sentence = getenv("GPUFREE_FAKE_OWNER");
        *ret_outcome = GPUFREE_STOP_FAILED;
        *ret_status = 3;
        *ret_elapsed_ms = 7;
        return 0;
}

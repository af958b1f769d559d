/* SPDX-License-Identifier: MIT */
/* What a benchmark needs before it starts: so much memory, and nobody for a while. */
#include "verify/calm.h"

#include <errno.h>
#include <inttypes.h>

#include "base/num.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidwait.h"
#include "verify/verdict.h"

#define FIRST_PAUSE_MS 100
#define LAST_PAUSE_MS 2000
/* The driver's figure is of its last sampling period, a sixth of a second to a second: none falls between two of these.
 */
#define QUIET_PAUSE_MS 250

struct calm {
        struct gf_env *env;
        const struct gf_eyes *eyes;
        const struct gpufree_calm *asked;
        uint64_t started, deadline, settle_ms;
        struct gpufree_report *report;
};

/* What is free for somebody new; GPUFREE_UNKNOWN. */
static uint64_t free_on(const struct gpufree_gpu *gpu, uint64_t used)
{
        uint64_t reserved = gpu->memory.reserved == GPUFREE_UNKNOWN ? 0 : gpu->memory.reserved;

        if (gpu->memory.total == GPUFREE_UNKNOWN || used == GPUFREE_UNKNOWN)
                return GPUFREE_UNKNOWN;
        return gpu->memory.total > reserved + used ? gpu->memory.total - reserved - used : 0;
}

/* Each judged GPU against the memory asked for. 1: enough on all; 0: not; -ENOMEM. */
static int judge_memory(struct calm *c)
{
        char have[GF_TEXT_MAX], want[GF_TEXT_MAX];
        bool enough = c->report->gpus.n > 0, unknown = false;

        for (size_t i = 0; i < c->report->gpus.n; i++) {
                struct gf_gpu_verdict *verdict = &c->report->gpus.v[i];
                const struct gpufree_gpu *gpu = &c->report->snapshot->inventory.gpus.v[verdict->gpu];
                uint64_t room = free_on(gpu, verdict->used_after);

                free(verdict->sentence);
                verdict->verified = room != GPUFREE_UNKNOWN && room >= c->asked->free_memory;
                (void)gf_format_size(c->asked->free_memory, want);
                verdict->sentence =
                        room == GPUFREE_UNKNOWN
                                ? gf_asprintf("how much of its memory is free is not known; %s were asked for.", want)
                                : gf_asprintf("%s of its memory free, %s asked for.", gf_format_size(room, have), want);
                if (!verdict->sentence)
                        return -ENOMEM;
                enough = enough && verdict->verified;
                unknown = unknown || room == GPUFREE_UNKNOWN;
        }
        gf_strv_done(&c->report->sentences);
        c->report->outcome = enough ? GPUFREE_OK : unknown ? GPUFREE_INCOMPLETE : GPUFREE_HELD;
        return enough;
}

static int look(struct calm *c)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;
        int r = c->eyes->look(c->eyes->userdata, &snapshot);

        if (r == 0)
                r = gf_report_new(snapshot, &report);
        if (r == 0)
                r = gf_judge(snapshot, report);
        if (r < 0)
                return r;
        gpufree_report_unref(c->report);
        c->report = TAKE(report);
        return 0;
}

typedef bool condition(const struct calm *c, const struct gf_gpu_verdict *verdict, uint64_t used);

/* What the driver says of this GPU's work. What it does not say is neither busy nor quiet: it is said to be unknown. */
static int note_busy(const struct gpufree_gpu *gpu, const struct gf_driver_report *driver,
                     struct gf_gpu_verdict *verdict)
{
        const struct gf_driver_gpu *said = gf_driver_gpu_of(driver, gpu);
        const char *why = said && said->error[0] ? said->error
                          : driver->error[0]     ? driver->error
                                                 : "the driver says nothing about its utilisation";

        verdict->busy_asked = true;
        verdict->busy_known = said && said->busy_known;
        verdict->busy = verdict->busy_known ? said->busy : 0;
        free(verdict->busy_why);
        verdict->busy_why = verdict->busy_known ? NULL : strdup(why);
        return verdict->busy_known || verdict->busy_why ? 0 : -ENOMEM;
}

/*
 * The figures alone, cheaply. 1: `holds` for every judged GPU; 0: not for one of them, or it is not known. With
 * `ret_busy` the driver is asked how busy they are, too: is one of them?
 */
static int measure(struct calm *c, condition *holds, bool *ret_busy)
{
        struct gf_driver_report driver = { 0 };
        int r = (ret_busy ? c->eyes->activity : c->eyes->memory)(c->eyes->userdata, &driver);
        bool all = true, busy = false;

        for (size_t i = 0; r >= 0 && i < c->report->gpus.n; i++) {
                struct gf_gpu_verdict *verdict = &c->report->gpus.v[i];
                const struct gpufree_gpu *gpu = &c->report->snapshot->inventory.gpus.v[verdict->gpu];

                all = all && holds(c, verdict, gf_used_in(gpu, &driver));
                if (ret_busy)
                        r = note_busy(gpu, &driver, verdict);
                busy = busy || (verdict->busy_known && verdict->busy > 0);
        }
        gf_driver_report_done(&driver);
        if (r < 0)
                return r;
        if (ret_busy)
                *ret_busy = busy;
        return all;
}

static bool has_room(const struct calm *c, const struct gf_gpu_verdict *verdict, uint64_t used)
{
        uint64_t room = free_on(&c->report->snapshot->inventory.gpus.v[verdict->gpu], used);

        return room != GPUFREE_UNKNOWN && room >= c->asked->free_memory;
}

static bool is_idle(const struct calm *c, const struct gf_gpu_verdict *verdict, uint64_t used)
{
        uint64_t idle = gf_idle_figure(c->report->snapshot, (size_t)verdict->gpu);

        /* Where there are no figures there are none to move; the looks before and after must do. */
        return used == GPUFREE_UNKNOWN || (idle != GPUFREE_UNKNOWN && used <= idle);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

/* Somebody's memory must come back: the end of a process is an event, less memory is none. */
static int wait_for_change(struct calm *c, uint64_t *pause)
{
        const struct gpufree_snapshot *snapshot = c->report->snapshot;
        size_t room = gf_descriptor_room(), n = 0;
        _cleanup_free_ int *fds = calloc(snapshot->holders.n + 1, sizeof(*fds));
        int r = 0;

        if (!fds)
                return -ENOMEM;
        for (size_t i = 0; i < snapshot->holders.n && n < room; i++) {
                int fd = gf_pidfd_pin(c->env, &snapshot->holders.v[i].id);

                if (fd >= 0)
                        fds[n++] = fd;
        }
        while (r == 0 && gf_deadline_left(c->deadline) > 0) {
                r = gf_pidfds_wait(fds, n, sooner(gf_deadline_in(*pause), c->deadline), c->env->cancel_fd);
                *pause = sooner(*pause * 2, LAST_PAUSE_MS);
                if (r == 0)
                        r = measure(c, has_room, NULL);
        }
        for (size_t i = 0; i < n; i++)
                gf_close(fds[i]);
        return r;
}

/* Until every GPU has so much room. 0 with the report; see its outcome. */
static int wait_for_room(struct calm *c)
{
        uint64_t pause = FIRST_PAUSE_MS;

        for (;;) {
                int r = look(c);

                if (r == 0)
                        r = judge_memory(c);
                if (r != 0 || c->report->outcome == GPUFREE_INCOMPLETE)
                        return r < 0 ? r : 0;
                if (c->report->gpus.n == 0)
                        return 0;
                if (gf_deadline_left(c->deadline) == 0) {
                        if (c->deadline > c->started)
                                c->report->outcome = GPUFREE_TIMEOUT;
                        return 0;
                }
                r = wait_for_change(c, &pause);
                if (r < 0)
                        return r;
        }
}

static int wait_for_free(struct calm *c)
{
        struct gpufree_report *report = NULL;
        uint64_t left = c->deadline == GPUFREE_UNKNOWN ? GPUFREE_UNKNOWN : gf_deadline_left(c->deadline);
        int r = gf_wait_free(c->env, c->eyes, left, c->settle_ms, &report);

        if (r < 0)
                return r;
        gpufree_report_unref(c->report);
        c->report = report;
        return 0;
}

/*
 * 1: it stayed so for the quiet time; 0: it did not; -ETIMEDOUT: the time is over before that. Who computes makes the
 * quiet time begin anew, without a whole look: it is asked ever more rarely, for work is no event.
 */
static int stay(struct calm *c, condition *holds)
{
        uint64_t end = gf_deadline_in(c->asked->quiet_ms), pause = QUIET_PAUSE_MS;

        while (gf_deadline_left(end) > 0) {
                bool busy = false;
                int r;

                if (gf_deadline_left(c->deadline) == 0)
                        return -ETIMEDOUT;
                r = gf_pidfds_wait(NULL, 0, sooner(sooner(gf_deadline_in(pause), end), c->deadline), c->env->cancel_fd);
                if (r == 0)
                        r = measure(c, holds, &busy);
                if (r <= 0)
                        return r;
                pause = busy ? sooner(pause * 2, LAST_PAUSE_MS) : QUIET_PAUSE_MS;
                if (busy)
                        end = gf_deadline_in(c->asked->quiet_ms);
        }
        return 1;
}

/* Figures show who uses memory; who came without is seen by a look. 1: it is quiet; 0: no longer. */
static int confirm(struct calm *c, condition *holds, bool room)
{
        bool busy = false;
        int r = look(c);

        if (r == 0 && room)
                r = judge_memory(c);
        if (r >= 0 && c->report->outcome == GPUFREE_OK) {
                r = measure(c, holds, &busy);
                return r > 0 ? !busy : r;
        }
        return r < 0 ? r : 0;
}

/* "GPU 0, GPU 3": the judged of which `test` is true. -ENOMEM. */
static int labels_of(const struct calm *c, bool (*test)(const struct gf_gpu_verdict *verdict), char **ret)
{
        struct gf_str text = { 0 };
        bool any = false;

        *ret = NULL;
        for (size_t i = 0; i < c->report->gpus.n; i++) {
                const struct gf_gpu_verdict *verdict = &c->report->gpus.v[i];

                if (!test(verdict))
                        continue;
                gf_str_add(&text, any ? ", " : "");
                gf_gpu_label(&c->report->snapshot->inventory.gpus.v[verdict->gpu], &text);
                any = true;
        }
        if (any)
                return gf_str_take(&text, ret);
        gf_str_done(&text);
        return 0;
}

static bool is_busy(const struct gf_gpu_verdict *verdict)
{
        return verdict->busy_known && verdict->busy > 0;
}

static bool is_unsaid(const struct gf_gpu_verdict *verdict)
{
        return verdict->busy_asked && !verdict->busy_known;
}

static int say_quiet(struct calm *c)
{
        _cleanup_free_ char *unsaid = NULL;
        char buf[GF_TEXT_MAX];
        int r = labels_of(c, is_unsaid, &unsaid);

        if (r < 0)
                return r;
        (void)gf_format_duration(c->asked->quiet_ms, buf);
        if (!unsaid)
                return gf_strv_addf(&c->report->sentences, "Quiet for %s: nothing computed.", buf);
        return gf_strv_addf(&c->report->sentences,
                            "Quiet for %s by holders and memory; whether %s computed cannot be read.", buf, unsaid);
}

static int say_late(struct calm *c)
{
        _cleanup_free_ char *busy = NULL;
        char buf[GF_TEXT_MAX];
        int r = labels_of(c, is_busy, &busy);

        c->report->outcome = GPUFREE_TIMEOUT;
        if (r < 0)
                return r;
        return gf_strv_addf(&c->report->sentences, "It did not stay so for %s: the time given is over%s%s%s.",
                            gf_format_duration(c->asked->quiet_ms, buf), busy ? ", and " : "", busy ? busy : "",
                            busy ? " was computing" : "");
}

static int run(struct calm *c)
{
        bool room = c->asked->free_memory != GPUFREE_UNKNOWN;
        condition *holds = room ? has_room : is_idle;

        for (;;) {
                int r = room ? wait_for_room(c) : wait_for_free(c);

                if (r < 0 || c->report->outcome != GPUFREE_OK || c->asked->quiet_ms == 0 || c->report->gpus.n == 0)
                        return r;
                r = stay(c, holds);
                if (r > 0)
                        r = confirm(c, holds, room);
                if (r == -ETIMEDOUT)
                        return say_late(c);
                if (r < 0)
                        return r;
                if (r > 0)
                        return say_quiet(c);
        }
}

int gf_wait_calm(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_calm *calm, uint64_t timeout_ms,
                 uint64_t settle_ms, struct gpufree_report **ret_report)
{
        struct calm c = { .env = env,
                          .eyes = eyes,
                          .asked = calm,
                          .started = gf_now_ms(),
                          .deadline = gf_deadline_in(timeout_ms),
                          .settle_ms = settle_ms };
        int r;

        if (timeout_ms == 0 && calm->quiet_ms > 0)
                return gf_fail(env, -EINVAL, "a quiet time cannot be over at once: wait for it");
        r = run(&c);
        if (r < 0) {
                gpufree_report_unref(c.report);
                return r;
        }
        c.report->elapsed_ms = gf_now_ms() - c.started;
        *ret_report = c.report;
        return 0;
}

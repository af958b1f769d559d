/* SPDX-License-Identifier: MIT */
/* Which GPUs: free ones, close together, that no other guard has. */
#include <errno.h>
#include <string.h>

#include "end/end.h"
#include "guard/choose.h"
#include "guard/guard.h"
#include "guard/near.h"
#include "guard/preempt.h"
#include "guard/visible.h"
#include "pipeline.h"
#include "select/criteria.h"
#include "sys/clock.h"
#include "sys/pidwait.h"
#include "verify/verdict.h"

/* One guard at a time chooses, so that two never take half each of what both need. It takes some microseconds. */
#define CHOOSING "gpufree-claim:choosing"
#define CHOOSING_MS 10000
#define ROUNDS 4

struct claiming {
        struct gpufree_guard *guard;
        const struct gpufree_selection *selection;
        struct gpufree_snapshot *snapshot;
        gf_gpu_set asked;
        char **why;    /* one for each of the asked: why it can't be had; NULL: it can */
        bool *claimed; /* by another guard */
        bool cleaned, preempted;
};

static void reasons_done(struct claiming *c)
{
        for (size_t i = 0; c->why && i < c->asked.n; i++)
                free(c->why[i]);
        free(c->why);
        free(c->claimed);
        c->why = NULL;
        c->claimed = NULL;
        gf_vec_done(&c->asked);
}

static void claiming_done(struct claiming *c)
{
        reasons_done(c);
        gpufree_snapshot_unref(c->snapshot);
}

static int look(struct claiming *c)
{
        int r;

        reasons_done(c);
        c->snapshot = gpufree_snapshot_unref(c->snapshot);
        r = gf_look(c->guard->context, c->selection, &c->snapshot);
        if (r == 0)
                r = gf_choose_asked(c->snapshot, &c->asked);
        if (r < 0)
                return r;
        c->why = calloc(c->asked.n + 1, sizeof(*c->why));
        c->claimed = calloc(c->asked.n + 1, sizeof(*c->claimed));
        if (!c->why || !c->claimed)
                return -ENOMEM;
        for (size_t i = 0; i < c->asked.n; i++) {
                r = gf_choose_is_free(c->snapshot, c->asked.v[i], &c->why[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

static size_t place_of(const struct claiming *c, size_t gpu)
{
        size_t i = 0;

        while (i < c->asked.n && c->asked.v[i] != gpu)
                i++;
        return i;
}

/* 0; -EBUSY: another guard has it, which is noted. */
static int lock_gpu(struct claiming *c, size_t gpu)
{
        struct gf_env *env = &c->guard->context->env;
        _cleanup_free_ char *name = gf_lock_name(env, &c->snapshot->inventory.gpus.v[gpu]);
        size_t at = place_of(c, gpu);
        pid_t pid;
        int r;

        if (!name)
                return -ENOMEM;
        r = gf_lock_take(env, c->guard->options.claim_dir, name, &c->guard->locks, &pid);
        if (r != -EBUSY || at >= c->asked.n)
                return r;
        free(c->why[at]);
        c->why[at] = pid > 0 ? gf_asprintf("claimed by another guard, process %d.", (int)pid)
                             : gf_asprintf("claimed by another guard.");
        c->claimed[at] = true;
        return c->why[at] ? r : -ENOMEM;
}

static void unlock_gpu(struct claiming *c, size_t gpu)
{
        _cleanup_free_ char *name = gf_lock_name(&c->guard->context->env, &c->snapshot->inventory.gpus.v[gpu]);

        if (name)
                gf_lock_drop(&c->guard->locks, name);
}

/* Named devices that belong to no GPU are claimed by their number. */
static int lock_devices(struct claiming *c)
{
        struct gf_env *env = &c->guard->context->env;

        for (size_t i = 0; i < c->snapshot->inventory.devices.n; i++) {
                const struct gpufree_device *device = &c->snapshot->inventory.devices.v[i];
                _cleanup_free_ char *name = NULL;
                pid_t pid;
                int r;

                if (!device->asked || device->gpu >= 0)
                        continue;
                for (size_t h = 0; h < c->snapshot->holders.n; h++)
                        for (size_t d = 0; d < c->snapshot->holders.v[h].devices.n; d++)
                                if (c->snapshot->holders.v[h].devices.v[d].device == (int)i) {
                                        gf_guard_warn(c->guard, "%s is not free: %d has it open", device->path,
                                                      (int)c->snapshot->holders.v[h].id.pid);
                                        return -EBUSY;
                                }
                name = gf_lock_device_name(env, device);
                if (!name)
                        return -ENOMEM;
                r = gf_lock_take(env, c->guard->options.claim_dir, name, &c->guard->locks, &pid);
                if (r == -EBUSY)
                        gf_guard_warn(c->guard, "%s is not free: claimed by another guard, process %d", device->path,
                                      (int)pid);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int usable(const struct claiming *c, gf_gpu_set *set)
{
        set->n = 0;
        for (size_t i = 0; i < c->asked.n; i++) {
                size_t *slot;

                if (c->why[i])
                        continue;
                slot = gf_vec_add(set);
                if (!slot)
                        return -ENOMEM;
                *slot = c->asked.v[i];
        }
        return 0;
}

/* The best `n` of the usable, locked; 1: done, the set has them. 0: there are not that many. */
static int lock_best(struct claiming *c, size_t n, gf_gpu_set *set)
{
        for (;;) {
                bool lost = false;
                int r = usable(c, set);

                if (r == 0 && set->n >= n)
                        r = gf_near_first(&c->guard->context->env, c->snapshot, set->v, set->n, n);
                if (r < 0)
                        return r;
                if (set->n < n)
                        return 0;
                for (size_t i = 0; i < n && !lost; i++) {
                        r = lock_gpu(c, set->v[i]);
                        if (r < 0 && r != -EBUSY)
                                return r;
                        lost = r == -EBUSY;
                }
                if (!lost)
                        break;
        }
        set->n = n;
        for (size_t i = 0; i < c->asked.n; i++) {
                bool chosen = false;

                for (size_t k = 0; k < n; k++)
                        chosen = chosen || set->v[k] == c->asked.v[i];
                if (!chosen)
                        unlock_gpu(c, c->asked.v[i]);
        }
        return 1;
}

/* With the lock that only one guard has at a time. */
static int lock_in_turn(struct claiming *c, size_t n, gf_gpu_set *set)
{
        struct gf_env *env = &c->guard->context->env;
        uint64_t deadline = gf_deadline_in(CHOOSING_MS);
        pid_t pid;
        int r;

        for (;;) {
                r = gf_lock_take(env, NULL, CHOOSING, &c->guard->locks, &pid);
                if (r != -EBUSY || gf_deadline_left(deadline) == 0)
                        break;
                r = gf_pidfds_wait(NULL, 0, gf_deadline_in(1), env->cancel_fd);
                if (r < 0)
                        return r;
        }
        if (r < 0 && r != -EBUSY)
                return r;
        /* Whoever sits on that lock for so long does us no favour; the claims themselves still exclude each other. */
        r = lock_best(c, n, set);
        gf_lock_drop(&c->guard->locks, CHOOSING);
        return r;
}

/* The look is a moment old: is the memory still what it was? Marks those where it is not. */
static int still_idle(struct claiming *c, const gf_gpu_set *set)
{
        struct gf_sight sight = { .context = c->guard->context, .selection = c->selection, .first = c->snapshot };
        struct gf_eyes eyes = gf_eyes_of(&sight);
        struct gf_driver_report driver = { 0 };
        bool idle = true;
        int r = eyes.memory(eyes.userdata, &driver);

        if (r < 0)
                return r;
        for (size_t i = 0; i < set->n; i++) {
                uint64_t used = gf_used_in(&c->snapshot->inventory.gpus.v[set->v[i]], &driver);
                uint64_t figure = gf_idle_figure(c->snapshot, set->v[i]);

                if (used != GPUFREE_UNKNOWN && figure != GPUFREE_UNKNOWN && used > figure)
                        idle = false;
        }
        gf_driver_report_done(&driver);
        return idle;
}

/* As with `kill`: evidence is enough to show who holds a GPU, not to end somebody on. */
static bool is_blind(const struct claiming *c, const struct gpufree_snapshot *snapshot)
{
        if (snapshot->blind)
                gf_guard_warn(c->guard, "nothing was cleaned: the driver's library gave no answer, so who holds a GPU "
                                        "cannot be told for sure from who merely has it open");
        return snapshot->blind;
}

/* Ends what the same user left on GPUs that nobody has claimed. 1: something was ended, look again. */
static int clean(struct claiming *c, size_t missing)
{
        _cleanup_selection_ struct gpufree_selection *selection = NULL;
        _cleanup_(gf_gpu_set_done) gf_gpu_set set = { 0 };
        _cleanup_report_ struct gpufree_report *report = NULL;
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        _cleanup_free_ char *user = gf_asprintf("%u", (unsigned)geteuid()), *label = NULL;
        struct gf_sight sight = { .context = c->guard->context };
        struct gf_eyes eyes;
        int r = 0;

        if (is_blind(c, c->snapshot))
                return 0;
        for (size_t i = 0; i < c->asked.n && (c->guard->options.gpus == 0 || set.n < missing); i++) {
                size_t *slot;

                /* GPUs named one by one are meant; of a choice only what has lost its parent is surely left over. */
                if (!c->why[i] || c->claimed[i] ||
                    !gf_choose_is_leftover(c->snapshot, c->asked.v[i], geteuid(), c->guard->options.gpus > 0))
                        continue;
                r = lock_gpu(c, c->asked.v[i]);
                if (r == -EBUSY)
                        continue;
                slot = r < 0 ? NULL : gf_vec_add(&set);
                if (!slot)
                        return r < 0 ? r : -ENOMEM;
                *slot = c->asked.v[i];
        }
        if (set.n == 0)
                return 0;
        r = gf_choose_selection(c->snapshot, set.v, set.n, &selection);
        if (r == 0 && user)
                r = gpufree_selection_add(selection, GPUFREE_BY_USER, user, NULL);
        if (r == 0)
                r = gf_look(c->guard->context, selection, &snapshot);
        if (r == 0 && is_blind(c, snapshot))
                return 0;
        if (r == 0)
                r = gf_plan_make(snapshot, &plan);
        if (r < 0)
                return r;
        sight.selection = selection;
        sight.first = snapshot;
        eyes = gf_eyes_of(&sight);
        for (size_t i = 0; i < plan->targets.n; i++)
                gf_guard_say(c->guard, "ending %d (%s), which this user left on the GPU",
                             (int)plan->targets.v[i]->id.pid,
                             plan->targets.v[i]->facts.comm ? plan->targets.v[i]->facts.comm : "unknown");
        r = gf_execute(&c->guard->context->env, &eyes, plan, &c->guard->options.ladder, &report);
        if (r < 0)
                return r;
        label = gf_guard_label(c->snapshot, set.v, set.n);
        if (report->outcome == GPUFREE_OK)
                gf_guard_say(c->guard, "%s cleaned: %zu ended", label ? label : "GPU", report->fates.n);
        return 1;
}

static int keep_connection(struct gpufree_guard *guard, int fd)
{
        int *slot = gf_vec_add(&guard->preempted);

        if (!slot) {
                gf_close(fd);
                return -ENOMEM;
        }
        *slot = fd;
        return 1;
}

/* Asks those who have what is missing to park. 1: at least one did, look again. */
static int preempt(struct claiming *c, size_t missing)
{
        struct gf_env *env = &c->guard->context->env;
        int any = 0;

        for (size_t i = 0; i < c->asked.n && missing > 0; i++) {
                _cleanup_free_ char *name = NULL, *label = NULL, *why = NULL;
                int fd = -1, r;

                if (!c->why[i])
                        continue;
                name = gf_lock_name(env, &c->snapshot->inventory.gpus.v[c->asked.v[i]]);
                label = gf_guard_label(c->snapshot, &c->asked.v[i], 1);
                if (!name || !label)
                        return -ENOMEM;
                r = gf_preempt_ask(c->guard, name, label, &fd, &why);
                if (r < 0)
                        return r;
                if (r == 0 && why) {
                        free(c->why[i]);
                        c->why[i] = TAKE(why);
                }
                if (r == 0)
                        continue;
                r = keep_connection(c->guard, fd);
                if (r < 0)
                        return r;
                any = 1;
                missing--;
        }
        return any;
}

static void say_reasons(const struct claiming *c, size_t n, size_t have)
{
        if (c->guard->options.gpus > 0)
                gf_guard_warn(c->guard, "%zu GPUs were asked for, %zu of %zu are free", n, have, c->asked.n);
        for (size_t i = 0; i < c->asked.n; i++) {
                _cleanup_free_ char *label = NULL;

                if (!c->why[i])
                        continue;
                label = gf_guard_label(c->snapshot, &c->asked.v[i], 1);
                gf_guard_warn(c->guard, "%s is not free: %s", label ? label : "GPU", c->why[i]);
        }
        for (size_t i = 0; i < c->snapshot->gaps.n; i++)
                gf_guard_warn(c->guard, "%s", c->snapshot->gaps.v[i]);
}

static int compare(const void *a, const void *b)
{
        size_t x = *(const size_t *)a, y = *(const size_t *)b;

        return (x > y) - (x < y);
}

static int take_over(struct claiming *c, gf_gpu_set *set)
{
        struct gpufree_guard *guard = c->guard;
        int r;

        if (set->n > 1)
                qsort(set->v, set->n, sizeof(*set->v), compare);
        guard->label = gf_guard_label(c->snapshot, set->v, set->n);
        r = guard->label ? gf_choose_selection(c->snapshot, set->v, set->n, &guard->selection) : -ENOMEM;
        if (r == 0)
                r = gf_visible(c->snapshot, set->v, set->n, &guard->environment);
        if (r < 0)
                return r;
        guard->gpus.v = set->v;
        guard->gpus.n = set->n;
        guard->gpus.cap = set->cap;
        *set = (gf_gpu_set){ 0 };
        gpufree_snapshot_unref(guard->snapshot);
        guard->snapshot = TAKE(c->snapshot);
        gf_guard_say(guard, "claimed %s, %s", guard->label, guard->gpus.n == 1 ? "free" : "all free");
        return 0;
}

static int claim(struct claiming *c)
{
        _cleanup_(gf_gpu_set_done) gf_gpu_set set = { 0 };
        size_t n = 0;
        int r;

        for (int round = 0; round < ROUNDS; round++) {
                r = look(c);
                if (r < 0)
                        return r;
                n = c->guard->options.gpus > 0 ? c->guard->options.gpus : c->asked.n;
                if (c->asked.n == 0 && c->guard->context->env.paths.n == 0)
                        return gf_fail(&c->guard->context->env, -ENXIO, "no GPU found here");
                r = lock_in_turn(c, n, &set);
                if (r == 1)
                        r = still_idle(c, &set);
                if (r < 0)
                        return r;
                if (r == 1)
                        break;
                if (set.n < n && c->guard->options.preempt && !c->preempted) {
                        c->preempted = true;
                        r = preempt(c, n - set.n);
                        if (r < 0)
                                return r;
                        if (r == 1) {
                                r = 0;
                                continue;
                        }
                }
                if (set.n < n && (!c->guard->options.clean || c->cleaned))
                        break;
                if (set.n < n) {
                        r = clean(c, n - set.n);
                        if (r < 0)
                                return r;
                        c->cleaned = true;
                        if (r == 0)
                                break;
                }
                r = 0;
        }
        if (r != 1) {
                say_reasons(c, n, set.n);
                return gf_fail(&c->guard->context->env, -EBUSY, "the GPUs are not free");
        }
        r = lock_devices(c);
        if (r == -EBUSY)
                return gf_fail(&c->guard->context->env, r, "the devices are not free");
        return r < 0 ? r : take_over(c, &set);
}

int gpufree_guard_claim(gpufree_guard *guard, const gpufree_selection *selection)
{
        struct claiming c = { .guard = guard, .selection = selection };
        int r = claim(&c);

        if (r == -EBUSY && !guard->snapshot)
                guard->snapshot = TAKE(c.snapshot); /* who holds them */
        claiming_done(&c);
        if (r < 0)
                gf_locks_done(&guard->locks);
        if (r == -ENOMEM)
                return gf_fail(&guard->context->env, r, "out of memory");
        if (r == -EINVAL && !guard->context->env.error)
                return gf_fail(&guard->context->env, r, "a GPU without an index, a UUID and an address is not claimed");
        if (r == -ECANCELED)
                return gf_fail(&guard->context->env, r, "interrupted");
        return r;
}

/* SPDX-License-Identifier: MIT */
/* The public side of parking. */
#include "park/park.h"

#include <errno.h>
#include <string.h>

#include "lib/context.h"
#include "pipeline.h"
#include "select/criteria.h"
#include "sys/pidfd.h"
#include "sys/pidstat.h"

const char *gpufree_park_state_name(enum gpufree_park_state state)
{
        static const char *const names[] = {
                "running", "locked", "parked", "failed", "parking", "restoring", "not-cuda"
        };

        return (int)state >= 0 && (size_t)state < ELEMENTSOF(names) ? names[state] : "unknown";
}

const char *gpufree_park_step_name(enum gpufree_park_step step)
{
        static const char *const names[] = { "check", "lock", "copy", "restore", "unlock", "verify" };

        return (int)step >= 0 && (size_t)step < ELEMENTSOF(names) ? names[step] : "unknown";
}

static int options_read(struct gpufree *context, const struct gpufree_park_options *options,
                        struct gpufree_park_options *ret_options)
{
        struct gpufree_park_options whole = GPUFREE_PARK_OPTIONS_INIT;

        if (options) {
                if (options->size < sizeof(options->size) || options->size > sizeof(whole))
                        return gf_fail(&context->env, -EINVAL, "the options have a size of %zu bytes, not %zu",
                                       options->size, sizeof(whole));
                memcpy(&whole, options, options->size);
        }
        *ret_options = whole;
        return 0;
}

static int explain(struct gpufree *context, int r, const char *what)
{
        if (r == -ECANCELED)
                return gf_fail(&context->env, r, "interrupted");
        if (r == -ENOMEM)
                return gf_fail(&context->env, r, "out of memory");
        if (r < 0 && !context->env.error)
                return gf_fail(&context->env, r, "%s: %s", what, strerror(-r));
        return r;
}

/* Somebody who is named by PID and holds nothing: perhaps it is parked already. */
static int add_pid(struct gpufree *context, struct gpufree_parking *parking, pid_t pid)
{
        struct gf_ident id = { .pid = pid };
        struct gf_pidstat stat;
        struct gf_parked *item;
        int r = gf_pidstat_read(&context->env, pid, &stat);

        if (r >= 0)
                id.start_ticks = stat.start_ticks;
        item = gf_parking_add(parking, &id);
        if (!item)
                return -ENOMEM;
        if (r < 0)
                return gf_parked_say(item, GPUFREE_HELD, r == -ESRCH ? "there is no process %d" : "%d cannot be read",
                                     (int)pid);
        r = gf_parked_describe(&context->env, item);
        return r == -ENOMEM ? r : 0;
}

static bool is_holder(const struct gpufree_snapshot *snapshot, pid_t pid)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (snapshot->holders.v[i].id.pid == pid)
                        return true;
        return false;
}

static int fill(struct gpufree *context, const gpufree_selection *selection, const gpufree_plan *plan, bool each,
                struct gpufree_parking *parking)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < plan->targets.n; i++)
                r = gf_parked_from_holder(parking, plan->snapshot, plan->targets.v[i]);
        for (size_t i = 0; r >= 0 && !each && i < plan->spared.n; i++)
                r = gf_strv_addf(&parking->sentences, "%d (%s) is left alone: %s", (int)plan->spared.v[i]->id.pid,
                                 plan->spared.v[i]->facts.comm ? plan->spared.v[i]->facts.comm : "?",
                                 plan->spared.v[i]->protected_why ? plan->spared.v[i]->protected_why : "protected");
        for (size_t i = 0; r >= 0 && !each && selection && i < selection->pids.n; i++)
                if (!is_holder(plan->snapshot, selection->pids.v[i]))
                        r = add_pid(context, parking, selection->pids.v[i]);
        return r;
}

int gpufree_park(gpufree *context, const gpufree_selection *selection, const gpufree_plan *plan,
                 const struct gpufree_park_options *options, gpufree_parking **ret_parking)
{
        struct gf_sight sight = { .context = context, .selection = selection, .first = plan->snapshot };
        struct gf_eyes eyes = gf_eyes_of(&sight);
        _cleanup_parking_ struct gpufree_parking *parking = gf_parking_new();
        struct gpufree_park_options whole;
        int r;

        r = options_read(context, options, &whole);
        if (r < 0)
                return r;
        r = parking ? fill(context, selection, plan, whole.each, parking) : -ENOMEM;
        if (r >= 0 && parking->items.n > 0) {
                r = gf_park(&context->env, &eyes, plan->snapshot, &whole, parking);
        } else if (r >= 0) {
                parking->outcome = plan->spared.n > 0           ? GPUFREE_REFUSED
                                   : plan->snapshot->gaps.n > 0 ? GPUFREE_INCOMPLETE
                                                                : GPUFREE_OK;
                r = gf_strv_add(&parking->sentences, "Nothing to park: no selected process holds a GPU.");
        }
        if (r < 0)
                return explain(context, r, "park");
        *ret_parking = TAKE(parking);
        return 0;
}

/* The driver may be at it: what is ended now could take the copy, or more, with it. Nothing was begun at a check. */
static bool may_be_copied(const struct gf_parked *item)
{
        if (item->state == GPUFREE_PARK_PARKING || item->state == GPUFREE_PARK_RESTORING)
                return true;
        return item->state == GPUFREE_PARK_UNKNOWN && item->step != GPUFREE_PARK_CHECK &&
               item->step != GPUFREE_PARK_LOCK;
}

static const struct gf_parked *parked_of(const gpufree_parking *parking, const struct gf_ident *id)
{
        for (size_t i = 0; i < parking->items.n; i++)
                if (gf_ident_equal(&parking->items.v[i].id, id))
                        return &parking->items.v[i];
        return NULL;
}

static int keep(gpufree_plan *plan, size_t target, const char *why)
{
        struct gf_kept *kept = gf_vec_add(&plan->kept);
        char *copy = kept && why ? strdup(why) : NULL;

        if (!kept || (why && !copy)) {
                plan->kept.n -= kept != NULL;
                return -ENOMEM;
        }
        *kept = (struct gf_kept){ .holder = plan->targets.v[target], .why = copy };
        plan->targets.n--;
        memmove(&plan->targets.v[target], &plan->targets.v[target + 1],
                (plan->targets.n - target) * sizeof(plan->targets.v[0]));
        if (plan->stop_of.n > target) {
                plan->stop_of.n--;
                memmove(&plan->stop_of.v[target], &plan->stop_of.v[target + 1],
                        (plan->stop_of.n - target) * sizeof(plan->stop_of.v[0]));
        }
        return 0;
}

int gpufree_plan_without_parked(gpufree_plan *plan, const gpufree_parking *parking, enum gpufree_outcome *ret_outcome)
{
        enum gpufree_outcome worst = GPUFREE_OK;
        int unclear = 0;

        for (size_t i = 0; i < plan->targets.n;) {
                const struct gf_parked *item = parked_of(parking, &plan->targets.v[i]->id);
                bool parked = item && item->state == GPUFREE_PARK_PARKED && item->outcome != GPUFREE_HELD;

                if (!item || (!parked && item->state != GPUFREE_PARK_PARKED && !may_be_copied(item))) {
                        i++;
                        continue;
                }
                if (keep(plan, i, parked ? NULL : item->sentence ? item->sentence : "its state is not known") < 0)
                        return -ENOMEM;
                unclear += !parked;
                worst = !parked && item->outcome > worst ? item->outcome : worst;
        }
        if (unclear > 0)
                *ret_outcome = worst;
        return unclear;
}

static bool is_there(const struct gpufree_parking *parking, pid_t pid)
{
        for (size_t i = 0; i < parking->items.n; i++)
                if (parking->items.v[i].id.pid == pid)
                        return true;
        return false;
}

int gpufree_unpark(gpufree *context, const pid_t *pids, size_t n, const struct gpufree_park_options *options,
                   gpufree_parking **ret_parking)
{
        struct gf_sight sight = { .context = context };
        struct gf_eyes eyes = gf_eyes_of(&sight);
        _cleanup_parking_ struct gpufree_parking *parking = gf_parking_new();
        struct gpufree_park_options whole;
        int r;

        r = options_read(context, options, &whole);
        if (r < 0)
                return r;
        r = !parking ? -ENOMEM : n == 0 ? gf_records_find(&context->env, parking) : 0;
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (is_there(parking, pids[i]))
                        continue;
                r = add_pid(context, parking, pids[i]);
                if (r >= 0)
                        (void)gf_record_read(&parking->items.v[parking->items.n - 1].id,
                                             &parking->items.v[parking->items.n - 1]);
        }
        if (r >= 0 && parking->items.n == 0)
                r = gf_strv_add(&parking->sentences, "No record of a parked process is here: nothing to bring back. A "
                                                     "process that was parked without one is named by its PID.");
        else if (r >= 0)
                r = gf_unpark(&context->env, &eyes, &whole, parking);
        if (r < 0)
                return explain(context, r, "unpark");
        *ret_parking = TAKE(parking);
        return 0;
}

/* One driver that hangs is waited for once, not for each process. */
static int ask_recorded(struct gf_env *env, struct gpufree_parking *parking)
{
        bool answers = true;

        for (size_t i = 0; i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];
                struct gf_cuda_reply reply = { 0 };
                int r = gf_parked_describe(env, item);

                if (r == -ENOMEM)
                        return r;
                item->pidfd = gf_pidfd_pin(env, &item->id);
                if (!answers || item->pidfd < 0)
                        continue;
                r = gf_parked_ask_state(env, item, &reply);
                answers = r != -ETIMEDOUT;
                if (item->state == GPUFREE_PARK_RUNNING)
                        gf_record_drop(&item->id); /* brought back by somebody else */
                else if (item->state == GPUFREE_PARK_UNKNOWN)
                        r = gf_say_no_driver(item, &reply, r);
                gf_cuda_stop(&item->cuda);
        }
        return 0;
}

int gpufree_parked(gpufree *context, gpufree_parking **ret_parking)
{
        _cleanup_parking_ struct gpufree_parking *parking = gf_parking_new();
        int r = parking ? gf_records_find(&context->env, parking) : -ENOMEM;

        if (r >= 0)
                r = ask_recorded(&context->env, parking);
        if (r < 0)
                return explain(context, r, "parked processes");
        *ret_parking = TAKE(parking);
        return 0;
}

enum gpufree_outcome gpufree_parking_outcome(const gpufree_parking *parking)
{
        return parking->outcome;
}

const char *gpufree_parking_sentence(const gpufree_parking *parking, size_t index)
{
        return index < parking->sentences.n ? parking->sentences.v[index] : NULL;
}

uint64_t gpufree_parking_elapsed_ms(const gpufree_parking *parking)
{
        return parking->elapsed_ms;
}

size_t gpufree_parking_count(const gpufree_parking *parking)
{
        return parking->items.n;
}

int gpufree_parking_process(const gpufree_parking *parking, size_t position, size_t size,
                            struct gpufree_parked_process *ret_process)
{
        const struct gf_parked *item = position < parking->items.n ? &parking->items.v[position] : NULL;
        struct gpufree_parked_process process;

        if (!item || size > sizeof(process))
                return -EINVAL;
        process = (struct gpufree_parked_process){ .pid = item->id.pid,
                                                   .start_ticks = item->id.start_ticks,
                                                   .comm = item->comm,
                                                   .cmdline = item->cmdline,
                                                   .user = item->user,
                                                   .state = item->state,
                                                   .step = item->step,
                                                   .memory = item->memory,
                                                   .copy_ms = item->copy_ms,
                                                   .outcome = item->outcome,
                                                   .sentence = item->sentence,
                                                   .gpus = item->gpu_list,
                                                   .since = item->since,
                                                   .by = item->by };
        memcpy(ret_process, &process, size);
        return 0;
}

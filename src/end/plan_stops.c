/* SPDX-License-Identifier: MIT */
/* Who would start the targets again, and what stops that: found out before anything is signalled. */
#include <errno.h>
#include <string.h>

#include "end/end.h"
#include "owner/restart.h"

#define NONE SIZE_MAX
#define MOST_NAMED 8

static bool says_anything(const struct gf_stop *stop)
{
        return stop->owner || stop->why || stop->text || stop->refusal;
}

/* Targets of one owner have one stop, also where no command is known: the plan says it once. */
static bool is_same(const struct gf_stop *a, const struct gf_stop *b)
{
        if (a->argv.n > 0 || b->argv.n > 0)
                return gf_stop_same(a, b) && gf_streq(a->refusal, b->refusal) && a->ask_pid == b->ask_pid;
        return gf_streq(a->owner, b->owner) && gf_streq(a->why, b->why) && gf_streq(a->text, b->text) &&
               gf_streq(a->refusal, b->refusal);
}

/* Takes `stop` over. Its position, NONE where there is nothing to say. */
static int file_stop(struct gpufree_plan *plan, struct gf_stop *stop, size_t *ret_position)
{
        struct gf_plan_stop *slot;

        *ret_position = NONE;
        if (!says_anything(stop)) {
                gf_stop_done(stop);
                return 0;
        }
        for (size_t i = 0; i < plan->stops.n; i++)
                if (is_same(&plan->stops.v[i].stop, stop)) {
                        gf_stop_done(stop);
                        *ret_position = i;
                        return 0;
                }
        slot = gf_vec_add(&plan->stops);
        if (!slot) {
                gf_stop_done(stop);
                return -ENOMEM;
        }
        slot->stop = *stop;
        *ret_position = plan->stops.n - 1;
        return 0;
}

static bool is_target(const struct gpufree_plan *plan, const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < plan->targets.n; i++)
                if (plan->targets.v[i] == holder)
                        return true;
        return false;
}

static bool is_spared(const struct gpufree_plan *plan, const struct gpufree_holder *holder)
{
        if (gf_streq(holder->protected_why, gf_why_container_init) && !holder->protected_absolute)
                return false;
        return holder->id.pid <= 1 || holder->protected_absolute || (holder->protected_why && !holder->lifted) ||
               (holder->selected && !is_target(plan, holder));
}

/* In one of the cgroups or sessions that a target is in? Only then can one command end both. */
static bool may_share(const struct gpufree_plan *plan, const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < plan->targets.n; i++) {
                const struct gpufree_holder *target = plan->targets.v[i];

                if (plan->stop_of.v[i] == NONE || plan->stops.v[plan->stop_of.v[i]].stop.argv.n == 0)
                        continue;
                if (target->owners.n == 0 || holder->owners.n == 0 ||
                    gf_streq(target->owners.v[0].id, holder->owners.v[0].id))
                        return true;
        }
        return false;
}

/*
 * What else holds and would go with it. The plan says so; and where that one is protected, the command is not run: an
 * owner's stop is no way round a protection.
 */
static int add_other(struct gpufree_plan *plan, struct gf_plan_stop *entry, const struct gpufree_holder *holder)
{
        const char *comm = holder->facts.comm ? holder->facts.comm : "?";

        if (!is_spared(plan, holder))
                return gf_strv_addf(&entry->others, "%d (%s)", (int)holder->id.pid, comm);
        if (entry->stop.refusal)
                return 0;
        entry->stop.refusal = gf_asprintf("it would end %d (%s) as well, which is protected", (int)holder->id.pid,
                                          comm);
        return entry->stop.refusal ? 0 : -ENOMEM;
}

static int find_others(struct gf_env *env, uint32_t me, struct gpufree_plan *plan)
{
        for (size_t i = 0; i < plan->snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &plan->snapshot->holders.v[i];
                _cleanup_(gf_stop_done) struct gf_stop stop = { 0 };
                int r;

                if (is_target(plan, holder) || !may_share(plan, holder))
                        continue;
                r = gf_stop_find(env, me, holder, &stop);
                for (size_t k = 0; r == 0 && k < plan->stops.n; k++)
                        if (gf_stop_same(&plan->stops.v[k].stop, &stop))
                                r = add_other(plan, &plan->stops.v[k], holder);
                if (r == -ENOMEM)
                        return r;
        }
        return 0;
}

/* "stops the whole container with everything in it; also ends the holder 524 (worker)" */
static int add_to_warnings(struct gpufree_plan *plan)
{
        for (size_t i = 0; i < plan->stops.n; i++) {
                struct gf_plan_stop *entry = &plan->stops.v[i];
                struct gf_str text = { 0 };
                char *warning = NULL;
                int r;

                if (entry->others.n == 0)
                        continue;
                gf_str_addf(&text, "%s%salso ends the holder%s ", entry->stop.warning ? entry->stop.warning : "",
                            entry->stop.warning ? "; " : "", entry->others.n == 1 ? "" : "s");
                for (size_t k = 0; k < entry->others.n && k < MOST_NAMED; k++)
                        gf_str_addf(&text, "%s%s", k > 0 ? ", " : "", entry->others.v[k]);
                if (entry->others.n > MOST_NAMED)
                        gf_str_addf(&text, " and %zu more", entry->others.n - MOST_NAMED);
                r = gf_str_take(&text, &warning);
                if (r < 0)
                        return r;
                free(entry->stop.warning);
                entry->stop.warning = warning;
        }
        return 0;
}

int gf_plan_find_stops(struct gf_env *env, uint32_t me, struct gpufree_plan *plan)
{
        int r;

        for (size_t i = 0; i < plan->targets.n; i++) {
                struct gf_stop stop = { 0 };
                size_t *position = gf_vec_add(&plan->stop_of);

                if (!position)
                        return -ENOMEM;
                *position = NONE;
                r = gf_stop_find(env, me, plan->targets.v[i], &stop);
                if (r == -ENOMEM)
                        return r;
                if (r < 0) /* it has ended since, or may not be looked at: nothing is known of its owner */
                        continue;
                r = file_stop(plan, &stop, position);
                if (r < 0)
                        return r;
        }
        r = find_others(env, me, plan);
        return r < 0 ? r : add_to_warnings(plan);
}

const struct gf_plan_stop *gf_plan_stop_of(const struct gpufree_plan *plan, size_t target)
{
        if (target >= plan->stop_of.n || plan->stop_of.v[target] == NONE)
                return NULL;
        return &plan->stops.v[plan->stop_of.v[target]];
}

bool gf_stop_runs(const struct gf_stop *stop)
{
        return stop->argv.n > 0 && !stop->refusal && !stop->plain;
}

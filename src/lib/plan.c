/* SPDX-License-Identifier: MIT */
#include "end/end.h"

size_t gpufree_plan_target_count(const gpufree_plan *plan)
{
        return plan ? plan->targets.n : 0;
}

const gpufree_holder *gpufree_plan_target(const gpufree_plan *plan, size_t position)
{
        return position < gpufree_plan_target_count(plan) ? plan->targets.v[position] : NULL;
}

const char *gpufree_plan_refusal(const gpufree_plan *plan)
{
        return plan ? plan->refusal : NULL;
}

size_t gpufree_plan_spared_count(const gpufree_plan *plan)
{
        return plan ? plan->spared.n : 0;
}

const gpufree_holder *gpufree_plan_spared(const gpufree_plan *plan, size_t position)
{
        return position < gpufree_plan_spared_count(plan) ? plan->spared.v[position] : NULL;
}

static const struct gf_gpu_use *use_of(const struct gpufree_holder *holder, int gpu)
{
        for (size_t i = 0; i < holder->gpus.n; i++)
                if (holder->gpus.v[i].gpu == gpu)
                        return &holder->gpus.v[i];
        return NULL;
}

static bool is_target(const struct gpufree_plan *plan, const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < plan->targets.n; i++)
                if (gf_ident_equal(&plan->targets.v[i]->id, &holder->id))
                        return true;
        return false;
}

/*
 * Memory booked to a dead process, which several live ones keep: none of them has a figure, and it comes back only when
 * the last of them ends. 1: it comes back, 0: somebody keeps it or nobody here has it.
 */
static bool dead_comes_back(const struct gpufree_plan *plan, const struct gf_dead *dead)
{
        char note[48];
        bool kept = false;

        snprintf(note, sizeof(note), "inherited-from:%d", (int)dead->pid);
        for (size_t i = 0; i < plan->snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &plan->snapshot->holders.v[i];
                const struct gf_gpu_use *use = use_of(holder, dead->gpu);

                if (!use || !use->inherited || !gf_strv_has(&holder->notes, note))
                        continue;
                if (use->memory != GPUFREE_UNKNOWN || !is_target(plan, holder))
                        return false; /* a sole heir has the figure itself; one that stays keeps the memory */
                kept = true;
        }
        return kept;
}

/* `*sum` and `more`, each possibly unknown. */
static void add(uint64_t *sum, uint64_t more)
{
        if (*sum == GPUFREE_UNKNOWN || more == GPUFREE_UNKNOWN || __builtin_add_overflow(*sum, more, sum))
                *sum = GPUFREE_UNKNOWN;
}

uint64_t gpufree_plan_memory(const gpufree_plan *plan, size_t gpu)
{
        uint64_t sum = 0;

        if (!plan || gpu >= gpufree_snapshot_gpu_count(plan->snapshot))
                return GPUFREE_UNKNOWN;
        for (size_t i = 0; i < plan->targets.n; i++) {
                const struct gf_gpu_use *use = use_of(plan->targets.v[i], (int)gpu);

                /* Merely open, without a figure: next to nothing. Several heirs: their dead parent has the figure. */
                if (!use || (use->memory == GPUFREE_UNKNOWN && (!use->context || use->inherited)))
                        continue;
                add(&sum, use->memory);
        }
        for (size_t i = 0; i < plan->snapshot->dead.n; i++) {
                const struct gf_dead *dead = &plan->snapshot->dead.v[i];

                if (dead->gpu == (int)gpu && dead_comes_back(plan, dead))
                        add(&sum, dead->memory);
        }
        return sum;
}

#define GIVE(ret, value)                                                                                               \
        do {                                                                                                           \
                if (ret)                                                                                               \
                        *(ret) = (value);                                                                              \
        } while (0)

static enum gpufree_restart restart_of(const struct gf_stop *stop)
{
        switch (stop->again) {
        case GF_AGAIN_NO:
                return GPUFREE_RESTART_NO;
        case GF_AGAIN_ON_KILL:
                return GPUFREE_RESTART_AFTER_KILL;
        case GF_AGAIN_YES:
                return GPUFREE_RESTART_YES;
        case GF_AGAIN_UNKNOWN:
        default:
                return GPUFREE_RESTART_UNKNOWN;
        }
}

int gpufree_plan_owner(const gpufree_plan *plan, size_t position, enum gpufree_restart *ret_restart,
                       const char **ret_owner, const char **ret_why, const char **ret_command, const char **ret_advice,
                       const char **ret_warning, const char **ret_refusal, int *ret_stop, bool *ret_run)
{
        static const struct gf_plan_stop nothing;
        const struct gf_plan_stop *entry;

        if (position >= gpufree_plan_target_count(plan))
                return -ERANGE;
        entry = gf_plan_stop_of(plan, position);
        GIVE(ret_stop, entry ? (int)(entry - plan->stops.v) : -1);
        entry = entry ? entry : &nothing;
        GIVE(ret_restart, restart_of(&entry->stop));
        GIVE(ret_owner, entry->stop.owner);
        GIVE(ret_why, entry->stop.why);
        GIVE(ret_command, entry->stop.argv.n > 0 ? entry->stop.text : NULL);
        GIVE(ret_advice, entry->stop.argv.n > 0 ? NULL : entry->stop.text);
        GIVE(ret_warning, entry->stop.warning);
        GIVE(ret_refusal, entry->stop.refusal);
        GIVE(ret_run, gf_stop_runs(&entry->stop));
        return 0;
}

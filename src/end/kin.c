/* SPDX-License-Identifier: MIT */
#include "end/kin.h"

#include <string.h>

/* /proc counts in USER_HZ, which is 100 on every architecture that has a GPU driver. */
#define TICK_US 10000

static bool same_uid(const struct gpufree_holder *a, const struct gpufree_holder *b)
{
        return a->facts.uid != UINT32_MAX && a->facts.uid == b->facts.uid;
}

static bool same_exe(const struct gpufree_holder *a, const struct gpufree_holder *b)
{
        if (a->facts.exe_ino != 0 && b->facts.exe_ino != 0)
                return a->facts.exe_ino == b->facts.exe_ino && a->facts.exe_dev == b->facts.exe_dev;
        return a->facts.exe && gf_streq(a->facts.exe, b->facts.exe);
}

static bool same_cmdline(const struct gpufree_holder *a, const struct gpufree_holder *b)
{
        return a->facts.cmdline && b->facts.cmdline && a->facts.cmdline_length > 0 &&
               a->facts.cmdline_length == b->facts.cmdline_length &&
               memcmp(a->facts.cmdline, b->facts.cmdline, a->facts.cmdline_length) == 0;
}

bool gf_same_program(const struct gpufree_holder *a, const struct gpufree_holder *b)
{
        return same_uid(a, b) && same_exe(a, b) && same_cmdline(a, b);
}

bool gf_same_place(const struct gpufree_holder *a, const struct gpufree_holder *b)
{
        return same_uid(a, b) && a->facts.cgroup && gf_streq(a->facts.cgroup, b->facts.cgroup);
}

static const struct gpufree_holder *find(const struct gpufree_snapshot *snapshot, const struct gf_ident *id)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (gf_ident_equal(&snapshot->holders.v[i].id, id))
                        return &snapshot->holders.v[i];
        return NULL;
}

/*
 * Did it start after the plan's look began? One tick of slack: a start time is rounded down. What a target forked
 * while that look ran is in neither, and counts as later.
 */
bool gf_started_since(const struct gpufree_snapshot *snapshot, uint64_t start_ticks)
{
        uint64_t look = snapshot->elapsed_us / TICK_US + 1;

        if (snapshot->boot_ticks <= look)
                return false;
        return start_ticks >= snapshot->boot_ticks - look;
}

static bool is_child_of(const struct gpufree_holder *candidate, const struct gpufree_holder *target)
{
        return candidate->facts.ppid > 1 && candidate->facts.ppid == target->id.pid &&
               candidate->id.start_ticks >= target->id.start_ticks;
}

/* Did it have a GPU open, when the plan was shown, that the target held? */
static bool shared_a_gpu(const struct gpufree_holder *target, const struct gpufree_holder *before)
{
        for (size_t i = 0; i < target->gpus.n; i++)
                for (size_t k = 0; k < before->gpus.n; k++)
                        if (target->gpus.v[i].context && target->gpus.v[i].gpu == before->gpus.v[k].gpu)
                                return true;
        return false;
}

/*
 * Forked by the target since; or the same program, of the same user, near it, since. One that was there when the plan
 * was shown and was not in it counts only as a data worker: a child of the target that had its GPU open, too.
 */
static bool descends(const struct gpufree_plan *plan, const struct gpufree_holder *target,
                     const struct gpufree_holder *candidate, const struct gpufree_holder *before)
{
        if (gf_ident_equal(&target->id, &candidate->id))
                return false;
        if (before)
                return (is_child_of(candidate, target) || is_child_of(before, target)) && shared_a_gpu(target, before);
        if (is_child_of(candidate, target))
                return true;
        if (!gf_started_since(plan->snapshot, candidate->id.start_ticks) ||
            candidate->id.start_ticks < target->id.start_ticks)
                return false;
        /* The same process group or session is not enough: a script starts other jobs in them, too. */
        return gf_same_program(target, candidate) &&
               ((candidate->facts.pgrp > 0 && candidate->facts.pgrp == target->facts.pgrp) ||
                (candidate->facts.session > 0 && candidate->facts.session == target->facts.session) ||
                gf_same_place(target, candidate) ||
                (candidate->facts.ppid > 1 && candidate->facts.ppid == target->facts.ppid));
}

bool gf_plan_keeps(const struct gpufree_plan *plan, const struct gf_ident *id)
{
        for (size_t i = 0; i < plan->kept.n; i++)
                if (gf_ident_equal(&plan->kept.v[i].holder->id, id))
                        return true;
        return false;
}

bool gf_is_kin(const struct gpufree_plan *plan, const struct gpufree_report *report,
               const struct gpufree_holder *candidate)
{
        /* As it was when the plan was shown: a data worker has its parent there, PID 1 once the parent has ended. */
        const struct gpufree_holder *before = find(plan->snapshot, &candidate->id);

        if (before && before->protected_why && !before->lifted)
                return false;
        if (gf_plan_keeps(plan, &candidate->id))
                return false;
        for (size_t i = 0; i < plan->targets.n; i++)
                if (descends(plan, plan->targets.v[i], candidate, before))
                        return true;
        for (size_t i = 0; report && i < report->fates.n; i++) {
                const struct gf_fate_entry *entry = &report->fates.v[i];

                if (entry->fate == GPUFREE_FATE_NOT_IN_PLAN || entry->fate == GPUFREE_FATE_REFUSED)
                        continue;
                if (descends(plan, entry->holder, candidate, before))
                        return true;
        }
        return false;
}

/* SPDX-License-Identifier: MIT */
/* The pure parts: plan, kin, idle figure, verdicts, the words about a process that does not end. */
#include "play.h"

#include <stdio.h>
#include <string.h>

#include "end/kin.h"
#include "end/run.h"

static struct gpufree_snapshot *snapshot_new(size_t n_gpus)
{
        struct gpufree_snapshot *snapshot = calloc(1, sizeof(*snapshot));

        if (!snapshot)
                abort();
        snapshot->refs = 1;
        snapshot->initial_pidns = true;
        snapshot->boot_ticks = 100000;
        snapshot->elapsed_us = 50000; /* 5 ticks */
        for (size_t i = 0; i < n_gpus; i++) {
                struct gpufree_gpu *gpu = must_add(&snapshot->inventory.gpus);

                gpu->index = gpu->minor = (int)i;
                gpu->vendor = GPUFREE_VENDOR_NVIDIA;
                gpu->selected = true;
                gpu->lists_complete = true;
                gpu->accounted = GPUFREE_UNKNOWN;
        }
        return snapshot;
}

/* Pointers into a vector move as it grows: all holders are added before any is kept. */
static struct gpufree_holder *holder_add(struct gpufree_snapshot *snapshot, pid_t pid, uint64_t start)
{
        struct gpufree_holder *holder = must_add(&snapshot->holders);

        holder->id = (struct gf_ident){ pid, start };
        holder->facts.uid = 1000;
        holder->facts.ppid = 1;
        holder->facts.comm = strdup("python");
        return holder;
}

static void use_add(struct gpufree_holder *holder, int gpu, uint64_t memory, bool context)
{
        struct gf_gpu_use *use = must_add(&holder->gpus);

        *use = (struct gf_gpu_use){ .gpu = gpu, .memory = memory, .context = context };
}

static void set_program(struct gpufree_holder *holder, const char *exe, const char *cmdline, const char *cgroup)
{
        assert_int_equal(gf_strset(&holder->facts.exe, exe), 0);
        assert_int_equal(gf_strset(&holder->facts.cmdline, cmdline), 0);
        holder->facts.cmdline_length = cmdline ? strlen(cmdline) + 1 : 0;
        assert_int_equal(gf_strset(&holder->facts.cgroup, cgroup), 0);
}

static void the_plan_takes_the_selected_and_spares_the_protected(void **state)
{
        static const struct {
                bool selected, protected, absolute, lifted, kernel;
                pid_t pid;
                int expected; /* 1 target, -1 spared, 0 neither */
        } table[] = {
                { true, false, false, false, false, 100, 1 }, { false, false, false, false, false, 101, 0 },
                { true, true, false, false, false, 102, -1 }, { true, true, false, true, false, 103, 1 },
                { true, true, true, true, false, 104, -1 },   { false, true, false, true, false, 105, 0 },
                { true, false, false, false, false, 1, -1 },  { true, false, false, false, true, 106, -1 },
        };
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = snapshot_new(1);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                struct gpufree_holder *holder = holder_add(snapshot, table[i].pid, 50);

                holder->selected = table[i].selected;
                holder->protected_why = table[i].protected ? strdup("why") : NULL;
                holder->protected_absolute = table[i].absolute;
                holder->lifted = table[i].lifted;
                holder->facts.kernel_thread = table[i].kernel;
        }
        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                int found = 0;

                for (size_t k = 0; k < plan->targets.n; k++)
                        found += plan->targets.v[k]->id.pid == table[i].pid;
                for (size_t k = 0; k < plan->spared.n; k++)
                        found -= plan->spared.v[k]->id.pid == table[i].pid;
                assert_int_equal(found, table[i].expected);
        }
}

struct kin_case {
        const char *name;
        uint64_t start;
        pid_t ppid, pgrp, session;
        uint32_t uid;
        const char *exe, *cmdline, *cgroup;
        bool expected;
};

/* The target: 500, started at 90000, child of 400, group 500, session 300, uid 1000; the look began at 99994. */
static const struct kin_case kin_table[] = {
        { "its child", 100010, 500, 900, 900, 1000, "/bin/x", "x", "/y", true },
        { "its child, by another user", 100010, 500, 900, 900, 0, "/bin/x", "x", "/y", true },
        { "older than its parent: the PID was another's", 80000, 500, 900, 900, 1000, "/bin/x", "x", "/y", false },
        { "same group and program, since", 100010, 1, 500, 900, 1000, "/bin/python", "train", "/y", true },
        { "same group, another program of the script", 100010, 1, 500, 900, 1000, "/bin/x", "x", "/y", false },
        { "same group, other arguments", 100010, 1, 500, 900, 1000, "/bin/python", "eval", "/a", false },
        { "same group, while the look ran", 99995, 1, 500, 900, 1000, "/bin/python", "train", "/y", true },
        { "same group, before", 99000, 1, 500, 900, 1000, "/bin/python", "train", "/y", false },
        { "same group, another user", 100010, 1, 500, 900, 1001, "/bin/python", "train", "/y", false },
        { "same session and program", 100010, 1, 900, 300, 1000, "/bin/python", "train", "/y", true },
        { "same session and file, other arguments", 100010, 1, 900, 300, 1000, "/bin/python", "x", "/y", false },
        { "same session, another program", 100010, 1, 900, 300, 1000, "/bin/x", "python\0train", "/a", false },
        { "same program and place", 100010, 1, 900, 900, 1000, "/bin/python", "train", "/a", true },
        { "same program, another place", 100010, 1, 900, 900, 1000, "/bin/python", "train", "/b", false },
        { "same program, place unknown", 100010, 1, 900, 900, 1000, "/bin/python", "train", NULL, false },
        { "same program by the same parent", 100010, 400, 900, 900, 1000, "/bin/python", "train", "/b", true },
        { "another program by the same parent", 100010, 400, 900, 900, 1000, "/bin/python", "other", "/a", false },
        { "nothing known", 100010, 0, 0, 0, UINT32_MAX, NULL, NULL, NULL, false },
        { "a stranger", 100010, 1, 900, 900, 1000, "/bin/x", "x", "/y", false },
};

static void kin_is_who_descends_from_a_target(void **state)
{
        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(kin_table); i++) {
                const struct kin_case *c = &kin_table[i];
                _cleanup_snapshot_ struct gpufree_snapshot *before = snapshot_new(1), *after = snapshot_new(1);
                _cleanup_plan_ struct gpufree_plan *plan = NULL;
                struct gpufree_holder *target = holder_add(before, 500, 90000), *candidate;

                target->selected = true;
                target->facts.ppid = 400;
                target->facts.pgrp = 500;
                target->facts.session = 300;
                set_program(target, "/bin/python", "train", "/a");
                assert_int_equal(gf_plan_make(before, &plan), 0);
                candidate = holder_add(after, 700, c->start);
                candidate->facts.ppid = c->ppid;
                candidate->facts.pgrp = c->pgrp;
                candidate->facts.session = c->session;
                candidate->facts.uid = c->uid;
                set_program(candidate, c->exe, c->cmdline, c->cgroup);
                if (gf_is_kin(plan, NULL, candidate) != c->expected)
                        fail_msg("%s: expected %d", c->name, c->expected);
        }
}

static void unknown_groups_make_no_kin(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *before = snapshot_new(1), *after = snapshot_new(1);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        struct gpufree_holder *candidate;

        (void)state;
        /* Group, session and facts 0 or NULL on both sides: in a PID namespace, and unreadable. */
        holder_add(before, 500, 90000)->selected = true;
        assert_int_equal(gf_plan_make(before, &plan), 0);
        candidate = holder_add(after, 700, 100010);
        assert_false(gf_is_kin(plan, NULL, candidate));
}

static void who_was_there_and_not_shown_is_kin_as_a_child_only(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *before = snapshot_new(1), *after = snapshot_new(1);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;

        (void)state;
        holder_add(before, 500, 99996)->selected = true;
        use_add(&before->holders.v[0], 0, GIB, true);
        holder_add(before, 511, 99997)->facts.ppid = 500; /* a data worker: has inherited the descriptors */
        use_add(&before->holders.v[1], 0, 0, false);
        holder_add(before, 512, 99997)->facts.pgrp = 500; /* another of the pipeline: was open, was not shown */
        before->holders.v[0].facts.pgrp = 500;
        assert_int_equal(gf_plan_make(before, &plan), 0);
        assert_int_equal(plan->targets.n, 1);
        /* After the target's end its parent is PID 1. */
        holder_add(after, 511, 99997);
        holder_add(after, 512, 99997)->facts.pgrp = 500;
        assert_true(gf_is_kin(plan, NULL, &after->holders.v[0]));
        assert_false(gf_is_kin(plan, NULL, &after->holders.v[1]));
        /* A child that had another GPU open, and takes this one now: it was not shown. */
        before->holders.v[1].gpus.v[0].gpu = 1;
        assert_false(gf_is_kin(plan, NULL, &after->holders.v[0]));
        before->holders.v[1].gpus.v[0].gpu = 0;
        before->holders.v[1].protected_why = strdup("a service");
        assert_false(gf_is_kin(plan, NULL, &after->holders.v[0]));
}

static void what_comes_from_kin_is_kin(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *before = snapshot_new(1), *after = snapshot_new(1);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;
        struct gf_fate_entry *entry;

        (void)state;
        holder_add(before, 500, 90000)->selected = true;
        assert_int_equal(gf_plan_make(before, &plan), 0);
        holder_add(after, 700, 100010)->facts.ppid = 500;
        holder_add(after, 800, 100020)->facts.ppid = 700;
        assert_int_equal(gf_report_new(before, &report), 0);
        assert_false(gf_is_kin(plan, report, &after->holders.v[1]));
        entry = must_add(&report->fates);
        entry->holder = &after->holders.v[0];
        entry->fate = GPUFREE_FATE_KILLED;
        assert_true(gf_is_kin(plan, report, &after->holders.v[1]));
        entry->fate = GPUFREE_FATE_NOT_IN_PLAN;
        assert_false(gf_is_kin(plan, report, &after->holders.v[1]));
}

static void the_idle_figure_is_what_stays(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = snapshot_new(2);
        struct gf_dead *dead;

        (void)state;
        assert_int_equal(gf_idle_figure(snapshot, 0), GF_TOLERANCE);
        assert_int_equal(gf_idle_figure(snapshot, 7), GPUFREE_UNKNOWN);
        use_add(holder_add(snapshot, 10, 1), 0, 2 * GIB, true);
        use_add(holder_add(snapshot, 11, 1), 0, GPUFREE_UNKNOWN, false);
        use_add(holder_add(snapshot, 12, 1), 1, 5 * GIB, true);
        assert_int_equal(gf_idle_figure(snapshot, 0), 2 * GIB + GF_OPENER_COST + GF_TOLERANCE);
        assert_int_equal(gf_idle_figure(snapshot, 1), 5 * GIB + GF_TOLERANCE);
        /* Two holders share it: attribution counted it once. */
        use_add(holder_add(snapshot, 13, 1), 1, 5 * GIB, true);
        snapshot->inventory.gpus.v[1].accounted = 5 * GIB;
        assert_int_equal(gf_idle_figure(snapshot, 1), 5 * GIB + GF_TOLERANCE);
        /* A context of unknown size: nothing can be said … */
        use_add(holder_add(snapshot, 14, 1), 0, GPUFREE_UNKNOWN, true);
        assert_int_equal(gf_idle_figure(snapshot, 0), GPUFREE_UNKNOWN);
        /* … unless it is a share of what is booked to a dead process. */
        snapshot->holders.v[4].gpus.v[0].inherited = true;
        assert_int_equal(gf_idle_figure(snapshot, 0), GPUFREE_UNKNOWN);
        assert_int_equal(gf_strv_add(&snapshot->holders.v[4].notes, "inherited-from:99"), 0);
        dead = must_add(&snapshot->dead);
        *dead = (struct gf_dead){ .pid = 99, .gpu = 0, .memory = 7 * GIB };
        dead = must_add(&snapshot->dead);
        *dead = (struct gf_dead){ .pid = 98, .gpu = 0, .memory = 20 * GIB }; /* nobody's */
        assert_int_equal(gf_idle_figure(snapshot, 0), 9 * GIB + GF_OPENER_COST + GF_TOLERANCE);
}

struct verdict_case {
        const char *name;
        uint64_t used;
        bool gap, listed, lists_incomplete, outside_init, amd, lost;
        int holder; /* 0 none, 1 selected with a context, 2 unselected with 2 GiB, 3 unselected and unknown, 4 selected,
                       open only, 5 unselected, open only */
        enum gpufree_outcome expected;
        bool verified;
};

static const struct verdict_case verdict_table[] = {
        { "free", 0, .expected = GPUFREE_OK, .verified = true },
        { "within the tolerance", 32 * MIB, .expected = GPUFREE_OK, .verified = true },
        { "residue", 33 * MIB, .expected = GPUFREE_RESIDUE },
        { "held", 2 * GIB, .holder = 1, .expected = GPUFREE_HELD },
        { "held, memory idle", 0, .holder = 1, .expected = GPUFREE_HELD },
        { "held, figure unknown", GPUFREE_UNKNOWN, .holder = 1, .expected = GPUFREE_HELD },
        { "held, and not all seen", 2 * GIB, .gap = true, .holder = 1, .expected = GPUFREE_HELD },
        { "held by an opener that was asked for", 0, .holder = 4, .expected = GPUFREE_HELD },
        { "others", 2 * GIB, .holder = 2, .expected = GPUFREE_OK, .verified = true },
        { "more than others have", 3 * GIB, .holder = 2, .expected = GPUFREE_RESIDUE },
        { "others of unknown size", 2 * GIB, .holder = 3, .expected = GPUFREE_INCOMPLETE },
        { "an opener", 34 * MIB, .holder = 5, .expected = GPUFREE_OK, .verified = true },
        { "no figure, NVIDIA", GPUFREE_UNKNOWN, .expected = GPUFREE_INCOMPLETE },
        { "no figure, AMD", GPUFREE_UNKNOWN, .amd = true, .expected = GPUFREE_OK },
        { "no figure, AMD, not all seen", GPUFREE_UNKNOWN, .gap = true, .amd = true, .expected = GPUFREE_INCOMPLETE },
        { "the driver vouches", 0, .gap = true, .expected = GPUFREE_OK, .verified = true },
        { "the driver lists somebody", 0, .gap = true, .listed = true, .expected = GPUFREE_INCOMPLETE },
        { "its list could not be read", 0, .gap = true, .lists_incomplete = true, .expected = GPUFREE_INCOMPLETE },
        { "asked from a namespace", 0, .gap = true, .outside_init = true, .expected = GPUFREE_INCOMPLETE },
        { "vouched, but memory is used", GIB, .gap = true, .expected = GPUFREE_INCOMPLETE },
        { "the whole namespace was seen", 0, .outside_init = true, .expected = GPUFREE_OK, .verified = true },
        { "the driver has lost it", 0, .lost = true, .expected = GPUFREE_INCOMPLETE },
        { "lost, and held", 2 * GIB, .lost = true, .holder = 1, .expected = GPUFREE_HELD },
};

static void add_case_holder(struct gpufree_snapshot *snapshot, int kind)
{
        struct gpufree_holder *holder;

        if (kind == 0)
                return;
        holder = holder_add(snapshot, 77, 1);
        holder->selected = kind == 1 || kind == 4;
        use_add(holder, 0, kind == 1 || kind == 2 ? 2 * GIB : GPUFREE_UNKNOWN, kind != 4 && kind != 5);
}

static void check_judges_by_look_and_memory(void **state)
{
        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(verdict_table); i++) {
                const struct verdict_case *c = &verdict_table[i];
                _cleanup_snapshot_ struct gpufree_snapshot *snapshot = snapshot_new(1);
                _cleanup_report_ struct gpufree_report *report = NULL;
                struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[0];

                gpu->memory.used = c->used;
                gpu->listed = c->listed ? 1 : 0;
                gpu->lists_complete = !c->lists_incomplete;
                gpu->lost = c->lost;
                gpu->vendor = c->amd ? GPUFREE_VENDOR_AMD : GPUFREE_VENDOR_NVIDIA;
                snapshot->initial_pidns = !c->outside_init;
                if (c->gap)
                        assert_int_equal(gf_strv_add(&snapshot->gaps, "gap"), 0);
                add_case_holder(snapshot, c->holder);
                assert_int_equal(gf_report_new(snapshot, &report), 0);
                assert_int_equal(gf_judge(snapshot, report), 0);
                if (report->outcome != c->expected || report->gpus.n != 1 || report->gpus.v[0].verified != c->verified)
                        fail_msg("%s: outcome %d: %s", c->name, (int)report->outcome,
                                 report->gpus.n ? report->gpus.v[0].sentence : "no GPU");
                assert_non_null(report->gpus.v[0].sentence);
        }
}

static void check_takes_the_worst_of_several_gpus(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = snapshot_new(3);
        _cleanup_report_ struct gpufree_report *residue = NULL, *incomplete = NULL, *held = NULL;
        struct gpufree_gpu *gpus = snapshot->inventory.gpus.v;

        (void)state;
        gpus[1].memory.used = GPUFREE_UNKNOWN;
        assert_int_equal(gf_report_new(snapshot, &incomplete), 0);
        assert_int_equal(gf_judge(snapshot, incomplete), 0);
        assert_int_equal(incomplete->outcome, GPUFREE_INCOMPLETE);
        gpus[2].memory.used = GIB;
        assert_int_equal(gf_report_new(snapshot, &residue), 0);
        assert_int_equal(gf_judge(snapshot, residue), 0);
        assert_int_equal(residue->outcome, GPUFREE_RESIDUE);
        use_add(holder_add(snapshot, 77, 1), 0, GIB, true);
        snapshot->holders.v[0].selected = true;
        assert_int_equal(gf_report_new(snapshot, &held), 0);
        assert_int_equal(gf_judge(snapshot, held), 0);
        assert_int_equal(held->outcome, GPUFREE_HELD);
        assert_string_equal(held->sentences.v[held->sentences.n - 1], "What you can do: gpufree kill --gpu 0");
}

/* An unprivileged user asked about what is theirs: others' processes cannot be looked at, and need not be. */
static void what_the_driver_books_to_others_stays(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = snapshot_new(1);
        _cleanup_report_ struct gpufree_report *explained = NULL, *more = NULL;
        struct gf_driver_gpu *driver = must_add(&snapshot->driver.gpus);
        struct gf_driver_process *process;

        (void)state;
        must_add(&snapshot->scan.refused)->pid = 4242;
        driver->index = driver->minor = 0;
        process = must_add(&driver->processes);
        *process = (struct gf_driver_process){ .pid = 4242, .memory = 8 * GIB };
        process = must_add(&driver->processes);
        *process = (struct gf_driver_process){ .pid = 4343, .memory = 8 * GIB }; /* not refused: dead, or a holder */
        assert_int_equal(gf_idle_figure(snapshot, 0), 8 * GIB + GF_TOLERANCE);
        snapshot->inventory.gpus.v[0].memory.used = 8 * GIB;
        snapshot->inventory.gpus.v[0].listed = 1;
        assert_int_equal(gf_report_new(snapshot, &explained), 0);
        assert_int_equal(gf_judge(snapshot, explained), 0);
        assert_int_equal(explained->outcome, GPUFREE_OK);
        assert_string_equal(explained->gpus.v[0].sentence, "8.0 GiB held by 4242, not selected, and by nobody else "
                                                           "(every process that was asked about looked at).");
        /* More than that is no residue either: who was not looked at may have it. */
        snapshot->inventory.gpus.v[0].memory.used = 9 * GIB;
        assert_int_equal(gf_report_new(snapshot, &more), 0);
        assert_int_equal(gf_judge(snapshot, more), 0);
        assert_int_equal(more->outcome, GPUFREE_INCOMPLETE);
}

static void only_what_was_asked_about_is_judged(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = snapshot_new(2);
        _cleanup_report_ struct gpufree_report *one = NULL, *path = NULL, *plain = NULL;
        struct gpufree_device *device;

        (void)state;
        snapshot->inventory.gpus.v[0].memory.used = GIB; /* would be a residue */
        snapshot->inventory.gpus.v[0].selected = false;
        assert_int_equal(gf_report_new(snapshot, &one), 0);
        assert_int_equal(gf_judge(snapshot, one), 0);
        assert_int_equal(one->outcome, GPUFREE_OK);
        assert_int_equal(one->gpus.n, 1);
        assert_int_equal(one->gpus.v[0].gpu, 1);
        /* A named device that is no GPU: no memory to judge, holders all the same. */
        snapshot->inventory.gpus.v[0].selected = true;
        device = must_add(&snapshot->inventory.devices);
        device->asked = true;
        device->gpu = -1;
        assert_int_equal(gf_report_new(snapshot, &path), 0);
        assert_int_equal(gf_judge(snapshot, path), 0);
        assert_int_equal(path->outcome, GPUFREE_OK);
        assert_int_equal(path->gpus.n, 0);
        holder_add(snapshot, 77, 1)->selected = true;
        assert_int_equal(gf_report_new(snapshot, &plain), 0);
        assert_int_equal(gf_judge(snapshot, plain), 0);
        assert_int_equal(plain->outcome, GPUFREE_HELD);
}

static void without_a_gpu_a_gap_is_a_gap(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = snapshot_new(0);
        _cleanup_report_ struct gpufree_report *report = NULL;

        (void)state;
        assert_int_equal(gf_strv_add(&snapshot->gaps, "gap"), 0);
        assert_int_equal(gf_report_new(snapshot, &report), 0);
        assert_int_equal(gf_judge(snapshot, report), 0);
        assert_int_equal(report->outcome, GPUFREE_INCOMPLETE);
}

static void what_keeps_a_process_alive_is_said(void **state)
{
        static const struct {
                char state;
                const char *wchan, *status, *part;
        } table[] = {
                { 'D', "nv_close\n", "Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n",
                  "it sleeps uninterruptibly in the kernel (state D) in nv_close, SIGKILL is pending: it ends when" },
                { 'D', "0", "SigPnd:\t0000000000000100\n", "(state D), SIGKILL is pending: it ends when" },
                { 'D', NULL, NULL, "(state D): it takes no signal" },
                { 'S', "do_wait", "ShdPnd:\t0000000000000000\n", "it sleeps (state S) in do_wait" },
                { 'R', "", "ShdPnd:\t0000000000000100\n", "it runs (state R), SIGKILL is pending: it is ending" },
                { 't', "", "", "its debugger keeps it" },
                { 'Z', NULL, "garbage", "a zombie whose other threads live" },
                { '\0', NULL, "SigPnd:\t\n", "unknown state (state ?)" },
                { 'D', NULL, "Name:\tShdPnd: 100\nSigPnd: 00000000000000000000000000100\n", "takes no signal" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_free_ char *text = gf_stuck_describe(table[i].state, table[i].wchan, table[i].status);

                if (!text || !strstr(text, table[i].part))
                        fail_msg("%zu: %s", i, text ? text : "NULL");
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_plan_takes_the_selected_and_spares_the_protected),
                cmocka_unit_test(kin_is_who_descends_from_a_target),
                cmocka_unit_test(unknown_groups_make_no_kin),
                cmocka_unit_test(who_was_there_and_not_shown_is_kin_as_a_child_only),
                cmocka_unit_test(what_comes_from_kin_is_kin),
                cmocka_unit_test(the_idle_figure_is_what_stays),
                cmocka_unit_test(check_judges_by_look_and_memory),
                cmocka_unit_test(check_takes_the_worst_of_several_gpus),
                cmocka_unit_test(what_the_driver_books_to_others_stays),
                cmocka_unit_test(only_what_was_asked_about_is_judged),
                cmocka_unit_test(without_a_gpu_a_gap_is_a_gap),
                cmocka_unit_test(what_keeps_a_process_alive_is_said),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

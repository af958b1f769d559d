/* SPDX-License-Identifier: MIT */
/* stop_owner: the owner's command comes first, once, and what it leaves is for the ladder. */
#include "play.h"

#include <string.h>

/* A plan whose targets all have one owner, stopped by `sh -c SCRIPT`. */
static struct gpufree_plan *plan_new(struct play *play, struct gpufree_snapshot *snapshot, const char *script,
                                     enum gf_again again)
{
        struct gpufree_plan *plan = NULL;
        struct gf_plan_stop *entry;

        (void)play;
        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        entry = must_add(&plan->stops);
        entry->stop.again = again;
        entry->stop.owner = strdup("a made owner");
        entry->stop.why = strdup("a made owner starts it again");
        entry->stop.text = strdup(script);
        assert_int_equal(gf_strv_add(&entry->stop.argv, "sh"), 0);
        assert_int_equal(gf_strv_add(&entry->stop.argv, "-c"), 0);
        assert_int_equal(gf_strv_add(&entry->stop.argv, script), 0);
        for (size_t i = 0; i < plan->targets.n; i++)
                *must_add(&plan->stop_of) = 0;
        return plan;
}

static struct gpufree_report *execute(struct play *play, const struct gpufree_plan *plan)
{
        struct gpufree_report *report = NULL;

        assert_int_equal(gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report), 0);
        assert_non_null(report);
        return report;
}

static bool says(const gf_strv *sentences, const char *part)
{
        for (size_t i = 0; i < sentences->n; i++)
                if (strstr(sentences->v[i], part))
                        return true;
        return false;
}

static void one_command_ends_all_targets_of_an_owner(void **state)
{
        struct play *play = *state;
        struct slot *a = play_start(play, "worker", GIB, part_plain), *b = play_start(play, "worker2", GIB, part_plain);
        struct slot *bystander = play_start(play, "shell", 0, part_bystander);
        _cleanup_free_ char *script = gf_asprintf("kill -KILL %d %d", (int)a->pid, (int)b->pid);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = plan_new(play, snapshot, script, GF_AGAIN_YES);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->ladder.stop_owner = true;
        report = execute(play, plan);
        assert_fate(report, a, GPUFREE_FATE_BY_OWNER);
        assert_fate(report, b, GPUFREE_FATE_BY_OWNER);
        assert_true(is_alive(bystander));
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_int_equal(report->stops.n, 1);
        assert_int_equal(report->stops.v[0].outcome, GPUFREE_STOP_DONE);
        assert_int_equal(play->events[GPUFREE_EVENT_STOPPING], 1);
        assert_int_equal(play->events[GPUFREE_EVENT_STOPPED], 1);
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 0);
        assert_int_equal(play->events[GPUFREE_EVENT_GONE], 2);
        assert_int_equal(report->sentences.n, 0);
}

static void without_being_asked_no_command_is_run(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "worker", GIB, part_plain);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = plan_new(play, snapshot, "exit 0", GF_AGAIN_YES);
        _cleanup_report_ struct gpufree_report *report = execute(play, plan);

        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->stops.n, 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
        /* nothing has come back so far, and who would start it again is told */
        assert_true(says(&report->sentences, "a made owner starts it again"));
}

static void a_command_that_fails_is_told_and_the_ladder_goes_on(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "worker", GIB, part_plain);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = plan_new(
                play, snapshot, "echo first; echo no such container >&2; exit 3", GF_AGAIN_NO);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->ladder.stop_owner = true;
        report = execute(play, plan);
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_int_equal(report->stops.v[0].outcome, GPUFREE_STOP_FAILED);
        assert_int_equal(report->stops.v[0].status, 3);
        assert_true(says(&report->sentences, "failed with exit status 3; it said: no such container"));
}

static void what_the_command_leaves_is_for_the_ladder(void **state)
{
        struct play *play = *state;
        struct slot *a = play_start(play, "worker", GIB, part_plain), *b = play_start(play, "worker2", GIB, part_deaf);
        _cleanup_free_ char *script = gf_asprintf("kill -TERM %d %d", (int)a->pid, (int)b->pid);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = plan_new(play, snapshot, script, GF_AGAIN_NO);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->ladder.stop_owner = true;
        play->ladder.grace_ms = 300;
        report = execute(play, plan);
        assert_fate(report, a, GPUFREE_FATE_BY_OWNER);
        assert_fate(report, b, GPUFREE_FATE_KILLED);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_int_equal(report->stops.n, 1);
}

static void an_owner_whose_process_has_let_go_is_left_alone(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "worker", GIB, part_plain);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = plan_new(play, snapshot, "exit 0", GF_AGAIN_YES);
        _cleanup_report_ struct gpufree_report *report = NULL;

        target->holds = false;
        play->ladder.stop_owner = true;
        report = execute(play, plan);
        assert_int_equal(report->stops.n, 0);
        assert_true(is_alive(target));
        assert_fate(report, target, GPUFREE_FATE_LET_GO);
}

static void what_is_refused_or_needless_is_not_run(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "worker", GIB, part_plain);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = plan_new(play, snapshot, "exit 0", GF_AGAIN_NO);
        _cleanup_report_ struct gpufree_report *report = NULL;
        bool run = true;
        const char *refusal = NULL;

        plan->stops.v[0].stop.plain = true;
        assert_false(gf_stop_runs(&plan->stops.v[0].stop));
        plan->stops.v[0].stop.plain = false;
        plan->stops.v[0].stop.refusal = strdup("gpufree itself runs in it");
        assert_int_equal(gpufree_plan_owner(plan, 0, NULL, NULL, NULL, NULL, NULL, NULL, &refusal, NULL, &run), 0);
        assert_false(run);
        assert_string_equal(refusal, "gpufree itself runs in it");
        assert_int_equal(gpufree_plan_owner(plan, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), -ERANGE);
        play->ladder.stop_owner = true;
        report = execute(play, plan);
        assert_int_equal(report->stops.n, 0);
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
}

static void a_command_that_hangs_is_given_up_in_time(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "worker", GIB, part_plain);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = plan_new(play, snapshot, "sleep 60", GF_AGAIN_NO);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->ladder.stop_owner = true;
        play->ladder.timeout_ms = 4000;
        play->ladder.grace_ms = 500;
        report = execute(play, plan);
        assert_int_equal(report->stops.v[0].outcome, GPUFREE_STOP_TIMED_OUT);
        assert_true(says(&report->sentences, "was given up"));
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
}

#define play_test(f) cmocka_unit_test_setup_teardown(f, play_setup, play_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                play_test(one_command_ends_all_targets_of_an_owner),
                play_test(without_being_asked_no_command_is_run),
                play_test(a_command_that_fails_is_told_and_the_ladder_goes_on),
                play_test(what_the_command_leaves_is_for_the_ladder),
                play_test(an_owner_whose_process_has_let_go_is_left_alone),
                play_test(what_is_refused_or_needless_is_not_run),
                play_test(a_command_that_hangs_is_given_up_in_time),
        };

        return cmocka_run_group_tests_name("end-owner", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* What is left when an execution is broken off half-way, and which GPUs are judged. */
#include "play.h"

#include <errno.h>

static int calls;

/* Memory runs out when the second target is asked about. */
static int out_of_memory_later(void *userdata, const struct gpufree_holder *holder)
{
        (void)userdata;
        (void)holder;
        return ++calls >= 2 ? -ENOMEM : 1;
}

static int out_of_memory(void *userdata, const struct gpufree_holder *holder)
{
        (void)userdata;
        (void)holder;
        return -ENOMEM;
}

static void what_was_begun_is_reported_when_memory_runs_out(void **state)
{
        struct play *play = *state;
        struct slot *first = play_start(play, "a", GIB, part_plain), *second = play_start(play, "b", GIB, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL;

        calls = 0;
        play->eyes.still_holds = out_of_memory_later;
        report = play_kill(play);
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 1);
        assert_int_not_equal(report->outcome, GPUFREE_OK);
        for (size_t i = 0; i < report->gpus.n; i++)
                assert_false(report->gpus.v[i].verified);
        assert_int_equal(is_alive(first) + is_alive(second) >= 1, 1);
        assert_int_equal(report->fates.n, 2);
        /* The one that got its signal is not called a survivor because nobody waited for its end. */
        assert_int_equal((fate_of(report, first)->fate == GPUFREE_FATE_ENDED_BY_SIGNAL) +
                                 (fate_of(report, second)->fate == GPUFREE_FATE_ENDED_BY_SIGNAL),
                         1);
}

/* The teardown finds the pin that nobody gave back. */
static void nothing_begun_is_an_error_and_leaves_no_descriptor(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "a", GIB, part_plain);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->eyes.still_holds = out_of_memory;
        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        assert_int_equal(gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report), -ENOMEM);
        assert_null(report);
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 0);
        assert_true(is_alive(target));
}

static int (*real_look)(void *userdata, struct gpufree_snapshot **ret);

static int look_by_process(void *userdata, struct gpufree_snapshot **ret)
{
        int r = real_look(userdata, ret);

        if (r == 0)
                (*ret)->by_process = true;
        return r;
}

/* `--pid X`, and the residue is on a GPU that X never had anything to do with. */
static struct gpufree_report *kill_on_second_gpu(struct play *play, bool by_process)
{
        struct slot *target;
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        struct gpufree_report *report = NULL;

        play->n_gpus = 2;
        play->residue = 10 * GIB;
        play->residue_ms = GPUFREE_UNKNOWN;
        play->ladder.settle_ms = 100;
        target = play_start(play, "a", GIB, part_plain);
        target->gpu = 1;
        real_look = play->eyes.look;
        if (by_process)
                play->eyes.look = look_by_process;
        snapshot = play_look(play);
        snapshot->by_process = by_process;
        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        assert_int_equal(gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report), 0);
        assert_false(is_alive(target));
        return report;
}

static void a_residue_elsewhere_is_not_the_matter_of_one_process(void **state)
{
        _cleanup_report_ struct gpufree_report *report = kill_on_second_gpu(*state, true);

        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_int_equal(report->gpus.n, 1);
        assert_int_equal(report->gpus.v[0].gpu, 1);
}

static void a_residue_on_a_gpu_that_was_asked_about_is(void **state)
{
        _cleanup_report_ struct gpufree_report *report = kill_on_second_gpu(*state, false);

        assert_int_equal(report->outcome, GPUFREE_RESIDUE);
        assert_int_equal(report->gpus.n, 2);
}

#define play_test(f) cmocka_unit_test_setup_teardown(f, play_setup, play_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                play_test(what_was_begun_is_reported_when_memory_runs_out),
                play_test(nothing_begun_is_an_error_and_leaves_no_descriptor),
                play_test(a_residue_elsewhere_is_not_the_matter_of_one_process),
                play_test(a_residue_on_a_gpu_that_was_asked_about_is),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

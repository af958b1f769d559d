/* SPDX-License-Identifier: MIT */
#include "play.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sys/clock.h"

static int wait_free(struct play *play, uint64_t timeout_ms, uint64_t settle_ms, struct gpufree_report **ret)
{
        return gf_wait_free(&play->env, &play->eyes, timeout_ms, settle_ms, ret);
}

static void a_free_gpu_needs_one_look(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        assert_int_equal(wait_free(play, GPUFREE_UNKNOWN, 100, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_true(report->gpus.v[0].verified);
        assert_int_equal(play->looks, 1);
}

/* The holder ends once the wait has begun: on the event that says so. */
static void end_first(struct play *play, const struct gpufree_event *event)
{
        if (event->type == GPUFREE_EVENT_WAITING)
                kill(play->children[0], SIGKILL);
}

static void returns_when_the_holder_ends(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play_start(play, "train", 3 * GIB, part_plain);
        play->on_event = end_first;
        assert_int_equal(wait_free(play, PATIENCE_MS, 1000, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_int_equal(play->looks, 2); /* an event, no polling */
        assert_int_equal(play->events[GPUFREE_EVENT_WAITING], 1);
        assert_int_equal(report->gpus.v[0].used_before, 3 * GIB);
        assert_string_equal(report->gpus.v[0].sentence,
                            "3.0 GiB came back, 0 B held, no holder found (every process looked at).");
}

static void let_go_first(struct play *play, const struct gpufree_event *event)
{
        if (event->type == GPUFREE_EVENT_WAITING)
                play->stage->slots[0].holds = false;
}

static void returns_when_the_holder_lets_go_and_lives(void **state)
{
        struct play *play = *state;
        struct slot *slot = play_start(play, "train", GIB, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->on_event = let_go_first;
        assert_int_equal(wait_free(play, PATIENCE_MS, 1000, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_true(is_alive(slot));
}

static void the_timeout_is_kept(void **state)
{
        struct play *play = *state;
        struct slot *slot = play_start(play, "train", GIB, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL, *at_once = NULL;

        assert_int_equal(wait_free(play, 300, 1000, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_TIMEOUT);
        assert_true(report->elapsed_ms >= 300);
        assert_true(is_alive(slot));
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 0);
        play->looks = 0;
        assert_int_equal(wait_free(play, 0, 1000, &at_once), 0);
        assert_int_equal(at_once->outcome, GPUFREE_TIMEOUT);
        assert_int_equal(play->looks, 1);
}

static void cancel_on_waiting(struct play *play, const struct gpufree_event *event)
{
        if (event->type == GPUFREE_EVENT_WAITING || event->type == GPUFREE_EVENT_MEMORY)
                assert_int_equal(eventfd_write(play->cancel, 1), 0);
}

static void a_cancel_ends_the_wait(void **state)
{
        struct play *play = *state;
        struct slot *slot = play_start(play, "train", GIB, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL;
        eventfd_t value;

        play->on_event = cancel_on_waiting;
        assert_int_equal(wait_free(play, GPUFREE_UNKNOWN, 1000, &report), -ECANCELED);
        assert_null(report);
        assert_int_equal(eventfd_read(play->cancel, &value), 0);
        slot->holds = false;
        play->residue = GIB;
        play->residue_ms = GPUFREE_UNKNOWN;
        assert_int_equal(wait_free(play, GPUFREE_UNKNOWN, GPUFREE_UNKNOWN, &report), -ECANCELED);
        assert_null(report);
}

static void memory_that_comes_late_is_waited_for(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->residue = 2 * GIB;
        play->residue_ms = 600;
        assert_int_equal(wait_free(play, PATIENCE_MS, PATIENCE_MS, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_true(play->events[GPUFREE_EVENT_MEMORY] >= 1);
}

static void memory_that_comes_after_the_short_wait_too(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->residue = 2 * GIB;
        play->residue_ms = 2600; /* later than the frequent questions */
        assert_int_equal(wait_free(play, PATIENCE_MS, PATIENCE_MS, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static void memory_that_never_comes_is_a_residue(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL, *early = NULL;

        play->residue = 2 * GIB;
        play->residue_ms = GPUFREE_UNKNOWN;
        assert_int_equal(wait_free(play, GPUFREE_UNKNOWN, 300, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_RESIDUE);
        assert_false(report->gpus.v[0].verified);
        /* The time was over before that could be known. */
        assert_int_equal(wait_free(play, 200, PATIENCE_MS, &early), 0);
        assert_int_equal(early->outcome, GPUFREE_TIMEOUT);
}

static void vouch_later(struct play *play, size_t look)
{
        if (look >= 3) {
                play->listed = 0;
                play->residue = 0;
        }
}

static void what_only_the_driver_sees_is_waited_for(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL, *in_vain = NULL;

        play->gap = true;
        play->listed = 1;
        play->residue = 2 * GIB;
        play->residue_ms = GPUFREE_UNKNOWN;
        assert_int_equal(wait_free(play, 300, 100, &in_vain), 0);
        assert_int_equal(in_vain->outcome, GPUFREE_TIMEOUT);
        play->looks = 0;
        play->on_look = vouch_later;
        assert_int_equal(wait_free(play, PATIENCE_MS, 100, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_int_equal(play->looks, 3);
}

static void what_cannot_be_known_is_not_waited_for(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL, *blind = NULL;

        play->gap = true;
        play->outside_init = true; /* the driver cannot vouch */
        assert_int_equal(wait_free(play, GPUFREE_UNKNOWN, 100, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_INCOMPLETE);
        play->gap = false;
        play->memory_unknown = true;
        assert_int_equal(wait_free(play, GPUFREE_UNKNOWN, 100, &blind), 0);
        assert_int_equal(blind->outcome, GPUFREE_INCOMPLETE);
}

static void a_look_that_fails_is_an_error(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->look_error = -EIO;
        assert_int_equal(wait_free(play, GPUFREE_UNKNOWN, 100, &report), -EIO);
        assert_null(report);
}

#define play_test(f) cmocka_unit_test_setup_teardown(f, play_setup, play_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                play_test(a_free_gpu_needs_one_look),
                play_test(returns_when_the_holder_ends),
                play_test(returns_when_the_holder_lets_go_and_lives),
                play_test(the_timeout_is_kept),
                play_test(a_cancel_ends_the_wait),
                play_test(memory_that_comes_late_is_waited_for),
                play_test(memory_that_comes_after_the_short_wait_too),
                play_test(memory_that_never_comes_is_a_residue),
                play_test(what_only_the_driver_sees_is_waited_for),
                play_test(what_cannot_be_known_is_not_waited_for),
                play_test(a_look_that_fails_is_an_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "../skip.h"
#include "play.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"

static bool says(const gf_strv *sentences, const char *part)
{
        for (size_t i = 0; i < sentences->n; i++)
                if (strstr(sentences->v[i], part))
                        return true;
        return false;
}

static void ends_a_plain_holder_by_term(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "train", 20 * GIB, part_plain);
        struct slot *bystander = play_start(play, "shell", 0, part_bystander);
        _cleanup_report_ struct gpufree_report *report = play_kill(play);

        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_false(is_alive(target));
        assert_true(is_alive(bystander));
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_int_equal(report->gpus.n, 1);
        assert_true(report->gpus.v[0].verified);
        assert_int_equal(report->gpus.v[0].used_before, 20 * GIB);
        assert_int_equal(report->gpus.v[0].used_after, 0);
        assert_string_equal(report->gpus.v[0].sentence,
                            "20.0 GiB came back, 0 B held, no holder found (every process looked at).");
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 1);
        assert_int_equal(play->events[GPUFREE_EVENT_GONE], 1);
        assert_int_equal(play->events[GPUFREE_EVENT_RESCAN], 2);
        assert_int_equal(play->sigkills, 0);
        assert_int_equal(play->looks, 2);
}

static void kills_who_ignores_term_after_the_grace(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "deaf", GIB, part_deaf);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->ladder.grace_ms = 200;
        report = play_kill(play);
        assert_fate(report, target, GPUFREE_FATE_KILLED);
        assert_true(fate_of(report, target)->elapsed_ms >= 200);
        assert_int_equal(play->sigkills, 1);
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static void force_kills_at_once(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "deaf", GIB, part_deaf);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->ladder.force = true;
        report = play_kill(play);
        assert_fate(report, target, GPUFREE_FATE_KILLED);
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 1);
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static void continues_the_stopped_so_that_term_arrives(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "stopped", GIB, part_stopped);
        _cleanup_report_ struct gpufree_report *report = play_kill(play);

        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 2); /* TERM, CONT */
        assert_int_equal(play->sigkills, 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static void ends_threads_behind_a_zombie_leader(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "headless", GIB, part_headless);
        _cleanup_report_ struct gpufree_report *report = play_kill(play);

        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_false(is_alive(target));
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static void never_signals_another_process_with_the_same_pid(void **state)
{
        struct play *play = *state;
        struct slot *bystander = play_start(play, "shell", GIB, part_plain);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;

        /* The plan is about an earlier process with this PID. */
        snapshot->holders.v[0].id.start_ticks--;
        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        bystander->holds = false;
        play->ladder.force = true;
        assert_int_equal(gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report), 0);
        assert_int_equal(report->fates.n, 1);
        assert_int_equal(report->fates.v[0].fate, GPUFREE_FATE_ALREADY_GONE);
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 0);
        assert_true(is_alive(bystander));
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static void never_signals_itself(void **state)
{
        struct play *play = *state;
        struct slot *own = slot_new(play->stage, "self", 0, GIB);
        _cleanup_report_ struct gpufree_report *report = NULL;

        slot_open(own);
        play->ladder.force = true;
        report = play_kill(play);
        own->pid = 0;
        assert_int_equal(report->fates.v[0].fate, GPUFREE_FATE_REFUSED);
        assert_int_equal(report->outcome, GPUFREE_REFUSED);
}

static void two_hundred_targets_and_thirty_two_descriptors(void **state)
{
        struct play *play = *state;
        struct slot *targets[200], *bystanders[20];
        _cleanup_report_ struct gpufree_report *report = NULL;
        struct rlimit before, small;

        for (size_t i = 0; i < ELEMENTSOF(targets); i++)
                targets[i] = play_start(play, "worker", 100 * MIB, i % 4 == 3 ? part_deaf : part_plain);
        for (size_t i = 0; i < ELEMENTSOF(bystanders); i++)
                bystanders[i] = play_start(play, "shell", 0, part_bystander);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        small = before;
        small.rlim_cur = 32;
        play->ladder.grace_ms = 500;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
        report = play_kill(play);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        for (size_t i = 0; i < ELEMENTSOF(targets); i++)
                assert_fate(report, targets[i], i % 4 == 3 ? GPUFREE_FATE_KILLED : GPUFREE_FATE_ENDED_BY_SIGNAL);
        for (size_t i = 0; i < ELEMENTSOF(bystanders); i++)
                assert_true(is_alive(bystanders[i]));
        assert_int_equal(report->outcome, GPUFREE_OK);
}

#define MOST_HOPS 400

/* Holds, forks a successor that holds, and exits: over and over. */
static void part_hopper(struct play *play, struct slot *slot)
{
        for (unsigned hop = 0;; hop++) {
                struct slot *next;

                slot_open(slot);
                usleep(3000);
                if (hop > MOST_HOPS)
                        _exit(0);
                next = slot_new(play->stage, slot->program, 0, slot->memory);
                if (fork() != 0)
                        _exit(0);
                alarm(60);
                slot = next;
        }
}

static void assert_nobody_but(const struct play *play, const struct slot *bystander)
{
        for (int i = 0; i < play->stage->used; i++)
                assert_true(&play->stage->slots[i] == bystander || !play->stage->slots[i].pid ||
                            !is_alive(&play->stage->slots[i]));
        assert_true(is_alive(bystander));
}

static void catches_who_forks_while_being_ended(void **state)
{
        struct play *play = *state;
        struct slot *bystander = play_start(play, "shell", 0, part_bystander);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->reap = true;
        play_start(play, "hopper", GIB, part_hopper);
        play_start(play, "hopper", GIB, part_hopper);
        report = play_kill(play);
        assert_int_equal(report->outcome, GPUFREE_OK);
        /* They were ended; they did not come to the end of their hops. */
        assert_true(play->stage->used < 2 * MOST_HOPS);
        assert_nobody_but(play, bystander);
}

/* A real look takes many hops: what it found has gone when it is over. */
static void slow_look(struct play *play, size_t look)
{
        (void)look;
        if (play->stage->used < 2 * MOST_HOPS)
                (void)poll(NULL, 0, 150);
}

static void catches_who_forks_faster_than_a_look(void **state)
{
        struct play *play = *state;
        struct slot *bystander = play_start(play, "hopper", 0, part_bystander);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;
        size_t killed = 0;

        play->real_exe = true;
        play->reap = true;
        play_start(play, "hopper", GIB, part_hopper);
        play_start(play, "hopper", GIB, part_hopper);
        snapshot = play_look(play);
        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        play->after_look = slow_look;
        slow_look(play, 0);
        assert_int_equal(gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report), 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
        for (size_t i = 0; i < report->fates.n; i++)
                killed += report->fates.v[i].fate == GPUFREE_FATE_KILLED;
        assert_true(killed >= 1);
        assert_true(play->stage->used < 2 * MOST_HOPS);
        assert_nobody_but(play, bystander);
}

/* A supervisor: holds nothing, and starts its program again whenever it ends. */
static void part_supervisor(struct play *play, struct slot *slot)
{
        atomic_store(&slot->holds, false);
        for (unsigned i = 0; i < 50; i++) {
                struct slot *child = slot_new(play->stage, "server", 0, GIB);
                pid_t pid = fork();

                if (pid == 0) {
                        (void)setpgid(0, 0);
                        alarm(60);
                        part_plain(play, child);
                }
                while (!atomic_load(&child->pid))
                        usleep(1000);
                if (i == 0)
                        slot_open(slot);
                (void)waitpid(pid, NULL, 0);
        }
}

/* The restart needs a moment; a look that comes before it is quiet, and the second one must not be. */
static void await_restart(struct play *play, size_t look)
{
        uint64_t deadline = gf_deadline_in(PATIENCE_MS);

        (void)look;
        for (;;) {
                bool any = false;

                for (int i = 0; i < play->stage->used; i++)
                        any = any || (play->stage->slots[i].holds && play->stage->slots[i].pid &&
                                      is_alive(&play->stage->slots[i]));
                if (any)
                        return;
                assert_true(gf_deadline_left(deadline) > 0);
                usleep(1000);
        }
}

static void names_the_respawner_after_two_restarts(void **state)
{
        struct play *play = *state;
        struct slot *supervisor = play_start(play, "supervisor", 0, part_supervisor);
        _cleanup_report_ struct gpufree_report *report = NULL;
        char part[64];
        size_t ended = 0, left = 0;

        play->on_look = await_restart;
        report = play_kill(play);
        for (size_t i = 0; i < report->fates.n; i++) {
                ended += report->fates.v[i].fate == GPUFREE_FATE_ENDED_BY_SIGNAL ||
                         report->fates.v[i].fate == GPUFREE_FATE_KILLED;
                left += report->fates.v[i].fate == GPUFREE_FATE_SURVIVED;
        }
        assert_int_equal(ended, 3);
        assert_int_equal(left, 1);
        assert_int_equal(report->outcome, GPUFREE_HELD);
        snprintf(part, sizeof(part), "Stop that first: kill %d", supervisor->pid);
        assert_non_null(strstr(report->fates.v[3].detail, part));
        assert_true(is_alive(supervisor));
}

static uint64_t gone_at, looked_at;

static void note_gone(struct play *play, const struct gpufree_event *event)
{
        (void)play;
        if (event->type == GPUFREE_EVENT_GONE)
                gone_at = gf_now_ms();
}

static void note_look(struct play *play, size_t look)
{
        (void)play;
        (void)look;
        looked_at = gf_now_ms();
}

static void leaves_a_supervisor_time_to_restart_before_the_last_look(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play_start(play, "serve", GIB, part_plain)->owner_kind = "unit";
        play->on_event = note_gone;
        play->on_look = note_look;
        report = play_kill(play);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_int_equal(play->looks, 2);
        assert_true(looked_at - gone_at >= 149);
}

/* Somebody else's on the GPU, and not everybody could be looked at: they may be among those that were asked about. */
static void with_a_gap_others_do_not_excuse_what_is_held(void **state)
{
        struct play *play = *state;
        struct slot *other = play_start(play, "other", 8 * GIB, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL;

        other->unselected = true;
        play->gap = true;
        play->listed = 1;
        report = play_kill(play);
        assert_int_equal(report->outcome, GPUFREE_INCOMPLETE);
        assert_false(report->gpus.v[0].verified);
}

static void start_stranger(struct play *play, size_t look)
{
        if (look == 1)
                play_start(play, "stranger", 2 * GIB, part_plain);
}

static void leaves_a_newcomer_that_is_no_kin(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "train", GIB, part_plain), *stranger;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->on_look = start_stranger;
        report = play_kill(play);
        stranger = &play->stage->slots[1];
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_fate(report, stranger, GPUFREE_FATE_NOT_IN_PLAN);
        assert_true(is_alive(stranger));
        assert_int_equal(report->outcome, GPUFREE_HELD);
        assert_false(report->gpus.v[0].verified);
        assert_int_equal(play->events[GPUFREE_EVENT_NEWCOMER], 1);
}

static void part_joins_group_of_first(struct play *play, struct slot *slot)
{
        (void)setpgid(0, play->stage->slots[0].pid);
        part_plain(play, slot);
}

static void start_kin(struct play *play, size_t look)
{
        if (look == 1)
                play_start(play, "train", 2 * GIB, part_joins_group_of_first);
}

static void ends_a_newcomer_of_the_same_process_group_and_program(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "train", GIB, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->on_look = start_kin;
        report = play_kill(play);
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_fate(report, &play->stage->slots[1], GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static void start_protected_kin(struct play *play, size_t look)
{
        start_kin(play, look);
        play->stage->slots[1].protected_why = "a service";
}

static void leaves_protected_kin(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play_start(play, "train", GIB, part_plain);
        play->on_look = start_protected_kin;
        report = play_kill(play);
        assert_fate(report, &play->stage->slots[1], GPUFREE_FATE_REFUSED);
        assert_true(is_alive(&play->stage->slots[1]));
        assert_int_equal(report->outcome, GPUFREE_REFUSED);
}

/* Forks data workers in groups of their own, which inherit what it holds: seen as open only while it lives. */
static void part_with_workers(struct play *play, struct slot *slot)
{
        for (int i = 0; i < 3; i++) {
                struct slot *worker = slot_new(play->stage, "worker", 0, 0);

                worker->unselected = true;
                if (fork() == 0) {
                        (void)setpgid(0, 0);
                        alarm(60);
                        part_plain(play, worker);
                }
                while (!atomic_load(&worker->pid))
                        usleep(1000);
        }
        part_plain(play, slot);
}

static void select_workers(struct play *play, size_t look)
{
        (void)look;
        for (int i = 1; i < play->stage->used; i++)
                play->stage->slots[i].unselected = false;
}

static void ends_the_forks_that_inherited_what_a_target_held(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "train", GIB, part_with_workers);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->on_look = select_workers;
        report = play_kill(play);
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        for (size_t i = 1; i <= 3; i++)
                assert_fate(report, &play->stage->slots[i], GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static void cancel_on_signal(struct play *play, const struct gpufree_event *event)
{
        if (event->type == GPUFREE_EVENT_SIGNALLED)
                assert_int_equal(eventfd_write(play->cancel, 1), 0);
}

static void a_cancel_ends_it_and_says_what_was_done(void **state)
{
        struct play *play = *state;
        struct slot *first = play_start(play, "deaf", GIB, part_deaf),
                    *second = play_start(play, "deaf", GIB, part_deaf);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->on_event = cancel_on_signal;
        report = play_kill(play);
        assert_fate(report, first, GPUFREE_FATE_SURVIVED);
        assert_fate(report, second, GPUFREE_FATE_SURVIVED);
        assert_non_null(strstr(fate_of(report, first)->detail, "signal 15 was sent"));
        assert_non_null(strstr(fate_of(report, second)->detail, "not signalled: interrupted"));
        assert_int_equal(report->outcome, GPUFREE_HELD);
        assert_true(says(&report->sentences, "Interrupted: 0 ended, 2 not"));
        assert_int_equal(play->sigkills, 0);
        assert_int_equal(play->looks, 0);
        assert_true(is_alive(first) && is_alive(second));
        assert_true(report->elapsed_ms < PATIENCE_MS);
}

static void the_time_for_the_whole_ends_it(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "deaf", GIB, part_deaf);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->ladder.timeout_ms = 300;
        report = play_kill(play);
        assert_fate(report, target, GPUFREE_FATE_SURVIVED);
        assert_int_equal(report->outcome, GPUFREE_TIMEOUT);
        assert_int_equal(play->sigkills, 0);
        assert_int_equal(play->events[GPUFREE_EVENT_SURVIVED], 1);
        assert_true(is_alive(target));
}

static void who_lets_go_is_not_killed(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "generous", GIB, part_generous);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->ladder.grace_ms = 300;
        report = play_kill(play);
        assert_fate(report, target, GPUFREE_FATE_LET_GO);
        assert_true(is_alive(target));
        assert_int_equal(target->terms, 1);
        assert_int_equal(play->sigkills, 0);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_true(report->gpus.v[0].verified);
}

static void who_let_go_before_is_not_signalled(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "train", GIB, part_plain);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;

        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        target->holds = false;
        assert_int_equal(gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report), 0);
        assert_fate(report, target, GPUFREE_FATE_LET_GO);
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 0);
        assert_true(is_alive(target));
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static int cannot_tell(void *userdata, const struct gpufree_holder *holder)
{
        (void)userdata;
        (void)holder;
        return -EACCES;
}

static void who_cannot_be_checked_is_not_signalled(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "train", GIB, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->eyes.still_holds = cannot_tell;
        play->ladder.force = true;
        report = play_kill(play);
        assert_fate(report, target, GPUFREE_FATE_REFUSED);
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 0);
        assert_int_equal(play->events[GPUFREE_EVENT_REFUSED], 1);
        assert_true(is_alive(target));
        assert_int_equal(report->outcome, GPUFREE_REFUSED);
}

static void memory_that_comes_late_is_waited_for(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play_start(play, "train", GIB, part_plain);
        play->residue = 4 * GIB;
        play->residue_ms = 700;
        play->ladder.settle_ms = PATIENCE_MS;
        report = play_kill(play);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_true(report->gpus.v[0].verified);
        assert_int_equal(report->gpus.v[0].used_after, 0);
        assert_true(play->events[GPUFREE_EVENT_MEMORY] >= 1);
        assert_true(play->memories >= 2);
}

/* The driver has no event: how soon it is noticed is how often it is asked. The best of some, as machines are busy. */
static void memory_that_came_is_noticed_soon(void **state)
{
        struct play *play = *state;
        uint64_t late = GPUFREE_UNKNOWN, back;

        for (int i = 0; i < 5 && (late == GPUFREE_UNKNOWN || late > 20); i++) {
                _cleanup_report_ struct gpufree_report *report = NULL;

                play_start(play, "train", GIB, part_plain);
                play->residue = 4 * GIB;
                play->residue_ms = 270;
                play->residue_seen = 0;
                play->memories = 0;
                play->ladder.settle_ms = PATIENCE_MS;
                report = play_kill(play);
                assert_int_equal(report->outcome, GPUFREE_OK);
                assert_true(report->timings.signalled <= report->timings.last_exit);
                assert_true(report->timings.last_exit <= report->timings.quiet);
                assert_true(report->timings.quiet <= report->timings.verified);
                assert_true(report->timings.verified != GPUFREE_UNKNOWN);
                assert_in_range(play->memories, 2, 100);
                back = play->residue_seen + play->residue_ms;
                assert_true(gf_now_ms() >= back);
                if (late > gf_now_ms() - back)
                        late = gf_now_ms() - back;
        }
        assert_in_range(late, 0, 20);
}

static void memory_that_never_comes_is_a_residue(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play_start(play, "train", GIB, part_plain);
        play->residue = 4 * GIB;
        play->residue_ms = GPUFREE_UNKNOWN;
        play->ladder.settle_ms = 200;
        report = play_kill(play);
        assert_int_equal(report->outcome, GPUFREE_RESIDUE);
        assert_false(report->gpus.v[0].verified);
        assert_string_equal(report->gpus.v[0].sentence,
                            "1.0 GiB came back, 4.0 GiB held and no holder found (every process looked at).");
        assert_true(says(&report->sentences, "gpufree explain --gpu 0"));
}

static void a_driver_that_fails_meanwhile_verifies_nothing(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play_start(play, "train", GIB, part_plain);
        play->residue = 4 * GIB;
        play->residue_ms = GPUFREE_UNKNOWN;
        play->memory_error = -ETIMEDOUT;
        report = play_kill(play);
        assert_int_equal(report->outcome, GPUFREE_INCOMPLETE);
        assert_false(report->gpus.v[0].verified);
}

static void a_gpu_without_a_figure(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "train", GPUFREE_UNKNOWN, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL, *other = NULL;

        play->memory_unknown = true;
        report = play_kill(play);
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->outcome, GPUFREE_INCOMPLETE); /* NVIDIA's driver has one */
        assert_false(report->gpus.v[0].verified);
        play->vendor = GPUFREE_VENDOR_AMD;
        other = play_kill(play);
        assert_int_equal(other->outcome, GPUFREE_OK);
        assert_false(other->gpus.v[0].verified);
        assert_non_null(strstr(other->gpus.v[0].sentence, "that look alone is the evidence"));
}

static void an_incomplete_look_is_not_free(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL, *vouched = NULL;

        play_start(play, "train", GIB, part_plain);
        play->gap = true;
        play->listed = 1;
        report = play_kill(play);
        assert_int_equal(report->outcome, GPUFREE_INCOMPLETE);
        assert_false(report->gpus.v[0].verified);
        assert_true(says(&report->sentences, "run as root"));
        play->listed = 0;
        vouched = play_kill(play);
        assert_int_equal(vouched->outcome, GPUFREE_OK);
        assert_true(vouched->gpus.v[0].verified);
        assert_non_null(strstr(vouched->gpus.v[0].sentence, "the driver lists no process there"));
}

static void a_look_that_fails_verifies_nothing(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "train", GIB, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->look_error = -EIO;
        report = play_kill(play);
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->outcome, GPUFREE_INCOMPLETE);
        assert_false(report->gpus.v[0].verified);
        assert_true(says(&report->sentences, "the play has no look"));
}

static void the_protected_are_left(void **state)
{
        struct play *play = *state;
        struct slot *service = slot_new(play->stage, "unused", 0, 0), *target;
        _cleanup_report_ struct gpufree_report *report = NULL;

        service = play_start(play, "hostengine", GIB, part_plain);
        service->protected_why = "a monitoring service";
        target = play_start(play, "train", 2 * GIB, part_plain);
        report = play_kill(play);
        assert_fate(report, service, GPUFREE_FATE_REFUSED);
        assert_non_null(strstr(fate_of(report, service)->detail, "a monitoring service; --include"));
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_true(is_alive(service));
        assert_int_equal(report->outcome, GPUFREE_REFUSED);
        assert_false(report->gpus.v[0].verified);
}

static void what_others_keep_is_no_residue(void **state)
{
        struct play *play = *state;
        struct slot *other = play_start(play, "other", 8 * GIB, part_plain);
        _cleanup_report_ struct gpufree_report *report = NULL;

        other->unselected = true;
        play_start(play, "train", 2 * GIB, part_plain);
        report = play_kill(play);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_true(report->gpus.v[0].verified);
        assert_non_null(strstr(report->gpus.v[0].sentence, "not selected, and by nobody else"));
        assert_true(is_alive(other));
}

static void with_nothing_to_end_the_memory_is_still_verified(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = play_kill(play), *held = NULL;

        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_true(report->gpus.v[0].verified);
        play->residue = 4 * GIB;
        play->residue_ms = GPUFREE_UNKNOWN;
        play->ladder.settle_ms = 50;
        held = play_kill(play);
        assert_int_equal(held->outcome, GPUFREE_RESIDUE);
}

static void a_gpu_that_is_lost_is_not_free(void **state)
{
        struct play *play = *state;
        _cleanup_report_ struct gpufree_report *report = NULL;

        play_start(play, "train", GIB, part_plain);
        play->lose_gpus = true;
        report = play_kill(play);
        assert_int_equal(report->outcome, GPUFREE_INCOMPLETE);
        assert_true(says(&report->sentences, "GPU 0 is no longer there"));
}

static void take_again(struct play *play, size_t look)
{
        (void)look;
        play->stage->slots[0].holds = true;
}

static void who_takes_it_again_and_again_is_named(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "generous", GIB, part_generous);
        _cleanup_report_ struct gpufree_report *report = NULL;

        play->ladder.grace_ms = 100;
        play->on_look = take_again;
        report = play_kill(play);
        assert_true(target->terms >= 1);
        assert_int_equal(report->outcome, is_alive(target) ? GPUFREE_HELD : GPUFREE_OK);
}

static void a_bystander_crowd_lives(void **state)
{
        struct play *play = *state;
        struct slot *targets[30], *crowd[60];
        _cleanup_report_ struct gpufree_report *report = NULL;

        for (size_t i = 0; i < ELEMENTSOF(crowd); i++) {
                /* Same program, same group as a target, and shown as holders that were not selected. */
                crowd[i] = play_start(play, "worker", MIB, i % 2 ? part_plain : part_bystander);
                crowd[i]->unselected = true;
                if (i % 2 == 0)
                        targets[i / 2] = play_start(play, "worker", MIB, part_plain);
        }
        play->ladder.force = true;
        report = play_kill(play);
        assert_int_equal(report->fates.n, ELEMENTSOF(targets));
        for (size_t i = 0; i < ELEMENTSOF(targets); i++)
                assert_fate(report, targets[i], GPUFREE_FATE_KILLED);
        for (size_t i = 0; i < ELEMENTSOF(crowd); i++)
                assert_true(is_alive(crowd[i]));
}

/* In a process of its own, without root: exit status 0 when all is as it should be. */
static int as_nobody(struct play *play, struct slot *target)
{
        _cleanup_report_ struct gpufree_report *report = NULL;
        const struct gf_fate_entry *entry;

        if (setgid(65534) < 0 || setuid(65534) < 0)
                return 77;
        report = play_kill(play);
        entry = fate_of(report, target);
        if (!entry || entry->fate != GPUFREE_FATE_REFUSED || entry->error != -EPERM)
                return 1;
        if (!strstr(entry->detail, "it belongs to root (uid 0)"))
                return 2;
        if (report->outcome != GPUFREE_REFUSED || play->events[GPUFREE_EVENT_REFUSED] != 1)
                return 3;
        return 0;
}

static void without_permission_it_says_whose_process_it_is(void **state)
{
        struct play *play = *state;
        struct slot *target;
        int status;
        pid_t pid;

        if (geteuid() != 0)
                skip_because("this machine does not let it be done");
        target = play_start(play, "train", GIB, part_plain);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(as_nobody(play, target));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip_because("this machine does not let it be done");
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_true(is_alive(target));
}

#define FREEZER "/sys/fs/cgroup/freezer"

static bool write_text(const char *dir, const char *file, const char *text)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%s", dir, file);
        FILE *f = path ? fopen(path, "we") : NULL;
        bool written = f && fputs(text, f) >= 0;

        return f && fclose(f) == 0 && written;
}

/* A frozen process is in state D and does not act on SIGKILL: as one that waits for a driver that hangs. */
static void who_survives_sigkill_is_described(void **state)
{
        struct play *play = *state;
        _cleanup_free_ char *dir = gf_asprintf(FREEZER "/gpufree-test-%d", (int)getpid()), *pid = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;
        const struct gf_fate_entry *entry;
        struct slot *target;
        bool frozen;

        if (!dir || mkdir(dir, 0700) < 0)
                skip_because("there is no freezer here");
        target = play_start(play, "stuck", GIB, part_plain);
        pid = gf_asprintf("%d", target->pid);
        frozen = write_text(dir, "cgroup.procs", pid ? pid : "") && write_text(dir, "freezer.state", "FROZEN");
        play->ladder.grace_ms = 100;
        play->ladder.timeout_ms = 1500;
        if (frozen)
                report = play_kill(play);
        /* Before anything is asserted: a frozen process could not be cleaned up. */
        (void)write_text(dir, "freezer.state", "THAWED");
        if (frozen)
                await_death(target);
        else
                (void)write_text(FREEZER, "cgroup.procs", pid ? pid : "");
        (void)rmdir(dir);
        if (!report)
                skip_because("there is no freezer here");
        entry = fate_of(report, target);
        assert_non_null(entry);
        assert_int_equal(entry->fate, GPUFREE_FATE_SURVIVED);
        assert_non_null(strstr(entry->detail, "(state D)"));
        assert_non_null(strstr(entry->detail, "SIGKILL is pending"));
        assert_non_null(strstr(entry->detail, "reboot"));
        assert_int_equal(report->outcome, GPUFREE_HELD); /* not a timeout: everything was done */
        assert_int_equal(play->sigkills, 1);
        assert_int_equal(play->events[GPUFREE_EVENT_SURVIVED], 1);
        assert_true(play->events[GPUFREE_EVENT_WAITING] >= 1);
}

/* A kernel, or a filter, that knows no pidfds. */
static bool forbid_pidfd_open(void)
{
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 434, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = ELEMENTSOF(code), .filter = code };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int without_pidfds(struct play *play)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;

        if (gf_plan_make(snapshot, &plan) < 0 || plan->targets.n != 1)
                return 1;
        if (!forbid_pidfd_open())
                return 77;
        if (gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report) != -ENOSYS)
                return 2;
        if (!play->env.error || !strstr(play->env.error, "this kernel has no pidfds"))
                return 3;
        return play->events[GPUFREE_EVENT_SIGNALLED] == 0 ? 0 : 4;
}

static void without_pidfds_nobody_is_signalled(void **state)
{
        struct play *play = *state;
        struct slot *target = play_start(play, "train", GIB, part_plain);
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
                _exit(without_pidfds(play));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip_because("this machine does not let it be done");
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_true(is_alive(target));
}

static void a_signal_that_is_none_is_refused(void **state)
{
        struct play *play = *state;
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;

        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        play->ladder.signal = 0;
        assert_int_equal(gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report), -EINVAL);
        play->ladder.signal = 1000;
        assert_int_equal(gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report), -EINVAL);
        assert_null(report);
}

#define play_test(f) cmocka_unit_test_setup_teardown(f, play_setup, play_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                play_test(ends_a_plain_holder_by_term),
                play_test(kills_who_ignores_term_after_the_grace),
                play_test(force_kills_at_once),
                play_test(continues_the_stopped_so_that_term_arrives),
                play_test(ends_threads_behind_a_zombie_leader),
                play_test(never_signals_another_process_with_the_same_pid),
                play_test(never_signals_itself),
                play_test(two_hundred_targets_and_thirty_two_descriptors),
                play_test(catches_who_forks_while_being_ended),
                play_test(catches_who_forks_faster_than_a_look),
                play_test(names_the_respawner_after_two_restarts),
                play_test(leaves_a_supervisor_time_to_restart_before_the_last_look),
                play_test(leaves_a_newcomer_that_is_no_kin),
                play_test(ends_a_newcomer_of_the_same_process_group_and_program),
                play_test(leaves_protected_kin),
                play_test(ends_the_forks_that_inherited_what_a_target_held),
                play_test(a_cancel_ends_it_and_says_what_was_done),
                play_test(the_time_for_the_whole_ends_it),
                play_test(who_lets_go_is_not_killed),
                play_test(who_let_go_before_is_not_signalled),
                play_test(who_cannot_be_checked_is_not_signalled),
                play_test(memory_that_comes_late_is_waited_for),
                play_test(memory_that_came_is_noticed_soon),
                play_test(memory_that_never_comes_is_a_residue),
                play_test(a_driver_that_fails_meanwhile_verifies_nothing),
                play_test(a_gpu_without_a_figure),
                play_test(an_incomplete_look_is_not_free),
                play_test(a_look_that_fails_verifies_nothing),
                play_test(the_protected_are_left),
                play_test(what_others_keep_is_no_residue),
                play_test(with_a_gap_others_do_not_excuse_what_is_held),
                play_test(with_nothing_to_end_the_memory_is_still_verified),
                play_test(a_gpu_that_is_lost_is_not_free),
                play_test(who_takes_it_again_and_again_is_named),
                play_test(a_bystander_crowd_lives),
                play_test(without_permission_it_says_whose_process_it_is),
                play_test(who_survives_sigkill_is_described),
                play_test(without_pidfds_nobody_is_signalled),
                play_test(a_signal_that_is_none_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

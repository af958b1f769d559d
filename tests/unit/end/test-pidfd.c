/* SPDX-License-Identifier: MIT */
#include "../skip.h"
#include "play.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidwait.h"

static void pins_signals_and_sees_the_end(void **state)
{
        struct play *play = *state;
        struct slot *slot = play_start(play, "x", 0, part_plain);
        struct gf_ident id = { slot->pid, slot->start_ticks };
        _cleanup_close_ int fd = gf_pidfd_pin(&play->env, &id);

        assert_true(fd >= 0);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(gf_pidfd_ended(fd), 0);
        assert_int_equal(gf_pidfd_signal(fd, SIGKILL), 0);
        assert_int_equal(gf_pidfds_wait(&fd, 1, gf_deadline_in(PATIENCE_MS), -1), 1);
        assert_int_equal(gf_pidfd_ended(fd), 1);
        assert_int_equal(waitpid(slot->pid, NULL, 0), slot->pid);
        assert_int_equal(gf_pidfd_ended(fd), 1);
        assert_int_equal(gf_pidfd_signal(fd, SIGKILL), -ESRCH);
        assert_int_equal(gf_pidfd_pin(&play->env, &id), -ESRCH);
}

static void another_start_time_is_another_process(void **state)
{
        struct play *play = *state;
        struct slot *slot = play_start(play, "x", 0, part_plain);

        assert_int_equal(gf_pidfd_pin(&play->env, &(struct gf_ident){ slot->pid, slot->start_ticks + 1 }), -ESRCH);
        assert_int_equal(gf_pidfd_pin(&play->env, &(struct gf_ident){ slot->pid, slot->start_ticks - 1 }), -ESRCH);
        assert_int_equal(gf_pidfd_pin(&play->env, &(struct gf_ident){ slot->pid, 0 }), -EINVAL);
        assert_int_equal(gf_pidfd_pin(&play->env, &(struct gf_ident){ 0, slot->start_ticks }), -EINVAL);
        assert_int_equal(gf_pidfd_pin(&play->env, &(struct gf_ident){ -1, slot->start_ticks }), -EINVAL);
        assert_true(is_alive(slot));
}

static void a_zombie_leader_lives_as_long_as_its_threads(void **state)
{
        struct play *play = *state;
        struct slot *slot = play_start(play, "x", 0, part_headless);
        _cleanup_close_ int fd = gf_pidfd_pin(&play->env, &(struct gf_ident){ slot->pid, slot->start_ticks });

        assert_true(fd >= 0);
        assert_int_equal(gf_pidfd_ended(fd), 0);
        assert_int_equal(gf_pidfd_signal(fd, SIGTERM), 0);
        assert_int_equal(gf_pidfds_wait(&fd, 1, gf_deadline_in(PATIENCE_MS), -1), 1);
        assert_int_equal(gf_pidfd_ended(fd), 1);
}

/* In a PID namespace of its own under the /proc of the outer one: PID 1 there is not PID 1 here. */
static int inside(struct play *play, uint64_t outer_init)
{
        struct gf_ident id = { 1, outer_init };
        int fd = gf_pidfd_pin(&play->env, &id);

        return fd == -EXDEV ? 0 : 1;
}

static void a_proc_of_another_namespace_pins_nobody(void **state)
{
        struct play *play = *state;
        uint64_t outer_init = start_ticks_of(1);
        int status;
        pid_t pid;

        /* PID 1 of a machine may have started at tick 0, which is no start time to pin by. */
        if (outer_init == 0)
                skip_because("this machine does not let it be done");
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                pid_t init;

                if (unshare(CLONE_NEWPID) < 0)
                        _exit(77);
                init = fork();
                if (init == 0)
                        _exit(inside(play, outer_init));
                if (init < 0 || waitpid(init, &status, 0) != init)
                        _exit(78);
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 79);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip_because("this machine does not let it be done");
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void waits_for_a_cancel_and_for_a_deadline(void **state)
{
        struct play *play = *state;
        struct slot *slot = play_start(play, "x", 0, part_plain);
        _cleanup_close_ int fd = gf_pidfd_pin(&play->env, &(struct gf_ident){ slot->pid, slot->start_ticks });

        assert_int_equal(gf_pidfds_wait(&fd, 1, gf_deadline_in(20), play->cancel), 0);
        assert_int_equal(gf_cancelled(play->cancel), 0);
        assert_int_equal(eventfd_write(play->cancel, 1), 0);
        assert_int_equal(gf_pidfds_wait(&fd, 1, GPUFREE_UNKNOWN, play->cancel), -ECANCELED);
        assert_int_equal(gf_cancelled(play->cancel), 1);
        assert_int_equal(gf_cancelled(-1), 0);
        assert_true(gf_descriptor_room() >= 1);
}

#define play_test(f) cmocka_unit_test_setup_teardown(f, play_setup, play_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                play_test(pins_signals_and_sees_the_end),
                play_test(another_start_time_is_another_process),
                play_test(a_zombie_leader_lives_as_long_as_its_threads),
                play_test(a_proc_of_another_namespace_pins_nobody),
                play_test(waits_for_a_cancel_and_for_a_deadline),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The story of real processes: one that sleeps, one that is stopped with a signal waiting, one that is not there. */
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "explain/story.h"
#include "sys/pidstat.h"

struct child {
        pid_t pid;
        struct gf_env env;
        struct gpufree_snapshot *snapshot;
};

static int setup(void **state)
{
        struct child *c = must(calloc(1, sizeof(*c)));
        int fds[2];
        char byte;

        assert_int_equal(pipe(fds), 0);
        c->pid = fork();
        assert_true(c->pid >= 0);
        if (c->pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (write(fds[1], "x", 1) != 1)
                        _exit(1);
                for (;;)
                        (void)pause();
        }
        assert_int_equal(read(fds[0], &byte, 1), 1);
        (void)close(fds[0]);
        (void)close(fds[1]);
        gf_env_init(&c->env);
        assert_int_equal(gf_env_defaults(&c->env), 0);
        c->snapshot = must(calloc(1, sizeof(*c->snapshot)));
        c->snapshot->refs = 1;
        *state = c;
        return 0;
}

static int teardown(void **state)
{
        struct child *c = *state;

        if (c->pid > 0) {
                (void)kill(c->pid, SIGKILL);
                (void)waitpid(c->pid, NULL, 0);
        }
        gpufree_snapshot_unref(c->snapshot);
        gf_env_done(&c->env);
        free(c);
        return 0;
}

static struct gpufree_story *story_of(struct child *c, pid_t pid)
{
        struct gf_stop stop = { .again = GF_AGAIN_NO };
        struct gpufree_story *story = NULL;

        assert_int_equal(gf_story_read(&c->env, c->snapshot, pid, &story), 0);
        assert_int_equal(gf_story_tell(story, &stop), 0);
        return story;
}

static bool says(const struct gpufree_story *story, const char *topic, const char *text)
{
        for (size_t i = 0; i < story->lines.n; i++)
                if (strcmp(story->lines.v[i].topic, topic) == 0 && strstr(story->lines.v[i].sentence, text))
                        return true;
        return false;
}

static void a_process_that_holds_nothing_has_a_story(void **state)
{
        struct child *c = *state;
        struct gpufree_story *story = story_of(c, c->pid);

        assert_int_equal(story->process->id.pid, c->pid);
        assert_int_equal(story->threads.n, 1);
        assert_int_equal(story->threads.list.v[0].tid, c->pid);
        assert_true(says(story, "holds", "no GPU device"));
        assert_true(says(story, "signals", "none"));
        assert_true(says(story, "restart", "nothing is known"));
        assert_int_equal(story->threads.pending, 0);
        assert_false(says(story, "next", "gpufree")); /* there is nothing to free */
        gpufree_story_unref(story);
}

static void a_stopped_one_with_a_signal_waiting(void **state)
{
        struct child *c = *state;
        struct gpufree_story *story;
        siginfo_t info;

        assert_int_equal(kill(c->pid, SIGSTOP), 0);
        assert_int_equal(waitid(P_PID, (id_t)c->pid, &info, WSTOPPED), 0);
        assert_int_equal(kill(c->pid, SIGTERM), 0);
        story = story_of(c, c->pid);
        assert_true(says(story, "state", "is stopped"));
        assert_true(says(story, "signals", "SIGTERM sent and not yet taken"));
        assert_true(says(story, "signals", "once it is continued"));
        assert_int_equal(story->threads.pending, 1ULL << (SIGTERM - 1));
        gpufree_story_unref(story);
}

static void parents_name_their_children(void **state)
{
        struct child *c = *state;
        struct gpufree_story *story = story_of(c, getpid());
        bool found = false;

        for (size_t i = 0; i < story->children.n; i++)
                found = found || story->children.v[i] == c->pid;
        assert_true(found);
        gpufree_story_unref(story);
}

static void one_that_has_ended_has_none(void **state)
{
        struct child *c = *state;
        struct gpufree_story *story = NULL;
        pid_t pid = c->pid;

        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        c->pid = 0;
        assert_int_equal(gf_story_read(&c->env, c->snapshot, pid, &story), -ESRCH);
        assert_null(story);
}

/* What a hung process would look like, from what was read. */
static void one_stuck_in_the_driver_is_told(void **state)
{
        const uint64_t used[] = { 4 * GIB };
        struct world w = world_make(1, used);
        struct gpufree_story story = { 0 };
        struct gf_story_thread *thread = must(gf_vec_add(&story.threads.list));
        struct gf_stop stop = { .again = GF_AGAIN_UNKNOWN };

        (void)state;
        world_cuda(&w, 100, "python", 0);
        world_listed(&w, 0, 100, 4 * GIB, GF_LIST_COMPUTE);
        assert_int_equal(gf_attribute(w.s), 0);
        story.snapshot = w.s;
        story.process = world_get(&w, 100);
        *thread = (struct gf_story_thread){ .tid = 100, .state = 'D', .wchan = "nv_wait", .stack = strdup("a < b") };
        story.threads.n = 1;
        story.threads.states['D'] = 1;
        story.threads.pending = 1ULL << (SIGKILL - 1);
        assert_int_equal(gf_story_tell(&story, &stop), 0);
        assert_true(says(&story, "holds", "4.0 GiB on GPU 0 through /dev/nvidia0 (20 descriptors, 31 mappings)"));
        assert_true(says(&story, "state", "takes no signal"));
        assert_true(says(&story, "threads", "waiting in nv_wait ×1"));
        assert_true(says(&story, "threads", "a < b"));
        assert_true(says(&story, "signals", "only a reset of the GPU or a reboot"));
        assert_true(says(&story, "next", "gpufree check --for reset --gpu 0"));
        for (size_t i = 0; i < story.lines.n; i++)
                free(story.lines.v[i].sentence);
        gf_vec_done(&story.lines);
        gf_story_threads_done(&story.threads);
        world_end(&w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(a_process_that_holds_nothing_has_a_story),
                TEST(a_stopped_one_with_a_signal_waiting),
                TEST(parents_name_their_children),
                TEST(one_that_has_ended_has_none),
                TEST(one_stuck_in_the_driver_is_told),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

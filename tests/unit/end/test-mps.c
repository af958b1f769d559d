/* SPDX-License-Identifier: MIT */
/*
 * A client of the Multi-Process Service: its server is told by the control daemon's own program, here a script that
 * notes what it is told, before the client gets a signal.
 */
#include "play.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/procfs.h"

#define CONTROL "nvidia-cuda-mps-control"

static char directory[] = "/tmp/gpufree-mps-XXXXXX";

static const char control_text[] = "#!/bin/sh\n"
                                   "read -r line\n"
                                   "cd \"$CUDA_MPS_PIPE_DIRECTORY\" || exit 1\n"
                                   "echo \"$line\" >>log\n"
                                   "case \"$line\" in\n"
                                   "get_server_list) [ ! -e hangs ] || sleep 1000; echo 4711 ;;\n"
                                   "\"get_client_list 4711\") cat clients ;;\n"
                                   "\"terminate_client 4711 \"*) [ ! -e fails ] || { echo no; exit 3; }\n"
                                   "        kill -0 \"${line##* }\" && echo lives >>log ;;\n"
                                   "*) exit 1 ;;\n"
                                   "esac\n";

static void put(const char *name, const char *text)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%s", directory, name);
        _cleanup_close_ int fd = -1;

        assert_non_null(path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void drop(const char *name)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%s", directory, name);

        assert_non_null(path);
        (void)unlink(path);
}

/* What the program was told; "" nothing. */
static char *told(void)
{
        _cleanup_free_ char *path = gf_asprintf("%s/log", directory);
        char *text = NULL;

        assert_non_null(path);
        if (gf_read_file(AT_FDCWD, path, 65536, &text, NULL) < 0)
                text = strdup("");
        return text;
}

/* Runs something else that only waits, with a daemon's environment: that is what is read of it. */
static void part_daemon(struct play *play, struct slot *slot)
{
        char variable[64];
        char *const argv[] = { (char *)(uintptr_t)CONTROL, (char *)(uintptr_t) "100000", NULL };
        char *const envp[] = { variable, NULL };

        (void)play;
        (void)snprintf(variable, sizeof(variable), "CUDA_MPS_PIPE_DIRECTORY=%s", directory);
        atomic_store(&slot->unselected, true);
        slot->gpu = -1;
        slot_open(slot);
        (void)execve("/bin/sleep", argv, envp);
        _exit(127);
}

static bool runs_sleep(const struct slot *slot)
{
        _cleanup_free_ char *path = gf_asprintf("/proc/%d/comm", (int)slot->pid), *text = NULL;

        return path && gf_read_file(AT_FDCWD, path, 64, &text, NULL) == 0 && strcmp(text, "sleep\n") == 0;
}

static struct slot *start_daemon(struct play *play)
{
        struct slot *slot = play_start(play, CONTROL, 0, part_daemon);
        uint64_t deadline = gf_deadline_in(PATIENCE_MS);

        while (!runs_sleep(slot)) {
                assert_true(gf_deadline_left(deadline) > 0);
                (void)poll(NULL, 0, 1);
        }
        return slot;
}

/* A look in which the driver lists `client` as one of the Multi-Process Service. */
static struct gpufree_snapshot *look(struct play *play, const struct slot *client)
{
        struct gpufree_snapshot *snapshot = play_look(play);
        struct gf_driver_gpu *gpu = must_add(&snapshot->driver.gpus);
        struct stat st;

        *gpu = (struct gf_driver_gpu){ .lists_ok = true };
        *must_add(&gpu->processes) = (struct gf_driver_process){ .pid = client ? client->pid : 1,
                                                                 .lists = GF_LIST_COMPUTE | GF_LIST_MPS };
        assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
        for (size_t i = 0; i < snapshot->holders.n; i++)
                snapshot->holders.v[i].facts.pidns = st.st_ino;
        return snapshot;
}

static struct gpufree_report *execute(struct play *play, struct gpufree_snapshot *snapshot)
{
        static const char *const dirs[] = { directory, NULL };
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        struct gpufree_report *report = NULL;

        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        play->eyes.program_dirs = dirs;
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

static void list_clients(const struct slot *a, const struct slot *b)
{
        _cleanup_free_ char *text = b ? gf_asprintf("%d\n%d\n", (int)a->pid, (int)b->pid)
                                      : gf_asprintf("%d\n", (int)a->pid);

        assert_non_null(text);
        put("clients", text);
}

static void the_server_is_told_before_the_client_gets_a_signal(void **state)
{
        struct play *play = *state;
        struct slot *daemon = start_daemon(play), *target = play_start(play, "train", GIB, part_plain),
                    *other = play_start(play, "other", 0, part_bystander);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = look(play, target);
        _cleanup_report_ struct gpufree_report *report = NULL;
        _cleanup_free_ char *text = NULL, *expected = NULL;

        list_clients(other, target);
        report = execute(play, snapshot);
        text = told();
        expected = gf_asprintf("get_server_list\nget_client_list 4711\nterminate_client 4711 %d\nlives\n",
                               (int)target->pid);
        assert_string_equal(text, expected);
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_int_equal(report->stops.n, 1);
        assert_int_equal(report->stops.v[0].outcome, GPUFREE_STOP_DONE);
        assert_int_equal(play->events[GPUFREE_EVENT_STOPPED], 1);
        assert_true(is_alive(other) && is_alive(daemon));
}

static void with_force_too(void **state)
{
        struct play *play = *state;
        struct slot *target, *daemon = start_daemon(play);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;
        _cleanup_free_ char *text = NULL;

        target = play_start(play, "train", GIB, part_deaf);
        snapshot = look(play, target);
        list_clients(target, NULL);
        play->ladder.force = true;
        report = execute(play, snapshot);
        text = told();
        assert_non_null(strstr(text, "lives\n"));
        assert_fate(report, target, GPUFREE_FATE_KILLED);
        assert_true(is_alive(daemon));
}

static void who_is_no_client_needs_nobody_told(void **state)
{
        struct play *play = *state;
        struct slot *target, *daemon = start_daemon(play);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;
        _cleanup_free_ char *text = NULL;

        target = play_start(play, "train", GIB, part_plain);
        snapshot = look(play, NULL);
        list_clients(target, NULL);
        report = execute(play, snapshot);
        text = told();
        assert_string_equal(text, "");
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->sentences.n, 0);
        assert_true(is_alive(daemon));
}

static void only_a_client_that_the_daemon_lists_is_terminated(void **state)
{
        struct play *play = *state;
        struct slot *target, *daemon = start_daemon(play);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;
        _cleanup_free_ char *text = NULL;

        target = play_start(play, "train", GIB, part_plain);
        snapshot = look(play, target);
        list_clients(daemon, NULL);
        report = execute(play, snapshot);
        text = told();
        assert_string_equal(text, "get_server_list\nget_client_list 4711\n");
        assert_true(says(&report->sentences, "could not be asked"));
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->outcome, GPUFREE_OK);
}

static void a_daemon_of_another_namespace_is_not_asked(void **state)
{
        struct play *play = *state;
        struct slot *target, *daemon = start_daemon(play);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;
        _cleanup_free_ char *text = NULL;

        target = play_start(play, "train", GIB, part_plain);
        snapshot = look(play, target);
        list_clients(target, NULL);
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (snapshot->holders.v[i].id.pid == daemon->pid)
                        snapshot->holders.v[i].facts.pidns++;
        report = execute(play, snapshot);
        text = told();
        assert_string_equal(text, "");
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_true(says(&report->sentences, "could not be asked"));
}

static void a_daemon_that_hangs_is_given_up_in_time(void **state)
{
        struct play *play = *state;
        struct slot *target, *daemon = start_daemon(play);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;

        target = play_start(play, "train", GIB, part_plain);
        snapshot = look(play, target);
        list_clients(target, NULL);
        put("hangs", "");
        play->ladder.timeout_ms = 4000;
        report = execute(play, snapshot);
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_true(says(&report->sentences, "could not be asked"));
        assert_int_equal(report->outcome, GPUFREE_OK);
        assert_true(is_alive(daemon));
}

static void a_refusal_is_told_and_the_ladder_goes_on(void **state)
{
        struct play *play = *state;
        struct slot *target, *daemon = start_daemon(play);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;

        target = play_start(play, "train", GIB, part_plain);
        snapshot = look(play, target);
        list_clients(target, NULL);
        put("fails", "");
        report = execute(play, snapshot);
        assert_fate(report, target, GPUFREE_FATE_ENDED_BY_SIGNAL);
        assert_int_equal(report->stops.v[0].outcome, GPUFREE_STOP_FAILED);
        assert_int_equal(report->stops.v[0].status, 3);
        assert_true(says(&report->sentences, "failed; its server's other clients may fail"));
        assert_true(is_alive(daemon));
}

static void a_cancel_ends_the_waiting(void **state)
{
        struct play *play = *state;
        struct slot *target, *daemon = start_daemon(play);
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ struct gpufree_report *report = NULL;
        uint64_t one = 1, begin = gf_now_ms();

        target = play_start(play, "train", GIB, part_plain);
        snapshot = look(play, target);
        list_clients(target, NULL);
        put("hangs", "");
        assert_int_equal(write(play->cancel, &one, sizeof(one)), (ssize_t)sizeof(one));
        report = execute(play, snapshot);
        assert_int_equal(report->outcome, GPUFREE_HELD);
        assert_int_equal(play->events[GPUFREE_EVENT_SIGNALLED], 0);
        assert_true(is_alive(target) && is_alive(daemon));
        assert_in_range(gf_now_ms() - begin, 0, PATIENCE_MS);
}

static int set_up(void **state)
{
        drop("log");
        drop("hangs");
        drop("fails");
        return play_setup(state);
}

#define play_test(f) cmocka_unit_test_setup_teardown(f, set_up, play_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                play_test(the_server_is_told_before_the_client_gets_a_signal),
                play_test(with_force_too),
                play_test(who_is_no_client_needs_nobody_told),
                play_test(only_a_client_that_the_daemon_lists_is_terminated),
                play_test(a_daemon_of_another_namespace_is_not_asked),
                play_test(a_daemon_that_hangs_is_given_up_in_time),
                play_test(a_refusal_is_told_and_the_ladder_goes_on),
                play_test(a_cancel_ends_the_waiting),
        };
        static const char *const files[] = { CONTROL, "clients", "log", "hangs", "fails" };
        int r;

        if (geteuid() != 0) {
                puts("1..0 # SKIP needs root: a program that is to be trusted must be root's");
                return 0;
        }
        if (!mkdtemp(directory))
                return 1;
        put(CONTROL, control_text);
        r = cmocka_run_group_tests_name("end-mps", tests, NULL, NULL);
        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                drop(files[i]);
        (void)rmdir(directory);
        return r;
}

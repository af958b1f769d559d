/* SPDX-License-Identifier: MIT */
#include "tree.h"

#include "end/owner_stop.h"
#include "owner/restart.h"
#include "sys/command.h"

#define USER_SLICE "/user.slice/user-1000.slice/user@1000.service"

static void find(struct tree *t, const char *path, uint32_t me, struct gf_stop *ret)
{
        struct gpufree_holder h;

        tree_holder(&h, path);
        assert_int_equal(gf_stop_find_in(&t->env, &t->places, me, &h, ret), 0);
        gf_holder_done(&h);
}

static void the_proper_stop_of_each_owner(void **state)
{
        static const struct {
                const char *path, *command; /* NULL: none is run */
                enum gf_again again;
        } table[] = {
                { "/system.slice/docker-" ID ".scope", "docker stop " ID, GF_AGAIN_UNKNOWN },
                { "/machine.slice/libpod-" ID ".scope/container", "podman stop " ID, GF_AGAIN_UNKNOWN },
                /* Quadlet: the unit starts it again, so the unit is stopped */
                { "/system.slice/vllm.service/libpod-payload-" ID, "systemctl stop -- vllm.service", GF_AGAIN_YES },
                { "/system.slice/nerdctl-" ID ".scope", "nerdctl stop " ID, GF_AGAIN_UNKNOWN },
                { "/kubepods/burstable/pod" UID "/" ID, "kubectl -n prod delete pod vllm-0", GF_AGAIN_YES },
                { "/kubepods/burstable/pod00000000-5391-454b-88cb-86190881cb96/" ID, NULL, GF_AGAIN_YES },
                { "/lxc.payload.c129", "lxc-stop -n c129", GF_AGAIN_NO },
                { "/lxc.payload.in/x", "incus stop -- in", GF_AGAIN_UNKNOWN },
                { "/lxc/101/ns", "pct shutdown 101", GF_AGAIN_UNKNOWN },
                { "/qemu.slice/101.scope", "qm shutdown 101", GF_AGAIN_UNKNOWN },
                { "/machine.slice/machine-qemu\\x2d1\\x2dvm1.scope", "virsh -c qemu:///system shutdown vm1",
                  GF_AGAIN_UNKNOWN },
                { "/machine.slice/machine-box.scope/payload", "machinectl poweroff -- box", GF_AGAIN_NO },
                { "/system.slice/vllm.service", "systemctl stop -- vllm.service", GF_AGAIN_YES },
                { "/system.slice/failing.service", "systemctl stop -- failing.service", GF_AGAIN_ON_KILL },
                { "/system.slice/once.service", "systemctl stop -- once.service", GF_AGAIN_NO },
                { "/system.slice/unseen.service", "systemctl stop -- unseen.service", GF_AGAIN_UNKNOWN },
                { "/system.slice/system-w.slice/w@3.service", "systemctl stop -- w@3.service", GF_AGAIN_YES },
                { "/system.slice/run-u7.scope", "systemctl stop -- run-u7.scope", GF_AGAIN_NO },
                { "/user.slice/user-1000.slice/session-3.scope", "loginctl terminate-session 3", GF_AGAIN_NO },
                { USER_SLICE "/app.slice/mine.service", "systemctl --user -M alice@.host stop -- mine.service",
                  GF_AGAIN_UNKNOWN },
                { "/slurm/uid_1000/job_77/step_0/task_0", "scancel 77.0", GF_AGAIN_NO },
                { "/system.slice/slurmstepd.scope/job_77/step_batch/user/task_0", "scancel 77", GF_AGAIN_NO },
                { "/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0", NULL, GF_AGAIN_UNKNOWN },
                { "/htcondor/condor_x_slot1", NULL, GF_AGAIN_YES },
                { "/nomad.slice/share.slice/5456bd7a-9fc0-c0dd-6131-cbee77f57577.t.scope",
                  "nomad alloc stop 5456bd7a-9fc0-c0dd-6131-cbee77f57577", GF_AGAIN_YES },
                { "/byhand", "runc kill byhand TERM", GF_AGAIN_NO },
                { "/some/where", NULL, GF_AGAIN_UNKNOWN },
                { "/", NULL, GF_AGAIN_UNKNOWN },
        };
        struct tree *t = *state;

        tree_put(t, "/etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n");
        tree_put(t, "/var/log/pods/prod_vllm-0_" UID "/x", "");
        tree_put(t, "/var/lib/incus/containers/in/x", "");
        tree_put(t, "/run/runc/byhand/state.json", "{}");
        tree_put(t, "/etc/systemd/system/vllm.service", "[Service]\nRestart=always\n");
        tree_put(t, "/usr/lib/systemd/system/failing.service", "[Service]\nRestart=on-failure\n");
        tree_put(t, "/usr/lib/systemd/system/once.service", "[Service]\nExecStart=/bin/true\n");
        tree_put(t, "/usr/lib/systemd/system/w@.service", "[Service]\nRestart=on-success\n");
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                struct gf_stop stop;
                _cleanup_free_ char *got = NULL;

                find(t, table[i].path, 0, &stop);
                got = stop.argv.n > 0 ? gf_shell_quote(&stop.argv) : NULL;
                if (!gf_streq(got, table[i].command))
                        fail_msg("%s: \"%s\", not \"%s\"", table[i].path, got ? got : "(none)",
                                 table[i].command ? table[i].command : "(none)");
                if (stop.again != table[i].again)
                        fail_msg("%s: again is %d, not %d", table[i].path, stop.again, table[i].again);
                assert_null(stop.refusal);
                gf_stop_done(&stop);
        }
}

static void the_restart_policy_of_docker_decides(void **state)
{
        static const struct {
                const char *json;
                enum gf_again again;
        } table[] = {
                { "{\"RestartPolicy\":{\"Name\":\"always\",\"MaximumRetryCount\":0}}", GF_AGAIN_YES },
                { "{\"RestartPolicy\":{\"Name\":\"unless-stopped\"}}", GF_AGAIN_YES },
                { "{\"RestartPolicy\":{\"Name\":\"on-failure\"}}", GF_AGAIN_YES },
                { "{\"RestartPolicy\":{\"Name\":\"no\"}}", GF_AGAIN_NO },
                { "{\"RestartPolicy\":{\"Name\":\"\"}}", GF_AGAIN_NO },
                { "{\"Name\":\"no\"}", GF_AGAIN_UNKNOWN },
                { "", GF_AGAIN_UNKNOWN },
        };
        struct tree *t = *state;

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                struct gf_stop stop;

                tree_put(t, "/var/lib/docker/containers/" ID "/hostconfig.json", table[i].json);
                find(t, "/docker/" ID, 0, &stop);
                assert_int_equal(stop.again, table[i].again);
                assert_non_null(stop.why);
                assert_string_equal(stop.owner, "docker:3f2a1b2c3d4e");
                gf_stop_done(&stop);
        }
}

static void drop_ins_have_the_last_word(void **state)
{
        struct tree *t = *state;
        struct gf_stop stop;

        tree_put(t, "/usr/lib/systemd/system/x.service", "[Service]\nRestart=no\n");
        tree_put(t, "/usr/lib/systemd/system/x.service.d/z.conf", "[Service]\nRestart=on-failure\n");
        tree_put(t, "/etc/systemd/system/x.service.d/10.conf", "[Service]\nRestart=no\n");
        tree_put(t, "/etc/systemd/system/x.service.d/20.conf", "[Service]\nRestart=always\n");
        tree_put(t, "/etc/systemd/system/x.service.d/30.txt", "[Service]\nRestart=no\n");
        tree_put(t, "/usr/lib/systemd/system/x.socket", "[Socket]\n");
        find(t, "/system.slice/x.service", 0, &stop);
        assert_int_equal(stop.again, GF_AGAIN_YES);
        assert_non_null(strstr(stop.why, "Restart=always"));
        assert_non_null(strstr(stop.warning, "x.socket"));
        gf_stop_done(&stop);
}

static void what_ends_more_than_was_meant_warns_or_is_refused(void **state)
{
        static const char *const refused[] = {
                "/system.slice/ssh.service",
                "/init.scope",
                "/system.slice/docker.service",
                "/system.slice/slurmd.service",
                "/system.slice/systemd-logind.service",
                "/system.slice/slurmstepd.scope/system",
                USER_SLICE "/init.scope",
                "/system.slice/*.service",
                "/system.slice/--now.service",
                "/lxc.payload.-x",
                "/lxc.payload.a b",
        };
        struct tree *t = *state;
        struct gf_stop stop;

        find(t, "/user.slice/user-1000.slice/session-3.scope", 0, &stop);
        assert_string_equal(stop.warning, "ends the whole login session 3 with everything in it");
        gf_stop_done(&stop);
        find(t, "/lxc.payload.c129", 0, &stop);
        assert_non_null(strstr(stop.warning, "whole container"));
        gf_stop_done(&stop);
        for (size_t i = 0; i < ELEMENTSOF(refused); i++) {
                find(t, refused[i], 0, &stop);
                if (!stop.refusal || stop.argv.n > 0)
                        fail_msg("%s is not refused", refused[i]);
                gf_stop_done(&stop);
        }
}

static void what_is_inside_a_system_container_is_stopped_inside(void **state)
{
        static const char *const table[][2] = {
                { "/lxc.payload.ml/system.slice/vllm.service", "lxc-attach -n ml -- systemctl stop -- vllm.service" },
                { "/lxc.payload.ml/system.slice/docker-" ID ".scope", "lxc-attach -n ml -- docker stop " ID },
                { "/lxc/101/ns/system.slice/ssh.service", "pct exec 101 -- systemctl stop -- ssh.service" },
                /* not one that could be a pattern: then the whole container */
                { "/lxc.payload.ml/system.slice/*.service", "lxc-stop -n ml" },
                { "/docker/" ID "/system.slice/x.service", "docker stop " ID },
        };
        struct tree *t = *state;

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                struct gf_stop stop;

                find(t, table[i][0], 0, &stop);
                assert_string_equal(stop.text, table[i][1]);
                gf_stop_done(&stop);
        }
}

/* A user may call a cgroup of his own like somebody else's container. */
static void names_that_a_user_made_up_are_used_with_his_rights_alone(void **state)
{
        struct tree *t = *state;
        struct gf_stop stop;

        tree_put(t, "/etc/passwd", "alice:x:1000:1000::/home/alice:/bin/sh\n");
        find(t, USER_SLICE "/docker-" ID ".scope", 0, &stop);
        assert_string_equal(stop.text,
                            "runuser -u alice -- env DOCKER_HOST=unix:///run/user/1000/docker.sock docker stop " ID);
        gf_stop_done(&stop);
        find(t, USER_SLICE "/lxc.payload.victim", 0, &stop);
        assert_true(gf_startswith(stop.text, "runuser -u alice -- "));
        gf_stop_done(&stop);
        /* the names inside it do not lead out of it either */
        find(t, USER_SLICE "/lxc.payload.victim/system.slice/x.service", 0, &stop);
        assert_true(gf_startswith(stop.text, "runuser -u alice -- "));
        gf_stop_done(&stop);
        /* another user, or one that nobody knows: nothing is run */
        find(t, USER_SLICE "/docker-" ID ".scope", 1001, &stop);
        assert_non_null(stop.refusal);
        gf_stop_done(&stop);
        find(t, "/user.slice/user-1002.slice/user@1002.service/docker-" ID ".scope", 0, &stop);
        assert_non_null(stop.refusal);
        gf_stop_done(&stop);
        find(t, USER_SLICE "/app.slice/x.service", 1000, &stop);
        assert_string_equal(stop.text, "systemctl --user stop -- x.service");
        gf_stop_done(&stop);
}

static void a_job_that_the_process_claims_is_cancelled_as_its_users_alone(void **state)
{
        struct tree *t = *state;
        struct gpufree_holder h;
        struct gf_stop stop;
        struct gf_owner *owner;

        tree_put(t, "/etc/passwd", "alice:x:1000:1000::/home/alice:/bin/sh\n");
        tree_holder(&h, "/system.slice/ssh.service");
        owner = gf_vec_add(&h.owners);
        assert_non_null(owner);
        assert_int_equal(gf_strset(&owner->kind, "job"), 0);
        assert_int_equal(gf_strset(&owner->runtime, "slurm"), 0);
        assert_int_equal(gf_strset(&owner->id, "3385.0"), 0);
        assert_int_equal(gf_stop_find_in(&t->env, &t->places, 0, &h, &stop), 0);
        assert_string_equal(stop.text, "scancel --user=alice 3385.0");
        gf_stop_done(&stop);
        h.facts.uid = 1001;
        assert_int_equal(gf_stop_find_in(&t->env, &t->places, 0, &h, &stop), 0);
        assert_non_null(stop.refusal);
        gf_stop_done(&stop);
        gf_holder_done(&h);
}

static void pair_find(struct tree *t, const char *comm, const char *cwd, char *const *environment, const char *path,
                      struct gf_stop *ret, pid_t *ret_parent, pid_t *ret_child)
{
        struct pair p;
        struct gpufree_holder h;

        pair_start(&p, comm, cwd, environment);
        pair_holder(t, &h, &p, path);
        *ret_parent = p.parent;
        *ret_child = p.child;
        assert_int_equal(gf_stop_find_in(&t->env, &t->places, geteuid(), &h, ret), 0);
        gf_holder_done(&h);
        pair_stop(&p);
}

static void supervisors_are_told(void **state)
{
        struct tree *t = *state;
        char process[] = "SUPERVISOR_PROCESS_NAME=worker_0", group[] = "SUPERVISOR_GROUP_NAME=worker";
        char *const none[] = { NULL }, *const of_supervisord[] = { process, group, NULL };
        _cleanup_free_ char *dir = gf_asprintf("%s/etc/service/vllm", t->root), *want = NULL;
        struct gf_stop stop;
        pid_t parent, child;

        assert_non_null(dir);
        tree_put(t, "/etc/service/vllm/run", "");
        pair_find(t, "runsv", dir, none, "/system.slice/runit.service", &stop, &parent, &child);
        want = gf_asprintf("sv down %s", dir);
        assert_int_equal(stop.again, GF_AGAIN_YES);
        assert_string_equal(stop.text, want);
        gf_stop_done(&stop);
        /* supervisord: it must say first that this child is the program of that name */
        pair_find(t, "supervisord", NULL, of_supervisord, "/", &stop, &parent, &child);
        assert_string_equal(stop.text, "supervisorctl stop worker:worker_0");
        assert_int_equal(stop.ask_pid, child);
        assert_string_equal(stop.ask.v[1], "pid");
        gf_stop_done(&stop);
        pair_find(t, "supervisord", NULL, none, "/", &stop, &parent, &child);
        assert_int_equal(stop.argv.n, 0);
        assert_int_equal(stop.again, GF_AGAIN_YES);
        assert_non_null(strstr(stop.text, "supervisorctl status"));
        gf_stop_done(&stop);
        /* a supervisor inside a container: the container is the owner */
        pair_find(t, "runsv", dir, none, "/docker/" ID, &stop, &parent, &child);
        assert_string_equal(stop.text, "docker stop " ID);
        gf_stop_done(&stop);
}

static void what_gpufree_runs_in_is_not_stopped(void **state)
{
        struct tree *t = *state;
        struct gf_stop stop;
        _cleanup_free_ char *path = gf_asprintf("/proc/%d/cgroup", getpid());

        /* a /proc in which we are in a container */
        (void)path;
        free(t->env.proc_root);
        t->env.proc_root = gf_asprintf("%s/proc", t->root);
        assert_non_null(t->env.proc_root);
        free(path);
        path = gf_asprintf("/proc/%d/cgroup", getpid());
        assert_non_null(path);
        tree_put(t, path, "0::/lxc.payload.ml/system.slice/ours.service\n");
        find(t, "/lxc.payload.ml", 0, &stop);
        assert_string_equal(stop.refusal, "gpufree itself runs in it");
        gf_stop_done(&stop);
        find(t, "/lxc.payload.other", 0, &stop);
        assert_null(stop.refusal);
        gf_stop_done(&stop);
}

static void commands_are_quoted_for_a_shell(void **state)
{
        gf_strv argv = { 0 };
        _cleanup_free_ char *text = NULL;

        (void)state;
        assert_int_equal(gf_strv_add(&argv, "a-b/c=d"), 0);
        assert_int_equal(gf_strv_add(&argv, ""), 0);
        assert_int_equal(gf_strv_add(&argv, "it's $HOME\n"), 0);
        text = gf_shell_quote(&argv);
        assert_string_equal(text, "a-b/c=d '' 'it'\\''s $HOME\n'");
        gf_strv_done(&argv);
}

/* ---- running it ---- */

static void script(struct tree *t, const char *name, const char *body)
{
        _cleanup_free_ char *path = gf_asprintf("/bin/%s", name), *text = gf_asprintf("#!/bin/sh\n%s\n", body),
                            *whole = gf_asprintf("%s/bin/%s", t->root, name);

        assert_non_null(path);
        assert_non_null(text);
        assert_non_null(whole);
        tree_put(t, path, text);
        assert_int_equal(chmod(whole, 0755), 0);
}

/*
 * Only root's own files are run: without root there is nothing to run. (cmocka 1.1 writes a skipped test as "not ok",
 * which meson takes for a failure: so the reason is printed and the test passed over.)
 */
static bool have_root(void)
{
        if (geteuid() != 0)
                print_message("# skipped: needs root: a program that is to be trusted must be root's\n");
        return geteuid() == 0;
}

static void run(struct tree *t, const char *const *words, const char *const *question, pid_t pid, uint64_t timeout_ms,
                struct gf_stopped *ret)
{
        _cleanup_free_ char *dir = gf_asprintf("%s/bin", t->root);
        const char *const dirs[] = { dir, NULL };
        struct gf_stop stop = { .ask_pid = pid };

        assert_non_null(dir);
        for (; words && *words; words++)
                assert_int_equal(gf_strv_add(&stop.argv, *words), 0);
        for (; question && *question; question++)
                assert_int_equal(gf_strv_add(&stop.ask, *question), 0);
        assert_int_equal(gf_owner_stop_in(&t->env, dirs, &stop, timeout_ms, ret), 0);
        assert_non_null(ret->sentence);
        gf_stop_done(&stop);
}
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void the_command_runs_and_its_answer_is_passed_on(void **state)
{
        struct tree *t = *state;
        struct gf_stopped s;

        if (!have_root())
                return;
        script(t, "stopit", "echo \"$# $1 $2 $PATH $GF_TEST\"; echo oops >&2; exit $1");
        assert_int_equal(setenv("GF_TEST", "leaked", 1), 0);
        run(t, WORDS("stopit", "0", "a b;$(x)"), NULL, 0, 30000, &s);
        assert_int_equal(s.outcome, GF_STOP_DONE);
        assert_string_equal(s.output,
                            "2 0 a b;$(x) /usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin \noops");
        assert_string_equal(s.command, "stopit 0 'a b;$(x)'");
        gf_stopped_done(&s);
        run(t, WORDS("stopit", "3"), NULL, 0, 30000, &s);
        assert_int_equal(s.outcome, GF_STOP_FAILED);
        assert_int_equal(s.status, 3);
        assert_non_null(strstr(s.sentence, "exit status 3"));
        gf_stopped_done(&s);
        assert_int_equal(unsetenv("GF_TEST"), 0);
}

static void a_command_that_hangs_is_given_up_with_its_children(void **state)
{
        struct tree *t = *state;
        struct gf_stopped s;
        _cleanup_free_ char *fifo = gf_asprintf("%s/fifo", t->root), *body = NULL;
        struct pollfd pfd = { .events = POLLIN };
        char byte;

        if (!have_root())
                return;
        assert_int_equal(mkfifo(fifo, 0600), 0);
        /* a grandchild keeps the FIFO open for as long as it lives */
        body = gf_asprintf("exec 9<>%s; sleep 1000 & sleep 1000", fifo);
        script(t, "hang", body);
        run(t, WORDS("hang"), NULL, 0, 300, &s);
        assert_int_equal(s.outcome, GF_STOP_TIMED_OUT);
        gf_stopped_done(&s);
        /* all its writers are gone once this reader sees the end; with none at all open() for writing fails */
        pfd.fd = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        assert_true(pfd.fd >= 0);
        for (;;) {
                ssize_t r = read(pfd.fd, &byte, 1);

                if (r == 0)
                        break;
                assert_int_equal(errno, EAGAIN);
                assert_int_equal(poll(&pfd, 1, 20000), 1);
        }
        assert_int_equal(close(pfd.fd), 0);
}

static void a_cancelled_command_ends(void **state)
{
        struct tree *t = *state;
        struct gf_stopped s;
        int fds[2];

        if (!have_root())
                return;
        script(t, "hang", "sleep 1000");
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        t->env.cancel_fd = fds[0];
        run(t, WORDS("hang"), NULL, 0, GPUFREE_UNKNOWN, &s);
        assert_int_equal(s.outcome, GF_STOP_CANCELLED);
        gf_stopped_done(&s);
        t->env.cancel_fd = -1;
        (void)close(fds[0]);
        (void)close(fds[1]);
}

static void endless_output_is_cut(void **state)
{
        struct tree *t = *state;
        struct gf_stopped s;

        if (!have_root())
                return;
        script(t, "chatter",
               "i=0; while [ $i -lt 4000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done");
        run(t, WORDS("chatter"), NULL, 0, 60000, &s);
        assert_int_equal(s.outcome, GF_STOP_DONE);
        assert_true(strlen(s.output) > 1000 && strlen(s.output) <= 8192);
        gf_stopped_done(&s);
}

static void what_others_could_change_is_not_run(void **state)
{
        struct tree *t = *state;
        struct gf_stopped s;
        _cleanup_free_ char *path = gf_asprintf("%s/bin/stopit", t->root), *dir = gf_asprintf("%s/bin", t->root),
                            *mark = gf_asprintf("%s/ran", t->root), *body = NULL;

        body = gf_asprintf("echo >%s", mark);
        script(t, "stopit", body);
        if (geteuid() != 0) {
                /* our own file is not root's */
                run(t, WORDS("stopit"), NULL, 0, 10000, &s);
                assert_int_equal(s.outcome, GF_STOP_REFUSED);
                gf_stopped_done(&s);
                return;
        }
        for (int round = 0; round < 4; round++) {
                assert_int_equal(chmod(path, round == 0 ? 0777 : round == 2 ? 0644 : 0755), 0);
                assert_int_equal(chown(path, round == 1 ? 65534 : 0, 0), 0);
                assert_int_equal(chmod(dir, round == 3 ? 0777 : 0755), 0);
                run(t, WORDS("stopit"), NULL, 0, 10000, &s);
                assert_int_equal(s.outcome, GF_STOP_REFUSED);
                gf_stopped_done(&s);
        }
        assert_int_equal(access(mark, F_OK), -1);
        run(t, WORDS("no-such-program"), NULL, 0, 10000, &s);
        assert_int_equal(s.outcome, GF_STOP_REFUSED);
        gf_stopped_done(&s);
        run(t, WORDS("../bin/stopit"), NULL, 0, 10000, &s);
        assert_int_equal(s.outcome, GF_STOP_REFUSED);
        gf_stopped_done(&s);
        run(t, NULL, NULL, 0, 10000, &s);
        assert_int_equal(s.outcome, GF_STOP_REFUSED);
        gf_stopped_done(&s);
}

static void an_owner_that_does_not_confirm_is_not_stopped(void **state)
{
        struct tree *t = *state;
        struct gf_stopped s;
        _cleanup_free_ char *mark = gf_asprintf("%s/ran", t->root), *body = NULL;

        if (!have_root())
                return;
        body = gf_asprintf("[ $1 = pid ] && echo 123 || echo >%s", mark);
        script(t, "ctl", body);
        run(t, WORDS("ctl", "stop"), WORDS("ctl", "pid"), 124, 30000, &s);
        assert_int_equal(s.outcome, GF_STOP_REFUSED);
        gf_stopped_done(&s);
        assert_int_equal(access(mark, F_OK), -1);
        run(t, WORDS("ctl", "stop"), WORDS("ctl", "pid"), 123, 30000, &s);
        assert_int_equal(s.outcome, GF_STOP_DONE);
        gf_stopped_done(&s);
        assert_int_equal(access(mark, F_OK), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, tree_setup, tree_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                T(the_proper_stop_of_each_owner),
                T(the_restart_policy_of_docker_decides),
                T(drop_ins_have_the_last_word),
                T(what_ends_more_than_was_meant_warns_or_is_refused),
                T(what_is_inside_a_system_container_is_stopped_inside),
                T(names_that_a_user_made_up_are_used_with_his_rights_alone),
                T(a_job_that_the_process_claims_is_cancelled_as_its_users_alone),
                T(supervisors_are_told),
                T(what_gpufree_runs_in_is_not_stopped),
                T(commands_are_quoted_for_a_shell),
                T(the_command_runs_and_its_answer_is_passed_on),
                T(a_command_that_hangs_is_given_up_with_its_children),
                T(a_cancelled_command_ends),
                T(endless_output_is_cut),
                T(what_others_could_change_is_not_run),
                T(an_owner_that_does_not_confirm_is_not_stopped),
        };

        return cmocka_run_group_tests_name("owner/restart", tests, NULL, NULL);
}

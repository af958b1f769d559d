/* SPDX-License-Identifier: MIT */
#include "tree.h"

/* The label of a holder in `path`; free() it. */
static char *label(struct tree *t, const char *path)
{
        struct gpufree_holder h;
        char *text;

        tree_holder(&h, path);
        assert_int_equal(gf_owner_read_in(&t->env, &t->places, &h), 0);
        text = TAKE(h.owner_label);
        gf_holder_done(&h);
        return text;
}

static void expect_label(struct tree *t, const char *path, const char *want)
{
        _cleanup_free_ char *got = label(t, path);

        if (!gf_streq(got, want))
                fail_msg("%s: label \"%s\", not \"%s\"", path, got ? got : "(none)", want ? want : "(none)");
}

static void labels_without_any_file(void **state)
{
        static const char *const table[][2] = {
                { "/system.slice/docker-" ID ".scope", "docker:3f2a1b2c3d4e" },
                { "/system.slice/vllm.service", "vllm.service" },
                { "/lxc.payload.c129", "lxc:c129" },
                { "/lxc/129/ns", "lxc:129" },
                { "/qemu.slice/101.scope", "vm 101" },
                { "/machine.slice/machine-qemu\\x2d1\\x2dvm1.scope/libvirt/emulator", "vm vm1" },
                { "/system.slice/slurmstepd.scope/job_3385/step_0/user/task_0", "job 3385.0 (slurm)" },
                { "/user.slice/user-1000.slice/session-3.scope", "session 3" },
                { "/kubepods/burstable/pod" UID "/" ID, "pod " UID },
                { "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", "x.service" },
                { "/user.slice/user-1000.slice/user@1000.service/app.slice/app-flatpak-org.x.Y-1.scope",
                  "flatpak:org.x.Y" },
                { "/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope", "tmux-spawn-1.scope" },
                { "/system.slice/run-u7.scope", "run-u7.scope" },
                { "/machine.slice/libpod-conmon-" ID ".scope", "podman monitor:3f2a1b2c3d4e" },
                { "/some/where", "cgroup some/where" },
                { "/job_runner/6d9c83fcea031dd81cd45b9988a280bd", "cgroup job_runner/6d9c83fcea03" },
                { "/deadbeef", "cgroup deadbeef" },
                { "/", NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                expect_label(*state, table[i][0], table[i][1]);
}

static void docker_names_come_from_its_own_files(void **state)
{
        struct tree *t = *state;

        tree_put(t, "/var/lib/docker/containers/" ID "/config.v2.json",
                 "{\"Config\":{\"Name\":\"no\",\"Env\":[\"TOKEN=secret\"]},\"Name\":\"/vllm\"}");
        expect_label(t, "/docker/" ID, "docker:3f2a1b2c3d4e (vllm)");
        /* a parent that somebody chose: Docker's own directory tells */
        expect_label(t, "/chosen/" ID, "docker:3f2a1b2c3d4e (vllm)");
        tree_put(t, "/etc/docker/daemon.json", "{\"data-root\": \"/srv/docker\"}");
        tree_put(t, "/srv/docker/containers/" ID "/config.v2.json", "{\"Name\":\"/moved\"}");
        expect_label(t, "/docker/" ID, "docker:3f2a1b2c3d4e (moved)");
}

static void a_users_own_docker_is_looked_up_in_the_users_home(void **state)
{
        struct tree *t = *state;

        tree_put(t, "/var/lib/docker/containers/" ID "/config.v2.json", "{\"Name\":\"/of-root\"}");
        tree_put(t, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n");
        tree_put(t, "/home/alice/.local/share/docker/containers/" ID "/config.v2.json", "{\"Name\":\"/mine\"}");
        expect_label(t, "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope",
                     "docker:3f2a1b2c3d4e (mine)");
        expect_label(t, "/user.slice/user-1001.slice/user@1001.service/user.slice/docker-" ID ".scope",
                     "docker:3f2a1b2c3d4e");
}

static void podman_names_come_from_the_store(void **state)
{
        struct tree *t = *state;

        tree_put(t, "/var/lib/containers/storage/overlay-containers/containers.json",
                 "[{\"id\":\"other\",\"names\":[\"no\"]},{\"id\":\"" ID "\",\"names\":[\"ml\",\"second\"]}]");
        expect_label(t, "/machine.slice/libpod-" ID ".scope/container", "podman:3f2a1b2c3d4e (ml)");
        /* Quadlet: the unit is the outer owner, the container says more */
        expect_label(t, "/system.slice/vllm.service/libpod-payload-" ID, "podman:3f2a1b2c3d4e (ml)");
}

static void pods_and_their_containers_are_named_by_the_nodes_logs(void **state)
{
        struct tree *t = *state;
        struct gpufree_holder h;

        tree_put(t, "/var/log/pods/prod_vllm-0_" UID "/vllm/0.log", "");
        tree_put(t, "/var/log/containers/vllm-0_prod_vllm-" ID ".log", "");
        tree_holder(&h, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
                        ".slice/cri-containerd-" ID ".scope");
        assert_int_equal(gf_owner_read_in(&t->env, &t->places, &h), 0);
        assert_string_equal(h.owner_label, "pod prod/vllm-0");
        assert_int_equal(h.owners.n, 2);
        assert_string_equal(h.owners.v[0].kind, "pod");
        assert_string_equal(h.owners.v[0].id, UID);
        assert_string_equal(h.owners.v[0].name, "prod/vllm-0");
        assert_string_equal(h.owners.v[1].kind, "container");
        assert_string_equal(h.owners.v[1].id, ID);
        assert_string_equal(h.owners.v[1].name, "vllm");
        gf_holder_done(&h);
}

static void proxmox_names_come_from_disk(void **state)
{
        static const char cmdline[] = "/usr/bin/kvm\0-id\000102\0-name\0web,debug-threads=on";
        struct tree *t = *state;
        struct gpufree_holder h;

        tree_put(t, "/var/lib/lxc/129/config", "lxc.cgroup.relative = 0\nlxc.uts.name = ml\n");
        expect_label(t, "/lxc/129/ns/system.slice/x.service", "lxc:129 (ml)");
        tree_put(t, "/etc/pve/lxc/130.conf", "arch: amd64\nhostname: db\n[old]\nhostname: no\n");
        expect_label(t, "/lxc/130/ns", "lxc:130 (db)");
        tree_put(t, "/etc/pve/qemu-server/101.conf", "boot: order=scsi0\nname: gpu-box\n");
        expect_label(t, "/qemu.slice/101.scope", "vm 101 (gpu-box)");
        /* QEMU's own command line needs no file */
        tree_holder(&h, "/qemu.slice/102.scope");
        h.facts.cmdline = malloc(sizeof(cmdline));
        assert_non_null(h.facts.cmdline);
        memcpy(h.facts.cmdline, cmdline, sizeof(cmdline));
        h.facts.cmdline_length = sizeof(cmdline);
        assert_int_equal(gf_owner_read_in(&t->env, &t->places, &h), 0);
        assert_string_equal(h.owner_label, "vm 102 (web)");
        gf_holder_done(&h);
}

static void runtimes_that_share_a_name_are_told_apart(void **state)
{
        struct tree *t = *state;

        tree_put(t, "/run/runc/byhand/state.json", "{}");
        expect_label(t, "/byhand", "runc:byhand");
        expect_label(t, "/other", "cgroup other");
        tree_put(t, "/var/lib/incus/containers/ml/x", "");
        expect_label(t, "/lxc.payload.ml", "incus:ml");
        /* LXC appends a number when the cgroup's name is taken */
        tree_put(t, "/var/lib/lxc/c129/config", "");
        expect_label(t, "/lxc.payload.c129-1", "lxc:c129");
        expect_label(t, "/lxc.payload.c130-1", "lxc:c130-1");
}

static void names_inside_a_container_are_not_looked_up_outside(void **state)
{
        struct tree *t = *state;

        tree_put(t, "/var/lib/docker/containers/" ID "/config.v2.json", "{\"Name\":\"/of-the-host\"}");
        struct gpufree_holder h;
        tree_holder(&h, "/lxc.payload.ml/system.slice/docker-" ID ".scope");
        assert_int_equal(gf_owner_read_in(&t->env, &t->places, &h), 0);
        assert_string_equal(h.owner_label, "lxc:ml");
        assert_int_equal(h.owners.n, 2);
        assert_null(h.owners.v[1].name);
        gf_holder_done(&h);
}

static void files_that_are_no_files_are_not_read(void **state)
{
        struct tree *t = *state;
        _cleanup_free_ char *fifo = gf_asprintf("%s/var/lib/docker/containers/" ID "/config.v2.json", t->root);
        _cleanup_free_ char *link = gf_asprintf("%s/run/passwd", t->root);

        assert_non_null(fifo);
        assert_non_null(link);
        tree_mkdirs(fifo);
        assert_int_equal(mkfifo(fifo, 0666), 0);
        expect_label(t, "/docker/" ID, "docker:3f2a1b2c3d4e");
        assert_int_equal(unlink(fifo), 0);
        tree_put(t, "/run/passwd", "{\"Name\":\"elsewhere\"}");
        assert_int_equal(symlink(link, fifo), 0);
        expect_label(t, "/docker/" ID, "docker:3f2a1b2c3d4e");
}

static void hostile_names_are_kept_raw_and_whole(void **state)
{
        struct tree *t = *state;
        struct gf_str s = { 0 };
        char *text = NULL;

        tree_put(t, "/var/lib/docker/containers/" ID "/config.v2.json", "{\"Name\":\"/a\\n\\u001b[2J\\\"b\"}");
        expect_label(t, "/docker/" ID, "docker:3f2a1b2c3d4e (a\n\033[2J\"b)");
        gf_str_add(&s, "{\"Name\":\"/");
        for (size_t i = 0; i < 255; i++)
                gf_str_addc(&s, 'n');
        gf_str_add(&s, "\"}");
        assert_int_equal(gf_str_take(&s, &text), 0);
        tree_put(t, "/var/lib/docker/containers/" ID "/config.v2.json", text);
        free(text);
        text = label(t, "/docker/" ID);
        assert_int_equal(strlen(text), strlen("docker:3f2a1b2c3d4e ()") + 255);
        free(text);
        tree_put(t, "/var/lib/docker/containers/" ID "/config.v2.json", "{\"Name\":");
        expect_label(t, "/docker/" ID, "docker:3f2a1b2c3d4e");
}

/* ---- with processes ---- */

static char *pair_label(struct tree *t, const char *comm, const char *cwd, char *const *environment, const char *path)
{
        struct pair p;
        struct gpufree_holder h;
        char *text;

        pair_start(&p, comm, cwd, environment);
        pair_holder(t, &h, &p, path);
        assert_int_equal(gf_owner_read_in(&t->env, &t->places, &h), 0);
        text = TAKE(h.owner_label);
        gf_holder_done(&h);
        pair_stop(&p);
        return text;
}

static void the_launcher_completes_a_session(void **state)
{
        char ssh[] = "SSH_CONNECTION=10.1.2.3 5555 10.1.2.4 22", bad[] = "SSH_CONNECTION=\033[2J 1 2 3";
        char *const none[] = { NULL }, *const from[] = { ssh, NULL }, *const hostile[] = { bad, NULL };
        char *text;

        text = pair_label(*state, "tmux: server", NULL, none, "/user.slice/user-1000.slice/session-3.scope");
        assert_string_equal(text, "session 3 (tmux)");
        free(text);
        text = pair_label(*state, "sshd", NULL, from, "/");
        assert_string_equal(text, "ssh from 10.1.2.3");
        free(text);
        text = pair_label(*state, "sshd", NULL, hostile, "/");
        assert_string_equal(text, "ssh");
        free(text);
        /* a container says more than who typed the command inside it */
        text = pair_label(*state, "tmux: server", NULL, none, "/lxc.payload.c129");
        assert_string_equal(text, "lxc:c129");
        free(text);
}

static void the_audit_session_serves_where_no_cgroup_tells(void **state)
{
        struct tree *t = *state;
        struct gpufree_holder h;

        tree_holder(&h, "/");
        h.facts.login_session = 7;
        assert_int_equal(gf_owner_read_in(&t->env, &t->places, &h), 0);
        assert_string_equal(h.owner_label, "session 7");
        assert_string_equal(h.owners.v[0].id, "7");
        gf_holder_done(&h);
}

static void batch_systems_without_a_cgroup_are_known_by_the_environment(void **state)
{
        char job[] = "SLURM_JOB_ID=3385", step[] = "SLURM_STEP_ID=0", ray[] = "RAY_JOB_ID=02000000",
             batch[] = "SLURM_STEP_ID=4294967291", bad[] = "SLURM_JOB_ID=1;reboot", name[] = "APPTAINER_NAME=torch.sif",
             secret[] = "TOKEN=secret";
        char *const slurm[] = { secret, job, step, NULL }, *const whole[] = { job, batch, NULL },
                    *const none[] = { bad, NULL }, *const of_ray[] = { ray, NULL }, *const sif[] = { name, NULL };
        static const char sluid[] = "/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_3/user/task_0";
        char *text;

        text = pair_label(*state, "x", NULL, slurm, "/");
        assert_string_equal(text, "job 3385.0 (slurm)");
        free(text);
        text = pair_label(*state, "x", NULL, whole, "/");
        assert_string_equal(text, "job 3385 (slurm)");
        free(text);
        text = pair_label(*state, "x", NULL, none, "/");
        /* whoever runs the tests may do so from tmux or over ssh: that is above this process then */
        assert_false(text && gf_startswith(text, "job"));
        free(text);
        text = pair_label(*state, "x", NULL, of_ray, "/");
        assert_string_equal(text, "job 02000000 (ray)");
        free(text);
        text = pair_label(*state, "x", NULL, sif, "/");
        assert_string_equal(text, "apptainer:torch.sif");
        free(text);
        /* the cgroup tells which step, the environment the number that people know */
        text = pair_label(*state, "x", NULL, slurm, sluid);
        assert_string_equal(text, "job 3385.3 (slurm)");
        free(text);
        /* where the cgroup tells the number, the environment is not asked */
        text = pair_label(*state, "x", NULL, slurm, "/slurm/uid_1000/job_77/step_1/task_0");
        assert_string_equal(text, "job 77.1 (slurm)");
        free(text);
}

static void a_supervised_service_is_named(void **state)
{
        struct tree *t = *state;
        char process[] = "SUPERVISOR_PROCESS_NAME=worker_0", group[] = "SUPERVISOR_GROUP_NAME=worker";
        char *const none[] = { NULL }, *const of_supervisord[] = { process, group, NULL };
        _cleanup_free_ char *dir = gf_asprintf("%s/etc/service/vllm", t->root), *want = NULL, *text = NULL;

        assert_non_null(dir);
        tree_put(t, "/etc/service/vllm/run", "");
        text = pair_label(t, "runsv", dir, none, "/system.slice/runit.service");
        want = gf_asprintf("%s (runit)", dir);
        assert_string_equal(text, want);
        free(text);
        text = pair_label(t, "supervisord", NULL, of_supervisord, "/system.slice/supervisor.service");
        assert_string_equal(text, "worker:worker_0 (supervisord)");
}

static void a_process_that_is_another_now_gives_nothing_of_its_environment(void **state)
{
        struct tree *t = *state;
        char job[] = "SLURM_JOB_ID=3385";
        char *const slurm[] = { job, NULL };
        struct pair p;
        struct gpufree_holder h;

        pair_start(&p, "x", NULL, slurm);
        pair_holder(t, &h, &p, "/");
        h.id.start_ticks++;
        assert_int_equal(gf_owner_read_in(&t->env, &t->places, &h), 0);
        assert_null(h.owner_label);
        gf_holder_done(&h);
        pair_stop(&p);
}

#define T(f) cmocka_unit_test_setup_teardown(f, tree_setup, tree_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                T(labels_without_any_file),
                T(docker_names_come_from_its_own_files),
                T(a_users_own_docker_is_looked_up_in_the_users_home),
                T(podman_names_come_from_the_store),
                T(pods_and_their_containers_are_named_by_the_nodes_logs),
                T(proxmox_names_come_from_disk),
                T(runtimes_that_share_a_name_are_told_apart),
                T(names_inside_a_container_are_not_looked_up_outside),
                T(files_that_are_no_files_are_not_read),
                T(hostile_names_are_kept_raw_and_whole),
                T(the_launcher_completes_a_session),
                T(the_audit_session_serves_where_no_cgroup_tells),
                T(batch_systems_without_a_cgroup_are_known_by_the_environment),
                T(a_supervised_service_is_named),
                T(a_process_that_is_another_now_gives_nothing_of_its_environment),
        };

        return cmocka_run_group_tests_name("owner/owner", tests, NULL, NULL);
}

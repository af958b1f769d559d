/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/str.h"
#include "parse/cgroup.h"
#include "parse/json.h"
#include "parse/unitfile.h"

#include <errno.h>

#define ID "3f2a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"
#define UID "2c9f8a79-5391-454b-88cb-86190881cb96"
#define UID_ "2c9f8a79_5391_454b_88cb_86190881cb96"
#define ALLOC "5456bd7a-9fc0-c0dd-6131-cbee77f57577"

struct want {
        const char *kind, *runtime, *id, *name;
};
static const struct {
        const char *path;
        struct want want[4];
} rows[] = {
        /* Docker */
        { "/system.slice/docker-" ID ".scope", { { "container", "docker", ID, "" } } },
        { "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope",
          { { "unit", "systemd", "user@1000.service", "" }, { "container", "docker", ID, "" } } },
        { "/docker/" ID, { { "container", "docker", ID, "" } } },
        { "/my-parent/" ID, { { "container", NULL, ID, "" } } },
        { "/system.slice/docker.service/docker/" ID, { { "container", "docker", ID, "" } } },
        /* Kubernetes */
        { "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope",
          { { "pod", "kubernetes", UID, "" }, { "container", "containerd", ID, "" } } },
        { "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope",
          { { "pod", "kubernetes", UID, "" }, { "container", "cri-o", ID, "" } } },
        { "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_ ".slice/docker-" ID ".scope",
          { { "pod", "kubernetes", UID, "" }, { "container", "docker", ID, "" } } },
        { "/kubepods/besteffort/pod74ba62da-1a3d-11e7-bb11-080027cb0e22/" ID,
          { { "pod", "kubernetes", "74ba62da-1a3d-11e7-bb11-080027cb0e22", "" }, { "container", "cri", ID, "" } } },
        { "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" ID,
          { { "pod", "kubernetes", "0123456789abcdef0123456789abcdef", "" }, { "container", "cri", ID, "" } } },
        { "/system.slice/containerd.service/kubepods-besteffort-pod" UID_ ".slice:cri-containerd:" ID,
          { { "pod", "kubernetes", UID, "" }, { "container", "containerd", ID, "" } } },
        { "/docker/" ID "/kubelet/kubepods/burstable/pod" UID "/" ID,
          { { "container", "docker", ID, "" }, { "pod", "kubernetes", UID, "" }, { "container", "cri", ID, "" } } },
        /* nerdctl, ctr */
        { "/system.slice/nerdctl-" ID ".scope", { { "container", "nerdctl", ID, "" } } },
        { "/default/" ID, { { "container", "containerd", ID, "" } } },
        /* Podman */
        { "/machine.slice/libpod-" ID ".scope/container", { { "container", "podman", ID, "" } } },
        { "/system.slice/vllm.service/libpod-payload-" ID,
          { { "unit", "systemd", "vllm.service", "" }, { "container", "podman", ID, "" } } },
        { "/libpod_parent/libpod-" ID, { { "container", "podman", ID, "" } } },
        { "/machine.slice/libpod-conmon-" ID ".scope", { { "monitor", "podman", ID, "" } } },
        /* LXC, Proxmox */
        { "/lxc.payload.c129", { { "container", "lxc", "c129", "" } } },
        { "/lxc.payload.ml/system.slice/vllm.service",
          { { "container", "lxc", "ml", "" }, { "unit", "systemd", "vllm.service", "" } } },
        { "/lxc.payload.ml/system.slice/docker-" ID ".scope",
          { { "container", "lxc", "ml", "" }, { "container", "docker", ID, "" } } },
        { "/lxc.monitor.c129", { { "monitor", "lxc", "c129", "" } } },
        { "/lxc/101/ns/system.slice/x.service",
          { { "container", "proxmox", "101", "" }, { "unit", "systemd", "x.service", "" } } },
        { "/lxc.monitor/101", { { "monitor", "proxmox", "101", "" } } },
        { "/qemu.slice/101.scope", { { "vm", "proxmox", "101", "" } } },
        /* libvirt, nspawn */
        { "/machine.slice/machine-qemu\\x2d1\\x2dvm1.scope/libvirt/emulator", { { "vm", "libvirt", "vm1", "vm1" } } },
        { "/machine.slice/machine-qemu\\x2d12\\x2dbig\\x2dvm.scope", { { "vm", "libvirt", "big-vm", "big-vm" } } },
        { "/machine.slice/machine-NAME.scope/payload", { { "container", "nspawn", "NAME", "" } } },
        { "/machine.slice/systemd-nspawn@ml\\x2dbox.service/payload",
          { { "unit", "systemd", "systemd-nspawn@ml\\x2dbox.service", "" }, { "container", "nspawn", "ml-box", "" } } },
        /* systemd */
        { "/system.slice/x.service", { { "unit", "systemd", "x.service", "" } } },
        { "/system.slice/x.service/worker/y.service", { { "unit", "systemd", "x.service", "" } } },
        { "/system.slice/system-vllm.slice/vllm@0.service", { { "unit", "systemd", "vllm@0.service", "" } } },
        { "/system.slice/_cgroup.x.service", { { "unit", "systemd", "cgroup.x.service", "" } } },
        { "/user.slice/user-1000.slice/session-3.scope", { { "session", "systemd", "3", "" } } },
        { "/user.slice/user-1000.slice/session-c1.scope", { { "session", "systemd", "c1", "" } } },
        { "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service",
          { { "unit", "systemd", "user@1000.service", "" }, { "user-unit", "systemd", "x.service", "" } } },
        { "/user.slice/user-1000.slice/user@1000.service/init.scope",
          { { "unit", "systemd", "user@1000.service", "" } } },
        { "/init.scope", { { "scope", "systemd", "init.scope", "" } } },
        { "/system.slice/run-u7.scope", { { "scope", "systemd", "run-u7.scope", "" } } },
        /* batch systems */
        { "/slurm/uid_1000/job_77/step_0/task_0", { { "job", "slurm", "77.0", "" } } },
        { "/slurm_node1/uid_1000/job_77/step_batch", { { "job", "slurm", "77.batch", "" } } },
        { "/system.slice/slurmstepd.scope/job_3385/step_0/user/task_0", { { "job", "slurm", "3385.0", "" } } },
        { "/system.slice/node1_slurmstepd.scope/job_3385/step_extern/user/task_special",
          { { "job", "slurm", "3385.extern", "" } } },
        { "/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0",
          { { "job", "slurm", "s5K1KKYAYG5D00.0", "" } } },
        { "/system.slice/slurmstepd.scope/system", { { "scope", "systemd", "slurmstepd.scope", "" } } },
        { "/system.slice/slurmd.service", { { "unit", "systemd", "slurmd.service", "" } } },
        { "/nomad.slice/share.slice/" ALLOC ".vllm.scope", { { "job", "nomad", ALLOC, "vllm" } } },
        { "/htcondor/condor_var_lib_condor_execute_slot1",
          { { "job", "htcondor", "condor_var_lib_condor_execute_slot1", "slot1" } } },
        { "/user.slice/user-1000.slice/user@1000.service/app.slice/app-flatpak-org.x.Y-2891.scope",
          { { "unit", "systemd", "user@1000.service", "" }, { "container", "flatpak", "org.x.Y", "" } } },
        { "/system.slice/runc-test.scope", { { "container", "runc", "test", "" } } },
        /* nothing */
        { "/", { { NULL, NULL, NULL, NULL } } },
        { "", { { NULL, NULL, NULL, NULL } } },
        { "/user.slice", { { NULL, NULL, NULL, NULL } } },
        { "/docker/" ID "0", { { NULL, NULL, NULL, NULL } } },
        { "/docker/shortid", { { NULL, NULL, NULL, NULL } } },
        { "/system.slice/docker-" ID "0.scope", { { "scope", "systemd", "docker-" ID "0.scope", "" } } },
        { "/pods/podcast.slice", { { NULL, NULL, NULL, NULL } } },
        { "/job_77/step_0", { { NULL, NULL, NULL, NULL } } },
        { "/.service", { { NULL, NULL, NULL, NULL } } },
};

static void every_row_gives_its_chain(void **state)
{
        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                struct gf_cgroup_chain chain;
                size_t n = 0;

                gf_cgroup_parse(rows[i].path, &chain);
                while (n < 4 && rows[i].want[n].kind)
                        n++;
                if (chain.n != n)
                        fail_msg("%s: %zu owners, not %zu", rows[i].path, chain.n, n);
                for (size_t k = 0; k < n; k++) {
                        const struct want *w = &rows[i].want[k];

                        if (!gf_streq(chain.v[k].kind, w->kind) || !gf_streq(chain.v[k].runtime, w->runtime) ||
                            strcmp(chain.v[k].id, w->id) != 0 || strcmp(chain.v[k].name, w->name) != 0)
                                fail_msg("%s: [%zu] is %s %s %s (%s)", rows[i].path, k, chain.v[k].kind,
                                         chain.v[k].runtime ? chain.v[k].runtime : "-", chain.v[k].id, chain.v[k].name);
                }
        }
}

static void whose_names_they_are_is_marked(void **state)
{
        struct gf_cgroup_chain chain;

        (void)state;
        gf_cgroup_parse("/lxc.payload.ml/user.slice/user-7.slice/user@7.service/app.slice/x.service", &chain);
        assert_int_equal(chain.n, 3);
        assert_false(chain.v[0].nested);
        assert_true(chain.v[0].manager == UINT32_MAX);
        assert_true(chain.v[1].nested);
        assert_true(chain.v[2].nested);
        assert_int_equal(chain.v[2].manager, 7);
        gf_cgroup_parse("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID
                        ".scope/init.scope/user@0.service",
                        &chain);
        assert_int_equal(chain.n, 3);
        assert_int_equal(chain.v[1].manager, 1000);
        assert_false(chain.v[1].nested);
        assert_true(chain.v[2].nested);
        /* the outer user stays answerable whatever is written further in */
        assert_int_equal(chain.v[2].manager, 1000);
}

static void outside_and_deleted_are_noticed(void **state)
{
        struct gf_cgroup_chain chain;

        (void)state;
        gf_cgroup_parse("/../../system.slice/x.service (deleted)", &chain);
        assert_true(chain.outside);
        assert_true(chain.deleted);
        assert_int_equal(chain.n, 1);
        assert_string_equal(chain.v[0].id, "x.service");
}

static void hostile_paths_do_no_harm(void **state)
{
        struct gf_cgroup_chain chain;
        struct gf_str s = { 0 };
        char *text = NULL;

        (void)state;
        gf_cgroup_parse("/lxc.payload.a\nb\033[2J\"c", &chain);
        assert_int_equal(chain.n, 1);
        assert_string_equal(chain.v[0].id, "a\nb\033[2J\"c");
        gf_cgroup_parse("/machine.slice/machine-a\\x0ab\\x00c\\xzz\\x.scope", &chain);
        assert_int_equal(chain.n, 1);
        assert_string_equal(chain.v[0].id, "a\nb\\x00c\\xzz\\x");
        gf_cgroup_parse("////..//lxc.payload.//lxc.payload.x///", &chain);
        assert_int_equal(chain.n, 1);
        /* a name of 255 bytes is one, one of 256 is none */
        for (size_t extra = 0; extra < 2; extra++) {
                gf_str_add(&s, "/lxc.payload.");
                for (size_t i = 0; i < 255 - 12 + extra; i++)
                        gf_str_addc(&s, 'n');
                assert_int_equal(gf_str_take(&s, &text), 0);
                gf_cgroup_parse(text, &chain);
                assert_int_equal(chain.n, 1 - extra);
                free(text);
        }
        /* deeper than there is room: the outermost and the innermost stay */
        for (size_t i = 0; i < 500; i++)
                gf_str_addf(&s, "/lxc.payload.n%zu", i);
        assert_int_equal(gf_str_take(&s, &text), 0);
        gf_cgroup_parse(text, &chain);
        assert_int_equal(chain.n, GF_CGROUP_OWNERS);
        assert_true(chain.cut);
        assert_string_equal(chain.v[0].id, "n0");
        assert_string_equal(chain.v[GF_CGROUP_OWNERS - 1].id, "n499");
        free(text);
}

/* Bytes from a fixed generator, biased to what the parser looks for. */
static void random_paths_do_no_harm(void **state)
{
        static const char *const parts[] = {
                "/",        "docker-", ID,   ".scope", "pod",       UID_,          ".slice",   "lxc.payload.",
                "machine-", "\\x",     "2d", "user@",  "1000",      ".service",    "session-", "slurm",
                "job_",     "step_",   "..", ":",      "(deleted)", "nomad.slice", "-",        "_"
        };
        uint32_t seed = 1;

        (void)state;
        for (size_t round = 0; round < 20000; round++) {
                struct gf_cgroup_chain chain;
                struct gf_str s = { 0 };
                char *text = NULL;

                for (size_t i = 0; i < 24; i++) {
                        seed = seed * 1664525 + 1013904223;
                        gf_str_add(&s, parts[(seed >> 16) % ELEMENTSOF(parts)]);
                }
                assert_int_equal(gf_str_take(&s, &text), 0);
                gf_cgroup_parse(text, &chain);
                assert_true(chain.n <= GF_CGROUP_OWNERS);
                free(text);
        }
}

static void lines(gf_strv *list, const char *const *text)
{
        gf_strv_done(list);
        for (; *text; text++)
                assert_int_equal(gf_strv_add(list, *text), 0);
}
#define LINES(list, ...) lines(list, (const char *const[]){ __VA_ARGS__, NULL })

static void the_line_that_tells_most_decides(void **state)
{
        gf_strv list = { 0 };
        struct gf_cgroup_chain chain;
        const char *path;

        (void)state;
        /* hybrid */
        LINES(&list, "5:devices:/x", "1:name=systemd:/user.slice/user-1000.slice/session-3.scope",
              "0::/user.slice/user-1000.slice/session-9.scope");
        gf_cgroup_parse_lines(&list, &chain, &path);
        assert_string_equal(chain.v[0].id, "3");
        assert_string_equal(path, "/user.slice/user-1000.slice/session-3.scope");
        /* Slurm on v1 puts its jobs into some hierarchies alone */
        LINES(&list, "1:name=systemd:/system.slice/slurmd.service",
              "4:cpu,cpuacct,devices:/slurm/uid_1000/job_77/step_0/task_0", "0::/system.slice/slurmd.service");
        gf_cgroup_parse_lines(&list, &chain, &path);
        assert_int_equal(chain.n, 1);
        assert_string_equal(chain.v[0].id, "77.0");
        /* v2 alone */
        LINES(&list, "0::/system.slice/vllm.service");
        gf_cgroup_parse_lines(&list, &chain, &path);
        assert_string_equal(chain.v[0].id, "vllm.service");
        /* a container made by hand; the name has colons */
        LINES(&list, "4:memory:/else/where", "1:name=systemd:/a:b:c", "0::/");
        gf_cgroup_parse_lines(&list, &chain, &path);
        assert_int_equal(chain.n, 1);
        assert_string_equal(chain.v[0].kind, "cgroup");
        assert_string_equal(chain.v[0].id, "a:b:c");
        /* limits alone make no owner */
        LINES(&list, "4:memory:/limits/of/somebody", "1:name=systemd:/", "0::/");
        gf_cgroup_parse_lines(&list, &chain, &path);
        assert_int_equal(chain.n, 0);
        LINES(&list, "4:memory:/limits/of/somebody");
        gf_cgroup_parse_lines(&list, &chain, &path);
        assert_string_equal(chain.v[0].id, "limits/of/somebody");
        /* nothing, and no lines at all */
        LINES(&list, "0::/", "garbage", "", "x:y", "1:z:relative", ":::");
        gf_cgroup_parse_lines(&list, &chain, &path);
        assert_int_equal(chain.n, 0);
        assert_string_equal(path, "/");
        gf_strv_done(&list);
        gf_cgroup_parse_lines(&list, &chain, &path);
        assert_int_equal(chain.n, 0);
        assert_null(path);
}

static void unit_names_are_checked(void **state)
{
        (void)state;
        assert_true(gf_unit_name_valid("vllm@0.service"));
        assert_true(gf_unit_name_valid("session-3.scope"));
        assert_true(gf_unit_name_valid("a\\x2db:c_d.service"));
        assert_false(gf_unit_name_valid("*.service"));
        assert_false(gf_unit_name_valid("a?.service"));
        assert_false(gf_unit_name_valid("[a].service"));
        assert_false(gf_unit_name_valid("--now.service"));
        assert_false(gf_unit_name_valid("a b.service"));
        assert_false(gf_unit_name_valid("a/b.service"));
        assert_false(gf_unit_name_valid("a\n.service"));
        assert_false(gf_unit_name_valid("a.socket"));
        assert_false(gf_unit_name_valid(".service"));
        assert_false(gf_unit_name_valid(""));
}

static int member(const char *text, const char *key, char *buf, size_t size)
{
        struct gf_json value;
        int r = gf_json_member((struct gf_json){ text, strlen(text) }, key, &value);

        return r < 0 ? r : gf_json_string(value, buf, size);
}

static void one_json_value_is_found(void **state)
{
        static const char text[] =
                "{ \"Config\": {\"Name\": \"not this\", \"Env\": [\"SECRET=}\\\"\", {\"a\":[1,2]}]},\n"
                " \"N\\u0061me\" : \"/vllm\\n\\u001b\\u00e9\\ud83d\\ude00\", \"x\": -1.5e3, \"y\":true }";
        char buf[64];

        (void)state;
        assert_int_equal(member(text, "Name", buf, sizeof(buf)), 0);
        assert_string_equal(buf, "/vllm\n\033\303\251\360\237\230\200");
        assert_int_equal(member(text, "Env", buf, sizeof(buf)), -ENOENT);
        assert_int_equal(member(text, "x", buf, sizeof(buf)), -EINVAL);
        assert_int_equal(member(text, "Name", buf, 4), -ENOSPC);
        assert_int_equal(member("[]", "Name", buf, sizeof(buf)), -EINVAL);
        assert_int_equal(member("{}", "Name", buf, sizeof(buf)), -ENOENT);
        assert_int_equal(member("{\"Name\":\"a\\u0000b\"}", "Name", buf, sizeof(buf)), -EINVAL);
        assert_int_equal(member("{\"Name\":\"\\ud800x\"}", "Name", buf, sizeof(buf)), 0);
        assert_string_equal(buf, "\357\277\275x");
}

static void broken_json_is_refused_at_every_length(void **state)
{
        static const char text[] = "{\"a\":[{\"b\":\"c\\u00e9\"},[1,2,{}],null],\"Name\":\"x\"}";
        char buf[16], deep[256];

        (void)state;
        for (size_t n = 0; n < sizeof(text) - 1; n++) {
                char *part = malloc(n + 1); /* of this very size, so that a sanitizer sees a read past it */
                struct gf_json value;

                assert_non_null(part);
                memcpy(part, text, n);
                part[n] = '\0';
                /* cut behind the value it looks like the whole: that is fine, a wrong value is not */
                if (gf_json_member((struct gf_json){ part, n }, "Name", &value) == 0) {
                        assert_int_equal(gf_json_string(value, buf, sizeof(buf)), 0);
                        assert_string_equal(buf, "x");
                }
                free(part);
        }
        memset(deep, '[', sizeof(deep) - 1);
        deep[sizeof(deep) - 1] = '\0';
        memcpy(deep, "{\"a\":", 5);
        assert_int_equal(member(deep, "Name", buf, sizeof(buf)), -EINVAL);
        assert_int_equal(member("{\"a\":}", "a", buf, sizeof(buf)), -EINVAL);
        assert_int_equal(member("{\"a\"", "a", buf, sizeof(buf)), -EINVAL);
        assert_int_equal(member("{\"a\":\"b\\", "a", buf, sizeof(buf)), -EINVAL);
        assert_int_equal(member("{\"a\":[}]}", "b", buf, sizeof(buf)), -EINVAL);
}

static void json_arrays_are_walked(void **state)
{
        static const char text[] = " [ \"a\" , {\"id\":\"b\"} ,[3]] ";
        struct gf_json item, all = { text, sizeof(text) - 1 };
        size_t cursor = 0, n = 0;
        int r;

        (void)state;
        while ((r = gf_json_item(all, &cursor, &item)) == 1)
                n++;
        assert_int_equal(r, 0);
        assert_int_equal(n, 3);
        cursor = 0;
        assert_int_equal(gf_json_item((struct gf_json){ "[]", 2 }, &cursor, &item), 0);
        assert_int_equal(gf_json_item((struct gf_json){ "[1", 2 }, &cursor, &item), 1);
        assert_int_equal(gf_json_item((struct gf_json){ "[1", 2 }, &cursor, &item), -EINVAL);
}

static void unit_files_are_read(void **state)
{
        static const char unit[] =
                "# Restart=never\n[Unit]\nRestart=no\n[Service]\nExecStart=/bin/x \\\n  Restart=fake\n"
                "Restart = on-failure \r\nRestart=always\n[Install]\nRestart=no\n";
        static const char proxmox[] = "#hostname: comment\nhostname: ml\nnet0: name=eth0\n\n[snap1]\nhostname: old\n";
        char buf[64];

        (void)state;
        assert_true(gf_unitfile_get(unit, "Service", "Restart", buf, sizeof(buf)));
        assert_string_equal(buf, "always");
        assert_false(gf_unitfile_get(unit, "Service", "RestartSec", buf, sizeof(buf)));
        assert_true(gf_unitfile_get(proxmox, NULL, "hostname", buf, sizeof(buf)));
        assert_string_equal(buf, "ml");
        assert_true(gf_unitfile_get("lxc.uts.name = ml", NULL, "lxc.uts.name", buf, sizeof(buf)));
        assert_string_equal(buf, "ml");
        assert_false(gf_unitfile_get("hostname: ml", NULL, "hostname", buf, 2));
        assert_false(gf_unitfile_get("", NULL, "hostname", buf, sizeof(buf)));
        assert_true(gf_unitfile_get("[Service]\nRestart=", "Service", "Restart", buf, sizeof(buf)));
        assert_string_equal(buf, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_row_gives_its_chain),
                cmocka_unit_test(whose_names_they_are_is_marked),
                cmocka_unit_test(outside_and_deleted_are_noticed),
                cmocka_unit_test(hostile_paths_do_no_harm),
                cmocka_unit_test(random_paths_do_no_harm),
                cmocka_unit_test(the_line_that_tells_most_decides),
                cmocka_unit_test(unit_names_are_checked),
                cmocka_unit_test(one_json_value_is_found),
                cmocka_unit_test(broken_json_is_refused_at_every_length),
                cmocka_unit_test(json_arrays_are_walked),
                cmocka_unit_test(unit_files_are_read),
        };

        return cmocka_run_group_tests_name("parse/cgroup", tests, NULL, NULL);
}

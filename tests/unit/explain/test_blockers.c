/* SPDX-License-Identifier: MIT */
/* What stands in the way, on made trees of /proc and /sys. */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "explain/blockers.h"

struct tree {
        char root[64];
        struct gf_env env;
};

static int setup(void **state)
{
        struct tree *t = must(calloc(1, sizeof(*t)));

        snprintf(t->root, sizeof(t->root), "/tmp/gpufree-explain-XXXXXX");
        assert_non_null(mkdtemp(t->root));
        gf_env_init(&t->env);
        assert_int_equal(gf_env_defaults(&t->env), 0);
        free(t->env.proc_root);
        free(t->env.sys_root);
        t->env.proc_root = must(gf_asprintf("%s/proc", t->root));
        t->env.sys_root = must(gf_asprintf("%s/sys", t->root));
        *state = t;
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

static int teardown(void **state)
{
        struct tree *t = *state;

        (void)nftw(t->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        gf_env_done(&t->env);
        free(t);
        return 0;
}

static void mkdirs(char *path)
{
        for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
                *p = '\0';
                if (mkdir(path, 0755) < 0)
                        assert_int_equal(errno, EEXIST);
                *p = '/';
        }
}

static void put(struct tree *t, const char *path, const char *text)
{
        _cleanup_free_ char *whole = must(gf_asprintf("%s%s", t->root, path));
        int fd;

        mkdirs(whole);
        fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static void put_link(struct tree *t, const char *path, const char *target)
{
        _cleanup_free_ char *whole = must(gf_asprintf("%s%s", t->root, path));

        mkdirs(whole);
        assert_int_equal(symlink(target, whole), 0);
}

/* A GPU bound to `driver`, as /sys shows it. */
static void put_gpu(struct tree *t, const char *pci, const char *driver)
{
        _cleanup_free_ char *link = must(gf_asprintf("/sys/bus/pci/devices/%s/driver", pci)),
                            *target = must(gf_asprintf("../../../bus/pci/drivers/%s", driver)),
                            *module = must(gf_asprintf("/sys/bus/pci/drivers/%s/module", driver)),
                            *to = must(gf_asprintf("../../../../module/%s", driver));

        put_link(t, link, target);
        put_link(t, module, to);
}

static struct gpufree_blockers *blockers_of(struct tree *t, struct world *w, enum gpufree_purpose purpose)
{
        struct gpufree_blockers *blockers = NULL;
        struct gf_ground ground = { 0 };

        assert_int_equal(gf_attribute(w->s), 0);
        assert_int_equal(gf_ground_read(&t->env, w->s, purpose, &ground), 0);
        assert_int_equal(gf_blockers_make(w->s, &ground, purpose, &blockers), 0);
        gf_ground_done(&ground);
        return blockers;
}

static size_t position_of(const struct gpufree_blockers *blockers, const char *command)
{
        for (size_t i = 0; i < blockers->steps.n; i++)
                if (gf_streq(blockers->steps.v[i].command, command))
                        return i;
        fail_msg("no step \"%s\"", command);
        return SIZE_MAX;
}

static const uint64_t idle[] = { 0, 0 };

static void nothing_in_the_way(void **state)
{
        struct tree *t = *state;
        struct world w = world_make(1, idle);
        struct gpufree_blockers *blockers;

        put(t, "/proc/modules", "nvidia 56717312 0 - Live 0x0000000000000000 (OE)\n");
        put_gpu(t, "0000:18:00.0", "nvidia");
        blockers = blockers_of(t, &w, GPUFREE_FOR_RESET);
        assert_int_equal(blockers->outcome, GPUFREE_OK);
        assert_int_equal(blockers->steps.n, 0);
        assert_string_equal(blockers->goal, "nvidia-smi --gpu-reset -i 0");
        gpufree_blockers_unref(blockers);
        blockers = blockers_of(t, &w, GPUFREE_FOR_UNLOAD);
        assert_int_equal(blockers->outcome, GPUFREE_OK);
        assert_string_equal(blockers->goal, "modprobe -r nvidia");
        gpufree_blockers_unref(blockers);
        blockers = blockers_of(t, &w, GPUFREE_FOR_UNBIND);
        assert_int_equal(blockers->outcome, GPUFREE_OK);
        assert_string_equal(blockers->goal, "echo 0000:18:00.0 > /sys/bus/pci/drivers/nvidia/unbind");
        gpufree_blockers_unref(blockers);
        world_end(&w);
}

static void processes_come_first_and_daemons_last(void **state)
{
        static const char *const comms[] = { "nvidia-persiste", "nv-hostengine", "dcgm-exporter" };
        const uint64_t used[] = { 4 * GIB };
        struct tree *t = *state;
        struct world w = world_make(1, used);
        struct gpufree_blockers *blockers;

        for (size_t i = 0; i < ELEMENTSOF(comms); i++) {
                world_holder(&w, (pid_t)(2000000000 + i), comms[i]);
                world_hold(&w, (pid_t)(2000000000 + i), 0, 1, 0);
                world_get(&w, (pid_t)(2000000000 + i))->protected_why = must(strdup("a daemon"));
        }
        world_cuda(&w, 2000000100, "python", 0);
        world_listed(&w, 0, 2000000100, 4 * GIB, GF_LIST_COMPUTE);
        blockers = blockers_of(t, &w, GPUFREE_FOR_RESET);
        assert_int_equal(blockers->outcome, GPUFREE_HELD);
        assert_int_equal(blockers->steps.n, 4);
        assert_int_equal(position_of(blockers, "gpufree kill --gpu 0"), 0);
        assert_int_equal(position_of(blockers, "systemctl stop dcgm-exporter"), 1);
        assert_int_equal(position_of(blockers, "systemctl stop nvidia-dcgm"), 2);
        assert_int_equal(position_of(blockers, "systemctl stop nvidia-persistenced"), 3);
        gpufree_blockers_unref(blockers);
        world_end(&w);
}

static void another_gpus_holder_is_not_in_the_way_of_a_reset(void **state)
{
        const uint64_t used[] = { 0, 4 * GIB };
        struct tree *t = *state;
        struct world w = world_make(2, used);
        struct gpufree_blockers *blockers;

        w.s->inventory.gpus.v[1].selected = false;
        world_cuda(&w, 2000000100, "python", 1);
        world_listed(&w, 1, 2000000100, 4 * GIB, GF_LIST_COMPUTE);
        blockers = blockers_of(t, &w, GPUFREE_FOR_RESET);
        assert_int_equal(blockers->outcome, GPUFREE_OK);
        gpufree_blockers_unref(blockers);
        blockers = blockers_of(t, &w, GPUFREE_FOR_UNLOAD); /* of the driver of both */
        assert_int_equal(blockers->outcome, GPUFREE_HELD);
        assert_int_equal(position_of(blockers, "gpufree kill --pid 2000000100"), 0);
        gpufree_blockers_unref(blockers);
        world_end(&w);
}

static void modules_go_leaves_first(void **state)
{
        struct tree *t = *state;
        struct world w = world_make(1, idle);
        struct gpufree_blockers *blockers;

        put(t, "/proc/modules",
            "nvidia_drm 131072 2 - Live 0x0\n"
            "gdrdrv 28672 0 - Live 0x0 (OE)\n"
            "nvidia_uvm 4349952 0 - Live 0x0\n"
            "nvidia_modeset 1757184 1 nvidia_drm, Live 0x0\n"
            "nvidia 56717312 77 nvidia_uvm,nvidia_modeset, Live 0x0 (OE)\n"
            "broken\n"
            "ext4 1 2 - Live 0x0\n");
        /* gdrdrv holds nvidia, and only /sys says so. */
        put(t, "/sys/module/nvidia/holders/gdrdrv", "");
        blockers = blockers_of(t, &w, GPUFREE_FOR_UNLOAD);
        assert_int_equal(blockers->outcome, GPUFREE_HELD);
        assert_true(position_of(blockers, "modprobe -r nvidia_drm") <
                    position_of(blockers, "modprobe -r nvidia_modeset"));
        (void)position_of(blockers, "modprobe -r nvidia_uvm");
        (void)position_of(blockers, "modprobe -r gdrdrv");
        assert_string_equal(blockers->goal, "modprobe -r nvidia");
        /* 77 references, 3 modules, no process: somebody else has it. */
        assert_string_equal(blockers->steps.v[blockers->steps.n - 1].kind, "reference");
        assert_non_null(strstr(blockers->steps.v[blockers->steps.n - 1].sentence, "74 references"));
        gpufree_blockers_unref(blockers);
        world_end(&w);
}

static void a_ring_of_modules_ends(void **state)
{
        gf_modules modules = { 0 };
        gf_strv before = { 0 };

        (void)state;
        assert_int_equal(gf_parse_modules("a 1 1 b, Live\nb 1 1 a, Live\n", &modules), 0);
        assert_int_equal(gf_modules_before(&modules, "a", &before), 0);
        assert_int_equal(before.n, 1);
        assert_string_equal(before.v[0], "b");
        gf_strv_done(&before);
        gf_modules_done(&modules);
}

static void a_console_and_mode_setting_are_in_the_way(void **state)
{
        struct tree *t = *state;
        struct world w = world_make(1, idle);
        struct gpufree_blockers *blockers;

        put(t, "/sys/class/vtconsole/vtcon0/bind", "0\n");
        put(t, "/sys/class/vtconsole/vtcon0/name", "(S) dummy device\n");
        put(t, "/sys/class/vtconsole/vtcon1/bind", "1\n");
        put(t, "/sys/class/vtconsole/vtcon1/name", "(M) frame buffer device\n");
        put_link(t, "/sys/class/graphics/fb0", "../../devices/pci0000:17/0000:17:01.0/0000:18:00.0/graphics/fb0");
        put(t, "/sys/module/nvidia_drm/parameters/modeset", "Y\n");
        blockers = blockers_of(t, &w, GPUFREE_FOR_RESET);
        assert_int_equal(blockers->outcome, GPUFREE_HELD);
        assert_int_equal(position_of(blockers, "echo 0 > /sys/class/vtconsole/vtcon1/bind"), 0);
        assert_int_equal(position_of(blockers, "modprobe -r nvidia_drm"), 1);
        gpufree_blockers_unref(blockers);
        world_end(&w);
}

static void a_console_of_another_card_is_not(void **state)
{
        struct tree *t = *state;
        struct world w = world_make(1, idle);
        struct gpufree_blockers *blockers;

        put(t, "/sys/class/vtconsole/vtcon1/bind", "1\n");
        put(t, "/sys/class/vtconsole/vtcon1/name", "(M) frame buffer device\n");
        put_link(t, "/sys/class/graphics/fb0", "../../devices/pci0000:00/0000:00:02.0/graphics/fb0");
        blockers = blockers_of(t, &w, GPUFREE_FOR_RESET);
        assert_int_equal(blockers->outcome, GPUFREE_OK);
        gpufree_blockers_unref(blockers);
        world_end(&w);
}

static void a_gpu_of_a_virtual_machine_is_given_back_first(void **state)
{
        struct tree *t = *state;
        struct world w = world_make(1, idle);
        struct gpufree_blockers *blockers;

        put_gpu(t, "0000:18:00.0", "vfio-pci");
        blockers = blockers_of(t, &w, GPUFREE_FOR_MIG);
        assert_int_equal(blockers->outcome, GPUFREE_HELD);
        assert_string_equal(blockers->steps.v[0].kind, "vfio");
        gpufree_blockers_unref(blockers);
        /* From vfio-pci it is unbound: nothing is in the way. */
        blockers = blockers_of(t, &w, GPUFREE_FOR_UNBIND);
        assert_int_equal(blockers->outcome, GPUFREE_OK);
        assert_string_equal(blockers->goal, "echo 0000:18:00.0 > /sys/bus/pci/drivers/vfio-pci/unbind");
        gpufree_blockers_unref(blockers);
        world_end(&w);
}

static void what_cannot_be_ended_has_no_command(void **state)
{
        struct tree *t = *state;
        struct world w = world_make(1, idle);
        struct gpufree_blockers *blockers;

        world_holder(&w, 2000000001, "sshd");
        world_hold(&w, 2000000001, 0, 1, 0);
        world_get(&w, 2000000001)->protected_why = must(strdup("this login"));
        world_get(&w, 2000000001)->protected_absolute = true;
        blockers = blockers_of(t, &w, GPUFREE_FOR_RESET);
        assert_int_equal(blockers->steps.n, 1);
        assert_null(blockers->steps.v[0].command);
        gpufree_blockers_unref(blockers);
        world_end(&w);
}

static void an_incomplete_look_is_never_clear(void **state)
{
        struct tree *t = *state;
        struct world w = world_make(1, idle);
        struct gf_refused *refused = must(gf_vec_add(&w.s->scan.refused));
        struct gpufree_blockers *blockers;

        *refused = (struct gf_refused){ .pid = 7, .uid = 1000, .error = EACCES, .what = "fd" };
        blockers = blockers_of(t, &w, GPUFREE_FOR_RESET);
        assert_int_equal(blockers->outcome, GPUFREE_INCOMPLETE);
        gpufree_blockers_unref(blockers);
        world_end(&w);
}

static void mig_is_nvidias(void **state)
{
        struct world w = world_make(1, idle);
        struct gpufree_blockers *blockers = NULL;
        struct gf_ground ground = { 0 };
        struct tree *t = *state;

        w.s->inventory.gpus.v[0].vendor = GPUFREE_VENDOR_AMD;
        assert_int_equal(gf_ground_read(&t->env, w.s, GPUFREE_FOR_MIG, &ground), 0);
        assert_int_equal(gf_blockers_make(w.s, &ground, GPUFREE_FOR_MIG, &blockers), -EOPNOTSUPP);
        assert_null(blockers);
        gf_ground_done(&ground);
        world_end(&w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(nothing_in_the_way),
                TEST(processes_come_first_and_daemons_last),
                TEST(another_gpus_holder_is_not_in_the_way_of_a_reset),
                TEST(modules_go_leaves_first),
                TEST(a_ring_of_modules_ends),
                TEST(a_console_and_mode_setting_are_in_the_way),
                TEST(a_console_of_another_card_is_not),
                TEST(a_gpu_of_a_virtual_machine_is_given_back_first),
                TEST(what_cannot_be_ended_has_no_command),
                TEST(an_incomplete_look_is_never_clear),
                TEST(mig_is_nvidias),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* What AMD's and the DRM drivers say, on made trees of /sys and /proc in the documented form. */
#include "../unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/vendor.h"
#include "parse/drm.h"

#define MIB (1ULL << 20)

struct tree {
        char root[64];
        struct gf_env env;
        struct gpufree_snapshot *s;
};

static void *must(void *p)
{
        if (!p)
                abort();
        return p;
}

static int setup(void **state)
{
        struct tree *t = must(calloc(1, sizeof(*t)));

        snprintf(t->root, sizeof(t->root), "/tmp/gpufree-vendor-XXXXXX");
        assert_non_null(mkdtemp(t->root));
        gf_env_init(&t->env);
        assert_int_equal(gf_env_defaults(&t->env), 0);
        free(t->env.sys_root);
        t->env.sys_root = must(gf_asprintf("%s/sys", t->root));
        t->s = must(calloc(1, sizeof(*t->s)));
        t->s->refs = 1;
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
        gpufree_snapshot_unref(t->s);
        gf_env_done(&t->env);
        free(t);
        return 0;
}

static void put(struct tree *t, const char *text, const char *format, ...)
{
        _cleanup_free_ char *path = NULL, *whole = NULL;
        va_list ap;
        int fd;

        va_start(ap, format);
        path = must(gf_vasprintf(format, ap));
        va_end(ap);
        whole = must(gf_asprintf("%s%s", t->root, path));
        for (char *p = strchr(whole + 1, '/'); p; p = strchr(p + 1, '/')) {
                *p = '\0';
                assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
                *p = '/';
        }
        fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static int add_gpu(struct tree *t, enum gpufree_vendor vendor, const char *pci)
{
        struct gpufree_gpu *gpu = must(gf_vec_add(&t->s->inventory.gpus));

        *gpu = (struct gpufree_gpu){ .index = -1, .minor = -1, .vendor = vendor, .pci = must(strdup(pci)) };
        gpu->memory = (struct gf_memory){ GPUFREE_UNKNOWN, GPUFREE_UNKNOWN, GPUFREE_UNKNOWN };
        return (int)t->s->inventory.gpus.n - 1;
}

static int add_device(struct tree *t, enum gf_class cls, dev_t rdev, int gpu)
{
        struct gpufree_device *device = must(gf_vec_add(&t->s->inventory.devices));

        *device = (struct gpufree_device){ .path = must(strdup("/dev/x")), .rdev = rdev, .cls = cls, .gpu = gpu };
        return (int)t->s->inventory.devices.n - 1;
}

static struct gpufree_holder *add_holder(struct tree *t, pid_t pid)
{
        struct gpufree_holder *holder = must(gf_vec_add(&t->s->holders));

        holder->id = (struct gf_ident){ pid, 1 };
        return holder;
}

/* Two GPUs of AMD's as KFD shows them: node 0 is the processor. */
static void put_kfd(struct tree *t)
{
        put(t, "0\n", "/sys/class/kfd/kfd/topology/nodes/0/gpu_id");
        put(t, "51110\n", "/sys/class/kfd/kfd/topology/nodes/1/gpu_id");
        put(t, "simd_count 440\nlocation_id 768\ndomain 0\ndrm_render_minor 128\n",
            "/sys/class/kfd/kfd/topology/nodes/1/properties");
        put(t, "8721\n", "/sys/class/kfd/kfd/topology/nodes/2/gpu_id");
        put(t, "location_id 33536\ndomain 1\ndrm_render_minor 129\n", "/sys/class/kfd/kfd/topology/nodes/2/properties");
}

static pid_t start_sleeper(void)
{
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;)
                        (void)pause();
        }
        return pid;
}

static void stop(pid_t pid)
{
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void kfd_says_how_much_on_which_gpu(void **state)
{
        struct tree *t = *state;
        gf_vendor_uses uses = { 0 };

        put_kfd(t);
        put(t, "4294967296\n", "/sys/class/kfd/kfd/proc/4242/vram_51110");
        put(t, "0\n", "/sys/class/kfd/kfd/proc/4242/vram_8721");
        put(t, "x", "/sys/class/kfd/kfd/proc/4242/vram_junk");
        put(t, "x", "/sys/class/kfd/kfd/proc/junk/vram_51110");
        (void)add_gpu(t, GPUFREE_VENDOR_AMD, "0000:03:00.0");
        (void)add_gpu(t, GPUFREE_VENDOR_AMD, "0001:83:00.0");
        (void)add_device(t, GF_CLASS_KFD, makedev(234, 0), -1);
        (void)add_holder(t, 4242);
        assert_int_equal(gf_kfd_read(&t->env, t->s, &uses), 0);
        assert_int_equal(uses.n, 1);
        assert_int_equal(uses.v[0].gpu, 0);
        assert_int_equal(uses.v[0].bytes, 4294967296);
        assert_int_equal(gf_vendor_apply(t->s, &uses), 0);
        assert_int_equal(t->s->holders.v[0].gpus.n, 1);
        assert_true(t->s->holders.v[0].gpus.v[0].context);
        assert_int_equal(t->s->holders.v[0].gpus.v[0].memory, 4294967296);
        assert_int_equal(t->s->inventory.gpus.v[0].holders, 1);
        assert_int_equal(t->s->inventory.gpus.v[0].accounted, 4294967296);
        assert_int_equal(t->s->inventory.gpus.v[1].accounted, GPUFREE_UNKNOWN);
        gf_vec_done(&uses);
}

static void a_kfd_entry_without_a_file_is_a_holder(void **state)
{
        struct tree *t = *state;
        pid_t pid = start_sleeper();
        gf_vendor_uses uses = { 0 };

        put_kfd(t);
        put(t, "1048576\n", "/sys/class/kfd/kfd/proc/%d/vram_51110", (int)pid);
        put(t, "1048576\n", "/sys/class/kfd/kfd/proc/2000000000/vram_51110"); /* not here */
        (void)add_gpu(t, GPUFREE_VENDOR_AMD, "0000:03:00.0");
        (void)add_device(t, GF_CLASS_KFD, makedev(234, 0), -1);
        assert_int_equal(gf_kfd_read(&t->env, t->s, &uses), 0);
        assert_int_equal(gf_vendor_add_holders(&t->env, t->s, &uses), 0);
        assert_int_equal(t->s->holders.n, 1);
        assert_int_equal(t->s->holders.v[0].id.pid, pid);
        assert_int_not_equal(t->s->holders.v[0].id.start_ticks, 0);
        assert_int_equal(t->s->holders.v[0].devices.v[0].via, GPUFREE_VIA_DRIVER);
        assert_int_equal(gf_vendor_apply(t->s, &uses), 0);
        assert_int_equal(t->s->holders.v[0].gpus.v[0].memory, MIB);
        assert_true(gf_vendor_still_lists(&t->env, &t->s->holders.v[0]));
        gf_vec_done(&uses);
        stop(pid);
}

static void without_kfd_nothing_is_said(void **state)
{
        struct tree *t = *state;
        gf_vendor_uses uses = { 0 };

        assert_int_equal(gf_kfd_read(&t->env, t->s, &uses), 0);
        assert_int_equal(uses.n, 0);
}

static void another_roots_nodes_are_not_this_machines(void **state)
{
        struct tree *t = *state;
        gf_vendor_uses uses = { 0 };

        put_kfd(t);
        put(t, "1048576\n", "/sys/class/kfd/kfd/proc/1/vram_51110");
        t->env.dev_root_set = true;
        assert_int_equal(gf_vendor_read(&t->env, t->s, &uses), 0);
        assert_int_equal(uses.n, 0);
}

static void drm_fdinfo_of_each_driver(void **state)
{
        static const struct {
                const char *text, *driver;
                uint64_t local;
        } cases[] = {
                { "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\ndrm-memory-vram:\t2048 "
                  "KiB\n"
                  "drm-memory-gtt:\t 9999 KiB\ndrm-memory-cpu:\t1 KiB\n",
                  "amdgpu", 2 * MIB },
                { "drm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-total-vram:\t8 MiB\ndrm-resident-vram:\t4096 KiB\n"
                  "drm-memory-vram:\t4097 KiB\n",
                  "amdgpu", 4 * MIB },
                { "drm-driver: i915\ndrm-pdev: 0000:00:02.0\ndrm-client-id: 12\ndrm-total-system0: 9 MiB\n"
                  "drm-total-local0: 16 MiB\ndrm-total-local1: 1 MiB\n",
                  "i915", 17 * MIB },
                { "drm-driver:\txe\ndrm-client-id:\t3\ndrm-total-vram0:\t1 GiB\ndrm-resident-vram0:\t512 MiB\n", "xe",
                  512 * MIB },
                { "drm-driver:\ti915\ndrm-client-id:\t3\ndrm-total-system0:\t5 MiB\n", "i915", GPUFREE_UNKNOWN },
                { "drm-driver:\txe\ndrm-resident-vram0:\t99999999999999999 GiB\n", "xe", GPUFREE_UNKNOWN },
                { "drm-driver:\txe\ndrm-resident-vramx:\t5 MiB\n", "xe", GPUFREE_UNKNOWN },
                { "drm-driver:\txe\ndrm-resident-vram0:\t4096\n", "xe", 4096 },
        };
        struct gf_drm_fdinfo info;

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                assert_true(gf_parse_drm_fdinfo(cases[i].text, strlen(cases[i].text), &info));
                assert_string_equal(info.driver, cases[i].driver);
                assert_int_equal(info.local, cases[i].local);
        }
        assert_false(gf_parse_drm_fdinfo("pos:\t0\nflags:\t02\n", 15, &info));
        assert_false(gf_parse_drm_fdinfo("", 0, &info));
}

static void add_hit(struct tree *t, pid_t pid, int fd, dev_t rdev)
{
        struct gf_hit *hit = must(gf_vec_add(&t->s->scan.hits));

        *hit = (struct gf_hit){ .id = { pid, 1 }, .tid = pid, .via = GPUFREE_VIA_FD, .rdev = rdev, .fd = fd };
}

static void a_drm_client_counts_once(void **state)
{
        static const char client7[] = "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\n"
                                      "drm-resident-vram:\t100 MiB\n",
                          client8[] = "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t8\n"
                                      "drm-resident-vram:\t50 MiB\n";
        struct tree *t = *state;
        dev_t render = makedev(226, 128);
        gf_vendor_uses uses = { 0 };
        int gpu = add_gpu(t, GPUFREE_VENDOR_AMD, "0000:03:00.0");

        free(t->env.proc_root);
        t->env.proc_root = must(gf_asprintf("%s/proc", t->root));
        (void)add_device(t, GF_CLASS_DRM_RENDER, render, gpu);
        (void)add_holder(t, 10);
        (void)add_holder(t, 11);
        put(t, client7, "/proc/10/task/10/fdinfo/3");
        put(t, client7, "/proc/10/task/10/fdinfo/4");
        put(t, client8, "/proc/10/task/10/fdinfo/5");
        put(t, client7, "/proc/11/task/11/fdinfo/3"); /* a fork: the same client */
        for (int fd = 3; fd <= 6; fd++)
                add_hit(t, 10, fd, render); /* 6 has been closed since */
        add_hit(t, 11, 3, render);
        assert_int_equal(gf_drm_read(&t->env, t->s, &uses), 0);
        assert_int_equal(gf_vendor_apply(t->s, &uses), 0);
        assert_int_equal(t->s->holders.v[0].gpus.v[0].memory, 150 * MIB);
        assert_int_equal(t->s->holders.v[1].gpus.v[0].memory, GPUFREE_UNKNOWN);
        assert_int_equal(t->s->inventory.gpus.v[0].accounted, 150 * MIB);
        assert_int_equal(t->s->inventory.gpus.v[0].holders, 2);
        gf_vec_done(&uses);
}

static void kfd_and_drm_of_one_process_are_one_memory(void **state)
{
        struct tree *t = *state;
        gf_vendor_uses uses = { 0 };
        struct gf_vendor_use *use;

        (void)add_gpu(t, GPUFREE_VENDOR_AMD, "0000:03:00.0");
        (void)add_holder(t, 10);
        use = must(gf_vec_add(&uses));
        *use = (struct gf_vendor_use){ .pid = 10, .gpu = 0, .bytes = 100 * MIB, .alone = true };
        use = must(gf_vec_add(&uses));
        *use = (struct gf_vendor_use){ .pid = 10, .gpu = 0, .bytes = 120 * MIB };
        assert_int_equal(gf_vendor_apply(t->s, &uses), 0);
        assert_int_equal(t->s->holders.v[0].gpus.n, 1);
        assert_int_equal(t->s->holders.v[0].gpus.v[0].memory, 120 * MIB);
        gf_vec_done(&uses);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(kfd_says_how_much_on_which_gpu),
                TEST(a_kfd_entry_without_a_file_is_a_holder),
                TEST(without_kfd_nothing_is_said),
                TEST(another_roots_nodes_are_not_this_machines),
                TEST(drm_fdinfo_of_each_driver),
                TEST(a_drm_client_counts_once),
                TEST(kfd_and_drm_of_one_process_are_one_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The inventory of made trees. Nodes are links to devices that every machine has (1:3 null, 1:5 zero, 1:7 full, 1:8
 * random, 1:9 urandom), so that no right to make nodes is needed; /proc/devices of the tree says whose number 1 is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../skip.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "gpu/inventory.h"

struct tree {
        char root[64];
        struct gf_env env;
        gf_strv gaps;
        struct gf_inventory inventory;
};

static char *below(const struct tree *t, const char *path)
{
        char *full = gf_asprintf("%s/%s", t->root, path);

        assert_non_null(full);
        return full;
}

static void parents(const struct tree *t, const char *path)
{
        _cleanup_free_ char *full = below(t, path);

        for (char *p = full + strlen(t->root) + 1; (p = strchr(p, '/')); p++) {
                *p = '\0';
                assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
                *p = '/';
        }
}

static void put(const struct tree *t, const char *path, const char *text)
{
        _cleanup_free_ char *full = below(t, path);
        FILE *f;

        parents(t, path);
        f = fopen(full, "we");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

static void put_link(const struct tree *t, const char *path, const char *target)
{
        _cleanup_free_ char *full = below(t, path);

        parents(t, path);
        assert_int_equal(symlink(target, full), 0);
}

static int set_up(void **state)
{
        struct tree *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        snprintf(t->root, sizeof(t->root), "/tmp/gpufree-inventory-XXXXXX");
        assert_non_null(mkdtemp(t->root));
        gf_env_init(&t->env);
        t->env.dev_root = below(t, "dev");
        t->env.proc_root = below(t, "proc");
        t->env.sys_root = below(t, "sys");
        put(t, "dev/notes", "a file, no device\n");
        put(t, "sys/notes", "");
        put(t, "proc/devices", "Character devices:\n  1 mem\n  4 tty\n\nBlock devices:\n  7 loop\n");
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

static int tear_down(void **state)
{
        struct tree *t = *state;

        (void)nftw(t->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        gf_inventory_done(&t->inventory);
        gf_strv_done(&t->gaps);
        gf_env_done(&t->env);
        free(t);
        return 0;
}

static void look(struct tree *t, const struct gf_driver_report *report)
{
        assert_int_equal(gf_inventory_read(&t->env, report, &t->gaps, &t->inventory), 0);
}

static const struct gpufree_device *device(const struct tree *t, const char *name)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%s", t->env.dev_root, name);

        for (size_t i = 0; i < t->inventory.devices.n; i++)
                if (gf_streq(t->inventory.devices.v[i].path, path))
                        return &t->inventory.devices.v[i];
        return NULL;
}

static const struct gpufree_gpu *gpu_of(const struct tree *t, const char *name)
{
        const struct gpufree_device *node = device(t, name);

        assert_non_null(node);
        assert_true(node->gpu >= 0 && (size_t)node->gpu < t->inventory.gpus.n);
        return &t->inventory.gpus.v[node->gpu];
}

static void put_information(const struct tree *t, const char *pci, int minor)
{
        _cleanup_free_ char *path = gf_asprintf("proc/driver/nvidia/gpus/%s/information", pci), *text = NULL;

        text = gf_asprintf("Model: \t\t NVIDIA H200\nIRQ:   \t\t 51\nGPU UUID: \t GPU-0000-%d\nBus Location: \t %s\n"
                           "Device Minor: \t %d\nGPU Excluded:\t No\n",
                           minor, pci, minor);
        put(t, path, text);
}

static struct gf_driver_gpu *add_reported(struct gf_driver_report *report, int minor, const char *pci)
{
        struct gf_driver_gpu *gpu = gf_vec_add(&report->gpus);

        if (!gpu)
                abort();
        report->asked = true;
        gpu->index = (int)report->gpus.n - 1;
        gpu->minor = minor;
        gpu->memory = (struct gf_memory){ 1000, 100, 10 };
        snprintf(gpu->pci, sizeof(gpu->pci), "%s", pci);
        snprintf(gpu->name, sizeof(gpu->name), "reported %d", gpu->index);
        return gpu;
}

static void stand_ins_are_placed_by_name(void **state)
{
        struct tree *t = *state;

        t->env.dev_root_set = true;
        put_link(t, "dev/nvidia3", "/dev/null");
        put_link(t, "dev/nvidia1", "/dev/zero");
        put_link(t, "dev/nvidiactl", "/dev/full");
        put_link(t, "dev/nvidia-uvm", "/dev/random");
        put_link(t, "dev/nvidia9", "/nowhere/at/all");
        put_link(t, "dev/nvidia8", "notes");
        put_information(t, "0000:18:00.0", 1); /* of this machine's own GPUs: nothing to do with stand-ins */
        look(t, NULL);
        assert_int_equal(t->gaps.n, 0);
        assert_int_equal(t->inventory.devices.n, 4);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_int_equal(gpu_of(t, "nvidia3")->minor, 3);
        assert_int_equal(gpu_of(t, "nvidia1")->minor, 1);
        assert_null(gpu_of(t, "nvidia1")->pci);
        assert_int_equal(device(t, "nvidia1")->gpu, 0); /* sorted by minor */
        assert_int_equal(device(t, "nvidia1")->rdev, makedev(1, 5));
        assert_int_equal(device(t, "nvidia1")->cls, GF_CLASS_NVIDIA_GPU);
        assert_int_equal(device(t, "nvidiactl")->gpu, -1);
        assert_int_equal(device(t, "nvidia-uvm")->gpu, -1);
        assert_true(t->inventory.gpus.v[0].memory.used == GPUFREE_UNKNOWN);
        assert_int_equal(t->inventory.gpus.v[0].index, -1);
}

static void node_numbers_are_the_target_nodes(void **state)
{
        struct tree *t = *state;
        struct stat st;

        put_link(t, "dev/nvidia0", "/dev/null");
        look(t, NULL);
        assert_int_equal(stat("/dev/null", &st), 0);
        assert_true(device(t, "nvidia0")->node_dev == st.st_dev && device(t, "nvidia0")->node_ino == st.st_ino);
}

static void the_drivers_number_counts_not_the_name(void **state)
{
        struct tree *t = *state;

        put(t, "proc/devices", "Character devices:\n  1 nvidia\n  1 nvidiactl\n");
        put_information(t, "0000:18:00.0", 3);
        put_information(t, "0000:3a:00.0", 5);
        put_link(t, "dev/nvidia0", "/dev/null"); /* 1:3 */
        put_link(t, "dev/nvidia1", "/dev/zero"); /* 1:5 */
        put_link(t, "dev/nvidia2", "/dev/full"); /* 1:7, which the driver does not know */
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_string_equal(gpu_of(t, "nvidia0")->pci, "0000:18:00.0");
        assert_string_equal(gpu_of(t, "nvidia0")->uuid, "GPU-0000-3");
        assert_string_equal(gpu_of(t, "nvidia0")->name, "NVIDIA H200");
        assert_string_equal(gpu_of(t, "nvidia1")->pci, "0000:3a:00.0");
        assert_int_equal(device(t, "nvidia1")->minor, 5);
        assert_int_equal(device(t, "nvidia2")->gpu, -1);
}

static void a_gpu_without_a_node_is_looked_for_by_number(void **state)
{
        struct tree *t = *state;
        struct gf_driver_report report = { 0 };

        put(t, "proc/devices", "Character devices:\n  1 nvidia-frontend\n");
        put_information(t, "0000:18:00.0", 3);
        put_information(t, "0000:3a:00.0", 8);
        put_link(t, "dev/nvidia3", "/dev/null");
        look(t, &report);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_int_equal(device(t, "nvidia8")->rdev, makedev(1, 8));
        assert_string_equal(gpu_of(t, "nvidia8")->pci, "0000:3a:00.0");
        assert_int_equal(t->gaps.n, 0);
}

static void a_node_without_a_driver_is_no_gpu(void **state)
{
        struct tree *t = *state;

        put(t, "proc/devices", "Character devices:\n  4 tty\n");
        put_link(t, "dev/nvidia0", "/dev/null");
        put_link(t, "dev/neuron0", "/dev/zero");
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 0);
        assert_int_equal(t->inventory.devices.n, 2); /* looked for all the same */
}

static void without_proc_devices_names_count(void **state)
{
        struct tree *t = *state;
        _cleanup_free_ char *path = below(t, "proc/devices");

        assert_int_equal(unlink(path), 0);
        put_link(t, "dev/nvidia4", "/dev/null");
        look(t, NULL);
        assert_int_equal(gpu_of(t, "nvidia4")->minor, 4);
}

/* Minors are given at probe, indices follow PCI: NVML says which is which, and the order is NVML's. */
static void indices_come_from_the_report(void **state)
{
        struct tree *t = *state;
        struct gf_driver_report report = { 0 };

        t->env.dev_root_set = true;
        put_link(t, "dev/nvidia0", "/dev/null");
        put_link(t, "dev/nvidia1", "/dev/zero");
        add_reported(&report, 1, "0000:18:00.0");
        add_reported(&report, 0, "0000:3a:00.0");
        snprintf(report.gpus.v[1].error, sizeof(report.gpus.v[1].error), "GPU 1: sick");
        look(t, &report);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_int_equal(gpu_of(t, "nvidia1")->index, 0);
        assert_int_equal(gpu_of(t, "nvidia0")->index, 1);
        assert_int_equal(device(t, "nvidia0")->gpu, 1);
        assert_string_equal(gpu_of(t, "nvidia1")->pci, "0000:18:00.0");
        assert_string_equal(gpu_of(t, "nvidia0")->name, "reported 1");
        assert_string_equal(gpu_of(t, "nvidia0")->error, "GPU 1: sick");
        assert_int_equal(gpu_of(t, "nvidia0")->memory.reserved, 10);
        assert_int_equal(t->gaps.n, 0);

        /* A later report: the same GPUs, one well again. */
        report.gpus.v[1].error[0] = '\0';
        report.gpus.v[1].memory.used = 7;
        assert_int_equal(gf_inventory_add_report(&t->env, &report, &t->gaps, &t->inventory), 0);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_null(gpu_of(t, "nvidia0")->error);
        assert_int_equal(gpu_of(t, "nvidia0")->memory.used, 7);
        gf_driver_report_done(&report);
}

static void pci_joins_report_and_proc(void **state)
{
        struct tree *t = *state;
        struct gf_driver_report report = { 0 };

        put(t, "proc/devices", "Character devices:\n  1 nvidia\n");
        put_information(t, "0000:18:00.0", 3);
        put_information(t, "0000:3a:00.0", 5);
        put_link(t, "dev/nvidia3", "/dev/null");
        put_link(t, "dev/nvidia5", "/dev/zero");
        add_reported(&report, -1, "0000:18:00.0");
        add_reported(&report, -1, "0000:3a:00.0");
        look(t, &report);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_int_equal(gpu_of(t, "nvidia3")->index, 0);
        assert_int_equal(gpu_of(t, "nvidia5")->index, 1);
        gf_driver_report_done(&report);
}

/* A lost GPU has no name in NVML; when all others are known, the one left is it. Of two, neither is guessed. */
static void a_lost_gpu_is_the_one_left(void **state)
{
        struct tree *t = *state;
        struct gf_driver_report report = { 0 };

        t->env.dev_root_set = true;
        put_link(t, "dev/nvidia0", "/dev/null");
        put_link(t, "dev/nvidia1", "/dev/zero");
        put_link(t, "dev/nvidia2", "/dev/full");
        add_reported(&report, 0, "0000:18:00.0");
        add_reported(&report, -1, "");
        add_reported(&report, 2, "0000:4c:00.0");
        look(t, &report);
        assert_int_equal(t->inventory.gpus.n, 3);
        assert_int_equal(gpu_of(t, "nvidia1")->index, 1);
        assert_int_equal(t->gaps.n, 0);
        gf_inventory_done(&t->inventory);

        report.gpus.v[2].minor = -1;
        report.gpus.v[2].pci[0] = '\0';
        look(t, &report);
        assert_int_equal(t->inventory.gpus.n, 5);
        assert_int_equal(gpu_of(t, "nvidia1")->index, -1);
        assert_int_equal(t->gaps.n, 2); /* two whose holders cannot be looked for */
        gf_inventory_done(&t->inventory);
        gf_strv_done(&t->gaps);

        /* Two without a name and one place left: it is one of them, and not to be told which. */
        t->inventory = (struct gf_inventory){ 0 };
        report.gpus.v[0].minor = 0;
        add_reported(&report, 1, "0000:5d:00.0");
        look(t, &report);
        assert_int_equal(gpu_of(t, "nvidia2")->index, -1);
        assert_int_equal(t->gaps.n, 2);
        gf_driver_report_done(&report);
}

static void a_gpu_that_cannot_be_looked_for_is_a_gap(void **state)
{
        struct tree *t = *state;
        struct gf_driver_report report = { 0 };

        t->env.dev_root_set = true;
        put_link(t, "dev/nvidia0", "/dev/null");
        add_reported(&report, 0, "0000:18:00.0");
        add_reported(&report, 1, "0000:3a:00.0");
        look(t, &report);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_int_equal(t->gaps.n, 1);
        assert_non_null(strstr(t->gaps.v[0], "GPU 1"));
        gf_driver_report_done(&report);
}

static void a_missing_device_root_is_a_gap(void **state)
{
        struct tree *t = *state;

        assert_int_equal(gf_strset(&t->env.dev_root, "/nonexistent/dev"), 0);
        look(t, NULL);
        assert_int_equal(t->inventory.devices.n, 0);
        assert_int_equal(t->gaps.n, 1);
        assert_non_null(strstr(t->gaps.v[0], "/nonexistent/dev"));
}

static void put_pci(const struct tree *t, const char *pci, const char *driver, const char *vendor, const char *class)
{
        _cleanup_free_ char *path = NULL, *target = NULL;

        path = gf_asprintf("sys/bus/pci/devices/%s/vendor", pci);
        put(t, path, vendor);
        free(TAKE(path));
        path = gf_asprintf("sys/bus/pci/devices/%s/device", pci);
        put(t, path, "0x74a1\n");
        free(TAKE(path));
        path = gf_asprintf("sys/bus/pci/devices/%s/class", pci);
        put(t, path, class);
        if (!driver)
                return;
        free(TAKE(path));
        path = gf_asprintf("sys/bus/pci/devices/%s/driver", pci);
        target = gf_asprintf("../../drivers/%s", driver);
        put_link(t, path, target);
}

static void put_char(const struct tree *t, const char *number, const char *subsystem, const char *device_target)
{
        _cleanup_free_ char *path = gf_asprintf("sys/dev/char/%s/subsystem", number), *target = NULL;

        target = gf_asprintf("../../../class/%s", subsystem);
        put_link(t, path, target);
        free(TAKE(path));
        path = gf_asprintf("sys/dev/char/%s/device", number);
        put_link(t, path, device_target);
}

static void drm_nodes_of_one_card_are_one_gpu(void **state)
{
        struct tree *t = *state;

        put_pci(t, "0000:03:00.0", "amdgpu", "0x1002\n", "0x038000\n");
        put(t, "sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total", "206141652992\n");
        put_char(t, "1:3", "drm", "../../../bus/pci/devices/0000:03:00.0");
        put_char(t, "1:5", "drm", "../../../bus/pci/devices/0000:03:00.0");
        put_link(t, "dev/dri/card0", "/dev/null");
        put_link(t, "dev/dri/renderD128", "/dev/zero");
        put_link(t, "dev/kfd", "/dev/full");
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 1);
        assert_int_equal(t->inventory.gpus.v[0].vendor, GPUFREE_VENDOR_AMD);
        assert_string_equal(t->inventory.gpus.v[0].pci, "0000:03:00.0");
        assert_string_equal(t->inventory.gpus.v[0].name, "amdgpu 1002:74a1");
        assert_int_equal(t->inventory.gpus.v[0].memory.total, 206141652992);
        assert_true(t->inventory.gpus.v[0].memory.used == GPUFREE_UNKNOWN);
        assert_int_equal(device(t, "dri/card0")->gpu, 0);
        assert_int_equal(device(t, "dri/renderD128")->gpu, 0);
        assert_int_equal(device(t, "dri/renderD128")->vendor, GPUFREE_VENDOR_AMD);
        assert_int_equal(device(t, "kfd")->gpu, -1);
}

static void a_virtual_display_is_not_wanted(void **state)
{
        struct tree *t = *state;

        put_pci(t, "0000:00:02.0", "bochs-drm", "0x1234\n", "0x030000\n");
        put_char(t, "1:3", "drm", "../../../bus/pci/devices/0000:00:02.0");
        put_char(t, "1:5", "drm", "../../../devices/platform/vgem");
        put_char(t, "1:7", "drm", "../../../devices/platform/vkms.0");
        put_link(t, "dev/dri/card0", "/dev/null");
        put_link(t, "dev/dri/renderD128", "/dev/zero");
        put_link(t, "dev/dri/card1", "/dev/full");
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 0);
        assert_int_equal(t->inventory.devices.n, 0);
}

static void an_unknown_display_driver_counts(void **state)
{
        struct tree *t = *state;

        put_pci(t, "0000:05:00.0", "newgpu", "0x8086\n", "0x030000\n");
        put_char(t, "1:3", "drm", "../../../bus/pci/devices/0000:05:00.0");
        put_char(t, "1:5", "drm", "../../../devices/platform/fd4a0000.gpu");
        put_char(t, "1:7", "drm", "../../../devices/platform/fd4a0000.gpu");
        put_link(t, "dev/dri/card0", "/dev/null");
        put_link(t, "dev/dri/card1", "/dev/zero");
        put_link(t, "dev/dri/renderD129", "/dev/full");
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_int_equal(gpu_of(t, "dri/card0")->vendor, GPUFREE_VENDOR_INTEL);
        assert_string_equal(gpu_of(t, "dri/card1")->name, "fd4a0000.gpu");
        assert_ptr_equal(gpu_of(t, "dri/card1"), gpu_of(t, "dri/renderD129"));
}

static void drm_nodes_of_an_nvidia_gpu_join_it(void **state)
{
        struct tree *t = *state;

        put(t, "proc/devices", "Character devices:\n  1 nvidia\n");
        put_information(t, "0000:18:00.0", 3);
        put_pci(t, "0000:18:00.0", "nvidia", "0x10de\n", "0x030200\n");
        put_char(t, "1:5", "drm", "../../../bus/pci/devices/0000:18:00.0");
        put_link(t, "dev/nvidia0", "/dev/null");
        put_link(t, "dev/dri/card1", "/dev/zero");
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 1);
        assert_ptr_equal(gpu_of(t, "dri/card1"), gpu_of(t, "nvidia0"));
        assert_string_equal(t->inventory.gpus.v[0].name, "NVIDIA H200");
}

static void drm_stand_ins_make_no_gpu(void **state)
{
        struct tree *t = *state;

        t->env.dev_root_set = true;
        put_pci(t, "0000:03:00.0", "amdgpu", "0x1002\n", "0x038000\n");
        put_char(t, "1:3", "drm", "../../../bus/pci/devices/0000:03:00.0");
        put_char(t, "1:5", "mem", "../../../bus/pci/devices/0000:03:00.0");
        put_link(t, "dev/dri/card0", "/dev/null");
        put_link(t, "dev/dri/renderD128", "/dev/zero"); /* /sys knows it as something else */
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 0);
        assert_int_equal(device(t, "dri/card0")->gpu, -1);
        assert_int_equal(device(t, "dri/renderD128")->vendor, GPUFREE_VENDOR_OTHER);
}

static void accelerators_are_gpus(void **state)
{
        struct tree *t = *state;

        put_pci(t, "0000:33:00.0", "habanalabs", "0x1da3\n", "0x120000\n");
        put_char(t, "1:3", "accel", "../../../bus/pci/devices/0000:33:00.0");
        put_link(t, "dev/accel/accel0", "/dev/null");
        put_link(t, "dev/accel/accel1", "/dev/zero"); /* nothing in /sys */
        put_link(t, "dev/neuron2", "/dev/full");
        put_link(t, "dev/davinci3", "/dev/random");
        put_link(t, "dev/davinci_manager", "/dev/urandom");
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 4);
        assert_int_equal(gpu_of(t, "accel/accel0")->vendor, GPUFREE_VENDOR_HABANA);
        assert_string_equal(gpu_of(t, "accel/accel0")->pci, "0000:33:00.0");
        assert_int_equal(gpu_of(t, "accel/accel1")->minor, 1);
        assert_int_equal(gpu_of(t, "neuron2")->vendor, GPUFREE_VENDOR_AWS);
        assert_int_equal(gpu_of(t, "davinci3")->vendor, GPUFREE_VENDOR_HUAWEI);
        assert_int_equal(device(t, "davinci_manager")->gpu, -1);
}

static void vfio_counts_with_a_gpu_behind_it(void **state)
{
        struct tree *t = *state;

        put_pci(t, "0000:41:00.0", "vfio-pci", "0x10de\n", "0x030200\n");
        put_pci(t, "0000:41:00.1", "vfio-pci", "0x10de\n", "0x040300\n");
        put_pci(t, "0000:42:00.0", "vfio-pci", "0x15b3\n", "0x020000\n");
        put_link(t, "sys/kernel/iommu_groups/12/devices/0000:41:00.0", "../../../../bus/pci/devices/0000:41:00.0");
        put_link(t, "sys/kernel/iommu_groups/12/devices/0000:41:00.1", "../../../../bus/pci/devices/0000:41:00.1");
        put_link(t, "sys/kernel/iommu_groups/13/devices/0000:42:00.0", "../../../../bus/pci/devices/0000:42:00.0");
        put_link(t, "sys/class/vfio-dev/vfio0/device", "../../../bus/pci/devices/0000:41:00.0");
        put_link(t, "sys/class/vfio-dev/vfio1/device", "../../../bus/pci/devices/0000:42:00.0");
        put_link(t, "dev/vfio/12", "/dev/null");
        put_link(t, "dev/vfio/13", "/dev/zero");
        put_link(t, "dev/vfio/14", "/dev/full");
        put_link(t, "dev/vfio/vfio", "/dev/tty");
        put_link(t, "dev/vfio/devices/vfio0", "/dev/random");
        put_link(t, "dev/vfio/devices/vfio1", "/dev/urandom");
        look(t, NULL);
        assert_int_equal(t->inventory.devices.n, 2);
        assert_int_equal(t->inventory.gpus.n, 1);
        assert_string_equal(gpu_of(t, "vfio/12")->pci, "0000:41:00.0");
        assert_int_equal(gpu_of(t, "vfio/12")->vendor, GPUFREE_VENDOR_NVIDIA);
        assert_ptr_equal(gpu_of(t, "vfio/devices/vfio0"), gpu_of(t, "vfio/12"));
        assert_int_equal(device(t, "vfio/12")->cls, GF_CLASS_VFIO_GROUP);
}

static void one_node_for_every_gpu(void **state)
{
        struct tree *t = *state;
        struct gf_driver_report report = { 0 };

        put_link(t, "dev/dxg", "/dev/null");
        look(t, &report);
        assert_int_equal(t->inventory.gpus.n, 1);
        assert_int_equal(gpu_of(t, "dxg")->vendor, GPUFREE_VENDOR_MICROSOFT);
        add_reported(&report, -1, "0000:01:00.0");
        assert_int_equal(gf_inventory_add_report(&t->env, &report, &t->gaps, &t->inventory), 0);
        assert_int_equal(t->inventory.gpus.n, 1);
        assert_int_equal(gpu_of(t, "dxg")->index, 0);
        gf_inventory_done(&t->inventory);
        add_reported(&report, -1, "0000:02:00.0");
        look(t, &report);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_int_equal(device(t, "dxg")->gpu, -1); /* of two, none in particular */
        assert_int_equal(t->gaps.n, 0);
        gf_driver_report_done(&report);
}

static void jetson_nodes_are_of_one_gpu(void **state)
{
        struct tree *t = *state;

        put_link(t, "dev/nvhost-gpu", "/dev/null");
        put_link(t, "dev/nvhost-ctrl-gpu", "/dev/zero");
        put_link(t, "dev/nvmap", "/dev/full");
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 1);
        assert_ptr_equal(gpu_of(t, "nvmap"), gpu_of(t, "nvhost-gpu"));
        assert_int_equal(gpu_of(t, "nvmap")->vendor, GPUFREE_VENDOR_NVIDIA);
}

static void paths_limit_the_devices_not_the_gpus(void **state)
{
        struct tree *t = *state;
        _cleanup_free_ char *link = below(t, "a-link");

        put_link(t, "dev/nvidia0", "/dev/null");
        put_link(t, "dev/nvidia1", "/dev/zero");
        put_link(t, "a-link", "dev/nvidia1");
        assert_int_equal(gf_strv_add(&t->env.paths, link), 0);
        assert_int_equal(gf_strv_add(&t->env.paths, "/dev/zero"), 0); /* the same number again */
        assert_int_equal(gf_strv_add(&t->env.paths, "/dev/full"), 0); /* no GPU */
        look(t, NULL);
        assert_int_equal(t->inventory.gpus.n, 2);
        assert_int_equal(t->inventory.devices.n, 2);
        assert_string_equal(t->inventory.devices.v[0].path, link);
        assert_int_equal(t->inventory.devices.v[0].gpu, 1);
        assert_int_equal(t->inventory.devices.v[0].cls, GF_CLASS_NVIDIA_GPU);
        assert_true(t->inventory.devices.v[0].asked);
        assert_int_equal(t->inventory.devices.v[1].cls, GF_CLASS_OTHER);
        assert_int_equal(t->inventory.devices.v[1].gpu, -1);
        assert_true(t->inventory.devices.v[1].asked);
}

static void a_path_that_is_no_device_is_said(void **state)
{
        struct tree *t = *state;
        _cleanup_free_ char *file = below(t, "dev/notes"), *missing = below(t, "dev/missing"), *dir = below(t, "dev");
        _cleanup_free_ char *sentence = gf_asprintf("%s is no device", file);

        assert_int_equal(gf_device_check_path(&t->env, file), -ENOTBLK);
        assert_string_equal(t->env.error, sentence);
        assert_int_equal(gf_device_check_path(&t->env, dir), -ENOTBLK);
        assert_int_equal(gf_device_check_path(&t->env, missing), -ENOENT);
        assert_non_null(strstr(t->env.error, missing));
        assert_int_equal(gf_device_check_path(&t->env, "/dev/null"), 0);
        assert_int_equal(gf_strv_add(&t->env.paths, file), 0);
        assert_int_equal(gf_inventory_read(&t->env, NULL, &t->gaps, &t->inventory), -ENOTBLK);
        assert_string_equal(t->env.error, sentence);
}

static void a_block_device_is_a_device(void **state)
{
        struct tree *t = *state;
        struct stat st;

        if (stat("/dev/loop0", &st) < 0 || !S_ISBLK(st.st_mode))
                skip_because("device nodes cannot be made here");
        assert_int_equal(gf_strv_add(&t->env.paths, "/dev/loop0"), 0);
        look(t, NULL);
        assert_int_equal(t->inventory.devices.n, 1);
        assert_true(t->inventory.devices.v[0].block);
        assert_null(gf_inventory_find(&t->inventory, st.st_rdev, false));
}

/* vcs and loop0 have the same number, and are two devices. */
static void block_and_character_are_two(void **state)
{
        struct tree *t = *state;
        struct stat chr, blk;

        if (stat("/dev/loop0", &blk) < 0 || stat("/dev/vcs", &chr) < 0 || chr.st_rdev != blk.st_rdev)
                skip_because("device nodes cannot be made here");
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(gf_strv_add(&t->env.paths, "/dev/vcs"), 0);
                assert_int_equal(gf_strv_add(&t->env.paths, "/dev/loop0"), 0);
        }
        look(t, NULL);
        assert_int_equal(t->inventory.devices.n, 2);
        assert_false(t->inventory.devices.v[0].block);
        assert_true(t->inventory.devices.v[1].block);
}

#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(stand_ins_are_placed_by_name),
                TREE_TEST(node_numbers_are_the_target_nodes),
                TREE_TEST(the_drivers_number_counts_not_the_name),
                TREE_TEST(a_gpu_without_a_node_is_looked_for_by_number),
                TREE_TEST(a_node_without_a_driver_is_no_gpu),
                TREE_TEST(without_proc_devices_names_count),
                TREE_TEST(indices_come_from_the_report),
                TREE_TEST(pci_joins_report_and_proc),
                TREE_TEST(a_lost_gpu_is_the_one_left),
                TREE_TEST(a_gpu_that_cannot_be_looked_for_is_a_gap),
                TREE_TEST(a_missing_device_root_is_a_gap),
                TREE_TEST(drm_nodes_of_one_card_are_one_gpu),
                TREE_TEST(a_virtual_display_is_not_wanted),
                TREE_TEST(an_unknown_display_driver_counts),
                TREE_TEST(drm_nodes_of_an_nvidia_gpu_join_it),
                TREE_TEST(drm_stand_ins_make_no_gpu),
                TREE_TEST(accelerators_are_gpus),
                TREE_TEST(vfio_counts_with_a_gpu_behind_it),
                TREE_TEST(one_node_for_every_gpu),
                TREE_TEST(jetson_nodes_are_of_one_gpu),
                TREE_TEST(paths_limit_the_devices_not_the_gpus),
                TREE_TEST(a_path_that_is_no_device_is_said),
                TREE_TEST(a_block_device_is_a_device),
                TREE_TEST(block_and_character_are_two),
        };

        return cmocka_run_group_tests_name("inventory", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* DRM, accel and VFIO nodes: /sys says which device is behind one, and whether that is a GPU. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/num.h"
#include "gpu/collect.h"
#include "sys/procfs.h"

/* The device behind a node. */
struct behind {
        char key[64];    /* name of its directory: "0000:18:00.0", "fd4a0000.gpu" */
        char pci[32];    /* "" no PCI device */
        char driver[32]; /* "" none or not known */
        uint32_t vendor, device, pci_class;
};

static int read_hex(const char *dir, const char *name, uint32_t *ret)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%s", dir, name), *text = NULL;
        uint64_t value;
        int r;

        if (!path)
                return -ENOMEM;
        r = gf_read_file(AT_FDCWD, path, 256, &text, NULL);
        if (r < 0)
                return r;
        text[strcspn(text, "\n")] = '\0';
        r = gf_startswith(text, "0x") ? gf_parse_hex64(text + 2, &value) : -EINVAL;
        if (r < 0 || value > UINT32_MAX)
                return -EINVAL;
        *ret = (uint32_t)value;
        return 0;
}

/* Last part of the target of a link into `buf`; "" when there is none. */
static void read_link_name(const char *dir, const char *name, char *buf, size_t size)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%s", dir, name), *target = NULL;
        const char *base;

        buf[0] = '\0';
        if (!path || gf_read_link(AT_FDCWD, path, &target) < 0)
                return;
        base = strrchr(target, '/');
        base = base ? base + 1 : target;
        if (strlen(base) < size)
                memcpy(buf, base, strlen(base) + 1);
}

/* What is at `dir`, the directory of a device (or a link to it) that is called `key`. */
static void read_behind(const char *dir, const char *key, struct behind *ret)
{
        struct behind behind = { 0 };

        snprintf(behind.key, sizeof(behind.key), "%s", key);
        (void)gf_parse_pci(key, behind.pci, sizeof(behind.pci));
        read_link_name(dir, "driver", behind.driver, sizeof(behind.driver));
        (void)read_hex(dir, "vendor", &behind.vendor);
        (void)read_hex(dir, "device", &behind.device);
        (void)read_hex(dir, "class", &behind.pci_class);
        *ret = behind;
}

/* Follows `link`, a link to a device's directory. -ENOENT. */
static int follow(const char *link, struct behind *ret)
{
        _cleanup_free_ char *target = NULL;
        const char *base;
        int r;

        r = gf_read_link(AT_FDCWD, link, &target);
        if (r < 0)
                return r;
        base = strrchr(target, '/');
        read_behind(link, base ? base + 1 : target, ret);
        return 0;
}

/*
 * The device of a DRM or accel node by the node's number. A stand-in has some other driver's number: then the subsystem
 * is another one, and /sys knows nothing of it.
 */
static int behind_number(const struct gf_collect *collect, dev_t rdev, const char *subsystem, struct behind *ret)
{
        _cleanup_free_ char *dir = NULL, *link = NULL;
        char found[32];

        dir = gf_asprintf("%s/dev/char/%u:%u", collect->env->sys_root, major(rdev), minor(rdev));
        link = gf_asprintf("%s/dev/char/%u:%u/device", collect->env->sys_root, major(rdev), minor(rdev));
        if (!dir || !link)
                return -ENOMEM;
        read_link_name(dir, "subsystem", found, sizeof(found));
        if (!gf_streq(found, subsystem))
                return -ENOENT;
        return follow(link, ret);
}

/* A driver without a driver: the platform devices of vgem and vkms are named after them, "vgem" or "vgem.0". */
static const struct gf_driver_row *driver_of(const struct behind *behind)
{
        const struct gf_driver_row *row = gf_driver_match(behind->driver);
        char name[sizeof(behind->key)];

        if (row || behind->driver[0] || behind->pci[0])
                return row;
        snprintf(name, sizeof(name), "%s", behind->key);
        name[strcspn(name, ".")] = '\0';
        return gf_driver_match(name);
}

/* Name and memory, as far as /sys has them. */
static int describe(const struct gf_collect *collect, const struct behind *behind, struct gpufree_gpu *gpu)
{
        _cleanup_free_ char *path = NULL, *text = NULL, *name = NULL;
        uint64_t bytes;

        if (gpu->name)
                return 0;
        if (!behind->pci[0])
                return gf_strset(&gpu->name, behind->key);
        path = gf_asprintf("%s/bus/pci/devices/%s/product_name", collect->env->sys_root, behind->pci);
        if (!path)
                return -ENOMEM;
        if (gf_read_file(AT_FDCWD, path, 256, &text, NULL) == 0)
                text[strcspn(text, "\n")] = '\0';
        if (text && text[0])
                name = TAKE(text);
        else
                name = gf_asprintf("%s %04x:%04x", behind->driver[0] ? behind->driver : "PCI", behind->vendor,
                                   behind->device);
        if (!name)
                return -ENOMEM;
        gpu->name = TAKE(name);
        free(TAKE(path));
        free(TAKE(text));
        path = gf_asprintf("%s/bus/pci/devices/%s/mem_info_vram_total", collect->env->sys_root, behind->pci);
        if (!path)
                return -ENOMEM;
        if (gf_read_file(AT_FDCWD, path, 256, &text, NULL) == 0) {
                text[strcspn(text, "\n")] = '\0';
                if (gf_parse_u64(text, &bytes) == 0)
                        gpu->memory.total = bytes;
        }
        return 0;
}

/* Ties the node to the GPU of this device; a GPU is only added when the nodes are this machine's own. */
static int place(struct gf_collect *collect, struct gpufree_device *device, const struct behind *behind)
{
        struct gf_inventory *inventory = &collect->inventory;
        int position = -1;

        if (behind->pci[0])
                position = gf_gpu_find(inventory, device->vendor, behind->pci, NULL, -1);
        else
                for (size_t i = 0; i < inventory->gpus.n; i++)
                        if (!inventory->gpus.v[i].pci && gf_streq(inventory->gpus.v[i].name, behind->key))
                                position = (int)i;
        if (position < 0 && !collect->env->dev_root_set) {
                position = gf_gpu_find_or_add(inventory, device->vendor, behind->pci, NULL, -1);
                if (position < 0)
                        return position;
        }
        device->gpu = position;
        return position < 0 ? 0 : describe(collect, behind, &inventory->gpus.v[position]);
}

static int place_by_driver(struct gf_collect *collect, struct gpufree_device *device, const struct behind *behind)
{
        const struct gf_driver_row *row = driver_of(behind);

        if (row && !row->gpu)
                return 1;
        if (row)
                device->vendor = row->vendor;
        else
                device->vendor = behind->pci[0] ? gf_pci_vendor(behind->vendor) : GPUFREE_VENDOR_OTHER;
        return place(collect, device, behind);
}

/* The GPUs of an IOMMU group: audio and USB functions of the same card do not count. */
static int place_vfio_group(struct gf_collect *collect, struct gpufree_device *device)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;
        struct behind gpu = { 0 };
        struct gf_dirwalk walk;
        const char *name;
        char buf[4096];
        size_t gpus = 0;
        int r;

        path = gf_asprintf("%s/kernel/iommu_groups/%d/devices", collect->env->sys_root, device->minor);
        if (!path)
                return -ENOMEM;
        fd = gf_open_dir(AT_FDCWD, path);
        if (fd < 0)
                return 1;
        gf_dirwalk_init(&walk, fd, buf, sizeof(buf));
        while ((r = gf_dirwalk_next(&walk, &name)) > 0) {
                _cleanup_free_ char *dir = gf_asprintf("%s/%s", path, name);
                struct behind behind;

                if (!dir)
                        return -ENOMEM;
                read_behind(dir, name, &behind);
                if (!gf_pci_class_is_gpu(behind.pci_class))
                        continue;
                gpu = behind;
                gpus++;
        }
        if (gpus == 0)
                return 1;
        device->vendor = gf_pci_vendor(gpu.vendor);
        return gpus == 1 ? place(collect, device, &gpu) : 0; /* of several it is none in particular */
}

static int place_vfio_cdev(struct gf_collect *collect, struct gpufree_device *device)
{
        _cleanup_free_ char *link = NULL;
        struct behind behind;

        link = gf_asprintf("%s/class/vfio-dev/vfio%d/device", collect->env->sys_root, device->minor);
        if (!link)
                return -ENOMEM;
        if (follow(link, &behind) < 0 || !gf_pci_class_is_gpu(behind.pci_class))
                return 1;
        device->vendor = gf_pci_vendor(behind.vendor);
        return place(collect, device, &behind);
}

int gf_sysfs_place(struct gf_collect *collect, struct gpufree_device *device)
{
        bool accel = device->cls == GF_CLASS_ACCEL;
        struct behind behind;
        int r;

        if (device->cls == GF_CLASS_VFIO_GROUP)
                return place_vfio_group(collect, device);
        if (device->cls == GF_CLASS_VFIO_CDEV)
                return place_vfio_cdev(collect, device);
        r = behind_number(collect, device->rdev, accel ? "accel" : "drm", &behind);
        if (r == -ENOMEM)
                return r;
        if (r == 0)
                return place_by_driver(collect, device, &behind);
        device->vendor = GPUFREE_VENDOR_OTHER;
        if (!accel)
                return 0; /* wanted all the same; which GPU it is of is not known */
        r = gf_gpu_find_or_add(&collect->inventory, device->vendor, NULL, NULL, device->minor);
        if (r < 0)
                return r;
        device->gpu = r;
        return 0;
}

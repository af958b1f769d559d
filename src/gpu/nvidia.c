/* SPDX-License-Identifier: MIT */
/* NVIDIA GPUs: the driver's files in /proc, and its device nodes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "gpu/collect.h"
#include "sys/procfs.h"

static int add_proc_gpu(struct gf_collect *collect, int dirfd, const char *name)
{
        _cleanup_free_ char *path = NULL, *text = NULL;
        struct gf_nvidia_information info;
        struct gpufree_gpu *gpu;
        int r;

        path = gf_asprintf("%s/information", name);
        if (!path)
                return -ENOMEM;
        r = gf_read_file(dirfd, path, 16384, &text, NULL);
        if (r == -ENOMEM)
                return r;
        if (r < 0 || gf_parse_nvidia_information(text, &info) < 0 || info.excluded)
                return 0;
        if (!info.pci[0])
                (void)gf_parse_pci(name, info.pci, sizeof(info.pci));
        r = gf_gpu_find_or_add(&collect->inventory, GPUFREE_VENDOR_NVIDIA, info.pci, info.uuid, info.minor);
        if (r < 0)
                return r;
        gpu = &collect->inventory.gpus.v[r];
        collect->proc_gpus = true;
        return info.model[0] ? gf_strset(&gpu->name, info.model) : 0;
}

/* Is there a node under a device root of the caller's that is the driver's, so that /proc speaks of it? */
static bool has_driver_node(const struct gf_collect *collect)
{
        for (size_t i = 0; i < collect->inventory.devices.n; i++) {
                const struct gpufree_device *device = &collect->inventory.devices.v[i];

                if (device->cls == GF_CLASS_NVIDIA_GPU &&
                    gf_majors_find(&collect->majors, major(device->rdev), "nvidia"))
                        return true;
        }
        return false;
}

int gf_nvidia_collect(struct gf_collect *collect)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;
        struct gf_dirwalk walk;
        const char *name;
        char buf[4096];
        int r;

        /* A simulated machine's stand-ins must not be mixed with the GPUs that this machine may have. */
        if (collect->env->dev_root_set && !has_driver_node(collect))
                return 0;
        path = gf_asprintf("%s/driver/nvidia/gpus", collect->env->proc_root);
        if (!path)
                return -ENOMEM;
        fd = gf_open_dir(AT_FDCWD, path);
        if (fd == -ENOENT || fd == -ENOTDIR)
                return 0;
        if (fd < 0)
                return gf_strv_addf(collect->gaps, "%s cannot be read (%s): which GPU is which is not known", path,
                                    strerror(-fd));
        gf_dirwalk_init(&walk, fd, buf, sizeof(buf));
        while ((r = gf_dirwalk_next(&walk, &name)) > 0) {
                r = add_proc_gpu(collect, fd, name);
                if (r < 0)
                        return r;
        }
        return 0;
}

int gf_nvidia_place(struct gf_collect *collect, struct gpufree_device *device, const struct gf_class_row *row)
{
        bool drivers = gf_device_is_drivers(collect, device, row);
        int position;

        if (drivers)
                device->minor = (int)minor(device->rdev);
        position = gf_gpu_find(&collect->inventory, GPUFREE_VENDOR_NVIDIA, NULL, NULL, device->minor);
        /* A node that was left behind: the driver knows its GPUs, and this is none of them. */
        if (position < 0 && drivers && collect->proc_gpus)
                return 0;
        if (position < 0)
                position = gf_gpu_find_or_add(&collect->inventory, GPUFREE_VENDOR_NVIDIA, NULL, NULL, device->minor);
        if (position < 0)
                return position;
        device->gpu = position;
        return 0;
}

int gf_nvidia_add_missing_nodes(struct gf_collect *collect)
{
        struct gf_inventory *inventory = &collect->inventory;
        int number = gf_majors_of(&collect->majors, "nvidia");

        if (number < 0)
                number = gf_majors_of(&collect->majors, "nvidia-frontend");
        if (number < 0 || collect->env->dev_root_set)
                return 0;
        for (size_t i = 0; i < inventory->gpus.n; i++) {
                const struct gpufree_gpu *gpu = &inventory->gpus.v[i];
                struct gpufree_device *device;
                dev_t rdev;

                if (gpu->vendor != GPUFREE_VENDOR_NVIDIA || gpu->minor < 0 || !gpu->pci)
                        continue;
                rdev = makedev((unsigned)number, (unsigned)gpu->minor);
                if (gf_inventory_find(inventory, rdev, false))
                        continue;
                device = gf_vec_add(&inventory->devices);
                if (!device)
                        return -ENOMEM;
                *device = (struct gpufree_device){
                        .path = gf_asprintf("%s/nvidia%d", collect->env->dev_root, gpu->minor),
                        .rdev = rdev,
                        .cls = GF_CLASS_NVIDIA_GPU,
                        .vendor = GPUFREE_VENDOR_NVIDIA,
                        .minor = gpu->minor,
                        .gpu = (int)i,
                };
                if (!device->path)
                        return -ENOMEM;
        }
        return 0;
}

/* SPDX-License-Identifier: MIT */
#include "gpu/inventory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/num.h"
#include "gpu/collect.h"
#include "sys/procfs.h"

int gf_gpu_find(const struct gf_inventory *inventory, enum gpufree_vendor vendor, const char *pci, const char *uuid,
                int minor)
{
        for (size_t i = 0; i < inventory->gpus.n; i++) {
                const struct gpufree_gpu *gpu = &inventory->gpus.v[i];
                bool pci_known = pci && pci[0] && gpu->pci, uuid_known = uuid && uuid[0] && gpu->uuid;

                if (gpu->vendor != vendor)
                        continue;
                if ((pci_known && !gf_streq(gpu->pci, pci)) || (uuid_known && !gf_streq(gpu->uuid, uuid)))
                        continue;
                if (pci_known || uuid_known || (minor >= 0 && gpu->minor == minor))
                        return (int)i;
        }
        return -1;
}

int gf_gpu_find_or_add(struct gf_inventory *inventory, enum gpufree_vendor vendor, const char *pci, const char *uuid,
                       int minor)
{
        int position = gf_gpu_find(inventory, vendor, pci, uuid, minor);
        struct gpufree_gpu *gpu;

        if (position < 0) {
                gpu = gf_vec_add(&inventory->gpus);
                if (!gpu)
                        return -ENOMEM;
                position = (int)inventory->gpus.n - 1;
                *gpu = (struct gpufree_gpu){
                        .index = -1,
                        .minor = minor,
                        .vendor = vendor,
                        .memory = { GPUFREE_UNKNOWN, GPUFREE_UNKNOWN, GPUFREE_UNKNOWN },
                        .accounted = GPUFREE_UNKNOWN,
                        .unaccounted = GPUFREE_UNKNOWN,
                };
        }
        gpu = &inventory->gpus.v[position];
        if ((pci && pci[0] && gf_strset(&gpu->pci, pci) < 0) || (uuid && uuid[0] && gf_strset(&gpu->uuid, uuid) < 0))
                return -ENOMEM;
        return position;
}

bool gf_device_is_drivers(const struct gf_collect *collect, const struct gpufree_device *device,
                          const struct gf_class_row *row)
{
        return !device->block && row->driver && gf_majors_find(&collect->majors, major(device->rdev), row->driver);
}

static int read_majors(struct gf_collect *collect)
{
        _cleanup_free_ char *path = gf_asprintf("%s/devices", collect->env->proc_root), *text = NULL;
        int r;

        if (!path)
                return -ENOMEM;
        r = gf_read_file(AT_FDCWD, path, 1 << 20, &text, NULL);
        if (r == -ENOMEM)
                return r;
        /* Without it a node is taken by its name. */
        return r < 0 ? 0 : gf_parse_char_majors(text, &collect->majors);
}

static int add_device(struct gf_inventory *inventory, const char *path, const struct stat *st,
                      struct gpufree_device **ret_device)
{
        struct gpufree_device *device;

        if (gf_inventory_find(inventory, st->st_rdev, S_ISBLK(st->st_mode)))
                return 0; /* another name of the same */
        device = gf_vec_add(&inventory->devices);
        if (!device)
                return -ENOMEM;
        *device = (struct gpufree_device){
                .path = strdup(path),
                .rdev = st->st_rdev,
                .block = S_ISBLK(st->st_mode),
                .node_dev = st->st_dev,
                .node_ino = st->st_ino,
                .minor = -1,
                .gpu = -1,
        };
        if (!device->path)
                return -ENOMEM;
        *ret_device = device;
        return 1;
}

/* Every node of one directory that the table knows. */
static int walk_directory(struct gf_collect *collect, const char *dir)
{
        _cleanup_free_ char *root = NULL;
        _cleanup_close_ int fd = -1;
        struct gf_dirwalk walk;
        const char *name;
        char buf[8192];
        int r;

        root = gf_asprintf("%s%s%s", collect->env->dev_root, dir[0] ? "/" : "", dir);
        if (!root)
                return -ENOMEM;
        fd = gf_open_dir(AT_FDCWD, root);
        if ((fd == -ENOENT || fd == -ENOTDIR) && dir[0])
                return 0;
        if (fd < 0)
                return gf_strv_addf(collect->gaps, "%s cannot be read (%s): the devices in it are not known", root,
                                    strerror(-fd));
        gf_dirwalk_init(&walk, fd, buf, sizeof(buf));
        while ((r = gf_dirwalk_next(&walk, &name)) > 0) {
                _cleanup_free_ char *path = NULL;
                struct gpufree_device *device;
                const struct gf_class_row *row;
                struct stat st;
                int number;

                row = gf_class_match(dir, name, &number);
                if (!row)
                        continue;
                if (fstatat(fd, name, &st, AT_NO_AUTOMOUNT) < 0) {
                        if (errno == ENOENT) /* gone, or a link to nothing */
                                continue;
                        r = gf_strv_addf(collect->gaps, "%s/%s cannot be looked at (%s): who has it open is not known",
                                         root, name, strerror(errno));
                        if (r < 0)
                                return r;
                        continue;
                }
                if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
                        continue;
                path = gf_asprintf("%s/%s", root, name);
                if (!path)
                        return -ENOMEM;
                r = add_device(&collect->inventory, path, &st, &device);
                if (r < 0)
                        return r;
                if (r == 0)
                        continue;
                device->cls = row->cls;
                device->vendor = row->vendor;
                device->minor = number;
        }
        if (r < 0)
                return gf_strv_addf(collect->gaps, "%s cannot be read (%s): not every device in it is known", root,
                                    strerror(-r));
        return 0;
}

static int compare_devices(const void *a, const void *b)
{
        const struct gpufree_device *x = a, *y = b;

        if (x->cls != y->cls)
                return x->cls < y->cls ? -1 : 1;
        if (x->minor != y->minor)
                return x->minor < y->minor ? -1 : 1;
        return strcmp(x->path, y->path);
}

static int walk_devices(struct gf_collect *collect)
{
        size_t n;
        const struct gf_class_row *rows = gf_class_rows(&n);

        for (size_t i = 0; i < n; i++) {
                bool done = false;
                int r;

                for (size_t k = 0; k < i; k++)
                        done = done || gf_streq(rows[i].dir, rows[k].dir);
                if (done)
                        continue;
                r = walk_directory(collect, rows[i].dir);
                if (r < 0)
                        return r;
        }
        if (collect->inventory.devices.n > 0)
                qsort(collect->inventory.devices.v, collect->inventory.devices.n,
                      sizeof(collect->inventory.devices.v[0]), compare_devices);
        return 0;
}

/* The row of a device that was found by its name. */
static const struct gf_class_row *row_of(const struct gpufree_device *device)
{
        size_t n;
        const struct gf_class_row *rows = gf_class_rows(&n);

        for (size_t i = 0; i < n; i++)
                if (rows[i].cls == device->cls && (rows[i].rest == GF_NAME_NUMBER) == (device->minor >= 0))
                        return &rows[i];
        return NULL;
}

/* 1: not wanted. */
static int place_device(struct gf_collect *collect, struct gpufree_device *device)
{
        const struct gf_class_row *row = row_of(device);
        int r;

        if (!row || row->gpu == GF_GPU_NONE || row->gpu == GF_GPU_SINGLE)
                return 0;
        if (row->gpu == GF_GPU_SYSFS || row->cls == GF_CLASS_ACCEL)
                return gf_sysfs_place(collect, device);
        /* No driver has this number: a node that outlived its driver. Nobody can open it. */
        if (!device->block && collect->majors.known && !gf_majors_find(&collect->majors, major(device->rdev), ""))
                return 0;
        if (row->cls == GF_CLASS_NVIDIA_GPU)
                return gf_nvidia_place(collect, device, row);
        r = gf_gpu_find_or_add(&collect->inventory, row->vendor, NULL, NULL, device->minor);
        if (r < 0)
                return r;
        device->gpu = r;
        return 0;
}

static int place_devices(struct gf_collect *collect)
{
        struct gf_inventory *inventory = &collect->inventory;
        size_t kept = 0;

        for (size_t i = 0; i < inventory->devices.n; i++) {
                int r = place_device(collect, &inventory->devices.v[i]);

                if (r < 0)
                        return r;
                if (r == 0) {
                        struct gpufree_device device = inventory->devices.v[i];

                        /* Swapped, so that each path stays owned by one element. */
                        inventory->devices.v[i] = inventory->devices.v[kept];
                        inventory->devices.v[kept++] = device;
                }
        }
        while (inventory->devices.n > kept)
                free(inventory->devices.v[--inventory->devices.n].path);
        return 0;
}

/* -ENOENT, -ENOTBLK, -errno with a sentence. */
static int stat_device(struct gf_env *env, const char *path, struct stat *ret)
{
        struct stat st;

        if (stat(path, &st) < 0) {
                int error = errno;

                return gf_fail(env, -error, "%s: %s", path, strerror(error));
        }
        if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
                return gf_fail(env, -ENOTBLK, "%s is no device", path);
        *ret = st;
        return 0;
}

int gf_device_check_path(struct gf_env *env, const char *path)
{
        struct stat st;

        return stat_device(env, path, &st);
}

/* The devices that were named, in place of all that were found; those that are known keep their class and GPU. */
static int take_paths(struct gf_collect *collect)
{
        struct gf_inventory *all = &collect->inventory, asked = { 0 };
        int r = 0;

        for (size_t i = 0; i < collect->env->paths.n; i++) {
                const char *path = collect->env->paths.v[i];
                const struct gpufree_device *known;
                struct gpufree_device *device;
                struct stat st;

                r = stat_device(collect->env, path, &st);
                if (r >= 0)
                        r = add_device(&asked, path, &st, &device);
                if (r < 0)
                        goto fail;
                if (r == 0)
                        continue;
                device->asked = true;
                known = gf_inventory_find(all, st.st_rdev, S_ISBLK(st.st_mode));
                if (!known)
                        continue;
                device->cls = known->cls;
                device->vendor = known->vendor;
                device->minor = known->minor;
                device->gpu = known->gpu;
                device->node_dev = known->node_dev;
                device->node_ino = known->node_ino;
        }
        for (size_t i = 0; i < all->devices.n; i++)
                free(all->devices.v[i].path);
        gf_vec_done(&all->devices);
        memcpy(&all->devices, &asked.devices, sizeof(all->devices));
        return 0;
fail:
        gf_inventory_done(&asked);
        return r;
}

static int collect_all(struct gf_collect *collect)
{
        int r;

        r = read_majors(collect);
        if (r < 0)
                return r;
        r = walk_devices(collect);
        if (r < 0)
                return r;
        r = gf_nvidia_collect(collect);
        if (r < 0)
                return r;
        r = place_devices(collect);
        if (r < 0)
                return r;
        r = gf_nvidia_add_missing_nodes(collect);
        if (r < 0)
                return r;
        r = gf_place_shared(&collect->inventory);
        if (r < 0)
                return r;
        return collect->env->paths.n > 0 ? take_paths(collect) : 0;
}

int gf_inventory_read(struct gf_env *env, const struct gf_driver_report *report, gf_strv *gaps,
                      struct gf_inventory *ret_inventory)
{
        _cleanup_(gf_strv_done) gf_strv unheard = { 0 };
        struct gf_collect collect = { .env = env };
        int r;

        if (!gaps)
                gaps = &unheard;
        collect.gaps = gaps;
        r = collect_all(&collect);
        if (r >= 0)
                r = report ? gf_inventory_add_report(env, report, gaps, &collect.inventory)
                           : gf_sort_gpus(&collect.inventory);
        gf_majors_done(&collect.majors);
        if (r < 0) {
                gf_inventory_done(&collect.inventory);
                return r;
        }
        *ret_inventory = collect.inventory;
        return 0;
}

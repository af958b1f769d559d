/* SPDX-License-Identifier: MIT */
/* DRM drivers: /proc/PID/fdinfo of an open DRM node says how much of the GPU's own memory its client has. */
#include <errno.h>
#include <fcntl.h>

#include "gpu/vendor.h"
#include "parse/drm.h"
#include "sys/procfs.h"

#define FDINFO_MAX 8192

/* A client that was counted. */
struct client {
        uint64_t id;
        int gpu;
        pid_t pid;
};
typedef GF_VEC(struct client) clients;

/* Was it counted already? Another process that has it keeps the same memory: how much is its own is not to be told. */
static int note_client(clients *list, const struct client *client, bool *ret_again, bool *ret_others)
{
        struct client *slot;

        *ret_again = *ret_others = false;
        for (size_t i = 0; i < list->n; i++)
                if (list->v[i].id == client->id && list->v[i].gpu == client->gpu) {
                        *ret_again = true;
                        *ret_others = *ret_others || list->v[i].pid != client->pid;
                }
        if (*ret_again)
                return 0;
        slot = gf_vec_add(list);
        if (!slot)
                return -ENOMEM;
        *slot = *client;
        return 0;
}

static int add_use(gf_vendor_uses *uses, pid_t pid, int gpu, uint64_t bytes)
{
        struct gf_vendor_use *use = gf_vec_add(uses);

        if (!use)
                return -ENOMEM;
        *use = (struct gf_vendor_use){ .pid = pid, .gpu = gpu, .bytes = bytes };
        return 0;
}

/* The GPU of the descriptor: by what the driver says, else by its node. */
static int gpu_of(const struct gpufree_snapshot *snapshot, const struct gpufree_device *device,
                  const struct gf_drm_fdinfo *info)
{
        for (size_t i = 0; info->pdev[0] && i < snapshot->inventory.gpus.n; i++)
                if (gf_streq(snapshot->inventory.gpus.v[i].pci, info->pdev))
                        return (int)i;
        return device->gpu;
}

static int read_hit(struct gf_env *env, const struct gpufree_snapshot *snapshot, const struct gf_hit *hit,
                    const struct gpufree_device *device, clients *seen, gf_vendor_uses *uses)
{
        char path[96], text[FDINFO_MAX];
        _cleanup_free_ char *whole = NULL;
        struct gf_drm_fdinfo info;
        bool again = false, others = false;
        ssize_t n;
        int gpu, r;

        (void)snprintf(path, sizeof(path), "%d/task/%d/fdinfo/%d", (int)hit->id.pid, (int)hit->tid, hit->fd);
        whole = gf_asprintf("%s/%s", env->proc_root, path);
        if (!whole)
                return -ENOMEM;
        n = gf_read_head(AT_FDCWD, whole, text, sizeof(text));
        if (n <= 0 || !gf_parse_drm_fdinfo(text, (size_t)n, &info))
                return 0;
        gpu = gpu_of(snapshot, device, &info);
        if (gpu < 0 || snapshot->inventory.gpus.v[gpu].vendor == GPUFREE_VENDOR_NVIDIA)
                return 0;
        if (info.has_client) {
                r = note_client(seen, &(struct client){ info.client, gpu, hit->id.pid }, &again, &others);
                if (r < 0)
                        return r;
        }
        if (again && !others)
                return 0;
        return add_use(uses, hit->id.pid, gpu, again ? GPUFREE_UNKNOWN : info.local);
}

int gf_drm_read(struct gf_env *env, const struct gpufree_snapshot *snapshot, gf_vendor_uses *uses)
{
        clients seen = { 0 };
        int r = 0;

        for (size_t i = 0; i < snapshot->scan.hits.n && r >= 0; i++) {
                const struct gf_hit *hit = &snapshot->scan.hits.v[i];
                const struct gpufree_device *device =
                        hit->via == GPUFREE_VIA_FD ? gf_inventory_find(&snapshot->inventory, hit->rdev, hit->block)
                                                   : NULL;

                if (device && hit->fd >= 0 && (device->cls == GF_CLASS_DRM_CARD || device->cls == GF_CLASS_DRM_RENDER))
                        r = read_hit(env, snapshot, hit, device, &seen, uses);
        }
        gf_vec_done(&seen);
        return r;
}

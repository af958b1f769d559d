/* SPDX-License-Identifier: MIT */
#include "scan/merge.h"

#include <errno.h>
#include <string.h>

/* Hits come sorted by PID, so the holder is one of the last. */
static struct gpufree_holder *holder_of(struct gpufree_snapshot *snapshot, const struct gf_ident *id)
{
        struct gpufree_holder *holder;

        for (size_t i = snapshot->holders.n; i-- > 0 && snapshot->holders.v[i].id.pid == id->pid;)
                if (gf_ident_equal(&snapshot->holders.v[i].id, id))
                        return &snapshot->holders.v[i];
        holder = gf_vec_add(&snapshot->holders);
        if (holder) {
                holder->id = *id;
                holder->facts.uid = UINT32_MAX;
                holder->facts.login_session = UINT32_MAX;
                holder->facts.age_ms = GPUFREE_UNKNOWN;
                holder->facts.state = '?';
        }
        return holder;
}

static struct gf_device_use *use_of(struct gpufree_holder *holder, int device, const char *exporter)
{
        struct gf_device_use *use;

        for (size_t i = 0; i < holder->devices.n; i++) {
                use = &holder->devices.v[i];
                if (use->device == device && gf_streq(use->exporter, exporter))
                        return use;
        }
        use = gf_vec_add(&holder->devices);
        if (use) {
                use->device = device;
                use->bytes = GPUFREE_UNKNOWN;
                (void)snprintf(use->exporter, sizeof(use->exporter), "%s", exporter);
        }
        return use;
}

/* Was the device opened through a node that the inventory does not have (a container's own)? */
static bool other_node(const struct gf_inventory *inventory, const struct gf_hit *hit)
{
        if (hit->node_ino == 0)
                return false;
        for (size_t i = 0; i < inventory->devices.n; i++) {
                const struct gpufree_device *device = &inventory->devices.v[i];

                if (device->rdev != hit->rdev || device->block != hit->block)
                        continue;
                if (device->node_ino == 0 || (device->node_dev == hit->node_dev && device->node_ino == hit->node_ino))
                        return false;
        }
        return true;
}

static void count(struct gf_device_use *use, const struct gf_hit *hit)
{
        use->via |= (unsigned)hit->via;
        if (hit->via == GPUFREE_VIA_MAP)
                use->maps++;
        else
                use->fds++;
}

static int note(struct gpufree_holder *holder, const char *text)
{
        return gf_strv_has(&holder->notes, text) ? 0 : gf_strv_add(&holder->notes, text);
}

static int add_device(struct gpufree_snapshot *snapshot, struct gpufree_holder *holder, const struct gf_hit *hit,
                      const struct gpufree_device *device)
{
        const struct gf_inventory *inventory = &snapshot->inventory;
        struct gf_device_use *use = use_of(holder, (int)(device - inventory->devices.v), "");

        if (!use)
                return -ENOMEM;
        count(use, hit);
        if (hit->unlinked)
                use->unlinked = true;
        else if (other_node(inventory, hit))
                use->own_node = true;
        /* The same number may stand in the inventory twice, once as GPU device and once by the path given. */
        for (size_t i = 0; i < inventory->devices.n; i++)
                if (inventory->devices.v[i].rdev == hit->rdev && inventory->devices.v[i].block == hit->block &&
                    inventory->devices.v[i].asked)
                        holder->asked = true;
        if (use->unlinked && note(holder, "unlinked-node") < 0)
                return -ENOMEM;
        return use->own_node ? note(holder, "own-device-node") : 0;
}

static int compare_buffers(const void *a, const void *b)
{
        const struct gf_hit *x = *(const struct gf_hit *const *)a, *y = *(const struct gf_hit *const *)b;

        if (x->id.start_ticks != y->id.start_ticks)
                return x->id.start_ticks < y->id.start_ticks ? -1 : 1;
        if (x->node_ino != y->node_ino)
                return x->node_ino < y->node_ino ? -1 : 1;
        if (x->node_dev != y->node_dev)
                return x->node_dev < y->node_dev ? -1 : 1;
        /* Of the same buffer, the hit that knows its size first. */
        return x->bytes == y->bytes ? 0 : x->bytes < y->bytes ? -1 : 1;
}

/* The dma-bufs of one PID: each buffer's size once, however many descriptors and mappings it has. */
static int add_buffers(struct gpufree_snapshot *snapshot, const struct gf_hit **hits, size_t n)
{
        const struct gf_hit *last = NULL;

        qsort(hits, n, sizeof(*hits), compare_buffers);
        for (size_t i = 0; i < n; i++) {
                const struct gf_hit *hit = hits[i];
                struct gpufree_holder *holder = holder_of(snapshot, &hit->id);
                struct gf_device_use *use = holder ? use_of(holder, -1, hit->exporter) : NULL;
                bool again = last && last->node_ino == hit->node_ino && last->node_dev == hit->node_dev &&
                             gf_ident_equal(&last->id, &hit->id) && hit->node_ino != 0;

                if (!use)
                        return -ENOMEM;
                count(use, hit);
                last = hit;
                if (again || hit->bytes == GPUFREE_UNKNOWN)
                        continue;
                if (use->bytes == GPUFREE_UNKNOWN)
                        use->bytes = 0;
                if (__builtin_add_overflow(use->bytes, hit->bytes, &use->bytes))
                        use->bytes = GPUFREE_UNKNOWN - 1;
        }
        return 0;
}

int gf_merge_hits(struct gpufree_snapshot *snapshot)
{
        _cleanup_free_ const struct gf_hit **buffers = NULL;
        size_t n = 0;

        buffers = calloc(snapshot->scan.hits.n + 1, sizeof(const struct gf_hit *));
        if (!buffers)
                return -ENOMEM;
        for (size_t i = 0; i < snapshot->scan.hits.n; i++) {
                const struct gf_hit *hit = &snapshot->scan.hits.v[i];
                const struct gpufree_device *device;
                struct gpufree_holder *holder;

                if (hit->via == GPUFREE_VIA_DMABUF) {
                        buffers[n++] = hit;
                } else {
                        device = gf_inventory_find(&snapshot->inventory, hit->rdev, hit->block);
                        if (device) {
                                holder = holder_of(snapshot, &hit->id);
                                if (!holder || add_device(snapshot, holder, hit, device) < 0)
                                        return -ENOMEM;
                        }
                }
                /* At the end of a PID, while its holder is the last. */
                if (n > 0 && (i + 1 == snapshot->scan.hits.n || hit[1].id.pid != hit->id.pid)) {
                        if (add_buffers(snapshot, buffers, n) < 0)
                                return -ENOMEM;
                        n = 0;
                }
        }
        return 0;
}

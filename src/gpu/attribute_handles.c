/* SPDX-License-Identifier: MIT */
/* Memory kept without the GPU's node: dma-bufs and exported handles. */
#include <errno.h>
#include <string.h>

#include "gpu/attribute_view.h"

/* A holder's share in a dma-buf. Sorted, the shares in the same one stand together. */
struct share {
        uint64_t bytes;
        dev_t dev;
        ino_t ino; /* 0: not known; then it is no other's */
        size_t holder;
        const char *exporter;
};
typedef GF_VEC(struct share) shares;

/* The largest first. */
static int compare_shares(const void *a, const void *b)
{
        const struct share *x = a, *y = b;

        if (x->bytes != y->bytes)
                return x->bytes > y->bytes ? -1 : 1;
        if (x->dev != y->dev)
                return x->dev < y->dev ? -1 : 1;
        if (x->ino != y->ino)
                return x->ino < y->ino ? -1 : 1;
        return x->holder < y->holder ? -1 : x->holder > y->holder;
}

static bool same_dmabuf(const struct share *a, const struct share *b)
{
        return a->ino != 0 && a->ino == b->ino && a->dev == b->dev && a->bytes == b->bytes;
}

static int add_share(shares *list, const struct share *share)
{
        struct share *slot = gf_vec_add(list);

        if (!slot)
                return -ENOMEM;
        *slot = *share;
        return 0;
}

/* Every share, from the hits; where the scan could not tell dma-bufs apart, a holder's are taken as one of its own. */
static int collect_shares(const struct gf_attribution *a, shares *list)
{
        struct gpufree_snapshot *s = a->snapshot;
        _cleanup_free_ bool *seen = calloc(s->holders.n + 1, sizeof(*seen));

        if (!seen)
                return -ENOMEM;
        for (size_t i = 0; i < s->scan.hits.n; i++) {
                const struct gf_hit *hit = &s->scan.hits.v[i];
                struct share share = { hit->bytes, hit->node_dev, hit->node_ino, 0, hit->exporter };
                struct gpufree_holder *holder;

                if (hit->via != GPUFREE_VIA_DMABUF || hit->node_ino == 0)
                        continue;
                holder = gf_holder_of(a, hit->id.pid);
                if (!holder)
                        continue;
                share.holder = (size_t)(holder - s->holders.v);
                seen[share.holder] = true;
                if (add_share(list, &share) < 0)
                        return -ENOMEM;
        }
        for (size_t i = 0; i < s->holders.n; i++)
                for (size_t k = 0; k < s->holders.v[i].devices.n && !seen[i]; k++) {
                        const struct gf_device_use *use = &s->holders.v[i].devices.v[k];
                        struct share share = { use->bytes, 0, 0, i, use->exporter };

                        if (use->device < 0 && add_share(list, &share) < 0)
                                return -ENOMEM;
                }
        if (list->n > 1)
                qsort(list->v, list->n, sizeof(list->v[0]), compare_shares);
        return 0;
}

/* Is it in the figure of a process that the driver lists? Its exporter keeps a descriptor of what it exported. */
static bool is_in_a_figure(const struct gf_attribution *a, const struct share *group, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (gf_listed_anywhere(&a->snapshot->holders.v[group[i].holder]))
                        return true;
        return false;
}

/* The one NVIDIA GPU with this much memory that nothing accounts for; -1. */
static int find_with_room(const struct gf_attribution *a, uint64_t bytes)
{
        int found = -1;

        for (size_t i = 0; i < a->snapshot->inventory.gpus.n; i++) {
                uint64_t left = gf_view_left(a, i);

                if (a->snapshot->inventory.gpus.v[i].vendor != GPUFREE_VENDOR_NVIDIA)
                        continue;
                if (left == GPUFREE_UNKNOWN) {
                        /* It may be this one as well, unless there is no other. */
                        if (a->nvidia_gpus != 1)
                                return -1;
                } else if (bytes == GPUFREE_UNKNOWN ? left <= GF_NOISE : left < bytes)
                        continue;
                if (found >= 0)
                        return -1;
                found = (int)i;
        }
        return found;
}

/* By the driver's own structures, or as the only one that it can be. With no room for it, it is in a figure. */
static int find_nvidia(const struct gf_attribution *a, const struct share *share)
{
        int gpu = gf_witness_dmabuf(a, share->ino, share->bytes);
        uint64_t left = gpu >= 0 ? gf_view_left(a, (size_t)gpu) : 0;

        if (gpu < 0)
                return find_with_room(a, share->bytes);
        return left == GPUFREE_UNKNOWN || left >= share->bytes ? gpu : -1;
}

/* The one GPU whose driver exports under this name; -1. */
static int find_exporter(const struct gf_attribution *a, const struct share *share)
{
        static const struct {
                const char *exporter;
                enum gpufree_vendor vendor; /* NONE: any that is not NVIDIA's */
        } table[] = {
                { "amdgpu", GPUFREE_VENDOR_AMD },     { "i915", GPUFREE_VENDOR_INTEL },
                { "xe", GPUFREE_VENDOR_INTEL },       { "habanalabs", GPUFREE_VENDOR_HABANA },
                { "nouveau", GPUFREE_VENDOR_NVIDIA }, { "drm", GPUFREE_VENDOR_NONE },
        };
        int found = -1;

        if (gf_streq(share->exporter, "nv_dmabuf"))
                return find_nvidia(a, share);
        for (size_t t = 0; t < ELEMENTSOF(table); t++)
                for (size_t i = 0; i < a->snapshot->inventory.gpus.n; i++) {
                        enum gpufree_vendor vendor = a->snapshot->inventory.gpus.v[i].vendor;

                        if (!gf_streq(share->exporter, table[t].exporter) ||
                            (table[t].vendor ? vendor != table[t].vendor : vendor == GPUFREE_VENDOR_NVIDIA))
                                continue;
                        if (found >= 0)
                                return -1;
                        found = (int)i;
                }
        return found;
}

static int give_dmabuf(struct gf_attribution *a, const struct share *group, size_t n, size_t gpu)
{
        struct gf_dmabuf *given = gf_vec_add(&a->snapshot->dmabufs);

        if (!given)
                return -ENOMEM;
        *given = (struct gf_dmabuf){ group[0].dev, group[0].ino, group[0].bytes, (int)gpu,
                                     a->snapshot->holders.v[group[0].holder].id.pid };
        for (size_t i = 0; i < n; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[group[i].holder];
                struct gf_gpu_use *use;
                bool first;

                if (i > 0 && group[i].holder == group[i - 1].holder)
                        continue; /* another descriptor of the same */
                first = !gf_use_find(holder, gpu);
                use = gf_use_get(holder, gpu);
                if (!use)
                        return -ENOMEM;
                use->context = true;
                use->memory = first ? group[i].bytes : gf_add_memory(use->memory, group[i].bytes);
        }
        gf_view_account(&a->views[gpu], group[0].bytes);
        return 0;
}

int gf_attribute_dmabufs(struct gf_attribution *a)
{
        shares list = { 0 };
        int r;

        r = collect_shares(a, &list);
        for (size_t i = 0, n; r >= 0 && i < list.n; i += n) {
                int gpu;

                for (n = 1; i + n < list.n && same_dmabuf(&list.v[i], &list.v[i + n]);)
                        n++;
                gpu = is_in_a_figure(a, &list.v[i], n) ? -1 : find_exporter(a, &list.v[i]);
                if (gpu >= 0)
                        r = give_dmabuf(a, &list.v[i], n, (size_t)gpu);
        }
        gf_vec_done(&list);
        return r < 0 ? r : 0;
}

/* Has it nvidiactl and no GPU's node? An exported memory handle looks like that. */
static bool is_handle_holder(const struct gf_attribution *a, const struct gpufree_holder *holder)
{
        if (holder->gpus.n > 0 || gf_witness_has_handle(a, holder) || !gf_has_class(a, holder, GF_CLASS_NVIDIA_CTL))
                return false;
        for (size_t i = 0; i < a->snapshot->inventory.gpus.n; i++)
                if (gf_has_node(a, holder, i))
                        return false;
        return true;
}

int gf_attribute_handles(struct gf_attribution *a)
{
        int gpu = -1;

        for (size_t i = 0; i < a->snapshot->inventory.gpus.n; i++) {
                uint64_t left = gf_view_left(a, i);

                if (a->snapshot->inventory.gpus.v[i].vendor != GPUFREE_VENDOR_NVIDIA || left == GPUFREE_UNKNOWN ||
                    left <= GF_NOISE)
                        continue;
                if (gpu >= 0)
                        return 0; /* of two, it is not to be told which */
                gpu = (int)i;
        }
        for (size_t i = 0; i < a->snapshot->holders.n && gpu >= 0; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[i];
                struct gf_gpu_use *use;

                if (!is_handle_holder(a, holder))
                        continue;
                use = gf_use_get(holder, (size_t)gpu);
                if (!use)
                        return -ENOMEM;
                /* How much of it is in its handles, the driver tells nobody. */
                use->context = true;
                a->views[gpu].explained = true;
        }
        return 0;
}

/* SPDX-License-Identifier: MIT */
/* Memory kept without the GPU's node: dma-bufs and exported handles. */
#include <errno.h>
#include <string.h>

#include "gpu/attribute_view.h"

/* One dma-buf, however many processes share it. */
struct dmabuf {
        dev_t dev;
        ino_t ino; /* 0: not known, then `pid` alone has it */
        pid_t pid;
        uint64_t bytes;
        char exporter[32];
};
typedef GF_VEC(struct dmabuf) dmabufs;

static bool has_dmabuf(const struct gf_attribution *a, pid_t pid, const struct dmabuf *buf)
{
        if (buf->ino == 0)
                return buf->pid == pid;
        for (size_t i = 0; i < a->snapshot->scan.hits.n; i++) {
                const struct gf_hit *hit = &a->snapshot->scan.hits.v[i];

                if (hit->via == GPUFREE_VIA_DMABUF && hit->id.pid == pid && hit->node_ino == buf->ino &&
                    hit->node_dev == buf->dev)
                        return true;
        }
        return false;
}

static int add_dmabuf(dmabufs *list, const struct dmabuf *buf)
{
        struct dmabuf *slot;

        for (size_t i = 0; i < list->n; i++)
                if (buf->ino != 0 && list->v[i].ino == buf->ino && list->v[i].dev == buf->dev)
                        return 0;
        slot = gf_vec_add(list);
        if (!slot)
                return -ENOMEM;
        *slot = *buf;
        return 0;
}

static bool seen_in_hits(const struct gf_attribution *a, pid_t pid)
{
        for (size_t i = 0; i < a->snapshot->scan.hits.n; i++)
                if (a->snapshot->scan.hits.v[i].via == GPUFREE_VIA_DMABUF &&
                    a->snapshot->scan.hits.v[i].id.pid == pid && a->snapshot->scan.hits.v[i].node_ino != 0)
                        return true;
        return false;
}

static int compare_dmabufs(const void *a, const void *b)
{
        const struct dmabuf *x = a, *y = b;

        if (x->bytes != y->bytes)
                return x->bytes > y->bytes ? -1 : 1;
        return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Every dma-buf once, the largest first. Where the scan could not tell them apart, a holder's are taken as one. */
static int collect_dmabufs(const struct gf_attribution *a, dmabufs *list)
{
        for (size_t i = 0; i < a->snapshot->scan.hits.n; i++) {
                const struct gf_hit *hit = &a->snapshot->scan.hits.v[i];
                struct dmabuf buf = { hit->node_dev, hit->node_ino, hit->id.pid, hit->bytes, "" };

                memcpy(buf.exporter, hit->exporter, sizeof(buf.exporter));
                buf.exporter[sizeof(buf.exporter) - 1] = '\0';
                if (hit->via == GPUFREE_VIA_DMABUF && hit->node_ino != 0 && add_dmabuf(list, &buf) < 0)
                        return -ENOMEM;
        }
        for (size_t i = 0; i < a->snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &a->snapshot->holders.v[i];

                for (size_t k = 0; k < holder->devices.n; k++) {
                        struct dmabuf buf = { 0, 0, holder->id.pid, holder->devices.v[k].bytes, "" };

                        if (holder->devices.v[k].device >= 0 || seen_in_hits(a, holder->id.pid))
                                continue;
                        memcpy(buf.exporter, holder->devices.v[k].exporter, sizeof(buf.exporter));
                        buf.exporter[sizeof(buf.exporter) - 1] = '\0';
                        if (add_dmabuf(list, &buf) < 0)
                                return -ENOMEM;
                }
        }
        if (list->n > 1)
                qsort(list->v, list->n, sizeof(list->v[0]), compare_dmabufs);
        return 0;
}

/* Is it in the figure of a process that the driver lists? Its exporter keeps a descriptor of what it exported. */
static bool is_in_a_figure(const struct gf_attribution *a, const struct dmabuf *buf)
{
        for (size_t i = 0; i < a->snapshot->holders.n; i++)
                if (gf_listed_anywhere(&a->snapshot->holders.v[i]) &&
                    has_dmabuf(a, a->snapshot->holders.v[i].id.pid, buf))
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

/* The one GPU whose driver exports under this name; -1. */
static int find_exporter(const struct gf_attribution *a, const struct dmabuf *buf)
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

        if (gf_streq(buf->exporter, "nv_dmabuf"))
                return find_with_room(a, buf->bytes);
        for (size_t t = 0; t < ELEMENTSOF(table); t++)
                for (size_t i = 0; i < a->snapshot->inventory.gpus.n; i++) {
                        enum gpufree_vendor vendor = a->snapshot->inventory.gpus.v[i].vendor;

                        if (!gf_streq(buf->exporter, table[t].exporter) ||
                            (table[t].vendor ? vendor != table[t].vendor : vendor == GPUFREE_VENDOR_NVIDIA))
                                continue;
                        if (found >= 0)
                                return -1;
                        found = (int)i;
                }
        return found;
}

static int give_dmabuf(struct gf_attribution *a, const struct dmabuf *buf, size_t gpu)
{
        for (size_t i = 0; i < a->snapshot->holders.n; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[i];
                struct gf_gpu_use *use;
                bool first;

                if (!has_dmabuf(a, holder->id.pid, buf))
                        continue;
                first = !gf_use_find(holder, gpu);
                use = gf_use_get(holder, gpu);
                if (!use)
                        return -ENOMEM;
                use->context = true;
                use->memory = first ? buf->bytes : gf_add_memory(use->memory, buf->bytes);
        }
        gf_view_account(&a->views[gpu], buf->bytes);
        return 0;
}

int gf_attribute_dmabufs(struct gf_attribution *a)
{
        dmabufs list = { 0 };
        int r;

        r = collect_dmabufs(a, &list);
        for (size_t i = 0; r >= 0 && i < list.n; i++) {
                int gpu = is_in_a_figure(a, &list.v[i]) ? -1 : find_exporter(a, &list.v[i]);

                if (gpu >= 0)
                        r = give_dmabuf(a, &list.v[i], (size_t)gpu);
        }
        gf_vec_done(&list);
        return r < 0 ? r : 0;
}

/* Has it nvidiactl or UVM and no GPU's node? An exported memory handle looks like that. */
static bool is_handle_holder(const struct gf_attribution *a, const struct gpufree_holder *holder)
{
        if (holder->gpus.n > 0 ||
            (!gf_has_class(a, holder, GF_CLASS_NVIDIA_CTL) && !gf_has_class(a, holder, GF_CLASS_NVIDIA_UVM)))
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

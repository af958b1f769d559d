/* SPDX-License-Identifier: MIT */
#include "gpu/attribute.h"

#include <errno.h>

#include "gpu/attribute_view.h"

uint64_t gf_add_memory(uint64_t a, uint64_t b)
{
        uint64_t sum;

        if (a == GPUFREE_UNKNOWN || b == GPUFREE_UNKNOWN || __builtin_add_overflow(a, b, &sum))
                return GPUFREE_UNKNOWN;
        return sum;
}

void gf_view_account(struct gf_view *view, uint64_t bytes)
{
        uint64_t sum = gf_add_memory(view->accounted, bytes);

        if (sum == GPUFREE_UNKNOWN)
                view->unknown_figure = true;
        else
                view->accounted = sum;
}

uint64_t gf_view_left(const struct gf_attribution *a, size_t gpu)
{
        const struct gf_view *view = &a->views[gpu];
        uint64_t used = a->snapshot->inventory.gpus.v[gpu].memory.used;

        if (view->silent || view->unknown_figure || used == GPUFREE_UNKNOWN)
                return GPUFREE_UNKNOWN;
        return used > view->accounted ? used - view->accounted : 0;
}

static int compare_pids(const void *a, const void *b)
{
        const struct gf_pid_index *x = a, *y = b;

        return x->pid < y->pid ? -1 : x->pid > y->pid;
}

struct gpufree_holder *gf_holder_of(const struct gf_attribution *a, pid_t pid)
{
        struct gf_pid_index key = { .pid = pid };
        const struct gf_pid_index *found = NULL;

        if (a->snapshot->holders.n > 0)
                found = bsearch(&key, a->by_pid, a->snapshot->holders.n, sizeof(key), compare_pids);
        return found ? &a->snapshot->holders.v[found->holder] : NULL;
}

struct gf_gpu_use *gf_use_find(struct gpufree_holder *holder, size_t gpu)
{
        for (size_t i = 0; i < holder->gpus.n; i++)
                if (holder->gpus.v[i].gpu == (int)gpu)
                        return &holder->gpus.v[i];
        return NULL;
}

struct gf_gpu_use *gf_use_get(struct gpufree_holder *holder, size_t gpu)
{
        struct gf_gpu_use *use = gf_use_find(holder, gpu);

        if (use)
                return use;
        use = gf_vec_add(&holder->gpus);
        if (use)
                *use = (struct gf_gpu_use){ .gpu = (int)gpu, .memory = GPUFREE_UNKNOWN };
        return use;
}

bool gf_listed_anywhere(const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < holder->gpus.n; i++)
                if (holder->gpus.v[i].listed)
                        return true;
        return false;
}

static const struct gpufree_device *device_of(const struct gf_attribution *a, const struct gf_device_use *use)
{
        if (use->device < 0 || (size_t)use->device >= a->snapshot->inventory.devices.n)
                return NULL;
        return &a->snapshot->inventory.devices.v[use->device];
}

bool gf_has_class(const struct gf_attribution *a, const struct gpufree_holder *holder, enum gf_class cls)
{
        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gpufree_device *device = device_of(a, &holder->devices.v[i]);

                if (device && device->cls == cls)
                        return true;
        }
        return false;
}

bool gf_has_node(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu)
{
        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gpufree_device *device = device_of(a, &holder->devices.v[i]);

                if (device && device->gpu == (int)gpu)
                        return true;
        }
        return false;
}

uint64_t gf_node_count(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu)
{
        uint64_t count = 0;

        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gf_device_use *use = &holder->devices.v[i];
                const struct gpufree_device *device = device_of(a, use);

                /* A mapping of the node of a GPU that is merely open is common (five seen on an H200); twenty
                 * descriptors are not. Where mappings are all there is, they are what there is to count. */
                if (device && device->gpu == (int)gpu && device->cls == GF_CLASS_NVIDIA_GPU)
                        count += use->fds > 0 ? use->fds : use->maps;
        }
        return count;
}

bool gf_uses_uvm(const struct gf_attribution *a, const struct gpufree_holder *holder)
{
        return !a->uvm_visible || gf_has_class(a, holder, GF_CLASS_NVIDIA_UVM);
}

static void prepare(struct gf_attribution *a)
{
        struct gpufree_snapshot *snapshot = a->snapshot;
        struct gf_inventory *inventory = &snapshot->inventory;

        snapshot->dead.n = 0;
        snapshot->dmabufs.n = 0;
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                snapshot->holders.v[i].gpus.n = 0;
                a->by_pid[i] = (struct gf_pid_index){ snapshot->holders.v[i].id.pid, i };
        }
        if (snapshot->holders.n > 1)
                qsort(a->by_pid, snapshot->holders.n, sizeof(a->by_pid[0]), compare_pids);
        for (size_t i = 0; i < inventory->devices.n; i++) {
                const struct gpufree_device *device = &inventory->devices.v[i];

                if (device->cls == GF_CLASS_NVIDIA_UVM)
                        a->uvm_visible = true;
                /* Whoever uses an NVIDIA GPU has its node open; where one node is all GPUs', that one. */
                if (device->gpu >= 0 && (device->cls == GF_CLASS_NVIDIA_GPU || device->cls == GF_CLASS_JETSON ||
                                         device->cls == GF_CLASS_WSL))
                        a->views[device->gpu].visible = true;
        }
        a->all_lists_ok = true;
        a->foreign_pids = !snapshot->initial_pidns && gf_driver_numbers_globally(snapshot->driver.version);
        for (size_t i = 0; i < inventory->gpus.n; i++) {
                struct gpufree_gpu *gpu = &inventory->gpus.v[i];
                struct gf_view *view = &a->views[i];

                gpu->holders = gpu->openers = gpu->listed = 0;
                gpu->lists_complete = false;
                if (gpu->vendor == GPUFREE_VENDOR_NVIDIA) {
                        a->nvidia_gpus++;
                        view->driver = gf_driver_gpu_of(&snapshot->driver, gpu);
                }
                gpu->lists_complete = view->driver && view->driver->lists_ok && !a->foreign_pids;
                view->silent = !gpu->lists_complete;
                if (gpu->vendor == GPUFREE_VENDOR_NVIDIA && view->silent)
                        a->all_lists_ok = false;
        }
}

/* Every holder that has something of this GPU open and is not known to do more with it. */
static int note_openers(struct gf_attribution *a, size_t gpu)
{
        for (size_t i = 0; i < a->snapshot->holders.n; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[i];

                if (gf_has_node(a, holder, gpu) && !gf_use_get(holder, gpu))
                        return -ENOMEM;
        }
        return 0;
}

/*
 * How well a mere opener explains memory that nothing else does: 0 not at all. One that the driver lists on another GPU
 * has its explanation there, and a data worker in its parent, unless it has as much open as only a user has.
 */
static unsigned rank_opener(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu)
{
        bool strong = gf_node_count(a, holder, gpu) >= GF_STRONG;
        enum gpufree_witness says = gf_witness_says(a, holder, gpu);

        if (says == GPUFREE_WITNESS_CONTEXT)
                return 4;
        if (says == GPUFREE_WITNESS_OPEN)
                return 0;
        if (gf_node_count(a, holder, gpu) == 0 || !gf_uses_uvm(a, holder))
                return 0;
        if (gf_listed_anywhere(holder) || gf_parent_listed(a, holder, gpu))
                return strong ? 1 : 0;
        return strong ? 3 : 2;
}

/* The lists are known and do not explain the memory: the openers that explain it best hold it. */
static void promote_unlisted(struct gf_attribution *a, size_t gpu)
{
        uint64_t left = gf_view_left(a, gpu);
        unsigned best = 0;

        if (left == GPUFREE_UNKNOWN || left <= GF_NOISE || a->views[gpu].explained)
                return;
        for (size_t pass = 0; pass < 2; pass++)
                for (size_t i = 0; i < a->snapshot->holders.n; i++) {
                        struct gpufree_holder *holder = &a->snapshot->holders.v[i];
                        struct gf_gpu_use *use = gf_use_find(holder, gpu);
                        unsigned rank = use && !use->context ? rank_opener(a, holder, gpu) : 0;

                        if (pass == 0)
                                best = rank > best ? rank : best;
                        else if (rank > 0 && rank == best)
                                use->context = true;
                }
}

/* The driver lists it, or it has as much open as a user has, on some GPU: what it merely opened here says nothing. */
static bool is_explained_elsewhere(const struct gf_attribution *a, const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < a->snapshot->inventory.gpus.n; i++)
                if (gf_node_count(a, holder, i) >= GF_STRONG)
                        return true;
        return gf_listed_anywhere(holder);
}

/* A figure that leaves no room for anybody's context: then nobody needs to be found for it. */
static bool is_known_idle(const struct gpufree_gpu *gpu)
{
        return gpu->memory.used != GPUFREE_UNKNOWN && gpu->memory.reserved != GPUFREE_UNKNOWN &&
               gpu->memory.used <= GF_NOISE;
}

static bool may_have_context(const struct gf_attribution *a, const struct gpufree_holder *holder)
{
        return gf_uses_uvm(a, holder) || gf_has_class(a, holder, GF_CLASS_VFIO_GROUP) ||
               gf_has_class(a, holder, GF_CLASS_VFIO_CDEV);
}

static bool keeps_by_witness(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu)
{
        enum gpufree_witness says = gf_witness_says(a, holder, gpu);

        return says == GPUFREE_WITNESS_CONTEXT || says == GPUFREE_WITNESS_SHARED || says == GPUFREE_WITNESS_HANDLE ||
               says == GPUFREE_WITNESS_DMABUF;
}

static bool is_open_by_witness(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu)
{
        return gf_witness_says(a, holder, gpu) == GPUFREE_WITNESS_OPEN;
}

/*
 * The driver's library says nothing reliable: its structures decide, and where they say nothing, what a process has
 * open. Where that tells nothing, everybody counts who can
 * have a context: on NVIDIA's whoever uses UVM, which a persistence daemon or a monitor does not.
 */
static void promote_by_evidence(struct gf_attribution *a, size_t gpu)
{
        bool nvidia = a->snapshot->inventory.gpus.v[gpu].vendor == GPUFREE_VENDOR_NVIDIA, any = false;

        for (size_t i = 0; i < a->snapshot->holders.n; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[i];
                struct gf_gpu_use *use = gf_use_find(holder, gpu);

                if (!use)
                        continue;
                if (keeps_by_witness(a, holder, gpu))
                        use->context = true;
                else if (nvidia && !is_open_by_witness(a, holder, gpu) && gf_node_count(a, holder, gpu) >= GF_STRONG &&
                         gf_uses_uvm(a, holder))
                        use->context = true;
                any = any || use->context;
        }
        if (any || (nvidia && is_known_idle(&a->snapshot->inventory.gpus.v[gpu])))
                return;
        for (size_t i = 0; i < a->snapshot->holders.n; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[i];
                struct gf_gpu_use *use = gf_use_find(holder, gpu);

                if (use && !is_open_by_witness(a, holder, gpu) &&
                    (!nvidia || (may_have_context(a, holder) && !is_explained_elsewhere(a, holder))))
                        use->context = true;
        }
}

/* A holder of AMD's compute device alone: on a machine with one GPU of AMD's it is that one's. */
static int place_kfd(struct gf_attribution *a)
{
        int amd = -1;

        for (size_t i = 0; i < a->snapshot->inventory.gpus.n; i++)
                if (a->snapshot->inventory.gpus.v[i].vendor == GPUFREE_VENDOR_AMD)
                        amd = amd == -1 ? (int)i : -2;
        for (size_t i = 0; amd >= 0 && i < a->snapshot->holders.n; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[i];
                struct gf_gpu_use *use;

                if (!gf_has_class(a, holder, GF_CLASS_KFD))
                        continue;
                use = gf_use_get(holder, (size_t)amd);
                if (!use)
                        return -ENOMEM;
                use->context = true;
        }
        return 0;
}

static int compare_uses(const void *a, const void *b)
{
        const struct gf_gpu_use *x = a, *y = b;

        return x->gpu < y->gpu ? -1 : x->gpu > y->gpu;
}

static void sum_up(struct gf_attribution *a)
{
        struct gf_inventory *inventory = &a->snapshot->inventory;

        for (size_t i = 0; i < a->snapshot->holders.n; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[i];

                if (holder->gpus.n > 1)
                        qsort(holder->gpus.v, holder->gpus.n, sizeof(holder->gpus.v[0]), compare_uses);
                for (size_t k = 0; k < holder->gpus.n; k++) {
                        struct gpufree_gpu *gpu = &inventory->gpus.v[holder->gpus.v[k].gpu];

                        holder->gpus.v[k].witness = gf_witness_says(a, holder, (size_t)holder->gpus.v[k].gpu);
                        if (holder->gpus.v[k].context)
                                gpu->holders++;
                        else
                                gpu->openers++;
                }
        }
        for (size_t i = 0; i < inventory->gpus.n; i++) {
                struct gf_view *view = &a->views[i];

                /* A sum of nothing known is not 0. */
                if (view->accounted == 0 && (view->silent || view->unknown_figure))
                        inventory->gpus.v[i].accounted = GPUFREE_UNKNOWN;
                else
                        inventory->gpus.v[i].accounted = view->accounted;
                inventory->gpus.v[i].unaccounted = gf_view_left(a, i);
        }
}

int gf_attribute(struct gpufree_snapshot *snapshot)
{
        _cleanup_free_ struct gf_view *views = calloc(snapshot->inventory.gpus.n + 1, sizeof(*views));
        _cleanup_free_ struct gf_pid_index *by_pid = calloc(snapshot->holders.n + 1, sizeof(*by_pid));
        struct gf_attribution a = { .snapshot = snapshot, .views = views, .by_pid = by_pid };
        int r;

        if (!views || !by_pid)
                return -ENOMEM;
        prepare(&a);
        r = gf_attribute_listed(&a);
        if (r < 0)
                return r;
        r = gf_attribute_heirs(&a);
        if (r < 0)
                return r;
        r = gf_attribute_dmabufs(&a);
        if (r < 0)
                return r;
        r = gf_attribute_witnessed_handles(&a);
        if (r >= 0)
                r = gf_attribute_handles(&a);
        if (r < 0)
                return r;
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++) {
                r = note_openers(&a, i);
                if (r >= 0)
                        r = gf_note_witnessed(&a, i);
                if (r < 0)
                        return r;
                if (views[i].silent) {
                        promote_by_evidence(&a, i);
                        continue;
                }
                promote_unlisted(&a, i);
                r = gf_attribute_disagreements(&a, i);
                if (r < 0)
                        return r;
        }
        r = place_kfd(&a);
        if (r < 0)
                return r;
        sum_up(&a);
        return 0;
}

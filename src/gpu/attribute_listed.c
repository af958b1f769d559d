/* SPDX-License-Identifier: MIT */
/* The driver's process lists, held against the scan: who is confirmed, who is dead, who keeps what a dead one had. */
#include <errno.h>
#include <string.h>

#include "gpu/attribute_view.h"

bool gf_parent_listed(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu)
{
        struct gpufree_holder *parent = holder->facts.ppid > 1 ? gf_holder_of(a, holder->facts.ppid) : NULL;
        const struct gf_gpu_use *use = parent ? gf_use_find(parent, gpu) : NULL;

        return use && use->listed;
}

static bool was_refused(const struct gf_attribution *a, pid_t pid)
{
        for (size_t i = 0; i < a->snapshot->scan.refused.n; i++)
                if (a->snapshot->scan.refused.v[i].pid == pid)
                        return true;
        return false;
}

/* It has a queue or a ring that the scan could not see into: what the driver lists may lie in there. */
static bool was_opaque(const struct gf_attribution *a, pid_t pid)
{
        for (size_t i = 0; i < a->snapshot->scan.opaque.n; i++)
                if (a->snapshot->scan.opaque.v[i] == pid)
                        return true;
        return false;
}

/* Does what the process has open bear out that it uses this GPU? Otherwise the PID is of another namespace, or stale.
 */
static bool confirms(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu)
{
        return gf_has_node(a, holder, gpu) || gf_has_class(a, holder, GF_CLASS_NVIDIA_CTL) ||
               gf_has_class(a, holder, GF_CLASS_NVIDIA_UVM);
}

static int add_listed(struct gf_attribution *a, size_t gpu, pid_t pid, uint64_t memory)
{
        struct gpufree_holder *holder = gf_holder_of(a, pid);
        struct gf_dead *dead;

        gf_view_account(&a->views[gpu], memory);
        a->snapshot->inventory.gpus.v[gpu].listed++;
        if (holder && confirms(a, holder, gpu)) {
                struct gf_gpu_use *use = gf_use_get(holder, gpu);

                if (!use)
                        return -ENOMEM;
                use->memory = memory;
                use->context = use->listed = true;
                return 0;
        }
        /* Not seen is not dead: it could not be looked at, or this GPU was not looked for. */
        if (was_refused(a, pid) || was_opaque(a, pid) || !a->views[gpu].visible)
                return 0;
        dead = gf_vec_add(&a->snapshot->dead);
        if (!dead)
                return -ENOMEM;
        *dead = (struct gf_dead){ .pid = pid, .gpu = (int)gpu, .memory = memory };
        return 0;
}

static int compare_processes(const void *a, const void *b)
{
        const struct gf_driver_process *x = a, *y = b;

        if (x->pid != y->pid)
                return x->pid < y->pid ? -1 : 1;
        if (x->gpu_instance != y->gpu_instance)
                return x->gpu_instance < y->gpu_instance ? -1 : 1;
        return x->compute_instance < y->compute_instance ? -1 : x->compute_instance > y->compute_instance;
}

/* One PID's entries, `n` of them: the same instance twice is one figure, different instances add up. */
static uint64_t sum_entries(const struct gf_driver_process *entries, size_t n, uint64_t total)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < n;) {
                uint64_t largest = entries[i].memory;
                size_t k = i + 1;

                for (; k < n && compare_processes(&entries[i], &entries[k]) == 0; k++)
                        if (largest == GPUFREE_UNKNOWN ||
                            (entries[k].memory != GPUFREE_UNKNOWN && entries[k].memory > largest))
                                largest = entries[k].memory;
                sum = gf_add_memory(sum, largest);
                i = k;
        }
        /* More than the GPU has is no figure. */
        return total != GPUFREE_UNKNOWN && total > 0 && sum > total ? GPUFREE_UNKNOWN : sum;
}

int gf_attribute_listed(struct gf_attribution *a)
{
        for (size_t gpu = 0; gpu < a->snapshot->inventory.gpus.n; gpu++) {
                const struct gf_driver_gpu *driver = a->views[gpu].driver;
                uint64_t total = a->snapshot->inventory.gpus.v[gpu].memory.total;
                _cleanup_free_ struct gf_driver_process *sorted = NULL;
                size_t n = driver ? driver->processes.n : 0;

                if (n == 0 || a->foreign_pids)
                        continue;
                sorted = calloc(n, sizeof(*sorted));
                if (!sorted)
                        return -ENOMEM;
                memcpy(sorted, driver->processes.v, n * sizeof(*sorted));
                qsort(sorted, n, sizeof(*sorted), compare_processes);
                for (size_t i = 0; i < n;) {
                        size_t same = 1;
                        int r;

                        while (i + same < n && sorted[i + same].pid == sorted[i].pid)
                                same++;
                        r = add_listed(a, gpu, sorted[i].pid, sum_entries(sorted + i, same, total));
                        if (r < 0)
                                return r;
                        i += same;
                }
        }
        return 0;
}

/*
 * How well a holder fits as the one that keeps what a dead process had: 0 not at all. A fork has the same descriptors
 * as its parent and is not listed itself; often it is of the dead one's process group or session too. Where the lists
 * of another GPU cannot be read, "not listed" means little: then as many descriptors as only a user has are needed.
 */
static unsigned rank_heir(const struct gf_attribution *a, const struct gpufree_holder *holder,
                          const struct gf_dead *dead)
{
        uint64_t count = gf_node_count(a, holder, (size_t)dead->gpu);
        bool strong = count >= GF_STRONG;
        bool kin = holder->facts.pgrp == dead->pid || holder->facts.session == dead->pid;

        if (count == 0 || !gf_uses_uvm(a, holder) || gf_listed_anywhere(holder))
                return 0;
        if (!kin && gf_parent_listed(a, holder, (size_t)dead->gpu))
                return 0; /* what it has is of its living parent's */
        if (!a->all_lists_ok && !strong)
                return 0;
        /* Whose VA space is on that GPU, in the driver's own structures, is no guess. */
        if (gf_witness_says(a, holder, (size_t)dead->gpu) == GPUFREE_WITNESS_CONTEXT)
                return 8u;
        return 1u + (strong ? 1u : 0u) + (kin ? 2u : 0u);
}

static int make_heir(struct gpufree_holder *holder, const struct gf_dead *dead, bool alone)
{
        struct gf_gpu_use *use = gf_use_find(holder, (size_t)dead->gpu);
        char note[32];
        bool first = !use;

        use = gf_use_get(holder, (size_t)dead->gpu);
        if (!use)
                return -ENOMEM;
        use->context = use->inherited = true;
        if (!alone)
                use->memory = GPUFREE_UNKNOWN; /* which of them keeps how much is not to be told */
        else
                use->memory = first ? dead->memory : gf_add_memory(use->memory, dead->memory);
        snprintf(note, sizeof(note), "inherited-from:%d", (int)dead->pid);
        return gf_strv_has(&holder->notes, note) ? 0 : gf_strv_add(&holder->notes, note);
}

int gf_attribute_heirs(struct gf_attribution *a)
{
        for (size_t d = 0; d < a->snapshot->dead.n; d++) {
                const struct gf_dead *dead = &a->snapshot->dead.v[d];
                unsigned best = 0;
                size_t heirs = 0;

                for (size_t i = 0; i < a->snapshot->holders.n; i++) {
                        unsigned rank = rank_heir(a, &a->snapshot->holders.v[i], dead);

                        if (rank > best) {
                                best = rank;
                                heirs = 0;
                        }
                        if (rank > 0 && rank == best)
                                heirs++;
                }
                for (size_t i = 0; i < a->snapshot->holders.n && best > 0; i++) {
                        struct gpufree_holder *holder = &a->snapshot->holders.v[i];
                        int r;

                        if (rank_heir(a, holder, dead) != best)
                                continue;
                        r = make_heir(holder, dead, heirs == 1);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

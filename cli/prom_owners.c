/* SPDX-License-Identifier: MIT */
/* list --format prom: the selected holders of each GPU, summed by kind of owner and user. */
#include "prom_owners.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "base/vec.h"

/* One line of the result: these, of one kind, of one user, on one GPU. */
struct share {
        size_t gpu;
        const char *kind;
        const gpufree_holder *first; /* tells the user */
        uint64_t holders, memory;    /* memory: GPUFREE_UNKNOWN as soon as that of one of them is not known */
};
typedef GF_VEC(struct share) shares;

/* A user's manager and a scope say little while there is something better. */
static bool says_little(const char *kind, const char *id)
{
        return (strcmp(kind, "unit") == 0 || strcmp(kind, "user-unit") == 0) && id &&
               (gf_startswith(id, "user@") || !gf_endswith(id, ".service"));
}

/* The kind of owner that the table shows: what the machine would stop, else what a person would recognise. */
static const char *kind_of(const gpufree_holder *holder)
{
        static const char *const order[][4] = {
                { "job", "pod", "container", "vm" },
                { "service" },
                { "unit", "user-unit" },
                { "session" },
                { "launcher" },
                { "unit", "user-unit", "scope" },
                { "monitor" },
                { "cgroup" },
        };
        const size_t units = 2;

        for (size_t rank = 0; rank < ELEMENTSOF(order); rank++)
                for (size_t i = 0; i < gpufree_holder_owner_count(holder); i++) {
                        const char *kind = NULL, *runtime = NULL, *id = NULL, *name = NULL;

                        if (gpufree_holder_owner(holder, i, &kind, &runtime, &id, &name) < 0 || !kind ||
                            (rank == units && says_little(kind, id)))
                                continue;
                        for (size_t k = 0; k < ELEMENTSOF(order[rank]) && order[rank][k]; k++)
                                if (strcmp(kind, order[rank][k]) == 0)
                                        return order[rank][k];
                }
        return "none";
}

static int add_use(shares *all, const gpufree_holder *holder, size_t gpu, uint64_t memory)
{
        const char *kind = kind_of(holder);
        struct share *share = NULL;

        for (size_t i = 0; i < all->n && !share; i++)
                if (all->v[i].gpu == gpu && strcmp(all->v[i].kind, kind) == 0 &&
                    gpufree_holder_uid(all->v[i].first) == gpufree_holder_uid(holder))
                        share = &all->v[i];
        if (!share) {
                share = gf_vec_add(all);
                if (!share)
                        return -ENOMEM;
                *share = (struct share){ .gpu = gpu, .kind = kind, .first = holder };
        }
        share->holders++;
        if (memory == GPUFREE_UNKNOWN || share->memory == GPUFREE_UNKNOWN ||
            __builtin_add_overflow(share->memory, memory, &share->memory))
                share->memory = GPUFREE_UNKNOWN;
        return 0;
}

static int gather(const gpufree_snapshot *snapshot, shares *all)
{
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);

                for (size_t k = 0; gpufree_holder_selected(holder) && k < gpufree_holder_gpu_count(holder); k++) {
                        uint64_t memory = GPUFREE_UNKNOWN;
                        bool context = false;
                        int gpu = -1;

                        if (gpufree_holder_gpu(holder, k, &gpu, &memory, &context) < 0 || gpu < 0 || !context ||
                            !gpufree_gpu_selected(gpufree_snapshot_gpu(snapshot, (size_t)gpu)))
                                continue;
                        if (add_use(all, holder, (size_t)gpu, memory) < 0)
                                return -ENOMEM;
                }
        }
        return 0;
}

/* Two users of the same name (one each in two databases) must not make one series twice: the number is a label too. */
static void add_labels(const gpufree_snapshot *snapshot, const struct share *share, struct gf_str *labels)
{
        uint32_t uid = gpufree_holder_uid(share->first);

        cli_prom_gpu(labels, gpufree_snapshot_gpu(snapshot, share->gpu), share->gpu);
        cli_prom_label(labels, "kind", share->kind);
        cli_prom_label(labels, "user", gpufree_holder_user(share->first));
        if (uid != UINT32_MAX) {
                _cleanup_free_ char *number = gf_asprintf("%u", (unsigned)uid);

                labels->failed |= !number;
                cli_prom_label(labels, "uid", number);
        }
}

/* Holders that no GPU can be named for: a dma-buf, or the control device alone. */
static uint64_t unplaced(const gpufree_snapshot *snapshot)
{
        uint64_t n = 0;

        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);

                n += gpufree_holder_selected(holder) && gpufree_holder_gpu_count(holder) == 0;
        }
        return n;
}

void cli_prom_owners(const gpufree_snapshot *snapshot, struct gf_str *out)
{
        static const char memory_name[] = "gpufree_owner_memory_bytes", holders_name[] = "gpufree_owner_holders",
                          unplaced_name[] = "gpufree_unplaced_holders";
        struct gf_str memory = { 0 }, holders = { 0 }, alone = { 0 };
        shares all = { 0 };

        if (gather(snapshot, &all) < 0)
                out->failed = true;
        for (size_t i = 0; i < all.n; i++) {
                struct gf_str labels = { 0 };

                add_labels(snapshot, &all.v[i], &labels);
                cli_prom_sample(&memory, memory_name, &labels, all.v[i].memory);
                cli_prom_sample(&holders, holders_name, &labels, all.v[i].holders);
                gf_str_done(&labels);
        }
        cli_prom_family(out, memory_name,
                        "Memory that the processes of this user and kind of owner have; absent where that of one is "
                        "not known.",
                        &memory);
        cli_prom_family(out, holders_name, "Processes of this user and kind of owner that hold the GPU.", &holders);
        cli_prom_sample(&alone, unplaced_name, NULL, unplaced(snapshot));
        cli_prom_family(out, unplaced_name, "Processes that hold something of a driver, and no GPU can be named.",
                        &alone);
        gf_vec_done(&all);
}

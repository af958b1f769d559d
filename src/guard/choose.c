/* SPDX-License-Identifier: MIT */
#include "guard/choose.h"

#include <errno.h>

#include "select/criteria.h"
#include "verify/verdict.h"

int gf_choose_asked(const struct gpufree_snapshot *snapshot, gf_gpu_set *ret_set)
{
        gf_gpu_set set = { 0 };

        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++) {
                size_t *slot;

                if (!gf_is_judged(snapshot, i))
                        continue;
                slot = gf_vec_add(&set);
                if (!slot) {
                        gf_vec_done(&set);
                        return -ENOMEM;
                }
                *slot = i;
        }
        ret_set->v = set.v;
        ret_set->n = set.n;
        ret_set->cap = set.cap;
        return 0;
}

int gf_choose_is_free(const struct gpufree_snapshot *snapshot, size_t gpu, char **ret_why)
{
        struct gf_gpu_verdict verdict = {
                .gpu = (int)gpu,
                .used_before = snapshot->inventory.gpus.v[gpu].memory.used,
                .used_after = snapshot->inventory.gpus.v[gpu].memory.used,
        };
        int r = gf_verdict_judge(snapshot, &verdict);

        if (r < 0 || r == GPUFREE_OK) {
                free(verdict.sentence);
                return r < 0 ? r : 1;
        }
        *ret_why = verdict.sentence;
        return 0;
}

bool gf_choose_is_leftover(const struct gpufree_snapshot *snapshot, size_t gpu, uint32_t uid, bool orphans)
{
        bool any = false;

        for (size_t i = 0; i < snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &snapshot->holders.v[i];

                if (!gf_keeps_gpu(snapshot, holder, gpu))
                        continue;
                if (holder->facts.uid != uid || holder->protected_why)
                        return false;
                if (orphans && !gf_strv_has(&holder->notes, "orphan"))
                        return false;
                any = true;
        }
        return any;
}

int gf_choose_selection(const struct gpufree_snapshot *snapshot, const size_t *gpus, size_t n,
                        struct gpufree_selection **ret_selection)
{
        _cleanup_selection_ struct gpufree_selection *selection = NULL;
        int r = gpufree_selection_new(&selection);

        for (size_t i = 0; r >= 0 && i < n; i++) {
                const struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[gpus[i]];
                _cleanup_free_ char *index = gf_asprintf("%d", gpu->index);

                if (!index)
                        return -ENOMEM;
                r = gpufree_selection_add(selection, GPUFREE_BY_GPU,
                                          gpu->uuid  ? gpu->uuid
                                          : gpu->pci ? gpu->pci
                                                     : index,
                                          NULL);
        }
        if (r < 0)
                return r;
        *ret_selection = TAKE(selection);
        return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The second witness: what the driver's own structures say, held against its library's lists. Where both agree nothing
 * changes. Where the library is silent, it decides who has a context. Where they disagree, both are shown, and who has
 * a context by either counts for "free"; on the witness's word alone nobody is ended.
 */
#include <errno.h>
#include <string.h>

#include "gpu/attribute_view.h"

/* The facts about a holder, which stand together. */
static const struct gf_fact *facts_of(const struct gf_attribution *a, const struct gpufree_holder *holder,
                                      size_t *ret_n)
{
        const struct gf_witness *witness = &a->snapshot->witness;
        size_t low = 0, high = witness->facts.n, n = 0;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (witness->facts.v[middle].id.pid < holder->id.pid)
                        low = middle + 1;
                else
                        high = middle;
        }
        while (low + n < witness->facts.n && gf_ident_equal(&witness->facts.v[low + n].id, &holder->id))
                n++;
        *ret_n = n;
        return n > 0 ? &witness->facts.v[low] : NULL;
}

/* Position of the fact's GPU; -1. */
static int gpu_of(const struct gf_attribution *a, const struct gf_fact *fact)
{
        for (size_t i = 0; i < a->snapshot->inventory.gpus.n; i++) {
                const struct gpufree_gpu *gpu = &a->snapshot->inventory.gpus.v[i];

                if (gpu->vendor != GPUFREE_VENDOR_NVIDIA)
                        continue;
                if (fact->pci[0] ? gf_streq(gpu->pci, fact->pci) : fact->uuid[0] && gf_streq(gpu->uuid, fact->uuid))
                        return (int)i;
        }
        return -1;
}

/* Is the VA space that of another process too, which the driver lists on the GPU? A fork has its parent's. */
static bool is_of_a_listed(const struct gf_attribution *a, const struct gpufree_holder *holder,
                           const struct gf_fact *context, size_t gpu)
{
        for (size_t i = 0; i < a->snapshot->witness.facts.n; i++) {
                const struct gf_fact *fact = &a->snapshot->witness.facts.v[i];
                struct gpufree_holder *other;
                const struct gf_gpu_use *use;

                if (fact->kind != GF_FACT_CONTEXT || fact->space != context->space ||
                    gf_ident_equal(&fact->id, &holder->id))
                        continue;
                other = gf_holder_of(a, fact->id.pid);
                use = other ? gf_use_find(other, gpu) : NULL;
                if (use && use->listed)
                        return true;
        }
        return false;
}

enum gpufree_witness gf_witness_says(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu)
{
        bool context = false, shared = false, handle = false, dmabuf = false, whole = false, blurred = false;
        const struct gf_fact *facts;
        size_t n;

        if (a->snapshot->inventory.gpus.v[gpu].vendor != GPUFREE_VENDOR_NVIDIA)
                return GPUFREE_WITNESS_NONE;
        facts = facts_of(a, holder, &n);
        for (size_t i = 0; i < n; i++) {
                bool here = facts[i].kind != GF_FACT_SPACE && gpu_of(a, &facts[i]) == (int)gpu;

                whole |= facts[i].kind == GF_FACT_SPACE;
                blurred |= facts[i].kind == GF_FACT_BLUR;
                handle |= here && facts[i].kind == GF_FACT_HANDLE;
                dmabuf |= here && facts[i].kind == GF_FACT_DMABUF;
                if (here && facts[i].kind == GF_FACT_CONTEXT) {
                        if (is_of_a_listed(a, holder, &facts[i], gpu))
                                shared = true;
                        else
                                context = true;
                }
        }
        if (context || shared)
                return context ? GPUFREE_WITNESS_CONTEXT : GPUFREE_WITNESS_SHARED;
        if (handle || dmabuf)
                return handle ? GPUFREE_WITNESS_HANDLE : GPUFREE_WITNESS_DMABUF;
        return whole && !blurred ? GPUFREE_WITNESS_OPEN : GPUFREE_WITNESS_NONE;
}

int gf_witness_dmabuf(const struct gf_attribution *a, ino_t ino, uint64_t bytes)
{
        for (size_t i = 0; ino != 0 && i < a->snapshot->witness.facts.n; i++) {
                const struct gf_fact *fact = &a->snapshot->witness.facts.v[i];

                if (fact->kind == GF_FACT_DMABUF && fact->ino == ino && fact->bytes == bytes)
                        return gpu_of(a, fact);
        }
        return -1;
}

bool gf_witness_has_handle(const struct gf_attribution *a, const struct gpufree_holder *holder)
{
        size_t n;
        const struct gf_fact *facts = facts_of(a, holder, &n);

        for (size_t i = 0; i < n; i++)
                if (facts[i].kind == GF_FACT_HANDLE)
                        return true;
        return false;
}

/*
 * Handles on GPUs with memory that nothing else accounts for, or of which that is not known. Where all of it is
 * accounted for, it is in the figure of the process that exported it and lives.
 */
int gf_attribute_witnessed_handles(struct gf_attribution *a)
{
        for (size_t h = 0; h < a->snapshot->holders.n; h++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[h];
                size_t n;
                const struct gf_fact *facts = facts_of(a, holder, &n);

                for (size_t i = 0; i < n; i++) {
                        int gpu = facts[i].kind == GF_FACT_HANDLE ? gpu_of(a, &facts[i]) : -1;
                        struct gf_gpu_use *use;

                        if (gpu < 0 || gf_view_left(a, (size_t)gpu) <= GF_NOISE) /* unknown is more */
                                continue;
                        use = gf_use_find(holder, (size_t)gpu);
                        if (use && use->context)
                                continue; /* the exporter itself: in its figure */
                        use = gf_use_get(holder, (size_t)gpu);
                        if (!use)
                                return -ENOMEM;
                        use->context = true;
                        a->views[gpu].explained = true;
                }
        }
        return 0;
}

int gf_note_witnessed(struct gf_attribution *a, size_t gpu)
{
        for (size_t i = 0; i < a->snapshot->holders.n && a->snapshot->witness.facts.n > 0; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[i];

                if (gf_witness_says(a, holder, gpu) == GPUFREE_WITNESS_CONTEXT && !gf_use_get(holder, gpu))
                        return -ENOMEM;
        }
        return 0;
}

static int disagree(struct gf_attribution *a, struct gpufree_holder *holder, size_t gpu, const char *what)
{
        const char *pci = a->snapshot->inventory.gpus.v[gpu].pci;
        char note[64];

        (void)snprintf(note, sizeof(note), "%s:%s", what, pci ? pci : "?");
        return gf_strv_has(&holder->notes, note) ? 0 : gf_strv_add(&holder->notes, note);
}

/* What either says that the other does not. Only of a GPU whose lists are complete. */
int gf_attribute_disagreements(struct gf_attribution *a, size_t gpu)
{
        for (size_t i = 0; i < a->snapshot->holders.n && a->snapshot->witness.facts.n > 0; i++) {
                struct gpufree_holder *holder = &a->snapshot->holders.v[i];
                struct gf_gpu_use *use = gf_use_find(holder, gpu);
                enum gpufree_witness says = use ? gf_witness_says(a, holder, gpu) : GPUFREE_WITNESS_NONE;
                int r = 0;

                if (says == GPUFREE_WITNESS_CONTEXT && !use->context) {
                        use->context = use->doubted = true;
                        r = disagree(a, holder, gpu, "witness-context");
                } else if (says == GPUFREE_WITNESS_OPEN && use->listed) {
                        r = disagree(a, holder, gpu, "witness-open");
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

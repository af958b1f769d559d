/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "verify/verdict.h"

bool gf_is_judged(const struct gpufree_snapshot *snapshot, size_t gpu)
{
        bool asked = false;

        if (!snapshot->inventory.gpus.v[gpu].selected)
                return false;
        for (size_t i = 0; i < snapshot->inventory.devices.n; i++) {
                const struct gpufree_device *device = &snapshot->inventory.devices.v[i];

                if (device->asked && device->gpu >= 0 && (size_t)device->gpu == gpu)
                        return true;
                asked = asked || device->asked;
        }
        return !asked;
}

static bool has_context_on_judged(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < holder->gpus.n; i++) {
                const struct gf_gpu_use *use = &holder->gpus.v[i];

                if (use->context && use->gpu >= 0 && (size_t)use->gpu < snapshot->inventory.gpus.n &&
                    gf_is_judged(snapshot, (size_t)use->gpu))
                        return true;
        }
        return false;
}

bool gf_keeps_gpu(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder, size_t gpu)
{
        const struct gf_gpu_use *use = gf_use_of(holder, gpu);

        if (!holder->selected || !use)
                return false;
        return use->context || !has_context_on_judged(snapshot, holder);
}

int gf_same_gpu(const struct gpufree_gpu *gpu, const struct gpufree_snapshot *in)
{
        for (size_t i = 0; i < in->inventory.gpus.n; i++) {
                const struct gpufree_gpu *other = &in->inventory.gpus.v[i];
                bool same;

                if (gpu->uuid && other->uuid)
                        same = strcmp(gpu->uuid, other->uuid) == 0;
                else if (gpu->pci && other->pci)
                        same = strcmp(gpu->pci, other->pci) == 0;
                else if (gpu->minor >= 0 && other->minor >= 0)
                        same = gpu->vendor == other->vendor && gpu->minor == other->minor;
                else
                        same = gpu->index >= 0 && gpu->index == other->index;
                if (same)
                        return (int)i;
        }
        return -1;
}

uint64_t gf_used_in(const struct gpufree_gpu *gpu, const struct gf_driver_report *driver)
{
        const struct gf_driver_gpu *found = gf_driver_gpu_of(driver, gpu);

        return found ? found->memory.used : GPUFREE_UNKNOWN;
}

int gf_verdict_add(const struct gpufree_snapshot *snapshot, size_t gpu, uint64_t used_before,
                   struct gpufree_report *report)
{
        struct gf_gpu_verdict *verdict = gf_vec_add(&report->gpus);

        if (!verdict)
                return -ENOMEM;
        verdict->gpu = (int)gpu;
        verdict->used_before = used_before;
        verdict->used_after = snapshot->inventory.gpus.v[gpu].memory.used;
        return 0;
}

static int severity(enum gpufree_outcome outcome)
{
        switch (outcome) {
        case GPUFREE_HELD:
                return 3;
        case GPUFREE_RESIDUE:
                return 2;
        case GPUFREE_INCOMPLETE:
                return 1;
        case GPUFREE_OK:
        case GPUFREE_USAGE:
        case GPUFREE_REFUSED:
        case GPUFREE_TIMEOUT:
        default:
                return 0;
        }
}

static enum gpufree_outcome worse(enum gpufree_outcome a, enum gpufree_outcome b)
{
        return severity(b) > severity(a) ? b : a;
}

/* A selected holder of nothing that is judged by GPU: a named device that is no GPU, a dma-buf of an unknown one. */
static int judge_holders(const struct gpufree_snapshot *snapshot, struct gpufree_report *report)
{
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &snapshot->holders.v[i];
                bool on_gpu = false;
                int r;

                if (!holder->selected)
                        continue;
                report->outcome = GPUFREE_HELD;
                for (size_t g = 0; g < snapshot->inventory.gpus.n; g++)
                        on_gpu = on_gpu || (gf_is_judged(snapshot, g) && gf_keeps_gpu(snapshot, holder, g));
                if (on_gpu)
                        continue;
                r = gf_strv_addf(&report->sentences, "%d (%s) holds a device that belongs to no GPU in particular.",
                                 (int)holder->id.pid, holder->facts.comm ? holder->facts.comm : "unknown");
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_gaps(const struct gpufree_snapshot *snapshot, struct gpufree_report *report)
{
        for (size_t i = 0; i < snapshot->gaps.n; i++) {
                int r = gf_strv_add(&report->sentences, snapshot->gaps.v[i]);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* The command that ends the holders of the GPUs that are held. */
static int add_next_step(const struct gpufree_snapshot *snapshot, struct gpufree_report *report)
{
        _cleanup_free_ char *gpus = NULL;
        struct gf_str list = { 0 };
        int r;

        for (size_t i = 0; i < report->gpus.n; i++) {
                const struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[report->gpus.v[i].gpu];
                bool held = false;

                for (size_t h = 0; h < snapshot->holders.n && !held; h++)
                        held = gf_keeps_gpu(snapshot, &snapshot->holders.v[h], (size_t)report->gpus.v[i].gpu);
                if (held && gpu->index >= 0)
                        gf_str_addf(&list, "%s%d", list.n ? "," : "", gpu->index);
        }
        if (list.n == 0) {
                gf_str_done(&list);
                return 0;
        }
        r = gf_str_take(&list, &gpus);
        return r < 0 ? r : gf_strv_addf(&report->sentences, "What you can do: gpufree kill --gpu %s", gpus);
}

int gf_judge(const struct gpufree_snapshot *snapshot, struct gpufree_report *report)
{
        enum gpufree_outcome outcome = snapshot->gaps.n > 0 ? GPUFREE_INCOMPLETE : GPUFREE_OK;
        size_t judged = 0;
        int r;

        report->outcome = GPUFREE_OK;
        r = judge_holders(snapshot, report);
        if (r < 0)
                return r;
        for (size_t g = 0; g < snapshot->inventory.gpus.n; g++) {
                if (!gf_is_judged(snapshot, g))
                        continue;
                /* With GPUs to judge, each one's verdict says whether the gaps matter: the driver can vouch. */
                if (judged++ == 0)
                        outcome = GPUFREE_OK;
                r = gf_verdict_add(snapshot, g, snapshot->inventory.gpus.v[g].memory.used, report);
                if (r == 0)
                        r = gf_verdict_judge(snapshot, &report->gpus.v[report->gpus.n - 1]);
                if (r < 0)
                        return r;
                outcome = worse(outcome, (enum gpufree_outcome)r);
                if (r == GPUFREE_RESIDUE)
                        r = gf_verdict_advise(snapshot, &report->gpus.v[report->gpus.n - 1], &report->sentences);
                if (r < 0)
                        return r;
        }
        report->outcome = worse(report->outcome, outcome);
        if (report->outcome == GPUFREE_HELD)
                r = add_next_step(snapshot, report);
        else
                r = 0;
        return r < 0 ? r : add_gaps(snapshot, report);
}

/* SPDX-License-Identifier: MIT */
#include "verify/verdict.h"

#include <errno.h>
#include <inttypes.h>

#include "base/num.h"

#define MOST_NAMED 4

void gf_gpu_label(const struct gpufree_gpu *gpu, struct gf_str *text)
{
        if (gpu->index >= 0)
                gf_str_addf(text, "GPU %d", gpu->index);
        else if (gpu->pci)
                gf_str_addf(text, "GPU %s", gpu->pci);
        else if (gpu->minor >= 0)
                gf_str_addf(text, "GPU with minor number %d", gpu->minor);
        else
                gf_str_addf(text, "GPU %s", gpu->uuid ? gpu->uuid : "without a number");
}

static void add_size(struct gf_str *text, uint64_t bytes)
{
        char buf[GF_TEXT_MAX];

        gf_str_add(text, gf_format_size(bytes, buf));
}

/* Who is on this GPU: the selected that keep it, or the others. Names the first few. */
struct crowd {
        size_t n;
        struct gf_str names;
};

static void add_name(struct crowd *crowd, const struct gpufree_holder *holder)
{
        const struct gf_facts *facts = &holder->facts;

        if (crowd->n++ >= MOST_NAMED)
                return;
        gf_str_addf(&crowd->names, "%s%d", crowd->names.n ? ", " : "", (int)holder->id.pid);
        if (facts->comm && facts->user)
                gf_str_addf(&crowd->names, " (%s, %s)", facts->comm, facts->user);
        else if (facts->comm)
                gf_str_addf(&crowd->names, " (%s)", facts->comm);
}

/* Others' processes, which only the driver has seen. */
static void add_unseen_names(const struct gpufree_snapshot *snapshot, size_t gpu, struct crowd *others)
{
        const struct gf_driver_gpu *driver = gf_driver_gpu_of(&snapshot->driver, &snapshot->inventory.gpus.v[gpu]);

        for (int i = -1; (i = gf_next_unseen(snapshot, driver, i)) >= 0;)
                if (others->n++ < MOST_NAMED)
                        gf_str_addf(&others->names, "%s%d", others->names.n ? ", " : "",
                                    (int)driver->processes.v[i].pid);
}

static void gather(const struct gpufree_snapshot *snapshot, size_t gpu, struct crowd *keepers, struct crowd *others)
{
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &snapshot->holders.v[i];
                const struct gf_gpu_use *use = gf_use_of(holder, gpu);

                if (gf_keeps_gpu(snapshot, holder, gpu))
                        add_name(keepers, holder);
                else if (use && use->context)
                        add_name(others, holder);
        }
        add_unseen_names(snapshot, gpu, others);
        if (keepers->n > MOST_NAMED)
                gf_str_addf(&keepers->names, " and %zu more", keepers->n - MOST_NAMED);
        if (others->n > MOST_NAMED)
                gf_str_addf(&others->names, " and %zu more", others->n - MOST_NAMED);
}

static const char *looked_at(const struct gpufree_snapshot *snapshot)
{
        /* Complete all the same: nothing of what was asked about is among the others. */
        if (snapshot->scan.refused.n > 0)
                return "every process that was asked about looked at";
        return snapshot->initial_pidns ? "every process looked at" : "every process of this PID namespace looked at";
}

static void add_unseen(const struct gpufree_snapshot *snapshot, struct gf_str *text)
{
        if (snapshot->unreadable == 1)
                gf_str_add(text, "1 process could not be looked at");
        else if (snapshot->unreadable > 1)
                gf_str_addf(text, "%" PRIu64 " processes could not be looked at", snapshot->unreadable);
        else
                gf_str_add(text, "not everything could be looked at");
}

static void add_came_back(const struct gf_gpu_verdict *verdict, struct gf_str *text)
{
        if (verdict->used_before == GPUFREE_UNKNOWN || verdict->used_after == GPUFREE_UNKNOWN ||
            verdict->used_before <= verdict->used_after)
                return;
        add_size(text, verdict->used_before - verdict->used_after);
        gf_str_add(text, " came back, ");
}

static int say_held(const struct gf_gpu_verdict *verdict, const struct crowd *keepers, struct gf_str *text)
{
        add_came_back(verdict, text);
        if (verdict->used_after != GPUFREE_UNKNOWN) {
                add_size(text, verdict->used_after);
                gf_str_add(text, " ");
        }
        gf_str_addf(text, "held by %s.", keepers->names.s ? keepers->names.s : "a process");
        return GPUFREE_HELD;
}

/*
 * A node that was named by its path and that no driver knows (none is loaded, or it has another's number): there is no
 * memory behind it that anybody could be asked about.
 */
static bool is_bare_node(const struct gpufree_snapshot *snapshot, const struct gpufree_gpu *gpu)
{
        size_t position = (size_t)(gpu - snapshot->inventory.gpus.v);

        if (gpu->pci || gpu->uuid)
                return false;
        for (size_t i = 0; i < snapshot->inventory.devices.n; i++)
                if (snapshot->inventory.devices.v[i].asked && snapshot->inventory.devices.v[i].gpu == (int)position)
                        return true;
        return false;
}

/* No figure: where a driver library exists for this vendor its silence is a gap, elsewhere the look is all there is. */
static int say_unmeasured(const struct gpufree_snapshot *snapshot, const struct gpufree_gpu *gpu, struct gf_str *text)
{
        if (snapshot->gaps.n > 0) {
                gf_str_add(text, "no holder found, but ");
                add_unseen(snapshot, text);
                gf_str_add(text, ", and its driver gave no memory figure.");
                return GPUFREE_INCOMPLETE;
        }
        if (gpu->vendor == GPUFREE_VENDOR_NVIDIA && is_bare_node(snapshot, gpu)) {
                gf_str_addf(text,
                            "no holder found (%s); no driver knows this device, so that look alone is the evidence.",
                            looked_at(snapshot));
                return GPUFREE_OK;
        }
        if (gpu->vendor != GPUFREE_VENDOR_NVIDIA) {
                gf_str_addf(text,
                            "no holder found (%s); its driver gives no memory figure, so that look alone is the "
                            "evidence.",
                            looked_at(snapshot));
                return GPUFREE_OK;
        }
        gf_str_addf(text, "no holder found (%s), but the driver gave no memory figure", looked_at(snapshot));
        if (gpu->error || snapshot->driver.error[0])
                gf_str_addf(text, ": %s", gpu->error ? gpu->error : snapshot->driver.error);
        else
                gf_str_add(text, ": see what nvidia-smi says");
        gf_str_add(text, ".");
        return GPUFREE_INCOMPLETE;
}

static int say_idle(const struct gpufree_snapshot *snapshot, const struct gf_gpu_verdict *verdict,
                    const struct crowd *others, bool *ret_verified, struct gf_str *text)
{
        const struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[verdict->gpu];
        bool vouched = gpu->lists_complete && gpu->listed == 0 && snapshot->initial_pidns;

        add_came_back(verdict, text);
        add_size(text, verdict->used_after);
        if (gpu->vendor == GPUFREE_VENDOR_NVIDIA && gpu->memory.reserved == GPUFREE_UNKNOWN &&
            verdict->used_after > GF_TOLERANCE)
                gf_str_add(text, " (this driver counts what it reserves for itself in)");
        if (snapshot->gaps.n == 0) {
                *ret_verified = true;
                if (others->n == 0)
                        gf_str_addf(text, " held, no holder found (%s).", looked_at(snapshot));
                else
                        gf_str_addf(text, " held by %s, not selected, and by nobody else (%s).",
                                    others->names.s ? others->names.s : "others", looked_at(snapshot));
                return GPUFREE_OK;
        }
        gf_str_add(text, " held, no holder found; ");
        add_unseen(snapshot, text);
        if (vouched) {
                *ret_verified = true;
                gf_str_add(text, ", but the driver lists no process there and its memory is idle.");
                return GPUFREE_OK;
        }
        if (!gpu->lists_complete)
                gf_str_add(text, ", and the driver's process list could not be read.");
        else if (gpu->listed > 0)
                gf_str_addf(text, ", and the driver lists %zu process%s there.", gpu->listed,
                            gpu->listed == 1 ? "" : "es");
        else
                gf_str_add(text, ", and in a PID namespace the driver leaves others' processes out.");
        return GPUFREE_INCOMPLETE;
}

static void add_estates(const struct gpufree_snapshot *snapshot, size_t gpu, struct gf_str *text)
{
        for (size_t i = 0, n = 0; i < snapshot->dead.n; i++) {
                const struct gf_dead *dead = &snapshot->dead.v[i];

                if (dead->gpu < 0 || (size_t)dead->gpu != gpu || n++ >= MOST_NAMED)
                        continue;
                gf_str_add(text, " The driver books ");
                if (dead->memory == GPUFREE_UNKNOWN)
                        gf_str_add(text, "memory");
                else
                        add_size(text, dead->memory);
                gf_str_addf(text, " to process %d, which has ended.", (int)dead->pid);
        }
}

static int say_above(const struct gpufree_snapshot *snapshot, const struct gf_gpu_verdict *verdict,
                     const struct crowd *others, struct gf_str *text)
{
        bool known = gf_idle_figure(snapshot, (size_t)verdict->gpu) != GPUFREE_UNKNOWN;

        add_came_back(verdict, text);
        add_size(text, verdict->used_after);
        if (snapshot->gaps.n > 0) {
                gf_str_add(text, " held and no holder found, but ");
                add_unseen(snapshot, text);
                gf_str_add(text, ".");
                return GPUFREE_INCOMPLETE;
        }
        if (snapshot->scan.refused.n > 0) {
                gf_str_addf(text,
                            " held, none of it by what was asked about; %zu process%s of others could not be looked "
                            "at. Run as root to see who holds it.",
                            snapshot->scan.refused.n, snapshot->scan.refused.n == 1 ? "" : "es");
                return GPUFREE_INCOMPLETE;
        }
        if (!known) {
                gf_str_addf(text,
                            " held. The driver does not say how much of it belongs to %s, not selected, so what else "
                            "is held cannot be told.",
                            others->names.s ? others->names.s : "others");
                return GPUFREE_INCOMPLETE;
        }
        if (others->n > 0)
                gf_str_addf(text, " held, more than %s (not selected) %s, and no other holder found (%s).",
                            others->names.s ? others->names.s : "others", others->n == 1 ? "has" : "have",
                            looked_at(snapshot));
        else
                gf_str_addf(text, " held and no holder found (%s).", looked_at(snapshot));
        return GPUFREE_RESIDUE;
}

int gf_verdict_judge(const struct gpufree_snapshot *snapshot, struct gf_gpu_verdict *verdict)
{
        size_t gpu = (size_t)verdict->gpu;
        struct crowd keepers = { 0 }, others = { 0 };
        struct gf_str text = { 0 };
        bool verified = false;
        char *sentence = NULL;
        int outcome, r;

        gather(snapshot, gpu, &keepers, &others);
        if (keepers.n == 0 && snapshot->inventory.gpus.v[gpu].lost) {
                /* Nobody holds it, and nobody can use it: whoever asks whether it is free means to. */
                gf_str_addf(&text, "no holder found, but it cannot be used: %s.",
                            snapshot->inventory.gpus.v[gpu].error ? snapshot->inventory.gpus.v[gpu].error
                                                                  : "the driver has lost it");
                outcome = GPUFREE_INCOMPLETE;
        } else if (keepers.n > 0) {
                outcome = say_held(verdict, &keepers, &text);
        } else if (verdict->used_after == GPUFREE_UNKNOWN) {
                outcome = say_unmeasured(snapshot, &snapshot->inventory.gpus.v[gpu], &text);
        } else {
                uint64_t idle = gf_idle_figure(snapshot, gpu);

                outcome = idle != GPUFREE_UNKNOWN && verdict->used_after <= idle
                                  ? say_idle(snapshot, verdict, &others, &verified, &text)
                                  : say_above(snapshot, verdict, &others, &text);
        }
        r = gf_str_take(&text, &sentence);
        gf_str_done(&keepers.names);
        gf_str_done(&others.names);
        if (r < 0)
                return r;
        free(verdict->sentence);
        verdict->sentence = sentence;
        verdict->verified = verified;
        return outcome;
}

int gf_verdict_advise(const struct gpufree_snapshot *snapshot, const struct gf_gpu_verdict *verdict, gf_strv *sentences)
{
        const struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[verdict->gpu];
        _cleanup_free_ char *sentence = NULL;
        struct gf_str text = { 0 };
        int r;

        gf_gpu_label(gpu, &text);
        gf_str_add(&text, ": ");
        add_size(&text, verdict->used_after);
        gf_str_add(&text, " is held and no process explains it.");
        add_estates(snapshot, (size_t)verdict->gpu, &text);
        if (gpu->index >= 0)
                gf_str_addf(&text,
                            " What you can do: gpufree explain --gpu %d shows what is known about it; gpufree check "
                            "--for reset --gpu %d says what stands in the way of a reset.",
                            gpu->index, gpu->index);
        r = gf_str_take(&text, &sentence);
        return r < 0 ? r : gf_strv_add(sentences, sentence);
}

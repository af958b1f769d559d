/* SPDX-License-Identifier: MIT */
/* After parking: device files gone, memory back; where not, who keeps it. */
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "model/report.h"
#include "park/park.h"
#include "park/peers.h"
#include "sys/clock.h"
#include "sys/pidwait.h"

#define TOLERANCE (32ULL << 20)
#define FIRST_PAUSE_MS 10
#define LAST_PAUSE_MS 200

bool gf_gpus_match(const struct gpufree_gpu *a, const struct gpufree_gpu *b)
{
        if (a->uuid && b->uuid)
                return gf_streq(a->uuid, b->uuid);
        if (a->pci && b->pci)
                return gf_streq(a->pci, b->pci);
        return a->minor >= 0 ? a->minor == b->minor : a->index == b->index && a->index >= 0;
}

static const struct gpufree_holder *holder_of(const struct gpufree_snapshot *snapshot, const struct gf_ident *id)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (gf_ident_equal(&snapshot->holders.v[i].id, id))
                        return &snapshot->holders.v[i];
        return NULL;
}

static const struct gf_gpu_use *use_on(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder,
                                       const struct gpufree_gpu *gpu)
{
        for (size_t i = 0; holder && i < holder->gpus.n; i++)
                if (gf_gpus_match(&snapshot->inventory.gpus.v[holder->gpus.v[i].gpu], gpu))
                        return &holder->gpus.v[i];
        return NULL;
}

static const struct gpufree_gpu *gpu_in(const struct gpufree_snapshot *snapshot, const struct gpufree_gpu *gpu)
{
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                if (gf_gpus_match(&snapshot->inventory.gpus.v[i], gpu))
                        return &snapshot->inventory.gpus.v[i];
        return NULL;
}

/* What parking should have given back on this GPU, of the processes that are parked now. */
static uint64_t expected_on(const struct gpufree_snapshot *before, const struct gpufree_gpu *gpu,
                            const struct gpufree_parking *parking)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < parking->items.n; i++) {
                const struct gf_parked *item = &parking->items.v[i];
                const struct gf_gpu_use *use = use_on(before, holder_of(before, &item->id), gpu);

                if (!use || !use->context || item->state != GPUFREE_PARK_PARKED)
                        continue;
                if (use->memory == GPUFREE_UNKNOWN)
                        return GPUFREE_UNKNOWN;
                sum += use->memory;
        }
        return sum;
}

/* What others took of this GPU meanwhile, by the driver's own lists. */
static uint64_t grown_on(const struct gpufree_snapshot *before, const struct gpufree_snapshot *after,
                         const struct gpufree_gpu *gpu, const struct gpufree_parking *parking)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < after->holders.n; i++) {
                const struct gpufree_holder *holder = &after->holders.v[i];
                const struct gf_gpu_use *now = use_on(after, holder, gpu);
                const struct gf_gpu_use *then = use_on(before, holder_of(before, &holder->id), gpu);
                uint64_t had = then && then->memory != GPUFREE_UNKNOWN ? then->memory : 0;

                if (!now || !now->listed || now->memory == GPUFREE_UNKNOWN || gf_parking_has(parking, &holder->id))
                        continue;
                sum += now->memory > had ? now->memory - had : 0;
        }
        return sum;
}

/* What is missing of the memory that parking should have given back; GPUFREE_UNKNOWN. */
static uint64_t missing_on(const struct gpufree_snapshot *before, const struct gpufree_snapshot *after,
                           const struct gpufree_gpu *gpu, const struct gpufree_parking *parking)
{
        const struct gpufree_gpu *now = gpu_in(after, gpu);
        uint64_t expected = expected_on(before, gpu, parking), other, freed;

        if (expected == 0)
                return 0;
        if (expected == GPUFREE_UNKNOWN || !now || now->memory.used == GPUFREE_UNKNOWN ||
            gpu->memory.used == GPUFREE_UNKNOWN)
                return GPUFREE_UNKNOWN;
        other = grown_on(before, after, gpu, parking);
        freed = gpu->memory.used + other > now->memory.used ? gpu->memory.used + other - now->memory.used : 0;
        return freed + TOLERANCE >= expected ? 0 : expected - freed;
}

static bool all_back(const struct gpufree_snapshot *before, const struct gpufree_snapshot *after,
                     const struct gpufree_parking *parking)
{
        for (size_t i = 0; i < before->inventory.gpus.n; i++) {
                uint64_t missing = missing_on(before, after, &before->inventory.gpus.v[i], parking);

                if (missing != 0 && missing != GPUFREE_UNKNOWN)
                        return false;
        }
        for (size_t i = 0; i < parking->items.n; i++)
                if (parking->items.v[i].state == GPUFREE_PARK_PARKED && holder_of(after, &parking->items.v[i].id))
                        return false;
        return true;
}

/* Those that have memory on the GPU and are on no list of the driver: what was exported to them stays. */
static int add_keepers(struct gf_str *text, const struct gpufree_snapshot *after, const struct gpufree_gpu *gpu,
                       const struct gpufree_parking *parking)
{
        size_t n = 0;

        for (size_t i = 0; i < after->holders.n; i++) {
                const struct gpufree_holder *holder = &after->holders.v[i];
                const struct gf_gpu_use *use = use_on(after, holder, gpu);

                if (gf_parking_has(parking, &holder->id))
                        continue;
                if (!(use && !use->listed) && !gf_peer_keeps_handle(after, holder))
                        continue;
                gf_str_addf(text, "%s%d (%s)", n++ > 0 ? ", " : "", (int)holder->id.pid,
                            holder->facts.comm ? holder->facts.comm : "?");
        }
        return (int)n;
}

static int say_missing(struct gpufree_parking *parking, struct gf_parked *item, const struct gpufree_snapshot *after,
                       const struct gpufree_gpu *gpu, uint64_t missing)
{
        _cleanup_(gf_str_done) struct gf_str keepers = { 0 };
        char size[GF_TEXT_MAX];
        int pid = (int)item->id.pid, n;

        if (missing == GPUFREE_UNKNOWN)
                return gf_parked_say(item, GPUFREE_INCOMPLETE,
                                     "%d is parked; the memory of GPU %d could not be compared: the driver gives no "
                                     "figure for it",
                                     pid, gpu->index);
        n = add_keepers(&keepers, after, gpu, parking);
        if (keepers.failed)
                return -ENOMEM;
        if (n == 0)
                return gf_parked_say(
                        item, GPUFREE_RESIDUE,
                        "%d is parked, but %s of GPU %d did not come back, and nobody is seen who keeps it", pid,
                        gf_format_size(missing, size), gpu->index);
        return gf_parked_say(item, GPUFREE_RESIDUE,
                             "%d is parked, but %s of GPU %d did not come back: kept, as exported memory is, by %s",
                             pid, gf_format_size(missing, size), gpu->index, keepers.s);
}

static int judge(const struct gpufree_snapshot *before, const struct gpufree_snapshot *after,
                 struct gpufree_parking *parking, struct gf_parked *item)
{
        const struct gpufree_holder *was = holder_of(before, &item->id), *is = holder_of(after, &item->id);
        char size[GF_TEXT_MAX];
        int pid = (int)item->id.pid, r = 0;

        if (item->state != GPUFREE_PARK_PARKED || item->sentence)
                return 0;
        if (is)
                return gf_parked_say(item, GPUFREE_HELD, "%d is parked, and still has %zu GPU device%s open", pid,
                                     is->devices.n, is->devices.n == 1 ? "" : "s");
        for (size_t i = 0; r >= 0 && was && i < was->gpus.n; i++) {
                const struct gpufree_gpu *gpu = &before->inventory.gpus.v[was->gpus.v[i].gpu];
                uint64_t missing = was->gpus.v[i].context ? missing_on(before, after, gpu, parking) : 0;

                if (missing != 0)
                        r = say_missing(parking, item, after, gpu, missing);
        }
        if (r < 0 || item->sentence)
                return r;
        if (after->gaps.n > 0)
                return gf_parked_say(item, GPUFREE_INCOMPLETE, "%d is parked; the look after it is incomplete: %s", pid,
                                     after->gaps.v[0]);
        return gf_parked_say(
                item, GPUFREE_OK,
                "%d is parked: GPU %s has %s more, no device file is open; gpufree unpark %d brings it back", pid,
                item->gpu_list ? item->gpu_list : "?",
                item->memory == GPUFREE_UNKNOWN ? "its memory" : gf_format_size(item->memory, size), pid);
}

int gf_park_verify(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_snapshot *before,
                   uint64_t settle_ms, struct gpufree_parking *parking)
{
        uint64_t deadline = gf_deadline_in(settle_ms);
        struct gpufree_snapshot *after = NULL;
        int r = 0;

        for (uint64_t pause = FIRST_PAUSE_MS;;) {
                r = eyes->look(eyes->userdata, &after);
                if (r < 0)
                        return r;
                if (all_back(before, after, parking) || gf_deadline_left(deadline) == 0)
                        break;
                after = gpufree_snapshot_unref(after);
                r = gf_pidfds_wait(NULL, 0, gf_deadline_in(pause), env->cancel_fd);
                if (r < 0)
                        return r;
                pause = pause * 2 > LAST_PAUSE_MS ? LAST_PAUSE_MS : pause * 2;
        }
        for (size_t i = 0; r >= 0 && i < parking->items.n; i++)
                r = judge(before, after, parking, &parking->items.v[i]);
        gpufree_snapshot_unref(after);
        return r;
}

/* SPDX-License-Identifier: MIT */
#include "verify/verdict.h"

const struct gf_gpu_use *gf_use_of(const struct gpufree_holder *holder, size_t gpu)
{
        for (size_t i = 0; i < holder->gpus.n; i++)
                if (holder->gpus.v[i].gpu >= 0 && (size_t)holder->gpus.v[i].gpu == gpu)
                        return &holder->gpus.v[i];
        return NULL;
}

static bool saturating_add(uint64_t *sum, uint64_t more)
{
        if (more == GPUFREE_UNKNOWN || *sum > UINT64_MAX - 1 - more)
                return false;
        *sum += more;
        return true;
}

/* Does a holder of unknown share keep what is booked to this dead process? Its memory is then known as a whole. */
static bool is_shared_estate(const struct gpufree_snapshot *snapshot, const struct gf_dead *dead)
{
        _cleanup_free_ char *note = gf_asprintf("inherited-from:%d", (int)dead->pid);

        for (size_t i = 0; note && i < snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &snapshot->holders.v[i];
                const struct gf_gpu_use *use = gf_use_of(holder, (size_t)dead->gpu);

                if (use && use->inherited && use->memory == GPUFREE_UNKNOWN && gf_strv_has(&holder->notes, note))
                        return true;
        }
        return false;
}

/* The estates that heirs share on this GPU; *ret_any: there is one. */
static bool add_estates(const struct gpufree_snapshot *snapshot, size_t gpu, uint64_t *sum, bool *ret_any)
{
        *ret_any = false;
        for (size_t i = 0; i < snapshot->dead.n; i++) {
                const struct gf_dead *dead = &snapshot->dead.v[i];

                if (dead->gpu < 0 || (size_t)dead->gpu != gpu || !is_shared_estate(snapshot, dead))
                        continue;
                *ret_any = true;
                if (!saturating_add(sum, dead->memory))
                        return false;
        }
        return true;
}

static bool is_holder(const struct gpufree_snapshot *snapshot, pid_t pid)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (snapshot->holders.v[i].id.pid == pid)
                        return true;
        return false;
}

static bool is_refused(const struct gpufree_snapshot *snapshot, pid_t pid)
{
        for (size_t i = 0; i < snapshot->scan.refused.n; i++)
                if (snapshot->scan.refused.v[i].pid == pid)
                        return true;
        return false;
}

int gf_next_unseen(const struct gpufree_snapshot *snapshot, const struct gf_driver_gpu *driver, int from)
{
        for (size_t i = (size_t)(from + 1); driver && i < driver->processes.n; i++) {
                pid_t pid = driver->processes.v[i].pid;

                if (is_refused(snapshot, pid) && !is_holder(snapshot, pid))
                        return (int)i;
        }
        return -1;
}

bool gf_has_others(const struct gpufree_snapshot *snapshot, size_t gpu)
{
        const struct gf_driver_gpu *driver = gf_driver_gpu_of(&snapshot->driver, &snapshot->inventory.gpus.v[gpu]);

        for (size_t i = 0; i < snapshot->holders.n; i++) {
                const struct gf_gpu_use *use = gf_use_of(&snapshot->holders.v[i], gpu);

                if (use && use->context && !snapshot->holders.v[i].selected)
                        return true;
        }
        return gf_next_unseen(snapshot, driver, -1) >= 0;
}

/* What the driver books to processes that could not be looked at and were not asked about: it stays. */
static bool add_unseen(const struct gpufree_snapshot *snapshot, size_t gpu, uint64_t *sum)
{
        const struct gf_driver_gpu *driver = gf_driver_gpu_of(&snapshot->driver, &snapshot->inventory.gpus.v[gpu]);

        for (int i = -1; (i = gf_next_unseen(snapshot, driver, i)) >= 0;)
                if (!saturating_add(sum, driver->processes.v[i].memory))
                        return false;
        return true;
}

uint64_t gf_idle_figure(const struct gpufree_snapshot *snapshot, size_t gpu)
{
        uint64_t known = 0, openers = 0, accounted;
        bool estates;

        if (gpu >= snapshot->inventory.gpus.n || !add_estates(snapshot, gpu, &known, &estates))
                return GPUFREE_UNKNOWN;
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                const struct gf_gpu_use *use = gf_use_of(&snapshot->holders.v[i], gpu);

                if (!use)
                        continue;
                if (use->memory != GPUFREE_UNKNOWN) {
                        if (!saturating_add(&known, use->memory))
                                return GPUFREE_UNKNOWN;
                } else if (!use->context) {
                        openers += GF_OPENER_COST;
                } else if (!use->inherited || !estates) {
                        return GPUFREE_UNKNOWN;
                }
        }
        /* What two holders share, attribution counted once. */
        accounted = snapshot->inventory.gpus.v[gpu].accounted;
        if (accounted < known)
                known = accounted;
        if (snapshot->inventory.gpus.v[gpu].vendor == GPUFREE_VENDOR_NVIDIA &&
            snapshot->inventory.gpus.v[gpu].memory.reserved == GPUFREE_UNKNOWN)
                known += GF_RESERVED_AT_MOST;
        if (!add_unseen(snapshot, gpu, &known) || !saturating_add(&known, openers) ||
            !saturating_add(&known, GF_TOLERANCE))
                return GPUFREE_UNKNOWN;
        return known;
}

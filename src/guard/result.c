/* SPDX-License-Identifier: MIT */
/* What a guard can be asked afterwards. */
#include <errno.h>
#include <string.h>

#include "guard/guard.h"

const char *gpufree_guard_readiness_name(enum gpufree_guard_readiness readiness)
{
        static const char *const names[] = {
                [GPUFREE_READY_NOT_ASKED] = "not-asked", [GPUFREE_READY_YES] = "ready",
                [GPUFREE_READY_LATE] = "late",           [GPUFREE_READY_STALLED] = "stalled",
                [GPUFREE_READY_ENDED] = "ended-before",
        };

        return (size_t)readiness < ELEMENTSOF(names) ? names[readiness] : NULL;
}

int gpufree_guard_result(const gpufree_guard *guard, struct gpufree_guard_result *ret_result)
{
        size_t size = ret_result->size;

        if (size < sizeof(size) || size > sizeof(guard->result))
                return -EINVAL;
        memcpy(ret_result, &guard->result, size);
        ret_result->size = size;
        return 0;
}

size_t gpufree_guard_gpu_count(const gpufree_guard *guard)
{
        return guard->gpus.n;
}

const gpufree_gpu *gpufree_guard_gpu(const gpufree_guard *guard, size_t position)
{
        return position < guard->gpus.n ? gpufree_snapshot_gpu(guard->snapshot, guard->gpus.v[position]) : NULL;
}

const gpufree_snapshot *gpufree_guard_snapshot(const gpufree_guard *guard)
{
        return guard->snapshot;
}

const gpufree_report *gpufree_guard_report(const gpufree_guard *guard)
{
        return guard->report;
}

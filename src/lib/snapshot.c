/* SPDX-License-Identifier: MIT */
/* Accessors: NULL and positions past the end are answered with "unknown", never followed. */
#include "model/holder.h"

bool gpufree_snapshot_complete(const gpufree_snapshot *snapshot)
{
        return snapshot && snapshot->gaps.n == 0;
}

const char *gpufree_snapshot_gap(const gpufree_snapshot *snapshot, size_t index)
{
        return snapshot && index < snapshot->gaps.n ? snapshot->gaps.v[index] : NULL;
}

enum gpufree_scan_method gpufree_snapshot_method(const gpufree_snapshot *snapshot)
{
        return snapshot ? snapshot->scan.method : GPUFREE_SCAN_AUTO;
}

const char *gpufree_snapshot_method_reason(const gpufree_snapshot *snapshot)
{
        return snapshot ? snapshot->scan.method_reason : NULL;
}

bool gpufree_snapshot_witness(const gpufree_snapshot *snapshot, const char **ret_reason, uint64_t *ret_load_us,
                              uint64_t *ret_pass_us)
{
        if (ret_reason)
                *ret_reason = snapshot ? snapshot->witness.reason : NULL;
        if (ret_load_us)
                *ret_load_us = snapshot ? snapshot->witness.load_us : 0;
        if (ret_pass_us)
                *ret_pass_us = snapshot ? snapshot->witness.pass_us : 0;
        return snapshot && snapshot->witness.asked;
}

uint64_t gpufree_snapshot_elapsed_us(const gpufree_snapshot *snapshot)
{
        return snapshot ? snapshot->elapsed_us : GPUFREE_UNKNOWN;
}

uint64_t gpufree_snapshot_processes(const gpufree_snapshot *snapshot)
{
        return snapshot ? snapshot->scan.processes : GPUFREE_UNKNOWN;
}

int gpufree_snapshot_count(const gpufree_snapshot *snapshot, struct gpufree_look_count *ret_count, size_t size)
{
        struct gpufree_look_count count = { 0 };

        if (!snapshot || !ret_count || size < sizeof(uint64_t) || size > sizeof(count))
                return -EINVAL;
        count.threads = snapshot->scan.threads;
        count.threads_existing = snapshot->scan.existing > 0 ? snapshot->scan.existing : GPUFREE_UNKNOWN;
        count.vanished = snapshot->scan.vanished;
        count.opaque = snapshot->scan.opaque_queues;
        for (size_t i = 0; i < snapshot->scan.refused.n; i++)
                if (snapshot->scan.refused.v[i].why == GF_REFUSED_PERMISSION)
                        count.refused_permission++;
                else
                        count.refused_other++;
        memcpy(ret_count, &count, size);
        return 0;
}

uint64_t gpufree_snapshot_unreadable(const gpufree_snapshot *snapshot)
{
        return snapshot ? snapshot->unreadable : GPUFREE_UNKNOWN;
}

const char *gpufree_snapshot_driver_error(const gpufree_snapshot *snapshot)
{
        return snapshot && snapshot->driver.error[0] ? snapshot->driver.error : NULL;
}

const char *gpufree_snapshot_driver_version(const gpufree_snapshot *snapshot)
{
        return snapshot && snapshot->driver.version[0] ? snapshot->driver.version : NULL;
}

size_t gpufree_snapshot_gpu_count(const gpufree_snapshot *snapshot)
{
        return snapshot ? snapshot->inventory.gpus.n : 0;
}

const gpufree_gpu *gpufree_snapshot_gpu(const gpufree_snapshot *snapshot, size_t position)
{
        return position < gpufree_snapshot_gpu_count(snapshot) ? &snapshot->inventory.gpus.v[position] : NULL;
}

size_t gpufree_snapshot_device_count(const gpufree_snapshot *snapshot)
{
        return snapshot ? snapshot->inventory.devices.n : 0;
}

const gpufree_device *gpufree_snapshot_device(const gpufree_snapshot *snapshot, size_t position)
{
        return position < gpufree_snapshot_device_count(snapshot) ? &snapshot->inventory.devices.v[position] : NULL;
}

size_t gpufree_snapshot_holder_count(const gpufree_snapshot *snapshot)
{
        return snapshot ? snapshot->holders.n : 0;
}

const gpufree_holder *gpufree_snapshot_holder(const gpufree_snapshot *snapshot, size_t position)
{
        return position < gpufree_snapshot_holder_count(snapshot) ? &snapshot->holders.v[position] : NULL;
}

/* SPDX-License-Identifier: MIT */
/* The stand-in's accessors: nothing but the fields. */
#include <errno.h>
#include <string.h>

#include "fake_scenes.h"

bool gpufree_snapshot_complete(const gpufree_snapshot *snapshot)
{
        return snapshot->gaps[0] == NULL;
}

enum gpufree_scan_method gpufree_snapshot_method(const gpufree_snapshot *snapshot)
{
        (void)snapshot;
        return GPUFREE_SCAN_PROC;
}

const char *gpufree_snapshot_method_reason(const gpufree_snapshot *snapshot)
{
        (void)snapshot;
        return "BPF: not permitted";
}

uint64_t gpufree_snapshot_elapsed_us(const gpufree_snapshot *snapshot)
{
        (void)snapshot;
        return 12345;
}

int gpufree_snapshot_count(const gpufree_snapshot *snapshot, struct gpufree_look_count *ret_count, size_t size)
{
        (void)snapshot;
        memset(ret_count, 0, size);
        return 0;
}

uint64_t gpufree_snapshot_processes(const gpufree_snapshot *snapshot)
{
        (void)snapshot;
        return 240;
}

uint64_t gpufree_snapshot_unreadable(const gpufree_snapshot *snapshot)
{
        return snapshot->unreadable;
}

const char *gpufree_snapshot_driver_error(const gpufree_snapshot *snapshot)
{
        return snapshot->driver_error;
}

const char *gpufree_snapshot_driver_version(const gpufree_snapshot *snapshot)
{
        (void)snapshot;
        return "580.159.04";
}

size_t gpufree_snapshot_gpu_count(const gpufree_snapshot *snapshot)
{
        return snapshot->n_gpus;
}

const gpufree_gpu *gpufree_snapshot_gpu(const gpufree_snapshot *snapshot, size_t position)
{
        return position < snapshot->n_gpus ? &snapshot->gpus[position] : NULL;
}

size_t gpufree_snapshot_device_count(const gpufree_snapshot *snapshot)
{
        return snapshot->n_devices;
}

const gpufree_device *gpufree_snapshot_device(const gpufree_snapshot *snapshot, size_t position)
{
        return position < snapshot->n_devices ? &snapshot->devices[position] : NULL;
}

size_t gpufree_snapshot_holder_count(const gpufree_snapshot *snapshot)
{
        return snapshot->n_holders;
}

const gpufree_holder *gpufree_snapshot_holder(const gpufree_snapshot *snapshot, size_t position)
{
        return position < snapshot->n_holders ? &snapshot->holders[position] : NULL;
}

const char *gpufree_snapshot_gap(const gpufree_snapshot *snapshot, size_t index)
{
        return snapshot->gaps[index];
}

int gpufree_gpu_index(const gpufree_gpu *gpu)
{
        return gpu->index;
}

int gpufree_gpu_minor(const gpufree_gpu *gpu)
{
        return gpu->minor;
}

const char *gpufree_gpu_uuid(const gpufree_gpu *gpu)
{
        return gpu->uuid;
}

const char *gpufree_gpu_pci(const gpufree_gpu *gpu)
{
        return gpu->pci;
}

const char *gpufree_gpu_name(const gpufree_gpu *gpu)
{
        return gpu->name;
}

enum gpufree_vendor gpufree_gpu_vendor(const gpufree_gpu *gpu)
{
        return gpu->vendor;
}

bool gpufree_gpu_selected(const gpufree_gpu *gpu)
{
        return gpu->selected;
}

uint64_t gpufree_gpu_memory_total(const gpufree_gpu *gpu)
{
        return gpu->total;
}

uint64_t gpufree_gpu_memory_used(const gpufree_gpu *gpu)
{
        return gpu->used;
}

uint64_t gpufree_gpu_memory_reserved(const gpufree_gpu *gpu)
{
        return gpu->reserved;
}

uint64_t gpufree_gpu_memory_accounted(const gpufree_gpu *gpu)
{
        return gpu->used;
}

size_t gpufree_gpu_holders(const gpufree_gpu *gpu)
{
        return gpu->holders;
}

size_t gpufree_gpu_openers(const gpufree_gpu *gpu)
{
        return gpu->openers;
}

const char *gpufree_gpu_error(const gpufree_gpu *gpu)
{
        return gpu->error;
}

uint64_t gpufree_gpu_memory_unaccounted(const gpufree_gpu *gpu)
{
        return gpu->used == GPUFREE_UNKNOWN ? GPUFREE_UNKNOWN : 0;
}

const char *gpufree_device_path(const gpufree_device *device)
{
        return device->path;
}

dev_t gpufree_device_rdev(const gpufree_device *device)
{
        return device->rdev;
}

const char *gpufree_device_class(const gpufree_device *device)
{
        return device->cls;
}

int gpufree_device_gpu(const gpufree_device *device)
{
        return device->gpu;
}

bool gpufree_device_is_block(const gpufree_device *device)
{
        (void)device;
        return false;
}

pid_t gpufree_holder_pid(const gpufree_holder *holder)
{
        return holder->pid;
}

const char *gpufree_holder_comm(const gpufree_holder *holder)
{
        return holder->comm;
}

uint32_t gpufree_holder_uid(const gpufree_holder *holder)
{
        return holder->uid;
}

const char *gpufree_holder_user(const gpufree_holder *holder)
{
        return holder->user;
}

char gpufree_holder_state(const gpufree_holder *holder)
{
        return holder->state;
}

pid_t gpufree_holder_ppid(const gpufree_holder *holder)
{
        return holder->ppid;
}

pid_t gpufree_holder_pidns_pid(const gpufree_holder *holder)
{
        return holder->pidns_pid;
}

uint64_t gpufree_holder_age_ms(const gpufree_holder *holder)
{
        return holder->age_ms;
}

bool gpufree_holder_selected(const gpufree_holder *holder)
{
        return holder->selected;
}

const char *gpufree_holder_protected(const gpufree_holder *holder)
{
        return holder->protected_why;
}

bool gpufree_holder_protection_absolute(const gpufree_holder *holder)
{
        return holder->absolute;
}

const char *gpufree_holder_owner_label(const gpufree_holder *holder)
{
        return holder->label;
}

size_t gpufree_holder_device_count(const gpufree_holder *holder)
{
        return holder->n_devices;
}

size_t gpufree_holder_gpu_count(const gpufree_holder *holder)
{
        return holder->n_gpus;
}

uint64_t gpufree_holder_start_ticks(const gpufree_holder *holder)
{
        return 1000 + (uint64_t)holder->pid;
}

size_t gpufree_holder_owner_count(const gpufree_holder *holder)
{
        return holder->label ? 1 : 0;
}

const char *gpufree_holder_cmdline(const gpufree_holder *holder, size_t *ret_length)
{
        if (holder->cmdline)
                *ret_length = holder->cmdline_length;
        return holder->cmdline;
}

int gpufree_holder_owner(const gpufree_holder *holder, size_t position, const char **ret_kind, const char **ret_runtime,
                         const char **ret_id, const char **ret_name)
{
        if (position > 0 || !holder->label)
                return -EINVAL;
        *ret_kind = "session";
        *ret_runtime = NULL;
        *ret_id = holder->label;
        *ret_name = NULL;
        return 0;
}

int gpufree_holder_device(const gpufree_holder *holder, size_t position, int *ret_device, unsigned *ret_via,
                          uint64_t *ret_count, uint64_t *ret_bytes)
{
        if (position >= holder->n_devices)
                return -EINVAL;
        *ret_device = holder->devices[position].device;
        *ret_via = holder->devices[position].via;
        *ret_count = holder->devices[position].count;
        *ret_bytes = holder->devices[position].bytes;
        return 0;
}

enum gpufree_witness gpufree_holder_gpu_witness(const gpufree_holder *holder, size_t position)
{
        return holder && position == 0 ? GPUFREE_WITNESS_CONTEXT : GPUFREE_WITNESS_NONE;
}

bool gpufree_snapshot_witness(const gpufree_snapshot *snapshot, const char **ret_reason, uint64_t *ret_load_us,
                              uint64_t *ret_pass_us)
{
        *ret_reason = NULL;
        *ret_load_us = 11000;
        *ret_pass_us = 250;
        return snapshot != NULL;
}

uint64_t gpufree_holder_gpu_busy(const gpufree_holder *holder, size_t position)
{
        (void)holder;
        (void)position;
        return GPUFREE_UNKNOWN;
}

int gpufree_holder_gpu(const gpufree_holder *holder, size_t position, int *ret_gpu, uint64_t *ret_memory,
                       bool *ret_context)
{
        if (position >= holder->n_gpus)
                return -EINVAL;
        *ret_gpu = holder->gpus[position].gpu;
        *ret_memory = holder->gpus[position].memory;
        *ret_context = holder->gpus[position].context;
        return 0;
}

const char *gpufree_holder_note(const gpufree_holder *holder, size_t index)
{
        return index < sizeof(holder->notes) / sizeof(holder->notes[0]) ? holder->notes[index] : NULL;
}

const char *gpufree_vendor_name(enum gpufree_vendor vendor)
{
        return vendor == GPUFREE_VENDOR_NVIDIA ? "nvidia" : NULL;
}

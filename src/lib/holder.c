/* SPDX-License-Identifier: MIT */
#include "model/holder.h"

/* A result that nobody wants is passed as NULL. */
#define GIVE(ret, value)                                                                                               \
        do {                                                                                                           \
                if (ret)                                                                                               \
                        *(ret) = (value);                                                                              \
        } while (0)

pid_t gpufree_holder_pid(const gpufree_holder *holder)
{
        return holder ? holder->id.pid : 0;
}

uint64_t gpufree_holder_start_ticks(const gpufree_holder *holder)
{
        return holder ? holder->id.start_ticks : GPUFREE_UNKNOWN;
}

const char *gpufree_holder_comm(const gpufree_holder *holder)
{
        return holder ? holder->facts.comm : NULL;
}

const char *gpufree_holder_cmdline(const gpufree_holder *holder, size_t *ret_length)
{
        if (!holder || !holder->facts.cmdline)
                return NULL;
        GIVE(ret_length, holder->facts.cmdline_length);
        return holder->facts.cmdline;
}

uint32_t gpufree_holder_uid(const gpufree_holder *holder)
{
        return holder ? holder->facts.uid : UINT32_MAX;
}

const char *gpufree_holder_user(const gpufree_holder *holder)
{
        return holder ? holder->facts.user : NULL;
}

char gpufree_holder_state(const gpufree_holder *holder)
{
        return holder && holder->facts.state ? holder->facts.state : '?';
}

pid_t gpufree_holder_ppid(const gpufree_holder *holder)
{
        return holder ? holder->facts.ppid : 0;
}

pid_t gpufree_holder_pidns_pid(const gpufree_holder *holder)
{
        return holder ? holder->facts.pidns_pid : 0;
}

uint64_t gpufree_holder_age_ms(const gpufree_holder *holder)
{
        return holder ? holder->facts.age_ms : GPUFREE_UNKNOWN;
}

bool gpufree_holder_selected(const gpufree_holder *holder)
{
        return holder && holder->selected;
}

const char *gpufree_holder_protected(const gpufree_holder *holder)
{
        return holder ? holder->protected_why : NULL;
}

bool gpufree_holder_protection_absolute(const gpufree_holder *holder)
{
        return holder && holder->protected_why && holder->protected_absolute;
}

size_t gpufree_holder_owner_count(const gpufree_holder *holder)
{
        return holder ? holder->owners.n : 0;
}

int gpufree_holder_owner(const gpufree_holder *holder, size_t position, const char **ret_kind, const char **ret_runtime,
                         const char **ret_id, const char **ret_name)
{
        const struct gf_owner *owner;

        if (position >= gpufree_holder_owner_count(holder))
                return -ERANGE;
        owner = &holder->owners.v[position];
        GIVE(ret_kind, owner->kind);
        GIVE(ret_runtime, owner->runtime);
        GIVE(ret_id, owner->id);
        GIVE(ret_name, owner->name);
        return 0;
}

const char *gpufree_holder_owner_label(const gpufree_holder *holder)
{
        return holder ? holder->owner_label : NULL;
}

size_t gpufree_holder_device_count(const gpufree_holder *holder)
{
        return holder ? holder->devices.n : 0;
}

int gpufree_holder_device(const gpufree_holder *holder, size_t position, int *ret_device, unsigned *ret_via,
                          uint64_t *ret_count, uint64_t *ret_bytes)
{
        const struct gf_device_use *use;

        if (position >= gpufree_holder_device_count(holder))
                return -ERANGE;
        use = &holder->devices.v[position];
        GIVE(ret_device, use->device);
        GIVE(ret_via, use->via);
        GIVE(ret_count, use->fds + use->maps);
        GIVE(ret_bytes, use->bytes);
        return 0;
}

size_t gpufree_holder_gpu_count(const gpufree_holder *holder)
{
        return holder ? holder->gpus.n : 0;
}

uint64_t gpufree_holder_gpu_busy(const gpufree_holder *holder, size_t position)
{
        if (position >= gpufree_holder_gpu_count(holder) || !holder->gpus.v[position].sampled)
                return GPUFREE_UNKNOWN;
        return holder->gpus.v[position].busy;
}

int gpufree_holder_gpu(const gpufree_holder *holder, size_t position, int *ret_gpu, uint64_t *ret_memory,
                       bool *ret_context)
{
        const struct gf_gpu_use *use;

        if (position >= gpufree_holder_gpu_count(holder))
                return -ERANGE;
        use = &holder->gpus.v[position];
        GIVE(ret_gpu, use->gpu);
        GIVE(ret_memory, use->memory);
        GIVE(ret_context, use->context);
        return 0;
}

enum gpufree_witness gpufree_holder_gpu_witness(const gpufree_holder *holder, size_t position)
{
        return position < gpufree_holder_gpu_count(holder) ? holder->gpus.v[position].witness : GPUFREE_WITNESS_NONE;
}

const char *gpufree_holder_note(const gpufree_holder *holder, size_t index)
{
        return holder && index < holder->notes.n ? holder->notes.v[index] : NULL;
}

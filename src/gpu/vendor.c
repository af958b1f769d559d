/* SPDX-License-Identifier: MIT */
#include "gpu/vendor.h"

#include <errno.h>

#include "sys/pidstat.h"
#include "sys/safefile.h"

static const struct gf_vendor_driver drivers[] = {
        { "kfd", true, gf_kfd_read },
        { "drm", false, gf_drm_read },
};

/* The inode of the first PID namespace is fixed in the kernel (include/linux/proc_ns.h). */
static bool in_initial_pidns(struct gf_env *env)
{
        _cleanup_free_ char *path = gf_asprintf("%s/self/ns/pid", env->proc_root), *target = NULL;

        return path && gf_safe_link(path, &target) >= 0 && gf_streq(target, "pid:[4026531836]");
}

int gf_vendor_read(struct gf_env *env, const struct gpufree_snapshot *snapshot, gf_vendor_uses *ret_uses)
{
        int r = 0;

        /* Another root's nodes, or named ones alone: what this machine's drivers say is not about them. */
        if (env->dev_root_set || env->paths.n > 0)
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(drivers) && r >= 0; i++)
                if (!drivers[i].global_pids || in_initial_pidns(env))
                        r = drivers[i].read(env, snapshot, ret_uses);
        return r;
}

static struct gpufree_holder *holder_of(const struct gpufree_snapshot *snapshot, pid_t pid)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (snapshot->holders.v[i].id.pid == pid)
                        return &snapshot->holders.v[i];
        return NULL;
}

static int kfd_device(const struct gpufree_snapshot *snapshot)
{
        for (size_t i = 0; i < snapshot->inventory.devices.n; i++)
                if (snapshot->inventory.devices.v[i].cls == GF_CLASS_KFD)
                        return (int)i;
        return -1;
}

static int add_holder(struct gpufree_snapshot *snapshot, const struct gf_ident *id, int device)
{
        struct gpufree_holder *holder = gf_vec_add(&snapshot->holders);
        struct gf_device_use *use;

        if (!holder)
                return -ENOMEM;
        holder->id = *id;
        use = gf_vec_add(&holder->devices);
        if (!use)
                return -ENOMEM;
        *use = (struct gf_device_use){ .device = device, .via = GPUFREE_VIA_DRIVER, .bytes = GPUFREE_UNKNOWN };
        return 0;
}

int gf_vendor_add_holders(struct gf_env *env, struct gpufree_snapshot *snapshot, const gf_vendor_uses *uses)
{
        int device = kfd_device(snapshot), r = 0;

        for (size_t i = 0; i < uses->n && r >= 0 && device >= 0; i++) {
                const struct gf_vendor_use *use = &uses->v[i];
                struct gf_pidstat stat;

                if (!use->alone || use->pid == getpid() || holder_of(snapshot, use->pid))
                        continue;
                if (gf_pidstat_read(env, use->pid, &stat) < 0)
                        continue; /* ended, or of a PID namespace that is not ours */
                r = add_holder(snapshot, &(struct gf_ident){ use->pid, stat.start_ticks }, device);
        }
        return r;
}

static struct gf_gpu_use *use_get(struct gpufree_holder *holder, int gpu)
{
        struct gf_gpu_use *use;

        for (size_t i = 0; i < holder->gpus.n; i++)
                if (holder->gpus.v[i].gpu == gpu)
                        return &holder->gpus.v[i];
        use = gf_vec_add(&holder->gpus);
        if (use)
                *use = (struct gf_gpu_use){ .gpu = gpu, .memory = GPUFREE_UNKNOWN };
        return use;
}

/* Two drivers' figures of one process are of the same memory: the larger one. One driver's several clients add up. */
static int apply_one(struct gpufree_snapshot *snapshot, const gf_vendor_uses *uses, size_t at)
{
        const struct gf_vendor_use *first = &uses->v[at];
        struct gpufree_holder *holder = holder_of(snapshot, first->pid);
        uint64_t listed = 0, clients = 0;
        struct gf_gpu_use *use;

        for (size_t i = 0; i < at; i++)
                if (uses->v[i].pid == first->pid && uses->v[i].gpu == first->gpu)
                        return 0; /* done with the first of them */
        if (!holder || first->gpu < 0)
                return 0;
        for (size_t i = at; i < uses->n; i++) {
                uint64_t *sum = uses->v[i].alone ? &listed : &clients;

                if (uses->v[i].pid != first->pid || uses->v[i].gpu != first->gpu)
                        continue;
                if (*sum == GPUFREE_UNKNOWN || uses->v[i].bytes == GPUFREE_UNKNOWN ||
                    __builtin_add_overflow(*sum, uses->v[i].bytes, sum))
                        *sum = GPUFREE_UNKNOWN;
        }
        use = use_get(holder, first->gpu);
        if (!use)
                return -ENOMEM;
        if (listed == GPUFREE_UNKNOWN || clients == GPUFREE_UNKNOWN)
                use->memory = GPUFREE_UNKNOWN;
        else
                use->memory = listed > clients ? listed : clients;
        use->listed = use->listed || first->alone;
        use->context = use->context || first->alone || use->memory > 0;
        return 0;
}

/* How many hold each GPU, and what is known of it: attribution counted before these were known. */
static void count_again(struct gpufree_snapshot *snapshot, size_t gpu)
{
        struct gpufree_gpu *g = &snapshot->inventory.gpus.v[gpu];

        g->holders = g->openers = 0;
        g->accounted = GPUFREE_UNKNOWN;
        for (size_t i = 0; i < snapshot->holders.n; i++)
                for (size_t k = 0; k < snapshot->holders.v[i].gpus.n; k++) {
                        const struct gf_gpu_use *use = &snapshot->holders.v[i].gpus.v[k];

                        if (use->gpu != (int)gpu)
                                continue;
                        *(use->context ? &g->holders : &g->openers) += 1;
                        if (!use->context || use->memory == GPUFREE_UNKNOWN)
                                continue;
                        if (g->accounted == GPUFREE_UNKNOWN)
                                g->accounted = 0;
                        if (__builtin_add_overflow(g->accounted, use->memory, &g->accounted))
                                g->accounted = GPUFREE_UNKNOWN - 1;
                }
}

int gf_vendor_apply(struct gpufree_snapshot *snapshot, const gf_vendor_uses *uses)
{
        int r = 0;

        for (size_t i = 0; i < uses->n && r >= 0; i++)
                r = apply_one(snapshot, uses, i);
        for (size_t i = 0; i < snapshot->inventory.gpus.n && r >= 0 && uses->n > 0; i++)
                if (snapshot->inventory.gpus.v[i].vendor != GPUFREE_VENDOR_NVIDIA)
                        count_again(snapshot, i);
        return r;
}

bool gf_vendor_still_lists(struct gf_env *env, const struct gpufree_holder *holder)
{
        _cleanup_free_ char *path = gf_asprintf("%s/class/kfd/kfd/proc/%d", env->sys_root, (int)holder->id.pid);

        for (size_t i = 0; i < holder->devices.n; i++)
                if (holder->devices.v[i].via & GPUFREE_VIA_DRIVER)
                        return !path || gf_is_there(path);
        return false;
}

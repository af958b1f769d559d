/* SPDX-License-Identifier: MIT */
/* What ending and verifying see with: the pipeline, bound to a context and a selection. */
#include <errno.h>
#include <unistd.h>

#include "gpu/vendor.h"
#include "pipeline.h"
#include "scan/scan.h"
#include "scan/wanted.h"

static bool pid_runs(const struct gf_env *env, pid_t pid)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%d", env->proc_root, pid);

        return path && access(path, F_OK) == 0;
}

static int eye_look(void *userdata, struct gpufree_snapshot **ret_snapshot)
{
        struct gf_sight *sight = userdata;

        return gf_look(sight->context, sight->selection, ret_snapshot);
}

/*
 * A confirmation can take minutes. Who has let go of the GPU that it was shown for, and has another one by now, is not
 * what the plan showed. NVIDIA's contexts do not outlive the GPU's own node; elsewhere any device will do.
 */
static bool is_what_was_shown(const struct gpufree_snapshot *first, const struct gpufree_holder *holder,
                              const struct gf_hit *hit)
{
        bool has_node = false;

        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gf_device_use *use = &holder->devices.v[i];
                const struct gpufree_device *device;

                if (use->device < 0 || (size_t)use->device >= first->inventory.devices.n)
                        continue;
                device = &first->inventory.devices.v[use->device];
                if (device->cls != GF_CLASS_NVIDIA_GPU || device->gpu < 0 ||
                    !first->inventory.gpus.v[device->gpu].selected)
                        continue;
                if (hit->rdev == device->rdev && hit->block == device->block)
                        return true;
                has_node = true;
        }
        return !has_node;
}

static bool shows(const struct gf_scan *scan, const struct gpufree_snapshot *first, const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < scan->hits.n; i++)
                if (gf_ident_equal(&scan->hits.v[i].id, &holder->id) &&
                    is_what_was_shown(first, holder, &scan->hits.v[i]))
                        return true;
        return false;
}

struct shown {
        const struct gpufree_snapshot *first;
        const struct gpufree_holder *holder;
};

static bool is_shown(const struct gf_hit *hit, void *userdata)
{
        const struct shown *shown = userdata;

        return is_what_was_shown(shown->first, shown->holder, hit);
}

/*
 * /proc answers at once for one process. What it does not show may still wait in a socket, or be hidden from it: what
 * was found by BPF has let go only when BPF says so.
 */
static int eye_still_holds(void *userdata, const struct gpufree_holder *holder)
{
        _cleanup_(gf_wanted_set_done) struct gf_wanted_set wanted = { 0 };
        _cleanup_(gf_scan_done) struct gf_scan near = { 0 }, deep = { 0 };
        struct gf_sight *sight = userdata;
        struct gf_env *env = &sight->context->env;
        const struct gf_scan *last = &near;
        int r;

        if (!sight->first)
                return 1;
        r = gf_wanted_make(&sight->first->inventory, env->paths.n > 0, &wanted);
        if (r < 0)
                return r;
        if (gf_scan_glance(env, &wanted.wanted, &holder->id, is_shown, &(struct shown){ sight->first, holder }) == 1)
                return 1;
        wanted.wanted.only = &holder->id.pid;
        wanted.wanted.n_only = 1;
        r = gf_scan_proc(env, &wanted.wanted, &near);
        if (r < 0)
                return r;
        if (shows(&near, sight->first, holder))
                return 1;
        if (sight->first->scan.method == GPUFREE_SCAN_BPF && pid_runs(env, holder->id.pid)) {
                r = gf_scan_run(env, &wanted.wanted, &deep);
                if (r < 0)
                        return r;
                if (shows(&deep, sight->first, holder))
                        return 1;
                last = &deep;
        }
        if (last->refused.n > 0)
                return -last->refused.v[0].error;
        /* A queue that nobody can see into: it was not seen to let go. */
        if (last->opaque.n > 0)
                return 1;
        if (!pid_runs(env, holder->id.pid))
                return -ESRCH;
        return gf_vendor_still_lists(env, holder) ? 1 : 0;
}

static int ask(const struct gf_sight *sight, enum gf_nvml_question question, struct gf_driver_report *ret_report)
{
        int r = gf_nvml_ask(sight->context->nvml, question);

        if (r < 0 && r != -EPIPE)
                return r;
        return gf_nvml_answer(sight->context->nvml, ret_report);
}

static int eye_memory(void *userdata, struct gf_driver_report *ret_report)
{
        return ask(userdata, GF_NVML_MEMORY, ret_report);
}

static int eye_activity(void *userdata, struct gf_driver_report *ret_report)
{
        return ask(userdata, GF_NVML_BUSY, ret_report);
}

struct gf_eyes gf_eyes_of(struct gf_sight *sight)
{
        return (struct gf_eyes){
                .look = eye_look,
                .still_holds = eye_still_holds,
                .memory = eye_memory,
                .activity = eye_activity,
                .userdata = sight,
                .on_event = sight->context->on_event,
                .event_userdata = sight->context->event_userdata,
        };
}

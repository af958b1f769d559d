/* SPDX-License-Identifier: MIT */
/*
 * The stages, in order:
 *
 *     devices → scan (who holds them) → attribute (GPU memory, owner) → select (filters, protection)
 *
 * and, over them, plan → end → verify → report (lib/act.c).
 */
#include "pipeline.h"

#include <string.h>

#include "gpu/attribute.h"
#include "gpu/inventory.h"
#include "gpu/vendor.h"
#include "owner/owner.h"
#include "gaps.h"
#include "listed.h"
#include "scan/merge.h"
#include "scan/scan.h"
#include "scan/wanted.h"
#include "scan/witness.h"
#include "sys/clock.h"
#include "sys/precedence.h"

/* How often a look is taken again because holders slipped away while it was taken. */
#define MOST_LOOKS 4

/* 1. The driver's child starts to initialise while everything else goes on. */
static int start_driver(struct gpufree *context)
{
        if (context->nvml)
                return 0;
        return gf_nvml_start(&context->env, &context->nvml);
}

/* Without a device and without a GPU there is nothing to be held: no process needs to be looked at. */
static bool worth_a_scan(const struct gf_env *env, const struct gf_inventory *inventory)
{
        return inventory->devices.n > 0 || inventory->gpus.n > 0 || env->paths.n > 0 ||
               env->scan_method != GPUFREE_SCAN_AUTO;
}

static int no_scan(struct gpufree_snapshot *snapshot)
{
        snapshot->scan.method = GPUFREE_SCAN_AUTO;
        snapshot->scan.method_reason = gf_asprintf("there is no GPU and no device of one: nothing to look for");
        return snapshot->scan.method_reason ? 0 : -ENOMEM;
}

/* Does anybody have something of NVIDIA's open? */
static bool has_nvidia_hits(const struct gpufree_snapshot *snapshot)
{
        for (size_t i = 0; i < snapshot->scan.hits.n; i++) {
                const struct gf_hit *hit = &snapshot->scan.hits.v[i];
                const struct gpufree_device *device;

                if (hit->via == GPUFREE_VIA_DMABUF && gf_streq(hit->exporter, "nv_dmabuf"))
                        return true;
                device = gf_inventory_find(&snapshot->inventory, hit->rdev, hit->block);
                if (device && device->vendor == GPUFREE_VENDOR_NVIDIA)
                        return true;
        }
        return false;
}

/* The driver's own structures, while its library still initialises: no later than the library's word. */
static int ask_witness(struct gpufree *context, struct gpufree_snapshot *snapshot)
{
        gf_witness_done(&snapshot->witness);
        if (has_nvidia_hits(snapshot))
                return gf_witness_read(&context->env, &snapshot->witness);
        snapshot->witness.reason = gf_asprintf("nobody has a device of NVIDIA's open");
        return snapshot->witness.reason ? 0 : -ENOMEM;
}

/* 2. and 3. Devices, and who holds them. */
static int scan_devices(struct gpufree *context, struct gpufree_snapshot *snapshot)
{
        _cleanup_(gf_wanted_set_done) struct gf_wanted_set wanted = { 0 };
        struct gf_ident child = gf_nvml_child(context->nvml);
        int r;

        if (!worth_a_scan(&context->env, &snapshot->inventory))
                return no_scan(snapshot);
        r = gf_wanted_make(&snapshot->inventory, context->env.paths.n > 0, &wanted);
        if (r < 0)
                return r;
        gf_wanted_skip(&wanted, getpid());
        if (child.pid > 0)
                gf_wanted_skip(&wanted, child.pid);
        r = gf_scan_run(&context->env, &wanted.wanted, &snapshot->scan);
        return r < 0 ? r : ask_witness(context, snapshot);
}

/* A node that was not there when the scan began: nobody looked for its number. */
static bool has_new_device(const struct gf_inventory *before, const struct gf_inventory *after)
{
        for (size_t i = 0; i < after->devices.n; i++)
                if (!gf_inventory_find(before, after->devices.v[i].rdev, after->devices.v[i].block))
                        return true;
        return false;
}

/*
 * The inventory again, now with what the driver said. When that brings a device that nobody looked for, it is looked
 * for now, and the driver is asked once more: its word must be younger than the scan.
 */
static int place_devices(struct gpufree *context, struct gpufree_snapshot *snapshot)
{
        for (int round = 0;; round++) {
                _cleanup_(gf_strv_done) gf_strv gaps = { 0 };
                struct gf_inventory placed = { 0 };
                bool again;
                int r;

                r = gf_inventory_read(&context->env, &snapshot->driver, &gaps, &placed);
                for (size_t i = 0; r == 0 && i < gaps.n; i++) /* the first reading has said some of it */
                        if (!gf_strv_has(&snapshot->gaps, gaps.v[i]))
                                r = gf_strv_add(&snapshot->gaps, gaps.v[i]);
                if (r < 0) {
                        gf_inventory_done(&placed);
                        return r;
                }
                again = has_new_device(&snapshot->inventory, &placed) ||
                        worth_a_scan(&context->env, &placed) != worth_a_scan(&context->env, &snapshot->inventory);
                gf_inventory_done(&snapshot->inventory);
                snapshot->inventory = placed;
                if (!again || round > 0)
                        return 0;
                gf_scan_done(&snapshot->scan);
                snapshot->scan = (struct gf_scan){ 0 };
                r = scan_devices(context, snapshot);
                if (r >= 0)
                        r = gf_ask_driver(context, snapshot);
                if (r < 0)
                        return r;
        }
}

/* 5. What /proc and the runtimes say about each holder. One that has ended since is dropped. */
static int describe_holders(struct gpufree *context, struct gpufree_snapshot *snapshot)
{
        size_t kept = 0;

        for (size_t i = 0; i < snapshot->holders.n; i++) {
                struct gpufree_holder *holder = &snapshot->holders.v[i];
                int r = gf_facts_read(&context->env, &holder->id, &holder->facts);

                if (r == -ESRCH) {
                        gf_holder_done(holder);
                        snapshot->slipped++;
                        continue;
                }
                if (r >= 0)
                        r = gf_owner_read(&context->env, holder);
                if (kept != i)
                        snapshot->holders.v[kept] = *holder;
                kept++;
                if (r < 0) {
                        /* The rest is still owned by the vector: close the gap that dropping left. */
                        for (size_t k = i + 1; k < snapshot->holders.n; k++)
                                snapshot->holders.v[kept++] = snapshot->holders.v[k];
                        snapshot->holders.n = kept;
                        return r;
                }
        }
        snapshot->holders.n = kept;
        return 0;
}

static int look_stages(struct gpufree *context, const struct gpufree_selection *selection,
                       struct gpufree_snapshot *snapshot)
{
        _cleanup_(gf_self_done) struct gf_self self = { 0 };
        _cleanup_(gf_vendor_uses_done) gf_vendor_uses vendor_uses = { 0 };
        struct gf_env *env = &context->env;
        int r;

        r = start_driver(context);
        if (r < 0)
                return gf_fail(env, r, "starting the driver's child: %s", strerror(-r));
        /* Attribution and selection ask for it. */
        r = gf_initial_pidns(env);
        if (r == -ENOMEM)
                return r;
        snapshot->initial_pidns = r == 1;
        r = gf_inventory_read(env, NULL, &snapshot->gaps, &snapshot->inventory);
        if (r < 0)
                return r;
        r = scan_devices(context, snapshot);
        if (r < 0)
                return r;
        r = gf_ask_driver(context, snapshot);
        if (r < 0)
                return r;
        r = place_devices(context, snapshot);
        if (r < 0)
                return r;
        r = gf_merge_hits(snapshot);
        if (r >= 0)
                r = gf_vendor_read(env, snapshot, &vendor_uses);
        if (r >= 0)
                r = gf_vendor_add_holders(env, snapshot, &vendor_uses);
        if (r < 0)
                return r;
        snapshot->boot_ticks = gf_boottime_ticks();
        snapshot->slipped = snapshot->scan.slipped;
        r = describe_holders(context, snapshot);
        if (r < 0)
                return r;
        r = gf_attribute(snapshot);
        if (r >= 0)
                r = gf_vendor_apply(snapshot, &vendor_uses);
        if (r < 0)
                return r;
        r = gf_self_read(env, &self);
        if (r < 0)
                return r;
        self.rules = &context->rules;
        r = gf_select_gpus(env, selection, snapshot);
        /* A driver that does not answer does not say which index a GPU has either: that is no mistake of the user's. */
        if (r == -ENODEV && !gf_driver_answered(snapshot))
                return gf_fail(env, -ENODATA,
                               "which GPU is meant cannot be told, the driver's library gave no answer (%s); name the "
                               "device (/dev/nvidia0) or processes (--pid)",
                               snapshot->driver.error[0] ? snapshot->driver.error : "libnvidia-ml.so.1 was not found");
        if (r < 0)
                return r;
        r = gf_select_holders(selection, &self, snapshot);
        if (r < 0)
                return r;
        snapshot->blind = !gf_driver_answered(snapshot) && env->paths.n == 0 && !gf_selection_is_by_hand(selection);
        return gf_gaps_find(env, selection, snapshot);
}

static int look_once(struct gpufree *context, const struct gpufree_selection *selection,
                     struct gpufree_snapshot **ret_snapshot)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = calloc(1, sizeof(*snapshot));
        uint64_t begin = gf_now_us();
        int r;

        if (!snapshot)
                return gf_fail(&context->env, -ENOMEM, "out of memory");
        snapshot->refs = 1;
        r = look_stages(context, selection, snapshot);
        if (r == -ENOMEM)
                return gf_fail(&context->env, r, "out of memory");
        if (r == -ECANCELED)
                return gf_fail(&context->env, r, "interrupted");
        if (r < 0)
                return r;
        snapshot->elapsed_us = gf_now_us() - begin;
        *ret_snapshot = TAKE(snapshot);
        return 0;
}

/*
 * Who was seen to hold and ended before it was described may have handed on what it held, to a fork that no look has
 * seen: such a look proves nothing. It is taken again; where that goes on, it is said.
 */
int gf_look(struct gpufree *context, const struct gpufree_selection *selection, struct gpufree_snapshot **ret_snapshot)
{
        _cleanup_precedence_ struct gf_precedence precedence = { 0 };

        for (unsigned looks = 1;; looks++) {
                _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
                int r = look_once(context, selection, &snapshot);

                if (r < 0 || !snapshot)
                        return r;
                if (snapshot->slipped > 0 && looks < MOST_LOOKS) {
                        if (!precedence.taken)
                                precedence = gf_precedence_take();
                        continue;
                }
                if (snapshot->slipped > 0)
                        r = gf_strv_addf(&snapshot->gaps,
                                         "in each of %d looks in a row, processes that held a device ended before they "
                                         "could be described: something forks faster than it can be looked at (gpufree "
                                         "kill --force outruns most of that)",
                                         MOST_LOOKS);
                if (r < 0)
                        return gf_fail(&context->env, r, "out of memory");
                *ret_snapshot = TAKE(snapshot);
                return 0;
        }
}

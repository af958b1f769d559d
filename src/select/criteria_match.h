/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/holder.h"
#include "select/criteria.h"

/* Who the process is: every criterion but the devices. 1, 0 or -ENOMEM. `boot_ticks` is now. */
int gf_matches_process(const struct gpufree_selection *selection, const struct gpufree_holder *holder,
                       uint64_t boot_ticks, bool initial_pidns);
/* What it holds: GPUs, vendors, paths, and whether holding or merely having it open counts. */
bool gf_matches_devices(const struct gpufree_selection *selection, const struct gpufree_snapshot *snapshot,
                        const struct gpufree_holder *holder);
/* A context, or memory. */
bool gf_use_holds(const struct gf_gpu_use *use);
/* Does it hold memory or a context anywhere, or does it merely have devices open? */
bool gf_holds_anything(const struct gpufree_holder *holder);

bool gf_is_stopped(const struct gpufree_holder *holder);
bool gf_is_orphan(const struct gpufree_holder *holder, bool initial_pidns);

/* NULL: it has none. */
const struct gf_owner *gf_innermost_owner(const struct gpufree_holder *holder);
/* "vllm.service" of a unit, user unit or scope, else NULL. */
const char *gf_owner_unit(const struct gf_owner *owner);
/* Is this unit meant by `name`, with or without ".service"? */
bool gf_unit_is(const char *unit, const char *name);
/* Does the chain of owners contain one that is not the system's: a container, a pod, a job, a virtual machine? */
bool gf_is_contained(const struct gpufree_holder *holder);

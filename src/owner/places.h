/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"
#include "model/holder.h"
#include "owner/restart.h"
#include "parse/cgroup.h"

/*
 * Where the runtimes' own files lie: `root` is put before "/var/lib/docker" and the like. "" on a machine, a made tree
 * in a test.
 */
struct gf_places {
        const char *root;
};

/* gf_owner_read() and gf_stop_find() with the tree to look in, and who asks. */
int gf_owner_read_in(struct gf_env *env, const struct gf_places *places, struct gpufree_holder *holder);
int gf_stop_find_in(struct gf_env *env, const struct gf_places *places, uint32_t me,
                    const struct gpufree_holder *holder, struct gf_stop *ret_stop);

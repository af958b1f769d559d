/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "model/env.h"

/*
 * A control group of the command's own, where the place is ours to divide: a delegated group, or the top of what this
 * cgroup namespace shows. Elsewhere there is none: a batch system that ends what is in *its* group must find all of it
 * there. Not needed to find the command's processes (the keeper adopts them), but it ends them all at once.
 */
struct gf_cgroup {
        char *path; /* NULL: none */
        int dir;    /* -1 */
        bool v2;
};
#define GF_CGROUP_NONE                                                                                                 \
        {                                                                                                              \
                NULL, -1, false                                                                                        \
        }

/* 0, also where there can be none. -ENOMEM. */
int gf_cgroup_make(struct gf_env *env, struct gf_cgroup *ret_cgroup);
/* A fork whose child begins in the group. As fork(). */
int gf_cgroup_fork(const struct gf_cgroup *cgroup);
/* SIGKILL to all of it; false: the kernel cannot, or there is none. */
bool gf_cgroup_kill(const struct gf_cgroup *cgroup);
/* Removes the (empty) group. */
void gf_cgroup_done(struct gf_cgroup *cgroup);

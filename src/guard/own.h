/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/vec.h"
#include "model/env.h"
#include "model/ident.h"

/*
 * The command's own: every descendant of its keeper. Whoever forks twice, takes a new session or loses its parent
 * stays one, for the keeper adopts orphans.
 */
struct gf_own {
        struct gf_ident id;
        pid_t ppid;
        char state;
};
typedef GF_VEC(struct gf_own) gf_owns;
static inline void gf_owns_done(gf_owns *owns)
{
        gf_vec_done(owns);
}

/* All descendants of `root` now, parents before children; root is none. */
int gf_own_list(struct gf_env *env, pid_t root, gf_owns *owns);
/* A pidfd of one of the list, checked to be still that one; -ESRCH. */
int gf_own_pin(struct gf_env *env, pid_t root, const gf_owns *owns, size_t at);

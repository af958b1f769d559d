/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"
#include "model/holder.h"

/*
 * A claim on a GPU is a lock that the kernel lets go of when the last process that has it is gone: an abstract UNIX
 * socket with the GPU's name, the same for every user of a network namespace, and, with a directory, a lock file in it
 * for containers that share one. The guard and its keeper have both; the command has neither.
 */
struct gf_lock {
        char *name;
        int socket, file; /* -1 */
};
typedef GF_VEC(struct gf_lock) gf_locks;

/* What the claim on this GPU is called; malloc'ed, NULL without memory. Stand-in nodes have names of their own. */
char *gf_lock_name(const struct gf_env *env, const struct gpufree_gpu *gpu);
char *gf_lock_device_name(const struct gf_env *env, const struct gpufree_device *device);
/* 0; -EBUSY: somebody else has it (*ret_pid: who, 0 unknown); -errno with the sentence. */
int gf_lock_take(struct gf_env *env, const char *directory, const char *name, gf_locks *locks, pid_t *ret_pid);
bool gf_lock_has(const gf_locks *locks, const char *name);
void gf_lock_drop(gf_locks *locks, const char *name);
void gf_locks_done(gf_locks *locks);

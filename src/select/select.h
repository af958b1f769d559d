/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"
#include "model/holder.h"

/* Facts about the one who asks. Filled by gf_self_read() in sys, so that selection itself is pure. */
struct gf_rules;

struct gf_self {
        const struct gf_rules *rules; /* of the configuration; NULL */
        pid_t pid;
        uint32_t uid;
        pid_t session;
        uint32_t login_session;
        GF_VEC(struct gf_ident) ancestors; /* parents up to PID 1, self first; in whichever state */
};
void gf_self_done(struct gf_self *self); /* both in src/sys/self.c */
int gf_self_read(struct gf_env *env, struct gf_self *ret_self);

/* Does the selection name GPUs that are not there? -ENODEV with the sentence in env; marks snapshot GPUs as selected.
 */
int gf_select_gpus(struct gf_env *env, const struct gpufree_selection *selection, struct gpufree_snapshot *snapshot);
/*
 * Marks holders as selected and as protected (with the reason), adds the notes "zombie-leader", "stopped" and "orphan"
 * and sorts the holders by GPU, memory, PID: pointers to holders are not to be kept across it; pure. Comes after
 * gf_select_gpus(), whose marks it needs. Without criteria: every holder of a GPU (or of a
 * device named by path). Needs the holders' facts, owners and GPU uses.
 */
int gf_select_holders(const struct gpufree_selection *selection, const struct gf_self *self,
                      struct gpufree_snapshot *snapshot);
/* Were processes named one by one, or everybody who has a device open? Then who really holds it does not matter. */
bool gf_selection_is_by_hand(const struct gpufree_selection *selection);
/* Could a process with this uid (UINT32_MAX unknown) and PID, that could not be read, have been selected? */
bool gf_select_concerns(const struct gpufree_selection *selection, pid_t pid, uint32_t uid);
/* 1: the reason why this process is never ended unless named, malloc'ed; *ret_absolute: cannot be lifted. 0: it is not
 * protected, *ret_why is NULL. Pure. */
int gf_protect(const struct gf_self *self, const struct gpufree_holder *holder, char **ret_why, bool *ret_absolute);
/* The protection of a container's first process: against a signal, not against the container's own stop. */
extern const char gf_why_container_init[];

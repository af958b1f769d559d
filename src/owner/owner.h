/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"
#include "model/holder.h"

/*
 * Whose process is it: fills holder->owners (outermost first) and holder->owner_label from its cgroups and, where
 * permitted, its environment and the runtimes' own files.
 */
int gf_owner_read(struct gf_env *env, struct gpufree_holder *holder);

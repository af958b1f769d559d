/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/env.h"
#include "model/holder.h"
#include "model/stop.h"

/* 0 also where there is no owner (argv and owner are empty then). `me`: the uid that would run the command. Needs the
 * holder's facts; of its owners, the names. */
int gf_stop_find(struct gf_env *env, uint32_t me, const struct gpufree_holder *holder, struct gf_stop *ret_stop);
/* Do both run the same command? Several holders of one container are one stop. */
bool gf_stop_same(const struct gf_stop *a, const struct gf_stop *b);

/* A command as one types it: words that need it in single quotes. NULL: no memory. */
char *gf_shell_quote(const gf_strv *argv);

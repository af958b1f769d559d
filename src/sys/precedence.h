/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"

/*
 * This thread, and the threads that it starts, before everybody else's, where we may: what forks and exits without
 * pause keeps the processors busy, and whoever stands in line with it always comes late. Given back at the end.
 */
struct gf_precedence {
        bool taken;
        int before;
};

struct gf_precedence gf_precedence_take(void);
void gf_precedence_give_back(struct gf_precedence *precedence);
#define _cleanup_precedence_ _cleanup_(gf_precedence_give_back)

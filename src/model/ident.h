/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Who a process is. A PID alone may be somebody else's a moment later; with the start time it is one process. */
struct gf_ident {
        pid_t pid;
        uint64_t start_ticks; /* field 22 of /proc/PID/stat: clock ticks after boot */
};

static inline bool gf_ident_equal(const struct gf_ident *a, const struct gf_ident *b)
{
        return a->pid == b->pid && a->start_ticks == b->start_ticks;
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "model/env.h"
#include "model/ident.h"

/*
 * Pins a process: opens a pidfd, then reads the start time again, so that the descriptor is known to be the process of
 * `id` and no successor with the same PID. A zombie leader with living threads can be pinned. The descriptor
 * (O_CLOEXEC), or -ESRCH (gone, or somebody else now), -EMFILE, -errno. There is no fall-back to a bare PID.
 */
int gf_pidfd_pin(struct gf_env *env, const struct gf_ident *id);
/* 0, -ESRCH (gone), -EPERM, -errno. */
int gf_pidfd_signal(int pidfd, int signal);
/* 1: the whole thread group has ended; 0: it lives; -errno. Does not wait. */
int gf_pidfd_ended(int pidfd);

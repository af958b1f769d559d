/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Sleeps until one of the pidfds has ended (1), `deadline` (0), or cancel_fd is readable (-ECANCELED; -1: none).
 * No descriptors: a pause that can be interrupted.
 */
int gf_pidfds_wait(const int *pidfds, size_t n, uint64_t deadline, int cancel_fd);
/* Is cancel_fd readable now? */
int gf_cancelled(int cancel_fd);
/* How many descriptors may be kept open for a while without starving the rest of the process; at least 1. */
size_t gf_descriptor_room(void);

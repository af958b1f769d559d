/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>
#include <stdint.h>

/*
 * Starts a thread that takes no signals, with a small stack, so that handlers of the program that uses the library run
 * in its own threads. 0, -errno.
 */
int gf_thread_start(pthread_t *ret_thread, void *(*main)(void *), void *userdata);

/*
 * Runs `work(box)` in a thread of its own and waits for about `ms` at most: for reads that the kernel may hold up for
 * ever (the command line of a process whose memory map is locked by a hung driver).
 * 0: done, the box is the caller's again. -ETIMEDOUT: it goes on alone; the box now belongs to it and is given to
 * `release` when it comes back. Other errors: not begun, the box is the caller's.
 */
int gf_aside(void (*work)(void *box), void (*release)(void *box), void *box, uint64_t ms);

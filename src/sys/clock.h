/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

uint64_t gf_now_ms(void); /* CLOCK_MONOTONIC */
uint64_t gf_now_us(void);
uint64_t gf_boottime_ticks(void); /* CLOCK_BOOTTIME in clock ticks, comparable with start_ticks */
uint64_t gf_ticks_to_ms(uint64_t ticks);
/* A point in time `ms` from now; GPUFREE_UNKNOWN (never) stays so. What is left until then: 0 when past; capped for
 * poll(). */
uint64_t gf_deadline_in(uint64_t ms);
uint64_t gf_deadline_left(uint64_t deadline);
int gf_deadline_poll_ms(uint64_t deadline); /* -1 for never */

/* SPDX-License-Identifier: MIT */
#include "sys/clock.h"

#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "gpufree.h"

static uint64_t ticks_per_second(void)
{
        long hz = sysconf(_SC_CLK_TCK);

        return hz > 0 ? (uint64_t)hz : 100;
}

static uint64_t now_ns(clockid_t clock)
{
        struct timespec t = { 0 };

        (void)clock_gettime(clock, &t); /* cannot fail for the clocks used here */
        return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

uint64_t gf_now_ms(void)
{
        return now_ns(CLOCK_MONOTONIC) / 1000000U;
}

uint64_t gf_now_us(void)
{
        return now_ns(CLOCK_MONOTONIC) / 1000U;
}

uint64_t gf_boottime_ticks(void)
{
        uint64_t ns = now_ns(CLOCK_BOOTTIME), hz = ticks_per_second();

        return ns / 1000000000U * hz + ns % 1000000000U * hz / 1000000000U;
}

uint64_t gf_ticks_to_ms(uint64_t ticks)
{
        uint64_t hz = ticks_per_second(), ms;

        if (__builtin_mul_overflow(ticks / hz, (uint64_t)1000, &ms) ||
            __builtin_add_overflow(ms, ticks % hz * 1000 / hz, &ms))
                return GPUFREE_UNKNOWN;
        return ms;
}

uint64_t gf_deadline_in(uint64_t ms)
{
        uint64_t deadline;

        if (ms == GPUFREE_UNKNOWN || __builtin_add_overflow(gf_now_ms(), ms, &deadline))
                return GPUFREE_UNKNOWN;
        return deadline;
}

uint64_t gf_deadline_left(uint64_t deadline)
{
        uint64_t now;

        if (deadline == GPUFREE_UNKNOWN)
                return GPUFREE_UNKNOWN;
        now = gf_now_ms();
        return deadline > now ? deadline - now : 0;
}

int gf_deadline_poll_ms(uint64_t deadline)
{
        uint64_t left = gf_deadline_left(deadline);

        if (left == GPUFREE_UNKNOWN)
                return -1;
        return left > INT_MAX ? INT_MAX : (int)left;
}

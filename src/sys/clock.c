/* SPDX-License-Identifier: MIT */
#include "sys/clock.h"

#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "gpufree.h"

static uint64_t now_us(clockid_t clock)
{
        struct timespec ts = { 0 };

        (void)clock_gettime(clock, &ts);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t gf_now_us(void)
{
        return now_us(CLOCK_MONOTONIC);
}

uint64_t gf_now_ms(void)
{
        return gf_now_us() / 1000;
}

static uint64_t ticks_per_second(void)
{
        long hz = sysconf(_SC_CLK_TCK);

        return hz > 0 ? (uint64_t)hz : 100;
}

uint64_t gf_boottime_ticks(void)
{
        return now_us(CLOCK_BOOTTIME) * ticks_per_second() / 1000000;
}

uint64_t gf_ticks_to_ms(uint64_t ticks)
{
        return ticks * 1000 / ticks_per_second();
}

uint64_t gf_deadline_in(uint64_t ms)
{
        uint64_t now = gf_now_ms();

        return ms >= GPUFREE_UNKNOWN - now ? GPUFREE_UNKNOWN : now + ms;
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

/* SPDX-License-Identifier: MIT */
#include "sys/clock.h"

#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "gpufree.h"

static uint64_t read_clock(clockid_t clock, uint64_t per_second)
{
        struct timespec now = { 0 };

        (void)clock_gettime(clock, &now);
        return (uint64_t)now.tv_sec * per_second + (uint64_t)now.tv_nsec / (1000000000 / per_second);
}

uint64_t gf_now_ms(void)
{
        return read_clock(CLOCK_MONOTONIC, 1000);
}

uint64_t gf_now_us(void)
{
        return read_clock(CLOCK_MONOTONIC, 1000000);
}

static uint64_t ticks_per_second(void)
{
        long ticks = sysconf(_SC_CLK_TCK);

        return ticks > 0 ? (uint64_t)ticks : 100;
}

uint64_t gf_boottime_ticks(void)
{
        return read_clock(CLOCK_BOOTTIME, ticks_per_second());
}

uint64_t gf_ticks_to_ms(uint64_t ticks)
{
        return ticks * 1000 / ticks_per_second();
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
        uint64_t now = gf_now_ms();

        if (deadline == GPUFREE_UNKNOWN)
                return GPUFREE_UNKNOWN;
        return deadline > now ? deadline - now : 0;
}

int gf_deadline_poll_ms(uint64_t deadline)
{
        uint64_t left = gf_deadline_left(deadline);

        if (left == GPUFREE_UNKNOWN)
                return -1;
        return left > INT_MAX ? INT_MAX : (int)left;
}

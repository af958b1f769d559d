/* SPDX-License-Identifier: MIT */
#include "guard/pulse.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "pipeline.h"
#include "sys/clock.h"
#include "sys/pidstat.h"
#include "verify/verdict.h"

/* Less than this is no movement: heartbeats and pollers of a program that hangs. */
#define MEMORY_STEP (1ULL << 20)
#define PERCENT_IDLE 10U
#define PERCENT_A_PROCESS 2U

/* User and system time of all its threads, those that have ended included. */
static uint64_t cpu_of(struct gf_env *env, pid_t pid)
{
        _cleanup_free_ char *text = NULL;
        char *p, *save = NULL;
        uint64_t sum = 0, ticks;

        if (gf_pid_text(env, pid, "stat", &text) < 0)
                return 0;
        p = strrchr(text, ')');
        p = p ? strtok_r(p + 1, " ", &save) : NULL;
        for (int field = 3; p && field <= 15; field++, p = strtok_r(NULL, " ", &save))
                if (field >= 14 && gf_parse_u64(p, &ticks) == 0)
                        sum += ticks;
        return sum;
}

static uint64_t memory_now(struct gpufree_guard *guard)
{
        struct gf_sight sight = { .context = guard->context, .selection = guard->selection, .first = guard->snapshot };
        struct gf_eyes eyes = gf_eyes_of(&sight);
        struct gf_driver_report driver = { 0 };
        uint64_t sum = 0;

        if (guard->gpus.n == 0 || eyes.memory(eyes.userdata, &driver) < 0)
                return GPUFREE_UNKNOWN;
        for (size_t i = 0; i < guard->gpus.n; i++) {
                uint64_t used = gf_used_in(&guard->snapshot->inventory.gpus.v[guard->gpus.v[i]], &driver);

                if (used == GPUFREE_UNKNOWN || sum == GPUFREE_UNKNOWN)
                        sum = GPUFREE_UNKNOWN;
                else
                        sum += used;
        }
        gf_driver_report_done(&driver);
        return sum;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
        return a > b ? a - b : b - a;
}

void gf_pulse_note(struct gf_pulse *pulse, uint64_t now_ms, uint64_t memory, uint64_t cpu_ticks, uint64_t log,
                   size_t processes, uint64_t ticks_per_second)
{
        uint64_t ms = now_ms - pulse->sampled_ms;
        unsigned idle = PERCENT_A_PROCESS * (unsigned)processes;
        bool moved = !pulse->begun, memory_moved = !pulse->begun;

        if (pulse->begun && ms > 0) {
                /* Who has ended takes its share along: fewer ticks than before are a movement too, of unknown size. */
                uint64_t ticks = apart(cpu_ticks, pulse->cpu_ticks);

                pulse->percent = (unsigned)(ticks * 100000 / (ticks_per_second * ms));
                pulse->busy = pulse->percent > (idle > PERCENT_IDLE ? idle : PERCENT_IDLE);
                moved = pulse->busy || log != pulse->log || processes != pulse->processes;
                memory_moved = (memory == GPUFREE_UNKNOWN) != (pulse->memory == GPUFREE_UNKNOWN) ||
                               (memory != GPUFREE_UNKNOWN && apart(memory, pulse->memory) >= MEMORY_STEP);
        }
        if (moved || memory_moved)
                pulse->moved_ms = now_ms;
        if (memory_moved) {
                pulse->memory_ms = now_ms;
                pulse->memory = memory; /* of the last step: slow growth adds up to one */
        }
        pulse->begun = true;
        pulse->samples++;
        pulse->cpu_ticks = cpu_ticks;
        pulse->log = log;
        pulse->processes = processes;
        pulse->sampled_ms = now_ms;
}

int gf_pulse_take(struct gpufree_guard *guard, pid_t root, uint64_t log_bytes, struct gf_pulse *pulse)
{
        struct gf_env *env = &guard->context->env;
        gf_owns owns = { 0 };
        uint64_t ticks = 0, memory = memory_now(guard);
        long per_second = sysconf(_SC_CLK_TCK);
        int r = gf_own_list(env, root, &owns);

        for (size_t i = 0; r == 0 && i < owns.n; i++)
                ticks += cpu_of(env, owns.v[i].id.pid);
        if (r == 0)
                gf_pulse_note(pulse, gf_now_ms(), memory, ticks, log_bytes, owns.n,
                              per_second > 0 ? (uint64_t)per_second : 100);
        gf_owns_done(&owns);
        return r;
}

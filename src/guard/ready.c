/* SPDX-License-Identifier: MIT */
/* Waiting until the command is ready: probes, the progress, and the two ways to fail: too late, or standing still. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/num.h"
#include "guard/run.h"
#include "guard/where.h"
#include "sys/clock.h"

#define PROBE_FIRST_MS 100
#define PROBE_LAST_MS 2000
#define PULSE_MS 1000

/* "READY=1" for systemd, when it waits for it. */
static void notify(const char *text)
{
        const char *name = getenv("NOTIFY_SOCKET");
        struct sockaddr_un addr = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = -1;
        size_t n = name ? strlen(name) : 0;

        if (n < 2 || n > sizeof(addr.sun_path) - 1 || (name[0] != '/' && name[0] != '@'))
                return;
        memcpy(addr.sun_path, name, n);
        if (name[0] == '@')
                addr.sun_path[0] = '\0';
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd >= 0)
                (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&addr,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

void gf_ready_begin(struct gf_life *life)
{
        const struct gpufree_guard_options *o = &life->guard->options;
        uint64_t now = gf_now_ms();

        life->begun_ms = now;
        life->ready = life->guard->ready_kind == GF_READY_NONE;
        life->ready_deadline = life->ready ? GPUFREE_UNKNOWN : gf_deadline_in(o->ready_timeout_ms);
        life->probe_pause = PROBE_FIRST_MS;
        life->next_probe = life->guard->ready_kind == GF_READY_URL || life->guard->ready_kind == GF_READY_TCP
                                   ? now + PROBE_FIRST_MS
                                   : GPUFREE_UNKNOWN;
        /* Somebody must want to know: a command that nobody waits for is not looked at once a second. */
        life->next_pulse = !life->ready || o->stall_timeout_ms != GPUFREE_UNKNOWN ? now : GPUFREE_UNKNOWN;
}

static void became_ready(struct gf_life *life)
{
        char buf[GF_TEXT_MAX];

        life->ready = true;
        life->ready_deadline = GPUFREE_UNKNOWN;
        life->next_probe = life->next_pulse = GPUFREE_UNKNOWN;
        gf_probe_stop(&life->probe);
        if (life->guard->handler)
                life->guard->handler(life->guard->userdata, GPUFREE_GUARD_PROGRESS, NULL);
        life->ready_ms = gf_now_ms() - life->begun_ms;
        gf_guard_say(life->guard, "ready after %s", gf_format_duration(life->ready_ms, buf));
        notify("READY=1\n");
        if (life->guard->options.on_ready)
                (void)gf_say(life->keeper.socket, GF_SAY_ON_READY, 0, 0, 0);
}

static bool is_ready(struct gf_life *life)
{
        char byte;
        int r;

        switch (life->guard->ready_kind) {
        case GF_READY_LOG:
                return life->follow->matched;
        case GF_READY_FD:
                return life->ready_fd >= 0 && read(life->ready_fd, &byte, 1) == 1;
        case GF_READY_URL:
        case GF_READY_TCP:
                if (life->probe.pid == 0) {
                        if (gf_deadline_left(life->next_probe) == 0 && gf_probe_start(life->guard, &life->probe) == 0)
                                life->next_probe = GPUFREE_UNKNOWN;
                        return false;
                }
                r = gf_probe_result(&life->probe);
                if (r == 0) {
                        life->next_probe = gf_deadline_in(life->probe_pause);
                        life->probe_pause = life->probe_pause * 2 < PROBE_LAST_MS ? life->probe_pause * 2
                                                                                  : PROBE_LAST_MS;
                }
                return r == 1;
        case GF_READY_NONE:
        default:
                return false;
        }
}

static void progress(const struct gf_life *life, uint64_t now)
{
        char elapsed[GF_TEXT_MAX], size[GF_TEXT_MAX], since[GF_TEXT_MAX];
        const struct gf_pulse *pulse = &life->pulse;
        _cleanup_free_ char *memory = NULL, *line = NULL;

        if (pulse->memory != GPUFREE_UNKNOWN && now - pulse->memory_ms >= 2 * PULSE_MS)
                memory = gf_asprintf(" | memory %s, unchanged for %s", gf_format_size(pulse->memory, size),
                                     gf_format_duration(now - pulse->memory_ms, since));
        else if (pulse->memory != GPUFREE_UNKNOWN)
                memory = gf_asprintf(" | memory %s", gf_format_size(pulse->memory, size));
        if (life->follow->last[0] != '\0')
                line = gf_asprintf(" | last line: \"%s\"", life->follow->last);
        gf_guard_progress(life->guard, "gpufree: waiting for ready %s%s | %u %% processor%s",
                          gf_format_duration(now - life->begun_ms, elapsed), memory ? memory : "", pulse->percent,
                          line ? line : "");
}

/* Late, and not still for long enough to be called a hang: what it was doing is said as far as it was seen. */
static void say_late(const struct gf_life *life, const char *limit, uint64_t flat)
{
        const struct gf_pulse *pulse = &life->pulse;
        char since[GF_TEXT_MAX];

        if (pulse->samples < 2)
                gf_guard_warn(life->guard, "not ready after %s: too short a time to see whether it works or hangs",
                              limit);
        else if (pulse->busy)
                gf_guard_warn(life->guard, "not ready after %s; it was working (%u %% processor)", limit,
                              pulse->percent);
        else if (pulse->moved_ms == pulse->sampled_ms)
                gf_guard_warn(life->guard,
                              "not ready after %s; its processors were idle (%u %%), but memory, log or processes "
                              "still moved",
                              limit, pulse->percent);
        else
                gf_guard_warn(life->guard,
                              "not ready after %s; it was idle (%u %% processor), nothing had moved for %s", limit,
                              pulse->percent, gf_format_duration(flat, since));
}

/* Why it is given up: the sentences, then the end. */
static void give_up(struct gf_life *life, bool late, uint64_t now)
{
        const struct gpufree_guard_options *o = &life->guard->options;
        char limit[GF_TEXT_MAX], still[GF_TEXT_MAX], size[GF_TEXT_MAX];
        const struct gf_pulse *pulse = &life->pulse;
        uint64_t flat = pulse->begun ? now - pulse->moved_ms : 0;
        gf_strv sentences = { 0 };

        if (life->guard->handler)
                life->guard->handler(life->guard->userdata, GPUFREE_GUARD_PROGRESS, NULL);
        (void)gf_format_duration(late ? o->ready_timeout_ms : o->stall_timeout_ms, limit);
        (void)gf_format_duration(flat, still);
        if (late && flat >= 3 * PULSE_MS)
                gf_guard_warn(life->guard, "not ready after %s, and nothing has moved for %s: it hangs", limit, still);
        else if (late)
                say_late(life, limit, flat);
        else
                gf_guard_warn(life->guard, "nothing has moved for %s: it hangs", still);
        if (pulse->memory != GPUFREE_UNKNOWN)
                gf_guard_warn(life->guard, "%s: %s used, unchanged for %s; processor %u %%", life->guard->label,
                              gf_format_size(pulse->memory, size), gf_format_duration(now - pulse->memory_ms, still),
                              pulse->percent);
        if (gf_where_they_wait(&life->guard->context->env, life->keeper.pid, &sentences) == 0)
                for (size_t i = 0; i < sentences.n; i++)
                        gf_guard_warn(life->guard, "%s", sentences.v[i]);
        gf_strv_done(&sentences);
        if (life->follow->last[0] != '\0')
                gf_guard_warn(life->guard, "last line of the log: \"%s\"", life->follow->last);
        life->failed_ready = true;
        life->stalled = !late;
        life->ready_deadline = life->next_probe = life->next_pulse = GPUFREE_UNKNOWN;
        gf_probe_stop(&life->probe);
        (void)gf_say(life->keeper.socket, GF_SAY_END, o->ladder.signal, o->ladder.force, o->ladder.grace_ms);
}

uint64_t gf_ready_next(const struct gf_life *life)
{
        uint64_t next = life->ready_deadline;

        next = life->next_probe < next ? life->next_probe : next;
        return life->next_pulse < next ? life->next_pulse : next;
}

void gf_ready_step(struct gf_life *life)
{
        const struct gpufree_guard_options *o = &life->guard->options;
        uint64_t now = gf_now_ms();

        if (life->exited || life->failed_ready)
                return;
        if (!life->ready && is_ready(life)) {
                became_ready(life);
                return;
        }
        if (gf_deadline_left(life->next_pulse) == 0) {
                (void)gf_pulse_take(life->guard, life->keeper.pid, life->follow->bytes, &life->pulse);
                now = gf_now_ms();
                if (!life->ready)
                        progress(life, now);
                life->next_pulse = now + PULSE_MS;
                if (o->stall_timeout_ms != GPUFREE_UNKNOWN && now - life->pulse.moved_ms >= o->stall_timeout_ms) {
                        give_up(life, false, now);
                        return;
                }
        }
        if (gf_deadline_left(life->ready_deadline) == 0)
                give_up(life, true, now);
}

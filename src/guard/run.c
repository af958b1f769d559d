/* SPDX-License-Identifier: MIT */
/* gpufree_guard_run(): start, watch, end, verify; and again, where it is to be started again. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"
#include "guard/run.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidwait.h"

#define RESTART_FIRST_MS 1000
#define RESTART_LAST_MS 60000
/* The keeper needs a moment after the last of the command's own. */
#define KEEPER_MS 5000

/* Descriptors to be polled: ours, then the claims, where others may ask (--preempt). */
#define FIRST_CLAIM 8
#define MOST_CLAIMS 64

static void heard(struct gf_life *life, const struct gf_said *said)
{
        const struct gpufree_ladder *ladder = &life->guard->options.ladder;

        switch (said->what) {
        case GF_SAY_STARTED:
                life->command = said->a;
                life->started = true;
                break;
        case GF_SAY_NO_EXEC:
                life->no_exec = said->a;
                life->gone = true;
                break;
        case GF_SAY_STOPPED:
                gf_say_stopped(life, said->a, said->b);
                break;
        case GF_SAY_EXITED:
                life->exited = true;
                life->status = said->a;
                life->signal = said->b;
                if (life->guard->handler)
                        life->guard->handler(life->guard->userdata, GPUFREE_GUARD_PROGRESS, NULL);
                if (!life->failed_ready)
                        (void)gf_say(life->keeper.socket, GF_SAY_END, ladder->signal, ladder->force, ladder->grace_ms);
                break;
        case GF_SAY_KILLING:
                gf_guard_warn(life->guard, "%d still there after the grace: KILL", said->a);
                break;
        case GF_SAY_GONE:
                life->signalled = said->a;
                life->killed = said->b;
                life->gone = true;
                break;
        case GF_SAY_UNCLAIMED:
                gf_park_unclaimed(life);
                break;
        case GF_SAY_STUCK:
                life->stuck = said->a;
                life->gone = true;
                break;
        default:
                break;
        }
}

static void hear_keeper(struct gf_life *life)
{
        struct gf_said said;
        int r = 0;

        while (!life->gone && (r = gf_hear(life->keeper.socket, &said)) > 0)
                heard(life, &said);
        if (r < 0 && !life->gone)
                life->keeper_lost = true;
}

static uint64_t next_due(const struct gf_life *life)
{
        uint64_t next = life->exited || life->failed_ready || !life->started || life->park.at != GF_PARK_RUNS
                                ? GPUFREE_UNKNOWN
                                : gf_ready_next(life);

        next = gf_park_next(life) < next ? gf_park_next(life) : next;
        for (size_t i = 0; i < life->n_held; i++)
                next = life->held[i].due < next ? life->held[i].due : next;
        return next;
}

/* Orphans that come to this process, as they do where it is PID 1, and a driver's child that ended. */
static void reap_strangers(const struct gf_life *life)
{
        for (;;) {
                siginfo_t info = { 0 };

                if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
                        return;
                if (info.si_pid == life->keeper.pid || info.si_pid == life->probe.pid)
                        return; /* theirs to reap; the next one waits until then */
                if (waitpid(info.si_pid, NULL, WNOHANG) <= 0)
                        return;
        }
}

static void watch(struct gf_life *life)
{
        while (!life->gone && !life->keeper_lost) {
                /* One that stands still is neither asked whether it is ready nor given up. */
                bool runs = life->park.at == GF_PARK_RUNS;
                struct pollfd fds[] = {
                        { .fd = life->keeper.socket, .events = POLLIN },
                        { .fd = life->guard->signal_fd, .events = POLLIN },
                        { .fd = life->canary, .events = POLLIN },
                        { .fd = runs && life->probe.pid > 0 ? life->probe.pidfd : -1, .events = POLLIN },
                        { .fd = life->ready || !runs ? -1 : life->ready_fd, .events = POLLIN },
                        { .fd = life->ready && life->next_pulse == GPUFREE_UNKNOWN ? -1 : life->follow->inotify,
                          .events = POLLIN },
                        { .fd = life->park.child.socket, .events = POLLIN },
                        { .fd = life->park.asker, .events = POLLIN },
                        [FIRST_CLAIM + MOST_CLAIMS - 1] = { .fd = -1 },
                };
                nfds_t n = FIRST_CLAIM;

                for (size_t i = 0; i < life->guard->locks.n && n < ELEMENTSOF(fds); i++)
                        fds[n++] = (struct pollfd){ .fd = life->guard->locks.v[i].socket, .events = POLLIN };
                if (poll(fds, n, gf_deadline_poll_ms(next_due(life))) < 0 && errno != EINTR)
                        return;
                if (fds[4].revents & POLLHUP && !(fds[4].revents & POLLIN))
                        life->ready_fd = -1; /* closed unwritten; the owner of the number closes ours */
                if (fds[5].revents)
                        gf_follow_read(life->follow, life->guard->ready_regex);
                gf_signals_read(life);
                gf_signals_due(life);
                hear_keeper(life);
                gf_park_step(life);
                reap_strangers(life);
                if (life->started && !life->gone && life->park.at == GF_PARK_RUNS)
                        gf_ready_step(life);
        }
}

static int begin(struct gf_life *life)
{
        struct gf_keeper_order order = { .argv = life->argv, .output = life->follow->output, .ready_fd = -1 };
        _cleanup_close_ int write_end = -1;
        int pair[2], r;

        if (life->guard->ready_kind == GF_READY_FD) {
                if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
                        return -errno;
                life->ready_fd = pair[0];
                write_end = pair[1];
                order.ready_fd = write_end;
        }
        order.no_notify = life->guard->ready_kind != GF_READY_NONE;
        life->follow->matched = false;
        r = gf_keeper_start(life->guard, &order, &life->keeper);
        if (r == 0)
                gf_ready_begin(life);
        return r;
}

static void conclude(struct gf_life *life)
{
        int own = life->signalled > life->killed ? life->signalled : life->killed;

        if (life->keeper_lost) {
                gf_guard_warn(life->guard, "the keeper (%d) was ended from outside: ending what is left of the command",
                              (int)life->keeper.pid);
                gf_keeper_stop(&life->keeper, KEEPER_MS);
                gf_finish_alone(life);
                if (!life->exited)
                        life->signal = SIGKILL;
                life->exited = true;
                return;
        }
        gf_keeper_stop(&life->keeper, KEEPER_MS);
        if (life->stuck > 0)
                gf_guard_warn(life->guard, "%d of the command's processes survived SIGKILL: stuck in the kernel",
                              life->stuck);
        else if (own > 0 && (life->failed_ready || life->killed > 0))
                gf_guard_warn(life->guard, "ended %d %s", own, own == 1 ? "process" : "processes");
}

static int code_of(const struct gf_life *life)
{
        if (life->no_exec != 0)
                return life->no_exec == ENOENT ? GPUFREE_GUARD_NO_FILE : GPUFREE_GUARD_NO_EXEC;
        if (life->failed_ready)
                return GPUFREE_GUARD_NOT_READY;
        return life->signal > 0 ? 128 + life->signal : life->status;
}

static enum gpufree_guard_readiness readiness_of(const struct gf_life *life)
{
        if (life->failed_ready)
                return life->stalled ? GPUFREE_READY_STALLED : GPUFREE_READY_LATE;
        if (life->guard->ready_kind == GF_READY_NONE)
                return GPUFREE_READY_NOT_ASKED;
        return life->ready ? GPUFREE_READY_YES : GPUFREE_READY_ENDED;
}

static void record(const struct gf_life *life)
{
        struct gpufree_guard_result *result = &life->guard->result;

        result->pid = (int)life->command;
        result->error = life->no_exec;
        result->status = life->exited && life->signal == 0 ? life->status : -1;
        result->signal = life->signal;
        result->readiness = readiness_of(life);
        result->ready_ms = result->readiness == GPUFREE_READY_YES ? life->ready_ms : GPUFREE_UNKNOWN;
        result->signalled = life->signalled;
        result->killed = life->killed;
        result->stuck = life->stuck;
}

/* One life of the command, up to the verified GPUs. *ret_final: not to be started again. */
static int live(struct gpufree_guard *guard, char *const argv[], int canary, struct gf_tty *tty,
                struct gf_follow *follow, bool *ret_final, int *ret_code)
{
        struct gf_life life = { .guard = guard,
                                .argv = argv,
                                .keeper = GF_KEEPER_NONE,
                                .probe = GF_PROBE_NONE,
                                .park = GF_GUARD_PARK_NONE,
                                .tty = tty,
                                .follow = follow,
                                .canary = canary,
                                .ready_fd = -1 };
        _cleanup_close_ int ready_fd = -1;
        bool back;
        int r = begin(&life);

        ready_fd = life.ready_fd;
        if (r < 0)
                return gf_fail(&guard->context->env, r, "starting the command: %s", strerror(-r));
        guard->result.starts++;
        watch(&life);
        gf_child_stop(&life.park.child);
        conclude(&life);
        record(&life);
        gf_probe_stop(&life.probe);
        gf_tty_restore(tty, life.signal > 0 || life.failed_ready);
        *ret_code = code_of(&life);
        *ret_final = life.no_exec != 0 || life.asked_to_end || life.keeper_lost || *ret_code == 0;
        if (life.no_exec != 0)
                gf_guard_warn(guard, "%s: %s", argv[0], strerror(life.no_exec));
        else if (!life.ready && !life.failed_ready)
                gf_guard_warn(guard, "it ended before it was ready");
        if (life.park.claims.n > 0) {
                /* Somebody else may have them by now. */
                gf_guard_say(guard, "it ended while it was parked: %s had been given up, and is not looked at",
                             guard->label);
                *ret_final = back = true;
        } else {
                back = gf_finish_verify(guard);
        }
        if (back && guard->selection && life.park.claims.n == 0)
                gf_guard_say(guard, "%s verified free", guard->label);
        if (!back || life.stuck > 0) {
                *ret_code = GPUFREE_GUARD_NOT_BACK;
                *ret_final = true;
        }
        gf_park_done(&life.park);
        return 0;
}

static int pause_before_restart(struct gpufree_guard *guard, uint64_t ms)
{
        struct pollfd p = { .fd = guard->signal_fd, .events = POLLIN };
        uint64_t deadline = gf_deadline_in(ms);

        /* A SIGCHLD makes it short; any other signal ends the matter. */
        for (;;) {
                struct gf_life none = { .guard = guard, .keeper = GF_KEEPER_NONE, .canary = -1, .exited = true };
                int r = poll(&p, 1, gf_deadline_poll_ms(deadline));

                if (r < 0 && errno != EINTR)
                        return -errno;
                if (r > 0)
                        gf_signals_read(&none);
                if (none.asked_to_end)
                        return -ECANCELED;
                if (gf_deadline_left(deadline) == 0)
                        return 0;
        }
}

static int run_lives(struct gpufree_guard *guard, char *const argv[], int canary, struct gf_tty *tty,
                     struct gf_follow *follow, int *ret_code)
{
        uint64_t pause = RESTART_FIRST_MS;

        for (unsigned restarts = 0;; restarts++) {
                char buf[GF_TEXT_MAX];
                bool final = false;
                int r = live(guard, argv, canary, tty, follow, &final, ret_code);

                if (r < 0 || final || restarts >= guard->options.restarts)
                        return r;
                gf_guard_warn(guard, "it failed (%d): starting it again in %s, %u of %u", *ret_code,
                              gf_format_duration(pause, buf), restarts + 1, guard->options.restarts);
                if (pause_before_restart(guard, pause) < 0)
                        return 0;
                pause = pause * 2 < RESTART_LAST_MS ? pause * 2 : RESTART_LAST_MS;
        }
}

int gpufree_guard_run(gpufree_guard *guard, char *const argv[], int *ret_code)
{
        struct gf_env *env = &guard->context->env;
        struct gf_follow follow = GF_FOLLOW_NONE;
        struct gf_tty tty = GF_TTY_NONE;
        uint64_t begun = gf_now_ms();
        int canary = -1, canary_pidfd = -1, r = 0;

        if (!argv || !argv[0])
                return gf_fail(env, -EINVAL, "there is no command to run");
        if (guard->options.log)
                r = gf_follow_open(env, guard->options.log, &follow);
        if (r < 0)
                return r;
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        gf_tty_open(&tty);
        if (guard->signal_fd >= 0)
                (void)gf_canary_start(&canary_pidfd, &canary); /* without it signals are passed on, perhaps twice */
        r = run_lives(guard, argv, canary, &tty, &follow, ret_code);
        if (canary_pidfd >= 0) {
                siginfo_t info;

                (void)gf_pidfd_signal(canary_pidfd, SIGKILL);
                (void)waitid(P_PIDFD, (id_t)canary_pidfd, &info, WEXITED);
        }
        gf_close(canary_pidfd);
        gf_close(canary);
        gf_tty_done(&tty);
        gf_follow_done(&follow);
        guard->result.elapsed_ms = gf_now_ms() - begun;
        return r;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "end/run.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidstat.h"
#include "sys/pidwait.h"

/* Long enough for two looks at a process that holds nothing (pins.c). */
#define SPARED_MS 2500

static char *whose(const struct gpufree_holder *holder)
{
        if (holder->facts.uid == UINT32_MAX)
                return gf_asprintf("no permission to signal it: run as root");
        if (!holder->facts.user)
                return gf_asprintf("no permission to signal it: it belongs to uid %u; run as root or as that user",
                                   holder->facts.uid);
        return gf_asprintf("no permission to signal it: it belongs to %s (uid %u); run as root or as that user",
                           holder->facts.user, holder->facts.uid);
}

static void refuse(struct gf_run *run, struct gf_target *target, int error, char *detail)
{
        struct gf_fate_entry *entry = gf_run_fate(run, target);

        entry->error = error;
        gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_REFUSED,
                                                  .pid = entry->holder->id.pid,
                                                  .error = error,
                                                  .holder = entry->holder });
        gf_run_settle(run, target, GPUFREE_FATE_REFUSED, detail);
}

/* Sends through the pin. true: it was sent; otherwise the target has its fate. */
static bool send(struct gf_run *run, struct gf_target *target, int sig)
{
        struct gf_fate_entry *entry = gf_run_fate(run, target);
        uint64_t before = gf_boottime_ticks();
        int r = gf_pidfd_signal(target->pidfd, sig);

        if (r == -ESRCH) {
                gf_run_settle(run, target, target->since_ms ? GPUFREE_FATE_ENDED_BY_SIGNAL : GPUFREE_FATE_ALREADY_GONE,
                              NULL);
                return false;
        }
        if (r == -EPERM) {
                refuse(run, target, r, whose(entry->holder));
                return false;
        }
        if (r == -EXDEV) {
                refuse(run, target, r,
                       gf_asprintf("not signalled: /proc here is that of another PID namespace, where this PID means "
                                   "another process"));
                return 0;
        }
        if (r < 0) {
                refuse(run, target, r, gf_asprintf("pidfd_send_signal: %s", strerror(-r)));
                return false;
        }
        if (!target->since_ms) {
                target->since_ms = gf_now_ms();
                target->signal_ticks = before;
                gf_run_time(run, &run->report->timings.signalled);
        }
        gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_SIGNALLED,
                                                  .pid = entry->holder->id.pid,
                                                  .signal = sig,
                                                  .elapsed_ms = gf_now_ms() - target->since_ms,
                                                  .holder = entry->holder });
        return true;
}

/* A stopped process acts on no signal but SIGKILL until it is continued. Its state is read anew. */
static void wake(struct gf_run *run, struct gf_target *target)
{
        struct gf_pidstat stat;

        if (gf_pidstat_of(run->env, &gf_run_fate(run, target)->holder->id, &stat) < 0)
                return;
        if (stat.state == 'T' || stat.state == 't')
                (void)send(run, target, SIGCONT);
}

/* Pinned and still holding? Otherwise the target has its fate; -ENOSYS, -ECANCELED, -ENOMEM end the whole. */
static int begin(struct gf_run *run, struct gf_target *target)
{
        const struct gpufree_holder *holder = gf_run_fate(run, target)->holder;
        int r;

        if (gf_pid_is_ours(holder->id.pid)) {
                refuse(run, target, -EPERM, gf_asprintf("it is the process that asks"));
                return 0;
        }
        r = gf_pin(run, target);
        if (r == -ESRCH || (r == 0 && gf_pidfd_ended(target->pidfd) == 1)) {
                gf_run_settle(run, target, GPUFREE_FATE_ALREADY_GONE, NULL);
                return 0;
        }
        if (r == -ENOSYS)
                return gf_fail(run->env, r,
                               "pidfd_open: this kernel has no pidfds (Linux 5.3 and later have), and a bare PID is "
                               "never signalled");
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                refuse(run, target, r,
                       gf_asprintf("it could not be pinned (%s), so it was not signalled", strerror(-r)));
                return 0;
        }
        r = run->eyes->still_holds(run->eyes->userdata, holder);
        if (r == -ECANCELED || r == -ENOMEM)
                return r;
        if (r == 0) {
                gf_run_settle(run, target, GPUFREE_FATE_LET_GO,
                              gf_asprintf("it had let go before it was signalled, so it was not"));
                return 0;
        }
        if (r > 0)
                return 1;
        if (gf_pidfd_ended(target->pidfd) == 1) {
                gf_run_settle(run, target, GPUFREE_FATE_ALREADY_GONE, NULL);
                return 0;
        }
        refuse(run, target, r,
               gf_asprintf("whether it still holds could not be seen (%s), so it was not signalled", strerror(-r)));
        return 0;
}

static int stop_early(struct gf_run *run)
{
        if (gf_cancelled(run->env->cancel_fd))
                return -ECANCELED;
        return gf_deadline_left(run->deadline) == 0 ? -ETIMEDOUT : 0;
}

static int first_signals(struct gf_run *run, int sig)
{
        for (size_t i = 0; i < run->targets.n; i++) {
                struct gf_target *target = &run->targets.v[i];
                int r;

                if (target->stage != GF_STAGE_TODO)
                        continue;
                r = stop_early(run);
                if (r < 0)
                        return r;
                r = begin(run, target);
                if (r < 0)
                        return r;
                if (r > 0 && send(run, target, sig)) {
                        target->stage = sig == SIGKILL ? GF_STAGE_KILLED : GF_STAGE_SIGNALLED;
                        if (sig != SIGKILL)
                                wake(run, target);
                }
                gf_pins_trim(run);
        }
        return 0;
}

/* SIGKILL to who still lives and still holds. */
static int last_signals(struct gf_run *run)
{
        for (size_t i = 0; i < run->targets.n; i++) {
                struct gf_target *target = &run->targets.v[i];
                int r;

                if (target->stage != GF_STAGE_SIGNALLED)
                        continue;
                r = stop_early(run);
                if (r < 0)
                        return r;
                r = gf_pin(run, target);
                if (r == -ESRCH) {
                        gf_run_settle(run, target, GPUFREE_FATE_ENDED_BY_SIGNAL, NULL);
                        continue;
                }
                if (r == 0)
                        r = run->eyes->still_holds(run->eyes->userdata, gf_run_fate(run, target)->holder);
                if (r == -ECANCELED || r == -ENOMEM)
                        return r;
                if (r > 0 && send(run, target, SIGKILL))
                        target->stage = GF_STAGE_KILLED;
                else if (r < 0 && !(target->pidfd >= 0 && gf_pidfd_ended(target->pidfd) == 1))
                        gf_run_settle(run, target, GPUFREE_FATE_SURVIVED,
                                      gf_asprintf("whether it still holds could not be seen (%s), so it got no SIGKILL",
                                                  strerror(-r)));
                gf_pins_trim(run);
        }
        return 0;
}

static bool any_at(const struct gf_run *run, enum gf_stage stage)
{
        for (size_t i = 0; i < run->targets.n; i++)
                if (run->targets.v[i].stage == stage)
                        return true;
        return false;
}

static int climb(struct gf_run *run, bool force)
{
        int sig = force ? SIGKILL : run->ladder.signal, r;
        uint64_t grace;

        r = first_signals(run, sig);
        if (r < 0)
                return r;
        if (sig != SIGKILL) {
                grace = gf_deadline_in(run->ladder.grace_ms);
                r = gf_pins_wait(run, grace < run->deadline ? grace : run->deadline);
                if (r != -ETIMEDOUT)
                        return r;
        }
        for (;;) {
                r = last_signals(run);
                if (r < 0)
                        return r;
                /* Who holds nothing at this moment was spared the SIGKILL, and is asked again. */
                grace = any_at(run, GF_STAGE_SIGNALLED) ? gf_deadline_in(SPARED_MS) : run->deadline;
                r = gf_pins_wait(run, grace < run->deadline ? grace : run->deadline);
                if (r != -ETIMEDOUT || gf_deadline_left(run->deadline) == 0)
                        return r;
        }
}

void gf_ladder_strike(struct gf_run *run, struct gf_target *target)
{
        if (send(run, target, SIGKILL))
                target->stage = GF_STAGE_KILLED;
}

int gf_ladder_climb(struct gf_run *run, bool force)
{
        int r = climb(run, force);

        run->climbs++;
        run->looked_after = false;
        if (r == -ECANCELED)
                run->cancelled = true;
        if (r == -ETIMEDOUT)
                run->timed_out = true;
        return r;
}

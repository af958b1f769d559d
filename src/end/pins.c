/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "end/run.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidwait.h"

/* How often those that are waited for are asked whether they still hold: letting go makes no event. */
#define RECHECK_MS 1000

int gf_pin(struct gf_run *run, struct gf_target *target)
{
        int fd;

        if (target->pidfd >= 0)
                return 0;
        fd = gf_pidfd_pin(run->env, &gf_run_fate(run, target)->holder->id);
        if ((fd == -EMFILE || fd == -ENFILE) && run->pinned > 0) {
                /* Somebody else took the room that there was: make do with half. */
                run->room = run->pinned > 1 ? run->pinned / 2 : 1;
                for (size_t i = 0; i < run->targets.n; i++)
                        gf_unpin(run, &run->targets.v[i]);
                fd = gf_pidfd_pin(run->env, &gf_run_fate(run, target)->holder->id);
        }
        if (fd < 0)
                return fd;
        target->pidfd = fd;
        run->pinned++;
        return 0;
}

void gf_unpin(struct gf_run *run, struct gf_target *target)
{
        if (target->pidfd < 0)
                return;
        target->pidfd = gf_close(target->pidfd);
        run->pinned--;
}

void gf_pins_trim(struct gf_run *run)
{
        for (size_t i = run->targets.n; i > 0 && run->pinned > run->room; i--)
                gf_unpin(run, &run->targets.v[i - 1]);
}

static bool is_awaited(const struct gf_target *target)
{
        return target->stage == GF_STAGE_SIGNALLED || target->stage == GF_STAGE_KILLED;
}

static void note_gone(struct gf_run *run, struct gf_target *target)
{
        gf_run_settle(run, target,
                      target->stage == GF_STAGE_KILLED ? GPUFREE_FATE_KILLED : GPUFREE_FATE_ENDED_BY_SIGNAL, NULL);
}

/*
 * Takes the fates of those that have ended and pins as many of the others as there is room for. With `sweep`, those
 * that there is no room for are asked one by one. Returns how many still live.
 */
static size_t reap(struct gf_run *run, bool sweep)
{
        size_t living = 0;

        for (size_t i = 0; i < run->targets.n; i++) {
                struct gf_target *target = &run->targets.v[i];

                if (!is_awaited(target))
                        continue;
                if (target->pidfd < 0 && (sweep || run->pinned < run->room) && gf_pin(run, target) == -ESRCH) {
                        note_gone(run, target);
                        continue;
                }
                if (target->pidfd >= 0 && gf_pidfd_ended(target->pidfd) == 1) {
                        note_gone(run, target);
                        continue;
                }
                living++;
                if (run->pinned > run->room)
                        gf_unpin(run, target);
        }
        return living;
}

static size_t list_pins(const struct gf_run *run, int *fds)
{
        size_t n = 0;

        for (size_t i = 0; i < run->targets.n; i++)
                if (is_awaited(&run->targets.v[i]) && run->targets.v[i].pidfd >= 0)
                        fds[n++] = run->targets.v[i].pidfd;
        return n;
}

/*
 * Who lives on but holds nothing any more is let go, not killed. Twice in a row: a process that is ending has no open
 * files for a moment either.
 */
static int recheck(struct gf_run *run)
{
        for (size_t i = 0; i < run->targets.n; i++) {
                struct gf_target *target = &run->targets.v[i];
                int r;

                if (!is_awaited(target))
                        continue;
                r = run->eyes->still_holds(run->eyes->userdata, gf_run_fate(run, target)->holder);
                if (r == -ECANCELED)
                        return r;
                target->loose = r == 0 ? target->loose + 1 : 0;
                if (target->loose < 2 || (target->pidfd >= 0 && gf_pidfd_ended(target->pidfd) == 1))
                        continue;
                gf_run_settle(run, target, GPUFREE_FATE_LET_GO,
                              gf_asprintf(target->stage == GF_STAGE_KILLED
                                                  ? "it has let go; it still ends (SIGKILL was sent)"
                                                  : "it lives on and holds nothing any more, so it was not killed"));
        }
        return 0;
}

int gf_pins_wait(struct gf_run *run, uint64_t until)
{
        _cleanup_free_ int *fds = calloc(run->targets.n + 1, sizeof(*fds));
        uint64_t next = gf_deadline_in(RECHECK_MS);

        if (!fds)
                return -ENOMEM;
        for (;;) {
                bool over = gf_deadline_left(until) == 0;
                size_t living = reap(run, over);
                int r;

                if (living == 0)
                        return 0;
                if (over)
                        return -ETIMEDOUT;
                r = gf_pidfds_wait(fds, list_pins(run, fds), until < next ? until : next, run->env->cancel_fd);
                if (r < 0)
                        return r;
                if (gf_deadline_left(next) > 0)
                        continue;
                gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_WAITING, .count = living });
                r = recheck(run);
                if (r < 0)
                        return r;
                next = gf_deadline_in(RECHECK_MS);
        }
}

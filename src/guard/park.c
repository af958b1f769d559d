/* SPDX-License-Identifier: MIT */
/* The guard's side of --park-on: signals, the claims, and what the parker says. */
#include "guard/park.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/num.h"
#include "guard/preempt.h"
#include "guard/run.h"
#include "sys/clock.h"

const char *gf_park_signal_name(int signal)
{
        return signal == SIGUSR2 ? "SIGUSR2" : "SIGUSR1";
}

static void forget(struct gf_guard_park *park, pid_t pid)
{
        for (size_t i = 0; i < park->pids.n; i++)
                if (park->pids.v[i] == pid)
                        park->pids.v[i--] = park->pids.v[--park->pids.n];
}

static bool remember(struct gf_guard_park *park, pid_t pid)
{
        pid_t *slot;

        forget(park, pid);
        slot = gf_vec_add(&park->pids);
        if (slot)
                *slot = pid;
        return slot != NULL;
}

#define RETRY_MS 500
#define MOST_TRIES 5

/* ---- the claims ---- */

static void let_go(struct gf_life *life)
{
        struct gpufree_guard *guard = life->guard;

        gf_strv_done(&life->park.claims);
        for (size_t i = 0; i < guard->locks.n; i++)
                if (gf_strv_add(&life->park.claims, guard->locks.v[i].name) < 0) {
                        gf_strv_done(&life->park.claims);
                        gf_guard_warn(guard, "out of memory: the claim on %s is kept", guard->label);
                        return;
                }
        gf_locks_done(&guard->locks);
        life->park.letting_go = gf_say(life->keeper.socket, GF_SAY_UNCLAIM, 0, 0, 0) == 0;
}

/* All of them or none. */
static bool claim_again(struct gf_life *life)
{
        struct gpufree_guard *guard = life->guard;
        struct gf_env *env = &guard->context->env;

        for (size_t i = 0; i < life->park.claims.n; i++) {
                pid_t pid = 0;
                int r = gf_lock_take(env, guard->options.claim_dir, life->park.claims.v[i], &guard->locks, &pid);

                if (r == 0)
                        continue;
                gf_locks_done(&guard->locks);
                if (life->park.wants_back && r == -EBUSY)
                        return false; /* it is waited for */
                if (r == -EBUSY)
                        gf_guard_warn(guard,
                                      "it stays parked: %s is claimed by another guard, process %d; send %s again once "
                                      "that has ended",
                                      guard->label, (int)pid, gf_park_signal_name(guard->options.unpark_on));
                else
                        gf_guard_warn(guard, "it stays parked: claiming %s again: %s", guard->label,
                                      env->error ? env->error : strerror(-r));
                return false;
        }
        gf_strv_done(&life->park.claims);
        return true;
}

/* ---- parking, and back ---- */

static void runs_again(struct gf_life *life)
{
        uint64_t stood = gf_now_ms() - life->park.since_ms;

        life->park.at = GF_PARK_RUNS;
        life->park.wants_back = false;
        life->park.tries = 0;
        /* Time does not pass for one that stands still. */
        if (life->ready_deadline != GPUFREE_UNKNOWN)
                life->ready_deadline += stood;
        life->pulse.moved_ms += stood;
        life->pulse.memory_ms += stood;
}

static void start(struct gf_life *life, bool park)
{
        struct gf_guard_park *p = &life->park;
        struct gf_parker_order order = {
                .guard = life->guard, .root = life->keeper.pid, .pids = park ? NULL : p->pids.v, .n = p->pids.n
        };
        int r = gf_parker_start(&order, &p->child);

        if (r < 0) {
                gf_guard_warn(life->guard, "%s: %s", park ? "parking" : "bringing it back", strerror(-r));
                return;
        }
        if (park)
                p->since_ms = gf_now_ms();
        p->outcome = GPUFREE_OK;
        p->at = park ? GF_PARK_PARKING : GF_PARK_UNPARKING;
        gf_guard_say(life->guard, park ? "parking what it has on %s" : "bringing it back to %s", life->guard->label);
}

static void obey(struct gf_life *life, int signal)
{
        struct gpufree_guard *guard = life->guard;
        bool park = signal == guard->options.park_on;

        if (life->park.at == GF_PARK_PARKING || life->park.at == GF_PARK_UNPARKING || life->park.letting_go) {
                life->park.next = signal;
                return;
        }
        if (park && life->park.at == GF_PARK_PARKED)
                gf_guard_say(guard, "it is parked already; %s brings it back",
                             gf_park_signal_name(guard->options.unpark_on));
        else if (!park && life->park.at == GF_PARK_RUNS)
                gf_guard_say(guard, "it is not parked");
        else if (!park && !claim_again(life))
                return;
        else
                start(life, park);
}

bool gf_park_signal(struct gf_life *life, int signal)
{
        const struct gpufree_guard_options *o = &life->guard->options;

        if (o->park_on == 0 || (signal != o->park_on && signal != o->unpark_on))
                return false;
        if (!life->started || life->exited || life->failed_ready)
                gf_guard_warn(life->guard, "%s came when nothing could be parked: it is passed over",
                              gf_park_signal_name(signal));
        else if (!life->guard->selection)
                gf_guard_warn(life->guard, "no GPU was claimed: there is nothing to park");
        else
                obey(life, signal);
        return true;
}

static void heard_of(struct gf_life *life, const struct gf_parker_said *said)
{
        bool runs = said->state == GPUFREE_PARK_RUNNING || said->state == GPUFREE_PARK_NOT_CUDA;
        bool gone = kill(said->pid, 0) < 0 && errno == ESRCH;

        if (said->text[0] != '\0' && said->outcome == GPUFREE_OK)
                gf_guard_say(life->guard, "%s", said->text);
        else if (said->text[0] != '\0')
                gf_guard_warn(life->guard, "%s", said->text);
        if (runs || gone)
                forget(&life->park, said->pid);
        else if (!remember(&life->park, said->pid))
                gf_guard_warn(life->guard, "out of memory: bring %d back with \"gpufree unpark %d\"", said->pid,
                              said->pid);
}

/* What was asked for while something else was going on. */
static void obey_next(struct gf_life *life)
{
        int next = life->park.next;

        life->park.next = 0;
        if (next != 0 && !life->exited)
                obey(life, next);
}

void gf_park_unclaimed(struct gf_life *life)
{
        life->park.letting_go = false;
        gf_guard_say(life->guard, "%s given up while it is parked: %s brings it back", life->guard->label,
                     life->park.asker >= 0 ? "the end of that guard's command"
                                           : gf_park_signal_name(life->guard->options.unpark_on));
        gf_preempt_reply(life, true, NULL);
        obey_next(life);
}

/* The parker has ended, as `outcome` says, or without a word. */
static void came_to_an_end(struct gf_life *life)
{
        struct gf_guard_park *p = &life->park;
        struct gpufree_guard *guard = life->guard;
        bool parked = p->at == GF_PARK_PARKING;
        const char *back = gf_park_signal_name(guard->options.unpark_on);
        /* Not everything could be looked at: no reason to keep a claim; who takes the GPU next looks for itself. */
        bool fine = p->outcome == GPUFREE_OK || p->outcome == GPUFREE_INCOMPLETE;

        gf_child_stop(&p->child);
        p->at = GF_PARK_PARKED;
        if (parked && (p->pids.n == 0 || !fine)) {
                p->wants_back = p->asker >= 0 && p->pids.n > 0;
                p->retry_at = gf_now_ms();
                gf_preempt_reply(life, false,
                                 p->pids.n == 0 && fine ? "it has nothing there to be parked."
                                                        : "it could not be parked; it says why.");
        }
        p->tries += !parked && p->pids.n > 0;
        if (p->pids.n == 0) {
                if (parked && fine)
                        gf_guard_say(guard, "none of its processes holds %s: nothing was parked", guard->label);
                else if (parked)
                        gf_guard_warn(guard, "it was not parked, and runs on");
                runs_again(life);
        } else if (parked && fine) {
                let_go(life);
        } else if (parked) {
                gf_guard_warn(guard,
                              "%zu of its processes do not run, and not all is as it should be (above): the "
                              "claim on %s is kept; %s brings them back",
                              p->pids.n, guard->label, back);
        } else {
                gf_guard_warn(guard, "%zu of its processes are not back (above); %s tries again", p->pids.n, back);
        }
        if (!p->letting_go)
                obey_next(life);
}

uint64_t gf_park_next(const struct gf_life *life)
{
        return life->park.wants_back && life->park.at == GF_PARK_PARKED ? life->park.retry_at : GPUFREE_UNKNOWN;
}

/* The one it was parked for is gone; its command may not be, and then the GPUs are still claimed. */
static void come_back(struct gf_life *life)
{
        struct gf_guard_park *p = &life->park;

        if (!p->wants_back || p->at != GF_PARK_PARKED || p->letting_go || gf_deadline_left(p->retry_at) > 0)
                return;
        p->retry_at = gf_deadline_in(RETRY_MS);
        if (p->tries >= MOST_TRIES) {
                p->wants_back = false;
                gf_guard_warn(life->guard, "it is not tried again by itself: %s does",
                              gf_park_signal_name(life->guard->options.unpark_on));
                return;
        }
        obey(life, life->guard->options.unpark_on);
}

void gf_park_step(struct gf_life *life)
{
        struct gf_guard_park *p = &life->park;

        gf_preempt_listen(life);
        if (!life->exited)
                come_back(life);

        while (p->at == GF_PARK_PARKING || p->at == GF_PARK_UNPARKING) {
                struct gf_parker_said said;
                ssize_t n = gf_child_receive(&p->child, &said, sizeof(said), gf_deadline_in(0), -1);

                if (n == -ETIMEDOUT)
                        return;
                if (n != sizeof(said)) {
                        gf_guard_warn(life->guard, "the process that did it ended without a word: what became of the "
                                                   "command's processes is not known");
                        p->outcome = GPUFREE_HELD;
                        came_to_an_end(life);
                        return;
                }
                said.text[sizeof(said.text) - 1] = '\0';
                if (said.what == GF_PARKER_TARGET)
                        (void)remember(p, said.pid);
                else if (said.what == GF_PARKER_PROCESS)
                        heard_of(life, &said);
                else if (said.what == GF_PARKER_SENTENCE && said.outcome == GPUFREE_OK)
                        gf_guard_say(life->guard, "%s", said.text);
                else if (said.what == GF_PARKER_SENTENCE)
                        gf_guard_warn(life->guard, "%s", said.text);
                if (said.what == GF_PARKER_DONE) {
                        p->outcome = said.outcome;
                        came_to_an_end(life);
                }
        }
}

void gf_park_done(struct gf_guard_park *park)
{
        gf_child_stop(&park->child);
        park->asker = gf_close(park->asker);
        gf_vec_done(&park->pids);
        gf_strv_done(&park->claims);
}

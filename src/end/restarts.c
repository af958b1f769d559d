/* SPDX-License-Identifier: MIT */
/* Is somebody about to start again what was ended? Seen from what the parents do, so that nobody waits in vain. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "end/run.h"
#include "sys/clock.h"
#include "sys/pidstat.h"
#include "sys/pidwait.h"

/* The last quiet look comes no sooner than this after an end: systemd starts a service again after 100 ms. */
#define RESTART_MS 150
/* Where it is known that somebody starts it again: runit waits for a second, others look once a second. */
#define KNOWN_RESTART_MS 2500
/* A parent that has not collected its dead child after this long does not wait for it. */
#define COLLECT_MS 30
#define STEP_MS 5

/* Does somebody look after it who starts such things again: a unit, a supervisor, a container's or a pod's keeper? */
static bool has_keeper(const struct gpufree_holder *holder)
{
        static const char *const keepers[] = { "unit", "user-unit", "service", "container", "pod" };

        for (size_t i = 0; i < holder->owners.n; i++)
                for (size_t k = 0; k < ELEMENTSOF(keepers); k++)
                        if (gf_streq(holder->owners.v[i].kind, keepers[k]))
                                return true;
        return false;
}

static bool is_target(const struct gf_run *run, pid_t pid)
{
        for (size_t i = 0; i < run->targets.n; i++)
                if (gf_run_fate(run, &run->targets.v[i])->holder->id.pid == pid)
                        return true;
        return false;
}

/* Has the parent a child that is younger than the first signal? What cannot be read counts as one. */
static bool has_new_child(const struct gf_run *run, pid_t parent, uint64_t since_ticks)
{
        _cleanup_free_ char *text = NULL;
        char file[64], *at, *save = NULL;
        int r;

        (void)snprintf(file, sizeof(file), "task/%d/children", (int)parent);
        r = gf_pid_text(run->env, parent, file, &text);
        if (r == -ESRCH || r == -ENOENT)
                return false;
        if (r < 0)
                return true;
        for (at = strtok_r(text, " \n", &save); at; at = strtok_r(NULL, " \n", &save)) {
                struct gf_pidstat stat;
                pid_t pid;

                if (gf_parse_pid(at, &pid) < 0 || is_target(run, pid) || gf_pidstat_read(run->env, pid, &stat) < 0)
                        continue;
                /* Its own helpers aside: gpufree's driver child is younger than the first signal only if it was begun
                 * anew. */
                if (stat.start_ticks >= since_ticks)
                        return true;
        }
        return false;
}

/* Is the parent of this ended process doing something about it? */
static bool parent_acts(const struct gf_run *run, const struct gf_target *target)
{
        const struct gpufree_holder *holder = gf_run_fate(run, target)->holder;
        pid_t parent = holder->facts.ppid;
        struct gf_pidstat stat;
        bool uncollected;

        if (target->stage != GF_STAGE_DONE || target->signal_ticks == 0 || parent <= 1 || gf_pid_is_ours(parent))
                return false;
        uncollected = gf_pidstat_of(run->env, &holder->id, &stat) == 0;
        if (gf_pidstat_read(run->env, parent, &stat) < 0)
                return false;
        if (stat.state == 'R' || (uncollected && gf_now_ms() - run->last_end_ms < COLLECT_MS))
                return true;
        return has_new_child(run, parent, target->signal_ticks);
}

/* Must the whole time be waited, whatever the parents do? */
static bool is_expected(const struct gf_run *run)
{
        for (size_t i = 0; i < run->targets.n; i++)
                if (run->targets.v[i].generation > 0 || has_keeper(gf_run_fate(run, &run->targets.v[i])->holder))
                        return true;
        return false;
}

void gf_restarts_wait(struct gf_run *run)
{
        bool due = gf_restart_is_due(run), whole = due || is_expected(run);
        uint64_t until = run->last_end_ms + (due ? KNOWN_RESTART_MS : RESTART_MS);
        unsigned calm = 0;

        if (run->last_end_ms == 0)
                return;
        if (until > run->deadline)
                until = run->deadline;
        while (gf_now_ms() < until && calm < 2) {
                uint64_t step = whole ? until : gf_deadline_in(STEP_MS);
                bool acts = whole;

                for (size_t i = 0; i < run->targets.n && !acts; i++)
                        acts = parent_acts(run, &run->targets.v[i]);
                calm = acts ? 0 : calm + 1;
                if (gf_pidfds_wait(NULL, 0, step < until ? step : until, run->env->cancel_fd) < 0)
                        return;
        }
}

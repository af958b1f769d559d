/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "end/kin.h"
#include "end/run.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidstat.h"
#include "sys/pidwait.h"
#include "sys/precedence.h"
#include "sys/procfs.h"

/* A supervisor without a pause starts as fast as we end: that is for the rounds to name, not to be fought for ever. */
#define MOST_WALKS 400
#define TEXT_MAX (64U * 1024)

struct chase {
        struct gf_run *run;
        size_t struck, missed; /* missed: gone between being seen and being pinned */
};

/* Every line of /proc/PID/cgroup as it was for the one that was shown. */
static bool is_in_same_place(struct gf_run *run, pid_t pid, const struct gf_facts *facts)
{
        _cleanup_free_ char *text = NULL;
        char *line, *save = NULL;
        size_t n = 0;

        if (facts->cgroups.n == 0 || gf_pid_text(run->env, pid, "cgroup", &text) < 0)
                return false;
        for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++)
                if (!gf_strv_has(&facts->cgroups, line))
                        return false;
        return n == facts->cgroups.n;
}

/* One process that is being judged: what it is, read once however many targets there are. */
struct candidate {
        pid_t pid;
        const struct gf_pidstat *stat;
        bool read;
        int error;
        uint32_t uid;
        uint64_t dev, ino;
};

static bool read_candidate(struct gf_run *run, struct candidate *c)
{
        if (!c->read) {
                c->read = true;
                c->error = gf_pid_uid(run->env, c->pid, &c->uid);
                if (c->error == 0)
                        c->error = gf_pid_exe(run->env, c->pid, &c->dev, &c->ino);
        }
        return c->error == 0;
}

/* One that is ending has no arguments any more: it is gone. */
static bool has_same_arguments(struct gf_run *run, struct candidate *c, const struct gf_facts *facts)
{
        _cleanup_free_ char *path = NULL, *text = NULL;
        size_t length = 0;
        int r;

        if (!facts->cmdline || facts->cmdline_length == 0)
                return false;
        path = gf_asprintf("%s/%d/cmdline", run->env->proc_root, (int)c->pid);
        r = path ? gf_read_file(AT_FDCWD, path, TEXT_MAX, &text, &length) : -ENOMEM;
        if (r == -ENOENT || r == -ESRCH || (r == 0 && length == 0))
                c->error = -ESRCH;
        return r == 0 && length == facts->cmdline_length && memcmp(text, facts->cmdline, length) == 0;
}

/*
 * Narrower than kin: nobody has read who protects it or owns it. A child, or what runs the same file with the same
 * arguments as the same user in the same process group, session or cgroup, as one that was shown and not protected, is
 * protected no more than that one. A script that starts other jobs is in the same session, and often in the same group.
 */
static bool is_successor(struct gf_run *run, const struct gf_target *target, struct candidate *c)
{
        const struct gf_fate_entry *entry = gf_run_fate(run, target);
        const struct gf_facts *facts = &entry->holder->facts;
        const struct gf_pidstat *stat = c->stat;

        if (entry->fate == GPUFREE_FATE_REFUSED || facts->exe_ino == 0 || facts->uid == UINT32_MAX)
                return false;
        if (stat->start_ticks < entry->holder->id.start_ticks)
                return false;
        if (!read_candidate(run, c) || c->uid != facts->uid || c->dev != facts->exe_dev || c->ino != facts->exe_ino)
                return false;
        if (stat->ppid == entry->holder->id.pid)
                return true;
        return has_same_arguments(run, c, facts) &&
               ((stat->pgrp > 0 && stat->pgrp == facts->pgrp) ||
                (stat->session > 0 && stat->session == facts->session) || is_in_same_place(run, c->pid, facts));
}

/* It ended while it was judged, and could have been a successor: what it held may have gone on. */
static bool is_missed(const struct gf_run *run, const struct candidate *c)
{
        if (!c->read || (c->error != -ESRCH && c->error != -ENOENT))
                return false;
        for (size_t i = 0; i < run->targets.n; i++) {
                const struct gf_facts *facts = &gf_run_fate(run, &run->targets.v[i])->holder->facts;

                if ((c->stat->pgrp > 0 && c->stat->pgrp == facts->pgrp) ||
                    (c->stat->session > 0 && c->stat->session == facts->session) ||
                    (c->stat->ppid > 1 && c->stat->ppid == facts->ppid))
                        return true;
        }
        return false;
}

/* What a report needs to name it by: no look has seen it. */
static struct gpufree_snapshot *portrait(pid_t pid, const struct gf_pidstat *stat, const struct gpufree_holder *like)
{
        struct gpufree_snapshot *snapshot = calloc(1, sizeof(*snapshot));
        struct gpufree_holder *holder = snapshot ? gf_vec_add(&snapshot->holders) : NULL;

        if (!holder) {
                free(snapshot);
                return NULL;
        }
        snapshot->refs = 1;
        holder->id = (struct gf_ident){ pid, stat->start_ticks };
        holder->selected = true;
        holder->facts = (struct gf_facts){ .uid = like->facts.uid,
                                           .exe_dev = like->facts.exe_dev,
                                           .exe_ino = like->facts.exe_ino,
                                           .state = stat->state,
                                           .ppid = stat->ppid,
                                           .pgrp = stat->pgrp,
                                           .session = stat->session,
                                           .login_session = UINT32_MAX,
                                           .age_ms = GPUFREE_UNKNOWN };
        /* Its own would be read while it gets away. */
        (void)gf_strset(&holder->facts.comm, like->facts.comm);
        (void)gf_strset(&holder->facts.user, like->facts.user);
        /* What it must hold to be struck: what the one that was shown held. */
        for (size_t i = 0; i < like->devices.n; i++) {
                struct gf_device_use *use = gf_vec_add(&holder->devices);

                if (!use) {
                        gpufree_snapshot_unref(snapshot);
                        return NULL;
                }
                *use = like->devices.v[i];
        }
        return snapshot;
}

static int strike(struct chase *chase, pid_t pid, const struct gf_pidstat *stat, const struct gpufree_holder *like)
{
        struct gf_run *run = chase->run;
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = portrait(pid, stat, like);
        const struct gpufree_holder *holder;
        _cleanup_close_ int fd = -1;
        struct gf_target *target;
        int r;

        if (!snapshot)
                return -ENOMEM;
        holder = &snapshot->holders.v[0];
        fd = gf_pidfd_pin(run->env, &holder->id);
        chase->missed += fd == -ESRCH;
        if (fd < 0)
                return 0;
        r = run->eyes->still_holds(run->eyes->userdata, holder);
        if (r == -ECANCELED || r == -ENOMEM)
                return r;
        chase->missed += r <= 0 && gf_pidfd_ended(fd) == 1;
        if (r <= 0)
                return 0;
        r = gf_run_add(run, snapshot, holder, 0);
        if (r < 0)
                return r;
        chase->struck++;
        target = &run->targets.v[run->targets.n - 1];
        target->pidfd = TAKE_FD(fd);
        run->pinned++;
        gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_NEWCOMER, .pid = pid, .holder = holder });
        gf_ladder_strike(run, target);
        gf_pins_trim(run);
        return 0;
}

static int each(pid_t pid, void *userdata)
{
        struct chase *chase = userdata;
        struct gf_run *run = chase->run;
        struct gf_pidstat stat;
        struct candidate c;

        if (pid <= 1 || gf_pid_is_ours(pid) || gf_pidstat_read(run->env, pid, &stat) < 0)
                return 0;
        if (!gf_started_since(run->plan->snapshot, stat.start_ticks) ||
            gf_run_find(run, &(struct gf_ident){ pid, stat.start_ticks }) ||
            gf_plan_keeps(run->plan, &(struct gf_ident){ pid, stat.start_ticks }))
                return 0;
        c = (struct candidate){ .pid = pid, .stat = &stat };
        for (size_t i = 0; i < run->targets.n; i++)
                if (is_successor(run, &run->targets.v[i], &c))
                        return strike(chase, pid, &stat, gf_run_fate(run, &run->targets.v[i])->holder);
        chase->missed += is_missed(run, &c);
        return 0;
}

static int walk_until_quiet(struct gf_run *run)
{
        for (unsigned quiet = 0, walks = 0; quiet < 2 && walks < MOST_WALKS; walks++) {
                struct chase chase = { .run = run };
                int r;

                if (gf_cancelled(run->env->cancel_fd))
                        return -ECANCELED;
                if (gf_deadline_left(run->deadline) == 0)
                        return -ETIMEDOUT;
                r = gf_pid_walk(run->env, each, &chase);
                if (r < 0)
                        return r;
                quiet = chase.struck > 0 || chase.missed > 0 ? 0 : quiet + 1;
        }
        return gf_pins_wait(run, run->deadline);
}

int gf_chase(struct gf_run *run)
{
        _cleanup_precedence_ struct gf_precedence precedence = gf_precedence_take();
        int r = walk_until_quiet(run);

        run->looked_after = false;
        if (r == -ECANCELED)
                run->cancelled = true;
        if (r == -ETIMEDOUT)
                run->timed_out = true;
        return r;
}

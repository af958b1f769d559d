/* SPDX-License-Identifier: MIT */
#include "gaps.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "scan/scan.h"
#include "select/select.h"

/* Why processes could not be looked at. Each kind has a sentence of its own, with what to do about it. */
enum kind {
        KIND_PERMISSION,
        KIND_STUCK,  /* the kernel did not come back from reading it */
        KIND_ENDING, /* it is ending and does not finish */
        KIND_OTHER,
        KINDS,
};

struct tally {
        uint64_t n;
        const struct gf_refused *first;
};

static enum kind kind_of(const struct gf_refused *refused)
{
        if (refused->why == GF_REFUSED_PERMISSION)
                return KIND_PERMISSION;
        if (refused->error == ETIMEDOUT)
                return KIND_STUCK;
        return refused->error == EBUSY ? KIND_ENDING : KIND_OTHER;
}

static int permission_gap(const struct tally *tally, gf_strv *gaps)
{
        bool one = tally->n == 1;

        if (geteuid() == 0)
                return gf_strv_addf(gaps,
                                    "%llu process%s could not be looked at (PID %d%s: not permitted even to root here; "
                                    "run on the host)",
                                    (unsigned long long)tally->n, one ? "" : "es", tally->first->pid,
                                    one ? "" : " is the first");
        return gf_strv_addf(gaps, "%llu process%s could not be looked at (run as root to see %s)",
                            (unsigned long long)tally->n, one ? "" : "es", one ? "it" : "them");
}

static int other_gap(enum kind kind, const struct tally *tally, gf_strv *gaps)
{
        unsigned long long n = tally->n;
        const char *es = n == 1 ? "" : "es", *first = n == 1 ? "" : "the first is ";
        pid_t pid = tally->first->pid;

        if (kind == KIND_STUCK)
                return gf_strv_addf(gaps,
                                    "%llu process%s could not be read: the kernel does not come back from it "
                                    "(%sPID %d, its %s; /proc/%d/stack says where it waits: a driver or file system "
                                    "that hangs)",
                                    n, es, first, pid, tally->first->what, pid);
        if (kind == KIND_ENDING)
                return gf_strv_addf(gaps,
                                    "%llu process%s ending and not done (%sPID %d; what is left of it cannot be seen, "
                                    "/proc/%d/stack says what it waits for)",
                                    n, n == 1 ? " is" : "es are", first, pid, pid);
        return gf_strv_addf(gaps, "%llu process%s could not be read (%sPID %d, its %s: %s; look again)", n, es, first,
                            pid, tally->first->what, strerror(tally->first->error));
}

/* The processes that could not be looked at and could have been among those asked about. */
static int refused_gap(const struct gpufree_selection *selection, struct gpufree_snapshot *snapshot)
{
        struct tally tallies[KINDS] = { 0 };

        snapshot->unreadable = 0;
        for (size_t i = 0; i < snapshot->scan.refused.n; i++) {
                const struct gf_refused *refused = &snapshot->scan.refused.v[i];
                struct tally *tally = &tallies[kind_of(refused)];

                if (!gf_select_concerns(selection, refused->pid, refused->uid))
                        continue;
                snapshot->unreadable++;
                tally->n++;
                tally->first = tally->first ? tally->first : refused;
        }
        for (enum kind kind = 0; kind < KINDS; kind++) {
                int r;

                if (tallies[kind].n == 0)
                        continue;
                r = kind == KIND_PERMISSION ? permission_gap(&tallies[kind], &snapshot->gaps)
                                            : other_gap(kind, &tallies[kind], &snapshot->gaps);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int queue_gap(const struct gf_scan *scan, gf_strv *gaps)
{
        if (scan->opaque_queues == 0)
                return 0;
        return gf_strv_addf(gaps,
                            "%llu UNIX socket%s descriptors on the way that /proc cannot show, the first in process "
                            "%d (--scan bpf sees them, as root)",
                            (unsigned long long)scan->opaque_queues, scan->opaque_queues == 1 ? " has" : "s have",
                            scan->opaque.n > 0 ? scan->opaque.v[0] : 0);
}

/* Open files that the kernel counts and that no process has. Whose they are is not known, so any selection but one by
 * PID may mean them. */
static int missed_gap(const struct gpufree_selection *selection, const struct gpufree_snapshot *snapshot, gf_strv *gaps)
{
        if (!gf_select_concerns(selection, -1, UINT32_MAX))
                return 0;
        for (size_t i = 0; i < snapshot->scan.missed.n; i++) {
                const struct gf_missed *missed = &snapshot->scan.missed.v[i];
                const struct gpufree_device *device = gf_inventory_find(&snapshot->inventory, missed->rdev, false);
                bool one = missed->n == 1;
                int r;

                if (!device)
                        continue;
                r = gf_strv_addf(
                        gaps,
                        "%s has %llu open file%s that no process shows (a request under way whose descriptor is "
                        "closed, a "
                        "process that is ending, or one that is hidden here): look again, and where %s, on the "
                        "host",
                        device->path, (unsigned long long)missed->n, one ? "" : "s", one ? "it stays" : "they stay");
                if (r < 0)
                        return r;
        }
        return 0;
}

bool gf_driver_answered(const struct gpufree_snapshot *snapshot)
{
        bool nvidia = false;

        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                nvidia |= snapshot->inventory.gpus.v[i].vendor == GPUFREE_VENDOR_NVIDIA;
        return !nvidia || (snapshot->driver.asked && !snapshot->driver.error[0]);
}

/*
 * Without the driver's word nobody can tell a context from a mere open file, nor whether memory came back. Who has a
 * device open that was named by its path is seen without it; what that says of a GPU's memory is the verdict's matter.
 */
static int driver_gap(const struct gf_env *env, const struct gpufree_snapshot *snapshot, gf_strv *gaps)
{
        if (env->paths.n > 0 || gf_driver_answered(snapshot))
                return 0;
        return gf_strv_addf(gaps, "the driver's library gave no answer: %s",
                            snapshot->driver.error[0] ? snapshot->driver.error : "libnvidia-ml.so.1 was not found");
}

int gf_gaps_find(struct gf_env *env, const struct gpufree_selection *selection, struct gpufree_snapshot *snapshot)
{
        int r;

        r = gf_initial_pidns(env);
        if (r < 0 && r != -ENOENT && r != -EACCES)
                return r;
        snapshot->initial_pidns = r == 1;
        if (r == 0 && env->scope == GPUFREE_SCOPE_MACHINE) {
                r = gf_strv_add(&snapshot->gaps, "processes outside this PID namespace cannot be seen (run on the "
                                                 "host, or ask for this namespace alone: --scope namespace)");
                if (r < 0)
                        return r;
        }
        r = gf_proc_gaps(env, &snapshot->gaps);
        if (r < 0)
                return r;
        r = refused_gap(selection, snapshot);
        if (r < 0)
                return r;
        r = queue_gap(&snapshot->scan, &snapshot->gaps);
        if (r < 0)
                return r;
        r = missed_gap(selection, snapshot, &snapshot->gaps);
        if (r < 0)
                return r;
        return driver_gap(env, snapshot, &snapshot->gaps);
}

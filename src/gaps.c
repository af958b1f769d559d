/* SPDX-License-Identifier: MIT */
#include "gaps.h"

#include <string.h>

#include "scan/scan.h"
#include "select/select.h"

/* The processes that could not be looked at and could have been among those asked about. */
static int refused_gap(const struct gpufree_selection *selection, struct gpufree_snapshot *snapshot)
{
        const struct gf_refused *io = NULL, *denied = NULL;
        uint64_t permission = 0, others = 0;
        int r = 0;

        for (size_t i = 0; i < snapshot->scan.refused.n; i++) {
                const struct gf_refused *refused = &snapshot->scan.refused.v[i];

                if (!gf_select_concerns(selection, refused->pid, refused->uid))
                        continue;
                if (refused->why == GF_REFUSED_PERMISSION) {
                        permission++;
                        denied = denied ? denied : refused;
                } else {
                        others++;
                        io = io ? io : refused;
                }
        }
        snapshot->unreadable = permission + others;
        if (permission > 0 && geteuid() == 0)
                r = gf_strv_addf(
                        &snapshot->gaps,
                        "%llu process%s could not be looked at (PID %d%s: not permitted even to root here; run "
                        "on the host)",
                        (unsigned long long)permission, permission == 1 ? "" : "es", denied->pid,
                        permission == 1 ? "" : " is the first");
        else if (permission > 0)
                r = gf_strv_addf(&snapshot->gaps, "%llu process%s could not be looked at (run as root to see %s)",
                                 (unsigned long long)permission, permission == 1 ? "" : "es",
                                 permission == 1 ? "it" : "them");
        if (r < 0)
                return r;
        if (io)
                return gf_strv_addf(&snapshot->gaps, "%llu process%s could not be read, the first is %d (%s: %s)",
                                    (unsigned long long)others, others == 1 ? "" : "es", io->pid, io->what,
                                    strerror(io->error));
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

/*
 * Without the driver's word nobody can tell a context from a mere open file, nor whether memory came back. Who has a
 * device open that was named by its path is seen without it; what that says of a GPU's memory is the verdict's matter.
 */
static int driver_gap(const struct gf_env *env, const struct gpufree_snapshot *snapshot, gf_strv *gaps)
{
        bool nvidia = false;

        if (env->paths.n > 0)
                return 0;
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                nvidia |= snapshot->inventory.gpus.v[i].vendor == GPUFREE_VENDOR_NVIDIA;
        if (!nvidia || (snapshot->driver.asked && !snapshot->driver.error[0]))
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
        return driver_gap(env, snapshot, &snapshot->gaps);
}

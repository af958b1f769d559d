/* SPDX-License-Identifier: MIT */
#include "gpu/sample.h"

#include <errno.h>

#include "sys/clock.h"
#include "sys/pidwait.h"

/* The driver samples several times a second and has no event for it. */
#define STEP_MS 250
/* So many answers, over so long, before a process without samples is called idle. */
#define ENOUGH_ANSWERS 4
#define ENOUGH_MS 1000

/* What was seen of one use of a GPU by a holder. */
struct tally {
        struct gf_gpu_use *use;
        pid_t pid;
        uint64_t sum;
        unsigned seen, answers;
};
typedef GF_VEC(struct tally) tallies;

static int collect(struct gpufree_snapshot *snapshot, tallies *list)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                for (size_t k = 0; k < snapshot->holders.v[i].gpus.n; k++) {
                        struct gf_gpu_use *use = &snapshot->holders.v[i].gpus.v[k];
                        struct tally *tally;

                        if (!use->context)
                                continue;
                        tally = gf_vec_add(list);
                        if (!tally)
                                return -ENOMEM;
                        *tally = (struct tally){ .use = use, .pid = snapshot->holders.v[i].id.pid };
                }
        return 0;
}

static int ask(struct gf_nvml *nvml, struct gf_driver_report *report)
{
        int r = gf_nvml_ask(nvml, GF_NVML_SAMPLES);

        if (r < 0 && r != -EPIPE)
                return r;
        return gf_nvml_answer(nvml, report);
}

/* One answer into the tallies; several samples of a process in it are parts of the same time: the largest counts. */
static void count(const struct gpufree_snapshot *snapshot, const struct gf_driver_report *report, tallies *list)
{
        for (size_t i = 0; i < list->n; i++) {
                struct tally *tally = &list->v[i];
                const struct gf_driver_gpu *driver = gf_driver_gpu_of(report,
                                                                      &snapshot->inventory.gpus.v[tally->use->gpu]);
                unsigned most = 0;
                bool any = false;

                if (!driver || !driver->lists_ok)
                        continue;
                tally->answers++;
                for (size_t k = 0; k < driver->samples.n; k++)
                        if (driver->samples.v[k].pid == tally->pid) {
                                any = true;
                                if (driver->samples.v[k].sm > most)
                                        most = driver->samples.v[k].sm;
                        }
                tally->seen += any;
                tally->sum += most;
        }
}

/* Idle is a statement: it takes enough answers. Busy is what was seen. */
static void conclude(const tallies *list, uint64_t ms)
{
        for (size_t i = 0; i < list->n; i++) {
                const struct tally *tally = &list->v[i];
                bool enough = tally->answers >= ENOUGH_ANSWERS && ms >= ENOUGH_MS;

                if (tally->answers == 0 || (tally->sum == 0 && !enough))
                        continue;
                tally->use->sampled = true;
                tally->use->busy = (unsigned)(tally->sum / tally->answers);
                if (tally->sum > 0 && tally->use->busy == 0)
                        tally->use->busy = 1; /* little is not nothing */
        }
}

static int watch(struct gf_env *env, struct gf_nvml *nvml, const struct gpufree_snapshot *snapshot, uint64_t ms,
                 tallies *list)
{
        uint64_t end = gf_deadline_in(ms);
        struct gf_driver_report report = { 0 };
        int r;

        /* The first answer is about the time before: it only sets the mark. */
        r = ask(nvml, &report);
        gf_driver_report_done(&report);
        while (r >= 0 && gf_deadline_left(end) > 0) {
                uint64_t left = gf_deadline_left(end);

                r = gf_pidfds_wait(NULL, 0, gf_deadline_in(left < STEP_MS ? left : STEP_MS), env->cancel_fd);
                if (r >= 0)
                        r = ask(nvml, &report);
                if (r >= 0)
                        count(snapshot, &report, list);
                if (report.timed_out || !report.asked)
                        end = 0; /* the driver says no more */
                gf_driver_report_done(&report);
        }
        return r < 0 ? r : 0;
}

int gf_sample(struct gf_env *env, struct gf_nvml *nvml, struct gpufree_snapshot *snapshot, uint64_t ms)
{
        tallies list = { 0 };
        int r = collect(snapshot, &list);

        if (r >= 0 && list.n > 0)
                r = watch(env, nvml, snapshot, ms, &list);
        if (r >= 0)
                conclude(&list, ms);
        gf_vec_done(&list);
        return r;
}

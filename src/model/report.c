/* SPDX-License-Identifier: MIT */
#include "model/report.h"

int gf_report_new(struct gpufree_snapshot *snapshot, struct gpufree_report **ret_report)
{
        struct gpufree_report *report = calloc(1, sizeof(*report));

        if (!report)
                return -ENOMEM;
        report->snapshot = gpufree_snapshot_ref(snapshot);
        report->timings = (struct gf_timings){ GPUFREE_UNKNOWN, GPUFREE_UNKNOWN, GPUFREE_UNKNOWN, GPUFREE_UNKNOWN,
                                               GPUFREE_UNKNOWN };
        *ret_report = report;
        return 0;
}

void gf_report_set_snapshot(struct gpufree_report *report, struct gpufree_snapshot *snapshot)
{
        gpufree_snapshot_ref(snapshot);
        gpufree_snapshot_unref(report->snapshot);
        report->snapshot = snapshot;
}

gpufree_report *gpufree_report_unref(gpufree_report *report)
{
        if (!report)
                return NULL;
        gf_strv_done(&report->sentences);
        for (size_t i = 0; i < report->fates.n; i++) {
                gpufree_snapshot_unref(report->fates.v[i].snapshot);
                free(report->fates.v[i].detail);
        }
        gf_vec_done(&report->fates);
        for (size_t i = 0; i < report->gpus.n; i++) {
                free(report->gpus.v[i].sentence);
                free(report->gpus.v[i].busy_why);
        }
        gf_vec_done(&report->gpus);
        for (size_t i = 0; i < report->stops.n; i++) {
                free(report->stops.v[i].owner);
                free(report->stops.v[i].command);
                free(report->stops.v[i].output);
                free(report->stops.v[i].sentence);
        }
        gf_vec_done(&report->stops);
        gpufree_snapshot_unref(report->snapshot);
        free(report);
        return NULL;
}

gpufree_plan *gpufree_plan_unref(gpufree_plan *plan)
{
        if (!plan)
                return NULL;
        gf_vec_done(&plan->targets);
        gf_vec_done(&plan->spared);
        free(plan->refusal);
        for (size_t i = 0; i < plan->stops.n; i++) {
                gf_stop_done(&plan->stops.v[i].stop);
                gf_strv_done(&plan->stops.v[i].others);
        }
        gf_vec_done(&plan->stops);
        gf_vec_done(&plan->stop_of);
        for (size_t i = 0; i < plan->kept.n; i++)
                free(plan->kept.v[i].why);
        gf_vec_done(&plan->kept);
        gpufree_snapshot_unref(plan->snapshot);
        free(plan);
        return NULL;
}

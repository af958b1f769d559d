/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "judge.h"
#include "progress.h"
#include "session.h"

/* What a quiet time could not rest on is said, whatever the form of the answer. */
static void warn_unread(struct cli_session *session, const gpufree_report *report)
{
        for (size_t i = 0; i < gpufree_report_gpu_count(report); i++) {
                _cleanup_free_ char *name = NULL;
                const gpufree_gpu *gpu = NULL;
                const char *why = NULL;

                if (gpufree_report_gpu_busy(report, i, NULL, &why) != -EOPNOTSUPP ||
                    gpufree_report_gpu(report, i, &gpu, NULL, NULL, NULL, NULL, NULL) < 0 || !gpu || !why)
                        continue;
                if (gpufree_gpu_index(gpu) >= 0)
                        name = gf_asprintf("GPU %d: ", gpufree_gpu_index(gpu));
                else
                        name = gf_asprintf("GPU %s: ",
                                           gpufree_gpu_pci(gpu) ? gpufree_gpu_pci(gpu) : "without a number");
                cli_term_error(&session->term, "%s%s; its quiet rests on holders and memory alone",
                               !name || gf_startswith(why, name) ? "" : name, why);
        }
}

int cli_wait(struct cli_session *session)
{
        _cleanup_report_ gpufree_report *report = NULL;
        struct cli_progress progress = { .session = session };
        int r;

        if (!session->request->quiet)
                gpufree_set_event_handler(session->context, cli_progress_event, &progress);
        if (session->request->calm.free_memory != GPUFREE_UNKNOWN || session->request->calm.quiet_ms > 0)
                r = gpufree_wait_calm(session->context, session->selection, &session->request->calm,
                                      session->request->timeout_ms, session->request->ladder.settle_ms, &report);
        else
                r = gpufree_wait(session->context, session->selection, session->request->timeout_ms,
                                 session->request->ladder.settle_ms, &report);
        gpufree_set_event_handler(session->context, NULL, NULL);
        cli_progress_done(&progress);
        if (r < 0) {
                r = cli_failed(session, r);
                return cli_interrupted() != 0 ? cli_judge_nothing(session, r, "interrupted") : r;
        }
        if (cli_interrupted() != 0 && gpufree_report_outcome(report) != GPUFREE_OK)
                return cli_judge_nothing(session, cli_failed(session, -ECANCELED), "interrupted");
        if (cli_no_gpu(session, gpufree_report_snapshot(report)))
                return cli_judge_no_gpu(session, gpufree_report_snapshot(report));
        warn_unread(session, report);
        return cli_judge_report(session, report, (int)gpufree_report_outcome(report), NULL);
}

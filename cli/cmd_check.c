/* SPDX-License-Identifier: MIT */
#include "judge.h"
#include "session.h"

int cli_check(struct cli_session *session)
{
        _cleanup_snapshot_ gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ gpufree_report *report = NULL;
        int r;

        if (session->request->purpose_set)
                return cli_check_for(session);
        if (session->request->calm.free_memory != GPUFREE_UNKNOWN) {
                r = gpufree_wait_calm(session->context, session->selection, &session->request->calm, 0, 0, &report);
                if (r < 0)
                        return cli_failed(session, r);
                if (cli_no_gpu(session, gpufree_report_snapshot(report)))
                        return cli_judge_no_gpu(session, gpufree_report_snapshot(report));
                return cli_judge_report(session, report, (int)gpufree_report_outcome(report), NULL);
        }
        r = cli_look(session, &snapshot);
        if (r != 0)
                return r;
        if (cli_no_gpu(session, snapshot))
                return cli_judge_no_gpu(session, snapshot);
        r = gpufree_check(session->context, snapshot, &report);
        if (r < 0)
                return cli_failed(session, r);
        return cli_judge_report(session, report, (int)gpufree_report_outcome(report), NULL);
}

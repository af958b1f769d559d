/* SPDX-License-Identifier: MIT */
#include "judge.h"

#include "json.h"
#include "view.h"

int cli_judge_no_gpu(struct cli_session *session, const gpufree_snapshot *snapshot)
{
        struct gf_str out = { 0 };
        int r;

        cli_term_error(&session->term, "no GPU found here: nothing to do");
        if (gpufree_snapshot_driver_error(snapshot))
                cli_term_error(&session->term, "%s", gpufree_snapshot_driver_error(snapshot));
        if (session->request->json) {
                json_t *document = cli_json_new(session);

                cli_json_outcome(document, GPUFREE_OK, "no-gpu");
                cli_json_snapshot(document, snapshot, NULL);
                cli_json_text(&out, document, 0);
                json_decref(document);
        }
        r = cli_deliver(session, &out);
        return r != 0 ? r : GPUFREE_OK;
}

int cli_judge_report(struct cli_session *session, const gpufree_report *report, int code, const char *reason)
{
        const gpufree_snapshot *snapshot = gpufree_report_snapshot(report);
        struct gf_str out = { 0 };
        int r;

        if (session->request->json) {
                json_t *document = cli_json_new(session);

                cli_json_outcome(document, code, reason);
                cli_json_report(document, report, false);
                cli_json_snapshot(document, snapshot, report);
                cli_json_text(&out, document, 0);
                json_decref(document);
        } else if (session->request->quiet) {
                cli_add_pids(&out, snapshot);
        } else {
                cli_view_verdicts(session, report, &out);
        }
        r = cli_deliver(session, &out);
        return r != 0 ? r : code;
}

int cli_judge_nothing(struct cli_session *session, int code, const char *reason)
{
        struct gf_str out = { 0 };
        json_t *document;
        int r;

        if (!session->request->json)
                return code;
        document = cli_json_new(session);
        cli_json_outcome(document, code, reason);
        cli_json_text(&out, document, 0);
        json_decref(document);
        r = cli_deliver(session, &out);
        return r != 0 ? r : code;
}

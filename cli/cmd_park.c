/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/num.h"
#include "json.h"
#include "park_view.h"
#include "progress.h"
#include "session.h"
#include "view.h"

static int show(struct cli_session *session, const gpufree_parking *parking)
{
        int r, code = (int)gpufree_parking_outcome(parking);
        struct gf_str out = { 0 };

        if (session->request->json) {
                json_t *document = cli_json_new(session);

                cli_json_outcome(document, code, NULL);
                cli_json_parking(document, parking);
                cli_json_text(&out, document, 0);
                json_decref(document);
        } else if (session->request->quiet) {
                for (size_t i = 0; i < gpufree_parking_count(parking); i++) {
                        struct gpufree_parked_process process;

                        if (gpufree_parking_process(parking, i, sizeof(process), &process) < 0)
                                continue;
                        if (process.outcome == GPUFREE_OK)
                                gf_str_addf(&out, "%d\n", (int)process.pid);
                        else
                                cli_term_error(&session->term, "%s", process.sentence);
                }
        } else {
                cli_view_parking(session, parking, &out);
        }
        r = cli_deliver(session, &out);
        return r != 0 ? r : code;
}

/* Whom it would be, and what it takes. */
static int dry_run(struct cli_session *session, const gpufree_snapshot *snapshot, const gpufree_plan *plan)
{
        struct gf_str out = { 0 };
        int r;

        if (session->request->json) {
                json_t *document = cli_json_new(session);

                cli_json_outcome(document, GPUFREE_OK, "dry-run");
                cli_json_plan(document, snapshot, plan, &session->request->ladder);
                cli_json_text(&out, document, 0);
                json_decref(document);
        }
        for (size_t i = 0; !session->request->json && i < gpufree_plan_target_count(plan); i++) {
                const gpufree_holder *holder = gpufree_plan_target(plan, i);
                uint64_t memory = 0, part;
                char size[GF_TEXT_MAX];
                bool context;
                int gpu;

                for (size_t k = 0; gpufree_holder_gpu(holder, k, &gpu, &part, &context) >= 0; k++)
                        memory += context && part != GPUFREE_UNKNOWN ? part : 0;
                if (session->request->quiet)
                        gf_str_addf(&out, "%d\n", (int)gpufree_holder_pid(holder));
                else
                        gf_str_addf(&out, "Would park %d: %s of GPU memory to host memory.\n",
                                    (int)gpufree_holder_pid(holder), gf_format_size(memory, size));
        }
        r = cli_deliver(session, &out);
        return r != 0 ? r : GPUFREE_OK;
}

int cli_park(struct cli_session *session)
{
        struct cli_progress progress = { .session = session };
        _cleanup_snapshot_ gpufree_snapshot *snapshot = NULL;
        _cleanup_parking_ gpufree_parking *parking = NULL;
        _cleanup_plan_ gpufree_plan *plan = NULL;
        int r;

        r = cli_look(session, &snapshot);
        if (r != 0)
                return r;
        r = gpufree_plan_new(session->context, snapshot, &plan);
        if (r < 0)
                return cli_failed(session, r);
        if (session->request->dry_run)
                return dry_run(session, snapshot, plan);
        if (!session->request->quiet)
                gpufree_set_event_handler(session->context, cli_progress_event, &progress);
        r = gpufree_park(session->context, session->selection, plan, &session->request->park, &parking);
        gpufree_set_event_handler(session->context, NULL, NULL);
        cli_progress_done(&progress);
        if (r < 0)
                return cli_failed(session, r);
        return show(session, parking);
}

int cli_unpark(struct cli_session *session)
{
        const struct cli_request *request = session->request;
        struct cli_progress progress = { .session = session };
        _cleanup_parking_ gpufree_parking *parking = NULL;
        int r;

        if (!request->quiet)
                gpufree_set_event_handler(session->context, cli_progress_event, &progress);
        r = gpufree_unpark(session->context, request->pids.v, request->pids.n, &request->park, &parking);
        gpufree_set_event_handler(session->context, NULL, NULL);
        cli_progress_done(&progress);
        if (r < 0)
                return cli_failed(session, r);
        return show(session, parking);
}

/* SPDX-License-Identifier: MIT */
/* check --for reset|mig|unload|unbind: what stands in the way, in the order to clear it. Does none of it. */
#include "judge.h"
#include "json.h"
#include "session.h"
#include "text.h"
#include "view.h"

static const char *doing(enum gpufree_purpose purpose)
{
        switch (purpose) {
        case GPUFREE_FOR_RESET:
                return "be reset";
        case GPUFREE_FOR_MIG:
                return "change its MIG mode";
        case GPUFREE_FOR_UNLOAD:
                return "have its driver unloaded";
        case GPUFREE_FOR_UNBIND:
        default:
                return "be unbound from its driver";
        }
}

static char *selected_gpus(const gpufree_snapshot *snapshot)
{
        size_t n = gpufree_snapshot_gpu_count(snapshot);
        _cleanup_free_ bool *has = calloc(n + 1, sizeof(*has));

        for (size_t i = 0; has && i < n; i++)
                has[i] = gpufree_gpu_selected(gpufree_snapshot_gpu(snapshot, i));
        return has ? cli_view_gpu_set(snapshot, has) : NULL;
}

static void add_steps(const struct cli_term *term, const gpufree_blockers *blockers, struct gf_str *out)
{
        const char *sentence, *command;

        for (size_t i = 0; gpufree_blockers_step(blockers, i, NULL, &sentence, &command) == 0; i++) {
                _cleanup_free_ char *line = gf_asprintf("  %zu. %s", i + 1, sentence),
                                    *text = line ? cli_view_text(term, line) : NULL,
                                    *typed = cli_view_text(term, command);

                if (!text || !typed) {
                        out->failed = true;
                        return;
                }
                cli_text_wrap(out, text, term->width, 5, 0);
                if (command) /* one line, to be copied */
                        gf_str_addf(out, "       %s\n", typed);
        }
}

static void add_verdict(const struct cli_session *session, const gpufree_snapshot *snapshot,
                        const gpufree_blockers *blockers, struct gf_str *out)
{
        const struct cli_term *term = &session->term;
        _cleanup_free_ char *gpus = selected_gpus(snapshot), *line = NULL;
        const char *what = doing(session->request->purpose), *note, *goal = gpufree_blockers_goal(blockers);
        enum gpufree_outcome outcome = gpufree_blockers_outcome(blockers);

        if (outcome == GPUFREE_HELD)
                line = gf_asprintf("GPU %s can't %s yet. In this order:", gpus ? gpus : "?", what);
        else if (outcome == GPUFREE_OK)
                line = gf_asprintf("GPU %s can %s: nothing that was looked at stands in the way.", gpus ? gpus : "?",
                                   what);
        else
                line = gf_asprintf("GPU %s: nothing was seen that stands in the way, but not everything could be seen.",
                                   gpus ? gpus : "?");
        cli_view_sentence(term, out, line ? line : "");
        add_steps(term, blockers, out);
        if (goal)
                gf_str_addf(out, "%s\n       %s\n", outcome == GPUFREE_HELD ? "Then:" : "The command:", goal);
        for (size_t i = 0; (note = gpufree_blockers_note(blockers, i)) != NULL; i++)
                cli_view_sentence(term, out, note);
        cli_view_gaps(term, snapshot, out);
}

int cli_check_for(struct cli_session *session)
{
        _cleanup_snapshot_ gpufree_snapshot *snapshot = NULL;
        _cleanup_(gpufree_blockers_unrefp) gpufree_blockers *blockers = NULL;
        struct gf_str out = { 0 };
        int r, code;

        r = cli_look(session, &snapshot);
        if (r != 0)
                return r;
        if (gpufree_snapshot_gpu_count(snapshot) == 0)
                return cli_judge_no_gpu(session, snapshot);
        r = gpufree_blockers_new(session->context, snapshot, session->request->purpose, &blockers);
        if (r < 0)
                return cli_failed(session, r);
        code = (int)gpufree_blockers_outcome(blockers);
        if (session->request->json) {
                json_t *document = cli_json_new(session);

                cli_json_outcome(document, code, NULL);
                cli_json_set(document, "for", json_string(gpufree_purpose_name(session->request->purpose)));
                cli_json_blockers(document, blockers);
                cli_json_snapshot(document, snapshot, NULL);
                cli_json_text(&out, document, 0);
                json_decref(document);
        } else if (session->request->quiet) {
                cli_add_pids(&out, snapshot);
        } else {
                add_verdict(session, snapshot, blockers, &out);
        }
        r = cli_deliver(session, &out);
        return r != 0 ? r : code;
}

/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <time.h>

#include "by_owner.h"
#include "json.h"
#include "park_view.h"
#include "prom.h"
#include "session.h"
#include "view.h"

struct tally {
        size_t shown, matching_others, open_only, held_gpus;
};

static bool is_open_only(const gpufree_holder *holder)
{
        return gpufree_holder_gpu_count(holder) > 0 && !cli_holds_any(holder);
}

static void count(const gpufree_snapshot *snapshot, struct tally *ret)
{
        *ret = (struct tally){ 0 };
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);

                if (gpufree_holder_selected(holder))
                        ret->shown++;
                else if (is_open_only(holder))
                        ret->open_only++;
                else if (cli_holds_any(holder))
                        ret->matching_others++;
        }
        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, i);

                ret->held_gpus += gpufree_gpu_selected(gpu) && gpufree_gpu_holders(gpu) > 0;
        }
}

static const char *nobody(const struct cli_session *session, const gpufree_snapshot *snapshot,
                          const gpufree_report *report)
{
        if (cli_request_filters(session->request))
                return "No holder matches the selection.";
        if (!gpufree_snapshot_complete(snapshot))
                return "No holder was seen, but not everything could be seen.";
        if (!report || gpufree_report_outcome(report) != GPUFREE_OK)
                return "No holder was found.";
        return session->request->paths.n > 0 ? "No process has it open." : "No process holds a GPU here.";
}

/* What the tables amount to, in a sentence or two. */
static void add_closing(const struct cli_session *session, const gpufree_snapshot *snapshot,
                        const gpufree_report *report, struct gf_str *out)
{
        struct gf_str line = { 0 };
        struct tally tally;
        bool narrowed = session->request->criteria.n > 0;

        count(snapshot, &tally);
        if (tally.shown == 0)
                gf_str_add(&line, nobody(session, snapshot, report));
        else if (session->request->paths.n > 0 || cli_request_any_open(session->request) || tally.held_gpus == 0)
                gf_str_addf(&line, "%zu %s.", tally.shown, tally.shown == 1 ? "process" : "processes");
        else
                gf_str_addf(&line, "%zu %s held by %zu %s.", tally.held_gpus, tally.held_gpus == 1 ? "GPU" : "GPUs",
                            tally.shown, tally.shown == 1 ? "process" : "processes");
        if (narrowed && tally.matching_others > 0)
                gf_str_addf(&line, " %zu other %s GPUs and %s not selected.", tally.matching_others,
                            tally.matching_others == 1 ? "process holds" : "processes hold",
                            tally.matching_others == 1 ? "is" : "are");
        if (tally.open_only > 0 && !cli_request_any_open(session->request) && !cli_request_filters(session->request))
                gf_str_addf(&line, " %zu more %s a GPU device open: --any-open shows %s.", tally.open_only,
                            tally.open_only == 1 ? "process merely has" : "processes merely have",
                            tally.open_only == 1 ? "it" : "them");
        out->failed |= line.failed;
        cli_view_sentence(&session->term, out, line.s ? line.s : "");
        gf_str_done(&line);
}

static bool is_gap(const gpufree_snapshot *snapshot, const char *sentence)
{
        const char *gap;

        for (size_t i = 0; (gap = gpufree_snapshot_gap(snapshot, i)) != NULL; i++)
                if (strcmp(gap, sentence) == 0)
                        return true;
        return false;
}

/* Memory with nobody behind it is the one thing that a list must not leave unexplained. */
static void add_residue(const struct cli_session *session, const gpufree_report *report, struct gf_str *out)
{
        const char *sentence;

        if (!report || gpufree_report_outcome(report) != GPUFREE_RESIDUE)
                return;
        for (size_t i = 0; (sentence = gpufree_report_sentence(report, i)) != NULL; i++)
                if (!is_gap(gpufree_report_snapshot(report), sentence)) /* these come anyway */
                        cli_view_sentence(&session->term, out, sentence);
}

static void add_no_gpu(const struct cli_session *session, const gpufree_snapshot *snapshot, struct gf_str *out)
{
        _cleanup_free_ char *text = gf_asprintf("No GPU found: no device node of a known GPU driver in %s.",
                                                session->request->dev_root ? session->request->dev_root : "/dev");

        cli_view_sentence(&session->term, out, text ? text : "No GPU found.");
        if (gpufree_snapshot_driver_error(snapshot))
                cli_view_sentence(&session->term, out, gpufree_snapshot_driver_error(snapshot));
}

static void list_for_people(const struct cli_session *session, const gpufree_snapshot *snapshot,
                            const gpufree_report *report, const gpufree_parking *parking, struct gf_str *out)
{
        struct gf_str holders = { 0 };

        if (cli_no_gpu(session, snapshot)) {
                add_no_gpu(session, snapshot, out);
                return;
        }
        cli_view_gpus(session, snapshot, report, out);
        if (session->request->by_owner)
                cli_view_by_owner(session, snapshot, &holders);
        else
                cli_view_holders(session, snapshot, &holders);
        if (holders.s && holders.n > 0) {
                if (out->n > 0)
                        gf_str_addc(out, '\n');
                gf_str_addn(out, holders.s, holders.n);
                gf_str_addc(out, '\n');
        }
        out->failed |= holders.failed;
        gf_str_done(&holders);
        add_closing(session, snapshot, report, out);
        add_residue(session, report, out);
        cli_view_parked(session, parking, out);
        cli_view_gaps(&session->term, snapshot, out);
}

static void say_gaps(struct cli_session *session, const gpufree_snapshot *snapshot)
{
        const char *gap;

        for (size_t i = 0; (gap = gpufree_snapshot_gap(snapshot, i)) != NULL; i++)
                cli_term_error(&session->term, "%s", gap);
}

int cli_list(struct cli_session *session)
{
        _cleanup_snapshot_ gpufree_snapshot *snapshot = NULL;
        _cleanup_report_ gpufree_report *report = NULL;
        _cleanup_parking_ gpufree_parking *parking = NULL;
        struct gf_str out = { 0 };
        struct timespec began = { 0 };
        int code, r;

        (void)clock_gettime(CLOCK_REALTIME, &began);
        r = cli_look(session, &snapshot);
        if (r != 0)
                return r;
        if (session->request->sample_ms > 0) {
                r = gpufree_sample(session->context, snapshot, session->request->sample_ms);
                if (r < 0)
                        return cli_failed(session, r);
        }
        code = gpufree_snapshot_complete(snapshot) || cli_no_gpu(session, snapshot) ? GPUFREE_OK : GPUFREE_INCOMPLETE;
        if (gpufree_check(session->context, snapshot, &report) < 0)
                report = NULL; /* then no GPU is called free */
        if (gpufree_parked(session->context, &parking) < 0)
                parking = NULL; /* what a record tells of is an extra */
        if (session->request->json) {
                json_t *document = cli_json_new(session);

                cli_json_outcome(document, code, NULL);
                cli_json_parked(document, parking, false);
                cli_json_snapshot(document, snapshot, report);
                if (session->request->by_owner)
                        cli_json_by_owner(document, snapshot);
                cli_json_text(&out, document, 0);
                json_decref(document);
        } else if (session->request->format == CLI_FORMAT_PROM) {
                cli_prom(session, snapshot, report, (double)began.tv_sec + (double)began.tv_nsec / 1e9, &out);
                say_gaps(session, snapshot);
        } else if (session->request->quiet) {
                cli_add_pids(&out, snapshot);
                say_gaps(session, snapshot);
        } else {
                list_for_people(session, snapshot, report, parking, &out);
        }
        r = cli_deliver(session, &out);
        return r != 0 ? r : code;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "audit.h"
#include "judge.h"
#include "json.h"
#include "park_view.h"
#include "plan_view.h"
#include "progress.h"
#include "session.h"
#include "view.h"

struct kill {
        struct cli_session *session;
        const gpufree_snapshot *snapshot;
        gpufree_plan *plan;
        gpufree_parking *parking;     /* of --park-first */
        enum gpufree_outcome unclear; /* the worst of those that were neither parked nor ended; OK: none */
};

/* The plan on standard output, before anything is signalled: where it cannot be written, nothing is done. */
static int show_plan(const struct kill *kill)
{
        const struct cli_request *request = kill->session->request;
        struct gf_str out = { 0 };

        if (request->json) {
                json_t *document = cli_json_new(kill->session);

                cli_json_plan(document, kill->snapshot, kill->plan, &request->ladder);
                cli_json_set(document, "park_first", json_boolean(request->park_first));
                cli_json_text(&out, document, 1);
                json_decref(document);
        } else if (request->quiet) {
                for (size_t i = 0; i < gpufree_plan_target_count(kill->plan); i++)
                        gf_str_addf(&out, "%d\n", (int)gpufree_holder_pid(gpufree_plan_target(kill->plan, i)));
        } else {
                cli_view_plan(kill->session, kill->snapshot, kill->plan, &out);
                cli_view_gaps(&kill->session->term, kill->snapshot, &out);
        }
        return cli_deliver(kill->session, &out);
}

/*
 * What was done is done, and 2 would say that nothing was: without a reader for it the answer is as incomplete as one
 * of half a look. Standard error has it in a sentence.
 */
static int done_unsaid(const struct kill *kill, const gpufree_report *report, int code)
{
        size_t ended = 0, n = gpufree_report_fate_count(report);

        for (size_t i = 0; i < n; i++) {
                enum gpufree_fate fate = GPUFREE_FATE_SURVIVED;

                (void)gpufree_report_fate(report, i, NULL, &fate, NULL, NULL);
                ended += fate == GPUFREE_FATE_ENDED_BY_SIGNAL || fate == GPUFREE_FATE_KILLED;
        }
        cli_term_error(&kill->session->term, "%zu of %zu processes were ended; the outcome was \"%s\"", ended, n,
                       cli_exit_name(code));
        for (size_t i = 0; kill->parking && i < gpufree_parking_count(kill->parking); i++) {
                struct gpufree_parked_process process;

                if (gpufree_parking_process(kill->parking, i, sizeof(process), &process) >= 0 && process.sentence)
                        cli_term_error(&kill->session->term, "%s", process.sentence);
        }
        return code != GPUFREE_OK ? code : GPUFREE_INCOMPLETE;
}

/* Ends the document begun by show_plan(); `report` may be NULL: nothing was begun. */
static int finish_json(const struct kill *kill, const gpufree_report *report, int code, const char *reason)
{
        json_t *document = json_object();
        struct gf_str out = { 0 };
        int r;

        cli_json_outcome(document, code, reason);
        if (report)
                cli_json_report(document, report, true);
        if (kill->parking)
                cli_json_parked(document, kill->parking, true);
        cli_json_snapshot(document, report ? gpufree_report_snapshot(report) : kill->snapshot, report);
        cli_json_text(&out, document, 2);
        json_decref(document);
        r = cli_deliver(kill->session, &out);
        if (r != 0 && report)
                return done_unsaid(kill, report, code);
        return r != 0 ? r : code;
}

static int finish_without(const struct kill *kill, int code, const char *reason)
{
        return kill->session->request->json ? finish_json(kill, NULL, code, reason) : code;
}

/* On standard error, where standard output has it for a program: nobody agrees to what they have not read. */
static void show_plan_again(const struct kill *kill)
{
        struct cli_session session = *kill->session;
        struct gf_str plan = { 0 };

        session.term.width = session.term.err_width;
        session.term.color = session.term.color && session.term.err_tty;
        cli_view_plan(&session, kill->snapshot, kill->plan, &plan);
        if (!plan.failed && plan.s)
                cli_term_raw(&kill->session->term, plan.s, plan.n);
        gf_str_done(&plan);
}

/* 0: go on. */
static int confirm(const struct kill *kill)
{
        struct cli_session *session = kill->session;
        int r;

        if (session->request->yes || gpufree_plan_target_count(kill->plan) == 0)
                return 0;
        if (!session->term.in_tty) {
                cli_term_error(&session->term,
                               "nothing was ended: standard input is no terminal to confirm on; add --yes to go on");
                return GPUFREE_REFUSED;
        }
        if (session->request->json || session->request->quiet)
                show_plan_again(kill);
        r = cli_term_ask(&session->term, "Go on? [y/N] ", session->cancel_fd);
        if (r == 1)
                return 0;
        if (r == -ENOTTY)
                cli_term_error(&session->term, "nothing was ended: no terminal to ask on; add --yes to go on");
        else
                cli_term_error(&session->term, "nothing was ended: not confirmed");
        return GPUFREE_REFUSED;
}

static int dry_run(const struct kill *kill)
{
        int code = GPUFREE_OK;

        if (gpufree_plan_target_count(kill->plan) == 0 && gpufree_plan_spared_count(kill->plan) > 0)
                code = GPUFREE_REFUSED;
        else if (gpufree_plan_target_count(kill->plan) == 0 && !gpufree_snapshot_complete(kill->snapshot))
                code = GPUFREE_INCOMPLETE;
        return finish_without(kill, code, "dry-run");
}

/* An interrupted kill is an unfinished one, not a death by signal: 1. */
static int nothing_ended(struct cli_session *session, int code)
{
        if (code != GPUFREE_USAGE) /* one line for bad usage */
                cli_term_error(&session->term, "nothing was ended");
        return code >= 128 ? GPUFREE_HELD : code;
}

struct witness {
        struct cli_progress progress;
        struct cli_audit audit;
};

static void on_event(void *userdata, const struct gpufree_event *event)
{
        struct witness *witness = userdata;

        cli_audit_event(&witness->audit, event);
        if (!witness->progress.session->request->quiet)
                cli_progress_event(&witness->progress, event);
}

/*
 * Through the same checked path as `gpufree park`, each for itself. What is parked leaves the plan, and what the driver
 * may still be copying; the rest is ended, as the plan said. 0, -errno: nothing was ended.
 */
static int park_first(struct kill *kill, struct witness *witness)
{
        struct cli_session *session = kill->session;
        enum gpufree_outcome unclear = GPUFREE_OK;
        struct gf_str out = { 0 };
        int r;

        if (gpufree_plan_target_count(kill->plan) == 0)
                return 0;
        r = gpufree_park(session->context, session->selection, kill->plan, &session->request->park, &kill->parking);
        cli_progress_done(&witness->progress);
        if (r < 0)
                return r;
        cli_audit_parking(&witness->audit, kill->parking);
        if (!session->request->json && !session->request->quiet) {
                cli_view_parking(session, kill->parking, &out);
                (void)cli_deliver(session, &out); /* one that cannot be written to is told of at the end */
        }
        r = gpufree_plan_without_parked(kill->plan, kill->parking, &unclear);
        kill->unclear = unclear;
        if (r < 0)
                return r;
        return cli_interrupted() ? -ECANCELED : 0;
}

/* Is one parked whose memory did not come back? */
static bool keeps_memory(const gpufree_parking *parking)
{
        for (size_t i = 0; parking && i < gpufree_parking_count(parking); i++) {
                struct gpufree_parked_process process;

                if (gpufree_parking_process(parking, i, sizeof(process), &process) >= 0 &&
                    process.state == GPUFREE_PARK_PARKED && process.outcome == GPUFREE_RESIDUE)
                        return true;
        }
        return false;
}

static int execute(struct kill *kill)
{
        struct cli_session *session = kill->session;
        struct witness witness = { .progress = { .session = session } };
        _cleanup_report_ gpufree_report *report = NULL;
        struct gf_str out = { 0 };
        const char *reason = NULL;
        int r, code;

        cli_audit_open(&witness.audit, session);
        gpufree_set_event_handler(session->context, on_event, &witness);
        r = session->request->park_first ? park_first(kill, &witness) : 0;
        if (r == 0)
                r = gpufree_kill(session->context, session->selection, kill->plan, &session->request->ladder, &report);
        gpufree_set_event_handler(session->context, NULL, NULL);
        cli_progress_done(&witness.progress);
        if (r < 0) {
                cli_audit_close(&witness.audit);
                code = nothing_ended(session, cli_failed(session, r));
                return finish_without(kill, code, cli_interrupted() ? "interrupted" : "failed");
        }
        code = (int)gpufree_report_outcome(report);
        if (kill->unclear != GPUFREE_OK && (code == GPUFREE_OK || code == GPUFREE_REFUSED))
                code = (int)kill->unclear;
        /* The driver's figures alone could not tell; the parking compared before and after. */
        if (code == GPUFREE_INCOMPLETE && keeps_memory(kill->parking))
                code = GPUFREE_RESIDUE;
        if (cli_interrupted() != 0 && code != GPUFREE_OK) {
                cli_say_interrupted(session);
                code = GPUFREE_HELD;
                reason = "interrupted";
        }
        cli_audit_report(&witness.audit, report, code);
        cli_audit_close(&witness.audit);
        if (session->request->json)
                return finish_json(kill, report, code, reason);
        if (!session->request->quiet) {
                cli_view_fates(session, kill->plan, report, reason != NULL, &out);
                cli_view_verdicts(session, report, &out);
                r = cli_deliver(session, &out);
                return r != 0 ? done_unsaid(kill, report, code) : code;
        }
        for (size_t i = 0; code != GPUFREE_OK && gpufree_report_sentence(report, i); i++)
                cli_term_error(&session->term, "%s", gpufree_report_sentence(report, i));
        return code;
}

/* Is each target one of --shown, by PID and start time? The list was made by the gpufree that asked a person. */
static bool only_shown(const struct kill *kill)
{
        struct cli_session *session = kill->session;
        _cleanup_free_ char *list = gf_asprintf(",%s,", session->request->shown);

        for (size_t i = 0; i < gpufree_plan_target_count(kill->plan); i++) {
                const gpufree_holder *target = gpufree_plan_target(kill->plan, i);
                _cleanup_free_ char *who = gf_asprintf(",%d@%llu,", (int)gpufree_holder_pid(target),
                                                       (unsigned long long)gpufree_holder_start_ticks(target));

                if (list && who && strstr(list, who))
                        continue;
                cli_term_error(&session->term, "nothing was ended: %d is another process than the one that was shown",
                               (int)gpufree_holder_pid(target));
                return false;
        }
        return true;
}

static int kill_planned(struct kill *kill)
{
        int r = show_plan(kill);

        if (r != 0)
                return r;
        if (gpufree_plan_refusal(kill->plan)) {
                cli_term_error(&kill->session->term, "%s", gpufree_plan_refusal(kill->plan));
                return finish_without(kill, GPUFREE_INCOMPLETE, "driver-silent");
        }
        if (kill->session->request->dry_run)
                return dry_run(kill);
        if (kill->session->request->shown && !only_shown(kill))
                return finish_without(kill, GPUFREE_REFUSED, "changed");
        r = confirm(kill);
        if (r != 0)
                return finish_without(kill, r, "not-confirmed");
        r = execute(kill);
        gpufree_parking_unref(kill->parking);
        return r;
}

int cli_kill(struct cli_session *session)
{
        _cleanup_snapshot_ gpufree_snapshot *snapshot = NULL;
        _cleanup_plan_ gpufree_plan *plan = NULL;
        struct kill kill = { .session = session };
        int r;

        r = cli_look(session, &snapshot);
        if (r != 0)
                return nothing_ended(session, r);
        if (cli_no_gpu(session, snapshot))
                return cli_judge_no_gpu(session, snapshot);
        r = gpufree_plan_new(session->context, snapshot, &plan);
        if (r < 0)
                return nothing_ended(session, cli_failed(session, r));
        kill.snapshot = snapshot;
        kill.plan = plan;
        return kill_planned(&kill);
}

/* SPDX-License-Identifier: MIT */
/*
 * kill on other machines, in two rounds: each host's plan, then (agreed to once) just the processes that were shown,
 * each by PID and start time. What a host has of others by then is left alone.
 */
#include <errno.h>
#include <string.h>

#include "fleet.h"

/* May the plan be acted on? Each target is a PID and a start time. */
bool cli_fleet_targets(const struct cli_far *far, size_t *ret_n)
{
        const json_t *targets = json_object_get(json_object_get(far->answer.document, "plan"), "targets");

        for (size_t i = 0; i < json_array_size(targets); i++) {
                const json_t *target = json_array_get(targets, i);

                if (fleet_number(target, "pid", 0) < 2 || fleet_number(target, "pid", 0) > INT32_MAX ||
                    fleet_number(target, "start_time", 0) < 1)
                        return false;
        }
        *ret_n = json_array_size(targets);
        return true;
}

static int prepare(const struct cli_fleet *fleet, struct cli_far *far)
{
        const json_t *targets = json_object_get(json_object_get(far->answer.document, "plan"), "targets");
        struct gf_str pids = { 0 }, shown = { 0 };
        const char *more[] = { "--yes", NULL, NULL, NULL };
        gf_strv argv = { 0 };
        int r = -ENOMEM;

        gf_str_add(&pids, "--pid=");
        gf_str_add(&shown, "--shown=");
        for (size_t i = 0; i < json_array_size(targets); i++) {
                const json_t *target = json_array_get(targets, i);
                json_int_t pid = fleet_number(target, "pid", 0);

                gf_str_addf(&pids, "%s%" JSON_INTEGER_FORMAT, i ? "," : "", pid);
                gf_str_addf(&shown, "%s%" JSON_INTEGER_FORMAT "@%" JSON_INTEGER_FORMAT, i ? "," : "", pid,
                            fleet_number(target, "start_time", 0));
        }
        more[1] = pids.s;
        more[2] = shown.s;
        if (!pids.failed && !shown.failed)
                r = cli_fleet_argv(fleet->session->request, true, more, &argv);
        if (r >= 0)
                r = cli_fleet_line(far, &argv);
        gf_strv_done(&argv);
        gf_str_done(&pids);
        gf_str_done(&shown);
        return r;
}

static int first_round(struct cli_fleet *fleet)
{
        static const char *const more[] = { "--dry-run", NULL };
        struct cli_session *session = fleet->session;
        gf_strv argv = { 0 };
        int r = cli_fleet_argv(session->request, false, more, &argv);

        for (size_t i = 0; i < fleet->hosts.n && r >= 0; i++)
                r = cli_fleet_line(&fleet->hosts.v[i], &argv);
        gf_strv_done(&argv);
        if (r < 0) {
                cli_term_error(&session->term, "nothing was ended: %s", strerror(-r));
                return GPUFREE_INCOMPLETE;
        }
        return cli_fleet_round(fleet, session->request->host_timeout_ms);
}

/* How many hosts have something to end; they are made ready for the second round. */
static int choose(struct cli_fleet *fleet, size_t *ret_hosts)
{
        *ret_hosts = 0;
        for (size_t i = 0; i < fleet->hosts.n; i++) {
                struct cli_far *far = &fleet->hosts.v[i];
                size_t n = 0;
                int r;

                far->asked = false;
                if (far->answer.document && !cli_fleet_targets(far, &n)) {
                        fleet_answer_done(&far->answer);
                        far->answer = (struct fleet_answer){ .outcome = "unreachable",
                                                             .code = -1,
                                                             .reason = "no-json",
                                                             .sentence = strdup("its plan names no processes") };
                        if (!far->answer.sentence)
                                return -ENOMEM;
                }
                if (n == 0)
                        continue;
                r = prepare(fleet, far);
                if (r < 0)
                        return r;
                ++*ret_hosts;
        }
        return 0;
}

static int show(struct cli_fleet *fleet)
{
        struct gf_str out = { 0 };

        if (fleet->session->request->json)
                return 0;
        cli_fleet_view_plan(fleet, &fleet->session->term, &out);
        return cli_deliver(fleet->session, &out);
}

static int confirm(struct cli_fleet *fleet)
{
        struct cli_session *session = fleet->session;
        struct gf_str plan = { 0 };
        int r;

        if (session->request->yes)
                return 0;
        if (!session->term.in_tty) {
                cli_term_error(&session->term,
                               "nothing was ended: standard input is no terminal to confirm on; add --yes to go on");
                return GPUFREE_REFUSED;
        }
        if (session->request->json) {
                struct cli_term term = session->term;

                term.width = term.err_width;
                term.color = term.color && term.err_tty;
                cli_fleet_view_plan(fleet, &term, &plan);
                if (plan.s && !plan.failed)
                        cli_term_raw(&session->term, plan.s, plan.n);
                gf_str_done(&plan);
        }
        r = cli_term_ask(&session->term, "Go on? [y/N] ", session->cancel_fd);
        if (r == 1)
                return 0;
        cli_term_error(&session->term, r == -ENOTTY ? "nothing was ended: no terminal to ask on; add --yes to go on"
                                                    : "nothing was ended: not confirmed");
        return GPUFREE_REFUSED;
}

static int without_a_round(struct cli_fleet *fleet, int code, const char *reason)
{
        return fleet->session->request->json ? cli_fleet_finish(fleet, code, reason) : code;
}

static uint64_t time_for(const struct cli_request *request)
{
        uint64_t sum = request->host_timeout_ms;

        if (__builtin_add_overflow(sum, request->ladder.timeout_ms, &sum) ||
            __builtin_add_overflow(sum, request->ladder.settle_ms, &sum))
                return GPUFREE_UNKNOWN;
        return sum;
}

int cli_fleet_kill(struct cli_fleet *fleet)
{
        struct cli_session *session = fleet->session;
        size_t hosts = 0;
        int r = first_round(fleet);

        if (r != 0)
                return r;
        if (fleet->cancelled) {
                cli_say_interrupted(session);
                cli_term_error(&session->term, "nothing was ended");
                return without_a_round(fleet, GPUFREE_HELD, "interrupted");
        }
        if (choose(fleet, &hosts) < 0) {
                cli_term_error(&session->term, "nothing was ended: %s", strerror(ENOMEM));
                return GPUFREE_INCOMPLETE;
        }
        r = show(fleet);
        if (r != 0)
                return r;
        if (session->request->dry_run || hosts == 0)
                return without_a_round(fleet, cli_fleet_code(fleet), session->request->dry_run ? "dry-run" : NULL);
        r = confirm(fleet);
        if (r != 0)
                return without_a_round(fleet, r, "not-confirmed");
        r = cli_fleet_round(fleet, time_for(session->request));
        if (r != 0)
                return r;
        r = cli_fleet_code(fleet);
        if (!fleet->cancelled)
                return cli_fleet_finish(fleet, r, NULL);
        cli_say_interrupted(session);
        return cli_fleet_finish(fleet, r != GPUFREE_OK ? GPUFREE_HELD : r, "interrupted");
}

/* SPDX-License-Identifier: MIT */
/* The owners in a plan: who starts the targets again, and what stops that. Said before anything is signalled. */
#include <string.h>

#include "json.h"
#include "plan_view.h"
#include "view.h"

#define MOST_PIDS 8

struct owner {
        enum gpufree_restart restart;
        const char *owner, *why, *command, *advice, *warning, *refusal;
        int stop;
        bool run;
};

static bool owner_of(const gpufree_plan *plan, size_t position, struct owner *ret)
{
        *ret = (struct owner){ .stop = -1 };
        return gpufree_plan_owner(plan, position, &ret->restart, &ret->owner, &ret->why, &ret->command, &ret->advice,
                                  &ret->warning, &ret->refusal, &ret->stop, &ret->run) >= 0 &&
               ret->stop >= 0;
}

bool cli_plan_runs_stop(const gpufree_plan *plan, size_t position)
{
        struct owner o;

        return owner_of(plan, position, &o) && o.run;
}

/* Is this the first target with that stop? */
static bool is_first(const gpufree_plan *plan, size_t position, int stop)
{
        struct owner o;

        for (size_t i = 0; i < position; i++)
                if (owner_of(plan, i, &o) && o.stop == stop)
                        return false;
        return true;
}

/* "21316, 21317": the targets with that stop. */
static void add_pids(const gpufree_plan *plan, int stop, struct gf_str *line)
{
        size_t n = 0;
        struct owner o;

        for (size_t i = 0; i < gpufree_plan_target_count(plan); i++) {
                if (!owner_of(plan, i, &o) || o.stop != stop)
                        continue;
                if (n++ < MOST_PIDS)
                        gf_str_addf(line, "%s%d", n > 1 ? ", " : "",
                                    (int)gpufree_holder_pid(gpufree_plan_target(plan, i)));
        }
        if (n > MOST_PIDS)
                gf_str_addf(line, " and %zu more", n - MOST_PIDS);
}

static void add_stopping(const struct owner *o, struct gf_str *line)
{
        gf_str_addf(line, ": first %s", o->command);
        if (o->owner)
                gf_str_addf(line, ", which stops %s", o->owner);
        if (o->why)
                gf_str_addf(line, "; %s", o->why);
        if (o->warning)
                gf_str_addf(line, "; %s", o->warning);
        gf_str_addc(line, '.');
}

static void add_not_stopping(const struct owner *o, bool asked, struct gf_str *line)
{
        if (o->why)
                gf_str_addf(line, ": %s", o->why);
        else
                gf_str_addf(line, ": whether %s starts it again is not known", o->owner ? o->owner : "something");
        if (asked && o->refusal)
                gf_str_addf(line, "; its owner is not stopped: %s", o->refusal);
        else if (o->command)
                gf_str_addf(line, ". For good: %s%s", o->command, o->run ? " (--stop-owner does that)" : "");
        else if (o->advice)
                gf_str_addf(line, ". For good: %s", o->advice);
        else if (o->refusal)
                gf_str_addf(line, "; its owner is not for gpufree to stop: %s", o->refusal);
        gf_str_addc(line, '.');
}

void cli_view_plan_owners(const struct cli_session *session, const gpufree_plan *plan, struct gf_str *out)
{
        bool asked = session->request->ladder.stop_owner;

        for (size_t i = 0; i < gpufree_plan_target_count(plan); i++) {
                struct gf_str line = { 0 };
                struct owner o;

                if (!owner_of(plan, i, &o) || !is_first(plan, i, o.stop))
                        continue;
                /* What stays ended when it is ended needs no word, unless a word was asked for. */
                if (o.restart == GPUFREE_RESTART_NO && !(asked && (o.run || o.refusal)))
                        continue;
                /* Known is neither who would start it nor how to stop that: nothing to read. */
                if (o.restart == GPUFREE_RESTART_UNKNOWN && !o.why && !o.command && !o.advice && !asked)
                        continue;
                add_pids(plan, o.stop, &line);
                if (asked && o.run)
                        add_stopping(&o, &line);
                else
                        add_not_stopping(&o, asked, &line);
                out->failed |= line.failed;
                cli_view_sentence(&session->term, out, line.s ? line.s : "");
                gf_str_done(&line);
        }
}

void cli_json_plan_owner(json_t *target, const gpufree_plan *plan, size_t position)
{
        json_t *object;
        struct owner o;

        if (!owner_of(plan, position, &o)) {
                cli_json_set(target, "stop", NULL);
                return;
        }
        object = json_object();
        cli_json_set(object, "restart", json_string(gpufree_restart_name(o.restart)));
        cli_json_set(object, "why", cli_json_text_or_null(o.why));
        cli_json_set(object, "owner", cli_json_text_or_null(o.owner));
        cli_json_set(object, "command", cli_json_text_or_null(o.command));
        cli_json_set(object, "advice", cli_json_text_or_null(o.advice));
        cli_json_set(object, "warning", cli_json_text_or_null(o.warning));
        cli_json_set(object, "refusal", cli_json_text_or_null(o.refusal));
        cli_json_set(object, "runs", json_boolean(o.run));
        cli_json_set(object, "group", json_integer(o.stop));
        cli_json_set(target, "stop", object);
}

void cli_json_stops(json_t *document, const gpufree_report *report)
{
        json_t *stops = json_array();

        for (size_t i = 0; i < gpufree_report_stop_count(report); i++) {
                const char *owner = NULL, *command = NULL, *output = NULL, *sentence = NULL;
                enum gpufree_stop_outcome outcome = GPUFREE_STOP_REFUSED;
                uint64_t elapsed = GPUFREE_UNKNOWN;
                int status = -1;
                json_t *object;

                if (gpufree_report_stop(report, i, &owner, &command, &outcome, &status, &output, &sentence, &elapsed) <
                    0)
                        continue;
                object = json_object();
                cli_json_set(object, "owner", cli_json_text_or_null(owner));
                cli_json_set(object, "command", cli_json_text_or_null(command));
                cli_json_set(object, "outcome", json_string(gpufree_stop_outcome_name(outcome)));
                cli_json_set(object, "status", cli_json_index(status));
                cli_json_set(object, "output", cli_json_text_or_null(output));
                cli_json_set(object, "sentence", cli_json_text_or_null(sentence));
                cli_json_set(object, "elapsed_ms", cli_json_number(elapsed));
                (void)json_array_append_new(stops, object);
        }
        cli_json_set(document, "stops", stops);
}

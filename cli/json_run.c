/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "json.h"

/* An exit status of 121 can be the command's own: what happened is told by the result, not by the number. */
static const char *outcome_of(const struct gpufree_guard_result *result, int code, bool claimed)
{
        if (result->starts == 0)
                return code >= 128 ? "interrupted" : claimed ? "not-started" : "not-free";
        if (result->verified == 0 || result->stuck > 0)
                return "not-back";
        if (result->error != 0)
                return "not-started";
        if (result->readiness == GPUFREE_READY_LATE || result->readiness == GPUFREE_READY_STALLED)
                return "not-ready";
        return result->status == 0 ? "ok" : "command-failed";
}

static json_t *ready_object(const struct gpufree_guard_result *result)
{
        json_t *object = json_object();

        cli_json_set(object, "state", cli_json_text_or_null(gpufree_guard_readiness_name(result->readiness)));
        cli_json_set(object, "after_ms", cli_json_number(result->ready_ms));
        return object;
}

static json_t *ended_object(const struct gpufree_guard_result *result)
{
        json_t *object = json_object();

        cli_json_set(object, "signalled", json_integer(result->signalled));
        cli_json_set(object, "killed", json_integer(result->killed));
        cli_json_set(object, "stuck", json_integer(result->stuck));
        return object;
}

static json_t *claimed_array(const gpufree_guard *guard)
{
        json_t *array = json_array();
        const gpufree_gpu *gpu;

        for (size_t i = 0; (gpu = gpufree_guard_gpu(guard, i)) != NULL; i++) {
                json_t *object = json_object();

                cli_json_set(object, "index", cli_json_index(gpufree_gpu_index(gpu)));
                cli_json_set(object, "uuid", cli_json_text_or_null(gpufree_gpu_uuid(gpu)));
                cli_json_set(object, "pci", cli_json_text_or_null(gpufree_gpu_pci(gpu)));
                (void)json_array_append_new(array, object);
        }
        return array;
}

static json_t *run_object(const struct cli_session *session, const gpufree_guard *guard,
                          const struct gpufree_guard_result *result)
{
        json_t *object = json_object(), *argv = json_array();
        bool started = result->starts > 0;

        for (size_t i = 0; session->request->run[i]; i++)
                (void)json_array_append_new(
                        argv, cli_json_string(session->request->run[i], strlen(session->request->run[i])));
        cli_json_set(object, "argv", argv);
        cli_json_set(object, "claimed", claimed_array(guard));
        cli_json_set(object, "starts", json_integer((json_int_t)result->starts));
        cli_json_set(object, "pid", result->pid > 0 ? json_integer(result->pid) : NULL);
        cli_json_set(object, "status", result->status >= 0 ? json_integer(result->status) : NULL);
        cli_json_set(object, "signal", result->signal > 0 ? json_integer(result->signal) : NULL);
        cli_json_set(object, "error", result->error > 0 ? cli_json_text_or_null(strerror(result->error)) : NULL);
        cli_json_set(object, "ready", started ? ready_object(result) : NULL);
        cli_json_set(object, "ended", started ? ended_object(result) : NULL);
        cli_json_set(object, "verified", result->verified < 0 ? NULL : json_boolean(result->verified));
        return object;
}

json_t *cli_json_run(const struct cli_session *session, const gpufree_guard *guard, int code, bool claimed,
                     const gf_strv *sentences)
{
        struct gpufree_guard_result result = { .size = sizeof(result) };
        const gpufree_report *report = gpufree_guard_report(guard);
        const gpufree_snapshot *snapshot = report ? gpufree_report_snapshot(report) : gpufree_guard_snapshot(guard);
        json_t *document = cli_json_new(session), *status = json_object(), *texts = json_array();
        const char *outcome;

        if (gpufree_guard_result(guard, &result) < 0) {
                json_decref(document);
                json_decref(status);
                json_decref(texts);
                return NULL;
        }
        outcome = outcome_of(&result, code, claimed);
        cli_json_set(document, "outcome", json_string(outcome));
        cli_json_set(status, "code", json_integer(code));
        cli_json_set(status, "name", json_string(outcome));
        cli_json_set(document, "exit", status);
        cli_json_set(document, "reason", NULL);
        cli_json_set(document, "run", run_object(session, guard, &result));
        for (size_t i = 0; i < sentences->n; i++)
                (void)json_array_append_new(texts, cli_json_text_or_null(sentences->v[i]));
        cli_json_set(document, "sentences", texts);
        cli_json_set(document, "elapsed_ms", cli_json_number(result.elapsed_ms));
        if (snapshot)
                cli_json_snapshot(document, snapshot, report);
        return document;
}

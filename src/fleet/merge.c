/* SPDX-License-Identifier: MIT */
#include "fleet/merge.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"

#define SCHEMA 1
#define SSH_FAILED 255

static const char *const outcomes[] = { "ok",      "held",    "usage",   "incomplete",
                                        "refused", "residue", "timeout", "interrupted" };

const char *fleet_text(const json_t *object, const char *key)
{
        return json_string_value(json_object_get(object, key));
}

json_int_t fleet_number(const json_t *object, const char *key, json_int_t fallback)
{
        const json_t *value = json_object_get(object, key);

        return json_is_integer(value) ? json_integer_value(value) : fallback;
}

/* The last line of what was said that has anything in it; malloc'ed, NULL: none. */
static char *last_line(const struct gf_str *said)
{
        size_t end = said->n, begin;

        while (end > 0 && strchr("\r\n \t", said->s[end - 1]))
                end--;
        for (begin = end; begin > 0 && said->s[begin - 1] != '\n';)
                begin--;
        if (end - begin > 300)
                end = begin + 300;
        return begin < end ? strndup(said->s + begin, end - begin) : NULL;
}

static bool said(const struct fleet_job *job, const char *what)
{
        return job->said.s && strstr(job->said.s, what);
}

static const char *why_ssh(const struct fleet_job *job)
{
        static const struct {
                const char *text, *reason;
        } table[] = {
                { "Connection refused", "refused" },
                { "Host key verification failed", "host-key" },
                { "REMOTE HOST IDENTIFICATION HAS CHANGED", "host-key" },
                { "Permission denied", "denied" },
                { "Too many authentication failures", "denied" },
                { "Could not resolve hostname", "unknown-host" },
                { "timed out", "no-answer" },
                { "not responding", "no-answer" },
                { "No route to host", "no-route" },
                { "Network is unreachable", "no-route" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (said(job, table[i].text))
                        return table[i].reason;
        return "ssh";
}

static const char *reason_words(const char *reason)
{
        static const struct {
                const char *reason, *words;
        } table[] = {
                { "refused", "connection refused" },
                { "host-key", "its host key is not the known one" },
                { "denied", "login refused" },
                { "unknown-host", "no such host" },
                { "no-answer", "no answer" },
                { "no-route", "no way there" },
                { "ssh", "ssh failed" },
                { "not-installed", "gpufree is not installed there" },
                { "too-large", "its answer is too large" },
                { "no-json", "its answer is no document of gpufree" },
                { "schema", "its gpufree speaks another schema" },
                { "usage", "gpufree there did nothing" },
                { "died", "gpufree there was ended by a signal" },
                { "interrupted", "interrupted" },
                { "not-started", "ssh could not be started" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (strcmp(table[i].reason, reason) == 0)
                        return table[i].words;
        return reason;
}

static int give_reason(struct fleet_answer *answer, const struct fleet_job *job, const char *reason, const char *detail)
{
        _cleanup_free_ char *line = detail ? strdup(detail) : last_line(&job->said);

        answer->reason = reason;
        answer->outcome = "unreachable";
        answer->sentence = line ? gf_asprintf("%s (%s)", reason_words(reason), line)
                                : gf_asprintf("%s", reason_words(reason));
        return answer->sentence ? 0 : -ENOMEM;
}

/* What a login's start-up files print comes first: lines before the one that begins the document. */
static const char *skip_greeting(const char *output)
{
        const char *brace = output[0] == '{' ? NULL : strstr(output, "\n{");

        return brace ? brace + 1 : output;
}

static int take_document(const struct fleet_job *job, const char *command, struct fleet_answer *answer)
{
        json_error_t error;
        const char *text = skip_greeting(job->output.s);
        json_t *document = json_loadb(text, job->output.n - (size_t)(text - job->output.s), JSON_REJECT_DUPLICATES,
                                      &error);
        json_int_t schema = fleet_number(document, "schema", -1), code;
        const char *outcome = fleet_text(document, "outcome"), *named = fleet_text(document, "command");

        if (!json_is_object(document) || schema < 0 || !named || strcmp(named, command) != 0) {
                json_decref(document);
                return -EBADMSG;
        }
        if (schema != SCHEMA) {
                _cleanup_free_ char *detail = gf_asprintf(
                        "its is %" JSON_INTEGER_FORMAT ", this one reads %d: use the same version", schema, SCHEMA);

                json_decref(document);
                return give_reason(answer, job, "schema", detail);
        }
        code = fleet_number(json_object_get(document, "exit"), "code", -1);
        for (size_t i = 0; outcome && i < ELEMENTSOF(outcomes); i++)
                if (strcmp(outcome, outcomes[i]) == 0)
                        answer->outcome = outcomes[i];
        /* The document and the exit status have to be of the same opinion. */
        if (!answer->outcome || code != job->status) {
                answer->outcome = NULL;
                json_decref(document);
                return -EBADMSG;
        }
        answer->document = document;
        return 0;
}

int fleet_answer_read(const struct fleet_job *job, const char *command, uint64_t timeout_ms,
                      struct fleet_answer *ret_answer)
{
        struct fleet_answer answer = { .code = -1 };
        char text[GF_TEXT_MAX];
        int r = -EBADMSG;

        if (job->ended && job->status < SSH_FAILED && job->output.n > 0 && !job->output.failed) {
                answer.code = job->status;
                r = take_document(job, command, &answer);
        }
        if (r == -EBADMSG) {
                if (job->error != 0)
                        r = give_reason(&answer, job, "not-started", strerror(job->error));
                else if (job->too_large)
                        r = give_reason(&answer, job, "too-large", NULL);
                else if (job->timed_out) {
                        _cleanup_free_ char *detail = gf_asprintf("after %s", gf_format_duration(timeout_ms, text));

                        r = give_reason(&answer, job, "no-answer", detail);
                } else if (job->cancelled)
                        r = give_reason(&answer, job, "interrupted", NULL);
                else if (job->status == SSH_FAILED)
                        r = give_reason(&answer, job, why_ssh(job), NULL);
                else if (job->status == 127 && job->output.n == 0)
                        r = give_reason(&answer, job, "not-installed", NULL);
                else if (job->status == 2 && job->output.n == 0)
                        r = give_reason(&answer, job, "usage", NULL);
                else if (job->status > 128)
                        r = give_reason(&answer, job, "died", NULL);
                else
                        r = give_reason(&answer, job, "no-json", NULL);
        }
        if (r < 0) {
                fleet_answer_done(&answer);
                return r;
        }
        *ret_answer = answer;
        return 0;
}

void fleet_answer_done(struct fleet_answer *answer)
{
        free(answer->sentence);
        json_decref(answer->document);
        *answer = (struct fleet_answer){ .code = -1 };
}

static int rank(int code)
{
        static const int order[] = { 0, 3, 4, 6, 5, 1 };

        for (size_t i = 0; i < ELEMENTSOF(order); i++)
                if (order[i] == code)
                        return (int)i;
        return 1; /* 2, and anything that is none of ours: as 3 */
}

int fleet_worse(int a, int b)
{
        return rank(a) >= rank(b) ? a : b;
}

int fleet_answer_code(const struct fleet_answer *answer)
{
        return answer->document && (answer->code == 0 || rank(answer->code) > 1) ? answer->code : 3;
}

json_t *fleet_answer_json(const struct fleet_answer *answer, json_t *host, json_t *sentence)
{
        json_t *object = json_object();

        (void)json_object_set_new(object, "host", host);
        (void)json_object_set_new(object, "outcome", json_string(answer->outcome));
        (void)json_object_set_new(object, "exit_code", answer->code < 0 ? json_null() : json_integer(answer->code));
        (void)json_object_set_new(object, "reason", answer->reason ? json_string(answer->reason) : json_null());
        (void)json_object_set_new(object, "sentence", sentence);
        (void)json_object_set(object, "result", answer->document ? answer->document : json_null());
        return object;
}

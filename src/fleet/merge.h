/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include "fleet/transport.h"

/* What one host said, judged. Nothing of it is trusted: the document is JSON of our schema or it is no document. */
struct fleet_answer {
        const char *outcome; /* of the remote gpufree: one of the known names; else "unreachable" */
        int code;            /* its exit status; -1: it gave none */
        const char *reason;  /* why there is no document, a fixed word (docs/json.md); NULL: there is one */
        char *sentence;      /* the reason for people, with what ssh said last: any bytes, escape it; malloc'ed */
        json_t *document;    /* owned */
};

/* Takes the job's output apart; `timeout_ms` as in the transport, `command` as it was asked for. -ENOMEM. */
int fleet_answer_read(const struct fleet_job *job, const char *command, uint64_t timeout_ms,
                      struct fleet_answer *ret_answer);
void fleet_answer_done(struct fleet_answer *answer);

/*
 * The worse of two exit statuses: 1 (held, survivors), 5 (residue), 6 (timeout), 4 (refused), 3 (not everything could
 * be seen), 0. A host that gave no answer, and one that did not take the command line, counts as 3.
 */
int fleet_worse(int a, int b);
int fleet_answer_code(const struct fleet_answer *answer);
/* {host, outcome, exit_code, reason, sentence, result}; a new reference. The texts must be valid UTF-8 or are left out.
 */
json_t *fleet_answer_json(const struct fleet_answer *answer, json_t *host, json_t *sentence);

/* Reading a document whose shape is not to be relied on: NULL, fallback where it is something else. */
const char *fleet_text(const json_t *object, const char *key);
json_int_t fleet_number(const json_t *object, const char *key, json_int_t fallback);

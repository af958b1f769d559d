/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include "gpufree.h"
#include "session.h"

/* Documents as docs/json.md describes them. Functions return a new reference, NULL without memory. */
json_t *cli_json_new(const struct cli_session *session); /* schema, version, command */
/* Adds outcome, exit and reason. */
void cli_json_outcome(json_t *document, int code, const char *reason);
/* Adds scan, driver, gpus, holders, others. `report` may be NULL: no verdicts. */
void cli_json_snapshot(json_t *document, const gpufree_snapshot *snapshot, const gpufree_report *report);
void cli_json_plan(json_t *document, const gpufree_snapshot *snapshot, const gpufree_plan *plan,
                   const struct gpufree_ladder *ladder);
/* Adds sentences, elapsed_ms and, for kill, fates. */
void cli_json_report(json_t *document, const gpufree_report *report, bool fates);

/* plan_owners.c: adds "stop" to a target of the plan; "stops" to the document of a report. */
void cli_json_plan_owner(json_t *target, const gpufree_plan *plan, size_t position);
void cli_json_stops(json_t *document, const gpufree_report *report);

/* The text of a document. With `part` 1 its begin without the closing brace, with 2 the rest: a document in two pieces.
 */
void cli_json_text(struct gf_str *out, const json_t *document, int part);
/* Parts, for the two files. What is not known becomes null: NULL, GPUFREE_UNKNOWN, -1. Takes `value` over. */
void cli_json_set(json_t *object, const char *key, json_t *value);
json_t *cli_json_text_or_null(const char *text);
json_t *cli_json_number(uint64_t value);
json_t *cli_json_index(int value);
json_t *cli_json_holder(const gpufree_snapshot *snapshot, const gpufree_holder *holder);
/* Valid UTF-8 from any bytes: what is none becomes U+FFFD. */
json_t *cli_json_string(const char *text, size_t n);

/* json_run.c: the document of a guard; `code` is its exit status, `claimed`: the command was to be started. */
json_t *cli_json_run(const struct cli_session *session, const gpufree_guard *guard, int code, bool claimed,
                     const gf_strv *sentences);

/* json_explain.c */
json_t *cli_json_account(const gpufree_account *account);
json_t *cli_json_story(const gpufree_snapshot *snapshot, const gpufree_story *story);
void cli_json_blockers(json_t *document, const gpufree_blockers *blockers);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "session.h"

/* What check and wait (and kill, at its end) do with a report. */

/* Writes it in the form asked for. Returns the exit code. */
int cli_judge_report(struct cli_session *session, const gpufree_report *report, int code, const char *reason);
/* Broken off before there was an answer: as JSON a document that says so, else nothing. Returns the exit code. */
int cli_judge_nothing(struct cli_session *session, int code, const char *reason);
/* "no GPU here": the note, the empty document. Returns the exit code, 0. */
int cli_judge_no_gpu(struct cli_session *session, const gpufree_snapshot *snapshot);

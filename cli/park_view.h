/* SPDX-License-Identifier: MIT */
#pragma once

#include "json.h"
#include "session.h"

/* Sentences about each process, and about the whole. */
void cli_view_parking(const struct cli_session *session, const gpufree_parking *parking, struct gf_str *out);
/* Of `list`: who is parked, since when, by whom. Nothing where nobody is. */
void cli_view_parked(const struct cli_session *session, const gpufree_parking *parking, struct gf_str *out);
/* Adds "parked" (an array); with `whole` also sentences and elapsed_ms. `parking` may be NULL. */
void cli_json_parking(json_t *document, const gpufree_parking *parking, bool whole);

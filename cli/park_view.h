/* SPDX-License-Identifier: MIT */
#pragma once

#include "json.h"
#include "session.h"

/* Sentences about each process, and about the whole. */
void cli_view_parking(const struct cli_session *session, const gpufree_parking *parking, struct gf_str *out);
/* Of `list`: who is parked, since when, by whom. Nothing where nobody is. */
void cli_view_parked(const struct cli_session *session, const gpufree_parking *parking, struct gf_str *out);
/* Adds "parked", an array; without `running_too` those that run are left out. `parking` may be NULL. */
void cli_json_parked(json_t *document, const gpufree_parking *parking, bool running_too);
/* The same, all of them, with "sentences" and "elapsed_ms". */
void cli_json_parking(json_t *document, const gpufree_parking *parking);

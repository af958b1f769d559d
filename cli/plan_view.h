/* SPDX-License-Identifier: MIT */
#pragma once

#include "session.h"

/* What would be ended, what it frees, what is left alone and why. */
void cli_view_plan(const struct cli_session *session, const gpufree_snapshot *snapshot, const gpufree_plan *plan,
                   struct gf_str *out);
/* What became of the targets: those that did not simply end, or (`all`) every one of them. */
void cli_view_fates(const struct cli_session *session, const gpufree_plan *plan, const gpufree_report *report, bool all,
                    struct gf_str *out);
/* Who starts the targets again, and what stops that: a line each. */
void cli_view_plan_owners(const struct cli_session *session, const gpufree_plan *plan, struct gf_str *out);
/* Does --stop-owner run a command for this target? */
bool cli_plan_runs_stop(const gpufree_plan *plan, size_t position);

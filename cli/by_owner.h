/* SPDX-License-Identifier: MIT */
#pragma once

#include "json.h"

/* list --by owner. The table of the selected holders, a line for each owner. */
void cli_view_by_owner(const struct cli_session *session, const gpufree_snapshot *snapshot, struct gf_str *out);
/* Adds "owners". */
void cli_json_by_owner(json_t *document, const gpufree_snapshot *snapshot);

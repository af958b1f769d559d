/* SPDX-License-Identifier: MIT */
#pragma once

#include "gpufree.h"
#include "session.h"
#include "table.h"

/* Holders and GPUs in words: what the commands for people share. Texts are escaped, malloc'ed, NULL without memory. */

char *cli_view_gpu(const gpufree_snapshot *snapshot, int gpu); /* "3", "0000:18:00.0", "–" for none */
/* "1 process", "3 processes" */
char *cli_view_count(size_t n, const char *one, const char *many);
char *cli_view_user(const struct cli_term *term, const gpufree_holder *holder);
char *cli_view_command(const struct cli_term *term, const gpufree_holder *holder);
char *cli_view_owner(const struct cli_term *term, const gpufree_holder *holder);
/* How it holds that GPU (-1: whatever it holds): "fd ×20, map; leader zombie". */
char *cli_view_how(const struct cli_term *term, const gpufree_snapshot *snapshot, const gpufree_holder *holder,
                   int gpu);
char *cli_view_size(uint64_t bytes);  /* "?" when not known */
char *cli_view_duration(uint64_t ms); /* "10 s", not "10.0 s" */
/* What dma-bufs alone keep, for a holder that no GPU can be named for; GPUFREE_UNKNOWN none. */
uint64_t cli_loose_memory(const gpufree_holder *holder);

/* "0-3, 5" of the GPUs for which `has` is set (as many as the snapshot has). */
char *cli_view_gpu_set(const gpufree_snapshot *snapshot, const bool *has);
bool cli_holds_any(const gpufree_holder *holder); /* a context or memory on some GPU */

/* The block of GPU lines; `report` may be NULL. Then what stands in the way of a GPU alone. */
void cli_view_gpus(const struct cli_session *session, const gpufree_snapshot *snapshot, const gpufree_report *report,
                   struct gf_str *out);
/* The table of the selected holders. */
void cli_view_holders(const struct cli_session *session, const gpufree_snapshot *snapshot, struct gf_str *out);
/* A sentence from us or the library, escaped, broken at the width. */
void cli_view_sentence(const struct cli_term *term, struct gf_str *out, const char *text);
/* One line a judged GPU: what became of it, on what evidence; then the sentences of the report. */
void cli_view_verdicts(const struct cli_session *session, const gpufree_report *report, struct gf_str *out);
/* Text from the library, escaped; NULL is empty. */
char *cli_view_text(const struct cli_term *term, const char *text);
/* The reasons for an incomplete look, and what the driver said. */
void cli_view_gaps(const struct cli_term *term, const gpufree_snapshot *snapshot, struct gf_str *out);

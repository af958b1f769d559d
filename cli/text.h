/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * Text for a terminal. What comes from processes is escaped first: control bytes and bytes that are no UTF-8 become
 * "\xHH"; characters that move, hide or turn text (C1, bidirectional marks, zero width, unassigned) "\uHHHH". Plain
 * combining marks stay. `utf8` false: the terminal takes ASCII only, everything else is escaped too.
 */

/* The first character of s[0 … n - 1]: its length in bytes, or 0 where that is no UTF-8. */
size_t cli_text_decode(const char *s, size_t n, uint32_t *ret_character);
void cli_text_escape(struct gf_str *out, const char *s, size_t n, bool utf8);
/* Our own typography, where the terminal takes ASCII only: "×" "…" "–" become "x" "..." "-". */
void cli_text_plain(struct gf_str *out, const char *s);

/* Of text already escaped: cells on the terminal; cut to at most `width` cells, the last one(s) being the mark "…". */
size_t cli_text_width(const char *s);
void cli_text_fit(struct gf_str *out, const char *s, size_t width, bool utf8);
/*
 * Broken at spaces to lines of at most `width` cells (0: no limit), continuation lines indented; ends in a newline.
 * `start`: cells that the first line has already.
 */
void cli_text_wrap(struct gf_str *out, const char *s, size_t width, size_t indent, size_t start);

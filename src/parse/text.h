/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Small steps over text that need not end in a NUL. Each moves `p` on and leaves it alone when it fails.
 */
struct gf_text {
        const char *p, *end;
};

/* The next line without its newline; false at the end. */
bool gf_text_line(struct gf_text *text, struct gf_text *ret_line);
void gf_text_skip(struct gf_text *text, char c); /* any number of them */
bool gf_text_char(struct gf_text *text, char c); /* exactly one */
bool gf_text_word(struct gf_text *text, const char *word);
/* Digits in `base` (8, 10, 16); false: none there, or too large. */
bool gf_text_u64(struct gf_text *text, unsigned base, uint64_t *ret);
bool gf_text_i64(struct gf_text *text, int64_t *ret);
/* What stands before the next `stop` (which is passed over), or all that is left. False: nothing is left. */
bool gf_text_until(struct gf_text *text, char stop, struct gf_text *ret);

/*
 * Undoes the \ooo that /proc puts for blanks and newlines in paths; anything else stays. NUL-terminated in `out`;
 * false: does not fit.
 */
bool gf_text_unescape(const char *text, size_t length, char *out, size_t size);

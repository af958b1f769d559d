/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "base/vec.h"

/* Pure layout: cells in, lines of at most `width` cells out. Knows no terminal. */
enum cli_style {
        CLI_PLAIN,
        CLI_BOLD,
        CLI_DIM,
        CLI_GREEN,
        CLI_YELLOW,
        CLI_RED,
};

struct cli_column {
        const char *title; /* NULL in every column: no heading */
        bool right;
        size_t min;    /* may be cut down to so many cells; 0: never cut */
        unsigned drop; /* left out when room is short, the lowest number first; 0: never left out */
};

struct cli_cell {
        char *text; /* escaped; owned */
        enum cli_style style;
};

struct cli_table {
        const struct cli_column *columns;
        size_t n_columns, indent;
        GF_VEC(struct cli_cell) cells; /* row after row */
};

/* Takes `text` over, in row-major order. NULL (out of memory, where it was made) becomes an empty cell. */
void cli_table_add(struct cli_table *table, char *text, enum cli_style style);
void cli_table_done(struct cli_table *table);
/* Width 0: no limit. A column without `min` (a PID) is never cut: half a PID is another process. */
void cli_table_render(const struct cli_table *table, size_t width, bool utf8, bool color, struct gf_str *out);
const char *cli_style_code(enum cli_style style); /* the escape sequence that begins it */
#define CLI_STYLE_END "\033[0m"

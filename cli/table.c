/* SPDX-License-Identifier: MIT */
#include "table.h"

#include <stdint.h>

#include "text.h"

#define COLUMNS_MAX 16
#define GAP 2

void cli_table_add(struct cli_table *table, char *text, enum cli_style style)
{
        struct cli_cell *cell = gf_vec_add(&table->cells);

        if (!cell) {
                free(text);
                return;
        }
        cell->text = text;
        cell->style = style;
}

void cli_table_done(struct cli_table *table)
{
        for (size_t i = 0; i < table->cells.n; i++)
                free(table->cells.v[i].text);
        gf_vec_done(&table->cells);
}

const char *cli_style_code(enum cli_style style)
{
        switch (style) {
        case CLI_BOLD:
                return "\033[1m";
        case CLI_DIM:
                return "\033[2m";
        case CLI_GREEN:
                return "\033[32m";
        case CLI_YELLOW:
                return "\033[33m";
        case CLI_RED:
                return "\033[31m";
        case CLI_PLAIN:
        default:
                return "";
        }
}

struct layout {
        size_t widths[COLUMNS_MAX];
        bool dropped[COLUMNS_MAX];
};

static const char *cell_text(const struct cli_table *table, size_t row, size_t column)
{
        const struct cli_cell *cell = &table->cells.v[row * table->n_columns + column];

        return cell->text ? cell->text : "";
}

static size_t row_count(const struct cli_table *table)
{
        return table->cells.n / table->n_columns;
}

static void natural_widths(const struct cli_table *table, struct layout *layout)
{
        for (size_t c = 0; c < table->n_columns; c++) {
                const char *title = table->columns[c].title;

                layout->widths[c] = title ? cli_text_width(title) : 0;
                for (size_t row = 0; row < row_count(table); row++) {
                        size_t w = cli_text_width(cell_text(table, row, c));

                        if (w > layout->widths[c])
                                layout->widths[c] = w;
                }
        }
}

static size_t total_width(const struct cli_table *table, const struct layout *layout)
{
        size_t total = table->indent, shown = 0;

        for (size_t c = 0; c < table->n_columns; c++)
                if (!layout->dropped[c]) {
                        total += layout->widths[c];
                        shown++;
                }
        return total + (shown > 1 ? (shown - 1) * GAP : 0);
}

/* Cuts the widest column that may still be cut, cell by cell, so that none suffers alone. */
static bool shrink(const struct cli_table *table, struct layout *layout, size_t width, bool to_nothing)
{
        size_t total = total_width(table, layout);

        while (total > width) {
                size_t widest = SIZE_MAX;

                for (size_t c = 0; c < table->n_columns; c++) {
                        size_t min = to_nothing ? 1 : table->columns[c].min;

                        if (layout->dropped[c] || table->columns[c].min == 0 || layout->widths[c] <= min)
                                continue;
                        if (widest == SIZE_MAX || layout->widths[c] > layout->widths[widest])
                                widest = c;
                }
                if (widest == SIZE_MAX)
                        return false;
                layout->widths[widest]--;
                total--;
        }
        return true;
}

static bool drop_one(const struct cli_table *table, struct layout *layout)
{
        size_t next = SIZE_MAX;

        for (size_t c = 0; c < table->n_columns; c++)
                if (!layout->dropped[c] && table->columns[c].drop > 0 &&
                    (next == SIZE_MAX || table->columns[c].drop < table->columns[next].drop))
                        next = c;
        if (next == SIZE_MAX)
                return false;
        layout->dropped[next] = true;
        return true;
}

static void make_layout(const struct cli_table *table, size_t width, struct layout *layout)
{
        natural_widths(table, layout);
        if (width == 0)
                return;
        for (;;) {
                struct layout trial = *layout;

                if (shrink(table, &trial, width, false)) {
                        *layout = trial;
                        return;
                }
                if (!drop_one(table, layout))
                        break;
        }
        (void)shrink(table, layout, width, true);
}

static void add_spaces(struct gf_str *out, size_t n)
{
        for (size_t i = 0; i < n; i++)
                gf_str_addc(out, ' ');
}

static void add_cell(struct gf_str *out, const char *text, enum cli_style style, bool color)
{
        bool styled = color && style != CLI_PLAIN && text[0] != '\0';

        if (styled)
                gf_str_add(out, cli_style_code(style));
        gf_str_add(out, text);
        if (styled)
                gf_str_add(out, CLI_STYLE_END);
}

struct line {
        const struct cli_table *table;
        const struct layout *layout;
        size_t pending; /* spaces owed before the next visible cell: none are left at the end of a line */
        bool first, utf8, color;
};

static void put(struct gf_str *out, struct line *line, size_t column, const char *text, enum cli_style style)
{
        struct gf_str fitted = { 0 };
        size_t width = line->layout->widths[column], w, pad;

        if (line->layout->dropped[column])
                return;
        cli_text_fit(&fitted, text, width, line->utf8);
        w = fitted.s ? cli_text_width(fitted.s) : 0;
        pad = width > w ? width - w : 0;
        line->pending += line->first ? line->table->indent : GAP;
        line->first = false;
        if (line->table->columns[column].right) {
                line->pending += pad;
                pad = 0;
        }
        if (w > 0) {
                add_spaces(out, line->pending);
                add_cell(out, fitted.s, style, line->color);
                line->pending = pad;
        } else {
                line->pending += pad;
        }
        gf_str_done(&fitted);
}

void cli_table_render(const struct cli_table *table, size_t width, bool utf8, bool color, struct gf_str *out)
{
        struct layout layout = { 0 };
        bool titled = table->columns[0].title != NULL;

        make_layout(table, width, &layout);
        for (size_t row = titled ? SIZE_MAX : 0; row == SIZE_MAX || row < row_count(table); row++) {
                struct line line = { table, &layout, 0, true, utf8, color };

                for (size_t c = 0; c < table->n_columns; c++) {
                        bool title = row == SIZE_MAX;

                        put(out, &line, c, title ? table->columns[c].title : cell_text(table, row, c),
                            title ? CLI_BOLD : table->cells.v[row * table->n_columns + c].style);
                }
                gf_str_addc(out, '\n');
        }
}

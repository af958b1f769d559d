/* SPDX-License-Identifier: MIT */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "table.h"
#include "text.h"

static const struct cli_column columns[] = {
        { "GPU", true, 3, 6 },    { "MEMORY", true, 0, 5 }, { "PID", false, 0, 0 },    { "USER", false, 8, 4 },
        { "SINCE", false, 0, 1 }, { "HOW", false, 12, 2 },  { "WHOSE", false, 12, 3 }, { "COMMAND", false, 16, 0 },
};
#define N ELEMENTSOF(columns)

static const char *const rows[][N] = {
        { "1", "74.3 GiB", "21316", "serve", "8h 02m", "fd ×20, map; leader zombie", "lxc:129 (ml)", "sglang::sched" },
        { "2", "20.5 GiB", "4194303", "a-user-with-a-name", "3h 40m", "fd ×20", "session 3 (tmux)",
          "日本語 日本語 日本語 日本語 日本語 日本語 日本語 python train.py" },
        { "-", "2.0 GiB", "716", "", "", "", "", "" },
};

static void fill(struct cli_table *table)
{
        *table = (struct cli_table){ .columns = columns, .n_columns = N };
        for (size_t r = 0; r < ELEMENTSOF(rows); r++)
                for (size_t c = 0; c < N; c++)
                        cli_table_add(table, strdup(rows[r][c]), c == 0 ? CLI_RED : CLI_PLAIN);
}

static char *rendered(size_t width, bool color)
{
        struct cli_table table;
        struct gf_str out = { 0 };
        char *text = NULL;

        fill(&table);
        cli_table_render(&table, width, true, color, &out);
        cli_table_done(&table);
        assert_int_equal(gf_str_take(&out, &text), 0);
        return text;
}

static void no_line_is_wider_than_the_terminal(void **state)
{
        (void)state;
        for (size_t width = 20; width <= 200; width++) {
                _cleanup_free_ char *text = rendered(width, false);
                char *save = NULL;
                size_t lines = 0;

                for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), lines++)
                        if (cli_text_width(line) > width)
                                fail_msg("width %zu: \"%s\" has %zu cells", width, line, cli_text_width(line));
                assert_int_equal(lines, 1 + ELEMENTSOF(rows));
        }
}

static void a_pid_is_whole_at_every_width(void **state)
{
        (void)state;
        for (size_t width = 20; width <= 200; width++) {
                _cleanup_free_ char *text = rendered(width, false);

                assert_non_null(strstr(text, "4194303"));
                assert_non_null(strstr(text, "21316"));
                assert_non_null(strstr(text, "716"));
        }
}

static void memory_is_whole_or_absent(void **state)
{
        (void)state;
        for (size_t width = 20; width <= 200; width++) {
                _cleanup_free_ char *text = rendered(width, false);
                bool shown = strstr(text, "MEMORY") != NULL;

                assert_int_equal(shown, strstr(text, "74.3 GiB") != NULL);
        }
}

static void columns_go_in_order(void **state)
{
        static const char *const order[] = { "SINCE", "HOW", "WHOSE", "USER", "MEMORY", "GPU" };

        (void)state;
        for (size_t width = 20; width <= 200; width++) {
                _cleanup_free_ char *text = rendered(width, false);
                bool present = false;

                for (size_t i = 0; i < ELEMENTSOF(order); i++) {
                        bool here = strstr(text, order[i]) != NULL;

                        assert_false(present && !here); /* what goes later is still there */
                        present = here;
                }
                assert_non_null(strstr(text, "PID"));
                assert_non_null(strstr(text, "COM"));
        }
}

static void without_limit_nothing_is_cut(void **state)
{
        _cleanup_free_ char *text = rendered(0, false);

        (void)state;
        assert_null(strstr(text, "…"));
        assert_non_null(strstr(text, "python train.py"));
        assert_non_null(strstr(text, "fd ×20, map; leader zombie"));
}

static void columns_are_aligned_by_cells(void **state)
{
        static const struct cli_column two[] = { { "A", false, 0, 0 }, { "B", true, 0, 0 } };
        struct cli_table table = { .columns = two, .n_columns = 2, .indent = 2 };
        struct gf_str out = { 0 };

        (void)state;
        cli_table_add(&table, strdup("日本"), CLI_PLAIN);
        cli_table_add(&table, strdup("1"), CLI_PLAIN);
        cli_table_add(&table, strdup("x"), CLI_PLAIN);
        cli_table_add(&table, strdup("22"), CLI_PLAIN);
        cli_table_render(&table, 0, true, false, &out);
        assert_string_equal(out.s, "  A      B\n  日本   1\n  x     22\n");
        gf_str_done(&out);
        cli_table_done(&table);
}

static void no_line_ends_in_blanks(void **state)
{
        (void)state;
        for (size_t width = 20; width <= 200; width += 7) {
                _cleanup_free_ char *text = rendered(width, false);

                assert_null(strstr(text, " \n"));
        }
}

static void colour_changes_no_layout(void **state)
{
        _cleanup_free_ char *with = rendered(80, true), *without = rendered(80, false);
        struct gf_str stripped = { 0 };

        (void)state;
        assert_non_null(strstr(with, "\033[31m"));
        for (const char *c = with; *c; c++) {
                if (*c == '\033')
                        c += strcspn(c, "m");
                else
                        gf_str_addc(&stripped, *c);
        }
        assert_string_equal(stripped.s, without);
        gf_str_done(&stripped);
}

static void a_missing_text_is_an_empty_cell(void **state)
{
        static const struct cli_column two[] = { { NULL, false, 0, 0 }, { NULL, false, 0, 0 } };
        struct cli_table table = { .columns = two, .n_columns = 2 };
        struct gf_str out = { 0 };

        (void)state;
        cli_table_add(&table, NULL, CLI_PLAIN);
        cli_table_add(&table, strdup("b"), CLI_PLAIN);
        cli_table_render(&table, 0, true, false, &out);
        assert_string_equal(out.s, "  b\n");
        gf_str_done(&out);
        cli_table_done(&table);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(no_line_is_wider_than_the_terminal),
                cmocka_unit_test(a_pid_is_whole_at_every_width),
                cmocka_unit_test(memory_is_whole_or_absent),
                cmocka_unit_test(columns_go_in_order),
                cmocka_unit_test(without_limit_nothing_is_cut),
                cmocka_unit_test(columns_are_aligned_by_cells),
                cmocka_unit_test(no_line_ends_in_blanks),
                cmocka_unit_test(colour_changes_no_layout),
                cmocka_unit_test(a_missing_text_is_an_empty_cell),
        };

        (void)setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text.h"

static void escapes_to(const char *in, size_t n, bool utf8, const char *expected)
{
        struct gf_str out = { 0 };

        cli_text_escape(&out, in, n, utf8);
        assert_false(out.failed);
        assert_string_equal(out.s ? out.s : "", expected);
        gf_str_done(&out);
}
#define ESCAPES(in, expected) escapes_to(in, sizeof(in) - 1, true, expected)

static void plain_text_stays(void **state)
{
        (void)state;
        ESCAPES("python train.py --x=\\d+", "python train.py --x=\\d+");
        ESCAPES("été 日本語 ×…", "été 日本語 ×…");
        ESCAPES("e\xcc\x81t", "e\xcc\x81t"); /* a combining accent */
        ESCAPES("", "");
}

static void control_bytes_become_visible(void **state)
{
        (void)state;
        ESCAPES("a\033[2Jb\nc\td\r\007\x7f", "a\\x1B[2Jb\\x0Ac\\x09d\\x0D\\x07\\x7F");
        escapes_to("a\0b", 3, true, "a\\x00b");
        ESCAPES("\xc2\x9b"
                "31m",
                "\\u009B31m"); /* C1: CSI in one character */
        ESCAPES("\xc2\x85", "\\u0085");
}

static void bytes_that_are_no_utf8_become_visible(void **state)
{
        (void)state;
        ESCAPES("\xff\xfe", "\\xFF\\xFE");
        ESCAPES("\xc0\xaf", "\\xC0\\xAF");                   /* overlong */
        ESCAPES("\xe0\x80\xaf", "\\xE0\\x80\\xAF");          /* overlong */
        ESCAPES("\xed\xa0\x80", "\\xED\\xA0\\x80");          /* surrogate */
        ESCAPES("\xf4\x90\x80\x80", "\\xF4\\x90\\x80\\x80"); /* beyond Unicode */
        ESCAPES("a\xe6\x97", "a\\xE6\\x97");                 /* cut short */
        ESCAPES("\x9b"
                "31m",
                "\\x9B31m");
}

static void text_that_turns_or_hides_becomes_visible(void **state)
{
        (void)state;
        ESCAPES("\xe2\x80\xaegpj.exe", "\\u202Egpj.exe"); /* right to left override */
        ESCAPES("a\xe2\x80\x8b"
                "b",
                "a\\u200Bb"); /* zero width space */
        ESCAPES("a\xe2\x81\xa6"
                "b",
                "a\\u2066b"); /* isolate */
        ESCAPES("\xef\xbb\xbf", "\\uFEFF");
        ESCAPES("\xe2\x80\xa8", "\\u2028");
        ESCAPES("\xf3\xa0\x81\x81", "\\U000E0041"); /* tag letter */
        ESCAPES("\xc2\xad", "\\u00AD");
}

static void an_ascii_terminal_gets_ascii(void **state)
{
        struct gf_str out = { 0 };

        (void)state;
        escapes_to("caf\xc3\xa9", 5, false, "caf\\u00E9");
        cli_text_plain(&out, "fd ×20 … – “a” é");
        assert_string_equal(out.s, "fd x20 ... - \"a\" é");
        gf_str_done(&out);
}

static void every_byte_string_becomes_printable(void **state)
{
        uint32_t seed = 12345;

        (void)state;
        for (int round = 0; round < 20000; round++) {
                char bytes[12];
                struct gf_str out = { 0 };

                for (size_t i = 0; i < sizeof(bytes); i++) {
                        seed = seed * 1664525 + 1013904223;
                        bytes[i] = (char)(seed >> 24);
                }
                cli_text_escape(&out, bytes, sizeof(bytes), (round & 1) != 0);
                for (size_t i = 0; i < out.n;) {
                        uint32_t c = 0;
                        size_t length = cli_text_decode(out.s + i, out.n - i, &c);

                        assert_true(length > 0);
                        assert_true(c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0));
                        if (!(round & 1))
                                assert_true(c < 0x80);
                        i += length;
                }
                gf_str_done(&out);
        }
}

static void width_counts_cells(void **state)
{
        (void)state;
        assert_int_equal(cli_text_width("abc"), 3);
        assert_int_equal(cli_text_width("日本"), 4);
        assert_int_equal(cli_text_width("e\xcc\x81"), 1);
        assert_int_equal(cli_text_width(""), 0);
}

static void fits(const char *in, size_t width, bool utf8, const char *expected)
{
        struct gf_str out = { 0 };

        cli_text_fit(&out, in, width, utf8);
        assert_string_equal(out.s ? out.s : "", expected);
        assert_true(cli_text_width(out.s ? out.s : "") <= width);
        gf_str_done(&out);
}

static void a_cut_is_marked_and_never_splits_a_character(void **state)
{
        (void)state;
        fits("abcdef", 6, true, "abcdef");
        fits("abcdef", 5, true, "abcd…");
        fits("abcdef", 5, false, "ab...");
        fits("日本語", 5, true, "日本…");
        fits("日本語", 4, true, "日…");
        fits("日本語", 1, true, "");
        fits("abcdef", 1, true, "a");
        fits("abcdef", 0, true, "");
}

static void wraps_to(const char *in, size_t width, size_t indent, size_t start, const char *expected)
{
        struct gf_str out = { 0 };

        cli_text_wrap(&out, in, width, indent, start);
        assert_string_equal(out.s, expected);
        gf_str_done(&out);
}

static void sentences_break_at_spaces(void **state)
{
        (void)state;
        wraps_to("one two three", 0, 2, 0, "one two three\n");
        wraps_to("one two three", 8, 2, 0, "one two\n  three\n");
        wraps_to("one two three", 13, 2, 0, "one two three\n");
        wraps_to("two three", 10, 2, 6, "two\n  three\n");
        wraps_to("  12  gone", 40, 2, 0, "  12  gone\n");
        wraps_to("", 10, 2, 0, "\n");
}

static void a_word_longer_than_a_line_is_broken_hard(void **state)
{
        struct gf_str out = { 0 };

        (void)state;
        cli_text_wrap(&out, "abcdefghijklmnopqrstuvwxyz", 10, 2, 0);
        assert_string_equal(out.s, "abcdefghij\n  klmnopqr\n  stuvwxyz\n");
        gf_str_done(&out);
        cli_text_wrap(&out, "日本語 日本語", 1, 0, 0); /* cannot fit: but it ends */
        assert_non_null(out.s);
        gf_str_done(&out);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(plain_text_stays),
                cmocka_unit_test(control_bytes_become_visible),
                cmocka_unit_test(bytes_that_are_no_utf8_become_visible),
                cmocka_unit_test(text_that_turns_or_hides_becomes_visible),
                cmocka_unit_test(an_ascii_terminal_gets_ascii),
                cmocka_unit_test(every_byte_string_becomes_printable),
                cmocka_unit_test(width_counts_cells),
                cmocka_unit_test(a_cut_is_marked_and_never_splits_a_character),
                cmocka_unit_test(sentences_break_at_spaces),
                cmocka_unit_test(a_word_longer_than_a_line_is_broken_hard),
        };

        (void)setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}

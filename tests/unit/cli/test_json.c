/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "json.h"
#include "prom.h"

/* Behind json.c's accessors stands the same stand-in; here only what is pure is called. */

static void becomes(const char *bytes, size_t n, const char *expected)
{
        json_t *value = cli_json_string(bytes, n);

        assert_non_null(value);
        assert_string_equal(json_string_value(value), expected);
        json_decref(value);
}

static void any_bytes_become_valid_text(void **state)
{
        (void)state;
        becomes("caf\xc3\xa9", 5, "café");
        becomes("a\xff"
                "b",
                3,
                "a\xef\xbf\xbd"
                "b");
        becomes("\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
        becomes("", 0, "");
        becomes("\033[2J", 4, "\033[2J"); /* JSON escapes it on output */
}

static void a_label_cannot_be_left(void **state)
{
        static const struct {
                const char *raw, *escaped;
        } cases[] = {
                { "", "" },
                { "a\"} 1\nb\\", "a\\\"} 1\\nb\\\\" },
                { "a\xff\xc3", "a\xef\xbf\xbd\xef\xbf\xbd" },
                { "caf\xc3\xa9", "caf\xc3\xa9" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct gf_str out = { 0 };

                cli_prom_escape(&out, cases[i].raw);
                assert_string_equal(out.s ? out.s : "", cases[i].escaped);
                gf_str_done(&out);
        }
}

static void two_parts_make_one_document(void **state)
{
        json_t *first = json_pack("{s:i, s:{s:[]}}", "schema", 1, "plan", "targets"), *second, *whole;
        struct gf_str out = { 0 };
        json_error_t error;

        (void)state;
        second = json_pack("{s:s, s:[i]}", "outcome", "ok", "fates", 7);
        cli_json_text(&out, first, 1);
        cli_json_text(&out, second, 2);
        whole = json_loads(out.s, JSON_REJECT_DUPLICATES, &error);
        if (!whole)
                fail_msg("%s in:\n%s", error.text, out.s);
        assert_int_equal(json_object_size(whole), 4);
        assert_string_equal(json_string_value(json_object_get(whole, "outcome")), "ok");
        json_decref(whole);
        json_decref(first);
        json_decref(second);
        gf_str_done(&out);
}

static void a_document_is_plain_ascii(void **state)
{
        json_t *document = json_pack("{s:s}", "comm", "a\x7f é\xc2\x9b\xe2\x80\xae"), *again;
        struct gf_str out = { 0 };
        json_error_t error;

        (void)state;
        cli_json_text(&out, document, 0);
        for (size_t i = 0; i < out.n; i++)
                assert_true(out.s[i] == '\n' || (out.s[i] >= 0x20 && out.s[i] < 0x7f));
        again = json_loads(out.s, 0, &error);
        assert_true(json_equal(document, again));
        json_decref(again);
        json_decref(document);
        gf_str_done(&out);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(any_bytes_become_valid_text),
                cmocka_unit_test(a_label_cannot_be_left),
                cmocka_unit_test(two_parts_make_one_document),
                cmocka_unit_test(a_document_is_plain_ascii),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

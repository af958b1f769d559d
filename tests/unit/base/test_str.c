/* SPDX-License-Identifier: MIT */
#include "../unit.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

static void text_grows_and_is_handed_over(void **state)
{
        struct gf_str str = { 0 };
        char *text = NULL;

        (void)state;
        for (unsigned i = 0; i < 1000; i++)
                gf_str_addf(&str, "%03u", i);
        gf_str_addc(&str, '!');
        gf_str_add(&str, "");
        assert_int_equal(gf_str_take(&str, &text), 0);
        assert_int_equal(strlen(text), 3001);
        assert_memory_equal(text, "000001002", 9);
        assert_string_equal(text + 2994, "998999!");
        assert_null(str.s);
        assert_int_equal(str.n, 0);
        free(text);
}

static void nothing_added_is_an_empty_text(void **state)
{
        struct gf_str str = { 0 };
        char *text = NULL;

        (void)state;
        assert_int_equal(gf_str_take(&str, &text), 0);
        assert_string_equal(text, "");
        free(text);
}

static void zero_bytes_are_kept(void **state)
{
        struct gf_str str = { 0 };

        (void)state;
        gf_str_addn(&str, "a\0b", 3);
        gf_str_addn(&str, NULL, 0);
        assert_int_equal(str.n, 3);
        assert_memory_equal(str.s, "a\0b", 4);
        gf_str_done(&str);
        gf_str_done(&str);
}

static void too_much_fails_once_and_for_all(void **state)
{
        struct gf_str str = { 0 };
        char *text = (char *)1;

        (void)state;
        gf_str_add(&str, "kept?");
        gf_str_addn(&str, "", SIZE_MAX / 2); /* nothing is read: it is refused first */
        assert_true(str.failed);
        gf_str_add(&str, "no");
        assert_int_equal(gf_str_take(&str, &text), -ENOMEM);
        assert_ptr_equal(text, (char *)1);
        assert_null(str.s);
}

static void null_equals_null_only(void **state)
{
        (void)state;
        assert_true(gf_streq(NULL, NULL));
        assert_false(gf_streq(NULL, ""));
        assert_false(gf_streq("", NULL));
        assert_true(gf_streq("a", "a"));
        assert_false(gf_streq("a", "b"));
}

static void beginnings_and_ends(void **state)
{
        (void)state;
        assert_true(gf_startswith("nvidia0", "nvidia"));
        assert_true(gf_startswith("x", ""));
        assert_false(gf_startswith("nvi", "nvidia"));
        assert_true(gf_endswith("/a (deleted)", " (deleted)"));
        assert_true(gf_endswith("x", ""));
        assert_false(gf_endswith("ed)", "deleted)"));
}

static void setting_replaces(void **state)
{
        char *text = NULL;

        (void)state;
        assert_int_equal(gf_strset(&text, "one"), 0);
        assert_int_equal(gf_strset(&text, text + 1), 0); /* from itself */
        assert_string_equal(text, "ne");
        assert_int_equal(gf_strset(&text, NULL), 0);
        assert_null(text);
}

static void lists_hold_copies(void **state)
{
        gf_strv list = { 0 };
        char word[] = "fd";

        (void)state;
        assert_int_equal(gf_strv_add(&list, word), 0);
        word[0] = 'x';
        for (unsigned i = 0; i < 100; i++)
                assert_int_equal(gf_strv_addf(&list, "inherited-from:%u", i), 0);
        assert_int_equal(list.n, 101);
        assert_true(gf_strv_has(&list, "fd"));
        assert_true(gf_strv_has(&list, "inherited-from:99"));
        assert_false(gf_strv_has(&list, "inherited-from:100"));
        gf_strv_done(&list);
        assert_int_equal(list.n, 0);
        assert_false(gf_strv_has(&list, "fd"));
        gf_strv_done(&list);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(text_grows_and_is_handed_over),
                cmocka_unit_test(nothing_added_is_an_empty_text),
                cmocka_unit_test(zero_bytes_are_kept),
                cmocka_unit_test(too_much_fails_once_and_for_all),
                cmocka_unit_test(null_equals_null_only),
                cmocka_unit_test(beginnings_and_ends),
                cmocka_unit_test(setting_replaces),
                cmocka_unit_test(lists_hold_copies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "../unit.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"

struct number {
        const char *text;
        int r;
        uint64_t value;
};

static void check_numbers(int (*parse)(const char *, uint64_t *), const struct number *cases, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                uint64_t value = 4711;
                int r = parse(cases[i].text, &value);

                if (r != cases[i].r || value != (r < 0 ? 4711 : cases[i].value))
                        fail_msg("\"%s\": %d, %llu; expected %d, %llu", cases[i].text, r, (unsigned long long)value,
                                 cases[i].r, (unsigned long long)cases[i].value);
        }
}

static void decimal_is_all_of_the_text(void **state)
{
        static const struct number cases[] = {
                { "0", 0, 0 },
                { "42", 0, 42 },
                { "007", 0, 7 },
                { "18446744073709551615", 0, UINT64_MAX },
                { "18446744073709551616", -ERANGE, 0 },
                { "99999999999999999999999", -ERANGE, 0 },
                { "", -EINVAL, 0 },
                { "-1", -EINVAL, 0 },
                { "+1", -EINVAL, 0 },
                { " 1", -EINVAL, 0 },
                { "1 ", -EINVAL, 0 },
                { "1\n", -EINVAL, 0 },
                { "1x", -EINVAL, 0 },
                { "0x10", -EINVAL, 0 },
                { "1.0", -EINVAL, 0 },
                { "\xd9\xa1", -EINVAL, 0 }, /* a digit, in Arabic */
        };

        (void)state;
        check_numbers(gf_parse_u64, cases, sizeof(cases) / sizeof(cases[0]));
}

static void hexadecimal_takes_both_cases(void **state)
{
        static const struct number cases[] = {
                { "0", 0, 0 },         { "ffffffffffffffff", 0, UINT64_MAX },
                { "FfFf", 0, 0xffff }, { "10000000000000000", -ERANGE, 0 },
                { "", -EINVAL, 0 },    { "0x1", -EINVAL, 0 },
                { "g", -EINVAL, 0 },   { "-f", -EINVAL, 0 },
        };

        (void)state;
        check_numbers(gf_parse_hex64, cases, sizeof(cases) / sizeof(cases[0]));
}

static void thirty_two_bits_are_checked(void **state)
{
        uint32_t value = 7;

        (void)state;
        assert_int_equal(gf_parse_u32("4294967295", &value), 0);
        assert_int_equal(value, UINT32_MAX);
        value = 7;
        assert_int_equal(gf_parse_u32("4294967296", &value), -ERANGE);
        assert_int_equal(gf_parse_u32("-1", &value), -EINVAL);
        assert_int_equal(value, 7);
}

static void pids_start_at_one(void **state)
{
        pid_t pid = 7;

        (void)state;
        assert_int_equal(gf_parse_pid("1", &pid), 0);
        assert_int_equal(pid, 1);
        assert_int_equal(gf_parse_pid("2147483647", &pid), 0);
        assert_int_equal(pid, 2147483647);
        pid = 7;
        assert_int_equal(gf_parse_pid("0", &pid), -ERANGE);
        assert_int_equal(gf_parse_pid("2147483648", &pid), -ERANGE);
        assert_int_equal(gf_parse_pid("4294967297", &pid), -ERANGE); /* 1, cut to 32 bits */
        assert_int_equal(gf_parse_pid("-5", &pid), -EINVAL);
        assert_int_equal(gf_parse_pid("", &pid), -EINVAL);
        assert_int_equal(pid, 7);
}

static void durations_need_a_unit(void **state)
{
        static const struct number cases[] = {
                { "0", 0, 0 },
                { "0s", 0, 0 },
                { "500ms", 0, 500 },
                { "10s", 0, 10000 },
                { "1.5s", 0, 1500 },
                { "1.2345s", 0, 1234 },
                { "2m", 0, 120000 },
                { "8h", 0, 28800000 },
                { "3d", 0, 259200000 },
                { "0.5ms", 0, 0 },
                { "213503982334d", 0, 213503982334U * 86400000U },
                { "213503982335d", -ERANGE, 0 },
                { "99999999999999999999s", -ERANGE, 0 },
                { "10", -EINVAL, 0 },
                { "banana", -EINVAL, 0 },
                { "", -EINVAL, 0 },
                { "s", -EINVAL, 0 },
                { "1.s", -EINVAL, 0 },
                { ".5s", -EINVAL, 0 },
                { "1..5s", -EINVAL, 0 },
                { "-1s", -EINVAL, 0 },
                { "1 s", -EINVAL, 0 },
                { "1S", -EINVAL, 0 },
                { "1s1s", -EINVAL, 0 },
                { "1sec", -EINVAL, 0 },
        };

        (void)state;
        check_numbers(gf_parse_duration, cases, sizeof(cases) / sizeof(cases[0]));
}

static void sizes_are_iec(void **state)
{
        static const struct number cases[] = {
                { "0", 0, 0 },
                { "100B", 0, 100 },
                { "1KiB", 0, 1024 },
                { "512MiB", 0, 512ULL << 20 },
                { "1.5GiB", 0, 3ULL << 29 },
                { "60GiB", 0, 60ULL << 30 },
                { "16777215TiB", 0, 16777215ULL << 40 },
                { "16777216TiB", -ERANGE, 0 },
                { "100", -EINVAL, 0 },
                { "1GB", -EINVAL, 0 },
                { "1gib", -EINVAL, 0 },
                { "GiB", -EINVAL, 0 },
                { "-1GiB", -EINVAL, 0 },
                { "1GiB ", -EINVAL, 0 },
        };

        (void)state;
        check_numbers(gf_parse_size, cases, sizeof(cases) / sizeof(cases[0]));
}

static void sizes_read_well(void **state)
{
        static const struct {
                uint64_t bytes;
                const char *text;
        } cases[] = {
                { 0, "0 B" },
                { 1023, "1023 B" },
                { 1024, "1 KiB" },
                { 615ULL << 20, "615 MiB" },
                { (1ULL << 30) - 1, "1023 MiB" },
                { 1ULL << 30, "1.0 GiB" },
                { 79779069952ULL, "74.3 GiB" },
                { 1ULL << 40, "1.0 TiB" },
                { UINT64_MAX - 1, "16777216.0 TiB" },
                { UINT64_MAX, "unknown" },
        };
        char buf[GF_TEXT_MAX];

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_string_equal(gf_format_size(cases[i].bytes, buf), cases[i].text);
}

static void durations_read_well(void **state)
{
        static const struct {
                uint64_t ms;
                const char *text;
        } cases[] = {
                { 0, "0 ms" },
                { 999, "999 ms" },
                { 10200, "10.2 s" },
                { 60000, "1m 00s" },
                { 125000, "2m 05s" },
                { 3600000, "1h 00m" },
                { 28920000, "8h 02m" },
                { 86400000, "1d 00h" },
                { 273600000, "3d 04h" },
                { UINT64_MAX - 1, "213503982334d 14h" },
                { UINT64_MAX, "unknown" },
        };
        char buf[GF_TEXT_MAX];

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_string_equal(gf_format_duration(cases[i].ms, buf), cases[i].text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(decimal_is_all_of_the_text),
                cmocka_unit_test(hexadecimal_takes_both_cases),
                cmocka_unit_test(thirty_two_bits_are_checked),
                cmocka_unit_test(pids_start_at_one),
                cmocka_unit_test(durations_need_a_unit),
                cmocka_unit_test(sizes_are_iec),
                cmocka_unit_test(sizes_read_well),
                cmocka_unit_test(durations_read_well),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

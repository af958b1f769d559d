/* SPDX-License-Identifier: MIT */
/* What may be asked for, and the one line that says what is wrong with what may not. */
#include <pwd.h>
#include <unistd.h>

#include "world.h"

static void refuses(enum gpufree_criterion criterion, const char *value, const char *sentence)
{
        _cleanup_selection_ gpufree_selection *selection = NULL;
        char *error = NULL;

        assert_int_equal(gpufree_selection_new(&selection), 0);
        assert_int_equal(gpufree_selection_add(selection, criterion, value, &error), -EINVAL);
        assert_non_null(error);
        assert_string_equal(error, sentence);
        assert_null(strchr(error, '\n'));
        free(error);
        /* Nobody has to want the sentence. */
        assert_int_equal(gpufree_selection_add(selection, criterion, value, NULL), -EINVAL);
        /* Nothing of it was added. */
        assert_int_equal(selection->gpus.n + selection->pids.n + selection->users.n + selection->containers.n +
                                 selection->units.n + selection->jobs.n + selection->sessions.n + selection->matches.n +
                                 selection->includes.n + selection->vendors + selection->has_older_than,
                         0);
}

static void each_bad_value_says_what_would_be_right(void **state)
{
        static const struct {
                enum gpufree_criterion criterion;
                const char *value, *sentence;
        } table[] = {
                { GPUFREE_BY_OLDER_THAN, "banana", "\"banana\" is no duration (like 500ms, 10s, 2m)" },
                { GPUFREE_BY_OLDER_THAN, "", "\"\" is no duration (like 500ms, 10s, 2m)" },
                { GPUFREE_BY_OLDER_THAN, "10", "\"10\" is no duration (like 500ms, 10s, 2m)" },
                { GPUFREE_BY_OLDER_THAN, "-1s", "\"-1s\" is no duration (like 500ms, 10s, 2m)" },
                { GPUFREE_BY_PID, "x", "\"x\" is no process ID (like 21316, or several: 21316,524)" },
                { GPUFREE_BY_PID, "0", "\"0\" is no process ID (like 21316, or several: 21316,524)" },
                { GPUFREE_BY_PID, "-1", "\"-1\" is no process ID (like 21316, or several: 21316,524)" },
                { GPUFREE_BY_PID, "7,", "\"\" is no process ID (like 21316, or several: 21316,524)" },
                { GPUFREE_BY_PID, "7,8,y", "\"y\" is no process ID (like 21316, or several: 21316,524)" },
                { GPUFREE_BY_PID, "99999999999",
                  "\"99999999999\" is no process ID (like 21316, or several: 21316,524)" },
                { GPUFREE_BY_USER, "no-such-user-here", "there is no user \"no-such-user-here\"" },
                { GPUFREE_BY_USER, "", "\"\" is no user (a name, a number or \"me\")" },
                { GPUFREE_BY_USER, "4294967295", "\"4294967295\" is no user number (0 to 4294967294)" },
                { GPUFREE_BY_USER, "0,no-such-user-here", "there is no user \"no-such-user-here\"" },
                { GPUFREE_BY_VENDOR, "foo",
                  "\"foo\" is no vendor (nvidia, amd, intel, habana, google, aws, huawei, microsoft, other)" },
                { GPUFREE_BY_VENDOR, "amd,none",
                  "\"none\" is no vendor (nvidia, amd, intel, habana, google, aws, huawei, microsoft, other)" },
                { GPUFREE_BY_GPU, "9-2", "\"9-2\" is no range of GPUs (like 2-9)" },
                { GPUFREE_BY_GPU, "banana",
                  "\"banana\" is no GPU (like 0, 0-3, GPU-1a2b3c4d, 0000:18:00.0, MIG-1a2b3c4d, all)" },
                { GPUFREE_BY_GPU, "", "\"\" is no GPU (like 0, 0-3, GPU-1a2b3c4d, 0000:18:00.0, MIG-1a2b3c4d, all)" },
                { GPUFREE_BY_GPU, "0,", "\"\" is no GPU (like 0, 0-3, GPU-1a2b3c4d, 0000:18:00.0, MIG-1a2b3c4d, all)" },
                { GPUFREE_BY_GPU, "-1",
                  "\"-1\" is no GPU (like 0, 0-3, GPU-1a2b3c4d, 0000:18:00.0, MIG-1a2b3c4d, all)" },
                { GPUFREE_BY_GPU, "1-",
                  "\"1-\" is no GPU (like 0, 0-3, GPU-1a2b3c4d, 0000:18:00.0, MIG-1a2b3c4d, all)" },
                { GPUFREE_BY_GPU, "99999999999",
                  "\"99999999999\" is no GPU (like 0, 0-3, GPU-1a2b3c4d, 0000:18:00.0, MIG-1a2b3c4d, all)" },
                { GPUFREE_BY_GPU, "GPU-",
                  "\"GPU-\" is no GPU (like 0, 0-3, GPU-1a2b3c4d, 0000:18:00.0, MIG-1a2b3c4d, all)" },
                { GPUFREE_BY_GPU, "MIG-GPU-1/x/0",
                  "\"MIG-GPU-1/x/0\" is no GPU (like 0, 0-3, GPU-1a2b3c4d, 0000:18:00.0, MIG-1a2b3c4d, all)" },
                { GPUFREE_BY_GPU, "0000:18", "\"0000:18\" is no PCI address (like 0000:18:00.0)" },
                { GPUFREE_BY_GPU, "0000:18:20.0", "\"0000:18:20.0\" is no PCI address (like 0000:18:00.0)" },
                { GPUFREE_BY_GPU, "0000:18:00.8", "\"0000:18:00.8\" is no PCI address (like 0000:18:00.0)" },
                { GPUFREE_BY_GPU, "000000000:18:00.0", "\"000000000:18:00.0\" is no PCI address (like 0000:18:00.0)" },
                { GPUFREE_BY_GPU, "0000:18:00.0 ", "\"0000:18:00.0 \" is no PCI address (like 0000:18:00.0)" },
                { GPUFREE_BY_MATCH, "", "\"\" matches every process (a part of the command line is wanted)" },
                { GPUFREE_BY_CONTAINER, "", "\"\" is no container (an ID, the beginning of a long one, or a name)" },
                { GPUFREE_BY_CONTAINER, "a b",
                  "\"a b\" is no container (an ID, the beginning of a long one, or a name)" },
                { GPUFREE_BY_UNIT, "a/b", "\"a/b\" is no unit (like vllm.service, or vllm)" },
                { GPUFREE_BY_JOB, "33 85", "\"33 85\" is no job (like 3385, or with a step: 3385.0)" },
                { GPUFREE_BY_SESSION, "3;", "\"3;\" is no login session (like 3)" },
                { GPUFREE_BY_SESSION, NULL, "a value is missing" },
                { GPUFREE_INCLUDE, "", "\"\" names nothing (a process ID, a process name or a unit is wanted)" },
                { (enum gpufree_criterion)77, "x", "77 is no criterion" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                refuses(table[i].criterion, table[i].value, table[i].sentence);
}

static void a_bad_regular_expression_is_explained(void **state)
{
        static const char *const bad[] = { "[", "(", "a{2,1}", "*(", "[z-a]", "\\" };
        _cleanup_selection_ gpufree_selection *selection = NULL;

        (void)state;
        assert_int_equal(gpufree_selection_new(&selection), 0);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                char *error = NULL, *begin = gf_asprintf("bad regular expression \"%s\": ", bad[i]);

                assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_MATCH, bad[i], &error), -EINVAL);
                assert_true(gf_startswith(error, begin));
                assert_true(strlen(error) > strlen(begin));
                free(begin);
                free(error);
        }
        assert_int_equal(selection->matches.n, 0);
}

static void hostile_text_stays_one_line(void **state)
{
        char longer[5000], *error = NULL;
        _cleanup_selection_ gpufree_selection *selection = NULL;

        (void)state;
        refuses(GPUFREE_BY_PID, "1\n2", "\"1\\x0a2\" is no process ID (like 21316, or several: 21316,524)");
        refuses(GPUFREE_BY_UNIT, "\033[2J", "\"\\x1b[2J\" is no unit (like vllm.service, or vllm)");
        memset(longer, 'x', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = '\0';
        assert_int_equal(gpufree_selection_new(&selection), 0);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_OLDER_THAN, longer, &error), -EINVAL);
        assert_true(strlen(error) < 200);
        assert_non_null(strstr(error, "…\" is no duration"));
        free(error);
        /* Bytes that are no UTF-8 are cut as well. */
        memset(longer, 0x80, sizeof(longer) - 1);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_OLDER_THAN, longer, &error), -EINVAL);
        assert_true(strlen(error) < 200);
        free(error);
}

static void a_list_is_added_whole(void **state)
{
        _cleanup_selection_ gpufree_selection *selection = NULL;

        (void)state;
        assert_int_equal(gpufree_selection_new(&selection), 0);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_PID, "21316,524", NULL), 0);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_PID, "7", NULL), 0);
        assert_int_equal(selection->pids.n, 3);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_PID, "8,nine", NULL), -EINVAL);
        assert_int_equal(selection->pids.n, 3);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_GPU, "0,2-3,all", NULL), 0);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_GPU, "5,GPU-", NULL), -EINVAL);
        assert_int_equal(selection->gpus.n, 3);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_UNIT, "a,b c", NULL), -EINVAL);
        assert_int_equal(selection->units.n, 0);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_VENDOR, "amd,NVIDIA", NULL), 0);
        assert_int_equal(selection->vendors, 1U << GPUFREE_VENDOR_AMD | 1U << GPUFREE_VENDOR_NVIDIA);
}

static void users_are_names_numbers_or_me(void **state)
{
        _cleanup_selection_ gpufree_selection *selection = NULL;
        const struct passwd *root = getpwuid(0);

        (void)state;
        assert_int_equal(gpufree_selection_new(&selection), 0);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_USER, "1234,me", NULL), 0);
        assert_int_equal(selection->users.n, 2);
        assert_int_equal(selection->users.v[0], 1234);
        assert_int_equal(selection->users.v[1], getuid());
        if (root) {
                assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_USER, root->pw_name, NULL), 0);
                assert_int_equal(selection->users.v[2], 0);
        }
}

static void of_several_ages_the_least_counts(void **state)
{
        _cleanup_selection_ gpufree_selection *selection = NULL;

        (void)state;
        assert_int_equal(gpufree_selection_new(&selection), 0);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_OLDER_THAN, "2m", NULL), 0);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_OLDER_THAN, "10s", NULL), 0);
        assert_int_equal(gpufree_selection_add(selection, GPUFREE_BY_OLDER_THAN, "3d", NULL), 0);
        assert_int_equal(selection->older_than_ms, 10000);
}

static void no_selection_is_refused_and_dropped_safely(void **state)
{
        char *error = NULL;

        (void)state;
        assert_int_equal(gpufree_selection_add(NULL, GPUFREE_STOPPED, NULL, &error), -EINVAL);
        assert_non_null(error);
        free(error);
        assert_null(gpufree_selection_unref(NULL));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_bad_value_says_what_would_be_right),
                cmocka_unit_test(a_bad_regular_expression_is_explained),
                cmocka_unit_test(hostile_text_stays_one_line),
                cmocka_unit_test(a_list_is_added_whole),
                cmocka_unit_test(users_are_names_numbers_or_me),
                cmocka_unit_test(of_several_ages_the_least_counts),
                cmocka_unit_test(no_selection_is_refused_and_dropped_safely),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Lists of hosts, targets, quoting through a real shell, answers that are none. */
#include "../unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fleet/hosts.h"
#include "fleet/merge.h"
#include "fleet/target.h"

static void expect_hosts(const char *list, const char *want)
{
        gf_strv hosts = { 0 };
        struct gf_str got = { 0 };
        char *error = NULL;

        assert_int_equal(fleet_hosts_add(&hosts, list, &error), 0);
        for (size_t i = 0; i < hosts.n; i++)
                gf_str_addf(&got, "%s%s", i ? " " : "", hosts.v[i]);
        assert_string_equal(got.s, want);
        gf_str_done(&got);
        gf_strv_done(&hosts);
}

static void expect_no_hosts(const char *list)
{
        gf_strv hosts = { 0 };
        char *error = NULL;

        assert_int_equal(fleet_hosts_add(&hosts, list, &error), -EINVAL);
        assert_non_null(error);
        assert_true(error[0] != '\0');
        free(error);
        gf_strv_done(&hosts);
}

static void test_lists(void **state)
{
        gf_strv hosts = { 0 };
        char *error = NULL;

        (void)state;
        expect_hosts("a", "a");
        expect_hosts("a,b,a", "a b");
        expect_hosts("gpu[01-03]", "gpu01 gpu02 gpu03");
        expect_hosts("gpu[9-11]", "gpu9 gpu10 gpu11");
        expect_hosts("gpu[01,3-4]-ib,x", "gpu01-ib gpu3-ib gpu4-ib x");
        expect_hosts("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2");
        expect_hosts("root@hv[1-2]/pct:129", "root@hv1/pct:129 root@hv2/pct:129");
        expect_hosts("hv/docker:a[1-2]", "hv/docker:a[1-2]"); /* a name is a name */
        expect_hosts("hv/docker:a[1,x", "hv/docker:a[1 x");
        expect_no_hosts("");
        expect_no_hosts("a,,b");
        expect_no_hosts("gpu[1-");
        expect_no_hosts("gpu1]");
        expect_no_hosts("gpu[]");
        expect_no_hosts("gpu[a-b]");
        expect_no_hosts("gpu[1-2-3]");
        expect_no_hosts("gpu[3-1]");
        expect_no_hosts("gpu[-1]");
        expect_no_hosts("gpu[0-99999]");
        expect_no_hosts("g[0-999]p[0-999]");
        expect_no_hosts("g[0-9999999999]");
        assert_int_equal(fleet_hosts_add_text(&hosts, "# ours\n  a \r\n\nb[1-2]\nhv/lxc:x,y", &error), 0);
        assert_int_equal(hosts.n, 4);
        assert_string_equal(hosts.v[3], "hv/lxc:x,y");
        gf_strv_done(&hosts);
}

/* Each name once, in the order of its first, and in a time that grows with the list alone. */
static void test_a_range_many_times(void **state)
{
        struct gf_str list = { 0 };
        gf_strv hosts = { 0 };
        char *error = NULL;

        (void)state;
        expect_hosts("b[1-3],a,b[2-4],a", "b1 b2 b3 a b4");
        gf_str_add(&list, "z");
        for (int i = 0; i < 100; i++)
                gf_str_add(&list, ",gpu[0001-5000]");
        assert_int_equal(fleet_hosts_add(&hosts, list.s, &error), 0);
        assert_int_equal(hosts.n, 5001);
        assert_string_equal(hosts.v[0], "z");
        assert_string_equal(hosts.v[1], "gpu0001");
        assert_string_equal(hosts.v[5000], "gpu5000");
        gf_strv_done(&hosts);
        gf_str_done(&list);
        expect_no_hosts("a[1-6000],b[1-6000]");
}

static void expect_line(const char *text, const char *want)
{
        struct fleet_target target;
        gf_strv argv = { 0 };
        char *error = NULL, *line = NULL;

        assert_int_equal(fleet_target_parse(text, &target, &error), 0);
        assert_int_equal(gf_strv_add(&argv, "gpufree"), 0);
        assert_int_equal(fleet_target_line(&target, &argv, &line), 0);
        assert_string_equal(line, want);
        free(line);
        gf_strv_done(&argv);
        fleet_target_done(&target);
}

static void expect_no_target(const char *text)
{
        struct fleet_target target;
        char *error = NULL;

        assert_int_equal(fleet_target_parse(text, &target, &error), -EINVAL);
        assert_non_null(error);
        free(error);
}

static void test_targets(void **state)
{
        (void)state;
        expect_line("a", "gpufree");
        expect_line("root@hv/pct:129", "pct exec 129 -- gpufree");
        expect_line("hv/lxc:ml/docker:x y", "lxc-attach -n ml -- docker exec -i 'x y' gpufree");
        expect_line("hv/nspawn:a", "systemd-run --quiet --pipe --wait --collect '--machine=a' -- gpufree");
        expect_line("hv/podman:$(id)", "podman exec -i '$(id)' gpufree");
        expect_no_target("-oProxyCommand=x");
        expect_no_target("root@-x");
        expect_no_target("a b");
        expect_no_target("a;b");
        expect_no_target("$(id)");
        expect_no_target("a\nb");
        expect_no_target("");
        expect_no_target("/pct:1");
        expect_no_target("a/");
        expect_no_target("a/pct:");
        expect_no_target("a/pct:x");
        expect_no_target("a/pct:-1");
        expect_no_target("a/docker:-x");
        expect_no_target("a/vm:x");
        expect_no_target("a/docker");
        expect_no_target("a/lxc:1/lxc:1/lxc:1/lxc:1/lxc:1/lxc:1/lxc:1/lxc:1/lxc:1");
}

/* A real shell reads each word back as it was. */
static void test_quoting(void **state)
{
        static const char *const words[] = {
                "plain", "",         "a b",   "it's", "\"",  "$(touch x)", "`id`",     "$HOME", "a\nb",
                "*",     "~",        "!x",    "a\\b", "\\",  "'",          "''\\",     "#x",    "=ls",
                "&",     "\xff\xfe", "{a,b}", "-n",   "a;b", "x\ty",       "'\n'$'\\", "\\'",   "[1-2]",
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                struct gf_str line = { 0 };
                char got[64];
                size_t n;
                FILE *shell;

                gf_str_add(&line, "printf %s ");
                fleet_quote(&line, words[i]);
                shell = popen(line.s, "r");
                assert_non_null(shell);
                n = fread(got, 1, sizeof(got) - 1, shell);
                got[n] = '\0';
                /* printf would read "-n" as an option in no shell: %s takes it. */
                assert_int_equal(pclose(shell), 0);
                assert_string_equal(got, words[i]);
                gf_str_done(&line);
        }
}

static struct fleet_answer read_answer(int status, const char *output, const char *error_text)
{
        struct fleet_job job = { .ended = true, .status = status };
        struct fleet_answer answer = { 0 };

        if (output)
                gf_str_add(&job.output, output);
        if (error_text)
                gf_str_add(&job.said, error_text);
        assert_int_equal(fleet_answer_read(&job, "list", 30000, &answer), 0);
        fleet_job_done(&job);
        return answer;
}

#define DOCUMENT(schema, code)                                                                                         \
        "{\"schema\":" schema ",\"command\":\"list\",\"outcome\":\"ok\",\"exit\":{\"code\":" code "}}"

static void test_answers(void **state)
{
        static const struct {
                int status;
                const char *output, *said, *reason;
        } rows[] = {
                { 0, DOCUMENT("1", "0"), NULL, NULL },
                { 0, "Welcome to {x}\n" DOCUMENT("1", "0"), NULL, NULL },
                { 0, "Welcome", NULL, "no-json" },
                { 0, DOCUMENT("2", "0"), NULL, "schema" },
                { 0, DOCUMENT("1", "1"), NULL, "no-json" }, /* says another thing than its exit status */
                { 0, DOCUMENT("\"1\"", "0"), NULL, "no-json" },
                { 0, "{}", NULL, "no-json" },
                { 0, "[1]", NULL, "no-json" },
                { 0, "banana", NULL, "no-json" },
                { 0, NULL, NULL, "no-json" },
                { 0, DOCUMENT("1", "0") "x", NULL, "no-json" },
                { 127, NULL, "sh: gpufree: not found\n", "not-installed" },
                { 2, NULL, "gpufree: --gpu 9: no such GPU\n", "usage" },
                { 137, NULL, NULL, "died" },
                { 255, NULL, "ssh: connect to host x port 22: Connection refused\n", "refused" },
                { 255, NULL, "x: Permission denied (publickey).\n", "denied" },
                { 255, NULL, "Host key verification failed.\n", "host-key" },
                { 255, NULL, "what\n", "ssh" },
                { 255, DOCUMENT("1", "255"), NULL, "ssh" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                struct fleet_answer answer = read_answer(rows[i].status, rows[i].output, rows[i].said);

                if (rows[i].reason) {
                        assert_non_null(answer.reason);
                        assert_string_equal(answer.reason, rows[i].reason);
                        assert_null(answer.document);
                        assert_non_null(answer.sentence);
                        assert_int_equal(fleet_answer_code(&answer), 3);
                } else {
                        assert_null(answer.reason);
                        assert_non_null(answer.document);
                        assert_int_equal(fleet_answer_code(&answer), 0);
                }
                fleet_answer_done(&answer);
        }
}

static void test_worst(void **state)
{
        static const int order[] = { 0, 3, 4, 6, 5, 1 };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(order); i++)
                for (size_t k = 0; k < ELEMENTSOF(order); k++)
                        assert_int_equal(fleet_worse(order[i], order[k]), order[i > k ? i : k]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lists),   cmocka_unit_test(test_a_range_many_times),
                cmocka_unit_test(test_targets), cmocka_unit_test(test_quoting),
                cmocka_unit_test(test_answers), cmocka_unit_test(test_worst),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

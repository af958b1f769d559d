/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "options.h"

#define ARGS_MAX 16

/* The words of `line`, divided by single blanks, as a command line. */
static int parse(struct cli_request *request, const char *line, char **ret_error)
{
        static char words[512];
        char *argv[ARGS_MAX] = { (char[]){ "gpufree" } }, *save = NULL;
        int argc = 1;

        assert_true(strlen(line) < sizeof(words));
        memcpy(words, line, strlen(line) + 1);
        for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
                assert_true(argc < ARGS_MAX);
                argv[argc++] = word;
        }
        *ret_error = NULL;
        return cli_request_parse(request, argc, argv, ret_error);
}

static struct cli_request good(const char *line)
{
        struct cli_request request;
        char *error;

        if (parse(&request, line, &error) < 0)
                fail_msg("\"%s\": %s", line, error);
        return request;
}

static void bad(const char *line, const char *expected)
{
        struct cli_request request;
        char *error;

        if (parse(&request, line, &error) != -EINVAL)
                fail_msg("\"%s\" was accepted", line);
        assert_non_null(error);
        assert_null(strchr(error, '\n'));
        if (!strstr(error, expected))
                fail_msg("\"%s\": \"%s\" does not say \"%s\"", line, error, expected);
        free(error);
        cli_request_done(&request);
}

static void without_a_command_it_lists(void **state)
{
        struct cli_request request = good("");

        (void)state;
        assert_int_equal(request.command, CLI_LIST);
        assert_false(request.named);
        cli_request_done(&request);
        request = good("/dev/nvidia0 --json");
        assert_int_equal(request.command, CLI_LIST);
        assert_int_equal(request.paths.n, 1);
        assert_true(request.json);
        cli_request_done(&request);
}

static void options_stand_before_or_after_the_command(void **state)
{
        static const char *const lines[] = { "--grace 5s kill -n --gpu 1 /dev/null",
                                             "kill /dev/null --gpu=1 -n --grace=5s",
                                             "-n kill --grace 5s /dev/null --gpu 1" };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                struct cli_request request = good(lines[i]);

                assert_int_equal(request.command, CLI_KILL);
                assert_true(request.dry_run);
                assert_int_equal(request.ladder.grace_ms, 5000);
                assert_int_equal(request.criteria.n, 1);
                assert_string_equal(request.criteria.v[0].value, "1");
                assert_int_equal(request.paths.n, 1);
                cli_request_done(&request);
        }
}

static void letters_combine(void **state)
{
        struct cli_request request = good("kill -yq9");

        (void)state;
        assert_true(request.yes && request.quiet && request.ladder.force);
        cli_request_done(&request);
}

static void behind_two_dashes_all_is_paths(void **state)
{
        struct cli_request request = good("list -- /dev/null --json");

        (void)state;
        assert_int_equal(request.paths.n, 2);
        assert_false(request.json);
        cli_request_done(&request);
}

static void the_ladder_is_the_contracts(void **state)
{
        struct cli_request request = good("kill");

        (void)state;
        assert_int_equal(request.ladder.signal, SIGTERM);
        assert_false(request.ladder.force);
        assert_int_equal(request.ladder.grace_ms, 10000);
        assert_int_equal(request.ladder.timeout_ms, 60000);
        assert_int_equal(request.ladder.settle_ms, 5000);
        cli_request_done(&request);
        request = good("wait");
        assert_true(request.timeout_ms == GPUFREE_UNKNOWN);
        assert_int_equal(request.ladder.settle_ms, 5000);
        cli_request_done(&request);
}

static void a_long_grace_stretches_the_whole_unless_told(void **state)
{
        struct cli_request request = good("kill --grace 5m");

        (void)state;
        assert_int_equal(request.ladder.timeout_ms, 350000);
        cli_request_done(&request);
        request = good("kill --grace 5s --timeout 20s");
        assert_int_equal(request.ladder.timeout_ms, 20000);
        assert_int_equal(request.ladder.grace_ms, 5000);
        cli_request_done(&request);
        /* A time for the whole that is shorter than the grace that nobody gave leaves time for SIGKILL. */
        request = good("kill --timeout 4s");
        assert_int_equal(request.ladder.timeout_ms, 4000);
        assert_int_equal(request.ladder.grace_ms, 2000);
        cli_request_done(&request);
        request = good("kill --grace 1s");
        assert_int_equal(request.ladder.timeout_ms, 60000);
        cli_request_done(&request);
}

static void signals_are_named_in_every_usual_way(void **state)
{
        static const char *const right[] = { "TERM", "SIGTERM", "15", "term", "SigTerm" };
        static const char *const wrong[] = { "", "0", "-1", "99", "TERMINATE", "SIG", "15x", " 15", "65", "32" };
        int signo;

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(right); i++) {
                signo = 0;
                assert_int_equal(cli_signal_parse(right[i], &signo), 0);
                assert_int_equal(signo, SIGTERM);
        }
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                signo = 7;
                assert_int_equal(cli_signal_parse(wrong[i], &signo), -EINVAL);
                assert_int_equal(signo, 7);
        }
        assert_string_equal(cli_signal_name(SIGUSR1), "USR1");
}

static void parking_takes_pids_and_places(void **state)
{
        struct cli_request request = good("unpark 12 34 --to 0:2,1:3 --timeout 2m --settle 1s");

        (void)state;
        assert_int_equal(request.command, CLI_UNPARK);
        assert_int_equal(request.pids.n, 2);
        assert_int_equal(request.pids.v[1], 34);
        assert_string_equal(request.park.to, "0:2,1:3");
        assert_int_equal(request.park.timeout_ms, 120000);
        assert_int_equal(request.park.settle_ms, 1000);
        assert_false(request.park.resume_stopped);
        cli_request_done(&request);
        request = good("park --gpu 0 --continue");
        assert_true(request.park.resume_stopped);
        assert_int_equal(request.park.timeout_ms, 600000);
        assert_int_equal(request.park.lock_ms, 10000);
        cli_request_done(&request);
        request = good("unpark --all");
        assert_true(request.all);
        cli_request_done(&request);
}

static void wrong_words_are_told_with_what_would_be_right(void **state)
{
        (void)state;
        bad("lst", "did you mean \"gpufree list\"");
        bad("kil", "did you mean \"gpufree kill\"");
        bad("frobnicate", "list, kill, check, wait");
        bad("explain 0", "0: is no PID (gpufree list shows who holds a GPU)");
        bad("run", "needs a command");
        bad("run python", "behind \"--\"");
        bad("run --gpus 0 -- x", "no number of GPUs");
        bad("run --restart never -- x", "on-failure:N");
        bad("run --park-on TERM -- x", "none of USR1 and USR2");
        bad("run --priority high -- x", "no number from -1000 to 1000");
        bad("run --priority 1001 -- x", "no number from -1000 to 1000");
        bad("kill --park-on USR1", "--park-on is not for \"gpufree kill\"");
        bad("check --free-memory much", "no size");
        bad("check --for reset --free-memory 1GiB", "for --for run");
        bad("park", "say whom");
        bad("park -n", "say whom");
        bad("unpark", "a PID, or --all");
        bad("unpark 12 --all", "a PID, or --all");
        bad("unpark 12 --gpu 0", "--gpu is not for \"gpufree unpark\"");
        bad("unpark x", "is no PID");
        bad("unpark 0", "is no PID");
        bad("kill --to 1", "it is for \"gpufree unpark\"");
        bad("kill 1234", "--pid 1234");
        bad("1", "--gpu 1");
        bad("--jsn", "did you mean --json");
        bad("--xyzzy", "gpufree --help");
        bad("kill --grace 20s --timeout 5s", "--timeout: shorter than --grace");
        bad("kill --grace banana", "--grace: \"banana\" is no duration (like 500ms, 10s, 2m)");
        bad("kill --grace 10", "is no duration");
        bad("kill --grace -5s", "is no duration");
        bad("wait --timeout 1h30m", "is no duration");
        bad("kill --settle 99999999999999999999d", "is no duration");
        bad("kill --signal FOO", "--signal: \"FOO\" is no signal");
        bad("--scan magic", "none of auto, bpf or proc");
        bad("--scope galaxy", "none of machine or namespace");
        bad("--color blue", "none of auto, always or never");
        bad("list --by user", "\"user\" is none of owner");
        bad("list --format xml", "\"xml\" is none of table, json or prom");
        bad("list --format prom --json", "--json and another --format exclude each other");
        bad("list --format prom -q", "--format and --quiet exclude each other");
        bad("list --format prom --by owner", "leave --by out");
        bad("list --format prom --sample 1s", "--sample is for --format table and json");
        bad("check --stop-owner", "--stop-owner is not for \"gpufree check\"");
        bad("check --park-first", "--park-first is not for \"gpufree check\"");
        bad("kill --park-first --stop-owner", "exclude each other");
        bad("kill --stop-owner=yes", "--stop-owner takes no value");
        bad("check --for tea", "\"tea\" is none of run, reset, mig, unload or unbind");
        bad("--gpu", "--gpu needs a value: --gpu LIST");
        bad("--json=1", "--json takes no value");
        bad("-Z", "no option -Z");
        bad("help nothing", "\"nothing\" is no command");
        bad("help kill list", "help takes one command");
}

static void options_of_other_commands_are_refused(void **state)
{
        (void)state;
        bad("list -n", "--dry-run is not for \"gpufree list\" (it is for \"gpufree kill\")");
        bad("--yes", "--yes is not for \"gpufree list\"");
        bad("check --timeout 5s", "--timeout is not for \"gpufree check\"");
        bad("wait --include 5", "--include is not for");
        bad("kill --for run", "--for is not for");
        bad("list --json -q", "exclude each other");
        bad("kill -9 --signal INT", "exclude each other");
        bad("help --json", "--json is not for");
}

static void every_option_reaches_its_commands(void **state)
{
        (void)state;
        for (size_t i = 0; i < cli_option_count; i++) {
                const struct cli_option *option = &cli_options[i];

                assert_true(option->commands != 0);
                assert_non_null(option->help);
                for (size_t k = 0; k < i; k++) {
                        assert_string_not_equal(option->name, cli_options[k].name);
                        if (option->letter)
                                assert_int_not_equal(option->letter, cli_options[k].letter);
                }
        }
}

static void a_letter_may_take_a_value(void **state)
{
        struct cli_request request = good("check -H gpu[01-04] --fanout 8 -Hx --hosts file");

        (void)state;
        assert_int_equal(request.command, CLI_CHECK);
        assert_int_equal(request.hosts.n, 3);
        assert_string_equal(request.hosts.v[0].value, "gpu[01-04]");
        assert_string_equal(request.hosts.v[1].value, "x");
        assert_int_equal(request.fanout, 8);
        assert_int_equal(request.host_timeout_ms, 30000);
        cli_request_done(&request);
        request = good("kill -nH x");
        assert_true(request.dry_run);
        assert_string_equal(request.hosts.v[0].value, "x");
        cli_request_done(&request);
        bad("list -H", "-H needs a value: -H TARGET");
        bad("list -H x -q", "--quiet is not for other machines");
        bad("list -H x --format prom", "--format prom is of one machine");
        bad("list -H x --fanout 201", "is no number from 1 to 200");
        bad("list --fanout 3", "say which");
        bad("run -H x -- true", "--host is not for \"gpufree run\"");
        bad("park -H x --gpu 0", "--host is not for");
}

static void help_names_every_option_and_exit_code(void **state)
{
        struct gf_str out = { 0 };

        (void)state;
        cli_help(&out);
        for (size_t i = 0; i < cli_option_count; i++) {
                _cleanup_free_ char *name = gf_asprintf("--%s", cli_options[i].name);

                if (cli_options[i].group != CLI_GROUPS)
                        assert_non_null(strstr(out.s, name));
                else
                        assert_null(strstr(out.s, name));
        }
        for (char code = '0'; code <= '6'; code++) {
                char line[] = { '\n', ' ', ' ', code, ' ', '\0' };

                assert_non_null(strstr(out.s, line));
        }
        gf_str_done(&out);
        cli_help_command(&out, CLI_WAIT);
        assert_non_null(strstr(out.s, "--timeout"));
        assert_null(strstr(out.s, "--dry-run"));
        gf_str_done(&out);
}

static void nearest_is_near_or_nothing(void **state)
{
        static const char *const names[] = { "list", "kill", "check", "wait", "help" };

        (void)state;
        assert_string_equal(cli_nearest("chekc", names, 5), "check");
        assert_string_equal(cli_nearest("ch", names, 5), "check");
        assert_string_equal(cli_nearest("wiat", names, 5), "wait");
        assert_null(cli_nearest("ps", names, 5));
        assert_null(cli_nearest("a-very-long-word-that-is-longer-than-any-command", names, 5));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(without_a_command_it_lists),
                cmocka_unit_test(options_stand_before_or_after_the_command),
                cmocka_unit_test(letters_combine),
                cmocka_unit_test(behind_two_dashes_all_is_paths),
                cmocka_unit_test(the_ladder_is_the_contracts),
                cmocka_unit_test(a_long_grace_stretches_the_whole_unless_told),
                cmocka_unit_test(signals_are_named_in_every_usual_way),
                cmocka_unit_test(parking_takes_pids_and_places),
                cmocka_unit_test(wrong_words_are_told_with_what_would_be_right),
                cmocka_unit_test(options_of_other_commands_are_refused),
                cmocka_unit_test(every_option_reaches_its_commands),
                cmocka_unit_test(a_letter_may_take_a_value),
                cmocka_unit_test(help_names_every_option_and_exit_code),
                cmocka_unit_test(nearest_is_near_or_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

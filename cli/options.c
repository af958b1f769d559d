/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"

/* Later issues bring these; until then the answer is a plain one. */
static const char *const later_commands[] = { "top", "watch" };

_printf_(2, 3) static int wrong(char **ret_error, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        *ret_error = gf_vasprintf(format, ap);
        va_end(ap);
        return *ret_error ? -EINVAL : -ENOMEM;
}

static bool one_of(const char *word, const char *const *list, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(word, list[i]) == 0)
                        return true;
        return false;
}

enum cli_command cli_command_find(const char *name)
{
        enum cli_command command = CLI_LIST;

        while (command < CLI_COMMANDS && strcmp(cli_commands[command].name, name) != 0)
                command++;
        return command;
}

static int unknown_command(const char *word, char **ret_error)
{
        const char *names[CLI_COMMANDS], *near;

        for (size_t i = 0; i < CLI_COMMANDS; i++)
                names[i] = cli_commands[i].name;
        if (one_of(word, later_commands, ELEMENTSOF(later_commands)))
                return wrong(
                        ret_error,
                        "%s: not in this version; it has list, kill, check, wait, explain, park, unpark, run and help",
                        word);
        near = cli_nearest(word, names, CLI_COMMANDS);
        if (near)
                return wrong(ret_error, "\"%s\" is no command; did you mean \"gpufree %s\"?", word, near);
        return wrong(ret_error,
                     "\"%s\" is no command (list, kill, check, wait, explain, park, unpark, run, help) and no device "
                     "path (like "
                     "/dev/nvidia0)",
                     word);
}

static int unknown_option(const char *name, char **ret_error)
{
        const char *names[64], *near;
        size_t n = 0;

        for (size_t i = 0; i < cli_option_count && n < ELEMENTSOF(names); i++)
                if (cli_options[i].group != CLI_GROUPS)
                        names[n++] = cli_options[i].name;
        near = cli_nearest(name, names, n);
        if (near)
                return wrong(ret_error, "--%s: no such option; did you mean --%s?", name, near);
        return wrong(ret_error, "--%s: no such option; \"gpufree --help\" lists them", name);
}

const char *cli_signal_name(int signal)
{
        return sigabbrev_np(signal);
}

int cli_signal_parse(const char *text, int *ret_signal)
{
        const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
        uint32_t number;

        if (gf_parse_u32(text, &number) == 0) {
                if (number < 1 || number > (uint32_t)SIGRTMAX || !sigabbrev_np((int)number))
                        return -EINVAL;
                *ret_signal = (int)number;
                return 0;
        }
        for (int i = 1; i <= SIGRTMAX; i++) {
                const char *known = sigabbrev_np(i);

                if (known && strcasecmp(known, name) == 0) {
                        *ret_signal = i;
                        return 0;
                }
        }
        return -EINVAL;
}

static int take_duration(const char *name, const char *value, uint64_t *ret, char **ret_error)
{
        if (gf_parse_duration(value, ret) < 0)
                return wrong(ret_error, "--%s: \"%s\" is no duration (like 500ms, 10s, 2m)", name, value);
        return 0;
}

/* The position of `value` in `words`, written to *ret. */
static int take_word(const char *name, const char *value, const char *const *words, size_t n, unsigned *ret,
                     char **ret_error)
{
        struct gf_str list = { 0 };
        int r;

        for (size_t i = 0; i < n; i++) {
                if (strcmp(value, words[i]) == 0) {
                        *ret = (unsigned)i;
                        gf_str_done(&list);
                        return 0;
                }
                gf_str_addf(&list, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", words[i]);
        }
        r = wrong(ret_error, "--%s: \"%s\" is none of %s", name, value, list.s ? list.s : "");
        gf_str_done(&list);
        return r;
}

static int take_purpose(struct cli_request *request, const char *value, char **ret_error)
{
        static const char *const purposes[] = { "run", "reset", "mig", "unload", "unbind" };
        static const enum gpufree_purpose known[] = { GPUFREE_FOR_RESET, GPUFREE_FOR_RESET, GPUFREE_FOR_MIG,
                                                      GPUFREE_FOR_UNLOAD, GPUFREE_FOR_UNBIND };
        unsigned n = 0;
        int r = take_word("for", value, purposes, ELEMENTSOF(purposes), &n, ret_error);

        if (r < 0)
                return r;
        request->purpose_set = n > 0;
        request->purpose = known[n];
        return 0;
}

static int take_criterion(struct cli_request *request, const struct cli_option *option, const char *value)
{
        struct cli_criterion *criterion = gf_vec_add(&request->criteria);

        if (!criterion)
                return -ENOMEM;
        criterion->option = option;
        criterion->value = value;
        return 0;
}

static int take_choice(struct cli_request *request, const struct cli_option *option, const char *value,
                       char **ret_error)
{
        static const char *const scans[] = { "auto", "bpf", "proc" }, *const scopes[] = { "machine", "namespace" },
                                 *const colors[] = { "auto", "always", "never" };
        unsigned n = 0;
        int r;

        if (option->id == CLI_OPT_SCAN) {
                r = take_word(option->name, value, scans, ELEMENTSOF(scans), &n, ret_error);
                request->scan = n == 0 ? GPUFREE_SCAN_AUTO : n == 1 ? GPUFREE_SCAN_BPF : GPUFREE_SCAN_PROC;
        } else if (option->id == CLI_OPT_SCOPE) {
                r = take_word(option->name, value, scopes, ELEMENTSOF(scopes), &n, ret_error);
                request->scope = n == 0 ? GPUFREE_SCOPE_MACHINE : GPUFREE_SCOPE_NAMESPACE;
        } else {
                r = take_word(option->name, value, colors, ELEMENTSOF(colors), &n, ret_error);
                request->color = n == 0 ? CLI_COLOR_AUTO : n == 1 ? CLI_COLOR_ALWAYS : CLI_COLOR_NEVER;
        }
        return r;
}

static int take_format(struct cli_request *request, const char *name, const char *value, char **ret_error)
{
        static const char *const formats[] = { "table", "json", "prom" };
        unsigned n = 0;
        int r = take_word(name, value, formats, ELEMENTSOF(formats), &n, ret_error);

        if (r < 0)
                return r;
        request->format = n == 0 ? CLI_FORMAT_TABLE : n == 1 ? CLI_FORMAT_JSON : CLI_FORMAT_PROM;
        request->format_set = true;
        return 0;
}

static int take(struct cli_request *request, const struct cli_option *option, const char *value, char **ret_error)
{
        struct cli_criterion *seen = gf_vec_add(&request->seen);

        if (!seen)
                return -ENOMEM;
        *seen = (struct cli_criterion){ option, value };
        switch (option->id) {
        case CLI_OPT_CRITERION:
                return take_criterion(request, option, value);
        case CLI_OPT_DEV_ROOT:
                request->dev_root = value;
                return 0;
        case CLI_OPT_CONFIG:
                request->config = value;
                return 0;
        case CLI_OPT_SCAN:
        case CLI_OPT_SCOPE:
        case CLI_OPT_COLOR:
                return take_choice(request, option, value, ret_error);
        case CLI_OPT_DRY_RUN:
                request->dry_run = true;
                return 0;
        case CLI_OPT_YES:
                request->yes = true;
                return 0;
        case CLI_OPT_SIGNAL:
                request->signal_set = true;
                if (cli_signal_parse(value, &request->ladder.signal) < 0)
                        return wrong(ret_error, "--signal: \"%s\" is no signal (like TERM, INT, 15)", value);
                return 0;
        case CLI_OPT_GRACE:
                request->grace_set = true;
                return take_duration(option->name, value, &request->ladder.grace_ms, ret_error);
        case CLI_OPT_FORCE:
                request->ladder.force = true;
                return 0;
        case CLI_OPT_STOP_OWNER:
                request->ladder.stop_owner = true;
                return 0;
        case CLI_OPT_PARK_FIRST:
                request->park_first = true;
                return 0;
        case CLI_OPT_CONTINUE:
                request->park.resume_stopped = true;
                return 0;
        case CLI_OPT_ALL:
                request->all = true;
                return 0;
        case CLI_OPT_TO:
                request->park.to = value;
                return 0;
        case CLI_OPT_TIMEOUT:
                request->timeout_set = true;
                return take_duration(option->name, value, &request->timeout_ms, ret_error);
        case CLI_OPT_SETTLE:
                return take_duration(option->name, value, &request->ladder.settle_ms, ret_error);
        case CLI_OPT_SAMPLE:
                return take_duration(option->name, value, &request->sample_ms, ret_error);
        case CLI_OPT_FOR:
                return take_purpose(request, value, ret_error);
        case CLI_OPT_BY:
                request->by_owner = strcmp(value, "owner") == 0;
                return request->by_owner ? 0 : wrong(ret_error, "--by: \"%s\" is none of owner", value);
        case CLI_OPT_FREE_MEMORY:
        case CLI_OPT_QUIET_FOR:
        case CLI_OPT_GPUS:
        case CLI_OPT_CLEAN:
        case CLI_OPT_CLAIM:
        case CLI_OPT_READY_URL:
        case CLI_OPT_READY_TCP:
        case CLI_OPT_READY_LOG:
        case CLI_OPT_READY_FD:
        case CLI_OPT_READY_TIMEOUT:
        case CLI_OPT_STALL_TIMEOUT:
        case CLI_OPT_ON_READY:
        case CLI_OPT_LOG:
        case CLI_OPT_JSON_FILE:
        case CLI_OPT_RESTART:
        case CLI_OPT_PARK_ON:
        case CLI_OPT_UNPARK_ON:
        case CLI_OPT_PREEMPT:
        case CLI_OPT_PRIORITY:
                return cli_run_option(request, option, value, ret_error);
        case CLI_OPT_FORMAT:
                return take_format(request, option->name, value, ret_error);
        case CLI_OPT_HOST:
        case CLI_OPT_HOSTS:
        case CLI_OPT_FANOUT:
        case CLI_OPT_HOST_TIMEOUT:
        case CLI_OPT_TETHER:
        case CLI_OPT_SHOWN:
                return cli_fleet_option(request, option, value, ret_error);
        case CLI_OPT_JSON:
                request->json = true;
                return 0;
        case CLI_OPT_QUIET:
                request->quiet = true;
                return 0;
        case CLI_OPT_HELP:
                request->help = true;
                return 0;
        case CLI_OPT_VERSION:
                request->version = true;
                return 0;
        case CLI_OPT_DUMP:
                request->dump = true;
                return 0;
        default:
                return -EINVAL;
        }
}

/* "--name", "--name=value", "--name value": *i moves on when the next word is the value. */
static int take_long(struct cli_request *request, int argc, char *const argv[], int *i, char **ret_error)
{
        const char *word = argv[*i] + 2, *equals = strchr(word, '=');
        size_t n = equals ? (size_t)(equals - word) : strlen(word);

        for (size_t k = 0; k < cli_option_count; k++) {
                const struct cli_option *option = &cli_options[k];

                if (strlen(option->name) != n || strncmp(option->name, word, n) != 0)
                        continue;
                if (!option->argument)
                        return equals ? wrong(ret_error, "--%s takes no value", option->name)
                                      : take(request, option, NULL, ret_error);
                if (equals)
                        return take(request, option, equals + 1, ret_error);
                if (*i + 1 >= argc)
                        return wrong(ret_error, "--%s needs a value: --%s %s", option->name, option->name,
                                     option->argument);
                return take(request, option, argv[++*i], ret_error);
        }
        _cleanup_free_ char *name = strndup(word, n);

        return name ? unknown_option(name, ret_error) : -ENOMEM;
}

/* "-n", "-nq", "-H host", "-Hhost": *i moves on when the next word is the value. */
static int take_short(struct cli_request *request, int argc, char *const argv[], int *i, char **ret_error)
{
        const char *word = argv[*i];

        for (const char *c = word + 1; *c; c++) {
                const struct cli_option *option = NULL;
                int r;

                for (size_t k = 0; k < cli_option_count && !option; k++)
                        if (cli_options[k].letter == *c)
                                option = &cli_options[k];
                if (!option)
                        return wrong(ret_error, "%s: there is no option -%c; \"gpufree --help\" lists them", word, *c);
                if (option->argument) {
                        if (c[1] == '\0' && *i + 1 >= argc)
                                return wrong(ret_error, "-%c needs a value: -%c %s", *c, *c, option->argument);
                        return take(request, option, c[1] ? c + 1 : argv[++*i], ret_error);
                }
                r = take(request, option, NULL, ret_error);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int take_pid(struct cli_request *request, const char *word, char **ret_error)
{
        pid_t pid, *slot;

        if (gf_parse_pid(word, &pid) < 0)
                return request->command == CLI_EXPLAIN
                               ? wrong(ret_error, "%s: is no PID (gpufree list shows who holds a GPU)", word)
                               : wrong(ret_error, "%s: is no PID (gpufree list shows who is parked)", word);
        slot = gf_vec_add(&request->pids);
        if (!slot)
                return -ENOMEM;
        *slot = pid;
        return 0;
}

static int take_positional(struct cli_request *request, const char *word, char **ret_error)
{
        const char **path;
        bool number = word[0] != '\0' && word[strspn(word, "0123456789")] == '\0';

        if (request->named && (request->command == CLI_UNPARK || (number && request->command == CLI_EXPLAIN)))
                return take_pid(request, word, ret_error);
        if (number)
                return wrong(ret_error,
                             "%s: is no device path; a process is selected with --pid %s, a GPU with --gpu %s", word,
                             word, word);
        if (!request->named && request->paths.n == 0 && !strchr(word, '/')) {
                request->command = cli_command_find(word);
                request->named = true;
                return request->command < CLI_COMMANDS ? 0 : unknown_command(word, ret_error);
        }
        if (request->named && request->command == CLI_HELP) {
                if (request->topic)
                        return wrong(ret_error, "help takes one command: gpufree help kill");
                request->topic = word;
                return cli_command_find(word) < CLI_COMMANDS ? 0 : unknown_command(word, ret_error);
        }
        if (request->command == CLI_RUN && !strchr(word, '/'))
                return wrong(ret_error, "%s: the command stands behind \"--\": gpufree run -- %s", word, word);
        path = gf_vec_add(&request->paths);
        if (!path)
                return -ENOMEM;
        *path = word;
        return 0;
}

/* --format says in one word what --json, --quiet and the table say; two different ones are a mistake. */
static int wrong_format(const struct cli_request *request, char **ret_error)
{
        if (!request->format_set)
                return 0;
        if (request->json && request->format != CLI_FORMAT_JSON)
                return wrong(ret_error, "--json and another --format exclude each other");
        if (request->quiet)
                return wrong(ret_error, "--format and --quiet exclude each other");
        if (request->format == CLI_FORMAT_PROM && request->by_owner)
                return wrong(ret_error, "--format prom is by owner anyway: leave --by out");
        if (request->format == CLI_FORMAT_PROM && request->sample_ms > 0)
                return wrong(ret_error, "--sample is for --format table and json");
        return 0;
}

static int no_such_combination(const struct cli_request *request, char **ret_error)
{
        for (size_t i = 0; i < request->seen.n; i++) {
                const struct cli_option *option = request->seen.v[i].option;
                const char *for_which = NULL;

                if (option->commands & (1u << request->command))
                        continue;
                for (size_t c = CLI_COMMANDS; c-- > 0;)
                        if (option->commands & (1u << c))
                                for_which = cli_commands[c].name;
                return wrong(ret_error, "--%s is not for \"gpufree %s\" (it is for \"gpufree %s\")", option->name,
                             cli_commands[request->command].name, for_which);
        }
        if (request->command == CLI_RUN && !request->run)
                return wrong(ret_error, "run needs a command behind \"--\": gpufree run --gpus 1 -- python train.py");
        if (request->command == CLI_RUN && request->json && request->json_file)
                return wrong(ret_error, "--json and --json-file exclude each other");
        if (request->command == CLI_RUN && request->json && !request->guard.log)
                return wrong(ret_error, "run --json: standard output is the command's; send that to a file with --log "
                                        "FILE, or the document with --json-file FILE");
        if (request->command != CLI_RUN && request->json && request->quiet)
                return wrong(ret_error, "--json and --quiet exclude each other");
        if (wrong_format(request, ret_error) < 0)
                return -EINVAL;
        if (request->hosts.n == 0)
                for (size_t i = 0; i < request->seen.n; i++)
                        if (request->seen.v[i].option->group == CLI_GROUP_REACH)
                                return wrong(ret_error,
                                             "--%s is about other machines: say which, with --host or --hosts",
                                             request->seen.v[i].option->name);
        if (request->hosts.n > 0 && (request->quiet || (request->by_owner && !request->json)))
                return wrong(ret_error, "--%s is not for other machines: the same PID is on many",
                             request->quiet ? "quiet" : "by");
        if (request->hosts.n > 0 && request->format == CLI_FORMAT_PROM)
                return wrong(ret_error, "--format prom is of one machine: node exporter runs on each");
        if (request->hosts.n > 0 && request->tether)
                return wrong(ret_error, "--tether: of the gpufree on the other machine");
        if (request->purpose_set && request->calm.free_memory != GPUFREE_UNKNOWN)
                return wrong(ret_error, "--free-memory is for --for run: nothing else is about memory");
        if (request->command == CLI_PARK && request->criteria.n == 0 && request->paths.n == 0)
                return wrong(ret_error, "park: say whom, like --pid 21316, --gpu 0 or --user me");
        if (request->command == CLI_UNPARK && request->all == (request->pids.n > 0))
                return wrong(ret_error, "unpark: say whom: a PID, or --all");
        if (request->park_first && request->ladder.stop_owner)
                return wrong(ret_error, "--park-first and --stop-owner exclude each other: the owner's command would "
                                        "end what was parked");
        if (request->ladder.force && request->signal_set)
                return wrong(ret_error, "--force and --signal exclude each other: --force sends SIGKILL at once");
        if (request->command == CLI_KILL && !request->ladder.force && request->grace_set && request->timeout_set &&
            request->ladder.grace_ms >= request->timeout_ms)
                return wrong(ret_error, "--timeout: shorter than --grace, SIGKILL would never be sent (give a shorter "
                                        "--grace, or --force)");
        return 0;
}

/* Without --timeout a long grace stretches the whole, so that there is time left after SIGKILL. */
static void settle_timeout(struct cli_request *request)
{
        const uint64_t after_kill_ms = 50000;

        if (request->timeout_set)
                request->park.timeout_ms = request->timeout_ms;
        request->park.settle_ms = request->ladder.settle_ms;
        request->park.each = request->park_first;
        if (request->command != CLI_KILL)
                return;
        if (request->timeout_set)
                request->ladder.timeout_ms = request->timeout_ms;
        /* A short time for the whole leaves time for SIGKILL: half of it is grace. */
        if (request->timeout_set && !request->grace_set && request->ladder.grace_ms >= request->timeout_ms)
                request->ladder.grace_ms = request->timeout_ms / 2;
        if (request->timeout_set)
                return;
        if (__builtin_add_overflow(request->ladder.grace_ms, after_kill_ms, &request->ladder.timeout_ms))
                request->ladder.timeout_ms = GPUFREE_UNKNOWN - 1;
        if (request->ladder.timeout_ms < 60000)
                request->ladder.timeout_ms = 60000;
}

int cli_request_parse(struct cli_request *request, int argc, char *const argv[], char **ret_error)
{
        bool only_positional = false;
        int r = 0;

        *request = (struct cli_request){ .ladder = GPUFREE_LADDER_INIT,
                                         .park = GPUFREE_PARK_OPTIONS_INIT,
                                         .timeout_ms = GPUFREE_UNKNOWN,
                                         .fanout = 64,
                                         .host_timeout_ms = 30000,
                                         .calm = { sizeof(request->calm), GPUFREE_UNKNOWN, 0 },
                                         .guard = GPUFREE_GUARD_OPTIONS_INIT };
        for (int i = 1; i < argc && r >= 0; i++) {
                const char *word = argv[i];

                if (only_positional || word[0] != '-' || word[1] == '\0')
                        r = take_positional(request, word, ret_error);
                else if (strcmp(word, "--") == 0 && request->command == CLI_RUN) {
                        request->run = i + 1 < argc ? &argv[i + 1] : NULL;
                        break;
                } else if (strcmp(word, "--") == 0)
                        only_positional = true;
                else if (word[1] == '-')
                        r = take_long(request, argc, argv, &i, ret_error);
                else
                        r = take_short(request, argc, argv, &i, ret_error);
        }
        if (r < 0)
                return r;
        if (request->help || request->version || request->dump)
                return 0;
        r = no_such_combination(request, ret_error);
        if (r < 0)
                return r;
        request->json = request->json || request->format == CLI_FORMAT_JSON;
        settle_timeout(request);
        return 0;
}

void cli_request_done(struct cli_request *request)
{
        gf_vec_done(&request->criteria);
        gf_vec_done(&request->paths);
        gf_vec_done(&request->pids);
        gf_vec_done(&request->seen);
        gf_vec_done(&request->hosts);
}

bool cli_request_filters(const struct cli_request *request)
{
        for (size_t i = 0; i < request->criteria.n; i++) {
                enum gpufree_criterion criterion = request->criteria.v[i].option->criterion;

                if (criterion != GPUFREE_BY_GPU && criterion != GPUFREE_ANY_OPEN && criterion != GPUFREE_INCLUDE)
                        return true;
        }
        return false;
}

bool cli_request_any_open(const struct cli_request *request)
{
        for (size_t i = 0; i < request->criteria.n; i++)
                if (request->criteria.v[i].option->criterion == GPUFREE_ANY_OPEN)
                        return true;
        return false;
}

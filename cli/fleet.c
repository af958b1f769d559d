/* SPDX-License-Identifier: MIT */
/* A command on other machines: the gpufree there answers in JSON, here it becomes one answer. */
#include "fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "fleet/hosts.h"
#include "json.h"

#define ANSWER_MAX ((size_t)4 << 20)   /* of one host */
#define ANSWERS_MAX ((size_t)64 << 20) /* of all together */
#define HOSTS_FILE_MAX ((size_t)4 << 20)

static int read_hosts(const char *path, gf_strv *names, char **ret_error)
{
        _cleanup_fclose_ FILE *file = fopen(path, "re");
        struct gf_str text = { 0 };
        char part[4096];
        size_t n;
        int r = 0;

        if (!file) {
                *ret_error = gf_asprintf("%s: %s", path, strerror(errno));
                return -EINVAL;
        }
        while ((n = fread(part, 1, sizeof(part), file)) > 0 && text.n <= HOSTS_FILE_MAX)
                gf_str_addn(&text, part, n);
        if (text.n > HOSTS_FILE_MAX || ferror(file) || (text.n > 0 && memchr(text.s, '\0', text.n))) {
                *ret_error = gf_asprintf("%s: is no list of hosts (text, at most 4 MiB)", path);
                r = -EINVAL;
        } else if (text.n > 0) {
                r = text.failed ? -ENOMEM : fleet_hosts_add_text(names, text.s, ret_error);
        }
        gf_str_done(&text);
        return r;
}

static int gather_names(const struct cli_request *request, gf_strv *names, const char **ret_option, char **ret_error)
{
        int r = 0;

        for (size_t i = 0; i < request->hosts.n && r >= 0; i++) {
                const struct cli_criterion *host = &request->hosts.v[i];

                *ret_option = host->option->name;
                r = host->option->id == CLI_OPT_HOSTS ? read_hosts(host->value, names, ret_error)
                                                      : fleet_hosts_add(names, host->value, ret_error);
        }
        if (r >= 0 && names->n == 0) {
                *ret_error = gf_asprintf("no host in the list");
                r = -EINVAL;
        }
        return r;
}

/* 0, or an exit code. */
static int gather(struct cli_fleet *fleet)
{
        struct cli_session *session = fleet->session;
        gf_strv names = { 0 };
        _cleanup_free_ char *error = NULL;
        const char *option = "host";
        int r = gather_names(session->request, &names, &option, &error);

        for (size_t i = 0; i < names.n && r >= 0; i++) {
                struct cli_far *far = gf_vec_add(&fleet->hosts);

                r = far ? fleet_target_parse(names.v[i], &far->target, &error) : -ENOMEM;
                if (far)
                        far->answer.code = -1;
        }
        gf_strv_done(&names);
        if (r >= 0)
                return 0;
        cli_term_error(&session->term, "--%s: %s", option, error ? error : strerror(-r));
        return GPUFREE_USAGE;
}

static bool passed_on(const struct cli_option *option, bool pid)
{
        switch ((int)option->id) {
        case CLI_OPT_JSON:
        case CLI_OPT_QUIET:
        case CLI_OPT_COLOR:
        case CLI_OPT_YES:
        case CLI_OPT_DRY_RUN:
        case CLI_OPT_SHOWN:
        case CLI_OPT_TETHER:
                return false;
        case CLI_OPT_CRITERION:
                return !(pid && option->criterion == GPUFREE_BY_PID);
        default:
                return option->group != CLI_GROUP_REACH;
        }
}

int cli_fleet_argv(const struct cli_request *request, bool pid, const char *const *more, gf_strv *ret_argv)
{
        gf_strv argv = { 0 };
        int r = gf_strv_add(&argv, "gpufree");

        if (r >= 0)
                r = gf_strv_add(&argv, cli_commands[request->command].name);
        if (r >= 0)
                r = gf_strv_add(&argv, "--json");
        if (r >= 0)
                r = gf_strv_add(&argv, "--tether");
        for (size_t i = 0; more && more[i] && r >= 0; i++)
                r = gf_strv_add(&argv, more[i]);
        for (size_t i = 0; i < request->seen.n && r >= 0; i++) {
                const struct cli_criterion *seen = &request->seen.v[i];

                if (passed_on(seen->option, pid))
                        r = seen->value ? gf_strv_addf(&argv, "--%s=%s", seen->option->name, seen->value)
                                        : gf_strv_addf(&argv, "--%s", seen->option->name);
        }
        if (r >= 0 && request->paths.n + request->pids.n > 0)
                r = gf_strv_add(&argv, "--");
        for (size_t i = 0; i < request->paths.n && r >= 0; i++)
                r = gf_strv_add(&argv, request->paths.v[i]);
        for (size_t i = 0; i < request->pids.n && r >= 0; i++)
                r = gf_strv_addf(&argv, "%d", (int)request->pids.v[i]);
        if (r < 0)
                gf_strv_done(&argv);
        else
                *ret_argv = argv;
        return r;
}

int cli_fleet_line(struct cli_far *far, const gf_strv *argv)
{
        free(TAKE(far->line));
        far->asked = true;
        return fleet_target_line(&far->target, argv, &far->line);
}

static void on_done(void *userdata, struct fleet_job *job)
{
        struct cli_fleet *fleet = userdata;
        struct cli_far *far = fleet->round[job - fleet->jobs];
        struct fleet_answer answer;

        fleet->read += job->output.n;
        if (fleet->read > ANSWERS_MAX) {
                job->too_large = true;
                job->ended = false;
        }
        if (fleet_answer_read(job, cli_commands[fleet->session->request->command].name, fleet->timeout_ms, &answer) <
            0) {
                fleet->failed = true;
        } else {
                fleet_answer_done(&far->answer);
                far->answer = answer;
        }
        fleet_job_done(job);
}

static void on_tick(void *userdata, size_t done, size_t running)
{
        struct cli_fleet *fleet = userdata;
        _cleanup_free_ char *text = NULL;

        if (!fleet->session->term.err_tty || (fleet->done_shown == done && done > 0))
                return;
        fleet->done_shown = done;
        text = gf_asprintf("%zu of %zu hosts have answered, %zu asked", done, fleet->n_jobs, running);
        if (text)
                cli_term_progress(&fleet->session->term, text);
}

int cli_fleet_round(struct cli_fleet *fleet, uint64_t timeout_ms)
{
        struct cli_session *session = fleet->session;
        struct fleet_transport transport = { .fanout = session->request->fanout,
                                             .timeout_ms = timeout_ms,
                                             .connect_ms = session->request->host_timeout_ms,
                                             .output_max = ANSWER_MAX,
                                             .cancel_fd = session->cancel_fd,
                                             .may_ask = fleet->hosts.n == 1 && session->term.in_tty,
                                             .on_done = on_done,
                                             .on_tick = on_tick,
                                             .userdata = fleet };
        size_t n = 0;
        int r = -ENOMEM;

        fleet->timeout_ms = timeout_ms;
        fleet->done_shown = 0;
        fleet->jobs = calloc(fleet->hosts.n, sizeof(*fleet->jobs));
        fleet->round = calloc(fleet->hosts.n, sizeof(struct cli_far *));
        if (fleet->jobs && fleet->round) {
                for (size_t i = 0; i < fleet->hosts.n; i++)
                        if (fleet->hosts.v[i].asked) {
                                fleet->round[n] = &fleet->hosts.v[i];
                                fleet->jobs[n].host = fleet->hosts.v[i].target.host;
                                fleet->jobs[n++].line = fleet->hosts.v[i].line;
                        }
                fleet->n_jobs = n;
                r = fleet_transport_run(&transport, fleet->jobs, n);
        }
        cli_term_progress(&session->term, NULL);
        for (size_t i = 0; i < n && r == -ECANCELED; i++)
                if (fleet->jobs[i].cancelled && fleet->jobs[i].since == 0) /* never begun */
                        on_done(fleet, &fleet->jobs[i]);
        free(fleet->jobs);
        free(fleet->round);
        fleet->jobs = NULL;
        fleet->round = NULL;
        fleet->cancelled |= r == -ECANCELED;
        if (fleet->failed)
                r = -ENOMEM;
        if (r >= 0 || r == -ECANCELED)
                return 0;
        cli_term_error(&session->term, r == -ENOENT ? "there is no ssh in PATH" : "can't run ssh: %s", strerror(-r));
        return GPUFREE_INCOMPLETE;
}

int cli_fleet_code(const struct cli_fleet *fleet)
{
        int code = GPUFREE_OK;

        for (size_t i = 0; i < fleet->hosts.n; i++)
                code = fleet_worse(code, fleet_answer_code(&fleet->hosts.v[i].answer));
        return code;
}

static void add_json(const struct cli_fleet *fleet, int code, const char *reason, struct gf_str *out)
{
        json_t *document = cli_json_new(fleet->session), *hosts = json_array();

        cli_json_outcome(document, code, reason);
        for (size_t i = 0; i < fleet->hosts.n; i++) {
                const struct cli_far *far = &fleet->hosts.v[i];

                (void)json_array_append_new(hosts,
                                            fleet_answer_json(&far->answer, cli_json_text_or_null(far->target.text),
                                                              cli_json_text_or_null(far->answer.sentence)));
        }
        cli_json_set(document, "hosts", hosts);
        cli_json_text(out, document, 0);
        json_decref(document);
}

int cli_fleet_finish(struct cli_fleet *fleet, int code, const char *reason)
{
        struct cli_session *session = fleet->session;
        struct gf_str out = { 0 };
        int r;

        if (session->request->json)
                add_json(fleet, code, reason, &out);
        else
                cli_fleet_view(fleet, &out);
        r = cli_deliver(session, &out);
        /* 2 says that nothing was done. */
        if (r != 0 && session->request->command == CLI_KILL && !session->request->dry_run)
                return code != GPUFREE_OK ? code : GPUFREE_INCOMPLETE;
        return r != 0 ? r : code;
}

static uint64_t time_for(const struct cli_request *request)
{
        uint64_t sum = request->host_timeout_ms;

        if (request->command == CLI_WAIT && !request->timeout_set)
                return GPUFREE_UNKNOWN;
        if (request->command == CLI_LIST && __builtin_add_overflow(sum, request->sample_ms, &sum))
                return GPUFREE_UNKNOWN;
        if (request->command == CLI_WAIT && (__builtin_add_overflow(sum, request->timeout_ms, &sum) ||
                                             __builtin_add_overflow(sum, request->ladder.settle_ms, &sum)))
                return GPUFREE_UNKNOWN;
        return sum;
}

static int ask_all(struct cli_fleet *fleet)
{
        struct cli_session *session = fleet->session;
        gf_strv argv = { 0 };
        int r = cli_fleet_argv(session->request, false, NULL, &argv);

        for (size_t i = 0; i < fleet->hosts.n && r >= 0; i++)
                r = cli_fleet_line(&fleet->hosts.v[i], &argv);
        gf_strv_done(&argv);
        if (r < 0) {
                cli_term_error(&session->term, "%s", strerror(-r));
                return GPUFREE_INCOMPLETE;
        }
        r = cli_fleet_round(fleet, time_for(session->request));
        if (r != 0)
                return r;
        if (!fleet->cancelled)
                return cli_fleet_finish(fleet, cli_fleet_code(fleet), NULL);
        cli_say_interrupted(session);
        return cli_fleet_finish(fleet, 128 + cli_interrupted(), "interrupted");
}

int cli_fleet(struct cli_session *session)
{
        struct cli_fleet fleet = { .session = session };
        int code = gather(&fleet);

        if (code == 0)
                code = session->request->command == CLI_KILL ? cli_fleet_kill(&fleet) : ask_all(&fleet);
        for (size_t i = 0; i < fleet.hosts.n; i++) {
                fleet_target_done(&fleet.hosts.v[i].target);
                fleet_answer_done(&fleet.hosts.v[i].answer);
                free(fleet.hosts.v[i].line);
        }
        gf_vec_done(&fleet.hosts);
        return code;
}

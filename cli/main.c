/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "session.h"

/* --help, --version and the like: text on standard output. */
static int show(struct cli_session *session)
{
        const struct cli_request *request = session->request;
        struct gf_str out = { 0 };

        if (request->version)
                gf_str_add(&out, "gpufree " GPUFREE_VERSION "\n");
        else if (request->dump)
                cli_dump_options(&out);
        else if (request->command == CLI_HELP && request->topic)
                cli_help_command(&out, cli_command_find(request->topic));
        else if (request->help && request->named && request->command != CLI_HELP)
                cli_help_command(&out, request->command);
        else
                cli_help(&out);
        return cli_deliver(session, &out);
}

static int run(struct cli_session *session, struct cli_request *request)
{
        int code;

        if (request->help || request->version || request->dump || request->command == CLI_HELP) {
                session->request = request;
                cli_term_init(&session->term, request->color);
                return show(session);
        }
        if (request->hosts.n > 0) {
                code = cli_session_open_away(session, request);
                return code != 0 ? code : cli_fleet(session);
        }
        code = cli_session_open(session, request);
        if (code != 0)
                return code;
        switch (request->command) {
        case CLI_LIST:
                return cli_list(session);
        case CLI_KILL:
                return cli_kill(session);
        case CLI_CHECK:
                return cli_check(session);
        case CLI_WAIT:
                return cli_wait(session);
        case CLI_PARK:
                return cli_park(session);
        case CLI_UNPARK:
                return cli_unpark(session);
        case CLI_EXPLAIN:
                return cli_explain(session);
        case CLI_RUN:
                return cli_run(session);
        case CLI_HELP:
        case CLI_COMMANDS:
        default:
                return GPUFREE_USAGE;
        }
}

/* Some file systems tell of a full disk only now. */
static int close_output(struct cli_session *session, const struct cli_request *request, int code)
{
        if (close(STDOUT_FILENO) == 0 || errno == EBADF)
                return code;
        cli_term_error(&session->term, "can't write to standard output: %s", strerror(errno));
        /* 2 says that nothing was done. What a guard exits with is its command's. */
        if (request->command == CLI_RUN)
                return code;
        if (request->command == CLI_KILL && !request->dry_run)
                return code != GPUFREE_OK ? code : GPUFREE_INCOMPLETE;
        return GPUFREE_USAGE;
}

int main(int argc, char *argv[])
{
        struct cli_request request;
        struct cli_session session = { .cancel_fd = -1 };
        _cleanup_free_ char *error = NULL;
        int r, code;

        cli_term_guard();
        session.default_pipe = signal(SIGPIPE, SIG_IGN) ==
                               SIG_DFL; /* a reader that goes away is a failed write, not a death half-way */
        r = cli_request_parse(&request, argc, argv, &error);
        if (r < 0) {
                cli_term_init(&session.term, CLI_COLOR_AUTO);
                cli_term_error(&session.term, "%s", error ? error : strerror(-r));
                code = GPUFREE_USAGE;
        } else {
                code = run(&session, &request);
        }
        cli_session_close(&session);
        cli_request_done(&request);
        return close_output(&session, &request, code);
}

/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A signal handler has nothing but globals. */
static volatile sig_atomic_t interrupt_signal;
static int interrupt_pipe[2] = { -1, -1 };
static pid_t interrupt_owner;

static void on_interrupt(int signo)
{
        int saved = errno;
        char byte = 0;

        if (getpid() != interrupt_owner) /* a child of the library: it just ends */
                _exit(128 + signo);
        interrupt_signal = signo;
        if (write(interrupt_pipe[1], &byte, 1) < 0)
                interrupt_signal = signo; /* full: it is readable already */
        errno = saved;
}

static int catch_signals(void)
{
        static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
        /* Once each: the second one ends us, whatever hangs. */
        struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };
        struct sigaction before;

        if (pipe2(interrupt_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        interrupt_owner = getpid();
        for (size_t i = 0; i < ELEMENTSOF(signals); i++) {
                if (sigaction(signals[i], NULL, &before) < 0 || before.sa_handler == SIG_IGN) /* nohup */
                        continue;
                if (sigaction(signals[i], &action, NULL) < 0)
                        return -errno;
        }
        return 0;
}

int cli_interrupted(void)
{
        return interrupt_signal;
}

const char *cli_exit_name(int code)
{
        return code >= 128 ? "interrupted" : gpufree_outcome_name((enum gpufree_outcome)code);
}

void cli_say_interrupted(struct cli_session *session)
{
        const char *name = cli_signal_name(cli_interrupted());

        cli_term_error(&session->term, "interrupted by SIG%s", name ? name : "INT");
}

int cli_failed(struct cli_session *session, int error)
{
        if (error == -ECANCELED || cli_interrupted() != 0) {
                cli_say_interrupted(session);
                return 128 + (cli_interrupted() ? cli_interrupted() : SIGINT);
        }
        cli_term_error(&session->term, "%s", gpufree_error(session->context));
        switch (error) {
        case -ENODEV:
        case -EINVAL:
        case -ENOTDIR:
        case -EOPNOTSUPP:
                return GPUFREE_USAGE;
        case -EPERM:
        case -EACCES:
                return session->request->command == CLI_KILL || session->request->command == CLI_PARK ||
                                       session->request->command == CLI_UNPARK
                               ? GPUFREE_REFUSED
                               : GPUFREE_INCOMPLETE;
        default:
                return GPUFREE_INCOMPLETE;
        }
}

static int add_criteria(struct cli_session *session)
{
        const struct cli_request *request = session->request;

        for (size_t i = 0; i < request->criteria.n; i++) {
                const struct cli_criterion *criterion = &request->criteria.v[i];
                _cleanup_free_ char *error = NULL;
                int r;

                r = gpufree_selection_add(session->selection, criterion->option->criterion, criterion->value, &error);
                if (r == 0)
                        continue;
                cli_term_error(&session->term, "--%s: %s", criterion->option->name, error ? error : strerror(-r));
                return GPUFREE_USAGE;
        }
        return 0;
}

/* Every path is tried before anything is done, and each wrong one gets its line. */
static int add_places(struct cli_session *session)
{
        const struct cli_request *request = session->request;
        int code = 0;

        if (request->dev_root && gpufree_set_dev_root(session->context, request->dev_root) < 0) {
                cli_term_error(&session->term, "--dev-root: %s", gpufree_error(session->context));
                return GPUFREE_USAGE;
        }
        for (size_t i = 0; i < request->paths.n; i++)
                if (gpufree_add_device(session->context, request->paths.v[i]) < 0) {
                        cli_term_error(&session->term, "%s", gpufree_error(session->context));
                        code = GPUFREE_USAGE;
                }
        return code;
}

int cli_session_open_away(struct cli_session *session, struct cli_request *request)
{
        int r;

        session->request = request;
        cli_term_init(&session->term, request->color);
        r = catch_signals();
        if (r < 0) {
                cli_term_error(&session->term, "can't start: %s", strerror(-r));
                return GPUFREE_INCOMPLETE;
        }
        session->cancel_fd = interrupt_pipe[0];
        return 0;
}

int cli_session_open(struct cli_session *session, struct cli_request *request)
{
        int r;

        session->request = request;
        cli_term_init(&session->term, request->color);
        r = catch_signals();
        if (r >= 0 && request->tether)
                r = cli_tether();
        if (r >= 0)
                r = gpufree_new(&session->context);
        if (r >= 0)
                r = gpufree_selection_new(&session->selection);
        if (r < 0) {
                cli_term_error(&session->term, "can't start: %s", strerror(-r));
                return GPUFREE_INCOMPLETE;
        }
        session->cancel_fd = interrupt_pipe[0];
        if (gpufree_set_cancel_fd(session->context, session->cancel_fd) < 0 ||
            gpufree_set_scan_method(session->context, request->scan) < 0 ||
            gpufree_set_scope(session->context, request->scope) < 0) {
                cli_term_error(&session->term, "%s", gpufree_error(session->context));
                return GPUFREE_USAGE;
        }
        /* A short time for the whole is not spent on one answer of the driver. */
        if (request->timeout_set && request->timeout_ms > 0 && request->timeout_ms < 10000 &&
            gpufree_set_driver_deadline(session->context, request->timeout_ms) < 0) {
                cli_term_error(&session->term, "%s", gpufree_error(session->context));
                return GPUFREE_USAGE;
        }
        if (gpufree_load_config(session->context, request->config) < 0) {
                cli_term_error(&session->term, "%s", gpufree_error(session->context));
                return GPUFREE_USAGE;
        }
        r = add_criteria(session);
        return r != 0 ? r : add_places(session);
}

void cli_session_close(struct cli_session *session)
{
        cli_term_progress(&session->term, NULL);
        session->selection = gpufree_selection_unref(session->selection);
        session->context = gpufree_unref(session->context);
}

int cli_look(struct cli_session *session, gpufree_snapshot **ret_snapshot)
{
        int r = gpufree_look(session->context, session->selection, ret_snapshot);

        return r < 0 ? cli_failed(session, r) : 0;
}

bool cli_no_gpu(const struct cli_session *session, const gpufree_snapshot *snapshot)
{
        return session->request->paths.n == 0 && gpufree_snapshot_gpu_count(snapshot) == 0 &&
               gpufree_snapshot_holder_count(snapshot) == 0;
}

int cli_deliver(struct cli_session *session, struct gf_str *text)
{
        int r = text->failed ? -ENOMEM : cli_term_out(&session->term, text->s ? text->s : "", text->n);

        gf_str_done(text);
        if (r < 0) {
                cli_term_error(&session->term, "can't write to standard output: %s", strerror(-r));
                return GPUFREE_USAGE;
        }
        return 0;
}

void cli_add_pids(struct gf_str *out, const gpufree_snapshot *snapshot)
{
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);

                if (gpufree_holder_selected(holder))
                        gf_str_addf(out, "%d\n", (int)gpufree_holder_pid(holder));
        }
}

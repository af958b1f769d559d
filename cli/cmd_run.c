/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "audit.h"
#include "session.h"

GF_DEFINE_CLEANUP(gpufree_guard *, gpufree_guard_unref)

struct run {
        struct cli_session *session;
        bool show_progress;
};

static void on_event(void *userdata, enum gpufree_guard_event_type type, const char *text)
{
        struct run *run = userdata;
        struct cli_term *term = &run->session->term;

        if (type == GPUFREE_GUARD_PROGRESS && run->show_progress)
                cli_term_progress(term, text);
        else if (text &&
                 (type == GPUFREE_GUARD_WARNED || (type == GPUFREE_GUARD_SAID && !run->session->request->quiet)))
                cli_term_error(term, "%s", text);
}

static bool names_gpus(const struct cli_request *request)
{
        for (size_t i = 0; i < request->criteria.n; i++)
                if (request->criteria.v[i].option->criterion == GPUFREE_BY_GPU)
                        return true;
        return request->paths.n > 0;
}

/* What a batch system or a shell gave us is all that we may take. 0, or an exit code. */
static int narrow(struct cli_session *session)
{
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        _cleanup_free_ char *error = NULL;

        if (names_gpus(session->request) || !visible)
                return 0;
        if (visible[0] == '\0') {
                cli_term_error(&session->term,
                               "CUDA_VISIBLE_DEVICES is empty: no GPU was given to this shell; name some with --gpu");
                return GPUFREE_GUARD_NOT_FREE;
        }
        if (gpufree_selection_add(session->selection, GPUFREE_BY_GPU, visible, &error) == 0)
                return 0;
        cli_term_error(&session->term, "CUDA_VISIBLE_DEVICES: %s", error ? error : "not understood");
        return GPUFREE_GUARD_NOT_FREE;
}

/* From here on signals are read, not handled: the guard passes them on. */
static int open_signals(void)
{
        static const int signals[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP };
        sigset_t set;
        int fd;

        (void)sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                (void)sigaddset(&set, signals[i]);
        fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        return fd;
}

static void on_signal(void *userdata, const struct gpufree_event *event)
{
        cli_audit_event(userdata, event);
}

/* What --clean signals is in the system's log, as with `kill`. */
static int claim_with_audit(struct cli_session *session, gpufree_guard *guard)
{
        struct cli_audit audit;
        int r;

        if (!session->request->guard.clean)
                return gpufree_guard_claim(guard, session->selection);
        cli_audit_open(&audit, session);
        gpufree_set_event_handler(session->context, on_signal, &audit);
        r = gpufree_guard_claim(guard, session->selection);
        gpufree_set_event_handler(session->context, NULL, NULL);
        cli_audit_close(&audit);
        return r;
}

static int claim(struct cli_session *session, gpufree_guard *guard)
{
        const struct cli_request *request = session->request;
        int r = claim_with_audit(session, guard);

        if (r == -ENXIO && request->guard.gpus == 0 && !names_gpus(request)) {
                cli_term_error(&session->term, "no GPU found here: the command runs without one");
                return 0;
        }
        if (r == 0)
                return 0;
        if (r == -EBUSY)
                cli_term_error(&session->term, "the command was not started: %s", gpufree_error(session->context));
        else if (r != -ENXIO)
                return cli_failed(session, r) == GPUFREE_USAGE ? GPUFREE_USAGE
                       : r == -ECANCELED                       ? 128 + (cli_interrupted() ? cli_interrupted() : SIGINT)
                                                               : GPUFREE_GUARD_NOT_FREE;
        else
                cli_term_error(&session->term, "%s", gpufree_error(session->context));
        return GPUFREE_GUARD_NOT_FREE;
}

/* A shell that waits for us is to see what it would have seen of the command: that Ctrl-C ended it. */
static void end_as(int code)
{
        sigset_t set;

        if (code != 128 + SIGINT)
                return;
        (void)signal(SIGINT, SIG_DFL);
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)raise(SIGINT);
        (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int cli_run(struct cli_session *session)
{
        struct cli_request *request = session->request;
        struct gpufree_guard_options *options = &request->guard;
        _cleanup_(gpufree_guard_unrefp) gpufree_guard *guard = NULL;
        struct run run = { .session = session };
        _cleanup_close_ int signals = -1;
        int r, code = GPUFREE_GUARD_NOT_FREE;

        r = narrow(session);
        if (r != 0)
                return r;
        options->ladder = request->ladder;
        options->default_pipe = session->default_pipe;
        r = gpufree_guard_new(session->context, options, &guard);
        if (r < 0) {
                cli_term_error(&session->term, "%s", gpufree_error(session->context));
                return GPUFREE_USAGE;
        }
        /* Where the command writes to the terminal itself, a line that is rewritten would tear its own lines apart. */
        run.show_progress = options->log != NULL && !request->quiet;
        gpufree_guard_set_handler(guard, on_event, &run);
        r = claim(session, guard);
        if (r != 0)
                return r;
        signals = open_signals();
        (void)gpufree_set_cancel_fd(session->context, -1);
        r = signals < 0 ? signals : gpufree_guard_set_signal_fd(guard, signals);
        if (r == 0)
                r = gpufree_guard_run(guard, request->run, &code);
        if (r < 0) {
                cli_term_error(&session->term, "%s", signals < 0 ? strerror(-r) : gpufree_error(session->context));
                return r == -EINVAL || r == -ENOENT || r == -EACCES ? GPUFREE_USAGE : GPUFREE_GUARD_NOT_FREE;
        }
        if (cli_interrupted() == 0)
                end_as(code);
        return code;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "audit.h"
#include "json.h"
#include "session.h"

GF_DEFINE_CLEANUP(gpufree_guard *, gpufree_guard_unref)

struct run {
        struct cli_session *session;
        gpufree_guard *guard;
        bool show_progress;
        bool claimed;      /* the GPUs are ours, or there are none */
        bool bad_usage;    /* nothing was done: no document */
        gf_strv sentences; /* for the document */
        int json_fd;       /* -1 */
};

/* A line that is the command line's own; in the document too. */
_printf_(2, 3) static void complain(struct run *run, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;
        va_list ap;

        va_start(ap, format);
        text = gf_vasprintf(format, ap);
        va_end(ap);
        if (!text)
                return;
        cli_term_error(&run->session->term, "%s", text);
        (void)gf_strv_addf(&run->sentences, "%s", text);
}

static void on_event(void *userdata, enum gpufree_guard_event_type type, const char *text)
{
        struct run *run = userdata;
        struct cli_term *term = &run->session->term;

        if (type != GPUFREE_GUARD_PROGRESS && text)
                (void)gf_strv_addf(&run->sentences, "%s", text);
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
static int narrow(struct run *run)
{
        struct cli_session *session = run->session;
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        _cleanup_free_ char *error = NULL;

        if (names_gpus(session->request) || !visible)
                return 0;
        if (visible[0] == '\0') {
                complain(run, "CUDA_VISIBLE_DEVICES is empty: no GPU was given to this shell; name some with --gpu");
                return GPUFREE_GUARD_NOT_FREE;
        }
        if (gpufree_selection_add(session->selection, GPUFREE_BY_GPU, visible, &error) == 0)
                return 0;
        complain(run, "CUDA_VISIBLE_DEVICES: %s", error ? error : "not understood");
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

static int claim(struct run *run)
{
        struct cli_session *session = run->session;
        const struct cli_request *request = session->request;
        int r = claim_with_audit(session, run->guard);

        if (r == -ENXIO && request->guard.gpus == 0 && !names_gpus(request)) {
                complain(run, "no GPU found here: the command runs without one");
                return 0;
        }
        if (r == 0)
                return 0;
        if (r == -EBUSY)
                complain(run, "the command was not started: %s", gpufree_error(session->context));
        else if (r != -ENXIO)
                return cli_failed(session, r) == GPUFREE_USAGE ? GPUFREE_USAGE
                       : r == -ECANCELED                       ? 128 + (cli_interrupted() ? cli_interrupted() : SIGINT)
                                                               : GPUFREE_GUARD_NOT_FREE;
        else
                complain(run, "%s", gpufree_error(session->context));
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

/*
 * Before anything is done, so that a path that cannot be written costs no run. A document of a run before is gone from
 * here on: if this guard is killed, there is none. 0, or an exit code.
 */
static int open_document(struct run *run)
{
        const char *path = run->session->request->json_file;

        if (run->session->request->json)
                run->json_fd = STDOUT_FILENO;
        if (!path)
                return 0;
        /* A FIFO that nobody reads is an error, not a wait. */
        run->json_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
        if (run->json_fd < 0) {
                cli_term_error(&run->session->term, "--json-file %s: %s", path,
                               errno == ENXIO ? "nobody reads it" : strerror(errno));
                return GPUFREE_USAGE;
        }
        (void)fcntl(run->json_fd, F_SETFL, fcntl(run->json_fd, F_GETFL) & ~O_NONBLOCK);
        return 0;
}

/* The command's status stays what the guard ends with, whether or not this can be written. */
static void write_document(struct run *run, int code)
{
        json_t *document = run->json_fd < 0 || run->bad_usage
                                   ? NULL
                                   : cli_json_run(run->session, run->guard, code, run->claimed, &run->sentences);
        _cleanup_(gf_str_done) struct gf_str text = { 0 };
        size_t at = 0;

        if (!document)
                return;
        cli_json_text(&text, document, 0);
        json_decref(document);
        while (!text.failed && at < text.n) {
                ssize_t n = write(run->json_fd, text.s + at, text.n - at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        cli_term_error(&run->session->term, "the JSON document could not be written: %s",
                                       strerror(errno));
                        return;
                }
                at += (size_t)n;
        }
        if (text.failed)
                cli_term_error(&run->session->term, "the JSON document could not be written: out of memory");
}

/* Claim, start, watch, end. Returns the exit code. */
static int guard_command(struct run *run)
{
        struct cli_session *session = run->session;
        struct cli_request *request = session->request;
        _cleanup_close_ int signals = -1;
        int r, code = GPUFREE_GUARD_NOT_FREE;

        r = narrow(run);
        if (r == 0)
                r = claim(run);
        run->bad_usage = r == GPUFREE_USAGE;
        if (r != 0)
                return r;
        run->claimed = true;
        signals = open_signals();
        (void)gpufree_set_cancel_fd(session->context, -1);
        r = signals < 0 ? signals : gpufree_guard_set_signal_fd(run->guard, signals);
        if (r == 0)
                r = gpufree_guard_run(run->guard, request->run, &code);
        if (r < 0) {
                complain(run, "%s", signals < 0 ? strerror(-r) : gpufree_error(session->context));
                run->bad_usage = r == -EINVAL || r == -ENOENT || r == -EACCES;
                return run->bad_usage ? GPUFREE_USAGE : GPUFREE_GUARD_NOT_FREE;
        }
        return code;
}

int cli_run(struct cli_session *session)
{
        struct cli_request *request = session->request;
        struct gpufree_guard_options *options = &request->guard;
        _cleanup_(gpufree_guard_unrefp) gpufree_guard *guard = NULL;
        struct run run = { .session = session, .json_fd = -1 };
        int code;

        options->ladder = request->ladder;
        options->default_pipe = session->default_pipe;
        if (gpufree_guard_new(session->context, options, &guard) < 0) {
                cli_term_error(&session->term, "%s", gpufree_error(session->context));
                return GPUFREE_USAGE;
        }
        run.guard = guard;
        /* Where the command writes to the terminal itself, a line that is rewritten would tear its own lines apart. */
        run.show_progress = options->log != NULL && !request->quiet;
        gpufree_guard_set_handler(guard, on_event, &run);
        code = open_document(&run);
        if (code == 0) {
                code = guard_command(&run);
                write_document(&run, code);
        }
        gf_strv_done(&run.sentences);
        if (run.json_fd != STDOUT_FILENO)
                gf_close(run.json_fd);
        if (run.claimed && cli_interrupted() == 0)
                end_as(code);
        return code;
}

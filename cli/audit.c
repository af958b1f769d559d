/* SPDX-License-Identifier: MIT */
#include "audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

#define LOG_SOCKET "/dev/log"
#define LINE_MAX_BYTES 1000
#define PATIENCE_MS 200
#define CRITERIA_MAX 300

/* The C library's syslog() waits for ever for a logger that does not read. */
static int connect_log(void)
{
        static const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = LOG_SOCKET };
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                fd = gf_close(fd);
        return fd;
}

static void send_line(struct cli_audit *audit, struct gf_str *text)
{
        char line[LINE_MAX_BYTES], when[32];
        time_t now = time(NULL);
        struct tm tm;
        int n;

        if (!text->failed && audit->fd >= 0 && localtime_r(&now, &tm) &&
            strftime(when, sizeof(when), "%b %e %T", &tm)) {
                n = snprintf(line, sizeof(line), "<%d>%s gpufree[%d]: %s", LOG_AUTHPRIV | LOG_NOTICE, when,
                             (int)getpid(), text->s ? text->s : "");
                if (n >= (int)sizeof(line))
                        n = (int)sizeof(line) - 1;
                if (send(audit->fd, line, (size_t)n, MSG_NOSIGNAL) < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
                        struct pollfd p = { .fd = audit->fd, .events = POLLOUT };

                        if (poll(&p, 1, PATIENCE_MS) <= 0 || send(audit->fd, line, (size_t)n, MSG_NOSIGNAL) < 0)
                                audit->fd = gf_close(audit->fd); /* the wait is paid once */
                }
        }
        gf_str_done(text);
}

static void add_escaped(struct gf_str *text, const char *s)
{
        cli_text_escape(text, s, strlen(s), false);
}

/* The login that this came through, whatever su and sudo made of it since. */
static void add_login(struct gf_str *text)
{
        char buf[16];
        int fd = open("/proc/self/loginuid", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

        gf_close(fd);
        if (n <= 0)
                return;
        buf[n] = '\0';
        buf[strcspn(buf, "\n")] = '\0';
        if (strcmp(buf, "4294967295") != 0)
                gf_str_addf(text, " (login uid %s)", buf);
}

static void add_request(struct gf_str *text, const struct cli_request *request)
{
        size_t begin = text->n;

        gf_str_addf(text, ": gpufree %s", cli_commands[request->command].name);
        if (request->guard.clean)
                gf_str_add(text, " --clean");
        for (size_t i = 0; i < request->criteria.n && text->n - begin < CRITERIA_MAX; i++) {
                const struct cli_criterion *criterion = &request->criteria.v[i];

                gf_str_addf(text, " --%s", criterion->option->name);
                if (criterion->value) {
                        gf_str_add(text, " ");
                        add_escaped(text, criterion->value);
                }
        }
        if (request->park_first)
                gf_str_add(text, " --park-first");
        if (request->ladder.force)
                gf_str_add(text, " --force");
        for (size_t i = 0; i < request->paths.n && text->n - begin < CRITERIA_MAX; i++) {
                gf_str_add(text, " ");
                add_escaped(text, request->paths.v[i]);
        }
}

void cli_audit_open(struct cli_audit *audit, const struct cli_session *session)
{
        struct gf_str text = { 0 };
        char tty[64];

        *audit = (struct cli_audit){ .fd = connect_log() };
        if (audit->fd < 0)
                return;
        gf_str_addf(&text, "by uid %u", (unsigned)getuid());
        add_login(&text);
        if (ttyname_r(STDIN_FILENO, tty, sizeof(tty)) == 0)
                gf_str_addf(&text, " on %s", tty);
        add_request(&text, session->request);
        if (gf_str_take(&text, &audit->who) < 0)
                audit->who = NULL;
}

static void add_process(struct gf_str *text, const gpufree_holder *holder)
{
        const char *comm = gpufree_holder_comm(holder), *label = gpufree_holder_owner_label(holder);

        gf_str_addf(text, "%d (", (int)gpufree_holder_pid(holder));
        add_escaped(text, comm ? comm : "unknown");
        if (gpufree_holder_uid(holder) != UINT32_MAX)
                gf_str_addf(text, ", uid %u", (unsigned)gpufree_holder_uid(holder));
        if (label) {
                gf_str_add(text, ", ");
                add_escaped(text, label);
        }
        gf_str_addf(text, ", started %" PRIu64 ")", gpufree_holder_start_ticks(holder));
}

/* Why: what it holds. */
static void add_gpus(struct gf_str *text, const gpufree_holder *holder)
{
        const char *before = " for holding GPU ";

        for (size_t i = 0; i < gpufree_holder_gpu_count(holder); i++) {
                bool context = false;
                int gpu = -1;

                if (gpufree_holder_gpu(holder, i, &gpu, NULL, &context) < 0 || !context || gpu < 0)
                        continue;
                gf_str_addf(text, "%s%d", before, gpu);
                before = ", ";
        }
}

void cli_audit_event(struct cli_audit *audit, const struct gpufree_event *event)
{
        const char *name = cli_signal_name(event->signal);
        struct gf_str text = { 0 };

        if (event->type != GPUFREE_EVENT_SIGNALLED)
                return;
        audit->count += event->signal != SIGCONT;
        if (audit->fd < 0 || !event->holder)
                return;
        gf_str_addf(&text, "sent SIG%s to ", name ? name : "?");
        add_process(&text, event->holder);
        add_gpus(&text, event->holder);
        if (audit->who)
                gf_str_addf(&text, ", %s", audit->who);
        send_line(audit, &text);
}

void cli_audit_parking(struct cli_audit *audit, const gpufree_parking *parking)
{
        struct gf_str text = { 0 };

        for (size_t i = 0; audit->fd >= 0 && i < gpufree_parking_count(parking); i++) {
                struct gpufree_parked_process process;

                if (gpufree_parking_process(parking, i, sizeof(process), &process) < 0)
                        continue;
                gf_str_addf(&text, "%d (", (int)process.pid);
                add_escaped(&text, process.comm ? process.comm : "unknown");
                gf_str_addf(&text, ", started %" PRIu64 "): %s", process.start_ticks,
                            process.state == GPUFREE_PARK_PARKED ? "parked" : "not parked, ");
                if (process.state != GPUFREE_PARK_PARKED)
                        gf_str_add(&text, gpufree_park_state_name(process.state));
                if (audit->who)
                        gf_str_addf(&text, ", %s", audit->who);
                send_line(audit, &text);
        }
}

void cli_audit_report(struct cli_audit *audit, const gpufree_report *report, int code)
{
        struct gf_str text = { 0 };

        for (size_t i = 0; audit->fd >= 0 && i < gpufree_report_fate_count(report); i++) {
                const gpufree_holder *holder = NULL;
                enum gpufree_fate fate = GPUFREE_FATE_SURVIVED;
                uint64_t elapsed = 0;

                if (gpufree_report_fate(report, i, &holder, &fate, &elapsed, NULL) < 0 || !holder)
                        continue;
                add_process(&text, holder);
                gf_str_addf(&text, ": %s", gpufree_fate_name(fate));
                if (elapsed > 0)
                        gf_str_addf(&text, " after %" PRIu64 " ms", elapsed);
                if (audit->who)
                        gf_str_addf(&text, ", %s", audit->who);
                send_line(audit, &text);
        }
        if (audit->fd < 0 || gpufree_report_fate_count(report) == 0)
                return;
        gf_str_addf(&text, "outcome %s%s%s", cli_exit_name(code), audit->who ? ", " : "", audit->who ? audit->who : "");
        send_line(audit, &text);
}

void cli_audit_close(struct cli_audit *audit)
{
        audit->fd = gf_close(audit->fd);
        free(audit->who);
        audit->who = NULL;
}

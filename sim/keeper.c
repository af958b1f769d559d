/* SPDX-License-Identifier: MIT */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"
#include "files.h"
#include "nodes.h"

#define MESSAGE_MAX 16384
#define ANSWER_MS 60000

struct keeper {
        int dir, listener, signals;
        struct sim_state state;
        struct sim_nodes nodes;
};

/* DIR/keeper.sock by way of the open directory: the path of a socket may have 107 bytes only. */
static void socket_address(int dir, struct sockaddr_un *addr)
{
        *addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
        (void)snprintf(addr->sun_path, sizeof(addr->sun_path), "/proc/self/fd/%d/keeper.sock", dir);
}

static int open_listener(int dir)
{
        struct sockaddr_un addr;
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        mode_t old;
        int r;

        if (fd < 0)
                return -errno;
        socket_address(dir, &addr);
        old = umask(0077);
        r = bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 16) < 0 ? -errno : 0;
        (void)umask(old);
        return r < 0 ? r : TAKE_FD(fd);
}

/* Leaves the caller's terminal, session and descriptors: whoever waits for their end of file must not wait for us. */
static int detach(int *dir, int *report)
{
        int null;

        (void)setsid();
        (void)prctl(PR_SET_NAME, "gpufree-sim");
        if (chdir("/") < 0)
                return -errno;
        *dir = fcntl(*dir, F_DUPFD_CLOEXEC, 100);
        *report = fcntl(*report, F_DUPFD_CLOEXEC, 100);
        if (*dir < 0 || *report < 0)
                return -errno;
        (void)dup3(*dir, 3, O_CLOEXEC);
        (void)dup3(*report, 4, O_CLOEXEC);
        *dir = 3;
        *report = 4;
        if (syscall(SYS_close_range, 5u, ~0u, 0u) < 0)
                return -errno;
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0)
                return -errno;
        for (int fd = 0; fd < 3; fd++)
                (void)dup2(null, fd);
        (void)close(null);
        return 0;
}

static int open_signals(void)
{
        sigset_t set;
        int fd;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGCHLD);
        (void)sigaddset(&set, SIGTERM);
        (void)sigprocmask(SIG_SETMASK, &set, NULL);
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        (void)signal(SIGINT, SIG_IGN);
        fd = signalfd(-1, &set, SFD_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* Is anybody there who holds the nodes as they are? */
static bool in_use(int dir)
{
        sim_records records = { 0 };
        bool used = false;

        if (sim_records_read(dir, &records) < 0)
                return true;
        for (size_t i = 0; i < records.n && !used; i++)
                used = sim_record_alive(&records.v[i]);
        gf_vec_done(&records);
        return used;
}

static int become_mappable(struct keeper *k)
{
        int r;

        if (k->state.mappable)
                return 0;
        if (in_use(k->dir))
                return -EBUSY;
        r = sim_nodes_make_mappable(k->dir, &k->nodes);
        if (r < 0)
                return r;
        k->state.mappable = true;
        return sim_state_write(k->dir, &k->state);
}

static const char *why_not_mappable(int error)
{
        return error == -EBUSY ? "nvidia-uvm cannot be made mappable: /dev/zero's number is in use, or this node has "
                                 "holders already (ask for map in `up --shapes`)"
                               : "nvidia-uvm cannot be made mappable: mknod or its device is not permitted here";
}

static int start_holder(struct keeper *k, char *request, struct sim_report *report)
{
        struct sim_params params;
        int r = sim_params_decode(request, &params);

        memset(report, 0, sizeof(*report));
        if (r < 0) {
                (void)snprintf(report->error, sizeof(report->error), "request not understood");
                return r;
        }
        if (gf_streq(params.shape, "map")) {
                r = become_mappable(k);
                if (r < 0) {
                        (void)snprintf(report->error, sizeof(report->error), "%s", why_not_mappable(r));
                        return r;
                }
        }
        if (gf_streq(params.shape, "service")) {
                _cleanup_free_ char *name = gf_asprintf("bin/%.*s", (int)strcspn(params.name, " "), params.name);

                r = name ? sim_copy(k->dir, "bin/gpufree-sim-holder", k->dir, name, 0755) : -ENOMEM;
                if (r < 0 && r != -EEXIST) {
                        (void)snprintf(report->error, sizeof(report->error), "bin: %s", strerror(-r));
                        return r;
                }
        }
        return sim_spawn(k->dir, &params, report);
}

static void answer(struct keeper *k, int fd)
{
        char request[MESSAGE_MAX];
        struct sim_report report;
        struct gf_str s = { 0 };
        _cleanup_free_ char *text = NULL;
        struct pollfd p = { .fd = fd, .events = POLLIN };
        ssize_t n = poll(&p, 1, 1000) > 0 ? recv(fd, request, sizeof(request) - 1, 0) : -1;

        if (n <= 0)
                return;
        request[n] = '\0';
        if (start_holder(k, request, &report) < 0)
                gf_str_addf(&s, "error %s\n", report.error);
        else
                gf_str_add(&s, "ok\n");
        for (size_t i = 0; i < report.processes.n; i++) {
                const struct sim_process *q = &report.processes.v[i];

                gf_str_addf(&s, "%d %llu %s %d\n", (int)q->id.pid, (unsigned long long)q->id.start, q->role, q->gpu);
        }
        sim_report_done(&report);
        if (gf_str_take(&s, &text) == 0)
                (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static noreturn void serve(struct keeper *k)
{
        for (;;) {
                struct pollfd p[] = { { .fd = k->signals, .events = POLLIN }, { .fd = k->listener, .events = POLLIN } };
                struct signalfd_siginfo info;

                if (poll(p, 2, -1) < 0)
                        continue;
                if (p[0].revents && read(k->signals, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGTERM)
                        _exit(0);
                while (waitpid(-1, NULL, WNOHANG) > 0)
                        ;
                if (p[1].revents) {
                        _cleanup_close_ int fd = accept4(k->listener, NULL, NULL, SOCK_CLOEXEC);

                        if (fd >= 0)
                                answer(k, fd);
                }
        }
}

static noreturn void run_keeper(int dir, const struct sim_keeper_options *options, const struct sim_state *state,
                                int report)
{
        struct keeper k = { .state = *state };
        const char *what = "start";
        int r = detach(&dir, &report);

        k.dir = dir;
        if (r >= 0)
                r = k.signals = open_signals();
        if (r >= 0) {
                what = "keeper.sock";
                r = k.listener = open_listener(dir);
        }
        if (r >= 0)
                r = sim_nodes_make(dir, &k.state, options->ptys, &k.nodes, &what);
        if (r >= 0) {
                what = "state";
                r = sim_identify(getpid(), &k.state.keeper);
        }
        if (r >= 0)
                r = sim_state_write(dir, &k.state);
        if (r >= 0 && options->mappable)
                (void)become_mappable(&k); /* whoever needs it is told then */
        if (r < 0) {
                (void)dprintf(report, "%s: %s", what, strerror(-r));
                _exit(1);
        }
        (void)dprintf(report, "ok");
        (void)close(report);
        serve(&k);
}

int sim_keeper_start(int dir, const struct sim_keeper_options *options, struct sim_state *state, char *error,
                     size_t size)
{
        int pipes[2];
        ssize_t n;
        pid_t pid;

        if (pipe2(pipes, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid == 0)
                run_keeper(dir, options, state, pipes[1]);
        (void)close(pipes[1]);
        /* It writes once, and then closes its end or ends. */
        n = pid < 0 ? -1 : read(pipes[0], error, size - 1);
        (void)close(pipes[0]);
        error[n > 0 ? n : 0] = '\0';
        if (!gf_streq(error, "ok")) {
                if (pid > 0)
                        (void)waitpid(pid, NULL, 0);
                return -EIO;
        }
        return sim_state_read(dir, state);
}

static int hear_answer(char *text, struct sim_report *report)
{
        char *save = NULL, *line = strtok_r(text, "\n", &save);

        if (line && gf_startswith(line, "error ")) {
                (void)snprintf(report->error, sizeof(report->error), "%.250s", line + 6);
                return -EIO;
        }
        if (!gf_streq(line, "ok"))
                return -EPROTO;
        while ((line = strtok_r(NULL, "\n", &save))) {
                struct sim_process *p = gf_vec_add(&report->processes);
                unsigned long long start;
                int pid;

                if (!p)
                        return -ENOMEM;
                if (sscanf(line, "%d %llu %15s %d", &pid, &start, p->role, &p->gpu) != 4)
                        return -EPROTO;
                p->id = (struct sim_id){ pid, start };
        }
        return 0;
}

static int ask(int dir, const char *request, char *answer_text, size_t size)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        struct sockaddr_un addr;
        struct pollfd p = { .events = POLLIN };
        ssize_t n;

        if (fd < 0)
                return -errno;
        socket_address(dir, &addr);
        if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
            send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
                return -errno;
        p.fd = fd;
        if (poll(&p, 1, ANSWER_MS) <= 0)
                return -ETIMEDOUT;
        n = recv(fd, answer_text, size - 1, 0);
        if (n <= 0)
                return n < 0 ? -errno : -EPIPE;
        answer_text[n] = '\0';
        return 0;
}

int sim_keeper_add(int dir, const struct sim_params *params, struct sim_report *ret_report)
{
        struct sim_report report = { 0 };
        struct gf_str s = { 0 };
        _cleanup_free_ char *request = NULL, *text = malloc(MESSAGE_MAX);
        int r;

        sim_params_encode(params, &s);
        r = gf_str_take(&s, &request);
        if (r >= 0)
                r = text ? ask(dir, request, text, MESSAGE_MAX) : -ENOMEM;
        if (r >= 0)
                r = hear_answer(text, &report);
        if (r < 0 && report.error[0] == '\0')
                (void)snprintf(report.error, sizeof(report.error), "the node's keeper does not answer: %s",
                               strerror(-r));
        *ret_report = report;
        return r;
}

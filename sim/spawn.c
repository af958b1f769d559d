/* SPDX-License-Identifier: MIT */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"

#define READY_MS 20000
#define MAX_ARGS 16

extern char **environ;

void sim_report_done(struct sim_report *report)
{
        gf_vec_done(&report->processes);
}

/* The program to run as an O_PATH descriptor: a service has a copy under its own name. */
static int open_program(int dir, const struct sim_params *params)
{
        char path[160];
        int fd;

        if (gf_streq(params->shape, "service"))
                (void)snprintf(path, sizeof(path), "bin/%.*s", (int)strcspn(params->name, " "), params->name);
        else
                (void)snprintf(path, sizeof(path), "bin/gpufree-sim-holder");
        fd = openat(dir, path, O_PATH | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int become(const struct sim_params *params, pid_t parent)
{
        sigset_t none;

        (void)setsid();
        for (int s = 1; s < NSIG; s++)
                (void)signal(s, SIG_DFL);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        if (params->user != SIM_NO_USER &&
            (setgroups(0, NULL) < 0 || setresgid(params->user, params->user, params->user) < 0 ||
             setresuid(params->user, params->user, params->user) < 0))
                return -errno;
        /* After the change of user, which clears it. */
        if (!params->left_alone && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
                return -ESRCH;
        return 0;
}

/* In the child: never returns. */
static void run_program(int program, int dir, int report, const struct sim_params *params, pid_t parent)
{
        struct gf_str s = { 0 };
        char name[sizeof(params->name)], *args[MAX_ARGS + 1], *save = NULL;
        _cleanup_free_ char *text = NULL;
        size_t n = 0;
        int r, null;

        (void)snprintf(name, sizeof(name), "%s", params->name);
        for (char *w = strtok_r(name, " ", &save); w && n < MAX_ARGS; w = strtok_r(NULL, " ", &save))
                args[n++] = w;
        args[n] = NULL;
        r = become(params, parent);
        if (r < 0)
                goto fail;
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int fd = 0; null >= 0 && fd < 3; fd++)
                (void)dup2(null, fd);
        gf_str_addf(&s, "report=%d\ndir=%d\n", report, dir);
        sim_params_encode(params, &s);
        if (gf_str_take(&s, &text) < 0 || setenv(SIM_ENV_HOLDER, text, 1) < 0 || n == 0) {
                r = -ENOMEM;
                goto fail;
        }
        if (fcntl(report, F_SETFD, 0) == 0 && fcntl(dir, F_SETFD, 0) == 0)
                (void)syscall(SYS_execveat, program, "", args, environ, AT_EMPTY_PATH);
        r = -errno;
fail:
        (void)dprintf(report, "error cannot start a holder: %s\n", strerror(-r));
        _exit(1);
}

/* What a holder says until it is ready, line by line, becomes records. */
struct listener {
        const struct sim_params *params;
        GF_VEC(struct sim_record) records;
        struct sim_report report;
        bool stops, ready;
};

static int note_process(struct listener *l, const struct sim_id *id, const char *role, int gpu)
{
        struct sim_process *p = gf_vec_add(&l->report.processes);

        if (!p)
                return -ENOMEM;
        p->id = *id;
        p->gpu = gpu;
        (void)snprintf(p->role, sizeof(p->role), "%s", role);
        return 0;
}

static int note_record(struct listener *l, const struct sim_id *id, const char *role, bool booked, bool listed)
{
        struct sim_record *r = gf_vec_add(&l->records);

        if (!r)
                return -ENOMEM;
        r->id = *id;
        r->gpu = l->params->gpu;
        r->memory = booked ? l->params->memory : 0;
        r->listed = booked && listed;
        (void)snprintf(r->shape, sizeof(r->shape), "%s", l->params->shape);
        (void)snprintf(r->role, sizeof(r->role), "%s", role);
        return note_process(l, id, role, r->gpu);
}

static int hear(struct listener *l, const char *line)
{
        struct sim_id id;
        char role[16], check[64];
        unsigned long long start;
        int pid, number;

        if (gf_streq(line, "ready")) {
                l->ready = true;
                return 0;
        }
        if (gf_streq(line, "stops")) {
                l->stops = true;
                return 0;
        }
        if (gf_startswith(line, "error ")) {
                (void)snprintf(l->report.error, sizeof(l->report.error), "%.250s", line + 6);
                return -EPROTO;
        }
        if (sscanf(line, "booked %d %llu %15s %d", &pid, &start, role, &number) == 4) {
                id = (struct sim_id){ pid, start };
                return note_record(l, &id, role, true, number != 0);
        }
        if (sscanf(line, "process %d %llu %15s", &pid, &start, role) == 3) {
                id = (struct sim_id){ pid, start };
                return note_record(l, &id, role, false, false);
        }
        if (sscanf(line, "other %d %llu %15s %d", &pid, &start, role, &number) == 4) {
                id = (struct sim_id){ pid, start };
                return note_process(l, &id, role, number);
        }
        if (sscanf(line, "keeper %d %llu %63s", &pid, &start, check) == 3 && l->records.n > 0) {
                struct sim_record *r = &l->records.v[l->records.n - 1];
                struct sim_keeper *k = &r->keepers[r->n_keepers];

                if (r->n_keepers == SIM_MAX_KEEPERS)
                        return -EPROTO;
                r->n_keepers++;
                k->id = (struct sim_id){ pid, start };
                (void)snprintf(k->check, sizeof(k->check), "%s", check);
                return 0;
        }
        return -EPROTO;
}

static int listen_to(struct listener *l, int fd)
{
        uint64_t deadline = sim_now_ms() + READY_MS;
        char buf[4096];
        size_t fill = 0;

        while (!l->ready) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                uint64_t now = sim_now_ms();
                char *newline;
                ssize_t got;
                int r = poll(&p, 1, now < deadline ? (int)(deadline - now) : 0);

                if (r == 0)
                        return -ETIMEDOUT;
                if (r < 0 && errno != EINTR)
                        return -errno;
                if (r < 0)
                        continue;
                got = read(fd, buf + fill, sizeof(buf) - fill);
                if (got <= 0)
                        return got < 0 ? -errno : -EPIPE;
                fill += (size_t)got;
                while ((newline = memchr(buf, '\n', fill))) {
                        *newline = '\0';
                        r = hear(l, buf);
                        if (r < 0)
                                return r;
                        fill -= (size_t)(newline + 1 - buf);
                        memmove(buf, newline + 1, fill);
                }
                if (fill == sizeof(buf))
                        return -EMSGSIZE;
        }
        return 0;
}

static int fork_program(int dir, const struct sim_params *params, int report)
{
        _cleanup_close_ int program = open_program(dir, params);
        pid_t parent = getpid(), pid;

        if (program < 0)
                return program;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                run_program(program, dir, report, params, parent);
        return pid;
}

/* Waits for what a shape promised of the child itself: that it is stopped, or dead and gone. */
static int settle(const struct listener *l, pid_t child)
{
        siginfo_t info;

        for (size_t i = 0; i < l->report.processes.n; i++)
                if (l->report.processes.v[i].id.pid == child && gf_streq(l->report.processes.v[i].role, "dead"))
                        return waitpid(child, NULL, 0) < 0 ? -errno : 0;
        if (l->stops && waitid(P_PID, (id_t)child, &info, WSTOPPED | WEXITED | WNOWAIT) < 0)
                return -errno;
        return 0;
}

int sim_spawn(int dir, const struct sim_params *params, struct sim_report *ret_report)
{
        struct listener l = { .params = params };
        int pipes[2], r;
        pid_t child = -1;

        memset(ret_report, 0, sizeof(*ret_report));
        if (pipe2(pipes, O_CLOEXEC) < 0)
                return -errno;
        r = fork_program(dir, params, pipes[1]);
        pipes[1] = gf_close(pipes[1]);
        if (r >= 0) {
                child = r;
                r = listen_to(&l, pipes[0]);
        }
        pipes[0] = gf_close(pipes[0]);
        for (size_t i = 0; r >= 0 && i < l.records.n; i++)
                r = sim_record_write(dir, &l.records.v[i]);
        if (r >= 0)
                r = settle(&l, child);
        if (r < 0) {
                if (l.report.error[0] == '\0')
                        (void)snprintf(l.report.error, sizeof(l.report.error), "shape %s: %s", params->shape,
                                       strerror(-r));
                if (child > 0) { /* our own child, not yet waited for: the PID is still its */
                        (void)kill(child, SIGKILL);
                        (void)waitpid(child, NULL, 0);
                }
        }
        gf_vec_done(&l.records);
        *ret_report = l.report;
        return r;
}

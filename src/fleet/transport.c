/* SPDX-License-Identifier: MIT */
#include "fleet/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEVER UINT64_MAX
#define GOODBYE_MS 5000 /* for a remote gpufree to end in order and say so */
#define TERM_MS 1000    /* from SIGTERM to SIGKILL */
#define SAID_MAX 4096   /* of standard error */
#define FDS_PER_JOB 3

static uint64_t now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t after(uint64_t ms)
{
        uint64_t sum;

        return __builtin_add_overflow(now_ms(), ms, &sum) ? NEVER : sum;
}

void fleet_job_done(struct fleet_job *job)
{
        gf_str_done(&job->output);
        gf_str_done(&job->said);
}

/* The child, up to its exec: only what is safe between fork and exec. */
static void become_ssh(const struct fleet_transport *transport, const char *const *argv, int in, int out, int err,
                       pid_t parent)
{
        sigset_t none;

        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
                _exit(127);
        /* One that asks on the terminal has to stay in its foreground group; Ctrl-C is ours to handle either way. */
        if (transport->may_ask)
                (void)signal(SIGINT, SIG_IGN);
        else
                (void)setpgid(0, 0);
        (void)signal(SIGPIPE, SIG_DFL);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
                _exit(127);
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(errno == ENOENT ? 127 : 126);
}

static int ssh_exists(void)
{
        const char *path = getenv("PATH");

        for (const char *dir = path ? path : ""; *dir; dir += *dir == ':') {
                const char *end = strchrnul(dir, ':');
                _cleanup_free_ char *file = gf_asprintf("%.*s/ssh", (int)(end - dir), dir);

                if (!file)
                        return -ENOMEM;
                if (access(file, X_OK) == 0)
                        return 0;
                dir = end;
        }
        return -ENOENT;
}

static void start(const struct fleet_transport *transport, struct fleet_job *job)
{
        const char *argv[12];
        int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
        pid_t parent = getpid();
        char connect[48];
        size_t n = 0;

        argv[n++] = "ssh";
        argv[n++] = "-T";
        /* A dead connection ends; a question that nobody can answer is none. The rest is the user's own. */
        argv[n++] = "-oServerAliveInterval=15";
        if (!transport->may_ask)
                argv[n++] = "-oBatchMode=yes";
        if (transport->timeout_ms == UINT64_MAX) {
                (void)snprintf(connect, sizeof(connect), "-oConnectTimeout=%llu",
                               (unsigned long long)(transport->connect_ms / 1000 + 1));
                argv[n++] = connect;
        }
        argv[n++] = "--";
        argv[n++] = job->host;
        argv[n++] = job->line;
        argv[n] = NULL;
        job->in = job->out = job->err = job->pidfd = -1;
        job->since = now_ms();
        job->deadline = transport->timeout_ms == UINT64_MAX ? NEVER : after(transport->timeout_ms);
        job->kill_at = NEVER;
        if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0) {
                job->error = errno;
        } else {
                job->pid = fork();
                if (job->pid == 0)
                        become_ssh(transport, argv, in[0], out[1], err[1], parent);
                if (job->pid < 0)
                        job->error = errno;
        }
        (void)gf_close(in[0]);
        (void)gf_close(out[1]);
        (void)gf_close(err[1]);
        job->in = in[1];
        job->out = out[0];
        job->err = err[0];
        if (job->pid > 0) {
                job->started = true;
                if (!transport->may_ask)
                        (void)setpgid(job->pid, job->pid);
                job->pidfd = (int)syscall(SYS_pidfd_open, job->pid, 0U);
                if (job->pidfd < 0)
                        job->error = errno;
                (void)fcntl(job->out, F_SETFL, O_NONBLOCK);
                (void)fcntl(job->err, F_SETFL, O_NONBLOCK);
        }
}

/* With the group: a ProxyCommand is ssh's child. The PID is not reaped yet, so it is still this one. */
static void signal_job(const struct fleet_transport *transport, const struct fleet_job *job, int signo)
{
        (void)kill(transport->may_ask ? job->pid : -job->pid, signo);
        if (!transport->may_ask)
                (void)kill(job->pid, signo); /* where it has not made its group yet */
}

static void keep_last(struct gf_str *said, const char *data, size_t n)
{
        gf_str_addn(said, data, n);
        if (said->n > 2 * SAID_MAX) {
                memmove(said->s, said->s + said->n - SAID_MAX, SAID_MAX);
                said->n = SAID_MAX;
                said->s[said->n] = '\0';
        }
}

/* What is there to be read. Nothing more will come: closed. */
static void drain(const struct fleet_transport *transport, struct fleet_job *job, int *fd, bool is_output)
{
        char data[65536];

        for (int i = 0; i < 16 && *fd >= 0; i++) { /* the others want their turn */
                ssize_t n = read(*fd, data, sizeof(data));

                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return;
                if (n <= 0) {
                        *fd = gf_close(*fd);
                        return;
                }
                if (!is_output)
                        keep_last(&job->said, data, (size_t)n);
                else if (job->output.n + (size_t)n > transport->output_max)
                        job->too_large = true;
                else
                        gf_str_addn(&job->output, data, (size_t)n);
                if (job->too_large)
                        return;
        }
}

static void finish(const struct fleet_transport *transport, struct fleet_job *job)
{
        int status = 0;

        /* A multiplexing master may keep the pipes open for ever: what is in them now is all that counts. */
        drain(transport, job, &job->out, true);
        drain(transport, job, &job->err, false);
        if (job->pid > 0) {
                signal_job(transport, job, SIGKILL); /* what is left of its group */
                while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR)
                        ;
                job->ended = !job->timed_out && !job->too_large;
                job->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        job->in = gf_close(job->in);
        job->out = gf_close(job->out);
        job->err = gf_close(job->err);
        job->pidfd = gf_close(job->pidfd);
        job->elapsed_ms = now_ms() - job->since;
        job->pid = 0;
        if (transport->on_done)
                transport->on_done(transport->userdata, job);
}

/* Ask it to end, then make it; `deadline` is the next step. */
static void press(const struct fleet_transport *transport, struct fleet_job *job, uint64_t now)
{
        if (job->too_large && job->kill_at == NEVER) {
                signal_job(transport, job, SIGTERM);
                job->kill_at = now + TERM_MS;
        } else if (job->kill_at != NEVER && now >= job->kill_at) {
                signal_job(transport, job, SIGKILL);
                job->kill_at = NEVER - 1;
        } else if (job->kill_at == NEVER && now >= job->deadline) {
                if (!job->cancelled)
                        job->timed_out = true;
                job->in = gf_close(job->in);
                signal_job(transport, job, SIGTERM);
                job->kill_at = now + TERM_MS;
        }
}

static void cancel(struct fleet_job *job)
{
        uint64_t until = after(GOODBYE_MS);

        job->cancelled = true;
        job->in = gf_close(job->in);
        if (job->deadline > until)
                job->deadline = until;
}

struct running {
        struct fleet_job *jobs[FLEET_FANOUT_MAX];
        struct pollfd fds[FLEET_FANOUT_MAX * FDS_PER_JOB + 1];
        size_t n;
};

static int wait_for_news(struct running *running, int cancel_fd)
{
        uint64_t next = NEVER, now = now_ms();
        int timeout = -1;

        for (size_t i = 0; i < running->n; i++) {
                const struct fleet_job *job = running->jobs[i];
                uint64_t at = job->kill_at != NEVER ? job->kill_at : job->deadline;

                running->fds[i * FDS_PER_JOB] = (struct pollfd){ .fd = job->pidfd, .events = POLLIN };
                running->fds[i * FDS_PER_JOB + 1] = (struct pollfd){ .fd = job->too_large ? -1 : job->out,
                                                                     .events = POLLIN };
                running->fds[i * FDS_PER_JOB + 2] = (struct pollfd){ .fd = job->err, .events = POLLIN };
                next = at < next ? at : next;
        }
        running->fds[running->n * FDS_PER_JOB] = (struct pollfd){ .fd = cancel_fd, .events = POLLIN };
        if (next < NEVER - 1)
                timeout = next <= now ? 0 : next - now > 3600000 ? 3600000 : (int)(next - now);
        if (poll(running->fds, running->n * FDS_PER_JOB + 1, timeout) < 0)
                return errno == EINTR ? 0 : -errno;
        return 0;
}

int fleet_transport_run(const struct fleet_transport *transport, struct fleet_job *jobs, size_t n)
{
        _cleanup_free_ struct running *running = calloc(1, sizeof(*running));
        bool cancelled = false;
        size_t next = 0, done = 0;
        int r = ssh_exists();

        if (!running)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                jobs[i].in = jobs[i].out = jobs[i].err = jobs[i].pidfd = -1;
        if (r < 0)
                return r;
        while (running->n > 0 || (next < n && !cancelled)) {
                while (!cancelled && next < n && running->n < transport->fanout && running->n < FLEET_FANOUT_MAX) {
                        struct fleet_job *job = &jobs[next++];

                        start(transport, job);
                        if (job->error == 0)
                                running->jobs[running->n++] = job;
                        else {
                                finish(transport, job);
                                done++;
                        }
                }
                if (transport->on_tick)
                        transport->on_tick(transport->userdata, done, running->n);
                if (running->n == 0)
                        continue;
                r = wait_for_news(running, cancelled ? -1 : transport->cancel_fd);
                if (!cancelled && (r < 0 || running->fds[running->n * FDS_PER_JOB].revents)) {
                        cancelled = true;
                        for (size_t i = 0; i < running->n; i++)
                                cancel(running->jobs[i]);
                }
                for (size_t i = running->n; i-- > 0;) {
                        struct fleet_job *job = running->jobs[i];

                        if (running->fds[i * FDS_PER_JOB + 1].revents && !job->too_large)
                                drain(transport, job, &job->out, true);
                        if (running->fds[i * FDS_PER_JOB + 2].revents)
                                drain(transport, job, &job->err, false);
                        if (running->fds[i * FDS_PER_JOB].revents) {
                                running->jobs[i] = running->jobs[--running->n];
                                finish(transport, job);
                                done++;
                        } else {
                                press(transport, job, now_ms());
                        }
                }
        }
        for (; next < n; next++)
                jobs[next].cancelled = true;
        return r < 0 ? r : cancelled ? -ECANCELED : 0;
}

/* SPDX-License-Identifier: MIT */
/* The shapes that are several threads or processes. */
#include "holder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void start_thread(const struct holder *h, void *(*run)(void *), void *arg)
{
        pthread_t thread;
        int r = pthread_create(&thread, NULL, run, arg);

        if (r != 0)
                holder_fail(h, "pthread_create: %s", strerror(r));
}

/* The thread that stays behind: tells once the leader is a zombie. */
static void *outlive_leader(void *arg)
{
        static const struct timespec moment = { .tv_nsec = 1000000 };
        struct holder *h = arg;
        uint64_t deadline = sim_now_ms() + 10000;
        char state = 'R';

        /* No event tells of the death of a thread group's leader alone, so this looks again after a moment. */
        while (sim_stat(getpid(), NULL, &state) == 0 && state != 'Z') {
                if (sim_now_ms() > deadline)
                        holder_fail(h, "the leader does not end");
                (void)nanosleep(&moment, NULL);
        }
        holder_booked_self(h);
        holder_ready(h);
        holder_stay();
}

void shape_zombie_leader(struct holder *h)
{
        holder_open_all(h);
        start_thread(h, outlive_leader, h);
        pthread_exit(NULL);
}

struct table {
        struct holder *h;
        sem_t holds;
};

static void *hold_in_own_table(void *arg)
{
        struct table *t = arg;

        if (unshare(CLONE_FILES) < 0)
                holder_fail(t->h, "unshare: %s", strerror(errno));
        holder_open_all(t->h);
        (void)sem_post(&t->holds);
        holder_stay();
}

void shape_own_table(struct holder *h)
{
        struct table t = { .h = h };

        if (sem_init(&t.holds, 0, 0) < 0)
                holder_fail(h, "sem_init: %s", strerror(errno));
        start_thread(h, hold_in_own_table, &t);
        while (sem_wait(&t.holds) < 0)
                ;
        holder_booked_self(h);
        holder_ready(h);
        holder_stay();
}

static void end_self(int signal)
{
        _exit(128 + signal);
}

/* Process 1 of its namespace: the kernel gives it no default action for SIGTERM, so it has a handler, like an init. */
static void hold_in_namespace(struct holder *h, int told)
{
        struct sigaction act = { .sa_handler = end_self };

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)sigaction(SIGTERM, &act, NULL);
        (void)sigaction(SIGINT, &act, NULL);
        holder_open_all(h);
        (void)close(h->dev);
        (void)close(h->dir);
        (void)close(h->report);
        (void)!write(told, "x", 1);
        (void)close(told);
        holder_stay();
}

void shape_pidns(struct holder *h)
{
        int told[2];
        char c, check[64];
        pid_t child;

        if (unshare(geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) < 0)
                holder_fail(h, "a PID namespace: %s", strerror(errno));
        if (pipe2(told, O_CLOEXEC) < 0)
                holder_fail(h, "pipe: %s", strerror(errno));
        child = fork();
        if (child < 0)
                holder_fail(h, "fork: %s", strerror(errno));
        if (child == 0)
                hold_in_namespace(h, told[1]);
        (void)close(told[1]);
        if (read(told[0], &c, 1) != 1)
                holder_fail(h, "the process in the namespace has ended");
        (void)close(told[0]);
        holder_booked(h, child, "holder", true);
        holder_keeper(h, child, holder_check_gpu(h, check));
        holder_process(h, getpid(), "launcher");
        (void)prctl(PR_SET_NAME, "sim-pidns");
        holder_ready(h);
        (void)waitpid(child, NULL, 0);
        _exit(0);
}

/* Starts one holder below us and passes on who it is. */
static pid_t start_below(const struct holder *h, const struct sim_params *params)
{
        struct sim_report report;
        pid_t pid = -1;

        if (sim_spawn(h->dir, params, &report) < 0)
                holder_fail(h, "%s", report.error);
        for (size_t i = 0; i < report.processes.n; i++) {
                const struct sim_process *p = &report.processes.v[i];

                if (pid < 0)
                        pid = p->id.pid;
                if (h->report >= 0)
                        (void)dprintf(h->report, "other %d %llu %s %d\n", (int)p->id.pid,
                                      (unsigned long long)p->id.start, p->role, p->gpu);
        }
        sim_report_done(&report);
        return pid;
}

static void start_worker(const struct holder *h, int number)
{
        struct sim_params p;
        const char *shape = number == h->params.zombie ? "zombie-leader" : "plain";

        sim_params_init(&p, sim_shape_find(shape));
        p.memory = h->params.memory;
        p.gpu = h->params.gpu + number;
        p.all_gpus = h->params.all_gpus;
        p.left_alone = true; /* what a killed launcher leaves behind is the point */
        (void)snprintf(p.name, sizeof(p.name), "%.*s%d", (int)sizeof(p.name) - 12, h->params.name, number);
        (void)start_below(h, &p);
}

void shape_workers(struct holder *h)
{
        size_t count = h->params.count ? h->params.count : h->state.n_gpus - (size_t)h->params.gpu;

        (void)prctl(PR_SET_NAME, "sim-launcher");
        if ((size_t)h->params.gpu + count > h->state.n_gpus)
                holder_fail(h, "%zu workers from GPU %d on, but there are %zu GPUs", count, h->params.gpu,
                            h->state.n_gpus);
        for (size_t i = 0; i < count; i++)
                start_worker(h, (int)i);
        holder_process(h, getpid(), h->params.orphaned ? "dead" : "launcher");
        holder_ready(h);
        while (!h->params.orphaned && (waitpid(-1, NULL, 0) > 0 || errno == EINTR))
                ;
        _exit(0);
}

void shape_respawner(struct holder *h)
{
        struct sim_params p = h->params;
        pid_t child;

        (void)snprintf(p.shape, sizeof(p.shape), "plain");
        p.user = SIM_NO_USER; /* as we are, by now */
        (void)prctl(PR_SET_NAME, "sim-respawner");
        child = start_below(h, &p);
        holder_process(h, getpid(), "launcher");
        (void)dprintf(h->report, "ready\n");
        h->report = gf_close(h->report);
        for (;;) {
                while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
                        ;
                child = start_below(h, &p);
        }
}

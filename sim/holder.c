/* SPDX-License-Identifier: MIT */
/*
 * A process that really holds the stand-in devices of a simulated node, in one shape. gpufree-sim starts it with its
 * parameters in the environment, so that its command line can be anything; by hand it takes them as arguments.
 */
#include "holder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "base/num.h"

void holder_fail(const struct holder *h, const char *format, ...)
{
        char text[200];
        va_list ap;

        va_start(ap, format);
        (void)vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        (void)dprintf(h->report, "error shape %s: %s\n", h->params.shape, text);
        _exit(1);
}

int holder_open(const struct holder *h, const char *name, int flags)
{
        int fd = openat(h->dev, name, flags | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0)
                holder_fail(h, "open %s: %s", name, strerror(errno));
        return fd;
}

void holder_open_rest(const struct holder *h)
{
        (void)holder_open(h, "nvidiactl", O_RDWR);
        (void)holder_open(h, "nvidia-uvm", O_RDWR);
        (void)holder_open(h, "nvidia-uvm", O_RDWR);
        if (!h->params.all_gpus)
                return;
        for (size_t i = 0; i < h->state.n_gpus; i++) {
                char name[32];

                (void)snprintf(name, sizeof(name), "nvidia%d", h->state.gpus[i].minor);
                for (int n = 0; h->state.gpus[i].index != h->params.gpu && n < HOLDER_OTHER_GPU_FDS; n++)
                        (void)holder_open(h, name, O_RDWR);
        }
}

void holder_open_all(const struct holder *h)
{
        for (int n = 0; n < HOLDER_GPU_FDS; n++)
                (void)holder_open(h, h->gpu, O_RDWR);
        holder_open_rest(h);
}

static struct sim_id identify(const struct holder *h, pid_t pid)
{
        struct sim_id id;

        if (sim_identify(pid, &id) < 0)
                holder_fail(h, "process %d has gone", (int)pid);
        return id;
}

void holder_booked(const struct holder *h, pid_t pid, const char *role, bool listed)
{
        struct sim_id id = identify(h, pid);

        (void)dprintf(h->report, "booked %d %llu %s %d\n", (int)pid, (unsigned long long)id.start, role, listed);
}

void holder_keeper(const struct holder *h, pid_t pid, const char *check)
{
        struct sim_id id = identify(h, pid);

        (void)dprintf(h->report, "keeper %d %llu %s\n", (int)pid, (unsigned long long)id.start, check);
}

void holder_process(const struct holder *h, pid_t pid, const char *role)
{
        struct sim_id id = identify(h, pid);

        (void)dprintf(h->report, "process %d %llu %s\n", (int)pid, (unsigned long long)id.start, role);
}

const char *holder_check_gpu(const struct holder *h, char buf[static 64])
{
        struct stat st;

        if (fstatat(h->dev, h->gpu, &st, 0) < 0)
                holder_fail(h, "%s: %s", h->gpu, strerror(errno));
        (void)snprintf(buf, 64, "fd:%u:%u", major(st.st_rdev), minor(st.st_rdev));
        return buf;
}

void holder_booked_self(const struct holder *h)
{
        char check[64];

        holder_booked(h, getpid(), "holder", true);
        holder_keeper(h, getpid(), holder_check_gpu(h, check));
}

void holder_ready(struct holder *h)
{
        int report = h->report;

        h->dev = gf_close(h->dev);
        h->dir = gf_close(h->dir);
        h->report = -1;
        (void)dprintf(report, "ready\n");
        (void)close(report);
}

void holder_stay(void)
{
        for (;;)
                (void)pause();
}

static const struct {
        const char *name;
        holder_shape *run;
} table[] = {
        { "plain", shape_plain },
        { "open", shape_open },
        { "fork-heir", shape_fork_heir },
        { "zombie-leader", shape_zombie_leader },
        { "map", shape_map },
        { "own-node", shape_own_node },
        { "pidns", shape_pidns },
        { "own-table", shape_own_table },
        { "scm", shape_scm },
        { "io_uring", shape_io_uring },
        { "unlinked", shape_unlinked },
        { "opath", shape_opath },
        { "ctl-only", shape_ctl_only },
        { "exporter", shape_exporter },
        { "stopped", shape_stopped },
        { "ignore-term", shape_ignore_term },
        { "service", shape_service },
        { "workers", shape_workers },
        { "respawner", shape_respawner },
};

/* "report=FD\ndir=FD\n" and the parameters; the text is used up. */
static int take_environment(char *text, struct holder *h)
{
        unsigned report, dir;
        int used = 0;

        if (sscanf(text, "report=%u\ndir=%u\n%n", &report, &dir, &used) != 2 || used == 0)
                return -EINVAL;
        h->report = (int)report;
        h->dir = (int)dir;
        if (fcntl(h->report, F_SETFD, FD_CLOEXEC) < 0 || fcntl(h->dir, F_SETFD, FD_CLOEXEC) < 0)
                return -errno;
        return sim_params_decode(text + used, &h->params);
}

static void find_gpu(struct holder *h)
{
        if (sim_state_read(h->dir, &h->state) < 0)
                holder_fail(h, "the directory is no simulated node");
        h->dev = openat(h->dir, "dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (h->dev < 0)
                holder_fail(h, "dev: %s", strerror(errno));
        if (h->params.gpu < 0 || (size_t)h->params.gpu >= h->state.n_gpus)
                holder_fail(h, "there is no GPU %d", h->params.gpu);
        h->minor = h->state.gpus[h->params.gpu].minor;
        (void)snprintf(h->gpu, sizeof(h->gpu), "nvidia%d", h->minor);
}

static int run(const char *environment)
{
        _cleanup_free_ char *text = strdup(environment);
        _cleanup_free_ struct holder *h = calloc(1, sizeof(*h));
        char comm[sizeof(h->params.name)];
        const char *base;

        if (!text || !h || take_environment(text, h) < 0) {
                (void)fprintf(stderr, "gpufree-sim-holder: %s is not understood\n", SIM_ENV_HOLDER);
                return 2;
        }
        h->control = -1;
        (void)unsetenv(SIM_ENV_HOLDER);
        (void)snprintf(comm, sizeof(comm), "%.*s", (int)strcspn(h->params.name, " "), h->params.name);
        base = strrchr(comm, '/');
        (void)prctl(PR_SET_NAME, base ? base + 1 : comm);
        find_gpu(h);
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (gf_streq(table[i].name, h->params.shape)) {
                        table[i].run(h);
                        if (h->control >= 0)
                                holder_serve(h);
                        holder_stay();
                }
        holder_fail(h, "there is no such shape");
}

/* By hand: starts the holder as a child, prints its PIDs, stays until it ends or we do. */
static int by_hand(int argc, char **argv)
{
        struct sim_args args;
        struct sim_report report;
        _cleanup_close_ int dir = -1;
        int r = sim_args_parse(argc, argv, "gpufree-sim-holder", false, &args);

        if (r != 0)
                return r < 0 ? 2 : 0;
        dir = open(args.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0) {
                (void)fprintf(stderr, "gpufree-sim-holder: %s: %s\n", args.dir, strerror(errno));
                return 1;
        }
        r = sim_spawn(dir, &args.params, &report);
        if (r < 0)
                (void)fprintf(stderr, "gpufree-sim-holder: %s\n", report.error);
        for (size_t i = 0; r >= 0 && i < report.processes.n; i++)
                if (!gf_streq(report.processes.v[i].role, "dead"))
                        (void)printf("%d\n", (int)report.processes.v[i].id.pid);
        (void)fflush(stdout);
        sim_report_done(&report);
        if (r < 0)
                return 1;
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
                ;
        return 0;
}

int main(int argc, char **argv)
{
        const char *environment = getenv(SIM_ENV_HOLDER);

        return environment ? run(environment) : by_hand(argc, argv);
}

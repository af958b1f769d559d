/* SPDX-License-Identifier: MIT */
/*
 * Times commands against each other on the machine of bench-workload: every round runs each command once, in a random
 * order; what counts is the ratio within a round. Prints a table and writes the figures that bench-picture draws.
 *
 *     bench-run [--rounds N] [--processes N] [--descriptors N] [--mappings N] [--giants N] [--slab] [--figures FILE]
 *               [--gpufree PROGRAM]
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "bench.h"

extern char **environ;

static double now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double of_timeval(struct timeval t)
{
        return (double)t.tv_sec * 1e3 + (double)t.tv_usec / 1e3;
}

/* Runs one command with its output thrown away. 0, or -1: it could not be run. */
static int run_once(struct command *c, struct sample *ret)
{
        posix_spawn_file_actions_t actions;
        struct rusage usage;
        double begin;
        int r, status;
        pid_t pid;

        (void)posix_spawn_file_actions_init(&actions);
        for (int fd = 0; fd < 3; fd++)
                (void)posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
        begin = now_ms();
        r = posix_spawnp(&pid, c->argv[0], &actions, NULL, c->argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        if (r != 0)
                return -1;
        if (wait4(pid, &status, 0, &usage) != pid || !WIFEXITED(status) || WEXITSTATUS(status) == 127)
                return -1;
        ret->wall = now_ms() - begin;
        ret->cpu = of_timeval(usage.ru_utime) + of_timeval(usage.ru_stime);
        if (usage.ru_maxrss > c->rss_kib)
                c->rss_kib = usage.ru_maxrss;
        c->status = WEXITSTATUS(status);
        return 0;
}

/* Kernel slab in KiB, -1 unknown. */
static long slab_kib(void)
{
        _cleanup_fclose_ FILE *f = fopen("/proc/meminfo", "re");
        char line[128];
        long n;

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "Slab: %ld kB", &n) == 1)
                        return n;
        return -1;
}

/* What one run leaves behind in the kernel's caches, beginning with none. Needs root; slows the machine for a moment.
 */
static void measure_slab(struct command *c)
{
        _cleanup_fclose_ FILE *f = fopen("/proc/sys/vm/drop_caches", "we");
        struct sample ignored;
        long before;

        if (!f || fputs("2\n", f) < 0 || fflush(f) != 0)
                return;
        before = slab_kib();
        if (before >= 0 && run_once(c, &ignored) == 0)
                c->slab_kib = slab_kib() - before;
}

static void shuffle(size_t *order, size_t n)
{
        for (size_t i = 0; i < n; i++)
                order[i] = i;
        for (size_t i = n; i > 1; i--) {
                size_t k = (size_t)random() % i, t = order[i - 1];

                order[i - 1] = order[k];
                order[k] = t;
        }
}

static int measure(struct bench *b)
{
        size_t order[COMMANDS_MAX];
        struct sample ignored;

        /* Once without counting; who cannot run is left out. */
        for (size_t i = 0; i < b->n;) {
                if (run_once(&b->commands[i], &ignored) == 0) {
                        i++;
                        continue;
                }
                fprintf(stderr, "bench-run: %s cannot be run: left out\n", b->commands[i].name);
                memmove(&b->commands[i], &b->commands[i + 1], (b->n - i - 1) * sizeof(b->commands[0]));
                b->n--;
        }
        for (uint32_t round = 0; round < b->rounds; round++) {
                shuffle(order, b->n);
                for (size_t k = 0; k < b->n; k++)
                        if (run_once(&b->commands[order[k]], &b->commands[order[k]].samples[round]) < 0)
                                return -1;
                fprintf(stderr, "\rround %u of %u", round + 1, b->rounds);
        }
        fprintf(stderr, "\n");
        for (size_t i = 0; b->slab && i < b->n; i++)
                measure_slab(&b->commands[i]);
        return 0;
}

struct workload {
        pid_t pid;
        int in;
        char dir[64];
};

/* Starts the workload and waits until it stands. */
static int start_workload(struct bench *b, const char *program, struct workload *w)
{
        char numbers[5][16];
        char *argv[] = { NULL, w->dir, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], NULL };
        const uint32_t values[] = { b->processes, b->descriptors, b->mappings, 8, b->giants };
        _cleanup_free_ char *path = strdup(program);
        _cleanup_fclose_ FILE *out = NULL;
        posix_spawn_file_actions_t actions;
        int in[2], back[2], r;
        char line[64];

        (void)snprintf(w->dir, sizeof(w->dir), "/tmp/gpufree-bench-XXXXXX");
        if (!path || !mkdtemp(w->dir) || pipe2(in, O_CLOEXEC) < 0 || pipe2(back, O_CLOEXEC) < 0)
                return -1;
        argv[0] = path;
        for (size_t i = 0; i < ELEMENTSOF(values); i++)
                (void)snprintf(numbers[i], sizeof(numbers[i]), "%u", values[i]);
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        (void)posix_spawn_file_actions_adddup2(&actions, back[1], 1);
        r = posix_spawn(&w->pid, path, &actions, NULL, argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)close(in[0]);
        (void)close(back[1]);
        w->in = in[1];
        out = fdopen(back[0], "r");
        if (r != 0 || !out)
                return -1;
        while (fgets(line, sizeof(line), out))
                if (strcmp(line, "ready\n") == 0)
                        return 0;
        return -1;
}

static void stop_workload(struct workload *w)
{
        char *argv[] = { (char[]){ "rm" }, (char[]){ "-rf" }, (char[]){ "--" }, w->dir, NULL };
        pid_t pid;

        w->in = gf_close(w->in);
        if (w->pid > 0)
                (void)waitpid(w->pid, NULL, 0);
        if (w->dir[0] && posix_spawnp(&pid, "rm", NULL, NULL, argv, environ) == 0)
                (void)waitpid(pid, NULL, 0);
}

static void add(struct bench *b, const char *name, const char *const *words, const char *dir, bool with_nodes)
{
        static const char *const nodes[] = { "nvidia0", "nvidia1", "nvidia2", "nvidia3",   "nvidia4",
                                             "nvidia5", "nvidia6", "nvidia7", "nvidiactl", "nvidia-uvm" };
        struct command *c;
        size_t n = 0;

        if (b->n >= COMMANDS_MAX)
                return;
        c = &b->commands[b->n++];
        *c = (struct command){ .name = name, .slab_kib = LONG_MIN };
        for (; *words && n < WORDS_MAX - ELEMENTSOF(nodes) - 1; words++)
                c->argv[n++] = strdup(*words);
        for (size_t i = 0; with_nodes && i < ELEMENTSOF(nodes); i++) {
                char path[128];

                (void)snprintf(path, sizeof(path), "%s/%s", dir, nodes[i]);
                c->argv[n++] = strdup(path);
        }
}

static void add_all(struct bench *b, const char *scan, const char *gpufree, const char *dir)
{
#define WORDS(...) (const char *const[]){ __VA_ARGS__, NULL }
        /* The first is what the others are measured by. */
        add(b, "fuser", WORDS("fuser"), dir, true);
        add(b, "lsof", WORDS("lsof", "-w"), dir, true);
        add(b, "lsfd", WORDS("lsfd", "-Q", "MAJ:MIN =~ \"^4:\""), dir, false);
        if (gpufree) {
                add(b, "gpufree list", WORDS(gpufree, "list", "--json", "--scan", "bpf", "--dev-root", dir), dir,
                    false);
                add(b, "gpufree list, /proc", WORDS(gpufree, "list", "--json", "--scan", "proc", "--dev-root", dir),
                    dir, false);
        }
        add(b, "gpufree's scan", WORDS(scan, "bpf"), dir, true);
        add(b, "gpufree's scan, /proc", WORDS(scan, "proc"), dir, true);
}

static int number(const char *text, uint32_t low, uint32_t high, uint32_t *ret)
{
        if (gf_parse_u32(text, ret) < 0 || *ret < low || *ret > high) {
                fprintf(stderr, "bench-run: \"%s\" is no number from %u to %u\n", text, low, high);
                return -1;
        }
        return 0;
}

static int options(int argc, char **argv, struct bench *b, const char **ret_gpufree, const char **ret_figures)
{
        static const struct option known[] = {
                { "rounds", required_argument, NULL, 'r' },
                { "processes", required_argument, NULL, 'p' },
                { "descriptors", required_argument, NULL, 'd' },
                { "mappings", required_argument, NULL, 'm' },
                { "giants", required_argument, NULL, 'g' },
                { "slab", no_argument, NULL, 's' },
                { "figures", required_argument, NULL, 'f' },
                { "gpufree", required_argument, NULL, 'x' },
                { 0 },
        };
        int r = 0;

        for (int c; r == 0 && (c = getopt_long(argc, argv, "", known, NULL)) >= 0;)
                if (c == 'r')
                        r = number(optarg, 1, ROUNDS_MAX, &b->rounds);
                else if (c == 'p')
                        r = number(optarg, 1, 100000, &b->processes);
                else if (c == 'd')
                        r = number(optarg, 0, 100000, &b->descriptors);
                else if (c == 'm')
                        r = number(optarg, 0, 60000, &b->mappings);
                else if (c == 'g')
                        r = number(optarg, 0, 100, &b->giants);
                else if (c == 's')
                        b->slab = true;
                else if (c == 'f')
                        *ret_figures = optarg;
                else if (c == 'x')
                        *ret_gpufree = optarg;
                else
                        r = -1;
        return r;
}

/* The programs next to this one. */
static char *neighbour(const char *self, const char *name)
{
        const char *slash = strrchr(self, '/');

        return gf_asprintf("%.*s%s", slash ? (int)(slash - self + 1) : 0, self, name);
}

int main(int argc, char **argv)
{
        static struct bench b = { .rounds = 15, .processes = 2000, .descriptors = 100, .mappings = 200 };
        _cleanup_free_ char *workload = neighbour(argv[0], "bench-workload"), *scan = neighbour(argv[0], "bench-scan");
        const char *gpufree = NULL, *figures = NULL;
        struct workload w = { .in = -1 };
        int r;

        if (!workload || !scan || options(argc, argv, &b, &gpufree, &figures) < 0)
                return 2;
        if (geteuid() != 0) {
                fprintf(stderr, "bench-run: needs root: without it the others see nothing, and BPF cannot be loaded\n");
                return 77;
        }
        srandom((unsigned)getpid());
        fprintf(stderr, "starting %u processes\n", b.processes);
        r = start_workload(&b, workload, &w);
        if (r < 0)
                fprintf(stderr, "bench-run: the workload could not be started: %s\n", strerror(errno));
        if (r == 0) {
                add_all(&b, scan, gpufree, w.dir);
                r = measure(&b);
        }
        stop_workload(&w);
        if (r < 0)
                return 1;
        bench_table(&b, stdout);
        return figures && bench_write(&b, figures) < 0 ? 1 : 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The benchmark's machine: many processes with many descriptors and mappings of ordinary kinds, a few of which hold
 * stand-in devices. Prints the PIDs of the holders and "ready", then waits until its standard input ends. Everything
 * ends with it.
 *
 *     bench-workload DIRECTORY [PROCESSES [DESCRIPTORS [MAPPINGS [HOLDERS [GIANTS]]]]]
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"

#define FILES 400 /* ordinary files the processes share */
#define GIANT_DESCRIPTORS 20000
#define GIANT_MAPPINGS 60000

struct workload {
        int dir;
        uint32_t processes, descriptors, mappings, holders, giants;
};

static const char *const nodes[] = { "nvidia0", "nvidia1", "nvidia2", "nvidia3",   "nvidia4",
                                     "nvidia5", "nvidia6", "nvidia7", "nvidiactl", "nvidia-uvm" };

static int fail(const char *what)
{
        fprintf(stderr, "bench-workload: %s: %s\n", what, strerror(errno));
        return -1;
}

static int open_file(const struct workload *w, uint32_t i)
{
        char name[32];

        (void)snprintf(name, sizeof(name), "f%u", i % FILES);
        return openat(w->dir, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/* Unused terminals stand in for the devices (nobody else has them open), and a copy of /dev/zero, which can be mapped.
 */
static int make_nodes(const struct workload *w)
{
        for (size_t i = 0; i < ELEMENTSOF(nodes); i++)
                if (mknodat(w->dir, nodes[i], S_IFCHR | 0600, makedev(4, (unsigned)(44 + i))) < 0 && errno != EEXIST)
                        return fail(nodes[i]);
        if (mknodat(w->dir, "nvidia-mapped", S_IFCHR | 0600, makedev(1, 5)) < 0 && errno != EEXIST)
                return fail("nvidia-mapped");
        for (uint32_t i = 0; i < FILES; i++) {
                int fd = open_file(w, i);

                if (fd < 0 || ftruncate(fd, 65536) < 0)
                        return fail("file");
                (void)close(fd);
        }
        return 0;
}

/* One of twenty descriptors in the mix of an ordinary server. How many it made, or -1. */
static int one_more(const struct workload *w, uint32_t index, uint32_t k)
{
        int pair[2];

        k %= 20;
        if (k < 5)
                return open("/dev/null", O_RDWR | O_CLOEXEC) < 0 ? -1 : 1;
        if (k < 8)
                return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) < 0 ? -1 : 1;
        if (k < 9)
                return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ? -1 : 2;
        if (k < 11)
                return pipe2(pair, O_CLOEXEC) < 0 ? -1 : 2;
        if (k < 16)
                return open_file(w, index * 7 + k) < 0 ? -1 : 1;
        if (k < 18)
                return eventfd(0, EFD_CLOEXEC) < 0 ? -1 : 1;
        return open("/dev/urandom", O_RDONLY | O_CLOEXEC) < 0 ? -1 : 1;
}

static int fill_descriptors(const struct workload *w, uint32_t index, uint32_t n)
{
        for (uint32_t made = 0, k = 0; made < n; k++) {
                int r = one_more(w, index, k);

                if (r < 0)
                        return fail("descriptor");
                made += (uint32_t)r;
        }
        return 0;
}

static int fill_mappings(const struct workload *w, uint32_t index, uint32_t n)
{
        int fd = open_file(w, index), other = open_file(w, index + 1);

        if (fd < 0 || other < 0)
                return fail("file");
        for (uint32_t i = 0; i < n; i++) {
                void *p;

                if (i & 1)
                        p = mmap(NULL, 4096, i & 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                 -1, 0);
                else
                        p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, i & 2 ? fd : other, 4096 * (off_t)(i % 8));
                if (p == MAP_FAILED)
                        return fail("mmap");
        }
        (void)close(fd);
        (void)close(other);
        return 0;
}

static int hold(const struct workload *w)
{
        int fd;

        for (size_t i = 0; i < ELEMENTSOF(nodes); i++)
                if (openat(w->dir, nodes[i], O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) < 0)
                        return fail(nodes[i]);
        fd = openat(w->dir, "nvidia-mapped", O_RDWR | O_CLOEXEC);
        for (int i = 0; fd >= 0 && i < 2; i++)
                if (mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) == MAP_FAILED)
                        return fail("mmap");
        return fd < 0 ? fail("nvidia-mapped") : close(fd);
}

/* 20,000, or as many as the limit allows. */
static uint32_t giant_descriptors(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= GIANT_DESCRIPTORS + 64)
                return GIANT_DESCRIPTORS;
        return limit.rlim_cur > 128 ? (uint32_t)limit.rlim_cur - 64 : 64;
}

static int be(const struct workload *w, uint32_t index, bool giant, bool holder)
{
        if (fill_descriptors(w, index, giant ? giant_descriptors() : w->descriptors) < 0)
                return -1;
        if (fill_mappings(w, index, giant ? GIANT_MAPPINGS : w->mappings) < 0)
                return -1;
        return holder ? hold(w) : 0;
}

/* Starts process `index` and waits until it is what it shall be. */
static int start(const struct workload *w, uint32_t index)
{
        bool giant = index >= w->processes;
        uint32_t every = w->holders > 0 ? w->processes / w->holders : 0;
        bool holder = !giant && every > 0 && index % every == every / 2 && index / every < w->holders;
        pid_t parent = getpid(), pid;
        int ready[2];
        char byte;

        if (pipe2(ready, O_CLOEXEC) < 0)
                return fail("pipe");
        pid = fork();
        if (pid < 0)
                return fail("fork");
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent || be(w, index, giant, holder) < 0 || write(ready[1], "r", 1) != 1)
                        _exit(1);
                (void)close(ready[0]);
                (void)close(ready[1]);
                for (;;)
                        pause();
        }
        (void)close(ready[1]);
        if (read(ready[0], &byte, 1) != 1)
                return fail("a process of the workload did not become ready");
        (void)close(ready[0]);
        if (holder)
                printf("%d\n", pid);
        return 0;
}

static int arguments(int argc, char **argv, struct workload *w)
{
        uint32_t *const numbers[] = { &w->processes, &w->descriptors, &w->mappings, &w->holders, &w->giants };

        if (argc < 2 || argc > 2 + (int)ELEMENTSOF(numbers))
                return -1;
        for (int i = 2; i < argc; i++)
                if (gf_parse_u32(argv[i], numbers[i - 2]) < 0)
                        return -1;
        w->dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return w->dir;
}

int main(int argc, char **argv)
{
        struct workload w = { .processes = 2000, .descriptors = 100, .mappings = 200, .holders = 8 };
        struct rlimit limit;
        char c;

        if (arguments(argc, argv, &w) < 0) {
                fprintf(stderr,
                        "usage: bench-workload DIRECTORY [PROCESSES [DESCRIPTORS [MAPPINGS [HOLDERS [GIANTS]]]]]\n");
                return 2;
        }
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
        if (make_nodes(&w) < 0)
                return 1;
        for (uint32_t i = 0; i < w.processes + w.giants; i++)
                if (start(&w, i) < 0)
                        return 1;
        printf("ready\n");
        (void)fflush(stdout);
        while (read(STDIN_FILENO, &c, 1) > 0 || errno == EINTR)
                errno = 0;
        return 0; /* the others die with their parent */
}

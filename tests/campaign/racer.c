/* SPDX-License-Identifier: MIT */
/*
 * racer PATTERN CHAINS PERIOD_US SECONDS NODE: holds NODE in ways that outrun who looks first and signals afterwards.
 *   chain    each holder forks a successor after PERIOD and exits; the descriptor goes on
 *   prefork  a master keeps four workers and replaces one each PERIOD
 *   onekid   a holder forks a child each PERIOD; each lives for three periods
 *   session  like chain, and each successor is the leader of a new session
 *   plain    CHAINS processes that hold and wait
 *   idle     CHAINS processes that hold nothing and wait (NODE is not opened)
 *   brief    CHAINS processes that hold and end by themselves within two PERIODs
 *   churn    CHAINS processes that do nothing but fork children that exit at once: PIDs go round
 * Prints a line with the PIDs first started. A line on its standard input asks whether any of them, or of what they
 * forked, is left: "some" or "none" (each has the end of a pipe: a walk through /proc would miss who hops on). At the
 * end of its input it has all of them end, and waits for that. Everybody ends after SECONDS at the latest, and when
 * this program does.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_FORKS 65536

static struct {
        int stop;
} * shared;
static pid_t master;
static long period_us;
static time_t end;
static long forks;

static void check(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec >= end || ++forks > MOST_FORKS || __atomic_load_n(&shared->stop, __ATOMIC_RELAXED) ||
            (kill(master, 0) < 0 && errno == ESRCH))
                _exit(0);
}

static void rest(void)
{
        for (;;) {
                (void)usleep(200000);
                check();
        }
}

static void chain(int new_session)
{
        for (;;) {
                pid_t pid;

                (void)usleep((useconds_t)period_us);
                check();
                pid = fork();
                if (pid > 0)
                        _exit(0);
                if (pid == 0 && new_session)
                        (void)setsid();
        }
}

static void prefork(void)
{
        pid_t worker[4] = { 0 };

        for (int k = 0;; k = (k + 1) % 4) {
                pid_t old = worker[k];

                worker[k] = fork();
                if (worker[k] == 0)
                        rest();
                if (old > 0)
                        (void)kill(old, SIGKILL);
                (void)usleep((useconds_t)period_us);
                check();
        }
}

static void onekid(void)
{
        for (;;) {
                if (fork() == 0) {
                        (void)usleep((useconds_t)(3 * period_us));
                        _exit(0);
                }
                (void)usleep((useconds_t)period_us);
                check();
        }
}

static void churn(void)
{
        for (;;) {
                pid_t pid = fork();

                if (pid == 0)
                        _exit(0);
                (void)usleep((useconds_t)period_us);
                check();
        }
}

static void brief(int n)
{
        srandom((unsigned)getpid() * 31 + (unsigned)n);
        (void)usleep((useconds_t)(random() % (2 * period_us + 1)));
        _exit(0);
}

static void play(const char *pattern, int n, const char *node)
{
        if (strcmp(pattern, "idle") != 0 && strcmp(pattern, "churn") != 0 &&
            open(node, O_RDONLY | O_NOCTTY | O_NONBLOCK) < 0) {
                perror(node);
                _exit(1);
        }
        if (strcmp(pattern, "chain") == 0)
                chain(0);
        else if (strcmp(pattern, "session") == 0)
                chain(1);
        else if (strcmp(pattern, "prefork") == 0)
                prefork();
        else if (strcmp(pattern, "onekid") == 0)
                onekid();
        else if (strcmp(pattern, "churn") == 0)
                churn();
        else if (strcmp(pattern, "brief") == 0)
                brief(n);
        else
                rest();
}

int main(int argc, char **argv)
{
        struct timespec now;
        int left[2];
        char byte;

        if (argc != 6)
                return 2;
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED || pipe(left) < 0)
                return 1;
        master = getpid();
        period_us = strtol(argv[3], NULL, 10);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        end = now.tv_sec + strtol(argv[4], NULL, 10);
        /* Whoever loses its parent comes to us, and needs no reaping: no zombies pile up. */
        (void)signal(SIGCHLD, SIG_IGN);
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        for (int i = 0; i < (int)strtol(argv[2], NULL, 10); i++) {
                pid_t pid = fork();

                if (pid == 0) {
                        (void)close(0);
                        (void)close(1);
                        (void)close(left[0]);
                        play(argv[1], i, argv[5]);
                }
                if (pid < 0)
                        return 1;
                (void)printf("%s%d", i ? " " : "", (int)pid);
        }
        (void)printf("\n");
        (void)fflush(stdout);
        (void)close(left[1]);
        while (read(0, &byte, 1) > 0) {
                struct pollfd p = { .fd = left[0] };

                (void)poll(&p, 1, 0);
                (void)printf("%s\n", p.revents & POLLHUP ? "none" : "some");
                (void)fflush(stdout);
        }
        __atomic_store_n(&shared->stop, 1, __ATOMIC_RELAXED);
        while (read(left[0], &byte, 1) > 0)
                ;
        return 0;
}

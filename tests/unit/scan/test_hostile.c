/* SPDX-License-Identifier: MIT */
/* What must neither stop a scan nor mislead it. */
#include "help.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fuse.h"
#include "parse/process.h"
#include "scan/scan.h"
#include "sys/clock.h"
#include "sys/procfs.h"

static int hold_fd(void *arg)
{
        const struct stage *stage = arg;
        int fd = stage_open(stage->dev[0].path);

        return fd < 0 ? -fd : 0;
}

/* ---- a file system that hangs ---- */

static int open_both(const char *file, void *arg)
{
        int fd = open(file, O_RDWR | O_CLOEXEC);

        return fd < 0 ? errno : hold_fd(arg);
}

static int hold_hung(void *arg)
{
        const struct stage *stage = arg;
        char mountpoint[128];

        (void)snprintf(mountpoint, sizeof(mountpoint), "%s/hung", stage->dir);
        return fuse_kid(mountpoint, open_both, NULL, arg);
}

/* The PIDs whose parent is `parent`: the last one, or 0. */
static pid_t child_of(pid_t parent)
{
        char path[64], text[64];
        ssize_t n;
        pid_t pid = 0;

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
        n = gf_read_head(AT_FDCWD, path, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        text[strcspn(text, " ")] = '\0';
        return sscanf(text, "%d", &pid) == 1 ? pid : 0;
}

static void a_hung_file_system_does_not_stop_it(void **state)
{
        const struct stage *stage = *state;
        uint64_t began = gf_now_ms();
        struct gf_scan scan = { 0 };
        struct kid kid;
        pid_t holder;

        if (kid_start(&kid, hold_hung, *state) != 0)
                skip_because("no right to mount FUSE");
        holder = child_of(kid.pid);
        assert_true(holder > 0);
        scan_for(&stage->dev[0].rdev, 1, 0, &scan);
        assert_int_equal(count_hits(&scan, holder, GPUFREE_VIA_FD), 1);
        assert_null(find_refused(&scan, holder));
        assert_true(gf_now_ms() - began < KID_DEADLINE_MS);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static void *dirty;

static int dirty_map(const char *file, void *arg)
{
        int fd = open(file, O_RDWR | O_CLOEXEC);

        if (fd < 0)
                return errno;
        dirty = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (dirty == MAP_FAILED)
                return errno;
        *(volatile char *)dirty = 'x';
        return hold_fd(arg);
}

/* Unmapping writes back, with the lock of the memory map held: that never ends. */
static void lock_map(void)
{
        (void)mmap(dirty, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static int hold_locked(void *arg)
{
        const struct stage *stage = arg;
        char mountpoint[128];

        (void)snprintf(mountpoint, sizeof(mountpoint), "%s/hung", stage->dir);
        return fuse_kid(mountpoint, dirty_map, lock_map, arg);
}

static bool reaches_state(pid_t pid, char wanted)
{
        uint64_t deadline = gf_deadline_in(10000);
        char path[64], text[GF_STAT_MAX];
        struct gf_stat stat;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        while (gf_deadline_left(deadline) > 0) {
                ssize_t n = gf_read_head(AT_FDCWD, path, text, sizeof(text));

                if (n > 0 && gf_parse_stat(text, (size_t)n, &stat) == 0 && stat.state == wanted)
                        return true;
                (void)sched_yield();
        }
        return false;
}

static void a_locked_memory_map_costs_one_process_only(void **state)
{
        const struct stage *stage = *state;
        const struct gf_refused *refused;
        struct gf_scan scan = { 0 };
        struct gf_facts facts = { 0 };
        struct gf_env env;
        struct kid stuck, other;
        struct gf_ident id;
        pid_t holder;
        int r;

        if (kid_start(&stuck, hold_locked, *state) != 0)
                skip_because("no right to mount FUSE");
        holder = child_of(stuck.pid);
        if (!reaches_state(holder, 'D')) {
                kid_end(&stuck);
                skip_because("this kernel does not hang there");
        }
        assert_int_equal(kid_start(&other, hold_fd, *state), 0);
        scan_for(&stage->dev[0].rdev, 1, 0, &scan);
        /* What was seen before it stuck is kept, and the rest is said to be missing. */
        assert_int_equal(count_hits(&scan, holder, GPUFREE_VIA_FD), 1);
        assert_int_equal(count_hits(&scan, other.pid, GPUFREE_VIA_FD), 1);
        refused = find_refused(&scan, holder);
        if (refused) {
                assert_int_equal(refused->error, ETIMEDOUT);
                assert_int_equal(refused->why, GF_REFUSED_IO);
                assert_string_equal(refused->what, "maps");
                assert_int_equal(refused->uid, geteuid());
        } else {
                print_message("# this kernel reads the map without its lock\n");
        }
        gf_scan_done(&scan);
        /* Nor may the facts of it hang. */
        gf_env_init(&env);
        assert_int_equal(gf_env_defaults(&env), 0);
        id = (struct gf_ident){ .pid = holder, .start_ticks = start_ticks_of(holder) };
        r = gf_facts_read(&env, &id, &facts);
        assert_int_equal(r, 0);
        assert_int_equal(facts.state, 'D');
        gf_facts_done(&facts);
        gf_env_done(&env);
        kid_end(&other);
        kid_end(&stuck);
}

/* ---- names ---- */

static int hold_named(void *arg)
{
        (void)prctl(PR_SET_NAME, ") Z 1 1\n1 (");
        return hold_fd(arg);
}

static void a_hostile_name_does_not_mislead(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        struct gf_facts facts = { 0 };
        struct gf_ident id;
        struct gf_env env;
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_named, *state), 0);
        scan_for(&stage->dev[0].rdev, 1, 0, &scan);
        assert_int_equal(count_hits(&scan, kid.pid, GPUFREE_VIA_FD), 1);
        id = find_hit(&scan, kid.pid, GPUFREE_VIA_FD)->id;
        assert_true(id.start_ticks > 0 && id.start_ticks <= gf_boottime_ticks());
        gf_scan_done(&scan);
        gf_env_init(&env);
        assert_int_equal(gf_env_defaults(&env), 0);
        assert_int_equal(gf_facts_read(&env, &id, &facts), 0);
        assert_string_equal(facts.comm, ") Z 1 1\n1 (");
        assert_int_equal(facts.ppid, getpid());
        assert_int_equal(facts.state, 'S');
        gf_facts_done(&facts);
        gf_env_done(&env);
        kid_end(&kid);
}

/* ---- numbers ---- */

#define MANY_FDS 20000U

/* Twenty thousand, or nearly, where a limit is lower than that and may not be raised. An even number; 0: too few. */
static unsigned many_fds(struct rlimit *ret_limit)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < 5000)
                return 0;
        limit.rlim_cur = limit.rlim_max;
        *ret_limit = limit;
        return limit.rlim_max < MANY_FDS + 200 ? ((unsigned)limit.rlim_max - 200) & ~1U : MANY_FDS;
}

static int hold_many(void *arg)
{
        const struct stage *stage = arg;
        struct rlimit limit;
        unsigned many = many_fds(&limit);

        if (many == 0)
                return EMFILE;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
                return errno;
        for (unsigned i = 0; i < many; i++) {
                int fd = i % 2 ? open("/dev/null", O_RDWR | O_CLOEXEC) : stage_open(stage->dev[1].path);

                if (fd < 0)
                        return EMFILE;
        }
        return hold_fd(arg);
}

static void twenty_thousand_descriptors_are_all_seen(void **state)
{
        const struct stage *stage = *state;
        dev_t both[2] = { stage->dev[0].rdev, stage->dev[1].rdev };
        struct gf_scan scan = { 0 };
        struct rlimit limit;
        size_t n = 0;
        struct kid kid;

        if (kid_start(&kid, hold_many, *state) != 0)
                skip_because("too few descriptors are allowed");
        scan_for(both, 2, kid.pid, &scan);
        for (size_t i = 0; i < scan.hits.n; i++)
                n += scan.hits.v[i].rdev == both[1];
        assert_int_equal(n, many_fds(&limit) / 2);
        assert_int_equal(scan.hits.n, n + 1);
        for (size_t i = 1; i < scan.hits.n; i++)
                assert_true(scan.hits.v[i].fd > scan.hits.v[i - 1].fd);
        gf_scan_done(&scan);
        kid_end(&kid);
}

#define MANY_THREADS 1000

static void *thread_idle(void *arg)
{
        (void)arg;
        kid_sleep();
}

static void *thread_own(void *arg)
{
        if (unshare(CLONE_FILES) < 0)
                kid_say(errno);
        else
                kid_say(hold_fd(arg));
        kid_sleep();
}

static int hold_with_thousand(void *arg)
{
        pthread_attr_t attr;
        pthread_t t;
        int r = hold_fd(arg);

        if (r != 0 || pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, 65536) != 0)
                return r ? r : EIO;
        for (unsigned i = 0; i < MANY_THREADS; i++)
                if (pthread_create(&t, &attr, i == MANY_THREADS - 1 ? thread_own : thread_idle, arg) != 0)
                        return EAGAIN;
        kid_sleep(); /* the last thread says so */
}

static void a_thousand_threads_are_all_seen(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        size_t own = 0;
        struct kid kid;

        if (kid_start(&kid, hold_with_thousand, *state) != 0)
                skip_because("too few threads are allowed");
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_int_equal(scan.threads, MANY_THREADS + 1);
        /* The shared table's, and those in the copy of the last thread: the inherited one and its own. */
        assert_int_equal(scan.hits.n, 3);
        for (size_t i = 0; i < scan.hits.n; i++) /* in whichever order: thread numbers wrap around */
                own += scan.hits.v[i].tid != kid.pid;
        assert_int_equal(own, 2);
        gf_scan_done(&scan);
        kid_end(&kid);
}

/* ---- time ---- */

/* Mapped pages of which no two can be joined: a device's and anonymous ones by turns. */
static int map_many(const struct stage *stage, unsigned n)
{
        int fd = open(stage->zero, O_RDWR | O_CLOEXEC);

        if (fd < 0)
                return errno;
        for (unsigned i = 0; i < n; i++) {
                int flags = MAP_PRIVATE | (i % 2 ? MAP_ANONYMOUS : 0);

                if (mmap(NULL, 4096, i % 4 < 2 ? PROT_READ : PROT_READ | PROT_WRITE, flags, i % 2 ? -1 : fd, 0) ==
                    MAP_FAILED)
                        return errno;
        }
        return close(fd) < 0 ? errno : 0;
}

static int hold_few_maps(void *arg)
{
        return map_many(arg, 15000);
}

static int hold_many_maps(void *arg)
{
        return map_many(arg, 60000);
}

static uint64_t processor_us(void)
{
        struct rusage u;

        assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
        return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
               (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Processor time, the best of three: what others do on the machine is no part of it. 0: this cannot be made here. */
static uint64_t scan_cost(const struct stage *stage, int (*hold)(void *arg), size_t least)
{
        dev_t zero = stage->zero_rdev;
        uint64_t best = UINT64_MAX;
        struct kid kid;
        void *arg = (void *)(uintptr_t)stage;

        if (kid_start(&kid, hold, arg) != 0)
                return 0;
        for (unsigned i = 0; i < 3; i++) {
                struct gf_scan scan = { 0 };
                uint64_t begin = processor_us(), cost;

                scan_for(&zero, 1, kid.pid, &scan);
                cost = processor_us() - begin;
                best = cost < best ? cost : best;
                assert_true(count_hits(&scan, kid.pid, GPUFREE_VIA_MAP) >= least);
                assert_int_equal(scan.refused.n, 0);
                gf_scan_done(&scan);
        }
        kid_end(&kid);
        return best;
}

static void sixty_thousand_mappings_cost_in_proportion(void **state)
{
        uint64_t few = scan_cost(*state, hold_few_maps, 7500), many = scan_cost(*state, hold_many_maps, 30000);

        if (few == 0 || many == 0)
                skip_because("too few mappings are allowed");
        print_message("# 15,000 mappings: %lu us, 60,000: %lu us\n", (unsigned long)few, (unsigned long)many);
        /* Four times as many; were the time quadratic, it would be sixteen times. */
        assert_true(many < 10 * few + 20000);
}

/* ---- processes that come and go ---- */

#define CHAINS 4
#define LIVES 2000 /* of a chain: it ends by itself */
#define CHAIN_SCANS 100

/* Holds, forks a successor every few ms, exits: until the other end of `stop` is closed, or its lives are used up. */
static void run_chain(int stop, unsigned lives)
{
        for (; lives > 0; lives--) {
                struct pollfd p = { .fd = stop, .events = POLLIN };

                if (poll(&p, 1, 3) != 0)
                        _exit(0);
                if (fork() != 0)
                        _exit(0);
        }
        _exit(0);
}

static bool start_chains(const struct stage *stage, int stop[2])
{
        for (unsigned i = 0; i < CHAINS; i++) {
                pid_t pid = fork();

                if (pid < 0)
                        return false;
                if (pid == 0) {
                        (void)close(stop[1]);
                        if (stage_open(stage->dev[0].path) < 0)
                                _exit(1);
                        run_chain(stop[0], LIVES);
                }
        }
        return true;
}

/* 0, or what was wrong. */
static int scan_chains(const struct stage *stage, unsigned *met)
{
        struct gf_scan scan = { 0 };
        int wrong = 0;

        scan_for(&stage->dev[0].rdev, 1, 0, &scan);
        for (size_t k = 0; k < scan.refused.n; k++)
                if (scan.refused.v[k].error == ESRCH || scan.refused.v[k].error == ENOENT)
                        wrong = 101;
        for (size_t k = 1; k < scan.hits.n; k++) /* one process is not two */
                if (scan.hits.v[k].id.pid == scan.hits.v[k - 1].id.pid &&
                    scan.hits.v[k].id.start_ticks != scan.hits.v[k - 1].id.start_ticks)
                        wrong = 102;
        *met += scan.hits.n > 0;
        gf_scan_done(&scan);
        return wrong;
}

/*
 * As the first process of a PID namespace with a /proc of its own: nobody else's processes make it slow, and whatever
 * goes wrong, the chains end with it.
 */
static int chains_in_namespace(const struct stage *stage)
{
        unsigned met = 0;
        int stop[2], wrong = 0;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("proc", "/proc", "proc", 0, NULL) < 0)
                return 77;
        /* Those that exit become ours, and vanish without being waited for. */
        if (signal(SIGCHLD, SIG_IGN) == SIG_ERR || pipe2(stop, O_CLOEXEC) < 0 || !start_chains(stage, stop))
                return 100;
        for (unsigned i = 0; i < CHAIN_SCANS && wrong == 0; i++)
                wrong = scan_chains(stage, &met);
        print_message("# %u of %u scans met a holder\n", met, CHAIN_SCANS);
        /* Four chains: a scan that sees none of them is possible, a hundred of them are not. */
        return wrong ? wrong : met > CHAIN_SCANS / 2 ? 0 : 103;
}

static void forking_and_exiting_is_no_refusal(void **state)
{
        pid_t pid = fork(), inner;
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
                        _exit(77);
                (void)fflush(NULL);
                inner = fork();
                if (inner == 0) {
                        int r = chains_in_namespace(*state);

                        (void)fflush(NULL);
                        _exit(r);
                }
                if (inner < 0 || waitpid(inner, &status, 0) != inner)
                        _exit(104);
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 105);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip_because("no right to a PID namespace and a /proc of its own");
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void zombies_are_neither_holders_nor_refused(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        siginfo_t info;
        pid_t pid = fork();

        if (pid == 0)
                _exit(hold_fd(*state));
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        scan_for(&stage->dev[0].rdev, 1, pid, &scan);
        assert_int_equal(scan.hits.n, 0);
        assert_int_equal(scan.refused.n, 0);
        gf_scan_done(&scan);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        scan_for(&stage->dev[0].rdev, 1, pid, &scan);
        assert_int_equal(scan.vanished, 1);
        assert_int_equal(scan.processes, 0);
        assert_int_equal(scan.refused.n, 0);
        gf_scan_done(&scan);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(a_hung_file_system_does_not_stop_it, kids_end),
                cmocka_unit_test_teardown(a_locked_memory_map_costs_one_process_only, kids_end),
                cmocka_unit_test_teardown(a_hostile_name_does_not_mislead, kids_end),
                cmocka_unit_test_teardown(twenty_thousand_descriptors_are_all_seen, kids_end),
                cmocka_unit_test_teardown(a_thousand_threads_are_all_seen, kids_end),
                cmocka_unit_test_teardown(sixty_thousand_mappings_cost_in_proportion, kids_end),
                cmocka_unit_test_teardown(forking_and_exiting_is_no_refusal, kids_end),
                cmocka_unit_test_teardown(zombies_are_neither_holders_nor_refused, kids_end),
        };

        return cmocka_run_group_tests(tests, stage_setup, stage_teardown);
}

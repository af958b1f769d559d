/* SPDX-License-Identifier: MIT */
/* The BPF scanner against real processes. Skipped with the reason where BPF cannot be loaded. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "bpf_check.h"
#include "bpf_shapes.h"
#include "scan/scan.h"
#include "sys/clock.h"

static struct holder holders[SHAPES];
static dev_t block_dev;

/* What a shape must be found as: bits of gpufree_via, and how often. */
static const struct {
        unsigned via;
        size_t count;
} expected[SHAPES] = {
        [SHAPE_FD] = { GPUFREE_VIA_FD, 1 },
        [SHAPE_MAP] = { GPUFREE_VIA_MAP, 1 },
        [SHAPE_OWN_NODE] = { GPUFREE_VIA_FD, 1 },
        [SHAPE_UNLINKED] = { GPUFREE_VIA_FD, 1 },
        [SHAPE_THREAD_TABLE] = { GPUFREE_VIA_FD, 1 },
        [SHAPE_ZOMBIE_FD] = { GPUFREE_VIA_FD, 1 },
        [SHAPE_ZOMBIE_MAP] = { GPUFREE_VIA_MAP, 1 },
        [SHAPE_PIDNS] = { GPUFREE_VIA_FD, 1 },
        [SHAPE_SCM] = { GPUFREE_VIA_SCM, 1 },
        [SHAPE_SCM_BACKLOG] = { GPUFREE_VIA_SCM, 1 },
        [SHAPE_SCM_NESTED] = { GPUFREE_VIA_SCM, 1 },
        [SHAPE_URING] = { GPUFREE_VIA_IO_URING, 1 },
        [SHAPE_URING_MAPPED] = { GPUFREE_VIA_IO_URING, 1 },
        [SHAPE_BLOCK] = { GPUFREE_VIA_FD, 1 },
        [SHAPE_HIGH_FD] = { GPUFREE_VIA_FD, 1 },
        [SHAPE_MANY_MAPS] = { GPUFREE_VIA_MAP, 1 },
        [SHAPE_MANY_THREADS] = { GPUFREE_VIA_FD, 1 },
        [SHAPE_SWAPPED] = { GPUFREE_VIA_FD | GPUFREE_VIA_MAP, 3 },
        [SHAPE_MANY_FDS] = { GPUFREE_VIA_FD | GPUFREE_VIA_SCM, 401 },
};

struct look {
        struct gf_env env;
        struct gf_wanted wanted;
        struct gf_scan scan;
        dev_t chr[2], blk[1];
        char *reason;
};

static int look_setup(void **state)
{
        struct look *look = calloc(1, sizeof(*look));

        assert_non_null(look);
        gf_env_init(&look->env);
        assert_return_code(gf_env_defaults(&look->env), 0);
        look->chr[0] = makedev(1, 5);
        look->chr[1] = makedev(1, 7);
        look->blk[0] = block_dev;
        look->wanted = (struct gf_wanted){
                .chr = look->chr, .n_chr = 2, .blk = look->blk, .n_blk = block_dev ? 1 : 0, .dmabufs = true
        };
        *state = look;
        return 0;
}

static int look_teardown(void **state)
{
        struct look *look = *state;

        gf_scan_done(&look->scan);
        gf_env_done(&look->env);
        free(look->reason);
        free(look);
        return 0;
}

static void scan_now(struct look *look)
{
        int r;

        gf_scan_done(&look->scan);
        r = gf_scan_bpf(&look->env, &look->wanted, &look->scan, &look->reason);
        if (r < 0)
                print_message("# %s\n", look->reason ? look->reason : strerror(-r));
        assert_return_code(r, -r);
        assert_int_equal(look->scan.method, GPUFREE_SCAN_BPF);
        assert_int_equal(look->scan.refused.n, 0);
}

static void hits_of(const struct gf_scan *scan, pid_t pid, unsigned *ret_via, size_t *ret_count)
{
        *ret_via = 0;
        *ret_count = 0;
        for (size_t i = 0; i < scan->hits.n; i++)
                if (scan->hits.v[i].id.pid == pid) {
                        *ret_via |= (unsigned)scan->hits.v[i].via;
                        (*ret_count)++;
                }
}

static void test_every_shape_is_found(void **state)
{
        struct look *look = *state;

        scan_now(look);
        for (enum shape s = 0; s < SHAPES; s++) {
                unsigned via;
                size_t count;

                if (holders[s].skipped)
                        continue;
                hits_of(&look->scan, holders[s].pid, &via, &count);
                if (via != expected[s].via || count != expected[s].count)
                        print_message("# %s: via %u, %zu times\n", shape_name(s), via, count);
                assert_int_equal(via, expected[s].via);
                assert_int_equal(count, expected[s].count);
        }
}

static void test_our_child_is_not_taken_for_its_child(void **state)
{
        struct look *look = *state;
        unsigned via;
        size_t count;

        scan_now(look);
        if (holders[SHAPE_PIDNS].skipped)
                return;
        hits_of(&look->scan, holders[SHAPE_PIDNS].child, &via, &count);
        assert_int_equal(count, 0);
        hits_of(&look->scan, getpid(), &via, &count);
        assert_int_equal(count, 0);
}

static void test_identity_is_that_of_proc(void **state)
{
        struct look *look = *state;

        scan_now(look);
        for (size_t i = 0; i < look->scan.hits.n; i++) {
                const struct gf_hit *hit = &look->scan.hits.v[i];
                uint64_t ticks;

                if (check_start_ticks(hit->id.pid, &ticks) == 0)
                        assert_int_equal(hit->id.start_ticks, ticks);
        }
}

/* Each hit by descriptor or mapping is in /proc, and nothing that /proc shows of these processes is missing. */
static void test_same_answer_as_proc(void **state)
{
        struct look *look = *state;

        scan_now(look);
        for (enum shape s = 0; s < SHAPES; s++) {
                size_t by_proc, by_bpf = 0;

                if (holders[s].skipped)
                        continue;
                by_proc = check_count(holders[s].pid, look->chr, 2, block_dev);
                for (size_t i = 0; i < look->scan.hits.n; i++) {
                        const struct gf_hit *hit = &look->scan.hits.v[i];

                        by_bpf += hit->id.pid == holders[s].pid &&
                                  (hit->via == GPUFREE_VIA_FD || hit->via == GPUFREE_VIA_MAP);
                }
                if (by_proc != by_bpf)
                        print_message("# %s: /proc %zu, BPF %zu\n", shape_name(s), by_proc, by_bpf);
                assert_int_equal(by_proc, by_bpf);
        }
}

static const struct gf_hit *hit_of(const struct look *look, enum shape shape)
{
        static const struct gf_hit none;

        for (size_t i = 0; i < look->scan.hits.n; i++)
                if (look->scan.hits.v[i].id.pid == holders[shape].pid)
                        return &look->scan.hits.v[i];
        return &none;
}

static void test_evidence(void **state)
{
        struct look *look = *state;
        const struct gf_hit *hit;
        struct stat full, zero;

        scan_now(look);
        assert_return_code(stat("/dev/full", &full), errno);
        assert_return_code(stat("/dev/zero", &zero), errno);
        hit = hit_of(look, SHAPE_FD);
        assert_true(hit->node_dev == full.st_dev && hit->node_ino == full.st_ino && !hit->unlinked && !hit->block);
        assert_true(hit->rdev == full.st_rdev && hit->fd >= 0 && hit->bytes == GPUFREE_UNKNOWN);
        hit = hit_of(look, SHAPE_MAP);
        assert_true(hit->node_dev == zero.st_dev && hit->node_ino == zero.st_ino && hit->fd == -1);
        assert_int_equal(hit_of(look, SHAPE_HIGH_FD)->fd, 900);
        assert_true(hit_of(look, SHAPE_ZOMBIE_FD)->tid != holders[SHAPE_ZOMBIE_FD].pid);
        assert_true(hit_of(look, SHAPE_MANY_THREADS)->tid == holders[SHAPE_MANY_THREADS].pid);
        assert_true(hit_of(look, SHAPE_SCM)->rdev == full.st_rdev);
        if (!holders[SHAPE_UNLINKED].skipped)
                assert_true(hit_of(look, SHAPE_UNLINKED)->unlinked);
        if (!holders[SHAPE_OWN_NODE].skipped)
                assert_true(hit_of(look, SHAPE_OWN_NODE)->node_ino != full.st_ino);
        if (!holders[SHAPE_BLOCK].skipped)
                assert_true(hit_of(look, SHAPE_BLOCK)->block && hit_of(look, SHAPE_BLOCK)->rdev == block_dev);
}

static void test_only_and_skip_are_honoured(void **state)
{
        struct look *look = *state;
        pid_t a = holders[SHAPE_FD].pid, b = holders[SHAPE_MAP].pid, only[2] = { a < b ? a : b, a < b ? b : a };
        unsigned via;
        size_t count;

        look->wanted.only = only;
        look->wanted.n_only = 2;
        scan_now(look);
        assert_int_equal(look->scan.hits.n, 2);
        assert_int_equal(look->scan.processes, 2);
        look->wanted.skip = &b;
        look->wanted.n_skip = 1;
        scan_now(look);
        assert_int_equal(look->scan.hits.n, 1);
        assert_int_equal(look->scan.hits.v[0].id.pid, a);
        look->wanted.only = NULL;
        look->wanted.n_only = 0;
        scan_now(look);
        hits_of(&look->scan, a, &via, &count);
        assert_int_equal(count, 1);
        hits_of(&look->scan, b, &via, &count);
        assert_int_equal(count, 0);
}

/* Others come and go on this machine: until a moment when nobody did. */
static void test_counts_processes_and_threads(void **state)
{
        struct look *look = *state;
        uint64_t deadline = gf_deadline_in(30000);
        size_t before, after;

        do {
                before = check_processes();
                scan_now(look);
                after = check_processes();
        } while ((before != after || look->scan.processes != before) && gf_deadline_left(deadline) > 0);
        assert_int_equal(before, after);
        assert_int_equal(look->scan.processes, before);
        assert_true(look->scan.threads >= look->scan.processes + 200);
}

static void test_hits_are_sorted_and_single(void **state)
{
        struct look *look = *state;

        scan_now(look);
        for (size_t i = 1; i < look->scan.hits.n; i++) {
                const struct gf_hit *a = &look->scan.hits.v[i - 1], *b = &look->scan.hits.v[i];

                assert_true(a->id.pid < b->id.pid ||
                            (a->id.pid == b->id.pid &&
                             (a->tid < b->tid || (a->tid == b->tid && (a->via < b->via || a->fd <= b->fd)))));
        }
}

static void test_cancelled(void **state)
{
        struct look *look = *state;
        int fd = eventfd(1, EFD_CLOEXEC);

        scan_now(look);
        assert_return_code(fd, errno);
        look->env.cancel_fd = fd;
        gf_scan_done(&look->scan);
        assert_int_equal(gf_scan_bpf(&look->env, &look->wanted, &look->scan, &look->reason), -ECANCELED);
        assert_return_code(close(fd), errno);
}

static void test_no_wanted_device_is_no_hit(void **state)
{
        struct look *look = *state;

        look->wanted = (struct gf_wanted){ .dmabufs = true };
        scan_now(look);
        for (size_t i = 0; i < look->scan.hits.n; i++)
                assert_int_equal(look->scan.hits.v[i].via, GPUFREE_VIA_DMABUF);
}

/* In a child that gave something up: BPF must say why not. 0 as it should be. */
static int refused_in_child(struct look *look, bool (*give_up)(void), const char *word)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                pid_t inner;

                if (!give_up())
                        _exit(77);
                inner = fork();
                if (inner == 0) {
                        struct gf_scan scan = { 0 };
                        int r = gf_scan_bpf(&look->env, &look->wanted, &scan, &look->reason);

                        if (r != -EOPNOTSUPP || !look->reason || !strstr(look->reason, word)) {
                                fprintf(stderr, "# %d %s\n", r, look->reason ? look->reason : "no reason");
                                _exit(1);
                        }
                        _exit(0);
                }
                if (waitpid(inner, &status, 0) != inner)
                        _exit(2);
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
        }
        assert_return_code(pid, errno);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static bool to_nobody(void)
{
        /* Afterwards /proc/self is still readable only for a process that may be dumped. */
        return setgid(65534) == 0 && setuid(65534) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0;
}

static bool to_user_namespace(void)
{
        return unshare(CLONE_NEWUSER) == 0;
}

static bool to_pid_namespace(void)
{
        return unshare(CLONE_NEWPID) == 0;
}

static void test_says_why_not(void **state)
{
        struct look *look = *state;
        int r;

        scan_now(look);
        r = refused_in_child(look, to_nobody, "CAP_BPF");
        assert_true(r == 0 || r == 77);
        r = refused_in_child(look, to_user_namespace, "CAP_BPF");
        assert_true(r == 0 || r == 77);
        /* The /proc mounted here is that of the parent namespace: it shows more than BPF would. */
        r = refused_in_child(look, to_pid_namespace, "PID namespace");
        assert_true(r == 0 || r == 77);
}

static void test_foreign_proc_is_refused(void **state)
{
        struct look *look = *state;

        free(look->env.proc_root);
        look->env.proc_root = strdup("/tmp");
        assert_int_equal(gf_scan_bpf(&look->env, &look->wanted, &look->scan, &look->reason), -EOPNOTSUPP);
        assert_non_null(look->reason);
}

static int start_all(_unused_ void **state)
{
        struct stat st;
        char path[64];

        for (enum shape s = 0; s < SHAPES; s++)
                holder_start(&holders[s], s);
        for (int fd = 0; !holders[SHAPE_BLOCK].skipped && fd < 64; fd++) {
                (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", holders[SHAPE_BLOCK].pid, fd);
                if (stat(path, &st) == 0 && S_ISBLK(st.st_mode))
                        block_dev = st.st_rdev;
        }
        return 0;
}

static int stop_all(_unused_ void **state)
{
        for (enum shape s = 0; s < SHAPES; s++)
                holder_stop(&holders[s]);
        return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, look_setup, look_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_every_shape_is_found),
                TEST(test_our_child_is_not_taken_for_its_child),
                TEST(test_identity_is_that_of_proc),
                TEST(test_same_answer_as_proc),
                TEST(test_evidence),
                TEST(test_only_and_skip_are_honoured),
                TEST(test_counts_processes_and_threads),
                TEST(test_hits_are_sorted_and_single),
                TEST(test_cancelled),
                TEST(test_no_wanted_device_is_no_hit),
                TEST(test_says_why_not),
                TEST(test_foreign_proc_is_refused),
        };

        if (!bpf_works())
                return 0;
        return cmocka_run_group_tests(tests, start_all, stop_all);
}

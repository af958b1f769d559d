/* SPDX-License-Identifier: MIT */
/*
 * The BPF scanner in a crowd that forks, opens, maps and exits all the time: descriptor tables and address spaces are
 * freed and used again under its eyes. What stays must be found each time; who never had the device must never be
 * named. And the two variants of the programs must agree.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "bpf_shapes.h"
#include "scan/scan.h"
#ifdef HAVE_BPF
#include "scan/bpf_scan.h"
#endif

#define CROWD 3 /* of either kind */
#define SCANS 30
#define PIDS (1U << 22)

enum {
        HELD = 1,      /* a process with this PID had the device */
        NEVER_HAD = 2, /* a process with this PID never had it */
};

static unsigned char *marks; /* by PID, shared */
static unsigned *lives;      /* of the crowd, shared */
static pid_t crowd[2 * CROWD];
static struct holder steady[4];
static struct gf_env env;
static dev_t wanted_chr[2]; /* /dev/zero, /dev/full */
static const struct gf_wanted wanted = { .chr = wanted_chr, .n_chr = 2, .dmabufs = true };

static void one_life(bool holds)
{
        int fd, turns = 20;
        void *p;

        __atomic_or_fetch(&marks[(unsigned)getpid() % PIDS], holds ? HELD : NEVER_HAD, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(lives, 1, __ATOMIC_SEQ_CST);
        /* Half of them also keep one open for their whole, longer life. */
        if (getpid() % 2 == 0) {
                if (open(holds ? "/dev/full" : "/dev/null", O_WRONLY | O_CLOEXEC) < 0)
                        _exit(1);
                turns = 2000;
        }
        for (int i = 0; i < turns; i++) {
                fd = open(holds ? "/dev/full" : "/dev/null", O_WRONLY | O_CLOEXEC);
                if (fd < 0)
                        _exit(1);
                if (i % 3 == 0)
                        (void)dup2(fd, 40 + i % 40);
                (void)close(fd);
                fd = open(holds ? "/dev/zero" : "/etc/passwd", O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        _exit(1);
                p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
                (void)close(fd);
                if (p != MAP_FAILED && i % 8 != 0)
                        (void)munmap(p, 4096);
        }
        _exit(0);
}

/* Forks short lives, one after the other, until it is killed. */
static pid_t start_crowd(bool holds)
{
        pid_t parent = getpid(), pid = fork();

        assert_return_code(pid, errno);
        if (pid > 0)
                return pid;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        __atomic_or_fetch(&marks[(unsigned)getpid() % PIDS], NEVER_HAD, __ATOMIC_SEQ_CST);
        for (;;) {
                pid = fork();
                if (pid == 0)
                        one_life(holds);
                if (pid < 0)
                        (void)sched_yield(); /* the machine has no PID left for a moment */
                else if (waitpid(pid, NULL, 0) < 0)
                        _exit(1);
        }
}

static int start(_unused_ void **state)
{
        static const enum shape shapes[] = { SHAPE_FD, SHAPE_MAP, SHAPE_SCM, SHAPE_ZOMBIE_MAP };

        gf_env_init(&env);
        assert_return_code(gf_env_defaults(&env), 0);
        wanted_chr[0] = makedev(1, 5);
        wanted_chr[1] = makedev(1, 7);
        marks = mmap(NULL, PIDS + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(marks != MAP_FAILED);
        lives = (unsigned *)(void *)(marks + PIDS);
        for (size_t i = 0; i < ELEMENTSOF(steady); i++)
                holder_start(&steady[i], shapes[i]);
        for (size_t i = 0; i < ELEMENTSOF(crowd); i++)
                crowd[i] = start_crowd(i % 2 == 0);
        return 0;
}

static int stop(_unused_ void **state)
{
        for (size_t i = 0; i < ELEMENTSOF(crowd); i++) {
                (void)kill(crowd[i], SIGKILL);
                (void)waitpid(crowd[i], NULL, 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(steady); i++)
                holder_stop(&steady[i]);
        (void)munmap(marks, PIDS + 4096);
        gf_env_done(&env);
        return 0;
}

static void scan_now(struct gf_scan *scan)
{
        _cleanup_free_ char *reason = NULL;
        int r = gf_scan_bpf(&env, &wanted, scan, &reason);

        if (r < 0)
                print_message("# %s\n", reason ? reason : strerror(-r));
        assert_return_code(r, -r);
}

static size_t hits_of(const struct gf_scan *scan, pid_t pid)
{
        size_t n = 0;

        for (size_t i = 0; i < scan->hits.n; i++)
                n += scan->hits.v[i].id.pid == pid;
        return n;
}

/* By /proc: the same, but that what waits in a socket is only said to wait there. */
static void check_by_proc(void)
{
        _cleanup_(gf_scan_done) struct gf_scan scan = { 0 };

        assert_return_code(gf_scan_proc(&env, &wanted, &scan), 0);
        for (size_t i = 0; i < ELEMENTSOF(steady); i++)
                if (steady[i].shape != SHAPE_SCM) {
                        assert_int_equal(hits_of(&scan, steady[i].pid), 1);
                } else {
                        size_t said = 0;

                        for (size_t k = 0; k < scan.opaque.n; k++)
                                said += scan.opaque.v[k] == steady[i].pid;
                        assert_int_equal(said, 1);
                }
        for (size_t i = 0; i < scan.hits.n; i++)
                assert_int_not_equal(__atomic_load_n(&marks[(unsigned)scan.hits.v[i].id.pid % PIDS], __ATOMIC_SEQ_CST),
                                     NEVER_HAD);
}

static void test_crowd(_unused_ void **state)
{
        size_t crowd_hits = 0, vanished = 0;

        for (int n = 0; n < SCANS; n++) {
                _cleanup_(gf_scan_done) struct gf_scan scan = { 0 };

                scan_now(&scan);
                for (size_t i = 0; i < ELEMENTSOF(steady); i++)
                        assert_int_equal(hits_of(&scan, steady[i].pid), 1);
                for (size_t i = 0; i < scan.hits.n; i++) {
                        pid_t pid = scan.hits.v[i].id.pid;
                        int mark = __atomic_load_n(&marks[(unsigned)pid % PIDS], __ATOMIC_SEQ_CST);

                        assert_int_not_equal(mark, NEVER_HAD);
                        crowd_hits += mark == HELD;
                }
                vanished += scan.vanished;
                if (n % 6 == 0)
                        check_by_proc();
        }
        if (__atomic_load_n(lives, __ATOMIC_SEQ_CST) >= 1000) /* not on a machine that had no PID left */
                assert_true(crowd_hits > 0);
        print_message("# %zu hits in the crowd of %u, %zu vanished\n", crowd_hits, *lives, vanished);
}

#ifdef HAVE_BPF
static void pass(enum gf_bpf_variant variant, gf_bpf_records *records)
{
        _cleanup_(gf_bpf_freep) struct gf_bpf *bpf = NULL;
        pid_t pids[ELEMENTSOF(steady)];
        struct gf_wanted few = wanted;
        int r;

        for (size_t i = 0; i < ELEMENTSOF(steady); i++)
                pids[i] = steady[i].pid; /* started one after the other; PIDs may have wrapped, the scanner sorts */
        few.only = pids;
        few.n_only = ELEMENTSOF(pids);
        r = gf_bpf_open(variant, &few, &bpf);
        assert_return_code(r, -r);
        r = gf_bpf_pass(bpf, -1, NULL, 0, records);
        assert_return_code(r, -r);
        gf_bpf_sort(records);
}

static void test_variants_agree(_unused_ void **state)
{
        _cleanup_(gf_scan_done) struct gf_scan scan = { 0 };
        gf_bpf_records fast = { 0 }, vma = { 0 };

        scan_now(&scan);
        pass(GF_BPF_VARIANT_FAST, &fast);
        pass(GF_BPF_VARIANT_VMA, &vma);
        assert_int_equal(fast.n, ELEMENTSOF(steady));
        assert_int_equal(vma.n, fast.n);
        for (size_t i = 0; i < fast.n; i++)
                assert_int_equal(gf_bpf_compare(&fast.v[i], &vma.v[i]), 0);
        gf_vec_done(&fast);
        gf_vec_done(&vma);
}
#endif

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_crowd),
#ifdef HAVE_BPF
                cmocka_unit_test(test_variants_agree),
#endif
        };

        if (!bpf_works())
                return 0;
        return cmocka_run_group_tests(tests, start, stop);
}

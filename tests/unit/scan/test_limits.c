/* SPDX-License-Identifier: MIT */
/* What a scan promises to its caller: errors, limits, completeness, nothing left behind. */
#include "help.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "parse/process.h"
#include "scan/scan.h"
#include "sys/procfs.h"

static int hold_fd(void *arg)
{
        const struct stage *stage = arg;
        int fd = stage_open(stage->dev[0].path);

        return fd < 0 ? -fd : 0;
}

static void env_make(struct gf_env *env)
{
        gf_env_init(env);
        assert_int_equal(gf_env_defaults(env), 0);
}

static void only_and_skip_are_obeyed(void **state)
{
        const struct stage *stage = *state;
        struct gf_wanted wanted = { .chr = &stage->dev[0].rdev, .n_chr = 1 };
        struct gf_scan scan = { 0 };
        struct gf_env env;
        struct kid a, b;
        pid_t both[2];

        env_make(&env);
        assert_int_equal(kid_start(&a, hold_fd, *state), 0);
        assert_int_equal(kid_start(&b, hold_fd, *state), 0);
        wanted.only = &a.pid;
        wanted.n_only = 1;
        assert_int_equal(gf_scan_proc(&env, &wanted, &scan), 0);
        assert_int_equal(scan.hits.n, 1);
        assert_int_equal(scan.processes, 1);
        gf_scan_done(&scan);
        wanted.only = NULL;
        wanted.n_only = 0;
        wanted.skip = &a.pid;
        wanted.n_skip = 1;
        assert_int_equal(gf_scan_proc(&env, &wanted, &scan), 0);
        assert_int_equal(count_hits(&scan, a.pid, ~0U), 0);
        assert_int_equal(count_hits(&scan, b.pid, ~0U), 1);
        gf_scan_done(&scan);
        both[0] = a.pid < b.pid ? a.pid : b.pid;
        both[1] = a.pid < b.pid ? b.pid : a.pid;
        wanted.only = both;
        wanted.n_only = 2;
        assert_int_equal(gf_scan_proc(&env, &wanted, &scan), 0);
        assert_int_equal(scan.hits.n, 1);
        assert_int_equal(count_hits(&scan, b.pid, ~0U), 1);
        gf_scan_done(&scan);
        wanted.n_only = 0; /* an empty list is "nobody", not "everybody" */
        assert_int_equal(gf_scan_proc(&env, &wanted, &scan), 0);
        assert_int_equal(scan.processes, 0);
        gf_scan_done(&scan);
        kid_end(&a);
        kid_end(&b);
        gf_env_done(&env);
}

static void a_readable_cancel_fd_ends_it(void **state)
{
        const struct stage *stage = *state;
        struct gf_wanted wanted = { .chr = &stage->dev[0].rdev, .n_chr = 1 };
        struct gf_scan scan = { .processes = 4711 };
        struct gf_env env;
        int p[2];

        env_make(&env);
        assert_int_equal(pipe2(p, O_CLOEXEC), 0);
        env.cancel_fd = p[0];
        assert_int_equal(gf_scan_proc(&env, &wanted, &scan), 0); /* not readable yet */
        gf_scan_done(&scan);
        scan.processes = 4711;
        assert_int_equal(write(p[1], "x", 1), 1);
        assert_int_equal(gf_scan_proc(&env, &wanted, &scan), -ECANCELED);
        assert_non_null(env.error);
        assert_int_equal(scan.processes, 4711); /* untouched */
        env.scan_method = GPUFREE_SCAN_PROC;
        assert_int_equal(gf_scan_run(&env, &wanted, &scan), -ECANCELED);
        (void)close(p[0]);
        (void)close(p[1]);
        gf_env_done(&env);
}

static void without_proc_it_fails_with_a_sentence(void **state)
{
        const struct stage *stage = *state;
        const char *roots[] = { "/nonexistent/proc", "/dev/null", stage->dir };
        struct gf_wanted wanted = { .chr = &stage->dev[0].rdev, .n_chr = 1 };
        struct gf_scan scan = { .processes = 4711 };
        struct gf_env env;

        for (size_t i = 0; i < ELEMENTSOF(roots); i++) {
                env_make(&env);
                assert_int_equal(gf_strset(&env.proc_root, roots[i]), 0);
                assert_int_equal(gf_scan_proc(&env, &wanted, &scan), -ENOENT);
                assert_non_null(env.error);
                assert_non_null(strstr(env.error, roots[i]));
                assert_int_equal(scan.processes, 4711);
                gf_env_done(&env);
        }
}

/* A child PID namespace with its own /proc, seen from outside: there is no `self` for us in it. */
static int mount_inner_proc(void *arg)
{
        const struct stage *stage = arg;
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/proc", stage->dir);
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
                return errno;
        (void)mkdir(path, 0755);
        if (fork() == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("proc", path, "proc", 0, NULL) < 0)
                        kid_say(errno);
                else
                        kid_say(0);
                kid_sleep();
        }
        kid_sleep();
}

static void a_proc_of_another_namespace_is_refused(void **state)
{
        const struct stage *stage = *state;
        struct gf_wanted wanted = { .chr = &stage->dev[0].rdev, .n_chr = 1 };
        struct gf_scan scan = { 0 };
        char path[256], text[64];
        struct gf_env env;
        struct kid kid;
        ssize_t n;
        pid_t inner = 0;

        if (kid_start(&kid, mount_inner_proc, *state) != 0)
                skip_because("no right to make namespaces");
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", kid.pid, kid.pid);
        n = gf_read_head(AT_FDCWD, path, text, sizeof(text) - 1);
        assert_true(n > 0);
        text[n] = '\0';
        assert_int_equal(sscanf(text, "%d", &inner), 1);
        (void)snprintf(path, sizeof(path), "/proc/%d/root%s/proc", inner, stage->dir);
        env_make(&env);
        assert_int_equal(gf_strset(&env.proc_root, path), 0);
        assert_int_equal(gf_scan_proc(&env, &wanted, &scan), -ENOENT);
        assert_non_null(strstr(env.error, "namespace"));
        gf_env_done(&env);
        kid_end(&kid);
        (void)snprintf(path, sizeof(path), "%s/proc", stage->dir);
        (void)rmdir(path);
}

static void the_method_is_said(void **state)
{
        const struct stage *stage = *state;
        struct gf_wanted wanted = { .chr = &stage->dev[0].rdev, .n_chr = 1 };
        struct gf_scan scan = { 0 };
        struct gf_env env;
        int r;

        env_make(&env);
        assert_int_equal(gf_scan_run(&env, &wanted, &scan), 0);
        if (scan.method == GPUFREE_SCAN_PROC)
                assert_non_null(scan.method_reason); /* why not BPF */
        else
                assert_int_equal(scan.method, GPUFREE_SCAN_BPF);
        gf_scan_done(&scan);
        env.scan_method = GPUFREE_SCAN_PROC;
        assert_int_equal(gf_scan_run(&env, &wanted, &scan), 0);
        assert_int_equal(scan.method, GPUFREE_SCAN_PROC);
        assert_null(scan.method_reason);
        gf_scan_done(&scan);
        env.scan_method = GPUFREE_SCAN_BPF;
        r = gf_scan_run(&env, &wanted, &scan);
        if (r == 0) {
                assert_int_equal(scan.method, GPUFREE_SCAN_BPF);
                gf_scan_done(&scan);
        } else {
                assert_int_equal(r, -EOPNOTSUPP);
                assert_non_null(env.error);
        }
        gf_env_done(&env);
}

/* ---- as an ordinary user ---- */

static int hold_fd_and_map(void *arg)
{
        const struct stage *stage = arg;
        int fd = open("/dev/zero", O_RDWR | O_CLOEXEC), r = become_nobody();

        if (r != 0)
                return r;
        if (fd < 0 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
                return errno;
        (void)close(fd);
        fd = stage_open(stage->dev[0].path);
        return fd < 0 ? -fd : 0;
}

struct asked {
        const struct stage *stage;
        pid_t own, foreign;
};

/* In a kid: 0, or which expectation failed. */
static int scan_as_nobody(void *arg)
{
        const struct asked *asked = arg;
        dev_t both[2] = { asked->stage->zero_rdev, asked->stage->dev[0].rdev };
        struct gf_scan scan = { 0 };
        const struct gf_refused *refused;

        if (become_nobody() != 0)
                return 100;
        scan_for(both, 2, 0, &scan);
        if (count_hits(&scan, asked->own, GPUFREE_VIA_FD) != 1)
                return 101;
        if (count_hits(&scan, asked->own, GPUFREE_VIA_MAP) != 1)
                return 102;
        if (find_refused(&scan, asked->own))
                return 103;
        refused = find_refused(&scan, asked->foreign);
        if (!refused || refused->why != GF_REFUSED_PERMISSION || refused->uid != 0 || refused->error != EACCES)
                return 104;
        if (count_hits(&scan, asked->foreign, ~0U) != 0)
                return 105;
        for (size_t i = 0; i < scan.refused.n; i++) {
                char path[64], text[GF_STAT_MAX];
                struct gf_stat stat;
                ssize_t n;

                (void)snprintf(path, sizeof(path), "/proc/%d/stat", scan.refused.v[i].pid);
                n = gf_read_head(AT_FDCWD, path, text, sizeof(text));
                if (n > 0 && gf_parse_stat(text, (size_t)n, &stat) == 0 && gf_stat_kernel_thread(&stat))
                        return 106;
        }
        gf_scan_done(&scan);
        return 0;
}

static void an_ordinary_user_sees_its_own_and_is_told_of_the_rest(void **state)
{
        struct asked asked = { .stage = *state };
        struct kid own, foreign, scanner;

        if (geteuid() != 0)
                skip_because("needs two users");
        assert_int_equal(kid_start(&own, hold_fd_and_map, *state), 0);
        assert_int_equal(kid_start(&foreign, hold_fd, *state), 0);
        asked.own = own.pid;
        asked.foreign = foreign.pid;
        assert_int_equal(kid_start(&scanner, scan_as_nobody, &asked), 0);
        kid_end(&scanner);
        kid_end(&foreign);
        kid_end(&own);
}

static int gaps_of(const char *proc, gf_strv *gaps)
{
        struct gf_env env;
        int r;

        gf_env_init(&env);
        r = gf_env_defaults(&env);
        if (r == 0)
                r = gf_strset(&env.proc_root, proc);
        if (r == 0)
                r = gf_proc_gaps(&env, gaps);
        gf_env_done(&env);
        return r;
}

static int look_behind_hidepid(void *arg)
{
        const struct stage *stage = arg;
        gf_strv gaps = { 0 };
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/hidden", stage->dir);
        (void)mkdir(path, 0755);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("proc", path, "proc", 0, "hidepid=2") < 0)
                return 1;
        if (gaps_of(path, &gaps) != 0 || gaps.n != 0) /* root sees all the same */
                return 101;
        if (become_nobody() != 0 || gaps_of(path, &gaps) != 0 || gaps.n != 1)
                return 102;
        if (!strstr(gaps.v[0], "hidepid=2") || !strstr(gaps.v[0], path))
                return 103;
        gf_strv_done(&gaps);
        if (gaps_of("/proc", &gaps) != 0 || gaps.n != 0)
                return 104;
        return 0;
}

static void hidepid_is_a_gap_for_those_it_hides_from(void **state)
{
        const struct stage *stage = *state;
        char path[128];
        struct kid kid;
        int r = kid_start(&kid, look_behind_hidepid, *state);

        if (r == 0)
                kid_end(&kid);
        (void)snprintf(path, sizeof(path), "%s/hidden", stage->dir);
        (void)rmdir(path);
        if (r == 1)
                skip_because("no right to mount");
        assert_int_equal(r, 0);
}

/* ---- nothing is left behind ---- */

static void a_thousand_scans_leave_nothing(void **state)
{
        const struct stage *stage = *state;
        size_t fds, tasks, memory = 0;
        struct gf_scan scan = { 0 };
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_fd, *state), 0);
        for (unsigned i = 0; i < 3; i++) { /* what is allocated once and for all */
                scan_for(&stage->dev[0].rdev, 1, 0, &scan);
                gf_scan_done(&scan);
        }
        fds = count_entries("/proc/self/fd");
        tasks = count_entries("/proc/self/task");
        memory = mallinfo2().uordblks;
        for (unsigned i = 0; i < 1000; i++) {
                /* A descriptor or a thread that stays shows after a few; the whole machine each time would only take
                 * long. */
                scan_for(&stage->dev[0].rdev, 1, i % 100 ? kid.pid : 0, &scan);
                assert_int_equal(count_hits(&scan, kid.pid, ~0U), 1);
                gf_scan_done(&scan);
        }
        assert_int_equal(count_entries("/proc/self/fd"), fds);
        assert_int_equal(count_entries("/proc/self/task"), tasks);
        assert_true(mallinfo2().uordblks <= memory + 65536);
        kid_end(&kid);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(only_and_skip_are_obeyed, kids_end),
                cmocka_unit_test_teardown(a_readable_cancel_fd_ends_it, kids_end),
                cmocka_unit_test_teardown(without_proc_it_fails_with_a_sentence, kids_end),
                cmocka_unit_test_teardown(a_proc_of_another_namespace_is_refused, kids_end),
                cmocka_unit_test_teardown(the_method_is_said, kids_end),
                cmocka_unit_test_teardown(an_ordinary_user_sees_its_own_and_is_told_of_the_rest, kids_end),
                cmocka_unit_test_teardown(hidepid_is_a_gap_for_those_it_hides_from, kids_end),
                cmocka_unit_test_teardown(a_thousand_scans_leave_nothing, kids_end),
        };

        return cmocka_run_group_tests(tests, stage_setup, stage_teardown);
}

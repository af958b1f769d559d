/* SPDX-License-Identifier: MIT */
#include "help.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "parse/process.h"
#include "scan/scan.h"
#include "select/select.h"
#include "sys/aside.h"
#include "sys/clock.h"
#include "sys/procfs.h"

static struct gf_env env;

static int setup(void **state)
{
        gf_env_init(&env);
        return gf_env_defaults(&env) < 0 ? -1 : stage_setup(state);
}

static int teardown(void **state)
{
        gf_env_done(&env);
        return stage_teardown(state);
}

static struct gf_ident ident_of(pid_t pid)
{
        return (struct gf_ident){ .pid = pid, .start_ticks = start_ticks_of(pid) };
}

static int nothing(void *arg)
{
        (void)arg;
        return prctl(PR_SET_NAME, "idle one") < 0 ? errno : 0;
}

static void a_process_is_described(void **state)
{
        struct gf_facts facts = { 0 };
        _cleanup_free_ char *exe = NULL, *cmdline = NULL;
        size_t length = 0;
        struct gf_ident id;
        struct passwd *pw;
        struct stat st;
        struct kid kid;

        (void)state;
        assert_int_equal(kid_start(&kid, nothing, NULL), 0);
        id = ident_of(kid.pid);
        assert_int_equal(gf_facts_read(&env, &id, &facts), 0);
        assert_string_equal(facts.comm, "idle one");
        assert_int_equal(gf_read_file(AT_FDCWD, "/proc/self/cmdline", 65536, &cmdline, &length), 0);
        assert_int_equal(facts.cmdline_length, length);
        assert_memory_equal(facts.cmdline, cmdline, length);
        assert_int_equal(gf_read_link(AT_FDCWD, "/proc/self/exe", &exe), 0);
        assert_string_equal(facts.exe, exe);
        assert_int_equal(stat(exe, &st), 0);
        assert_true(facts.exe_dev == st.st_dev && facts.exe_ino == st.st_ino);
        assert_int_equal(facts.uid, geteuid());
        pw = getpwuid(geteuid());
        if (pw)
                assert_string_equal(facts.user, pw->pw_name);
        assert_int_equal(facts.ppid, getpid());
        assert_int_equal(facts.pgrp, getpgrp());
        assert_int_equal(facts.session, getsid(0));
        assert_int_equal(facts.threads, 1);
        assert_false(facts.kernel_thread);
        assert_false(facts.leader_zombie);
        assert_true(facts.age_ms < 60000);
        assert_true(facts.pidns_pid > 0);
        assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
        assert_true(facts.pidns == st.st_ino);
        assert_true(facts.cgroups.n > 0);
        assert_non_null(facts.cgroup);
        gf_facts_done(&facts);
        kid_end(&kid);
}

static void another_process_by_that_pid_is_not(void **state)
{
        struct gf_facts facts = { .threads = 4711 };
        struct gf_ident id;
        struct kid kid;

        (void)state;
        assert_int_equal(kid_start(&kid, nothing, NULL), 0);
        id = ident_of(kid.pid);
        id.start_ticks--;
        assert_int_equal(gf_facts_read(&env, &id, &facts), -ESRCH);
        id.start_ticks++;
        assert_int_equal(kill(kid.pid, SIGKILL), 0);
        while (gf_facts_read(&env, &id, &facts) == 0) /* until it is a zombie, which is nobody any more */
                gf_facts_done(&facts);
        assert_int_equal(gf_facts_read(&env, &id, &facts), -ESRCH);
        kid_end(&kid);
        assert_int_equal(gf_facts_read(&env, &id, &facts), -ESRCH);
}

static void *outlive(void *arg)
{
        char path[64], text[GF_STAT_MAX];
        struct gf_stat stat = { 0 };

        (void)arg;
        (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
        while (stat.state != 'Z') {
                ssize_t n = gf_read_head(AT_FDCWD, path, text, sizeof(text));

                if (n > 0)
                        (void)gf_parse_stat(text, (size_t)n, &stat);
                (void)sched_yield();
        }
        kid_say(0);
        kid_sleep();
}

static int leader_exits(void *arg)
{
        pthread_t t;

        if (pthread_create(&t, NULL, outlive, arg) != 0)
                return EAGAIN;
        (void)syscall(SYS_exit, 0);
        return EIO;
}

static void a_zombie_leader_is_described_by_its_threads(void **state)
{
        struct gf_facts facts = { 0 };
        struct gf_ident id;
        struct kid kid;

        (void)state;
        assert_int_equal(kid_start(&kid, leader_exits, NULL), 0);
        id = ident_of(kid.pid);
        assert_int_equal(gf_facts_read(&env, &id, &facts), 0);
        assert_true(facts.leader_zombie);
        assert_int_equal(facts.threads, 2);
        assert_int_not_equal(facts.state, 'Z');
        assert_non_null(facts.exe);
        assert_true(facts.cmdline_length > 0);
        assert_int_equal(facts.ppid, getpid());
        assert_true(facts.pidns != 0);
        gf_facts_done(&facts);
        kid_end(&kid);
}

static void only_root_s_programs_are_trusted(void **state)
{
        const struct stage *stage = *state;
        char copy[128];
        struct gf_facts facts = { 0 };
        struct gf_ident id;
        int p[2], q[2];
        pid_t pid;
        char byte;

        if (geteuid() != 0)
                skip_because("needs to give a file away");
        (void)snprintf(copy, sizeof(copy), "%s/nvidia-smi", stage->dir);
        for (unsigned round = 0; round < 2; round++) {
                _cleanup_free_ char *text = NULL;
                size_t length;
                int fd;

                assert_int_equal(gf_read_file(AT_FDCWD, "/bin/cat", 16 << 20, &text, &length), 0);
                fd = open(copy, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);
                assert_true(fd >= 0 && write(fd, text, length) == (ssize_t)length);
                if (round == 1)
                        assert_int_equal(fchown(fd, 65534, 65534), 0);
                (void)close(fd);
                assert_true(pipe(p) == 0 && pipe(q) == 0);
                pid = fork();
                if (pid == 0) {
                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                        (void)dup2(q[0], 0); /* nothing ever comes: it waits */
                        (void)dup2(p[1], 1);
                        (void)execl(copy, "cat", "/proc/self/comm", "-", (char *)NULL);
                        _exit(1);
                }
                assert_int_equal(read(p[0], &byte, 1), 1); /* it runs */
                assert_int_equal(unlink(copy), 0);
                id = ident_of(pid);
                assert_int_equal(gf_facts_read(&env, &id, &facts), 0);
                assert_string_equal(facts.exe, copy); /* without " (deleted)" */
                assert_int_equal(facts.exe_trusted, round == 0);
                gf_facts_done(&facts);
                assert_int_equal(kill(pid, SIGKILL), 0);
                assert_int_equal(waitpid(pid, NULL, 0), pid);
                (void)close(p[0]);
                (void)close(p[1]);
                (void)close(q[0]);
                (void)close(q[1]);
        }
}

/* ---- a made tree: which cgroup names the owner ---- */

static void put(const char *dir, const char *name, const char *text)
{
        char path[256];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
        fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
        assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
        (void)close(fd);
}

static void the_cgroup_that_names_the_owner_is_chosen(void **state)
{
        static const struct {
                const char *text, *chosen;
        } cases[] = {
                { "0::/system.slice/docker-1.scope\n", "/system.slice/docker-1.scope" },
                { "0::/\n", "/" },
                { "12:memory:/m\n5:devices:/d\n1:name=systemd:/s\n0::/u\n", "/s" },
                { "12:memory:/m\n5:devices:/d\n1:name=systemd:/\n0::/u\n", "/d" },
                { "12:memory:/m\n5:devices:/\n0::/u\n", "/m" },
                { "12:cpu,memory:/m\n0::/\n", "/m" },
                { "9:cpuset:/c\n0::/u\n", "/u" },
                { "9:cpuset:/c\n0::/\n", "/c" },
                { "bad line\n0::/a:b:c\n", "/a:b:c" },
                { "", NULL },
        };
        const struct stage *stage = *state;
        struct gf_ident id = { .pid = 77, .start_ticks = 5 };
        struct gf_env made;
        char dir[128], path[256];

        (void)snprintf(dir, sizeof(dir), "%s/77", stage->dir);
        assert_int_equal(mkdir(dir, 0755), 0);
        put(dir, "stat", "77 (made) S 1 77 77 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n");
        put(dir, "status", "Uid:\t7\t8\t9\t10\nNSpid:\t77\t3\n");
        gf_env_init(&made);
        assert_int_equal(gf_strset(&made.proc_root, stage->dir), 0);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct gf_facts facts = { 0 };

                put(dir, "cgroup", cases[i].text);
                assert_int_equal(gf_facts_read(&made, &id, &facts), 0);
                if (!gf_streq(facts.cgroup, cases[i].chosen))
                        fail_msg("%s: chose %s", cases[i].text, facts.cgroup);
                assert_int_equal(facts.uid, 8);
                assert_int_equal(facts.pidns_pid, 3);
                assert_null(facts.exe);
                assert_int_equal(facts.login_session, UINT32_MAX);
                gf_facts_done(&facts);
        }
        gf_env_done(&made);
        for (size_t i = 0; i < 3; i++) {
                (void)snprintf(path, sizeof(path), "%s/%s", dir, (const char *[]){ "stat", "status", "cgroup" }[i]);
                (void)unlink(path);
        }
        (void)rmdir(dir);
}

/* ---- ourselves ---- */

static void ancestors_begin_with_ourselves(void **state)
{
        struct gf_self self = { 0 };

        (void)state;
        assert_int_equal(gf_self_read(&env, &self), 0);
        assert_int_equal(self.pid, getpid());
        assert_int_equal(self.uid, geteuid());
        assert_int_equal(self.session, getsid(0));
        assert_true(self.ancestors.n >= 2);
        assert_int_equal(self.ancestors.v[0].pid, getpid());
        assert_true(self.ancestors.v[0].start_ticks == start_ticks_of(getpid()));
        assert_int_equal(self.ancestors.v[1].pid, getppid());
        for (size_t i = 1; i < self.ancestors.n; i++)
                assert_true(self.ancestors.v[i].start_ticks <= self.ancestors.v[i - 1].start_ticks);
        gf_self_done(&self);
        gf_self_done(&self);
}

static void the_first_namespace_is_known(void **state)
{
        struct stat st;
        int r;

        (void)state;
        r = gf_initial_pidns(&env);
        assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
        assert_int_equal(r, st.st_ino == 4026531836U);
}

static int in_inner_namespace(void *arg)
{
        (void)arg;
        if (unshare(CLONE_NEWPID) < 0)
                return 1;
        if (fork() == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                /* The /proc of the outer namespace: it shows that one's processes. */
                kid_say(gf_initial_pidns(&env) + 50);
                kid_sleep();
        }
        kid_sleep();
}

static void an_inner_namespace_with_the_outer_proc(void **state)
{
        struct kid kid;
        int r;

        (void)state;
        r = kid_start(&kid, in_inner_namespace, NULL);
        if (r == 1)
                skip_because("no right to make namespaces");
        /* It is not the first one, whatever its /proc shows: the driver answers for it alone. */
        assert_int_equal(r, 50);
}

/* ---- sys ---- */

static void reading_is_bounded(void **state)
{
        const struct stage *stage = *state;
        char *text = NULL, head[4];
        size_t length = 0;
        char path[128];

        put(stage->dir, "ten", "0123456789");
        (void)snprintf(path, sizeof(path), "%s/ten", stage->dir);
        assert_int_equal(gf_read_file(AT_FDCWD, path, 9, &text, &length), -EFBIG);
        assert_null(text);
        assert_int_equal(gf_read_file(AT_FDCWD, path, 10, &text, &length), 0);
        assert_int_equal(length, 10);
        assert_string_equal(text, "0123456789");
        free(text);
        text = NULL;
        assert_int_equal(gf_read_file(AT_FDCWD, path, 0, &text, NULL), -EFBIG);
        assert_int_equal(gf_read_head(AT_FDCWD, path, head, sizeof(head)), 4);
        assert_memory_equal(head, "0123", 4);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(gf_read_file(AT_FDCWD, path, 10, &text, NULL), -ENOENT);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(gf_read_file(AT_FDCWD, path, 10, &text, &length), 0); /* does not wait for a writer */
        assert_int_equal(length, 0);
        free(text);
}

static void long_links_are_read_whole(void **state)
{
        const struct stage *stage = *state;
        char target[2001], path[128], *text = NULL;

        memset(target, 'x', sizeof(target) - 1);
        target[sizeof(target) - 1] = '\0';
        (void)snprintf(path, sizeof(path), "%s/link", stage->dir);
        assert_int_equal(symlink(target, path), 0);
        assert_int_equal(gf_read_link(AT_FDCWD, path, &text), 0);
        assert_string_equal(text, target);
        free(text);
        assert_int_equal(gf_read_link(AT_FDCWD, stage->dir, &text), -EINVAL);
}

static void a_directory_is_walked_in_a_small_buffer(void **state)
{
        char dir[64] = "/tmp/gpufree-walk-XXXXXX", name[32], buf[512];
        bool seen[300] = { false };
        struct gf_dirwalk walk;
        uint32_t number;
        unsigned n = 0;
        int fd;

        (void)state;
        assert_non_null(mkdtemp(dir));
        fd = gf_open_dir(AT_FDCWD, dir);
        assert_true(fd >= 0);
        for (unsigned i = 0; i < 300; i++) {
                (void)snprintf(name, sizeof(name), i % 3 ? "%u" : "%u.x", i);
                assert_int_equal(mkdirat(fd, name, 0755), 0);
        }
        gf_dirwalk_init(&walk, fd, buf, sizeof(buf));
        while (gf_dirwalk_next_number(&walk, &number, NULL) > 0) {
                assert_true(number < 300 && number % 3 && !seen[number]);
                seen[number] = true;
                n++;
        }
        assert_int_equal(n, 200);
        for (unsigned i = 0; i < 300; i++) {
                (void)snprintf(name, sizeof(name), i % 3 ? "%u" : "%u.x", i);
                (void)unlinkat(fd, name, AT_REMOVEDIR);
        }
        (void)close(fd);
        (void)rmdir(dir);
        assert_int_equal(gf_open_dir(AT_FDCWD, "/dev/null"), -ENOTDIR);
}

static void clocks_and_deadlines(void **state)
{
        (void)state;
        assert_true(gf_boottime_ticks() >= start_ticks_of(getpid()));
        assert_true(gf_boottime_ticks() - start_ticks_of(getpid()) < 100000);
        assert_int_equal(gf_ticks_to_ms((uint64_t)sysconf(_SC_CLK_TCK) * 7), 7000);
        assert_true(gf_ticks_to_ms(UINT64_MAX) == GPUFREE_UNKNOWN);
        assert_true(gf_deadline_in(GPUFREE_UNKNOWN) == GPUFREE_UNKNOWN);
        assert_true(gf_deadline_in(GPUFREE_UNKNOWN - 1) == GPUFREE_UNKNOWN);
        assert_int_equal(gf_deadline_poll_ms(GPUFREE_UNKNOWN), -1);
        assert_true(gf_deadline_left(GPUFREE_UNKNOWN) == GPUFREE_UNKNOWN);
        assert_int_equal(gf_deadline_left(0), 0);
        assert_int_equal(gf_deadline_poll_ms(gf_deadline_in(1ULL << 40)), INT32_MAX);
        assert_in_range(gf_deadline_left(gf_deadline_in(100000)), 90000, 100000);
}

struct box {
        int wait, told;
};

static void box_work(void *userdata)
{
        struct box *box = userdata;
        char byte;

        while (box->wait >= 0 && read(box->wait, &byte, 1) < 0)
                ;
}

static void box_release(void *userdata)
{
        struct box *box = userdata;

        if (write(box->told, "x", 1) != 1)
                abort();
        free(box);
}

static void what_hangs_aside_is_left_and_released_later(void **state)
{
        struct box *box = calloc(1, sizeof(*box)), quick = { .wait = -1 };
        int p[2], q[2];
        char byte;

        (void)state;
        assert_int_equal(gf_aside(box_work, box_release, &quick, 20000), 0);
        assert_true(box && pipe(p) == 0 && pipe(q) == 0);
        if (!box)
                return;
        *box = (struct box){ .wait = p[0], .told = q[1] };
        assert_int_equal(gf_aside(box_work, box_release, box, 10), -ETIMEDOUT);
        assert_int_equal(write(p[1], "x", 1), 1); /* let it go */
        assert_int_equal(read(q[0], &byte, 1), 1);
        (void)close(p[0]);
        (void)close(p[1]);
        (void)close(q[0]);
        (void)close(q[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(a_process_is_described, kids_end),
                cmocka_unit_test_teardown(another_process_by_that_pid_is_not, kids_end),
                cmocka_unit_test_teardown(a_zombie_leader_is_described_by_its_threads, kids_end),
                cmocka_unit_test_teardown(only_root_s_programs_are_trusted, kids_end),
                cmocka_unit_test_teardown(the_cgroup_that_names_the_owner_is_chosen, kids_end),
                cmocka_unit_test_teardown(ancestors_begin_with_ourselves, kids_end),
                cmocka_unit_test_teardown(the_first_namespace_is_known, kids_end),
                cmocka_unit_test_teardown(an_inner_namespace_with_the_outer_proc, kids_end),
                cmocka_unit_test_teardown(reading_is_bounded, kids_end),
                cmocka_unit_test_teardown(long_links_are_read_whole, kids_end),
                cmocka_unit_test_teardown(a_directory_is_walked_in_a_small_buffer, kids_end),
                cmocka_unit_test_teardown(clocks_and_deadlines, kids_end),
                cmocka_unit_test_teardown(what_hangs_aside_is_left_and_released_later, kids_end),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}

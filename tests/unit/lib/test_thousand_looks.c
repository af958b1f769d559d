/* SPDX-License-Identifier: MIT */
/* Many looks in one process: no descriptor and no memory stays behind. */
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpufree.h"

static size_t open_descriptors(void)
{
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        assert_non_null(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

static size_t children(void)
{
        size_t n = 0;
        char line[4096];
        FILE *file = fopen("/proc/thread-self/children", "re");

        if (!file)
                return 0;
        while (fgets(line, sizeof(line), file))
                for (const char *p = line; *p; p++)
                        n += *p == ' ';
        fclose(file);
        return n;
}

/* A process that holds /dev/zero until its end of the pipe closes. */
static pid_t start_holder(int *ret_link)
{
        int up[2], down[2];
        char byte;
        pid_t pid;

        assert_int_equal(pipe2(up, O_CLOEXEC), 0);
        assert_int_equal(pipe2(down, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                close(up[0]);
                close(down[1]);
                if (open("/dev/zero", O_RDONLY) < 0 || write(up[1], "r", 1) != 1)
                        _exit(1);
                (void)!read(down[0], &byte, 1);
                _exit(0);
        }
        close(up[1]);
        close(down[0]);
        assert_int_equal(read(up[0], &byte, 1), 1);
        close(up[0]);
        *ret_link = down[1];
        return pid;
}

static void look_once(gpufree *context, pid_t holder)
{
        gpufree_snapshot *snapshot = NULL;
        bool found = false;
        int r = gpufree_look(context, NULL, &snapshot);

        if (r < 0)
                print_error("%s\n", gpufree_error(context));
        assert_return_code(r, 0);
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++)
                found |= gpufree_holder_pid(gpufree_snapshot_holder(snapshot, i)) == holder;
        assert_true(found);
        gpufree_snapshot_unref(snapshot);
}

static void look_many(size_t contexts, size_t looks, pid_t holder)
{
        for (size_t c = 0; c < contexts; c++) {
                gpufree *context = NULL;

                assert_return_code(gpufree_new(&context), 0);
                assert_return_code(gpufree_add_device(context, "/dev/zero"), 0);
                for (size_t i = 0; i < looks; i++)
                        look_once(context, holder);
                gpufree_unref(context);
        }
}

/* What is kept for good by `contexts` times `looks`: descriptors, children, bytes. */
static void assert_nothing_stays(size_t contexts, size_t looks, size_t tolerance)
{
        size_t descriptors, processes;
        struct mallinfo2 before, after;
        int link;
        pid_t holder = start_holder(&link);

        look_many(2, 5, holder); /* what is made once (name service, locale) is made now */
        descriptors = open_descriptors();
        processes = children();
        before = mallinfo2();
        look_many(contexts, looks, holder);
        after = mallinfo2();
        assert_int_equal(open_descriptors(), descriptors);
        assert_int_equal(children(), processes);
        if (after.uordblks > before.uordblks)
                print_message("# %zu bytes more after %zu looks\n", after.uordblks - before.uordblks, contexts * looks);
        /* The allocator's own caches move a little; a leak of one byte a look is a block of 32 each. */
        assert_true(after.uordblks <= before.uordblks + tolerance);
        close(link);
        assert_int_equal(waitpid(holder, NULL, 0), holder);
}

/* The whole machine, by the method that this machine gives: as slow as the machine is full, so not often. */
static void test_looks_at_the_machine_leave_nothing(void **state)
{
        (void)state;
        /* Others come and go, and with them what a look has to keep: the strict figure is that of the namespace below.
         */
        assert_nothing_stays(3, 20, 65536);
}

/* A PID namespace with a handful of processes: a thousand looks take a second. */
static void test_thousand_in_namespace(void **state)
{
        (void)state;
        assert_nothing_stays(10, 100, 16384);
}

static bool own_proc(void)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("proc", "/proc", "proc", 0, NULL) == 0;
}

static void test_a_thousand_looks_leave_nothing(void **state)
{
        pid_t pid = fork(), inner;
        int status;

        (void)state;
        assert_true(pid >= 0);
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
                        _exit(77);
                inner = fork();
                if (inner == 0) {
                        const struct CMUnitTest one[] = { cmocka_unit_test(test_thousand_in_namespace) };
                        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

                        /* A runner of its own, silent: a failed assertion must not go on in the outer one. */
                        if (!own_proc())
                                _exit(77);
                        if (null >= 0)
                                (void)dup2(null, STDOUT_FILENO);
                        _exit(cmocka_run_group_tests(one, NULL, NULL) == 0 ? 0 : 1);
                }
                if (inner < 0 || waitpid(inner, &status, 0) != inner)
                        _exit(2);
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                assert_nothing_stays(10, 20, 8192);
        else
                assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_looks_at_the_machine_leave_nothing),
                cmocka_unit_test(test_a_thousand_looks_leave_nothing),
        };

        (void)setvbuf(stdout, NULL, _IOLBF, 0); /* nothing is written twice by a fork */
        return cmocka_run_group_tests_name("thousand-looks", tests, NULL, NULL);
}

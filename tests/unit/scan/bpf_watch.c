/* SPDX-License-Identifier: MIT */
/*
 * The kernel's count of a device's open files against what a look by BPF found, on a console (4:39), each of which has
 * a cdev of its own. Skipped with the reason where BPF or consoles are not to be had.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "bpf_shapes.h"
#include "scan/scan.h"
#include "sys/clock.h"

#define MINOR 39

static char directory[] = "/tmp/gpufree-watch-XXXXXX", node[64];
static dev_t number;

struct look {
        struct gf_env env;
        struct gf_wanted wanted;
        struct gf_node nodes[1];
        struct gf_scan scan;
        char *reason;
};

static int look_setup(void **state)
{
        struct look *look = calloc(1, sizeof(*look));

        assert_non_null(look);
        gf_env_init(&look->env);
        assert_return_code(gf_env_defaults(&look->env), 0);
        look->nodes[0] = (struct gf_node){ .path = node, .rdev = number };
        look->wanted = (struct gf_wanted){ .chr = &number, .n_chr = 1, .nodes = look->nodes, .n_nodes = 1 };
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

static uint64_t missed_now(struct look *look)
{
        int r;

        gf_scan_done(&look->scan);
        r = gf_scan_bpf(&look->env, &look->wanted, &look->scan, &look->reason);
        assert_return_code(r, -r);
        return look->scan.missed.n > 0 ? look->scan.missed.v[0].n : 0;
}

/* A child that runs `hold`, which says by its pipe when it is done and never returns. */
static pid_t start(void (*hold)(int ready))
{
        int ends[2];
        char byte;
        pid_t pid;

        assert_return_code(pipe2(ends, O_CLOEXEC), errno);
        pid = fork();
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                hold(ends[1]);
                _exit(1);
        }
        assert_return_code(pid, errno);
        (void)close(ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        (void)close(ends[0]);
        return pid;
}

static void stop(pid_t pid)
{
        assert_return_code(kill(pid, SIGKILL), errno);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int open_node(void)
{
        return open(node, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static void say(int ready)
{
        if (write(ready, "1", 1) != 1)
                _exit(2);
}

static void hold_plainly(int ready)
{
        int fd = open_node();

        /* Two files, one of them twice: an open file counts once. */
        if (fd < 0 || dup(fd) < 0 || open_node() < 0)
                _exit(2);
        say(ready);
        pause();
}

static _Atomic pid_t reader_tid;

static void *reader(void *userdata)
{
        int fd = *(int *)userdata;
        char byte;

        reader_tid = gettid();
        (void)!read(fd, &byte, 1);
        return NULL;
}

/* A request under way keeps the file open though its descriptor is closed. Whether the thread is in the kernel yet when
 * the descriptor goes is for the test to see. */
static void hold_without_descriptor(int ready)
{
        static int fd;
        pthread_t thread;
        char path[64], text[64];
        FILE *f;

        fd = open_node();
        if (fd < 0 || pthread_create(&thread, NULL, reader, &fd) != 0)
                _exit(2);
        for (uint64_t end = gf_deadline_in(10000); gf_deadline_left(end) > 0; (void)usleep(1000)) {
                (void)snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", reader_tid);
                f = fopen(path, "re"); /* "0 0x5 …": in read() */
                if (f && fgets(text, sizeof(text), f) && text[0] == '0')
                        end = 0;
                if (f)
                        (void)fclose(f);
                if (end == 0)
                        break;
        }
        (void)close(fd);
        say(ready);
        pause();
}

static void toggle(int ready)
{
        say(ready);
        for (;;) {
                int fd = open_node();

                if (fd >= 0)
                        (void)close(fd);
        }
}

static void test_nothing_open_nothing_missed(void **state)
{
        assert_int_equal(missed_now(*state), 0);
}

static void test_ordinary_holders_explain_the_count(void **state)
{
        struct look *look = *state;
        pid_t pid = start(hold_plainly);

        assert_int_equal(missed_now(look), 0);
        assert_int_equal(look->scan.hits.n, 3);
        /* The same when it is our own and not to be shown. */
        look->wanted.skip = &pid;
        look->wanted.n_skip = 1;
        assert_int_equal(missed_now(look), 0);
        assert_int_equal(look->scan.hits.n, 0);
        stop(pid);
}

static void test_a_file_without_descriptor_is_missed(void **state)
{
        struct look *look = *state;
        pid_t other = start(hold_plainly), pid = start(hold_without_descriptor);

        assert_int_equal(missed_now(look), 1);
        assert_int_equal(look->scan.missed.v[0].rdev, number);
        assert_int_equal(look->scan.hits.n, 3);
        /* Some processes alone: their files are not all. */
        look->wanted.only = &other;
        look->wanted.n_only = 1;
        assert_int_equal(missed_now(look), 0);
        look->wanted.only = NULL;
        stop(pid);
        assert_int_equal(missed_now(look), 0);
        stop(other);
}

static void test_coming_and_going_is_not_missed(void **state)
{
        pid_t a = start(toggle), b = start(toggle);

        for (int i = 0; i < 25; i++)
                assert_int_equal(missed_now(*state), 0);
        stop(a);
        stop(b);
}

/* /dev/null is one of many numbers of one cdev: its count says nothing. */
static void test_a_shared_count_is_not_used(void **state)
{
        struct look *look = *state;

        look->nodes[0] = (struct gf_node){ .path = "/dev/null", .rdev = makedev(1, 3) };
        number = makedev(1, 3);
        assert_int_equal(missed_now(look), 0);
        number = makedev(4, MINOR);
        /* Nor is a name that leads elsewhere. */
        look->nodes[0] = (struct gf_node){ .path = "/dev/null", .rdev = number };
        assert_int_equal(missed_now(look), 0);
}

static bool console_works(void)
{
        int fd;

        number = makedev(4, MINOR);
        if (!mkdtemp(directory))
                return false;
        (void)snprintf(node, sizeof(node), "%s/tty", directory);
        if (mknod(node, S_IFCHR | 0600, number) < 0)
                return false;
        fd = open_node();
        if (fd >= 0)
                (void)close(fd);
        return fd >= 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, look_setup, look_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_nothing_open_nothing_missed),         TEST(test_ordinary_holders_explain_the_count),
                TEST(test_a_file_without_descriptor_is_missed), TEST(test_coming_and_going_is_not_missed),
                TEST(test_a_shared_count_is_not_used),
        };
        int r = 0;

        if (!bpf_works())
                return 0;
        if (console_works())
                r = cmocka_run_group_tests(tests, NULL, NULL);
        else
                printf("1..0 # SKIP no console can be opened here (root, and a kernel with consoles)\n");
        (void)unlink(node);
        (void)rmdir(directory);
        return r;
}

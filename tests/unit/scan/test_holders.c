/* SPDX-License-Identifier: MIT */
/* Every form of holding, by real processes: facts of the table "what finds what". */
#include "help.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "parse/process.h"
#include "scan/scan.h"
#include "sys/procfs.h"

#define HELD_FD 77

static int open_at(const char *path, int want)
{
        int fd = stage_open(path);

        if (fd < 0)
                return -fd;
        if (dup3(fd, want, O_CLOEXEC) < 0)
                return errno;
        (void)close(fd);
        return 0;
}

static int hold_fd(void *arg)
{
        const struct stage *stage = arg;

        return open_at(stage->dev[0].path, HELD_FD);
}

static void a_descriptor_is_found(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        const struct gf_hit *hit;
        struct stat st;
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_fd, *state), 0);
        scan_for(&stage->dev[0].rdev, 1, 0, &scan);
        assert_int_equal(count_hits(&scan, kid.pid, ~0U), 1);
        hit = find_hit(&scan, kid.pid, GPUFREE_VIA_FD);
        assert_int_equal(hit->fd, HELD_FD);
        assert_int_equal(hit->tid, kid.pid);
        assert_true(hit->rdev == stage->dev[0].rdev);
        assert_false(hit->block);
        assert_false(hit->unlinked);
        assert_true(hit->bytes == GPUFREE_UNKNOWN);
        assert_true(hit->id.start_ticks == start_ticks_of(kid.pid));
        assert_int_equal(stat(stage->dev[0].path, &st), 0);
        assert_true(hit->node_dev == st.st_dev && hit->node_ino == st.st_ino);
        assert_int_equal(scan.method, GPUFREE_SCAN_PROC);
        assert_true(scan.processes > 1 && scan.threads >= 1);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static void a_device_with_another_number_is_not(void **state)
{
        const struct stage *stage = *state;
        dev_t others[2] = { stage->dev[1].rdev, stage->dev[2].rdev };
        struct gf_scan scan = { 0 };
        struct gf_wanted block = { .blk = &stage->dev[0].rdev, .n_blk = 1 };
        struct gf_env env;
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_fd, *state), 0);
        scan_for(others, 2, kid.pid, &scan);
        assert_int_equal(scan.hits.n, 0);
        gf_scan_done(&scan);
        /* The same number as a block device is another device. */
        block.only = &kid.pid;
        block.n_only = 1;
        gf_env_init(&env);
        assert_int_equal(gf_env_defaults(&env), 0);
        assert_int_equal(gf_scan_proc(&env, &block, &scan), 0);
        assert_int_equal(scan.hits.n, 0);
        assert_int_equal(scan.processes, 1);
        gf_scan_done(&scan);
        gf_env_done(&env);
        kid_end(&kid);
}

static int hold_map(void *arg)
{
        const struct stage *stage = arg;
        int fd = open(stage->zero, O_RDWR | O_CLOEXEC);
        void *p;

        if (fd < 0)
                return errno;
        p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
                return errno;
        (void)close(fd);
        return 0;
}

static void a_mapping_without_descriptor_is_found(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        const struct gf_hit *hit;
        struct stat st;
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_map, *state), 0);
        scan_for(&stage->zero_rdev, 1, kid.pid, &scan);
        assert_int_equal(count_hits(&scan, kid.pid, ~0U), 1);
        hit = find_hit(&scan, kid.pid, GPUFREE_VIA_MAP);
        assert_int_equal(hit->fd, -1);
        assert_int_equal(stat(stage->zero, &st), 0);
        assert_true(hit->node_ino == st.st_ino);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static int hold_own_node(void *arg)
{
        return open_at(arg, HELD_FD);
}

static void another_node_with_the_number_is_found(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        char path[128];
        struct stat st;
        struct kid kid;

        if (!stage_node(stage, 1, "own", path))
                skip_because("no right to make device nodes");
        assert_int_equal(kid_start(&kid, hold_own_node, path), 0);
        scan_for(&stage->dev[1].rdev, 1, kid.pid, &scan);
        assert_int_equal(stat(path, &st), 0);
        assert_true(find_hit(&scan, kid.pid, GPUFREE_VIA_FD)->node_ino == st.st_ino);
        assert_int_equal(stat(stage->dev[1].path, &st), 0);
        assert_false(find_hit(&scan, kid.pid, GPUFREE_VIA_FD)->node_ino == st.st_ino);
        gf_scan_done(&scan);
        kid_end(&kid);
        (void)unlink(path);
}

static int hold_unlinked(void *arg)
{
        int r = open_at(arg, HELD_FD);

        if (r == 0 && unlink(arg) < 0)
                r = errno;
        return r;
}

static void an_unlinked_node_is_found_and_noted(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        char path[128];
        struct kid kid;

        if (!stage_node(stage, 1, "gone", path))
                skip_because("no right to make device nodes");
        assert_int_equal(kid_start(&kid, hold_unlinked, path), 0);
        scan_for(&stage->dev[1].rdev, 1, kid.pid, &scan);
        assert_true(find_hit(&scan, kid.pid, GPUFREE_VIA_FD)->unlinked);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static int hold_unlinked_map(void *arg)
{
        int fd = open(arg, O_RDWR | O_CLOEXEC);

        if (fd < 0 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED || unlink(arg) < 0)
                return errno;
        (void)close(fd);
        return 0;
}

static void a_mapping_of_an_unlinked_node_is_found(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        char path[128];
        struct kid kid;

        (void)snprintf(path, sizeof(path), "%s/zero2", stage->dir);
        if (!stage->mknod || mknod(path, S_IFCHR | 0600, stage->zero_rdev) < 0)
                skip_because("no right to make device nodes");
        assert_int_equal(kid_start(&kid, hold_unlinked_map, path), 0);
        scan_for(&stage->zero_rdev, 1, kid.pid, &scan);
        if (scan.hits.n == 0 && scan.refused.n == 0)
                assert_true(is_opaque(&scan, kid.pid));
        else
                assert_true(find_hit(&scan, kid.pid, GPUFREE_VIA_MAP)->unlinked);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static int hold_o_path(void *arg)
{
        const struct stage *stage = arg;
        int fd = open(stage->dev[0].path, O_PATH | O_CLOEXEC);

        return fd < 0 || dup2(fd, HELD_FD) < 0 ? errno : 0;
}

static void o_path_does_not_hold(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_o_path, *state), 0);
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_int_equal(scan.hits.n, 0);
        assert_int_equal(scan.refused.n, 0);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static int hold_mode_3(void *arg)
{
        const struct stage *stage = arg;
        int fd = open(stage->dev[0].path, 3 | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

        return fd < 0 ? errno : 0;
}

static void access_mode_3_holds(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        struct kid kid;

        /* Neither for reading nor for writing, but open: only O_PATH is not. */
        if (kid_start(&kid, hold_mode_3, *state) != 0)
                skip_because("the device cannot be opened so");
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_int_equal(count_hits(&scan, kid.pid, GPUFREE_VIA_FD), 1);
        gf_scan_done(&scan);
        kid_end(&kid);
}

/* ---- threads ---- */

static void *own_table(void *arg)
{
        const struct stage *stage = arg;

        if (unshare(CLONE_FILES) < 0)
                kid_say(errno);
        else
                kid_say(open_at(stage->dev[0].path, HELD_FD));
        kid_sleep();
}

static int hold_in_thread(void *arg)
{
        pthread_t t;
        int r = pthread_create(&t, NULL, own_table, arg);

        if (r != 0)
                return r;
        kid_sleep();
}

static void a_thread_with_its_own_table_is_found(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        const struct gf_hit *hit;
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_in_thread, *state), 0);
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_int_equal(scan.hits.n, 1);
        hit = find_hit(&scan, kid.pid, GPUFREE_VIA_FD);
        assert_int_not_equal(hit->tid, kid.pid);
        assert_true(hit->id.start_ticks == start_ticks_of(kid.pid));
        assert_int_equal(scan.threads, 2);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static char thread_state(pid_t pid, pid_t tid)
{
        char path[64], text[GF_STAT_MAX];
        struct gf_stat stat;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
        n = gf_read_head(AT_FDCWD, path, text, sizeof(text));
        return n > 0 && gf_parse_stat(text, (size_t)n, &stat) == 0 ? stat.state : '?';
}

static void *outlive_leader(void *arg)
{
        int (*hold)(void *) = *(int (**)(void *))arg;
        int r = hold(*((void **)arg + 1));

        while (r == 0 && thread_state(getpid(), getpid()) != 'Z')
                (void)sched_yield();
        kid_say(r);
        kid_sleep();
}

static int leader_exits(void *arg)
{
        pthread_t t;
        int r = pthread_create(&t, NULL, outlive_leader, arg);

        if (r != 0)
                return r;
        (void)syscall(SYS_exit, 0);
        return EIO;
}

struct hold_call {
        int (*hold)(void *);
        void *arg;
};

static void a_zombie_leader_s_descriptor_is_found(void **state)
{
        const struct stage *stage = *state;
        struct hold_call call = { hold_fd, *state };
        struct gf_scan scan = { 0 };
        struct kid kid;

        assert_int_equal(kid_start(&kid, leader_exits, &call), 0);
        assert_int_equal(thread_state(kid.pid, kid.pid), 'Z');
        scan_for(&stage->dev[0].rdev, 1, 0, &scan);
        assert_int_equal(count_hits(&scan, kid.pid, ~0U), 1);
        assert_int_not_equal(find_hit(&scan, kid.pid, GPUFREE_VIA_FD)->tid, kid.pid);
        assert_true(find_hit(&scan, kid.pid, GPUFREE_VIA_FD)->id.start_ticks == start_ticks_of(kid.pid));
        gf_scan_done(&scan);
        kid_end(&kid);
}

static void a_zombie_leader_s_mapping_is_found(void **state)
{
        const struct stage *stage = *state;
        struct hold_call call = { hold_map, *state };
        struct gf_scan scan = { 0 };
        struct kid kid;

        assert_int_equal(kid_start(&kid, leader_exits, &call), 0);
        scan_for(&stage->zero_rdev, 1, kid.pid, &scan);
        assert_int_equal(count_hits(&scan, kid.pid, GPUFREE_VIA_MAP), 1);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static void *idle(void *arg)
{
        (void)arg;
        kid_sleep();
}

static int hold_with_threads(void *arg)
{
        pthread_t t;

        for (unsigned i = 0; i < 8; i++)
                if (pthread_create(&t, NULL, idle, NULL) != 0)
                        return EAGAIN;
        return hold_fd(arg);
}

static void a_shared_table_is_counted_once(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_with_threads, *state), 0);
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_int_equal(scan.hits.n, 1);
        assert_int_equal(scan.threads, 9);
        gf_scan_done(&scan);
        kid_end(&kid);
}

/* ---- namespaces ---- */

static int hold_in_namespaces(void *arg)
{
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
                return errno;
        if (fork() == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                kid_say(hold_fd(arg));
                kid_sleep();
        }
        kid_sleep();
}

static void a_process_in_other_namespaces_is_found(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        size_t inner = 0;
        struct kid kid;

        if (kid_start(&kid, hold_in_namespaces, *state) != 0)
                skip_because("no right to make namespaces");
        scan_for(&stage->dev[0].rdev, 1, 0, &scan);
        for (size_t i = 0; i < scan.hits.n; i++) {
                char path[64], text[4096];
                struct gf_status status;
                ssize_t n;

                (void)snprintf(path, sizeof(path), "/proc/%d/status", scan.hits.v[i].id.pid);
                n = gf_read_head(AT_FDCWD, path, text, sizeof(text));
                if (n <= 0)
                        continue; /* somebody else's holder, that has ended meanwhile */
                gf_parse_status(text, (size_t)n, &status);
                if (status.ppid == kid.pid) {
                        assert_int_equal(status.nspid, 1);
                        inner++;
                }
        }
        assert_int_equal(inner, 1);
        gf_scan_done(&scan);
        kid_end(&kid);
}

/* ---- in flight ---- */

static int send_fd(int sock, int fd)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = { 0 };
        char byte = 'x';
        struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
        struct msghdr msg = {
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = control.space,
                .msg_controllen = sizeof(control.space),
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(int));
        return sendmsg(sock, &msg, 0) == 1 ? 0 : errno;
}

static int hold_queued(void *arg)
{
        const struct stage *stage = arg;
        int fd = stage_open(stage->dev[0].path), s[2], r;

        if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0)
                return EIO;
        r = send_fd(s[0], fd);
        (void)close(fd);
        (void)close(s[0]);
        return r;
}

static void a_descriptor_in_a_socket_is_said(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_queued, *state), 0);
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_int_equal(count_hits(&scan, kid.pid, ~0U), 0);
        assert_true(is_opaque(&scan, kid.pid));
        assert_int_equal(scan.opaque_queues, 1);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static int hold_in_backlog(void *arg)
{
        const struct stage *stage = arg;
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        int fd = stage_open(stage->dev[0].path), l = socket(AF_UNIX, SOCK_STREAM, 0), c, r;
        socklen_t size = sizeof(name);

        /* Autobind: an abstract name that is free. */
        if (fd < 0 || l < 0 || bind(l, (struct sockaddr *)&name, sizeof(sa_family_t)) < 0 || listen(l, 5) < 0 ||
            getsockname(l, (struct sockaddr *)&name, &size) < 0)
                return EIO;
        c = socket(AF_UNIX, SOCK_STREAM, 0);
        if (c < 0 || connect(c, (struct sockaddr *)&name, size) < 0)
                return EIO;
        r = send_fd(c, fd);
        (void)close(fd);
        (void)close(c);
        return r;
}

static void a_descriptor_in_a_connection_not_accepted_is_said(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        struct kid kid;

        assert_int_equal(kid_start(&kid, hold_in_backlog, *state), 0);
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_true(is_opaque(&scan, kid.pid));
        gf_scan_done(&scan);
        kid_end(&kid);
}

static int sockets_without_descriptors(void *arg)
{
        int s[2];

        (void)arg;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0 || write(s[0], "x", 1) != 1 ||
            socketpair(AF_UNIX, SOCK_DGRAM, 0, s) < 0 || write(s[0], "x", 1) != 1 ||
            socket(AF_INET, SOCK_STREAM, 0) < 0)
                return errno;
        return 0;
}

static void sockets_with_mere_data_are_not(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        struct kid kid;

        assert_int_equal(kid_start(&kid, sockets_without_descriptors, NULL), 0);
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_int_equal(scan.opaque_queues, 0);
        assert_int_equal(scan.opaque.n, 0);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static int ring_with(int fd)
{
        struct io_uring_params params = { 0 };
        int ring = (int)syscall(SYS_io_uring_setup, 4, &params);

        if (ring < 0)
                return -errno;
        if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1) < 0)
                return -errno;
        return ring;
}

static int hold_registered(void *arg)
{
        int fd = stage_open(arg), ring;

        if (fd < 0)
                return -fd;
        ring = ring_with(fd);
        (void)close(fd);
        return ring < 0 ? -ring : 0;
}

static void a_file_registered_with_io_uring_is_found(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        char path[128];
        struct kid kid;

        (void)snprintf(path, sizeof(path), "%s", stage->dev[0].path);
        if (kid_start(&kid, hold_registered, path) != 0)
                skip_because("no io_uring here");
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_int_equal(count_hits(&scan, kid.pid, ~0U), 1);
        assert_true(find_hit(&scan, kid.pid, GPUFREE_VIA_IO_URING)->rdev == stage->dev[0].rdev);
        assert_int_equal(scan.opaque_queues, 0);
        gf_scan_done(&scan);
        /* Another device's number, the same ring: nothing. */
        scan_for(&stage->dev[1].rdev, 1, kid.pid, &scan);
        assert_int_equal(scan.hits.n, 0);
        gf_scan_done(&scan);
        kid_end(&kid);
}

static int hold_registered_deleted(void *arg)
{
        int r = hold_registered(arg);

        return r == 0 && unlink(arg) < 0 ? errno : r;
}

static void a_registered_file_without_a_name_is_said(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        char path[128];
        struct kid kid;

        if (!stage_node(stage, 2, "ringed", path))
                skip_because("no right to make device nodes");
        if (kid_start(&kid, hold_registered_deleted, path) != 0)
                skip_because("no io_uring here");
        scan_for(&stage->dev[2].rdev, 1, kid.pid, &scan);
        assert_true(is_opaque(&scan, kid.pid));
        gf_scan_done(&scan);
        kid_end(&kid);
}

static int hold_mapped_ring(void *arg)
{
        int fd = stage_open(arg), ring = fd < 0 ? fd : ring_with(fd);
        void *p;

        if (ring < 0)
                return -ring;
        p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
        if (p == MAP_FAILED)
                return errno;
        (void)close(fd);
        (void)close(ring);
        return 0;
}

static void a_ring_that_is_only_mapped_is_said(void **state)
{
        const struct stage *stage = *state;
        struct gf_scan scan = { 0 };
        char path[128];
        struct kid kid;

        (void)snprintf(path, sizeof(path), "%s", stage->dev[0].path);
        if (geteuid() != 0)
                skip_because("map_files is for root");
        if (kid_start(&kid, hold_mapped_ring, path) != 0)
                skip_because("no io_uring here");
        scan_for(&stage->dev[0].rdev, 1, kid.pid, &scan);
        assert_true(is_opaque(&scan, kid.pid));
        gf_scan_done(&scan);
        kid_end(&kid);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(a_descriptor_is_found, kids_end),
                cmocka_unit_test_teardown(a_device_with_another_number_is_not, kids_end),
                cmocka_unit_test_teardown(a_mapping_without_descriptor_is_found, kids_end),
                cmocka_unit_test_teardown(another_node_with_the_number_is_found, kids_end),
                cmocka_unit_test_teardown(an_unlinked_node_is_found_and_noted, kids_end),
                cmocka_unit_test_teardown(a_mapping_of_an_unlinked_node_is_found, kids_end),
                cmocka_unit_test_teardown(o_path_does_not_hold, kids_end),
                cmocka_unit_test_teardown(access_mode_3_holds, kids_end),
                cmocka_unit_test_teardown(a_thread_with_its_own_table_is_found, kids_end),
                cmocka_unit_test_teardown(a_zombie_leader_s_descriptor_is_found, kids_end),
                cmocka_unit_test_teardown(a_zombie_leader_s_mapping_is_found, kids_end),
                cmocka_unit_test_teardown(a_shared_table_is_counted_once, kids_end),
                cmocka_unit_test_teardown(a_process_in_other_namespaces_is_found, kids_end),
                cmocka_unit_test_teardown(a_descriptor_in_a_socket_is_said, kids_end),
                cmocka_unit_test_teardown(a_descriptor_in_a_connection_not_accepted_is_said, kids_end),
                cmocka_unit_test_teardown(sockets_with_mere_data_are_not, kids_end),
                cmocka_unit_test_teardown(a_file_registered_with_io_uring_is_found, kids_end),
                cmocka_unit_test_teardown(a_registered_file_without_a_name_is_said, kids_end),
                cmocka_unit_test_teardown(a_ring_that_is_only_mapped_is_said, kids_end),
        };

        if (!take_roles(argc, argv))
                return 0;
        return cmocka_run_group_tests(tests, stage_setup, stage_teardown);
}

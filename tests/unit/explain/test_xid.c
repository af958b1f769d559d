/* SPDX-License-Identifier: MIT */
#include "../unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "explain/xid.h"
#include "gpufree.h"

static int parse(const char *record, struct gf_xid *xid)
{
        return gf_xid_parse(record, strlen(record), xid);
}

static void an_xid_is_read_with_gpu_and_pid(void **state)
{
        struct gf_xid xid = { 0 };

        (void)state;
        assert_int_equal(
                parse("4,1234,56789012,-;NVRM: Xid (PCI:0000:3A:00): 31, pid=4242, name=python, Ch 00000008\n", &xid),
                1);
        assert_int_equal(xid.number, 31);
        assert_string_equal(xid.pci, "0000:3a:00");
        assert_int_equal(xid.pid, 4242);
        assert_int_equal(xid.time_us, 56789012);
        assert_true(gf_xid_is_of(&xid, "0000:3a:00.0"));
        assert_false(gf_xid_is_of(&xid, "0000:3a:01.0"));
        assert_false(gf_xid_is_of(&xid, NULL));
        free(xid.line);
        assert_int_equal(parse("4,1,2,-;NVRM: Xid (0000:03:00): 79, GPU has fallen off the bus.", &xid), 1);
        assert_int_equal(xid.number, 79);
        assert_int_equal(xid.pid, 0);
        free(xid.line);
        assert_int_equal(parse("3,1,2,-;NVRM: Xid (PCI:0000:03:00): 45, pid='77', name=x", &xid), 1);
        assert_int_equal(xid.pid, 77);
        free(xid.line);
}

static void a_blocked_task_is_read(void **state)
{
        struct gf_xid xid = { 0 };

        (void)state;
        assert_int_equal(parse("3,9,99,-;INFO: task vllm::Engine:4242 blocked for more than 120 seconds.", &xid), 1);
        assert_int_equal(xid.number, 0);
        assert_int_equal(xid.pid, 4242);
        assert_string_equal(xid.pci, "");
        free(xid.line);
}

static void other_lines_are_none(void **state)
{
        static const char *const lines[] = {
                "",
                "no head",
                "4,1,2,-;",
                "4,1,2,-;NVRM: Xid (PCI:0000:03:00)",
                "4,1,2,-;NVRM: Xid (PCI:0000:03:00): x",
                "4,1,2,-;NVRM: Xid (PCI:0000:03:00:0000:0000:0000): 1",
                "4,1,2,-;NVRM: Xid (: 1",
                "4,1,2,-;INFO: task : blocked for more than 1 seconds.",
                "4,1,2,-;INFO: task 12 blocked for more than 1 seconds.",
                "4,1,2,-;systemd[1]: started",
                /* of a user who may write to the log: facility 1 */
                "12,1,2,-;NVRM: Xid (PCI:0000:03:00): 79, forged",
        };
        struct gf_xid xid;

        (void)state;
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                assert_int_equal(parse(lines[i], &xid), 0);
}

static void every_number_has_a_sentence(void **state)
{
        (void)state;
        for (unsigned i = 0; i < 300; i++)
                assert_true(strlen(gf_xid_meaning(i)) > 10);
        assert_int_equal(gf_xid_find(79)->remedy, GF_REMEDY_REBOOT);
        assert_int_equal(gf_xid_find(31)->remedy, GF_REMEDY_APPLICATION);
        assert_null(gf_xid_find(299));
}

static void a_log_is_read_latest_first(void **state)
{
        static const char text[] = "6,1,1000,-;nothing\n4,2,2000,-;NVRM: Xid (PCI:0000:18:00): 31, pid=1\n"
                                   " SUBSYSTEM=pci\n4,3,3000,-;NVRM: Xid (PCI:0000:18:00): 79, lost\n";
        char path[] = "/tmp/gpufree-log-XXXXXX";
        struct gf_kernel_log log = { 0 };
        int fd = mkstemp(path);

        (void)state;
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
        close(fd);
        assert_int_equal(gf_kernel_log_read(path, &log), 0);
        assert_null(log.error);
        assert_int_equal(log.xids.n, 2);
        assert_int_equal(log.xids.v[0].number, 79);
        assert_int_equal(log.xids.v[1].number, 31);
        assert_true(log.xids.v[1].age_ms < GPUFREE_UNKNOWN);
        gf_kernel_log_done(&log);
        unlink(path);
}

static void the_latest_of_many_are_kept(void **state)
{
        char path[] = "/tmp/gpufree-log-XXXXXX";
        struct gf_kernel_log log = { 0 };
        int fd = mkstemp(path);

        (void)state;
        assert_true(fd >= 0);
        for (int i = 1; i <= 100; i++)
                dprintf(fd, "4,%d,%d,-;NVRM: Xid (PCI:0000:18:00): %d, x\n", i, i, i);
        close(fd);
        assert_int_equal(gf_kernel_log_read(path, &log), 0);
        assert_int_equal(log.xids.n, 64);
        assert_int_equal(log.xids.v[0].number, 100);
        gf_kernel_log_done(&log);
        unlink(path);
}

static void a_log_that_cannot_be_read_says_so(void **state)
{
        struct gf_kernel_log log = { 0 };

        (void)state;
        assert_int_equal(gf_kernel_log_read("/nonexistent/kmsg", &log), 0);
        assert_non_null(strstr(log.error, "could not be read"));
        gf_kernel_log_done(&log);
}

/* The real one, where it may be read: it ends, whatever the machine writes to it meanwhile. */
static void the_real_log_ends(void **state)
{
        struct gf_kernel_log log = { 0 };

        (void)state;
        assert_int_equal(gf_kernel_log_read("/dev/kmsg", &log), 0);
        gf_kernel_log_done(&log);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_xid_is_read_with_gpu_and_pid),
                cmocka_unit_test(a_blocked_task_is_read),
                cmocka_unit_test(other_lines_are_none),
                cmocka_unit_test(every_number_has_a_sentence),
                cmocka_unit_test(a_log_is_read_latest_first),
                cmocka_unit_test(the_latest_of_many_are_kept),
                cmocka_unit_test(a_log_that_cannot_be_read_says_so),
                cmocka_unit_test(the_real_log_ends),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

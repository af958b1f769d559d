/* SPDX-License-Identifier: MIT */
/* A glance says yes only to what this very process has open; everything else is left to a scan. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "scan/scan.h"
#include "sys/pidstat.h"

static bool any(const struct gf_hit *hit, void *userdata)
{
        *(int *)userdata = hit->fd;
        return true;
}

static bool none(const struct gf_hit *hit, void *userdata)
{
        (void)hit;
        ++*(int *)userdata;
        return false;
}

static void what_is_open_counts(void **state)
{
        const dev_t full[] = { makedev(1, 7) };
        const struct gf_wanted wanted = { .chr = full, .n_chr = 1 }, block = { .blk = full, .n_blk = 1 };
        _cleanup_(gf_env_done) struct gf_env env = { 0 };
        struct gf_pidstat stat;
        struct gf_ident id = { .pid = getpid() };
        int fd, found = -1, asked = 0;

        (void)state;
        gf_env_init(&env);
        assert_int_equal(gf_env_defaults(&env), 0);
        assert_int_equal(gf_pidstat_read(&env, id.pid, &stat), 0);
        id.start_ticks = stat.start_ticks;
        assert_int_equal(gf_scan_glance(&env, &wanted, &id, any, &found), 0);
        fd = open("/dev/full", O_PATH | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(gf_scan_glance(&env, &wanted, &id, any, &found), 0); /* names it, does not hold it */
        assert_int_equal(close(fd), 0);
        fd = open("/dev/full", O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(gf_scan_glance(&env, &wanted, &id, any, &found), 1);
        assert_int_equal(found, fd);
        assert_int_equal(gf_scan_glance(&env, &block, &id, any, &found), 0);
        assert_int_equal(gf_scan_glance(&env, &wanted, &id, none, &asked), 0);
        assert_int_equal(asked, 1);
        id.start_ticks++; /* another process had this PID */
        assert_int_equal(gf_scan_glance(&env, &wanted, &id, any, &found), -ESRCH);
        assert_int_equal(close(fd), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_open_counts) };

        cmocka_set_message_output(CM_OUTPUT_TAP);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

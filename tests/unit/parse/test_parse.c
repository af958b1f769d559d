/* SPDX-License-Identifier: MIT */
#include "../unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpufree.h"
#include "parse/fdinfo.h"
#include "parse/maps.h"
#include "parse/process.h"
#include "parse/text.h"

/* A copy without a NUL, of exactly the length: a read beyond it is seen by the sanitizer. */
static char *exact(const char *text, size_t length)
{
        char *copy = malloc(length ? length : 1);

        assert_non_null(copy);
        memcpy(copy, text, length);
        return copy;
}

#define TAIL                                                                                                           \
        "S 1 42 43 34816 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0 12345 4096 1 18446744073709551615 1 1 0 0 0 0 0 0 0 0 " \
        "0 0 "                                                                                                         \
        "17 0 0 0 0 0 0\n"

static int stat_of(const char *text, struct gf_stat *stat)
{
        char *copy = exact(text, strlen(text));
        int r = gf_parse_stat(copy, strlen(text), stat);

        free(copy);
        return r;
}

static void stat_is_read(void **state)
{
        struct gf_stat stat;

        (void)state;
        assert_int_equal(stat_of("77 (python3) " TAIL, &stat), 0);
        assert_int_equal(stat.pid, 77);
        assert_string_equal(stat.comm, "python3");
        assert_int_equal(stat.state, 'S');
        assert_int_equal(stat.ppid, 1);
        assert_int_equal(stat.pgrp, 42);
        assert_int_equal(stat.session, 43);
        assert_int_equal(stat.tty, 34816);
        assert_int_equal(stat.threads, 3);
        assert_int_equal(stat.start_ticks, 12345);
        assert_false(gf_stat_kernel_thread(&stat));
        assert_false(gf_stat_dead(&stat));
}

static void a_hostile_name_moves_no_field(void **state)
{
        static const char *const names[] = {
                ")", "(", "", " ", "a) R 1 1 1 (", ") Z 1 1", "x\ny", "\n", "a)b", "1 (2) S", "\x1b[31m", "\xff\xfe",
        };
        struct gf_stat stat;
        char text[512];

        (void)state;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                (void)snprintf(text, sizeof(text), "77 (%s) " TAIL, names[i]);
                assert_int_equal(stat_of(text, &stat), 0);
                assert_string_equal(stat.comm, names[i]);
                assert_int_equal(stat.start_ticks, 12345);
                assert_int_equal(stat.ppid, 1);
        }
}

static void kernel_threads_and_zombies_are_told(void **state)
{
        struct gf_stat stat;

        (void)state;
        assert_int_equal(stat_of("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0", &stat), 0);
        assert_true(gf_stat_kernel_thread(&stat));
        assert_int_equal(
                stat_of("9 (kworker/u9:1-events_freezable_power_xxxxxx) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 "
                        "0 1 0 1 0 0",
                        &stat),
                0);
        assert_int_equal(stat_of("5 (a) Z 1 5 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0", &stat), 0);
        assert_true(gf_stat_dead(&stat));
        assert_int_equal(stat_of("5 (a) Z 1 5 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 2 0 9 0 0", &stat), 0);
        assert_false(gf_stat_dead(&stat));
}

static void a_stat_cut_short_is_refused(void **state)
{
        const char whole[] = "77 (a) S 1 42 43 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0 12345";
        struct gf_stat stat = { .pid = 4711 };

        (void)state;
        for (size_t n = 0; n < sizeof(whole) - 6; n++) {
                char *copy = exact(whole, n);

                assert_int_equal(gf_parse_stat(copy, n, &stat), -EINVAL);
                assert_int_equal(stat.pid, 4711);
                free(copy);
        }
        assert_int_equal(stat_of(whole, &stat), 0);
        assert_int_equal(stat_of("-1 (a) " TAIL, &stat), -EINVAL);
        assert_int_equal(stat_of("99999999999 (a) " TAIL, &stat), -EINVAL);
        assert_int_equal(stat_of("1 a " TAIL, &stat), -EINVAL);
        assert_int_equal(stat_of("1 (a) S x 42 43 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0 12345", &stat), -EINVAL);
        assert_int_equal(stat_of("1 (a) S 99999999999 42 43 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0 12345", &stat),
                         -EINVAL);
}

static void status_is_read_by_line(void **state)
{
        static const char text[] =
                "Name:\ta\\nUid:\\t0\n" /* escaped by the kernel */
                "Umask:\t0022\nState:\tS (sleeping)\nTgid:\t12\nNgid:\t0\nPid:\t12\nPPid:\t7\n"
                "Uid:\t1000\t1001\t1002\t1003\nGid:\t1\t1\t1\t1\nNStgid:\t12\t3\t1\nNSpid:\t12\t3\t1\n"
                "Threads:\t64\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004100\n"
                "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\nCapEff:\t000001ffffffffff\n";
        struct gf_status status;
        char *copy = exact(text, strlen(text));

        (void)state;
        gf_parse_status(copy, strlen(text), &status);
        free(copy);
        assert_int_equal(status.ruid, 1000);
        assert_int_equal(status.euid, 1001);
        assert_int_equal(status.tgid, 12);
        assert_int_equal(status.ppid, 7);
        assert_int_equal(status.nspid, 1);
        assert_int_equal(status.nspid_levels, 3);
        assert_int_equal(status.threads, 64);
        assert_int_equal(status.shared_pending, 0x4100);
        assert_int_equal(status.sig_ignored, 0x1000);
        assert_true(status.cap_effective == 0x1ffffffffffU);
}

static void a_bad_status_leaves_unknown(void **state)
{
        static const char *const texts[] = {
                "",
                "Uid:",
                "Uid:\t",
                "Uid:\tx\ty",
                "Uid:\t1",
                "Uid:\t5000000000\t5000000000",
                "NSpid:\t1\t\n",
                "Threads:\t-1",
                "Uid: 0 0",
        };
        struct gf_status status;

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                char *copy = exact(texts[i], strlen(texts[i]));

                gf_parse_status(copy, strlen(texts[i]), &status);
                free(copy);
                assert_int_equal(status.euid, UINT32_MAX);
                assert_int_equal(status.nspid, 0);
                assert_int_equal(status.threads, 0);
        }
}

static void cgroup_splits_at_two_colons_only(void **state)
{
        struct gf_cgroup_line line;
        const char *text = "4:cpu,memory:/a:b/docker-1.scope:x";

        (void)state;
        assert_int_equal(gf_parse_cgroup_line(text, strlen(text), &line), 0);
        assert_int_equal(line.id, 4);
        assert_int_equal(line.n_controllers, strlen("cpu,memory"));
        assert_int_equal(line.n_path, strlen("/a:b/docker-1.scope:x"));
        assert_memory_equal(line.path, "/a:b", 4);
        assert_int_equal(gf_parse_cgroup_line("0::/", 4, &line), 0);
        assert_int_equal(line.n_controllers, 0);
        assert_int_equal(gf_parse_cgroup_line("1:name=systemd:/../x (deleted)", 30, &line), 0);
        assert_int_equal(gf_parse_cgroup_line("", 0, &line), -EINVAL);
        assert_int_equal(gf_parse_cgroup_line("0::", 3, &line), -EINVAL);
        assert_int_equal(gf_parse_cgroup_line("0:", 2, &line), -EINVAL);
        assert_int_equal(gf_parse_cgroup_line("0::x", 4, &line), -EINVAL);
        assert_int_equal(gf_parse_cgroup_line("x::/", 4, &line), -EINVAL);
}

static void a_maps_line_is_read(void **state)
{
        static const char text[] = "7f12a0000000-7f12a0021000 rw-s 00001000 fe:01 123456789                     "
                                   "/dev/a b\\012c (deleted)";
        struct gf_map map;
        char path[64], *copy = exact(text, strlen(text));

        (void)state;
        assert_int_equal(gf_parse_maps_line(copy, strlen(text), &map), 0);
        assert_true(map.start == 0x7f12a0000000U && map.end == 0x7f12a0021000U);
        assert_string_equal(map.perms, "rw-s");
        assert_int_equal(map.offset, 0x1000);
        assert_int_equal(map.dev_major, 0xfe);
        assert_int_equal(map.dev_minor, 1);
        assert_int_equal(map.ino, 123456789);
        assert_true(gf_text_unescape(map.name, map.n_name, path, sizeof(path)));
        assert_string_equal(path, "/dev/a b\nc (deleted)");
        free(copy);
}

static void other_maps_lines(void **state)
{
        static const char *const bad[] = {
                "",
                "x",
                "1-",
                "1-2",
                "1-2 ",
                "1-2 rw",
                "1-2 rwxp",
                "1-2 rwxp 0",
                "1-2 rwxp 0 1:",
                "1-2 rwxp 0 1:2 ",
                "1-2 rwxp 0 1:2 3x",
                "11111111111111111-2 rwxp 0 1:2 3",
                "1 2 rwxp 0 1:2 3",
        };
        const char *anonymous = "1000-2000 rw-p 00000000 00:00 0 ";
        struct gf_map map;

        (void)state;
        assert_int_equal(gf_parse_maps_line(anonymous, strlen(anonymous), &map), 0);
        assert_int_equal(map.ino, 0);
        assert_int_equal(map.n_name, 0);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                char *copy = exact(bad[i], strlen(bad[i]));

                assert_int_equal(gf_parse_maps_line(copy, strlen(bad[i]), &map), -EINVAL);
                free(copy);
        }
}

static void fdinfo_says_what_it_is(void **state)
{
        static const char dmabuf[] = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t55\nsize:\t2147483648\ncount:\t2\n"
                                     "exp_name:\tnv_dmabuf\n";
        struct gf_fdinfo info;

        (void)state;
        gf_parse_fdinfo(dmabuf, strlen(dmabuf), &info);
        assert_string_equal(info.exporter, "nv_dmabuf");
        assert_true(info.size == 2147483648U);
        assert_false(gf_fdinfo_o_path(&info));
        gf_parse_fdinfo("pos:\t0\nflags:\t010000000\n", 25, &info);
        assert_true(gf_fdinfo_o_path(&info));
        assert_true(info.size == GPUFREE_UNKNOWN);
        gf_parse_fdinfo("flags:\t02\nscm_fds: 3\n", 21, &info);
        assert_int_equal(info.scm_fds, 3);
        gf_parse_fdinfo("", 0, &info);
        assert_false(info.has_flags);
        assert_false(gf_fdinfo_o_path(&info));
        assert_int_equal(info.scm_fds, 0);
}

static void a_hostile_dmabuf_name_changes_nothing(void **state)
{
        /* The buffer's own name is free text of the process that made it, and comes last. */
        static const char text[] =
                "flags:\t02\nsize:\t4096\ncount:\t1\nexp_name:\tnv_dmabuf\nname:\tx\nexp_name:\tudmabuf\n"
                "size:\t1\nflags:\t010000000\n";
        static const char longer[] = "exp_name:\tthe_name_of_an_exporter_that_is_much_too_long_for_us\n";
        struct gf_fdinfo info;

        (void)state;
        gf_parse_fdinfo(text, strlen(text), &info);
        assert_string_equal(info.exporter, "nv_dmabuf");
        assert_int_equal(info.size, 4096);
        assert_false(gf_fdinfo_o_path(&info));
        gf_parse_fdinfo(longer, strlen(longer), &info);
        assert_int_equal(strlen(info.exporter), sizeof(info.exporter) - 1);
}

static size_t ring_files(const char *text, struct gf_ring_text *ring, char names[][64], size_t max)
{
        struct gf_text t = { text, text + strlen(text) }, line;
        size_t n = 0;

        *ring = (struct gf_ring_text){ 0 };
        while (gf_text_line(&t, &line)) {
                const char *name;
                size_t length;

                if (gf_ring_line(ring, line.p, (size_t)(line.end - line.p), &name, &length) && n < max)
                        assert_true(gf_text_unescape(name, length, names[n++], 64));
        }
        return n;
}

static void registered_files_of_a_ring(void **state)
{
        struct gf_ring_text ring;
        char names[8][64];

        (void)state;
        assert_int_equal(ring_files("flags:\t02\nSqMask:\t0x7\n   3: opcode:READ\nUserFiles:\t4\n    0: /dev/nvidia0\n"
                                    "    1: <none>\n    2: socket:[99]\n    3: /tmp/a\\040b\nUserBufs:\t1\n"
                                    "    0: 0x1000/4096\nPollList:\n",
                                    &ring, names, 8),
                         3);
        assert_string_equal(names[0], "/dev/nvidia0");
        assert_string_equal(names[1], "socket:[99]");
        assert_string_equal(names[2], "/tmp/a b");
        assert_int_equal(ring.slots, 4);
        assert_int_equal(ring.lines, 4);
        assert_int_equal(ring_files("UserFiles:\t2\nUserBufs:\t0\n", &ring, names, 8), 0);
        assert_true(ring.seen);
        assert_int_equal(ring.lines, 0);
        assert_int_equal(ring_files("flags:\t02\n", &ring, names, 8), 0);
        assert_false(ring.seen);
}

static void mountinfo_and_hidepid(void **state)
{
        static const char text[] =
                "22 27 0:21 / /a\\040proc rw,relatime shared:5 master:1 - proc proc rw,hidepid=invisible,"
                "gid=27";
        struct gf_mount mount;
        uint32_t gid;

        (void)state;
        assert_int_equal(gf_parse_mountinfo_line(text, strlen(text), &mount), 0);
        assert_int_equal(mount.dev_minor, 21);
        assert_int_equal(mount.n_point, strlen("/a\\040proc"));
        assert_memory_equal(mount.fstype, "proc", 4);
        assert_int_equal(gf_parse_hidepid(mount.super_options, mount.n_super_options, &gid), GF_HIDEPID_INVISIBLE);
        assert_int_equal(gid, 27);
        assert_int_equal(gf_parse_hidepid("rw", 2, &gid), GF_HIDEPID_OFF);
        assert_int_equal(gid, 0);
        assert_int_equal(gf_parse_hidepid("rw,hidepid=1", 12, &gid), GF_HIDEPID_NOACCESS);
        assert_int_equal(gf_parse_hidepid("hidepid=2,rw", 12, &gid), GF_HIDEPID_INVISIBLE);
        assert_int_equal(gf_parse_hidepid("rw,hidepid=4", 12, &gid), GF_HIDEPID_PTRACEABLE);
        assert_int_equal(gf_parse_hidepid("rw,hidepid=off", 14, &gid), GF_HIDEPID_OFF);
        for (size_t n = 0; n < strlen("22 27 0:21 / /p rw - proc proc"); n++)
                (void)gf_parse_mountinfo_line("22 27 0:21 / /p rw - proc proc", n, &mount);
        assert_int_equal(gf_parse_mountinfo_line("22 27 0:21 / /p rw", 18, &mount), -EINVAL);
}

static void unescaping_is_bounded(void **state)
{
        char out[5];

        (void)state;
        assert_true(gf_text_unescape("a\\0", 3, out, sizeof(out))); /* cut short: stays */
        assert_string_equal(out, "a\\0");
        assert_true(gf_text_unescape("\\134012", 7, out, sizeof(out)));
        assert_string_equal(out, "\\012");
        assert_false(gf_text_unescape("12345", 5, out, sizeof(out)));
        assert_true(gf_text_unescape("1234", 4, out, sizeof(out)));
        assert_true(gf_text_unescape("\\777", 4, out, sizeof(out))); /* no byte */
        assert_string_equal(out, "\\777");
        assert_false(gf_text_unescape("", 0, out, 0));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(stat_is_read),
                cmocka_unit_test(a_hostile_name_moves_no_field),
                cmocka_unit_test(kernel_threads_and_zombies_are_told),
                cmocka_unit_test(a_stat_cut_short_is_refused),
                cmocka_unit_test(status_is_read_by_line),
                cmocka_unit_test(a_bad_status_leaves_unknown),
                cmocka_unit_test(cgroup_splits_at_two_colons_only),
                cmocka_unit_test(a_maps_line_is_read),
                cmocka_unit_test(other_maps_lines),
                cmocka_unit_test(fdinfo_says_what_it_is),
                cmocka_unit_test(a_hostile_dmabuf_name_changes_nothing),
                cmocka_unit_test(registered_files_of_a_ring),
                cmocka_unit_test(mountinfo_and_hidepid),
                cmocka_unit_test(unescaping_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

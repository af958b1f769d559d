/* SPDX-License-Identifier: MIT */
/* The pure parts of the guard. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "guard/choose.h"
#include "guard/http.h"
#include "guard/near.h"
#include "guard/probe.h"
#include "guard/pulse.h"
#include "guard/visible.h"
#include "guard/where.h"

static void a_url_is_split_into_host_port_and_path(void **state)
{
        static const struct {
                const char *url, *host, *port, *path;
        } good[] = {
                { "http://127.0.0.1:8000/health", "127.0.0.1", "8000", "/health" },
                { "http://localhost", "localhost", "80", "/" },
                { "HTTP://h/a?b=c#d", "h", "80", "/a?b=c" },
                { "http://h?x", "h", "80", "/?x" },
                { "http://[::1]:9/", "::1", "9", "/" },
        };
        static const char *const bad[] = { "",
                                           "127.0.0.1:80",
                                           "ftp://h/",
                                           "http://",
                                           "http:///x",
                                           "http://h:/",
                                           "http://u@h/",
                                           "http://[::1/",
                                           "http://[::1]x/",
                                           "http://h/a b",
                                           "http://h/\r\nX: y" };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                _cleanup_free_ char *host = NULL, *port = NULL, *path = NULL;

                assert_int_equal(gf_http_split(good[i].url, &host, &port, &path), 0);
                assert_string_equal(host, good[i].host);
                assert_string_equal(port, good[i].port);
                assert_string_equal(path, good[i].path);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                char *host, *port, *path;

                assert_int_equal(gf_http_split(bad[i], &host, &port, &path), -EINVAL);
        }
}

static void a_tcp_address_needs_a_host_and_a_port(void **state)
{
        static const char *const bad[] = { "", "80", ":80", "h:", "h:0", "h:65536", "h:x", "::1:80", "[]:80" };
        _cleanup_free_ char *host = NULL, *port = NULL;
        char *h, *p;

        (void)state;
        assert_int_equal(gf_probe_split("[fe80::1]:443", &host, &port), 0);
        assert_string_equal(host, "fe80::1");
        assert_string_equal(port, "443");
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(gf_probe_split(bad[i], &h, &p), -EINVAL);
}

static void the_same_bridge_is_nearer_than_another_one(void **state)
{
        const char *a = "../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0";
        const char *b = "../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:19:00.0";
        const char *c = "../../../devices/pci0000:97/0000:97:01.0/0000:9a:00.0";

        (void)state;
        assert_int_equal(gf_near_distance(a, a), 0);
        assert_true(gf_near_distance(a, b) < gf_near_distance(a, c));
        assert_int_equal(gf_near_distance(a, c), gf_near_distance(c, a));
        assert_int_equal(gf_near_distance(a, NULL), 100);
}

static void each_vendor_gets_its_own_variables(void **state)
{
        static char uuid[] = "GPU-aaaa", other[] = "GPU-bbbb";
        struct gpufree_gpu gpus[] = {
                { .index = 0, .uuid = uuid, .vendor = GPUFREE_VENDOR_NVIDIA },
                { .index = 1, .uuid = other, .vendor = GPUFREE_VENDOR_NVIDIA },
                { .index = -1, .vendor = GPUFREE_VENDOR_AMD },
                { .index = -1, .vendor = GPUFREE_VENDOR_AMD },
        };
        struct gpufree_snapshot snapshot = { .inventory = { .gpus = { gpus, ELEMENTSOF(gpus), ELEMENTSOF(gpus) } } };
        const size_t nvidia[] = { 0, 1 }, mixed[] = { 1, 3 };
        gf_strv environment = { 0 };

        (void)state;
        assert_int_equal(gf_visible(&snapshot, nvidia, 2, &environment), 0);
        assert_int_equal(environment.n, 1);
        assert_string_equal(environment.v[0], "CUDA_VISIBLE_DEVICES=GPU-aaaa,GPU-bbbb");
        gf_strv_done(&environment);
        assert_int_equal(gf_visible(&snapshot, mixed, 2, &environment), 0);
        assert_true(gf_strv_has(&environment, "CUDA_VISIBLE_DEVICES=GPU-bbbb"));
        assert_true(gf_strv_has(&environment, "ROCR_VISIBLE_DEVICES=1"));
        assert_true(gf_strv_has(&environment, "HIP_VISIBLE_DEVICES=0"));
        gf_strv_done(&environment);
}

static void heartbeats_are_no_movement_and_slow_growth_is(void **state)
{
        const uint64_t hz = 100, mib = 1 << 20;
        struct gf_pulse pulse = { 0 };

        (void)state;
        gf_pulse_note(&pulse, 1000, 100 * mib, 50, 0, 3, hz);
        assert_int_equal(pulse.moved_ms, 1000);
        gf_pulse_note(&pulse, 2000, 100 * mib, 55, 0, 3, hz); /* 5 % of a processor */
        assert_int_equal(pulse.moved_ms, 1000);
        assert_int_equal(pulse.percent, 5);
        for (unsigned i = 1; i <= 4; i++) /* a quarter of the step each time */
                gf_pulse_note(&pulse, 2000 + 1000 * i, 100 * mib + i * mib / 4, 55, 0, 3, hz);
        assert_int_equal(pulse.memory_ms, 6000);
        gf_pulse_note(&pulse, 7000, 101 * mib, 155, 0, 3, hz);
        assert_int_equal(pulse.moved_ms, 7000);
        gf_pulse_note(&pulse, 8000, 101 * mib, 155, 10, 3, hz); /* the log grew */
        assert_int_equal(pulse.moved_ms, 8000);
        gf_pulse_note(&pulse, 9000, GPUFREE_UNKNOWN, 155, 10, 3, hz);
        assert_int_equal(pulse.memory_ms, 9000);
        gf_pulse_note(&pulse, 9000, GPUFREE_UNKNOWN, 155, 10, 3, hz); /* twice in a moment: no division by zero */
}

static void a_wait_is_named_by_system_call_then_by_kernel_function(void **state)
{
        _cleanup_free_ char *futex = gf_asprintf("%ld 0x1 0x2\n", (long)SYS_futex), *a = NULL, *b = NULL, *c = NULL,
                            *d = NULL;

        (void)state;
        a = gf_where_describe('S', futex, "0");
        b = gf_where_describe('D', "99999 0x0", "nv_wait_event");
        c = gf_where_describe('S', NULL, NULL);
        d = gf_where_describe('T', futex, NULL);
        assert_non_null(strstr(a, "futex"));
        assert_string_equal(b, "nv_wait_event");
        assert_string_equal(c, "a place that cannot be seen");
        assert_string_equal(d, "stopped");
}

static void only_what_the_same_user_left_is_left_over(void **state)
{
        struct gpufree_gpu gpu = { .index = 0, .selected = true };
        struct gf_gpu_use use = { .gpu = 0, .context = true };
        static char orphan[] = "orphan", why[] = "a service";
        char *notes[] = { orphan };
        struct gpufree_holder holder = {
                .selected = true, .facts = { .uid = 1000 }, .gpus = { &use, 1, 1 }, .notes = { notes, 1, 1 }
        };
        struct gpufree_snapshot snapshot = { .inventory = { .gpus = { &gpu, 1, 1 } }, .holders = { &holder, 1, 1 } };

        (void)state;
        assert_true(gf_choose_is_leftover(&snapshot, 0, 1000, true));
        assert_false(gf_choose_is_leftover(&snapshot, 0, 1001, false));
        holder.notes.n = 0;
        assert_true(gf_choose_is_leftover(&snapshot, 0, 1000, false));
        assert_false(gf_choose_is_leftover(&snapshot, 0, 1000, true));
        holder.protected_why = why;
        assert_false(gf_choose_is_leftover(&snapshot, 0, 1000, false));
        holder.protected_why = NULL;
        snapshot.holders.n = 0;
        assert_false(gf_choose_is_leftover(&snapshot, 0, 1000, false));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_url_is_split_into_host_port_and_path),
                cmocka_unit_test(a_tcp_address_needs_a_host_and_a_port),
                cmocka_unit_test(the_same_bridge_is_nearer_than_another_one),
                cmocka_unit_test(each_vendor_gets_its_own_variables),
                cmocka_unit_test(heartbeats_are_no_movement_and_slow_growth_is),
                cmocka_unit_test(a_wait_is_named_by_system_call_then_by_kernel_function),
                cmocka_unit_test(only_what_the_same_user_left_is_left_over),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

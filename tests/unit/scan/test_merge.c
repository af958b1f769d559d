/* SPDX-License-Identifier: MIT */
#include "help.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "scan/dmabuf.h"
#include "scan/merge.h"

static struct gpufree_snapshot *snapshot_new(void)
{
        struct gpufree_snapshot *snapshot = calloc(1, sizeof(*snapshot));

        assert_non_null(snapshot);
        if (snapshot)
                snapshot->refs = 1;
        return snapshot;
}

static void add_device(struct gpufree_snapshot *snapshot, unsigned minor, ino_t ino, bool asked)
{
        struct gpufree_device *device = gf_vec_add(&snapshot->inventory.devices);

        if (device)
                *device = (struct gpufree_device){
                        .rdev = makedev(195, minor), .node_dev = 5, .node_ino = ino, .gpu = -1, .asked = asked
                };
}

static struct gf_hit *add_hit(struct gpufree_snapshot *snapshot, pid_t pid, uint64_t start, enum gpufree_via via,
                              unsigned minor)
{
        static struct gf_hit none;
        struct gf_hit *hit = gf_vec_add(&snapshot->scan.hits);

        if (!hit)
                return &none;
        *hit = (struct gf_hit){
                .id = { pid, start },
                .tid = pid,
                .via = via,
                .rdev = makedev(195, minor),
                .fd = 3,
                .bytes = GPUFREE_UNKNOWN,
        };
        return hit;
}

static struct gf_hit *add_buffer(struct gpufree_snapshot *snapshot, pid_t pid, ino_t ino, uint64_t bytes,
                                 const char *exporter)
{
        struct gf_hit *hit = add_hit(snapshot, pid, 1, GPUFREE_VIA_DMABUF, 0);

        hit->rdev = 0;
        hit->node_ino = ino;
        hit->bytes = bytes;
        (void)snprintf(hit->exporter, sizeof(hit->exporter), "%s", exporter);
        return hit;
}

static void hits_of_a_process_are_one_holder(void **state)
{
        struct gpufree_snapshot *s = snapshot_new();
        const struct gf_device_use *use;

        (void)state;
        add_device(s, 0, 10, false);
        add_device(s, 255, 11, false);
        add_hit(s, 5, 1, GPUFREE_VIA_FD, 0);
        add_hit(s, 5, 1, GPUFREE_VIA_FD, 0);
        add_hit(s, 5, 1, GPUFREE_VIA_FD, 255);
        add_hit(s, 5, 1, GPUFREE_VIA_MAP, 0);
        add_hit(s, 5, 1, GPUFREE_VIA_IO_URING, 0);
        add_hit(s, 9, 2, GPUFREE_VIA_MAP, 255);
        assert_int_equal(gf_merge_hits(s), 0);
        assert_int_equal(s->holders.n, 2);
        assert_int_equal(s->holders.v[0].id.pid, 5);
        assert_int_equal(s->holders.v[0].devices.n, 2);
        use = &s->holders.v[0].devices.v[0];
        assert_int_equal(use->device, 0);
        assert_int_equal(use->fds, 3);
        assert_int_equal(use->maps, 1);
        assert_int_equal(use->via, GPUFREE_VIA_FD | GPUFREE_VIA_MAP | GPUFREE_VIA_IO_URING);
        assert_true(use->bytes == GPUFREE_UNKNOWN);
        assert_int_equal(s->holders.v[1].devices.v[0].device, 1);
        assert_int_equal(s->holders.v[1].devices.v[0].fds, 0);
        /* Not known yet is not zero. */
        assert_int_equal(s->holders.v[0].facts.uid, UINT32_MAX);
        assert_true(s->holders.v[0].facts.age_ms == GPUFREE_UNKNOWN);
        gpufree_snapshot_unref(s);
}

static void one_pid_twice_is_two_processes(void **state)
{
        struct gpufree_snapshot *s = snapshot_new();

        (void)state;
        add_device(s, 0, 10, false);
        add_hit(s, 5, 1, GPUFREE_VIA_FD, 0);
        add_hit(s, 5, 2, GPUFREE_VIA_FD, 0);
        add_hit(s, 5, 1, GPUFREE_VIA_MAP, 0);
        assert_int_equal(gf_merge_hits(s), 0);
        assert_int_equal(s->holders.n, 2);
        assert_int_equal(s->holders.v[0].devices.v[0].maps, 1);
        gpufree_snapshot_unref(s);
}

static void nodes_of_their_own_are_noted(void **state)
{
        struct gpufree_snapshot *s = snapshot_new();
        struct gf_hit *hit;

        (void)state;
        add_device(s, 0, 10, false);
        add_device(s, 0, 20, true); /* the same number by another path */
        hit = add_hit(s, 1, 1, GPUFREE_VIA_FD, 0);
        hit->node_dev = 5;
        hit->node_ino = 10;
        hit = add_hit(s, 2, 1, GPUFREE_VIA_FD, 0);
        hit->node_dev = 5;
        hit->node_ino = 20;
        hit = add_hit(s, 3, 1, GPUFREE_VIA_FD, 0);
        hit->node_dev = 6;
        hit->node_ino = 10;
        hit = add_hit(s, 4, 1, GPUFREE_VIA_FD, 0);
        hit->node_dev = 6;
        hit->node_ino = 10;
        hit->unlinked = true;
        add_hit(s, 5, 1, GPUFREE_VIA_FD, 0); /* node unknown */
        assert_int_equal(gf_merge_hits(s), 0);
        assert_int_equal(s->holders.n, 5);
        assert_int_equal(s->holders.v[0].notes.n, 0);
        assert_true(s->holders.v[0].asked);
        assert_int_equal(s->holders.v[1].notes.n, 0);
        assert_true(gf_strv_has(&s->holders.v[2].notes, "own-device-node"));
        assert_true(s->holders.v[2].devices.v[0].own_node);
        assert_true(gf_strv_has(&s->holders.v[3].notes, "unlinked-node"));
        assert_true(s->holders.v[3].devices.v[0].unlinked);
        assert_int_equal(s->holders.v[4].notes.n, 0);
        gpufree_snapshot_unref(s);
}

static void a_buffer_counts_once_a_holder(void **state)
{
        struct gpufree_snapshot *s = snapshot_new();

        (void)state;
        add_buffer(s, 5, 100, 1000, "nv_dmabuf");
        add_buffer(s, 5, 101, 500, "nv_dmabuf");
        add_buffer(s, 5, 100, GPUFREE_UNKNOWN, "nv_dmabuf"); /* a mapping of the first */
        add_buffer(s, 5, 102, 7, "amdgpu");
        add_buffer(s, 6, 100, 1000, "nv_dmabuf");
        add_buffer(s, 7, 103, GPUFREE_UNKNOWN, "nv_dmabuf");
        add_buffer(s, 8, 104, UINT64_MAX - 10, "nv_dmabuf");
        add_buffer(s, 8, 105, UINT64_MAX - 10, "nv_dmabuf");
        assert_int_equal(gf_merge_hits(s), 0);
        assert_int_equal(s->holders.n, 4);
        assert_int_equal(s->holders.v[0].devices.n, 2);
        assert_int_equal(s->holders.v[0].devices.v[0].device, -1);
        assert_string_equal(s->holders.v[0].devices.v[0].exporter, "nv_dmabuf");
        assert_int_equal(s->holders.v[0].devices.v[0].bytes, 1500);
        assert_int_equal(s->holders.v[0].devices.v[0].fds, 3);
        assert_int_equal(s->holders.v[0].devices.v[1].bytes, 7);
        assert_int_equal(s->holders.v[1].devices.v[0].bytes, 1000);
        assert_true(s->holders.v[2].devices.v[0].bytes == GPUFREE_UNKNOWN);
        assert_true(s->holders.v[3].devices.v[0].bytes == GPUFREE_UNKNOWN - 1); /* more than fits, but known */
        gpufree_snapshot_unref(s);
}

static void nothing_and_strange_numbers(void **state)
{
        struct gpufree_snapshot *s = snapshot_new();

        (void)state;
        assert_int_equal(gf_merge_hits(s), 0);
        assert_int_equal(s->holders.n, 0);
        add_hit(s, 5, 1, GPUFREE_VIA_FD, 3); /* not in the inventory */
        add_hit(s, 5, 1, GPUFREE_VIA_FD, 0)->block = true;
        add_device(s, 0, 10, false);
        assert_int_equal(gf_merge_hits(s), 0);
        assert_int_equal(s->holders.n, 0);
        gpufree_snapshot_unref(s);
}

static void exporters_that_are_no_gpu(void **state)
{
        (void)state;
        assert_true(gf_dmabuf_is_gpu("nv_dmabuf"));
        assert_true(gf_dmabuf_is_gpu("amdgpu"));
        assert_true(gf_dmabuf_is_gpu("a driver of tomorrow"));
        assert_true(gf_dmabuf_is_gpu(""));
        assert_false(gf_dmabuf_is_gpu("udmabuf"));
        assert_false(gf_dmabuf_is_gpu("system_heap"));
        assert_false(gf_dmabuf_is_gpu("videobuf2_common"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(hits_of_a_process_are_one_holder), cmocka_unit_test(one_pid_twice_is_two_processes),
                cmocka_unit_test(nodes_of_their_own_are_noted),     cmocka_unit_test(a_buffer_counts_once_a_holder),
                cmocka_unit_test(nothing_and_strange_numbers),      cmocka_unit_test(exporters_that_are_no_gpu),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

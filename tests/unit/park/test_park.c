/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "park/cuda_abi.h"
#include "park/park.h"
#include "park/peers.h"

#define UUID(n) "GPU-0000000" n "-1111-2222-3333-444444444444"

static void a_uuid_is_sixteen_bytes(void **state)
{
        static const unsigned char expected[16] = { 0x1a, 0x2b, 0x3c, 0x4d, 0x5e, 0x6f, 0x70, 0x81,
                                                    0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8, 0x09 };
        static const char *const wrong[] = { "",
                                             "GPU-",
                                             "1a2b3c4d-5e6f-7081-92a3-b4c5d6e7f809",
                                             "GPU-1a2b3c4d-5e6f-7081-92a3-b4c5d6e7f8",
                                             "GPU-1a2b3c4d-5e6f-7081-92a3-b4c5d6e7f80901",
                                             "GPU-1a2b3c4g-5e6f-7081-92a3-b4c5d6e7f809",
                                             "MIG-1a2b3c4d-5e6f-7081-92a3-b4c5d6e7f809" };
        unsigned char bytes[16];

        (void)state;
        assert_int_equal(gf_cuda_uuid("GPU-1a2b3c4d-5E6F-7081-92a3-b4c5d6e7f809", bytes), 0);
        assert_memory_equal(bytes, expected, sizeof(bytes));
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                assert_int_equal(gf_cuda_uuid(wrong[i], bytes), -EINVAL);
        assert_int_equal(gf_cuda_uuid(NULL, bytes), -EINVAL);
}

static void arguments_are_laid_out_as_the_driver_has_them(void **state)
{
        (void)state;
        assert_int_equal(offsetof(struct cuda_restore_args, pairs), 0);
        assert_int_equal(offsetof(struct cuda_restore_args, n_pairs), 8);
        assert_int_equal(offsetof(struct cuda_restore_args, reserved1), 56);
        assert_int_equal(sizeof(struct cuda_checkpoint_args), 64);
        assert_int_equal(sizeof(struct cuda_unlock_args), 64);
}

/* Three GPUs of the driver and one of somebody else's. */
static struct gpufree_snapshot *machine(void)
{
        static const char *const uuids[] = { UUID("0"), UUID("1"), UUID("2") };
        struct gpufree_snapshot *snapshot = calloc(1, sizeof(*snapshot));

        assert_non_null(snapshot);
        snapshot->refs = 1;
        for (int i = 0; i < 4; i++) {
                struct gpufree_gpu *gpu = gf_vec_add(&snapshot->inventory.gpus);

                assert_non_null(gpu);
                gpu->index = i < 3 ? i : -1;
                gpu->minor = i;
                gpu->vendor = i < 3 ? GPUFREE_VENDOR_NVIDIA : GPUFREE_VENDOR_AMD;
                gpu->uuid = i < 3 ? strdup(uuids[i]) : NULL;
        }
        return snapshot;
}

static struct gf_parked *user_of(struct gpufree_parking *parking, int gpu)
{
        struct gf_parked *item = gf_parking_add(parking, &(struct gf_ident){ .pid = 4711, .start_ticks = 1 });
        struct gf_park_gpu *part;

        assert_non_null(item);
        if (gpu < 0)
                return item;
        part = gf_vec_add(&item->gpus);
        assert_non_null(part);
        (void)snprintf(part->uuid, sizeof(part->uuid), UUID("%d"), gpu);
        return item;
}

/* Where GPU `from` goes, by the last hexadecimal digit of the first group; -1: no pair. */
static int goes_to(const struct gf_move *move, int from)
{
        for (uint32_t i = 0; i < move->request.n_pairs; i++)
                if (move->request.pairs[i][0][3] == from)
                        return move->request.pairs[i][1][3];
        return -1;
}

static void a_move_is_a_permutation_of_all_gpus(void **state)
{
        struct gpufree_snapshot *snapshot = machine();
        struct gpufree_parking *parking = gf_parking_new();
        struct gf_env env;
        struct gf_move move;

        (void)state;
        gf_env_init(&env);
        assert_int_equal(gf_move_parse(&env, "2", snapshot, user_of(parking, 0), &move), 0);
        assert_int_equal(move.request.n_pairs, 3);
        assert_int_equal(goes_to(&move, 0), 2);
        assert_int_equal(goes_to(&move, 1), 1);
        assert_int_equal(goes_to(&move, 2), 0);
        gf_move_narrow(&move, snapshot);
        assert_int_equal(move.request.n_pairs, 1);
        assert_int_equal(goes_to(&move, 0), 2);
        gf_move_done(&move);
        assert_int_equal(gf_move_parse(&env, "0:1,1:2", snapshot, user_of(parking, -1), &move), 0);
        assert_int_equal(goes_to(&move, 0), 1);
        assert_int_equal(goes_to(&move, 1), 2);
        assert_int_equal(goes_to(&move, 2), 0);
        gf_move_done(&move);
        assert_int_equal(gf_move_parse(&env, UUID("1"), snapshot, user_of(parking, 1), &move), 0);
        assert_int_equal(goes_to(&move, 1), 1);
        gf_move_done(&move);
        assert_int_equal(gf_move_parse(&env, NULL, snapshot, user_of(parking, 1), &move), 0);
        assert_false(move.given);
        assert_int_equal(move.request.n_pairs, 0);
        gf_env_done(&env);
        gpufree_parking_unref(parking);
        gpufree_snapshot_unref(snapshot);
}

static void a_wrong_move_is_refused(void **state)
{
        static const char *const wrong[] = {
                "3", "x", "", ",", "0:9", "0:1,1:1", "0:1,0:2", "0:1,2", ":", "0:", "GPU-"
        };
        struct gpufree_snapshot *snapshot = machine();
        struct gpufree_parking *parking = gf_parking_new();
        struct gf_env env;

        (void)state;
        gf_env_init(&env);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                struct gf_move move;

                if (gf_move_parse(&env, wrong[i], snapshot, user_of(parking, 0), &move) != -EINVAL)
                        fail_msg("\"%s\" was accepted", wrong[i]);
                assert_non_null(strstr(env.error, "--to"));
        }
        gf_env_done(&env);
        gpufree_parking_unref(parking);
        gpufree_snapshot_unref(snapshot);
}

static void the_worst_outcome_is_that_of_the_whole(void **state)
{
        static const enum gpufree_outcome rising[] = { GPUFREE_INCOMPLETE, GPUFREE_RESIDUE, GPUFREE_REFUSED,
                                                       GPUFREE_TIMEOUT, GPUFREE_HELD };
        struct gpufree_parking *parking = gf_parking_new();

        (void)state;
        assert_int_equal(gf_parking_worst(parking), GPUFREE_OK);
        for (size_t i = 0; i < ELEMENTSOF(rising); i++) {
                gf_parked_say(user_of(parking, 0), rising[i], "it is so");
                gf_parked_say(user_of(parking, 0), GPUFREE_OK, "fine");
                assert_int_equal(gf_parking_worst(parking), rising[i]);
        }
        /* What is worse is not covered up by what comes later. */
        gf_parked_say(&parking->items.v[0], GPUFREE_OK, "all is well");
        assert_string_equal(parking->items.v[0].sentence, "it is so");
        gpufree_parking_unref(parking);
}

/* A made /proc and /sys. */
static char root[] = "/tmp/gpufree-park-XXXXXX";

static void put(const char *path, const char *text)
{
        _cleanup_free_ char *whole = gf_asprintf("%s/%s", root, path);
        _cleanup_fclose_ FILE *f = NULL;

        assert_non_null(whole);
        for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
                *slash = '\0';
                (void)mkdir(whole, 0755);
                *slash = '/';
        }
        f = fopen(whole, "we");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
}

static void host_memory_is_the_least_of_machine_and_cgroups(void **state)
{
        const uint64_t gib = 1ULL << 30;
        struct gf_env env;

        (void)state;
        gf_env_init(&env);
        env.proc_root = gf_asprintf("%s/proc", root);
        env.sys_root = gf_asprintf("%s/sys", root);
        assert_int_equal(gf_host_available(&env), GPUFREE_UNKNOWN);
        put("proc/meminfo", "MemTotal:       33554432 kB\nMemFree:         1 kB\nMemAvailable:   16777216 kB\n");
        assert_int_equal(gf_host_available(&env), 16 * gib);
        assert_int_equal(gf_host_room(&env, 12), 16 * gib);
        put("proc/12/cgroup", "0::/a.slice/b.scope\n");
        put("sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
        put("sys/fs/cgroup/a.slice/b.scope/memory.current", "1073741824\n");
        assert_int_equal(gf_host_room(&env, 12), 16 * gib);
        /* The limit of the one above counts, too; pages of files can be taken back. */
        put("sys/fs/cgroup/a.slice/memory.max", "8589934592\n");
        put("sys/fs/cgroup/a.slice/memory.current", "6442450944\n");
        assert_int_equal(gf_host_room(&env, 12), 2 * gib);
        put("sys/fs/cgroup/a.slice/memory.stat", "anon 5\ninactive_file 1073741824\nactive_file 7\n");
        assert_int_equal(gf_host_room(&env, 12), 3 * gib);
        put("sys/fs/cgroup/a.slice/memory.current", "9589934592\n");
        assert_int_equal(gf_host_room(&env, 12), 73741824); /* 8 GiB − (9589934592 − 1 GiB) */
        put("proc/12/cgroup", "3:memory:/old\n1:name=systemd:/x\n");
        put("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "4294967296\n");
        put("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "1073741824\n");
        assert_int_equal(gf_host_room(&env, 12), 3 * gib);
        put("proc/12/cgroup", "0::/../../etc\n");
        assert_int_equal(gf_host_room(&env, 12), 16 * gib);
        put("proc/12/statm", "100 25 3 1 0 1 0\n");
        assert_int_equal(gf_host_resident(&env, 12), 25 * (uint64_t)sysconf(_SC_PAGESIZE));
        assert_int_equal(gf_host_resident(&env, 13), GPUFREE_UNKNOWN);
        gf_env_done(&env);
}

static void a_record_is_found_again_and_goes_with_its_process(void **state)
{
        struct gpufree_parking *parking = gf_parking_new(), *found = gf_parking_new();
        struct gf_ident nobody = { .pid = getpid(), .start_ticks = 1 };
        struct gf_parked *item;
        struct gf_env env;
        char *why = NULL;

        (void)state;
        gf_env_init(&env);
        assert_int_equal(gf_env_defaults(&env), 0);
        assert_int_equal(setenv("GPUFREE_RUNTIME_DIR", root, 1), 0);
        item = user_of(parking, 1);
        item->gpus.v[0].memory = 5;
        item->id = nobody; /* our PID, another start time: that process has ended */
        assert_int_equal(gf_record_write(item, &why), 0);
        assert_int_equal(gf_record_read(&nobody, user_of(found, -1)), 0);
        assert_int_equal(found->items.v[0].memory, 5);
        assert_string_equal(found->items.v[0].gpus.v[0].uuid, UUID("1"));
        assert_true(found->items.v[0].since > 0);
        assert_int_equal(gf_records_find(&env, found), 0);
        assert_int_equal(found->items.n, 1); /* not added */
        assert_int_equal(gf_record_read(&nobody, &found->items.v[0]), -ENOENT);
        gf_env_done(&env);
        gpufree_parking_unref(parking);
        gpufree_parking_unref(found);
}

static int set_up(void **state)
{
        (void)state;
        return mkdtemp(root) ? 0 : -1;
}

static int remove_tree(const char *path);

static int tear_down(void **state)
{
        (void)state;
        return remove_tree(root);
}

static int remove_tree(const char *path)
{
        _cleanup_closedir_ DIR *dir = opendir(path);

        for (const struct dirent *e; dir && (e = readdir(dir));) {
                _cleanup_free_ char *inner = gf_asprintf("%s/%s", path, e->d_name);

                if (!inner || gf_streq(e->d_name, ".") || gf_streq(e->d_name, ".."))
                        continue;
                if (unlink(inner) < 0)
                        (void)remove_tree(inner);
        }
        return rmdir(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_uuid_is_sixteen_bytes),
                cmocka_unit_test(arguments_are_laid_out_as_the_driver_has_them),
                cmocka_unit_test(a_move_is_a_permutation_of_all_gpus),
                cmocka_unit_test(a_wrong_move_is_refused),
                cmocka_unit_test(the_worst_outcome_is_that_of_the_whole),
                cmocka_unit_test(host_memory_is_the_least_of_machine_and_cgroups),
                cmocka_unit_test(a_record_is_found_again_and_goes_with_its_process),
        };

        return cmocka_run_group_tests_name("park", tests, set_up, tear_down);
}

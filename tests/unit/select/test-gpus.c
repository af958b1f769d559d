/* SPDX-License-Identifier: MIT */
/* Which GPUs are meant by which name, and what is said about a name that fits none or several. */
#include "world.h"

/* The positions selected, as "0 2", or the sentence of the failure. */
static const char *selected_gpus(struct world *world)
{
        static char text[128];
        size_t n = 0;
        int r = gf_select_gpus(&world->env, world->selection, world->snapshot);

        if (r < 0) {
                assert_int_equal(r, -ENODEV);
                return world->env.error;
        }
        text[0] = '\0';
        for (size_t i = 0; i < world->snapshot->inventory.gpus.n; i++)
                if (world->snapshot->inventory.gpus.v[i].selected)
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%zu", n ? " " : "", i);
        return text;
}

static void check(struct world *world, const char *list, const char *expected)
{
        world_ask_nothing(world);
        world_ask(world, GPUFREE_BY_GPU, list);
        assert_string_equal(selected_gpus(world), expected);
}

static void every_form_of_a_name(void **state)
{
        static const struct {
                const char *list, *expected;
        } table[] = {
                { "0", "0" },
                { "7", "7" },
                { "0-3", "0 1 2 3" },
                { "2-2", "2" },
                { "1,5-6,1", "1 5 6" },
                { "all", "0 1 2 3 4 5 6 7" },
                { "ALL", "0 1 2 3 4 5 6 7" },
                { "0,all", "0 1 2 3 4 5 6 7" },
                { "GPU-00000003-aaaa-bbbb-cccc-1234567890ab", "3" },
                { "GPU-00000003-AAAA-BBBB-CCCC-1234567890AB", "3" },
                { "gpu-00000003", "3" },
                { "GPU-00000003-a", "3" },
                { "0000:28:00.0", "1" },
                { "00000000:28:00.0", "1" },
                { "28:00.0", "1" },
                { "28:00", "1" },
                { "0:28:0.0", "1" },
                { "GPU-00000002,28:00.0,7", "1 2 7" },
        };
        struct world world;

        (void)state;
        world_init(&world, 8);
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                check(&world, table[i].list, table[i].expected);
        /* Upper case in the address and in what the system says. */
        assert_int_equal(gf_strset(&world.snapshot->inventory.gpus.v[4].pci, "0001:AB:1f.0"), 0);
        check(&world, "0001:ab:1F.0", "4");
        check(&world, "ab:1f.0", "4");
        world_done(&world);
}

static void a_gpu_that_is_not_there(void **state)
{
        static const struct {
                const char *list, *expected;
        } table[] = {
                { "99", "there is no GPU 99 here (there are 0-7)" },
                { "8", "there is no GPU 8 here (there are 0-7)" },
                { "6-9", "there is no GPU 8 here (there are 0-7)" },
                { "0-2147483647", "there is no GPU 8 here (there are 0-7)" },
                { "0,8,1", "there is no GPU 8 here (there are 0-7)" },
        };
        struct world world;

        (void)state;
        world_init(&world, 8);
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                check(&world, table[i].list, table[i].expected);
        /* A failure marks nothing. */
        for (size_t i = 0; i < 8; i++)
                assert_false(world.snapshot->inventory.gpus.v[i].selected);
        world.snapshot->inventory.gpus.v[3].index = -1;
        world.snapshot->inventory.gpus.v[5].index = -1;
        check(&world, "3", "there is no GPU 3 here (there are 0-2, 4, 6-7)");
        world_done(&world);

        world_init(&world, 2);
        check(&world, "GPU-dead",
              "there is no GPU GPU-dead here (there are GPU-00000000-aaaa-bbbb-cccc-1234567890ab, "
              "GPU-00000001-aaaa-bbbb-cccc-1234567890ab)");
        check(&world, "0000:99:00.0", "there is no GPU 0000:99:00.0 here (there are 0000:18:00.0, 0000:28:00.0)");
        check(&world, "0000:18:00.1", "there is no GPU 0000:18:00.1 here (there are 0000:18:00.0, 0000:28:00.0)");
        check(&world, "0001:18:00.0", "there is no GPU 0001:18:00.0 here (there are 0000:18:00.0, 0000:28:00.0)");
        world.snapshot->inventory.gpus.v[0].index = world.snapshot->inventory.gpus.v[1].index = -1;
        check(&world, "0",
              "there is no GPU 0 here (the driver does not say which index a GPU has; there are 0000:18:00.0, "
              "0000:28:00.0)");
        for (size_t i = 0; i < 2; i++)
                assert_int_equal(gf_strset(&world.snapshot->inventory.gpus.v[i].uuid, NULL), 0);
        check(&world, "GPU-dead", "there is no GPU GPU-dead here (there are none named so)");
        world_done(&world);

        world_init(&world, 1);
        check(&world, "1", "there is no GPU 1 here (there is only 0)");
        world_done(&world);
}

static void a_machine_without_a_gpu(void **state)
{
        struct world world;

        (void)state;
        world_init(&world, 0);
        check(&world, "all", "");
        check(&world, "0", "there is no GPU 0 here (there are none)");
        check(&world, "GPU-1", "there is no GPU GPU-1 here (there are none)");
        check(&world, "0000:18:00.0", "there is no GPU 0000:18:00.0 here (there are none)");
        check(&world, "MIG-1", "there is no MIG instance MIG-1 here (there are none)");
        world_ask_nothing(&world);
        assert_string_equal(selected_gpus(&world), "");
        world_done(&world);
}

static void an_ambiguous_name_names_both(void **state)
{
        struct world world;

        (void)state;
        world_init(&world, 2);
        check(&world, "GPU-0000000",
              "\"GPU-0000000\" fits more than one GPU (GPU-00000000-aaaa-bbbb-cccc-1234567890ab, "
              "GPU-00000001-aaaa-bbbb-cccc-1234567890ab): give more of it");
        assert_int_equal(gf_strset(&world.snapshot->inventory.gpus.v[1].pci, "0002:18:00.0"), 0);
        check(&world, "18:00.0", "\"18:00.0\" fits more than one GPU (0000:18:00.0, 0002:18:00.0): give more of it");
        check(&world, "0:18:00.0", "0");
        check(&world, "2:18:00.0", "1");
        world_done(&world);

        /* Nobody is selected by a name that was refused, not even by a caller who goes on. */
        world_init(&world, 2);
        world_hold(world_add(&world, 10, "app"), 0, GIB);
        check(&world, "0,GPU-0000000",
              "\"GPU-0000000\" fits more than one GPU (GPU-00000000-aaaa-bbbb-cccc-1234567890ab, "
              "GPU-00000001-aaaa-bbbb-cccc-1234567890ab): give more of it");
        assert_int_equal(gf_select_holders(world.selection, &world.self, world.snapshot), 0);
        assert_false(world_find(&world, 10)->selected);
        world_done(&world);
}

static void add_mig(struct world *world, size_t gpu, const char *const uuids[2])
{
        struct gf_driver_gpu *known;

        while (world->snapshot->driver.gpus.n <= gpu) {
                size_t i = world->snapshot->driver.gpus.n;

                known = must_add(&world->snapshot->driver.gpus);
                snprintf(known->uuid, sizeof(known->uuid), "%s", world->snapshot->inventory.gpus.v[i].uuid);
        }
        known = &world->snapshot->driver.gpus.v[gpu];
        known->mig = true;
        for (unsigned i = 0; i < 2; i++) {
                struct gf_driver_mig *mig = must_add(&known->migs);

                snprintf(mig->uuid, sizeof(mig->uuid), "%s", uuids[i]);
                mig->gpu_instance = 7 + i;
        }
}

static void add_listed(struct world *world, size_t gpu, pid_t pid, uint32_t instance)
{
        struct gf_driver_process *process = must_add(&world->snapshot->driver.gpus.v[gpu].processes);

        *process = (struct gf_driver_process){ .pid = pid, .gpu_instance = instance };
}

static void mig_instances_of_new_and_old_drivers(void **state)
{
        static const char *const uuids[] = { "MIG-aa11", "MIG-aa22" };
        struct world world;

        (void)state;
        world_init(&world, 2);
        add_mig(&world, 1, uuids);
        check(&world, "MIG-aa11", "1");
        check(&world, "mig-AA2", "1");
        check(&world, "MIG-aa", "\"MIG-aa\" fits more than one MIG instance (MIG-aa11, MIG-aa22): give more of it");
        check(&world, "MIG-bb", "there is no MIG instance MIG-bb here (there are MIG-aa11, MIG-aa22)");
        check(&world, "MIG-GPU-00000001-aaaa-bbbb-cccc-1234567890ab/8/0", "1");
        check(&world, "MIG-GPU-00000001-aaaa-bbbb-cccc-1234567890ab/9/0",
              "there is no MIG instance MIG-GPU-00000001-aaaa-bbbb-cccc-1234567890ab/9/0 here (there are MIG-aa11, "
              "MIG-aa22)");
        check(&world, "MIG-GPU-00000000-aaaa-bbbb-cccc-1234567890ab/8/0",
              "there is no MIG instance MIG-GPU-00000000-aaaa-bbbb-cccc-1234567890ab/8/0 here (there are MIG-aa11, "
              "MIG-aa22)");

        /* Who is on which instance. */
        world_hold(world_add(&world, 10, "one"), 1, GIB);
        world_hold(world_add(&world, 11, "two"), 1, GIB);
        world_hold(world_add(&world, 12, "heir"), 1, GIB);
        world_hold(world_add(&world, 13, "other"), 0, GIB);
        assert_int_equal(gf_strv_add(&world_find(&world, 12)->notes, "inherited-from:99"), 0);
        add_listed(&world, 1, 10, 7);
        add_listed(&world, 1, 11, 8);
        add_listed(&world, 1, 99, 8);
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_BY_GPU, "MIG-aa11");
        assert_string_equal(world_selected(&world), "10");
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_BY_GPU, "MIG-aa22");
        assert_string_equal(world_selected(&world), "11 12");
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_BY_GPU, "MIG-aa22,0");
        assert_string_equal(world_selected(&world), "13 11 12");
        world_done(&world);
}

static void vendors_and_paths_narrow(void **state)
{
        struct world world;

        (void)state;
        world_init(&world, 3);
        world.snapshot->inventory.gpus.v[2].vendor = GPUFREE_VENDOR_AMD;
        assert_string_equal(selected_gpus(&world), "0 1 2");
        assert_int_equal(gf_select_gpus(&world.env, NULL, world.snapshot), 0);
        assert_true(world.snapshot->inventory.gpus.v[2].selected);
        world_ask(&world, GPUFREE_BY_VENDOR, "amd");
        assert_string_equal(selected_gpus(&world), "2");
        world_ask(&world, GPUFREE_BY_GPU, "0,2");
        assert_string_equal(selected_gpus(&world), "2");
        world_ask_nothing(&world);
        world.snapshot->inventory.devices.v[1].asked = true;
        assert_string_equal(selected_gpus(&world), "1");
        world_ask(&world, GPUFREE_BY_GPU, "0");
        assert_string_equal(selected_gpus(&world), "0");
        world_done(&world);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_form_of_a_name),
                cmocka_unit_test(a_gpu_that_is_not_there),
                cmocka_unit_test(a_machine_without_a_gpu),
                cmocka_unit_test(an_ambiguous_name_names_both),
                cmocka_unit_test(mig_instances_of_new_and_old_drivers),
                cmocka_unit_test(vendors_and_paths_narrow),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

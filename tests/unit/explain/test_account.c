/* SPDX-License-Identifier: MIT */
/* Every MiB has a name: the shapes seen on real machines, and what the account says of each. */
#include "world.h"

#include "explain/account.h"

static struct gpufree_account *account_of(struct world *w, size_t gpu, const struct gf_kernel_log *log)
{
        struct gpufree_account *account = NULL;

        assert_int_equal(gf_attribute(w->s), 0);
        assert_int_equal(gf_account_make(w->s, gpu, log, &account), 0);
        return account;
}

static bool has(const struct gpufree_account *account, enum gpufree_entry kind)
{
        for (size_t i = 0; i < account->entries.n; i++)
                if (account->entries.v[i].kind == kind)
                        return true;
        return false;
}

static const struct gf_entry *entry_of(const struct gpufree_account *account, enum gpufree_entry kind)
{
        static const struct gf_entry none;

        for (size_t i = 0; i < account->entries.n; i++)
                if (account->entries.v[i].kind == kind)
                        return &account->entries.v[i];
        fail_msg("no entry \"%s\"", gpufree_entry_name(kind));
        return &none;
}

static bool says(const gf_strv *list, const char *text)
{
        for (size_t i = 0; i < list->n; i++)
                if (strstr(list->v[i], text))
                        return true;
        return false;
}

/* What is named and what is not add up to what is used, for whatever is known. */
static void assert_adds_up(const struct gpufree_account *account)
{
        uint64_t used = account->snapshot->inventory.gpus.v[account->gpu].memory.used, sum = 0;

        for (size_t i = 0; i < account->entries.n; i++)
                if (account->entries.v[i].counts)
                        sum += account->entries.v[i].bytes;
        assert_int_equal(sum, account->named);
        if (sum <= used)
                assert_int_equal(sum + account->unaccounted, used);
        else
                assert_int_equal(account->unaccounted, 0);
}

static void a_plain_process(void **state)
{
        const uint64_t used[] = { 40 * GIB };
        struct world w = world_make(1, used);
        struct gpufree_account *account;

        (void)state;
        world_cuda(&w, 100, "python", 0);
        world_listed(&w, 0, 100, 40 * GIB, GF_LIST_COMPUTE);
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        assert_int_equal(account->named, 40 * GIB);
        assert_int_equal(account->unaccounted, 0);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_PROCESS)->pid, 100);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_RESERVED)->bytes, 615 * MIB);
        assert_string_equal(account->commands.v[0], "gpufree kill --gpu 0");
        assert_int_equal(account->reasons.n, 0);
        gpufree_account_unref(account);
        world_end(&w);
}

static void the_memory_of_a_dead_one_names_its_heir(void **state)
{
        const uint64_t used[] = { 20 * GIB };
        struct world w = world_make(1, used);
        const struct gf_entry *dead;
        struct gpufree_account *account;

        (void)state;
        world_cuda(&w, 524, "pt_data_worker", 0);
        world_listed(&w, 0, 511, 20 * GIB, GF_LIST_COMPUTE);
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        dead = entry_of(account, GPUFREE_ENTRY_DEAD);
        assert_int_equal(dead->pid, 511);
        assert_int_equal(dead->bytes, 20 * GIB);
        assert_int_equal(dead->keepers.n, 1);
        assert_int_equal(dead->keepers.v[0]->id.pid, 524);
        assert_non_null(strstr(dead->sentence, "the memory stays until 524 ends"));
        assert_false(has(account, GPUFREE_ENTRY_PROCESS)); /* counted once */
        assert_string_equal(account->commands.v[0], "gpufree kill --pid 524");
        gpufree_account_unref(account);
        world_end(&w);
}

static void several_heirs_keep_it_together(void **state)
{
        const uint64_t used[] = { 20 * GIB };
        struct world w = world_make(1, used);
        struct gpufree_account *account;

        (void)state;
        for (pid_t pid = 601; pid <= 606; pid++)
                world_cuda(&w, pid, "worker", 0);
        world_listed(&w, 0, 511, 20 * GIB, GF_LIST_COMPUTE);
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_DEAD)->keepers.n, 6);
        assert_non_null(strstr(entry_of(account, GPUFREE_ENTRY_DEAD)->sentence, "and 2 more"));
        assert_string_equal(account->commands.v[0], "gpufree kill --pid 601,602,603,604,605,606");
        gpufree_account_unref(account);
        world_end(&w);
}

static void a_dmabuf_is_counted_once_and_names_everybody(void **state)
{
        const uint64_t used[] = { 2 * GIB };
        struct world w = world_make(1, used);
        const struct gf_entry *entry;
        struct gpufree_account *account;

        (void)state;
        world_holder(&w, 716, "relay");
        world_holder(&w, 717, "relay2");
        world_dmabuf(&w, 716, 77, 2 * GIB);
        world_dmabuf(&w, 717, 77, 2 * GIB);
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        entry = entry_of(account, GPUFREE_ENTRY_DMABUF);
        assert_int_equal(entry->bytes, 2 * GIB);
        assert_int_equal(entry->keepers.n, 2);
        assert_int_equal(account->unaccounted, 0);
        gpufree_account_unref(account);
        world_end(&w);
}

static void an_exported_handle_has_what_nothing_else_has(void **state)
{
        const uint64_t used[] = { 6 * GIB };
        struct world w = world_make(1, used);
        const struct gf_entry *entry;
        struct gpufree_account *account;

        (void)state;
        world_cuda(&w, 100, "python", 0);
        world_listed(&w, 0, 100, 4 * GIB, GF_LIST_COMPUTE);
        world_holder(&w, 716, "relay");
        world_hold(&w, 716, w.ctl, 1, 0);
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        entry = entry_of(account, GPUFREE_ENTRY_HANDLE);
        assert_int_equal(entry->bytes, 2 * GIB);
        assert_int_equal(entry->pid, 716);
        assert_int_equal(account->unaccounted, 0);
        gpufree_account_unref(account);
        world_end(&w);
}

static void mps_server_and_clients_are_told_apart(void **state)
{
        const uint64_t used[] = { 8 * GIB + 66 * MIB };
        struct world w = world_make(1, used);
        struct gpufree_account *account;

        (void)state;
        world_cuda(&w, 200, "nvidia-cuda-mps", 0);
        world_cuda(&w, 201, "python", 0);
        world_listed(&w, 0, 200, 66 * MIB, GF_LIST_COMPUTE);
        world_listed(&w, 0, 201, 8 * GIB, GF_LIST_COMPUTE | GF_LIST_MPS);
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_MPS_SERVER)->pid, 200);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_MPS_CLIENT)->pid, 201);
        assert_int_equal(account->unaccounted, 0);
        gpufree_account_unref(account);
        world_end(&w);
}

static void what_nobody_has_is_unaccounted_and_asks_for_a_reset(void **state)
{
        const uint64_t used[] = { 5 * GIB };
        struct world w = world_make(1, used);
        struct gpufree_account *account;

        (void)state;
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        assert_int_equal(account->unaccounted, 5 * GIB);
        assert_true(says(&account->reasons, "Every process was looked at"));
        assert_string_equal(account->commands.v[0], "gpufree check --for reset --gpu 0");
        gpufree_account_unref(account);
        world_end(&w);
}

static void reasons_follow_the_evidence(void **state)
{
        const uint64_t used[] = { 5 * GIB };
        struct world w = world_make(1, used);
        struct gf_refused *refused = must(gf_vec_add(&w.s->scan.refused));
        struct gf_kernel_log log = { 0 };
        struct gf_xid *xid = must(gf_vec_add(&log.xids));
        struct gpufree_account *account;

        (void)state;
        *refused = (struct gf_refused){ .pid = 7, .uid = 1000, .error = 13, .what = "fd" };
        w.s->initial_pidns = false;
        assert_int_equal(gf_strv_add(&w.s->gaps, "1 process could not be looked at."), 0);
        *xid = (struct gf_xid){ .number = 119, .pci = "0000:18:00", .age_ms = 1000, .line = must(strdup("NVRM: Xid")) };
        account = account_of(&w, 0, &log);
        assert_adds_up(account);
        assert_int_equal(account->reasons.n, 3);
        assert_non_null(strstr(account->reasons.v[0], "Xid 119"));
        assert_non_null(strstr(account->reasons.v[1], "PID namespace"));
        assert_non_null(strstr(account->reasons.v[2], "1 process."));
        assert_string_equal(account->commands.v[0], "sudo gpufree explain --gpu 0");
        gpufree_account_unref(account);
        gf_kernel_log_done(&log);
        world_end(&w);
}

static void a_gpu_of_another_xid_is_not_blamed(void **state)
{
        const uint64_t used[] = { 5 * GIB, 0 };
        struct world w = world_make(2, used);
        struct gf_kernel_log log = { 0 };
        struct gf_xid *xid = must(gf_vec_add(&log.xids));
        struct gpufree_account *account;

        (void)state;
        *xid = (struct gf_xid){ .number = 79, .pci = "0000:19:00", .age_ms = 1000, .line = must(strdup("NVRM: Xid")) };
        account = account_of(&w, 0, &log);
        assert_int_equal(account->xids.n, 0);
        assert_false(says(&account->reasons, "Xid"));
        gpufree_account_unref(account);
        gf_kernel_log_done(&log);
        world_end(&w);
}

static void unknown_is_never_zero(void **state)
{
        const uint64_t used[] = { GPUFREE_UNKNOWN, 4 * GIB };
        struct world w = world_make(2, used);
        struct gf_refused *refused = must(gf_vec_add(&w.s->scan.refused));
        struct gpufree_account *account;

        (void)state;
        *refused = (struct gf_refused){ .pid = 900, .uid = 0, .error = 13, .what = "fd" };
        world_cuda(&w, 100, "python", 0);
        world_listed(&w, 0, 100, 1 * GIB, GF_LIST_COMPUTE);
        world_listed(&w, 1, 900, GPUFREE_UNKNOWN, GF_LIST_COMPUTE);
        account = account_of(&w, 0, NULL);
        assert_int_equal(account->unaccounted, GPUFREE_UNKNOWN);
        assert_int_equal(account->named, GPUFREE_UNKNOWN);
        gpufree_account_unref(account);
        account = account_of(&w, 1, NULL);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_UNSEEN)->pid, 900);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_UNSEEN)->bytes, GPUFREE_UNKNOWN);
        assert_int_equal(account->unaccounted, GPUFREE_UNKNOWN);
        assert_int_equal(account->named, GPUFREE_UNKNOWN);
        gpufree_account_unref(account);
        world_end(&w);
}

static void more_than_is_used_saturates(void **state)
{
        const uint64_t used[] = { 4 * GIB };
        struct world w = world_make(1, used);
        struct gpufree_account *account;

        (void)state;
        world_cuda(&w, 100, "python", 0);
        world_cuda(&w, 101, "python", 0);
        world_listed(&w, 0, 100, 4 * GIB, GF_LIST_COMPUTE);
        world_listed(&w, 0, 101, 4 * GIB, GF_LIST_COMPUTE);
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        assert_int_equal(account->unaccounted, 0);
        assert_non_null(strstr(entry_of(account, GPUFREE_ENTRY_UNACCOUNTED)->sentence, "4.0 GiB more than is used"));
        gpufree_account_unref(account);
        world_end(&w);
}

static void mig_instances_have_their_sums(void **state)
{
        const uint64_t used[] = { 6 * GIB };
        struct world w = world_make(1, used);
        struct gf_driver_mig *mig = must(gf_vec_add(&w.s->driver.gpus.v[0].migs));
        struct gpufree_account *account;

        (void)state;
        *mig = (struct gf_driver_mig){ .uuid = "MIG-1", .gpu_instance = 3, .compute_instance = 0 };
        world_cuda(&w, 100, "python", 0);
        world_listed(&w, 0, 100, 6 * GIB, GF_LIST_COMPUTE);
        w.s->driver.gpus.v[0].processes.v[0].gpu_instance = 3;
        w.s->driver.gpus.v[0].processes.v[0].compute_instance = 0;
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_INSTANCE)->bytes, 6 * GIB);
        gpufree_account_unref(account);
        world_end(&w);
}

/* The lists cannot be read: who has it open has it, together, and nobody's share is made up. */
static void without_lists_the_holders_have_it_together(void **state)
{
        const uint64_t used[] = { 6 * GIB };
        struct world w = world_make(1, used);
        struct gpufree_account *account;

        (void)state;
        w.s->driver.gpus.v[0].lists_ok = false;
        world_cuda(&w, 100, "python", 0);
        world_cuda(&w, 101, "python", 0);
        account = account_of(&w, 0, NULL);
        assert_adds_up(account);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_TOGETHER)->bytes, 6 * GIB);
        assert_int_equal(entry_of(account, GPUFREE_ENTRY_TOGETHER)->keepers.n, 2);
        assert_false(has(account, GPUFREE_ENTRY_PROCESS));
        gpufree_account_unref(account);
        world_end(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_plain_process),
                cmocka_unit_test(the_memory_of_a_dead_one_names_its_heir),
                cmocka_unit_test(several_heirs_keep_it_together),
                cmocka_unit_test(a_dmabuf_is_counted_once_and_names_everybody),
                cmocka_unit_test(an_exported_handle_has_what_nothing_else_has),
                cmocka_unit_test(mps_server_and_clients_are_told_apart),
                cmocka_unit_test(what_nobody_has_is_unaccounted_and_asks_for_a_reset),
                cmocka_unit_test(reasons_follow_the_evidence),
                cmocka_unit_test(a_gpu_of_another_xid_is_not_blamed),
                cmocka_unit_test(unknown_is_never_zero),
                cmocka_unit_test(more_than_is_used_saturates),
                cmocka_unit_test(mig_instances_have_their_sums),
                cmocka_unit_test(without_lists_the_holders_have_it_together),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

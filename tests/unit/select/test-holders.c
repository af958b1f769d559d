/* SPDX-License-Identifier: MIT */
/* Which holders are meant: every criterion alone, together, and the bystanders that must not be. */
#include "world.h"

#define DOCKER_ID "3f4e5d6c7b8a99887766554433221100ffeeddccbbaa99887766554433221100"
#define POD_UID "2c9f8a79-5391-454b-88cb-86190881cb96"

/* One process for each thing that can be asked for. All but the last three hold GPU memory. */
static void populate(struct world *world)
{
        struct gpufree_holder *h;

        world_init(world, 4);
        h = world_add(world, 10, "python");
        world_hold(h, 0, 4 * GIB);
        world_open(h, 1);
        world_command(h, "python|train.py|--lr|0.1");
        h = world_add(world, 11, "vllm");
        world_hold(h, 1, 8 * GIB);
        h->facts.uid = 2000;
        h->id.start_ticks = 999000; /* 10 s ago */
        world_own(h, "unit", "docker.service", NULL);
        world_own(h, "container", DOCKER_ID, "vllm-prod");
        world_run_by(h, "docker");
        h = world_add(world, 12, "pod-app");
        world_hold(h, 1, 2 * GIB);
        world_own(h, "pod", POD_UID, "web-0");
        h = world_add(world, 13, "lxc-app");
        world_hold(h, 2, GIB);
        world_own(h, "container", "web10", NULL);
        world_run_by(h, "proxmox");
        h = world_add(world, 14, "serve");
        world_hold(h, 2, 3 * GIB);
        h->facts.uid = 1500;
        h->facts.ppid = 1;
        world_own(h, "unit", "vllm.service", NULL);
        h = world_add(world, 15, "step");
        world_hold(h, 3, GIB);
        world_own(h, "job", "3385.0", "s5K1KKYAYG5D00.0");
        assert_int_equal(gf_strset(&h->owners.v[0].runtime, "slurm"), 0);
        h = world_add(world, 16, "step");
        world_hold(h, 3, GIB);
        world_own(h, "job", "33850", NULL);
        h = world_add(world, 17, "jupyter");
        world_hold(h, 3, GPUFREE_UNKNOWN);
        h->facts.state = 'T';
        world_own(h, "session", "3", "tmux");
        h = world_add(world, 18, "sglang::sched");
        world_hold(h, 3, 5 * GIB);
        h->facts.ppid = 1;
        h->facts.leader_zombie = true;
        h->facts.login_session = 7;
        world_command(h, "");
        h = world_add(world, 19, "rdma-relay");
        world_use_dmabuf(h, "nv_dmabuf", 2 * GIB);
        h = world_add(world, 20, "looker");
        world_open(h, 0);
        h = world_add(world, 21, "ctl");
        world_use_device(h, 4);
        h = world_add(world, 22, "dma-unknown");
        world_use_dmabuf(h, "amdgpu", GPUFREE_UNKNOWN);
}

struct asked {
        enum gpufree_criterion criterion;
        const char *value;
};

static void check(const struct asked *asked, size_t n, const char *expected)
{
        struct world world;

        populate(&world);
        for (size_t i = 0; i < n; i++)
                world_ask(&world, asked[i].criterion, asked[i].value);
        assert_string_equal(world_selected(&world), expected);
        /* Asking again gives the same. */
        assert_string_equal(world_selected(&world), expected);
        world_done(&world);
}

static void every_criterion_alone(void **state)
{
        static const struct {
                struct asked asked;
                const char *expected;
        } table[] = {
                { { GPUFREE_BY_GPU, "0" }, "10" },
                { { GPUFREE_BY_GPU, "1" }, "11 12" },
                { { GPUFREE_BY_GPU, "0-1" }, "10 11 12" },
                { { GPUFREE_BY_GPU, "all" }, "10 11 12 14 13 18 15 16 17 19" },
                { { GPUFREE_BY_PID, "11,10" }, "10 11" },
                { { GPUFREE_BY_PID, "20" }, "20" }, /* named: having it open is enough */
                { { GPUFREE_BY_PID, "21" }, "21" },
                { { GPUFREE_BY_PID, "22" }, "22" },
                { { GPUFREE_BY_PID, "999" }, "" },
                { { GPUFREE_BY_USER, "2000" }, "11" },
                { { GPUFREE_BY_USER, "2000,1500" }, "11 14" },
                { { GPUFREE_BY_USER, "3000" }, "" },
                { { GPUFREE_BY_CONTAINER, "vllm-prod" }, "11" },
                { { GPUFREE_BY_CONTAINER, DOCKER_ID }, "11" },
                { { GPUFREE_BY_CONTAINER, "3f4e5d6c7b8a" }, "11" },
                { { GPUFREE_BY_CONTAINER, "3f4e" }, "11" },
                { { GPUFREE_BY_CONTAINER, "3f4" }, "" },  /* too short */
                { { GPUFREE_BY_CONTAINER, "f4e5" }, "" }, /* not its beginning */
                { { GPUFREE_BY_CONTAINER, "vllm" }, "" }, /* names are taken whole */
                { { GPUFREE_BY_CONTAINER, "web-0" }, "12" },
                { { GPUFREE_BY_CONTAINER, "2c9f8a79" }, "12" },
                { { GPUFREE_BY_CONTAINER, "web1" }, "" }, /* "web10" is another container */
                { { GPUFREE_BY_CONTAINER, "web10,web-0" }, "12 13" },
                { { GPUFREE_BY_CONTAINER, "docker:vllm-prod" }, "11" },
                { { GPUFREE_BY_CONTAINER, "docker:3f4e5d6c7b8a" }, "11" }, /* as the table has it */
                { { GPUFREE_BY_CONTAINER, "podman:vllm-prod" }, "" },
                { { GPUFREE_BY_CONTAINER, "lxc:web10,pod:web-0" }, "12 13" },
                { { GPUFREE_BY_CONTAINER, "pct:web10" }, "13" },
                { { GPUFREE_BY_CONTAINER, "pct:vllm-prod,pct:web-0" }, "" },
                { { GPUFREE_BY_CONTAINER, "lxc:pct:web10,lxc:,:web10,lx:web10" }, "" },
                { { GPUFREE_BY_CONTAINER, "docker:docker.service" }, "" },
                { { GPUFREE_BY_CONTAINER, "docker.service" }, "" },
                { { GPUFREE_BY_UNIT, "vllm" }, "14" },
                { { GPUFREE_BY_UNIT, "vllm.service" }, "14" },
                { { GPUFREE_BY_UNIT, "vll" }, "" },
                { { GPUFREE_BY_UNIT, "vllm.serv" }, "" },
                { { GPUFREE_BY_UNIT, "docker" }, "11" }, /* any owner of the chain */
                { { GPUFREE_BY_JOB, "3385" }, "15" },    /* every step; not job 33850 */
                { { GPUFREE_BY_JOB, "3385.0" }, "15" },
                { { GPUFREE_BY_JOB, "3385.1" }, "" },
                { { GPUFREE_BY_JOB, "s5K1KKYAYG5D00" }, "15" },
                { { GPUFREE_BY_JOB, "338" }, "" },
                { { GPUFREE_BY_JOB, "33850" }, "16" },
                { { GPUFREE_BY_SESSION, "3" }, "17" },
                { { GPUFREE_BY_SESSION, "7" }, "18" }, /* no owner known: the login's audit session */
                { { GPUFREE_BY_SESSION, "tmux" }, "" },
                { { GPUFREE_BY_MATCH, "train\\.py --lr" }, "10" },
                { { GPUFREE_BY_MATCH, "^python train" }, "10" },
                { { GPUFREE_BY_MATCH, "0\\.1$" }, "10" },         /* no space after the last argument */
                { { GPUFREE_BY_MATCH, "sglang|vllm" }, "11 18" }, /* no command line: the name */
                { { GPUFREE_BY_MATCH, "Python" }, "" },
                { { GPUFREE_BY_OLDER_THAN, "0" }, "10 11 12 14 13 18 15 16 17 19" },
                { { GPUFREE_BY_OLDER_THAN, "10s" }, "10 11 12 14 13 18 15 16 17 19" },
                { { GPUFREE_BY_OLDER_THAN, "11s" }, "10 12 14 13 18 15 16 17 19" },
                { { GPUFREE_BY_OLDER_THAN, "10001ms" }, "10 12 14 13 18 15 16 17 19" },
                { { GPUFREE_BY_OLDER_THAN, "3d" }, "" },
                { { GPUFREE_BY_VENDOR, "nvidia" }, "10 11 12 14 13 18 15 16 17 19" },
                { { GPUFREE_BY_VENDOR, "amd" }, "" },
                { { GPUFREE_ORPHANS, NULL }, "18" }, /* 14 is a service's main process */
                { { GPUFREE_STOPPED, NULL }, "17" },
                { { GPUFREE_ANY_OPEN, NULL }, "10 20 11 12 14 13 18 15 16 17 19 21 22" },
                { { GPUFREE_INCLUDE, "python" }, "10 11 12 14 13 18 15 16 17 19" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                print_message("# %d %s\n", (int)table[i].asked.criterion,
                              table[i].asked.value ? table[i].asked.value : "");
                check(&table[i].asked, 1, table[i].expected);
        }
        check(NULL, 0, "10 11 12 14 13 18 15 16 17 19");
}

static void several_criteria_are_anded_values_ored(void **state)
{
        static const struct {
                struct asked asked[4];
                const char *expected;
        } table[] = {
                { { { GPUFREE_BY_GPU, "1" }, { GPUFREE_BY_USER, "2000" } }, "11" },
                { { { GPUFREE_BY_GPU, "1" }, { GPUFREE_BY_USER, "1500" } }, "" },
                { { { GPUFREE_BY_GPU, "0" }, { GPUFREE_BY_GPU, "1" } }, "10 11 12" },
                { { { GPUFREE_BY_GPU, "1" }, { GPUFREE_ANY_OPEN, NULL } }, "10 11 12" },
                { { { GPUFREE_BY_GPU, "0" }, { GPUFREE_ANY_OPEN, NULL } }, "10 20" },
                { { { GPUFREE_BY_GPU, "1" }, { GPUFREE_BY_PID, "10" } }, "10" }, /* open there, and named */
                { { { GPUFREE_BY_GPU, "2" }, { GPUFREE_BY_PID, "10" } }, "" },
                { { { GPUFREE_BY_GPU, "1" }, { GPUFREE_BY_PID, "19" } }, "" },
                { { { GPUFREE_BY_GPU, "all" }, { GPUFREE_BY_PID, "19" } }, "19" },
                { { { GPUFREE_BY_VENDOR, "amd" }, { GPUFREE_ANY_OPEN, NULL } }, "22" },
                { { { GPUFREE_BY_VENDOR, "amd" }, { GPUFREE_BY_VENDOR, "nvidia" }, { GPUFREE_BY_GPU, "3" } },
                  "18 15 16 17" },
                { { { GPUFREE_ORPHANS, NULL }, { GPUFREE_BY_GPU, "3" }, { GPUFREE_BY_MATCH, "sglang" } }, "18" },
                { { { GPUFREE_ORPHANS, NULL }, { GPUFREE_STOPPED, NULL } }, "" },
                { { { GPUFREE_BY_JOB, "3385" }, { GPUFREE_BY_JOB, "33850" } }, "15 16" },
                { { { GPUFREE_BY_MATCH, "train" }, { GPUFREE_BY_MATCH, "sglang" } }, "10 18" },
                { { { GPUFREE_BY_UNIT, "vllm" }, { GPUFREE_BY_CONTAINER, "vllm-prod" } }, "" },
                { { { GPUFREE_BY_OLDER_THAN, "3d" }, { GPUFREE_BY_OLDER_THAN, "10s" }, { GPUFREE_BY_GPU, "1" } },
                  "11 12" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                struct world world;

                populate(&world);
                for (size_t j = 0; j < 4; j++)
                        if (table[i].asked[j].value || table[i].asked[j].criterion == GPUFREE_ORPHANS ||
                            table[i].asked[j].criterion == GPUFREE_STOPPED ||
                            table[i].asked[j].criterion == GPUFREE_ANY_OPEN)
                                world_ask(&world, table[i].asked[j].criterion, table[i].asked[j].value);
                print_message("# row %zu\n", i);
                assert_string_equal(world_selected(&world), table[i].expected);
                world_done(&world);
        }
}

static void a_path_selects_every_opener_and_nobody_else(void **state)
{
        struct gpufree_device *device;
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 2);
        world.snapshot->inventory.devices.v[0].asked = true;
        device = must_add(&world.snapshot->inventory.devices);
        *device = (struct gpufree_device){ .path = strdup("/dev/ttyS0"), .gpu = -1, .asked = true };
        h = world_add(&world, 10, "holder");
        world_hold(h, 0, GIB);
        h->asked = true;
        h = world_add(&world, 11, "opener");
        world_open(h, 0);
        h->asked = true;
        h = world_add(&world, 12, "minicom");
        world_use_device(h, 4);
        h->asked = true;
        h = world_add(&world, 13, "elsewhere");
        world_hold(h, 1, GIB);
        assert_string_equal(world_selected(&world), "10 11 12");
        world_ask(&world, GPUFREE_BY_GPU, "all");
        assert_string_equal(world_selected(&world), "10 11");
        world_ask(&world, GPUFREE_BY_PID, "11,13");
        assert_string_equal(world_selected(&world), "11");
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_BY_VENDOR, "nvidia");
        assert_string_equal(world_selected(&world), "10 11");
        world_done(&world);
}

static void where_there_is_no_gpu_to_tell_more_an_open_device_counts(void **state)
{
        struct gpufree_device *device;
        struct world world;

        (void)state;
        world_init(&world, 0);
        device = must_add(&world.snapshot->inventory.devices);
        *device = (struct gpufree_device){
                .path = strdup("/dev/dxg"), .gpu = -1, .cls = GF_CLASS_WSL, .vendor = GPUFREE_VENDOR_MICROSOFT
        };
        world_use_device(world_add(&world, 10, "wsl"), 2);
        world_use_device(world_add(&world, 11, "ctl"), 0);
        assert_string_equal(world_selected(&world), "10");
        world_ask(&world, GPUFREE_BY_VENDOR, "microsoft");
        assert_string_equal(world_selected(&world), "10");
        world_done(&world);

        world_init(&world, 1);
        world.snapshot->inventory.devices.v[1].cls = GF_CLASS_KFD;
        world_use_device(world_add(&world, 10, "kfd"), 1);
        assert_string_equal(world_selected(&world), "");
        world_done(&world);
}

static bool has_note(struct world *world, pid_t pid, const char *text)
{
        return gf_strv_has(&world_find(world, pid)->notes, text);
}

static void notes_are_added_once(void **state)
{
        struct world world;

        (void)state;
        populate(&world);
        world_selected(&world);
        world_selected(&world);
        assert_int_equal(world_find(&world, 10)->notes.n, 0);
        assert_int_equal(world_find(&world, 14)->notes.n, 0);
        assert_int_equal(world_find(&world, 17)->notes.n, 1);
        assert_true(has_note(&world, 17, "stopped"));
        assert_int_equal(world_find(&world, 18)->notes.n, 2);
        assert_true(has_note(&world, 18, "zombie-leader"));
        assert_true(has_note(&world, 18, "orphan"));
        world_done(&world);
}

static void being_traced_is_not_being_stopped(void **state)
{
        struct world world;

        (void)state;
        populate(&world);
        world_find(&world, 17)->facts.state = 't';
        world_ask(&world, GPUFREE_STOPPED, NULL);
        assert_string_equal(world_selected(&world), "");
        world_done(&world);
}

static void orphans_of_every_kind(void **state)
{
        static const struct {
                const char *owner_kind;
                pid_t ppid, pidns_pid, pgrp;
                bool initial_pidns, orphan;
        } table[] = {
                { NULL, 1, 10, 500, true, true },
                { NULL, 500, 10, 500, true, false },
                { NULL, 1, 10, 10, true, true },        /* a daemon of its own making */
                { NULL, 1, 1, 500, true, false },       /* a container's first process */
                { "unit", 1, 10, 500, true, false },    /* a service's main process */
                { "user-unit", 1, 10, 10, true, true }, /* its manager is gone */
                { "session", 1, 10, 500, true, true },
                { "job", 1, 10, 500, true, true },
                { "container", 1, 10, 500, true, true },
                /* In a container: what PID 1 started itself, and what it took over. */
                { NULL, 1, 10, 10, false, false },
                { NULL, 1, 10, 1, false, false },
                { NULL, 1, 10, 0, false, false },
                { NULL, 1, 10, 500, false, true },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                struct gpufree_holder *h;
                struct world world;

                world_init(&world, 1);
                world.snapshot->initial_pidns = table[i].initial_pidns;
                h = world_add(&world, 10, "app");
                world_hold(h, 0, GIB);
                h->facts.ppid = table[i].ppid;
                h->facts.pidns_pid = table[i].pidns_pid;
                h->facts.pgrp = table[i].pgrp;
                if (table[i].owner_kind)
                        world_own(h, table[i].owner_kind, "x", NULL);
                world_ask(&world, GPUFREE_ORPHANS, NULL);
                print_message("# row %zu\n", i);
                assert_string_equal(world_selected(&world), table[i].orphan ? "10" : "");
                assert_int_equal(has_note(&world, 10, "orphan"), table[i].orphan);
                world_done(&world);
        }
}

static void hostile_processes(void **state)
{
        static char big[1 << 20];
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 1);
        /* Nothing is known about it at all. */
        h = world_add(&world, 10, "x");
        gf_facts_done(&h->facts);
        h->facts.uid = UINT32_MAX;
        h->facts.login_session = UINT32_MAX;
        world_hold(h, 0, GIB);
        /* Newlines, escape codes, bytes that are no UTF-8; arguments without a last NUL; empty arguments. */
        h = world_add(&world, 11, ")\n\033[2J \xff");
        world_hold(h, 0, GIB);
        world_command(h, "a\nb|\033]0;x\a|\xff\xfe||");
        h = world_add(&world, 12, "cut");
        world_hold(h, 0, GIB);
        world_command(h, "one|two");
        h->facts.cmdline_length = 5; /* "one\0t" */
        h = world_add(&world, 13, "nuls");
        world_hold(h, 0, GIB);
        world_command(h, "|||");
        h = world_add(&world, 14, "big");
        world_hold(h, 0, GIB);
        memset(big, 'a', sizeof(big) - 1);
        world_command(h, big);
        /* Uses that point nowhere. */
        h = world_add(&world, 15, "nowhere");
        world_use_device(h, 4000);
        must_add(&h->gpus)->gpu = 4000;
        must_add(&h->gpus)->gpu = -1;
        assert_string_equal(world_selected(&world), "10 11 12 13 14");
        world_ask(&world, GPUFREE_BY_MATCH, "^a.b ");
        assert_string_equal(world_selected(&world), "11");
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_BY_MATCH, "^one t$");
        assert_string_equal(world_selected(&world), "12");
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_BY_MATCH, "^nuls$");
        assert_string_equal(world_selected(&world), "13");
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_BY_MATCH, "^a+$");
        assert_string_equal(world_selected(&world), "14");
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_BY_USER, "me");
        world_ask(&world, GPUFREE_ANY_OPEN, NULL);
        world.selection->users.v[0] = 77;
        assert_string_equal(world_selected(&world), "");
        world_done(&world);
}

static void a_start_after_now_is_no_age(void **state)
{
        struct world world;

        (void)state;
        world_init(&world, 1);
        world_hold(world_add(&world, 10, "app"), 0, GIB);
        world_find(&world, 10)->id.start_ticks = 1000001;
        world_ask(&world, GPUFREE_BY_OLDER_THAN, "1ms");
        assert_string_equal(world_selected(&world), "");
        world_done(&world);
}

static void holders_are_sorted_by_gpu_memory_and_pid(void **state)
{
        static const pid_t expected[] = { 30, 12, 11, 40, 13, 50, 14, 15, 17, 16 };
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 3);
        h = world_add(&world, 17, "dmabuf-small");
        world_use_dmabuf(h, "nv_dmabuf", GIB);
        h = world_add(&world, 16, "ctl");
        world_use_device(h, 3);
        h = world_add(&world, 15, "dmabuf");
        world_use_dmabuf(h, "nv_dmabuf", 2 * GIB);
        h = world_add(&world, 14, "last"); /* has GPU 0 open, holds GPU 2: stands where it holds */
        world_open(h, 0);
        world_hold(h, 2, GIB);
        h = world_add(&world, 50, "second");
        world_hold(h, 1, GIB);
        world_hold(h, 2, 9 * GIB);
        h = world_add(&world, 13, "open");
        world_open(h, 0);
        h = world_add(&world, 40, "zero");
        world_hold(h, 0, 0);
        h = world_add(&world, 11, "small");
        world_hold(h, 0, GIB);
        h = world_add(&world, 12, "same");
        world_hold(h, 0, 2 * GIB);
        h = world_add(&world, 30, "big");
        world_hold(h, 1, 7 * GIB);
        world_hold(h, 0, 3 * GIB);
        world_selected(&world);
        assert_int_equal(world.snapshot->holders.n, ELEMENTSOF(expected));
        for (size_t i = 0; i < ELEMENTSOF(expected); i++)
                assert_int_equal(world.snapshot->holders.v[i].id.pid, expected[i]);
        world_done(&world);
}

static void whom_an_unreadable_process_concerns(void **state)
{
        struct world world;

        (void)state;
        world_init(&world, 1);
        assert_true(gf_select_concerns(NULL, 10, 0));
        assert_true(gf_select_concerns(world.selection, 10, 0));
        world_ask(&world, GPUFREE_BY_CONTAINER, "web");
        world_ask(&world, GPUFREE_BY_GPU, "0");
        assert_true(gf_select_concerns(world.selection, 10, 0));
        world_ask(&world, GPUFREE_BY_USER, "1001");
        assert_false(gf_select_concerns(world.selection, 10, 0));
        assert_true(gf_select_concerns(world.selection, 10, 1001));
        assert_true(gf_select_concerns(world.selection, 10, UINT32_MAX)); /* whose it is is not known */
        world_ask(&world, GPUFREE_BY_PID, "10,11");
        assert_true(gf_select_concerns(world.selection, 10, 1001));
        assert_false(gf_select_concerns(world.selection, 12, 1001));
        assert_false(gf_select_concerns(world.selection, 12, UINT32_MAX));
        world_done(&world);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_criterion_alone),
                cmocka_unit_test(several_criteria_are_anded_values_ored),
                cmocka_unit_test(a_path_selects_every_opener_and_nobody_else),
                cmocka_unit_test(where_there_is_no_gpu_to_tell_more_an_open_device_counts),
                cmocka_unit_test(notes_are_added_once),
                cmocka_unit_test(being_traced_is_not_being_stopped),
                cmocka_unit_test(orphans_of_every_kind),
                cmocka_unit_test(hostile_processes),
                cmocka_unit_test(a_start_after_now_is_no_age),
                cmocka_unit_test(holders_are_sorted_by_gpu_memory_and_pid),
                cmocka_unit_test(whom_an_unreadable_process_concerns),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Who is left alone, for which reason, and what lifts it. A faked name must not protect, a real service must be. */
#include "select/protect_table.h"
#include "world.h"

/* The reason, or NULL; kept until the next call. */
static const char *why(struct world *world, const struct gpufree_holder *holder, bool *ret_absolute)
{
        static char *text;
        bool absolute = false;

        free(text);
        text = NULL;
        assert_true(gf_protect(&world->self, holder, &text, &absolute) >= 0);
        if (ret_absolute)
                *ret_absolute = absolute;
        else
                assert_false(absolute);
        if (!text)
                return NULL;
        /* Part of a sentence in a table: one line, no end of a sentence. */
        assert_null(strpbrk(text, "\n\t"));
        assert_false(gf_endswith(text, "."));
        return text;
}

static void forget(struct world *world, struct gpufree_holder *holder)
{
        bool absolute;

        gf_holder_done(holder);
        world->snapshot->holders.n--;
        (void)why(world, &(struct gpufree_holder){ .id.pid = 77777 }, &absolute);
}

static void set_exe(struct gpufree_holder *holder, const char *directory, const char *name, bool trusted)
{
        free(holder->facts.exe);
        holder->facts.exe = gf_asprintf("%s/%s", directory, name);
        holder->facts.exe_trusted = trusted;
}

static void every_program_of_the_table(void **state)
{
        struct world world;

        (void)state;
        world_init(&world, 1);
        for (size_t i = 0; i < gf_n_protected_programs; i++) {
                const struct gf_protected_program *program = &gf_protected_programs[i];
                _cleanup_free_ char *name = gf_asprintf("%s%s", program->name, program->prefix ? "x86_64" : "");
                char comm[16];
                struct gpufree_holder *h;

                snprintf(comm, sizeof(comm), "%.15s", name);
                print_message("# %s\n", name);

                /* By its executable, whatever it calls itself. */
                h = world_add(&world, 10, "renamed");
                world_open(h, 0);
                set_exe(h, "/usr/bin", name, true);
                assert_string_equal(why(&world, h, NULL), program->why);
                /* A copy of anything under that name in somebody's home. */
                set_exe(h, "/home/alice", name, false);
                assert_null(why(&world, h, NULL));
                forget(&world, h);

                /* A faked name: of a program of one's own, of a trusted program, of a process that can't be read. */
                h = world_add(&world, 10, comm);
                world_open(h, 0);
                assert_null(why(&world, h, NULL));
                set_exe(h, "/usr/bin", "sleep", true);
                assert_null(why(&world, h, NULL));
                free(TAKE(h->facts.exe));
                assert_null(why(&world, h, NULL));
                /* Only root's unreadable ones are believed. */
                h->facts.uid = 0;
                assert_string_equal(why(&world, h, NULL), program->why);
                forget(&world, h);
        }
        world_done(&world);
}

static void holding_memory_matters_for_monitors_only(void **state)
{
        struct world world;

        (void)state;
        world_init(&world, 1);
        for (size_t i = 0; i < gf_n_protected_programs; i++) {
                const struct gf_protected_program *program = &gf_protected_programs[i];
                struct gpufree_holder *h = world_add(&world, 10, "renamed");

                set_exe(h, "/usr/bin", program->name, true);
                world_hold(h, 0, GIB);
                if (program->only_while_open)
                        assert_null(why(&world, h, NULL));
                else
                        assert_string_equal(why(&world, h, NULL), program->why);
                forget(&world, h);
        }
        world_done(&world);
}

static void monitors_written_in_python(void **state)
{
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 1);
        h = world_add(&world, 10, "python3");
        world_open(h, 0);
        set_exe(h, "/usr/bin", "python3.11", true);
        assert_null(why(&world, h, NULL));
        world_command(h, "/usr/bin/python3|/home/alice/.local/bin/nvitop|-m");
        assert_non_null(why(&world, h, NULL));
        world_command(h, "/usr/bin/python3|train.py|nvitop");
        assert_null(why(&world, h, NULL));
        world_command(h, "/usr/bin/python3");
        assert_null(why(&world, h, NULL));
        world_command(h, "/usr/bin/python3|nvitop");
        h->facts.cmdline_length--; /* cut */
        assert_null(why(&world, h, NULL));
        h->facts.cmdline_length++;
        assert_non_null(why(&world, h, NULL));
        /* Not where the interpreter is not the system's, nor for what is no monitor, nor where it holds memory. */
        h->facts.exe_trusted = false;
        assert_null(why(&world, h, NULL));
        h->facts.exe_trusted = true;
        world_command(h, "/usr/bin/python3|Xorg");
        assert_null(why(&world, h, NULL));
        world_command(h, "/usr/bin/python3|nvitop");
        world_hold(h, 0, GIB);
        assert_null(why(&world, h, NULL));
        world_done(&world);
}

static void every_unit_of_the_table(void **state)
{
        struct world world;

        (void)state;
        world_init(&world, 1);
        for (size_t i = 0; i < gf_n_protected_units; i++) {
                struct gpufree_holder *h = world_add(&world, 10, "helper");

                world_hold(h, 0, GIB);
                world_own(h, "unit", gf_protected_units[i].name, NULL);
                assert_string_equal(why(&world, h, NULL), gf_protected_units[i].why);
                /* Not a user's unit of that name, and not what runs in a container below the unit. */
                assert_int_equal(gf_strset(&h->owners.v[0].kind, "user-unit"), 0);
                assert_null(why(&world, h, NULL));
                assert_int_equal(gf_strset(&h->owners.v[0].kind, "unit"), 0);
                world_own(h, "container", "web", NULL);
                assert_null(why(&world, h, NULL));
                forget(&world, h);
        }
        world_done(&world);
}

static void system_services(void **state)
{
        static const struct {
                const char *kinds[2], *ids[2];
                uint32_t uid;
                bool protected;
        } table[] = {
                { { "unit" }, { "agent.service" }, 0, true },
                { { "unit" }, { "agent.service" }, 999, true },
                { { "unit" }, { "agent.service" }, 1000, false },  /* somebody's own server */
                { { "unit" }, { "agent.service" }, 61184, false }, /* DynamicUser= */
                { { "unit" }, { "agent.service" }, UINT32_MAX, true },
                { { "unit" }, { "init.scope" }, 0, false },
                { { "user-unit" }, { "agent.service" }, 0, false },
                { { "session" }, { "3" }, 0, false },
                { { "unit", "container" }, { "docker.service", "abc" }, 0, false },
                { { "unit", "job" }, { "slurmd.service", "3385" }, 0, false },
                { { "container", "unit" }, { "ml", "vllm.service" }, 0, false }, /* LXC with systemd inside */
                { { "pod", "unit" }, { "ml", "vllm.service" }, 0, false },
                { { NULL }, { NULL }, 0, false },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                struct gpufree_holder *h;
                struct world world;

                world_init(&world, 1);
                h = world_add(&world, 10, "agent");
                world_hold(h, 0, GIB);
                h->facts.uid = table[i].uid;
                for (size_t j = 0; j < 2 && table[i].kinds[j]; j++)
                        world_own(h, table[i].kinds[j], table[i].ids[j], NULL);
                print_message("# row %zu\n", i);
                if (table[i].protected)
                        assert_string_equal(why(&world, h, NULL),
                                            "system service agent.service; ended only when named");
                else
                        assert_null(why(&world, h, NULL));
                world_done(&world);
        }
}

static void the_first_process_of_a_container(void **state)
{
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 1);
        h = world_add(&world, 10, "sh");
        world_open(h, 0);
        h->facts.pidns_pid = 1;
        world_own(h, "container", "web", NULL);
        assert_string_equal(why(&world, h, NULL), "first process of a container; the whole container ends with it");
        h->gpus.v[0].context = true; /* it is what holds the GPU */
        assert_null(why(&world, h, NULL));
        world_done(&world);
}

static void absolute(struct world *world, const struct gpufree_holder *holder, bool expected)
{
        bool is_absolute = false;
        const char *text = why(world, holder, &is_absolute);

        assert_int_equal(text != NULL, expected);
        assert_int_equal(is_absolute, expected);
}

static void this_login_and_its_ancestors_absolutely(void **state)
{
        struct gf_ident *ancestor;
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 1);
        ancestor = must_add(&world.self.ancestors);
        *ancestor = (struct gf_ident){ 850, 4000 };
        h = world_add(&world, 10, "bash");
        world_hold(h, 0, GIB);
        absolute(&world, h, false);
        h->id.pid = world.self.pid;
        absolute(&world, h, true);
        h->id = (struct gf_ident){ 850, 4000 };
        absolute(&world, h, true);
        h->id.start_ticks = 4001; /* the number, not the process */
        absolute(&world, h, false);
        h->id.start_ticks = 0;
        absolute(&world, h, true);
        h->id = (struct gf_ident){ 1, 0 };
        absolute(&world, h, true);
        h->id = (struct gf_ident){ world.self.session, 5 };
        absolute(&world, h, true);
        h->id = (struct gf_ident){ 10, 5 };
        h->facts.kernel_thread = true;
        absolute(&world, h, true);
        world_done(&world);
}

static void the_sshd_of_this_login(void **state)
{
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 1);
        h = world_add(&world, 10, "sshd");
        world_hold(h, 0, GIB);
        h->facts.login_session = 4;
        absolute(&world, h, false); /* a faked one, in this very login */
        set_exe(h, "/usr/sbin", "sshd", true);
        absolute(&world, h, true);
        set_exe(h, "/usr/lib/openssh", "sshd-session", true);
        absolute(&world, h, true);
        free(TAKE(h->facts.exe)); /* the unprivileged half of it can't be read */
        absolute(&world, h, true);
        h->facts.uid = 2000;
        absolute(&world, h, false);
        h->facts.uid = 0;
        absolute(&world, h, true);
        /* Another login's, or no login known: can be lifted. */
        h->facts.login_session = 5;
        assert_non_null(why(&world, h, NULL));
        h->facts.login_session = world.self.login_session = UINT32_MAX;
        assert_non_null(why(&world, h, NULL));
        world_done(&world);
}

static bool lifted(struct world *world, enum gpufree_criterion criterion, const char *value, pid_t pid)
{
        world_ask_nothing(world);
        if (value)
                world_ask(world, criterion, value);
        world_selected(world);
        assert_non_null(world_find(world, pid)->protected_why);
        return world_find(world, pid)->lifted;
}

static void each_is_lifted_by_its_own_name(void **state)
{
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 2);
        h = world_add(&world, 512, "nvidia-persiste");
        world_open(h, 0);
        set_exe(h, "/usr/bin", "nvidia-persistenced", true);
        world_own(h, "unit", "nvidia-persistenced.service", NULL);
        h = world_add(&world, 513, "agent");
        world_hold(h, 0, GIB);
        h->facts.uid = 0;
        world_own(h, "unit", "agent.service", NULL);
        h = world_add(&world, 514, "nvidia-cuda-mps");
        world_hold(h, 0, GIB);
        set_exe(h, "/usr/bin", "nvidia-cuda-mps-server", true);
        h = world_add(&world, 515, "nv-hostengine");
        world_hold(h, 0, GIB);
        h->facts.uid = 0;
        free(TAKE(h->facts.exe));
        h = world_add(&world, 516, "nvidia-vgpu-mgr");
        world_hold(h, 0, GIB);
        h->facts.uid = 0;
        free(TAKE(h->facts.exe));

        assert_false(lifted(&world, GPUFREE_INCLUDE, NULL, 512));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "512", 512));
        assert_false(lifted(&world, GPUFREE_INCLUDE, "512", 513));
        assert_false(lifted(&world, GPUFREE_INCLUDE, "51", 512));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "nvidia-persistenced", 512));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "nvidia-persiste", 512));
        assert_false(lifted(&world, GPUFREE_INCLUDE, "nvidia", 512));
        assert_false(lifted(&world, GPUFREE_INCLUDE, "/usr/bin/nvidia-persistenced", 512));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "agent", 513));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "agent.service", 513));
        assert_false(lifted(&world, GPUFREE_INCLUDE, "agent.service", 512));
        assert_true(lifted(&world, GPUFREE_BY_UNIT, "agent", 513));
        assert_true(lifted(&world, GPUFREE_BY_PID, "513", 513));
        assert_false(lifted(&world, GPUFREE_BY_GPU, "0", 513));
        assert_false(lifted(&world, GPUFREE_ANY_OPEN, "", 512));
        /* Control and server share the name that the kernel keeps; the one in full means one of them. */
        assert_false(lifted(&world, GPUFREE_INCLUDE, "nvidia-cuda-mps-control", 514));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "nvidia-cuda-mps-server", 514));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "nvidia-cuda-mps", 514));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "nv-hostengine", 515));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "nvidia-vgpu-mgr", 516));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "nvidia-vgpu-mgr-of-a-longer-name", 516));

        /* Several, each by name. */
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_INCLUDE, "512");
        world_ask(&world, GPUFREE_INCLUDE, "agent");
        assert_string_equal(world_selected(&world), "513 514 515 516");
        assert_true(world_find(&world, 512)->lifted && world_find(&world, 513)->lifted);
        assert_false(world_find(&world, 514)->lifted);
        world_done(&world);
}

static void a_unit_lifts_its_own_processes_not_those_of_its_containers(void **state)
{
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 1);
        h = world_add(&world, 600, "dcgm-exporter");
        world_hold(h, 0, GIB);
        set_exe(h, "/usr/bin", "dcgm-exporter", true);
        world_own(h, "unit", "docker.service", NULL);
        world_own(h, "container", "exporter", NULL);
        world_ask(&world, GPUFREE_BY_UNIT, "docker");
        assert_string_equal(world_selected(&world), "600");
        assert_non_null(world_find(&world, 600)->protected_why);
        assert_false(world_find(&world, 600)->lifted);
        world_done(&world);
}

static void the_absolute_ones_are_never_lifted(void **state)
{
        static const struct {
                enum gpufree_criterion criterion;
                const char *value;
        } table[] = {
                { GPUFREE_INCLUDE, "850" },   { GPUFREE_INCLUDE, "bash" },          { GPUFREE_BY_PID, "850" },
                { GPUFREE_BY_UNIT, "shell" }, { GPUFREE_INCLUDE, "shell.service" },
        };
        struct gf_ident *ancestor;
        struct gpufree_holder *h;
        struct world world;

        (void)state;
        world_init(&world, 1);
        ancestor = must_add(&world.self.ancestors);
        *ancestor = (struct gf_ident){ 850, 1000 };
        h = world_add(&world, 850, "bash");
        world_hold(h, 0, GIB);
        world_own(h, "unit", "shell.service", NULL);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                assert_false(lifted(&world, table[i].criterion, table[i].value, 850));
                assert_true(world_find(&world, 850)->protected_absolute);
                assert_true(world_find(&world, 850)->selected);
        }
        world_done(&world);
}

/* A context by the driver's structures alone, against its lists: held, and not ended unless named. */
static void on_the_witness_alone_nobody_is_ended(void **state)
{
        struct world world;
        struct gpufree_holder *h;

        (void)state;
        world_init(&world, 2);
        h = world_add(&world, 700, "train");
        world_hold(h, 0, GPUFREE_UNKNOWN);
        h->gpus.v[0].doubted = true;
        assert_string_equal(world_selected(&world), "700"); /* so the GPU is not free */
        h = world_find(&world, 700);
        assert_non_null(h->protected_why);
        assert_false(h->protected_absolute);
        assert_false(h->lifted);
        assert_true(lifted(&world, GPUFREE_BY_PID, "700", 700));
        assert_true(lifted(&world, GPUFREE_INCLUDE, "train", 700));
        /* On the other GPU it is listed: there it is meant like any other, and where both are. */
        world_ask_nothing(&world);
        world_hold(world_find(&world, 700), 1, GIB);
        world_selected(&world);
        assert_null(world_find(&world, 700)->protected_why);
        world_ask(&world, GPUFREE_BY_GPU, "1");
        world_selected(&world);
        assert_null(world_find(&world, 700)->protected_why);
        world_ask_nothing(&world);
        world_ask(&world, GPUFREE_BY_GPU, "0");
        world_selected(&world);
        assert_non_null(world_find(&world, 700)->protected_why);
        world_done(&world);
}

static void a_bystander_is_not_protected(void **state)
{
        static const char *const names[] = { "Xorgy", "XX", "systemdx", "qemu-syste", "python", "nvidia-persistencedx",
                                             "sshd2" };
        struct world world;

        (void)state;
        world_init(&world, 1);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                struct gpufree_holder *h = world_add(&world, 10, "x");

                world_hold(h, 0, GIB);
                set_exe(h, "/usr/bin", names[i], true);
                assert_null(why(&world, h, NULL));
                forget(&world, h);
        }
        world_done(&world);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_program_of_the_table),
                cmocka_unit_test(holding_memory_matters_for_monitors_only),
                cmocka_unit_test(monitors_written_in_python),
                cmocka_unit_test(every_unit_of_the_table),
                cmocka_unit_test(system_services),
                cmocka_unit_test(the_first_process_of_a_container),
                cmocka_unit_test(this_login_and_its_ancestors_absolutely),
                cmocka_unit_test(the_sshd_of_this_login),
                cmocka_unit_test(each_is_lifted_by_its_own_name),
                cmocka_unit_test(a_unit_lifts_its_own_processes_not_those_of_its_containers),
                cmocka_unit_test(the_absolute_ones_are_never_lifted),
                cmocka_unit_test(on_the_witness_alone_nobody_is_ended),
                cmocka_unit_test(a_bystander_is_not_protected),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

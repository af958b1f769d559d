/* SPDX-License-Identifier: MIT */
/* The accessors of the public header: what was put in comes out, NULL and positions past the end are "unknown". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/report.h"

/* gf_vec_add() that can't fail. */
#define must_add(vec)                                                                                                  \
        __extension__({                                                                                                \
                __typeof__((vec)->v) _added = gf_vec_add(vec);                                                         \
                if (!_added)                                                                                           \
                        abort();                                                                                       \
                _added;                                                                                                \
        })

static struct gpufree_snapshot *new_snapshot(void)
{
        struct gpufree_snapshot *snapshot = calloc(1, sizeof(*snapshot));

        if (!snapshot)
                abort();
        snapshot->refs = 1;
        return snapshot;
}

static struct gpufree_holder *add_holder(struct gpufree_snapshot *snapshot, pid_t pid)
{
        struct gpufree_holder *holder = must_add(&snapshot->holders);

        holder->id = (struct gf_ident){ pid, 100 };
        return holder;
}

static void add_use(struct gpufree_holder *holder, int gpu, uint64_t memory, bool context)
{
        *must_add(&holder->gpus) = (struct gf_gpu_use){ .gpu = gpu, .memory = memory, .context = context };
}

static void names(void **state)
{
        static const char *const outcomes[] = { "ok", "held", "usage", "incomplete", "refused", "residue", "timeout" };
        static const char *const vendors[] = { "none",   "nvidia", "amd",    "intel",     "habana",
                                               "google", "aws",    "huawei", "microsoft", "other" };
        static const char *const fates[] = { "ended",   "killed",   "already-gone", "let-go",
                                             "refused", "survived", "not-in-plan",  "ended-by-owner" };

        (void)state;
        for (unsigned i = 0; i < ELEMENTSOF(outcomes); i++)
                assert_string_equal(gpufree_outcome_name((enum gpufree_outcome)i), outcomes[i]);
        for (unsigned i = 0; i < ELEMENTSOF(vendors); i++)
                assert_string_equal(gpufree_vendor_name((enum gpufree_vendor)i), vendors[i]);
        for (unsigned i = 0; i < ELEMENTSOF(fates); i++)
                assert_string_equal(gpufree_fate_name((enum gpufree_fate)i), fates[i]);
        assert_null(gpufree_outcome_name((enum gpufree_outcome)ELEMENTSOF(outcomes)));
        assert_null(gpufree_vendor_name((enum gpufree_vendor)ELEMENTSOF(vendors)));
        assert_null(gpufree_fate_name((enum gpufree_fate)ELEMENTSOF(fates)));
        assert_null(gpufree_fate_name((enum gpufree_fate) - 1));
}

static void a_snapshot(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = new_snapshot();
        struct gpufree_look_count count;

        (void)state;
        assert_true(gpufree_snapshot_complete(snapshot));
        assert_null(gpufree_snapshot_gap(snapshot, 0));
        assert_null(gpufree_snapshot_driver_error(snapshot));
        assert_null(gpufree_snapshot_driver_version(snapshot));
        assert_null(gpufree_snapshot_method_reason(snapshot));

        snapshot->scan.method = GPUFREE_SCAN_PROC;
        assert_int_equal(gf_strset(&snapshot->scan.method_reason, "no BTF"), 0);
        snapshot->scan.processes = 321;
        snapshot->unreadable = 4;
        snapshot->elapsed_us = 5678;
        snprintf(snapshot->driver.error, sizeof(snapshot->driver.error), "timed out");
        snprintf(snapshot->driver.version, sizeof(snapshot->driver.version), "580.1");
        assert_int_equal(gf_strv_add(&snapshot->gaps, "one"), 0);
        assert_int_equal(gf_strv_add(&snapshot->gaps, "two"), 0);
        assert_false(gpufree_snapshot_complete(snapshot));
        assert_string_equal(gpufree_snapshot_gap(snapshot, 1), "two");
        assert_null(gpufree_snapshot_gap(snapshot, 2));
        assert_null(gpufree_snapshot_gap(snapshot, SIZE_MAX));
        assert_int_equal(gpufree_snapshot_method(snapshot), GPUFREE_SCAN_PROC);
        assert_string_equal(gpufree_snapshot_method_reason(snapshot), "no BTF");
        assert_int_equal(gpufree_snapshot_processes(snapshot), 321);
        snapshot->scan.threads = 400;
        snapshot->scan.vanished = 2;
        snapshot->scan.opaque_queues = 3;
        assert_int_equal(gpufree_snapshot_count(snapshot, &count, sizeof(count)), 0);
        assert_int_equal(count.threads, 400);
        assert_true(count.threads_existing == GPUFREE_UNKNOWN);
        assert_int_equal(count.vanished, 2);
        assert_int_equal(count.opaque, 3);
        assert_int_equal(count.refused_permission + count.refused_other, 0);
        /* A caller built against a longer structure than ours, or none. */
        assert_int_equal(gpufree_snapshot_count(snapshot, &count, sizeof(count) + 8), -EINVAL);
        assert_int_equal(gpufree_snapshot_count(NULL, &count, sizeof(count)), -EINVAL);
        assert_int_equal(gpufree_snapshot_unreadable(snapshot), 4);
        assert_int_equal(gpufree_snapshot_elapsed_us(snapshot), 5678);
        assert_string_equal(gpufree_snapshot_driver_error(snapshot), "timed out");
        assert_string_equal(gpufree_snapshot_driver_version(snapshot), "580.1");

        assert_ptr_equal(gpufree_snapshot_ref(snapshot), snapshot);
        assert_null(gpufree_snapshot_unref(snapshot));
        assert_int_equal(snapshot->refs, 1);
}

static void a_gpu_and_a_device(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = new_snapshot();
        struct gpufree_device *device = must_add(&snapshot->inventory.devices);
        struct gpufree_gpu *gpu = must_add(&snapshot->inventory.gpus);
        const gpufree_gpu *g;
        const gpufree_device *d;

        (void)state;
        *gpu = (struct gpufree_gpu){ .index = 2,
                                     .minor = 3,
                                     .uuid = strdup("GPU-1"),
                                     .pci = strdup("0000:18:00.0"),
                                     .name = strdup("H200"),
                                     .vendor = GPUFREE_VENDOR_NVIDIA,
                                     .memory = { 100, 60, 5 },
                                     .error = strdup("lost"),
                                     .selected = true,
                                     .accounted = 50,
                                     .unaccounted = 10,
                                     .holders = 7,
                                     .openers = 8 };
        *device = (struct gpufree_device){
                .path = strdup("/dev/nvidia3"), .rdev = 0xc303, .cls = GF_CLASS_NVIDIA_GPU, .minor = 3, .gpu = 0
        };
        assert_int_equal(gpufree_snapshot_gpu_count(snapshot), 1);
        assert_null(gpufree_snapshot_gpu(snapshot, 1));
        assert_null(gpufree_snapshot_gpu(snapshot, SIZE_MAX));
        g = gpufree_snapshot_gpu(snapshot, 0);
        assert_int_equal(gpufree_gpu_index(g), 2);
        assert_int_equal(gpufree_gpu_minor(g), 3);
        assert_string_equal(gpufree_gpu_uuid(g), "GPU-1");
        assert_string_equal(gpufree_gpu_pci(g), "0000:18:00.0");
        assert_string_equal(gpufree_gpu_name(g), "H200");
        assert_int_equal(gpufree_gpu_vendor(g), GPUFREE_VENDOR_NVIDIA);
        assert_true(gpufree_gpu_selected(g));
        assert_int_equal(gpufree_gpu_memory_total(g), 100);
        assert_int_equal(gpufree_gpu_memory_used(g), 60);
        assert_int_equal(gpufree_gpu_memory_reserved(g), 5);
        assert_int_equal(gpufree_gpu_memory_accounted(g), 50);
        assert_int_equal(gpufree_gpu_memory_unaccounted(g), 10);
        assert_int_equal(gpufree_gpu_holders(g), 7);
        assert_int_equal(gpufree_gpu_openers(g), 8);
        assert_string_equal(gpufree_gpu_error(g), "lost");

        assert_int_equal(gpufree_snapshot_device_count(snapshot), 1);
        assert_null(gpufree_snapshot_device(snapshot, 1));
        d = gpufree_snapshot_device(snapshot, 0);
        assert_string_equal(gpufree_device_path(d), "/dev/nvidia3");
        assert_int_equal(gpufree_device_rdev(d), 0xc303);
        assert_false(gpufree_device_is_block(d));
        device->block = true;
        assert_true(gpufree_device_is_block(d));
        assert_non_null(gpufree_device_class(d));
        assert_int_equal(gpufree_device_gpu(d), 0);
}

static void fill_holder(struct gpufree_holder *holder)
{
        *must_add(&holder->owners) = (struct gf_owner){ strdup("container"), strdup("docker"), strdup("abc"),
                                                        strdup("web") };
        *must_add(&holder->owners) = (struct gf_owner){ strdup("unit"), NULL, strdup("x.service"), NULL };
        *must_add(&holder->devices) = (struct gf_device_use){
                .device = 3, .via = GPUFREE_VIA_FD | GPUFREE_VIA_MAP, .fds = 20, .maps = 31, .bytes = GPUFREE_UNKNOWN
        };
        *must_add(&holder->devices) =
                (struct gf_device_use){ .device = -1, .via = GPUFREE_VIA_DMABUF, .fds = 1, .bytes = 4096 };
        add_use(holder, 1, 77, true);
        add_use(holder, 2, GPUFREE_UNKNOWN, false);
        holder->owner_label = strdup("docker:web");
        assert_int_equal(gf_strv_add(&holder->notes, "stopped"), 0);
        holder->facts = (struct gf_facts){ .comm = strdup("python"),
                                           .cmdline = calloc(1, 4),
                                           .cmdline_length = 4,
                                           .uid = 1000,
                                           .user = strdup("alice"),
                                           .state = 'D',
                                           .ppid = 5,
                                           .pidns_pid = 6,
                                           .age_ms = 9000 };
}

static void a_holder(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = new_snapshot();
        struct gpufree_holder *holder = add_holder(snapshot, 42);
        const gpufree_holder *h = gpufree_snapshot_holder(snapshot, 0);
        const char *kind, *runtime, *id, *name;
        uint64_t count, bytes, memory;
        int device, gpu;
        unsigned via;
        bool context;
        size_t length = 0;

        (void)state;
        fill_holder(holder);
        assert_int_equal(gpufree_snapshot_holder_count(snapshot), 1);
        assert_null(gpufree_snapshot_holder(snapshot, 1));
        assert_int_equal(gpufree_holder_pid(h), 42);
        assert_int_equal(gpufree_holder_start_ticks(h), 100);
        assert_string_equal(gpufree_holder_comm(h), "python");
        assert_ptr_equal(gpufree_holder_cmdline(h, &length), holder->facts.cmdline);
        assert_int_equal(length, 4);
        assert_non_null(gpufree_holder_cmdline(h, NULL));
        assert_int_equal(gpufree_holder_uid(h), 1000);
        assert_string_equal(gpufree_holder_user(h), "alice");
        assert_int_equal(gpufree_holder_state(h), 'D');
        assert_int_equal(gpufree_holder_ppid(h), 5);
        assert_int_equal(gpufree_holder_pidns_pid(h), 6);
        assert_int_equal(gpufree_holder_age_ms(h), 9000);
        assert_string_equal(gpufree_holder_owner_label(h), "docker:web");
        assert_string_equal(gpufree_holder_note(h, 0), "stopped");
        assert_null(gpufree_holder_note(h, 1));

        assert_false(gpufree_holder_selected(h));
        assert_null(gpufree_holder_protected(h));
        holder->selected = holder->protected_absolute = true;
        assert_true(gpufree_holder_selected(h));
        assert_false(gpufree_holder_protection_absolute(h));
        holder->protected_why = strdup("because");
        assert_string_equal(gpufree_holder_protected(h), "because");
        assert_true(gpufree_holder_protection_absolute(h));

        assert_int_equal(gpufree_holder_owner_count(h), 2);
        assert_int_equal(gpufree_holder_owner(h, 0, &kind, &runtime, &id, &name), 0);
        assert_string_equal(kind, "container");
        assert_string_equal(runtime, "docker");
        assert_string_equal(id, "abc");
        assert_string_equal(name, "web");
        assert_int_equal(gpufree_holder_owner(h, 1, &kind, &runtime, NULL, &name), 0);
        assert_string_equal(kind, "unit");
        assert_null(runtime);
        assert_null(name);

        assert_int_equal(gpufree_holder_device_count(h), 2);
        assert_int_equal(gpufree_holder_device(h, 0, &device, &via, &count, &bytes), 0);
        assert_int_equal(device, 3);
        assert_int_equal(via, GPUFREE_VIA_FD | GPUFREE_VIA_MAP);
        assert_int_equal(count, 51);
        assert_true(bytes == GPUFREE_UNKNOWN);
        assert_int_equal(gpufree_holder_device(h, 1, &device, NULL, NULL, &bytes), 0);
        assert_int_equal(device, -1);
        assert_int_equal(bytes, 4096);

        assert_int_equal(gpufree_holder_gpu_count(h), 2);
        assert_int_equal(gpufree_holder_gpu(h, 0, &gpu, &memory, &context), 0);
        assert_int_equal(gpu, 1);
        assert_int_equal(memory, 77);
        assert_true(context);
        assert_int_equal(gpufree_holder_gpu(h, 1, NULL, &memory, &context), 0);
        assert_true(memory == GPUFREE_UNKNOWN);
        assert_false(context);

        /* Past the end: nothing is written. */
        device = 12345;
        assert_int_equal(gpufree_holder_device(h, 2, &device, NULL, NULL, NULL), -ERANGE);
        assert_int_equal(gpufree_holder_device(h, SIZE_MAX, &device, NULL, NULL, NULL), -ERANGE);
        assert_int_equal(gpufree_holder_gpu(h, 2, &device, NULL, NULL), -ERANGE);
        assert_int_equal(device, 12345);
        assert_int_equal(gpufree_holder_owner(h, 2, &kind, NULL, NULL, NULL), -ERANGE);
        assert_string_equal(kind, "unit");
}

static void a_holder_about_which_nothing_is_known(void **state)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = new_snapshot();
        struct gpufree_holder *holder = add_holder(snapshot, 42);
        size_t length = 99;

        (void)state;
        holder->facts.age_ms = GPUFREE_UNKNOWN;
        assert_null(gpufree_holder_comm(holder));
        assert_null(gpufree_holder_cmdline(holder, &length));
        assert_int_equal(length, 99);
        assert_int_equal(gpufree_holder_state(holder), '?');
        assert_true(gpufree_holder_age_ms(holder) == GPUFREE_UNKNOWN);
        assert_null(gpufree_holder_owner_label(holder));
        /* No arguments is something that is known: length 0. */
        holder->facts.cmdline = strdup("");
        assert_non_null(gpufree_holder_cmdline(holder, &length));
        assert_int_equal(length, 0);
}

static void a_plan(void **state)
{
        struct gpufree_snapshot *snapshot = new_snapshot();
        struct gpufree_plan *plan = calloc(1, sizeof(*plan));
        const struct gpufree_holder *a, *b;

        (void)state;
        if (!plan)
                abort();
        plan->snapshot = snapshot;
        add_use(add_holder(snapshot, 10), 0, 5, true);
        add_use(add_holder(snapshot, 11), 0, 7, true);
        for (size_t i = 0; i < 3; i++)
                must_add(&snapshot->inventory.gpus)->index = (int)i;
        a = &snapshot->holders.v[0];
        b = &snapshot->holders.v[1];
        assert_int_equal(gpufree_plan_target_count(plan), 0);
        assert_int_equal(gpufree_plan_memory(plan, 0), 0);
        *must_add(&plan->targets) = a;
        *must_add(&plan->spared) = b;
        assert_int_equal(gpufree_plan_target_count(plan), 1);
        assert_ptr_equal(gpufree_plan_target(plan, 0), a);
        assert_null(gpufree_plan_target(plan, 1));
        assert_int_equal(gpufree_plan_spared_count(plan), 1);
        assert_ptr_equal(gpufree_plan_spared(plan, 0), b);
        assert_null(gpufree_plan_spared(plan, SIZE_MAX));

        assert_int_equal(gpufree_plan_memory(plan, 0), 5);
        assert_int_equal(gpufree_plan_memory(plan, 1), 0);
        assert_true(gpufree_plan_memory(plan, 3) == GPUFREE_UNKNOWN);
        *must_add(&plan->targets) = b;
        assert_int_equal(gpufree_plan_memory(plan, 0), 12);
        /* Merely open elsewhere: nothing to come back. A context of unknown size: not known. */
        add_use(&snapshot->holders.v[0], 1, GPUFREE_UNKNOWN, false);
        assert_int_equal(gpufree_plan_memory(plan, 1), 0);
        add_use(&snapshot->holders.v[1], 1, GPUFREE_UNKNOWN, true);
        assert_true(gpufree_plan_memory(plan, 1) == GPUFREE_UNKNOWN);
        /* More than can be counted is not known either. */
        snapshot->holders.v[0].gpus.v[0].memory = UINT64_MAX - 3;
        assert_true(gpufree_plan_memory(plan, 0) == GPUFREE_UNKNOWN);
        assert_null(gpufree_plan_unref(plan));
}

static void the_memory_of_a_dead_process_comes_back_with_its_last_heir(void **state)
{
        struct gpufree_snapshot *snapshot = new_snapshot();
        struct gpufree_plan *plan = calloc(1, sizeof(*plan));

        (void)state;
        if (!plan)
                abort();
        plan->snapshot = snapshot;
        must_add(&snapshot->inventory.gpus);
        must_add(&snapshot->inventory.gpus);
        *must_add(&snapshot->dead) = (struct gf_dead){ .pid = 511, .gpu = 0, .memory = 20 };
        *must_add(&snapshot->dead) = (struct gf_dead){ .pid = 512, .gpu = 0, .memory = 40 };
        *must_add(&snapshot->dead) = (struct gf_dead){ .pid = 511, .gpu = 1, .memory = 80 };
        for (int i = 0; i < 3; i++) {
                struct gpufree_holder *heir = add_holder(snapshot, 10 + i);

                add_use(heir, 0, GPUFREE_UNKNOWN, true);
                heir->gpus.v[0].inherited = true;
                assert_int_equal(gf_strv_add(&heir->notes, "inherited-from:511"), 0);
        }
        *must_add(&plan->targets) = &snapshot->holders.v[0];
        *must_add(&plan->targets) = &snapshot->holders.v[1];
        assert_int_equal(gpufree_plan_memory(plan, 0), 0); /* the third keeps it */
        *must_add(&plan->targets) = &snapshot->holders.v[2];
        assert_int_equal(gpufree_plan_memory(plan, 0), 20);
        assert_int_equal(gpufree_plan_memory(plan, 1), 0);
        /* A sole heir has the figure itself: not counted twice. */
        snapshot->holders.n = 1;
        plan->targets.n = 1;
        snapshot->holders.v[0].gpus.v[0].memory = 20;
        assert_int_equal(gpufree_plan_memory(plan, 0), 20);
        snapshot->holders.n = 3;
        assert_null(gpufree_plan_unref(plan));
}

static void a_report(void **state)
{
        struct gpufree_snapshot *snapshot = new_snapshot();
        _cleanup_report_ struct gpufree_report *report = NULL;
        const gpufree_holder *holder;
        const gpufree_gpu *gpu;
        const char *text;
        enum gpufree_fate fate;
        uint64_t before, after, ms;
        bool verified;

        (void)state;
        add_holder(snapshot, 10);
        must_add(&snapshot->inventory.gpus);
        assert_int_equal(gf_report_new(snapshot, &report), 0);
        gpufree_snapshot_unref(snapshot); /* the report keeps it */
        report->outcome = GPUFREE_RESIDUE;
        report->elapsed_ms = 12;
        assert_int_equal(gf_strv_add(&report->sentences, "so it is"), 0);
        *must_add(&report->fates) = (struct gf_fate_entry){ .snapshot = gpufree_snapshot_ref(snapshot),
                                                            .holder = &snapshot->holders.v[0],
                                                            .fate = GPUFREE_FATE_KILLED,
                                                            .elapsed_ms = 34,
                                                            .detail = strdup("slow") };
        *must_add(&report->gpus) = (struct gf_gpu_verdict){ .gpu = 0,
                                                            .used_before = 1,
                                                            .used_after = 2,
                                                            .elapsed_ms = 3,
                                                            .verified = true,
                                                            .sentence = strdup("back") };
        *must_add(&report->gpus) = (struct gf_gpu_verdict){ .gpu = 77 };
        *must_add(&report->gpus) = (struct gf_gpu_verdict){ .gpu = -1 };

        assert_int_equal(gpufree_report_outcome(report), GPUFREE_RESIDUE);
        assert_int_equal(gpufree_report_elapsed_ms(report), 12);
        assert_ptr_equal(gpufree_report_snapshot(report), snapshot);
        report->timings.last_exit = 34;
        assert_int_equal(gpufree_report_timings(report, &before, NULL, &after, NULL, NULL), 0);
        assert_true(before == GPUFREE_UNKNOWN && after == 34);
        assert_int_equal(gpufree_report_timings(NULL, &before, NULL, NULL, NULL, NULL), -EINVAL);
        assert_string_equal(gpufree_report_sentence(report, 0), "so it is");
        assert_null(gpufree_report_sentence(report, 1));
        assert_int_equal(gpufree_report_fate_count(report), 1);
        assert_int_equal(gpufree_report_fate(report, 0, &holder, &fate, &ms, &text), 0);
        assert_int_equal(gpufree_holder_pid(holder), 10);
        assert_int_equal(fate, GPUFREE_FATE_KILLED);
        assert_int_equal(ms, 34);
        assert_string_equal(text, "slow");
        assert_int_equal(gpufree_report_fate(report, 0, NULL, NULL, NULL, NULL), 0);
        assert_int_equal(gpufree_report_fate(report, 1, &holder, &fate, &ms, &text), -ERANGE);
        assert_int_equal(gpufree_report_gpu_count(report), 3);
        assert_int_equal(gpufree_report_gpu(report, 0, &gpu, &before, &after, &ms, &verified, &text), 0);
        assert_ptr_equal(gpu, &snapshot->inventory.gpus.v[0]);
        assert_int_equal(before, 1);
        assert_int_equal(after, 2);
        assert_int_equal(ms, 3);
        assert_true(verified);
        assert_string_equal(text, "back");
        /* A GPU that is gone from the last look. */
        assert_int_equal(gpufree_report_gpu(report, 1, &gpu, NULL, NULL, NULL, &verified, NULL), 0);
        assert_null(gpu);
        assert_false(verified);
        assert_int_equal(gpufree_report_gpu(report, 2, &gpu, NULL, NULL, NULL, NULL, NULL), 0);
        assert_null(gpu);
        assert_int_equal(gpufree_report_gpu(report, 3, &gpu, NULL, NULL, NULL, NULL, NULL), -ERANGE);
}

static void null_is_unknown_everywhere(void **state)
{
        (void)state;
        assert_false(gpufree_snapshot_complete(NULL));
        assert_null(gpufree_snapshot_gap(NULL, 0));
        assert_int_equal(gpufree_snapshot_method(NULL), GPUFREE_SCAN_AUTO);
        assert_null(gpufree_snapshot_method_reason(NULL));
        assert_true(gpufree_snapshot_elapsed_us(NULL) == GPUFREE_UNKNOWN);
        assert_true(gpufree_snapshot_processes(NULL) == GPUFREE_UNKNOWN);
        assert_true(gpufree_snapshot_unreadable(NULL) == GPUFREE_UNKNOWN);
        assert_null(gpufree_snapshot_driver_error(NULL));
        assert_null(gpufree_snapshot_driver_version(NULL));
        assert_int_equal(gpufree_snapshot_gpu_count(NULL), 0);
        assert_null(gpufree_snapshot_gpu(NULL, 0));
        assert_int_equal(gpufree_snapshot_device_count(NULL), 0);
        assert_null(gpufree_snapshot_device(NULL, 0));
        assert_int_equal(gpufree_snapshot_holder_count(NULL), 0);
        assert_null(gpufree_snapshot_holder(NULL, 0));
        assert_null(gpufree_snapshot_ref(NULL));
        assert_null(gpufree_snapshot_unref(NULL));

        assert_int_equal(gpufree_gpu_index(NULL), -1);
        assert_int_equal(gpufree_gpu_minor(NULL), -1);
        assert_null(gpufree_gpu_uuid(NULL));
        assert_null(gpufree_gpu_pci(NULL));
        assert_null(gpufree_gpu_name(NULL));
        assert_int_equal(gpufree_gpu_vendor(NULL), GPUFREE_VENDOR_NONE);
        assert_false(gpufree_gpu_selected(NULL));
        assert_true(gpufree_gpu_memory_total(NULL) == GPUFREE_UNKNOWN);
        assert_true(gpufree_gpu_memory_used(NULL) == GPUFREE_UNKNOWN);
        assert_true(gpufree_gpu_memory_reserved(NULL) == GPUFREE_UNKNOWN);
        assert_true(gpufree_gpu_memory_accounted(NULL) == GPUFREE_UNKNOWN);
        assert_true(gpufree_gpu_memory_unaccounted(NULL) == GPUFREE_UNKNOWN);
        assert_int_equal(gpufree_gpu_holders(NULL), 0);
        assert_int_equal(gpufree_gpu_openers(NULL), 0);
        assert_null(gpufree_gpu_error(NULL));

        assert_null(gpufree_device_path(NULL));
        assert_int_equal(gpufree_device_rdev(NULL), 0);
        assert_false(gpufree_device_is_block(NULL));
        assert_null(gpufree_device_class(NULL));
        assert_int_equal(gpufree_device_gpu(NULL), -1);

        assert_int_equal(gpufree_holder_pid(NULL), 0);
        assert_true(gpufree_holder_start_ticks(NULL) == GPUFREE_UNKNOWN);
        assert_null(gpufree_holder_comm(NULL));
        assert_null(gpufree_holder_cmdline(NULL, NULL));
        assert_true(gpufree_holder_uid(NULL) == UINT32_MAX);
        assert_null(gpufree_holder_user(NULL));
        assert_int_equal(gpufree_holder_state(NULL), '?');
        assert_int_equal(gpufree_holder_ppid(NULL), 0);
        assert_int_equal(gpufree_holder_pidns_pid(NULL), 0);
        assert_true(gpufree_holder_age_ms(NULL) == GPUFREE_UNKNOWN);
        assert_false(gpufree_holder_selected(NULL));
        assert_null(gpufree_holder_protected(NULL));
        assert_false(gpufree_holder_protection_absolute(NULL));
        assert_int_equal(gpufree_holder_owner_count(NULL), 0);
        assert_int_equal(gpufree_holder_owner(NULL, 0, NULL, NULL, NULL, NULL), -ERANGE);
        assert_null(gpufree_holder_owner_label(NULL));
        assert_int_equal(gpufree_holder_device_count(NULL), 0);
        assert_int_equal(gpufree_holder_device(NULL, 0, NULL, NULL, NULL, NULL), -ERANGE);
        assert_int_equal(gpufree_holder_gpu_count(NULL), 0);
        assert_int_equal(gpufree_holder_gpu(NULL, 0, NULL, NULL, NULL), -ERANGE);
        assert_null(gpufree_holder_note(NULL, 0));

        assert_null(gpufree_plan_unref(NULL));
        assert_int_equal(gpufree_plan_target_count(NULL), 0);
        assert_null(gpufree_plan_target(NULL, 0));
        assert_int_equal(gpufree_plan_spared_count(NULL), 0);
        assert_null(gpufree_plan_spared(NULL, 0));
        assert_true(gpufree_plan_memory(NULL, 0) == GPUFREE_UNKNOWN);

        assert_null(gpufree_report_unref(NULL));
        assert_int_equal(gpufree_report_outcome(NULL), GPUFREE_INCOMPLETE); /* never "free" */
        assert_null(gpufree_report_sentence(NULL, 0));
        assert_true(gpufree_report_elapsed_ms(NULL) == GPUFREE_UNKNOWN);
        assert_null(gpufree_report_snapshot(NULL));
        assert_int_equal(gpufree_report_fate_count(NULL), 0);
        assert_int_equal(gpufree_report_fate(NULL, 0, NULL, NULL, NULL, NULL), -ERANGE);
        assert_int_equal(gpufree_report_gpu_count(NULL), 0);
        assert_int_equal(gpufree_report_gpu(NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL), -ERANGE);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names),
                cmocka_unit_test(a_snapshot),
                cmocka_unit_test(a_gpu_and_a_device),
                cmocka_unit_test(a_holder),
                cmocka_unit_test(a_holder_about_which_nothing_is_known),
                cmocka_unit_test(a_plan),
                cmocka_unit_test(the_memory_of_a_dead_process_comes_back_with_its_last_heir),
                cmocka_unit_test(a_report),
                cmocka_unit_test(null_is_unknown_everywhere),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

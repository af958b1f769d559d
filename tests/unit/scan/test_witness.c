/* SPDX-License-Identifier: MIT */
/* The second witness: what is made of its records, and that its program loads where there is no driver. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gpufree.h"
#include "scan/scan.h"
#include "scan/witness.h"

#define CTL (195u << 20 | 255)
#define NODE (195u << 20 | 1)
#define UVM (235u << 20)

static const struct gf_witness_clock clock_of_ours = { 0, 100 };

static struct gf_witness_record *add(gf_witness_records *records, __u32 kind, __u32 pid, __s32 fd, __u32 flags)
{
        struct gf_witness_record *record = gf_vec_add(records);

        if (!record)
                abort();
        record->kind = kind;
        record->tgid = record->tid = pid;
        record->fd = fd;
        record->flags = flags;
        record->start_ns = pid * 1000000000ull;
        record->rdev = kind == GF_WITNESS_NODE ? NODE : UVM;
        return record;
}

static void set_pci(struct gf_witness_record *record, const char *pci)
{
        (void)snprintf(record->pci, sizeof(record->pci), "%s", pci);
}

static struct gf_witness facts_of(const gf_witness_records *records)
{
        struct gf_witness witness = { 0 };

        assert_int_equal(gf_witness_facts(records, &clock_of_ours, &witness), 0);
        return witness;
}

static void a_descriptor_names_its_gpu(void **state _unused_)
{
        gf_witness_records records = { 0 };
        struct gf_witness witness;
        struct gf_witness_record *r;

        r = add(&records, GF_WITNESS_NODE, 12, 7, GF_WITNESS_GPU_KNOWN | GF_WITNESS_HANDLES_KNOWN);
        r->gpu_id = 0x0820u << 16 | 0x3au << 8; /* domain, bus, device 0 */
        r = add(&records, GF_WITNESS_NODE, 11, 5, GF_WITNESS_GPU_KNOWN);
        r->gpu_id = 7;
        set_pci(r, "0000:00:07.0");
        witness = facts_of(&records);
        assert_int_equal(witness.facts.n, 2);
        assert_int_equal(witness.facts.v[0].id.pid, 11);
        assert_int_equal(witness.facts.v[0].id.start_ticks, 1100);
        assert_int_equal(witness.facts.v[0].kind, GF_FACT_NODE);
        assert_string_equal(witness.facts.v[0].pci, "0000:00:07.0");
        assert_string_equal(witness.facts.v[1].pci, "0820:3a:00.0");
        gf_witness_done(&witness);
        gf_vec_done(&records);
}

/* The device's name and the driver's number differ, or neither is there: nothing is said. */
static void what_does_not_fit_is_unknown(void **state _unused_)
{
        gf_witness_records records = { 0 };
        struct gf_witness witness;
        struct gf_witness_record *r;

        r = add(&records, GF_WITNESS_NODE, 11, 5, GF_WITNESS_GPU_KNOWN);
        r->gpu_id = 6;
        set_pci(r, "0000:00:07.0");
        add(&records, GF_WITNESS_NODE, 11, 6, 0);
        r = add(&records, GF_WITNESS_NODE, 11, 7, 0);
        set_pci(r, "\x1b]0;pwned");
        r = add(&records, GF_WITNESS_NODE, 11, 8, GF_WITNESS_GPU_KNOWN);
        memset(r->pci, 'x', sizeof(r->pci)); /* no end */
        r->gpu_id = 7;
        add(&records, 77, 11, 9, 0xffffffff);
        add(&records, GF_WITNESS_SPACE, 0, 9, GF_WITNESS_WHOLE);
        add(&records, GF_WITNESS_SPACE, 0x80000000u, 9, GF_WITNESS_WHOLE);
        add(&records, GF_WITNESS_SPACE, 11, -5, GF_WITNESS_WHOLE);
        witness = facts_of(&records);
        assert_int_equal(witness.facts.n, 0);
        gf_witness_done(&witness);
        gf_vec_done(&records);
}

static struct gf_witness_record *handle(gf_witness_records *records, __u32 pid, __u32 gpu, __u32 instance)
{
        struct gf_witness_record *r = add(records, GF_WITNESS_NODE, pid, 3,
                                          GF_WITNESS_GPU_KNOWN | GF_WITNESS_HANDLES_KNOWN | GF_WITNESS_HANDLES);

        r->rdev = CTL;
        r->attached = 1;
        r->attached_first = gpu;
        r->instance = instance;
        return r;
}

static void handles_name_the_attached_gpu(void **state _unused_)
{
        gf_witness_records records = { 0 };
        struct gf_witness witness;
        struct gf_witness_record *r;

        handle(&records, 21, 6, 0);
        handle(&records, 22, 7, 1);
        r = handle(&records, 23, 7, 1); /* nothing exported: a number left over says nothing */
        r->flags &= ~(__u32)GF_WITNESS_HANDLES;
        r = handle(&records, 24, 7, 1);
        r->attached = 2; /* of two it is not to be told which */
        r = handle(&records, 25, 7, 1);
        r->rdev = NODE; /* not the control device */
        witness = facts_of(&records);
        assert_int_equal(witness.facts.n, 2);
        assert_int_equal(witness.facts.v[0].kind, GF_FACT_HANDLE);
        assert_string_equal(witness.facts.v[0].pci, "0000:00:06.0");
        assert_int_equal(witness.facts.v[0].instance, 0);
        assert_string_equal(witness.facts.v[1].pci, "0000:00:07.0");
        assert_int_equal(witness.facts.v[1].instance, 1);
        gf_witness_done(&witness);
        gf_vec_done(&records);
}

/* What is attached, a process says of itself. Where it does not fit the driver's own number, neither is believed. */
static void handles_that_contradict_are_unknown(void **state _unused_)
{
        gf_witness_records records = { 0 };
        struct gf_witness witness;

        handle(&records, 21, 6, 0);
        handle(&records, 22, 7, 0);
        handle(&records, 23, 8, 2);
        witness = facts_of(&records);
        assert_int_equal(witness.facts.n, 1);
        assert_int_equal(witness.facts.v[0].id.pid, 23);
        gf_witness_done(&witness);
        gf_vec_done(&records);
}

static void a_space_and_its_contexts(void **state _unused_)
{
        static const __u8 uuid[16] = { 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0,
                                       0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };
        gf_witness_records records = { 0 };
        struct gf_witness witness;
        struct gf_witness_record *r;

        r = add(&records, GF_WITNESS_PART, 31, 4, GF_WITNESS_USED);
        r->space = 1;
        memcpy(r->uuid, uuid, sizeof(uuid));
        set_pci(r, "0000:00:07.0");
        add(&records, GF_WITNESS_SPACE, 31, 4, GF_WITNESS_WHOLE)->space = 1;
        add(&records, GF_WITNESS_SPACE, 32, 4, 0)->space = 2; /* not all of it could be read */
        r = add(&records, GF_WITNESS_PART, 33, 4, GF_WITNESS_USED);
        r->space = 3; /* on a GPU that has no name */
        witness = facts_of(&records);
        assert_int_equal(witness.facts.n, 4);
        assert_int_equal(witness.facts.v[0].kind, GF_FACT_SPACE);
        assert_int_equal(witness.facts.v[1].kind, GF_FACT_CONTEXT);
        assert_string_equal(witness.facts.v[1].uuid, "GPU-12345678-9abc-def0-0123-456789abcdef");
        assert_string_equal(witness.facts.v[1].pci, "0000:00:07.0");
        assert_int_equal(witness.facts.v[2].kind, GF_FACT_BLUR);
        assert_int_equal(witness.facts.v[3].kind, GF_FACT_BLUR);
        gf_witness_done(&witness);
        gf_vec_done(&records);
}

/* ---- the program ---- */

static struct gf_env env_of(const char *sys_root)
{
        struct gf_env env;

        gf_env_init(&env);
        assert_int_equal(gf_env_defaults(&env), 0);
        if (sys_root) {
                free(env.sys_root);
                env.sys_root = strdup(sys_root);
                assert_non_null(env.sys_root);
        }
        return env;
}

/* A /sys where the driver's modules have type information. */
static void make_sys(char *root)
{
        char path[256];

        assert_non_null(mkdtemp(root));
        for (size_t i = 0; i < 3; i++) {
                (void)snprintf(path, sizeof(path), "%s%s", root,
                               (const char *[]){ "/kernel", "/kernel/btf", "/kernel/btf/nvidia" }[i]);
                assert_int_equal(i < 2 ? mkdir(path, 0700) : mknod(path, S_IFREG | 0600, 0), 0);
        }
}

static void remove_sys(const char *root)
{
        char path[256];

        for (size_t i = 0; i < 4; i++) {
                (void)snprintf(path, sizeof(path), "%s%s", root,
                               (const char *[]){ "/kernel/btf/nvidia", "/kernel/btf", "/kernel", "" }[i]);
                assert_int_equal(remove(path), 0);
        }
}

static bool bpf_works(void)
{
        struct gf_env env = env_of(NULL);
        struct gf_wanted none = { 0 };
        struct gf_scan scan = { 0 };
        _cleanup_free_ char *reason = NULL;
        int r = gf_scan_bpf(&env, &none, &scan, &reason);

        gf_scan_done(&scan);
        gf_env_done(&env);
        if (r < 0)
                print_message("# SKIP %s\n", reason ? reason : strerror(-r));
        return r >= 0;
}

/* No module of that name in this kernel: the program loads all the same and finds nothing. */
static void it_loads_without_the_driver(void **state _unused_)
{
        char root[] = "/tmp/gf-witness-XXXXXX";
        struct gf_witness witness = { 0 };
        struct gf_env env;

        if (access("/sys/kernel/btf/nvidia", F_OK) == 0 || !bpf_works())
                skip();
        make_sys(root);
        env = env_of(root);
        assert_int_equal(gf_witness_read(&env, &witness), 0);
        if (!witness.asked)
                fail_msg("%s", witness.reason);
        assert_null(witness.reason);
        assert_true(witness.load_us > 0 && witness.pass_us > 0);
        assert_int_equal(witness.facts.n, 0);
        print_message("# load %llu us, pass %llu us\n", (unsigned long long)witness.load_us,
                      (unsigned long long)witness.pass_us);
        gf_witness_done(&witness);
        gf_env_done(&env);
        remove_sys(root);
}

static void without_type_information_nothing_is_known(void **state _unused_)
{
        struct gf_witness witness = { 0 };
        struct gf_env env = env_of("/nonexistent");

        assert_int_equal(gf_witness_read(&env, &witness), 0);
        assert_false(witness.asked);
        assert_non_null(witness.reason);
        assert_int_equal(witness.facts.n, 0);
        gf_witness_done(&witness);
        gf_env_done(&env);
}

static void a_scan_by_proc_takes_no_bpf(void **state _unused_)
{
        char root[] = "/tmp/gf-witness-XXXXXX";
        struct gf_witness witness = { 0 };
        struct gf_env env;

        make_sys(root);
        env = env_of(root);
        env.scan_method = GPUFREE_SCAN_PROC;
        assert_int_equal(gf_witness_read(&env, &witness), 0);
        assert_false(witness.asked);
        assert_non_null(witness.reason);
        gf_witness_done(&witness);
        gf_env_done(&env);
        remove_sys(root);
}

static void it_stops_when_told(void **state _unused_)
{
        char root[] = "/tmp/gf-witness-XXXXXX";
        struct gf_witness witness = { 0 };
        struct gf_env env;

        if (!bpf_works())
                skip();
        make_sys(root);
        env = env_of(root);
        env.cancel_fd = eventfd(1, EFD_CLOEXEC);
        assert_true(env.cancel_fd >= 0);
        assert_int_equal(gf_witness_read(&env, &witness), -ECANCELED);
        (void)close(env.cancel_fd);
        env.cancel_fd = -1;
        gf_env_done(&env);
        remove_sys(root);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_descriptor_names_its_gpu),
                cmocka_unit_test(what_does_not_fit_is_unknown),
                cmocka_unit_test(handles_name_the_attached_gpu),
                cmocka_unit_test(handles_that_contradict_are_unknown),
                cmocka_unit_test(a_space_and_its_contexts),
                cmocka_unit_test(it_loads_without_the_driver),
                cmocka_unit_test(without_type_information_nothing_is_known),
                cmocka_unit_test(a_scan_by_proc_takes_no_bpf),
                cmocka_unit_test(it_stops_when_told),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

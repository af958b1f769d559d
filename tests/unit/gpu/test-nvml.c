/* SPDX-License-Identifier: MIT */
/* NVML's door against a stand-in library; GF_TEST_VARIANT says which one LD_LIBRARY_PATH leads to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../skip.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/nvml.h"
#include "gpu/nvml_child.h"
#include "gpu/nvml_words.h"
#include "sys/clock.h"

#define LONG_MS 20000

static struct gf_env env;

static const char *variant(void)
{
        const char *name = getenv("GF_TEST_VARIANT");

        return name ? name : "none";
}

static bool is(const char *name)
{
        return strcmp(variant(), name) == 0;
}

static struct gf_nvml *begin(const char *settings, uint64_t deadline_ms)
{
        struct gf_nvml *nvml = NULL;

        assert_int_equal(setenv("GF_TEST_NVML", settings, 1), 0);
        env.driver_deadline_ms = deadline_ms;
        assert_int_equal(gf_nvml_start(&env, &nvml), 0);
        return nvml;
}

static void ask(struct gf_nvml *nvml, enum gf_nvml_question question, struct gf_driver_report *report)
{
        assert_int_equal(gf_nvml_ask(nvml, question), 0);
        assert_int_equal(gf_nvml_answer(nvml, report), 0);
}

static struct gf_driver_report one_answer(const char *settings)
{
        struct gf_driver_report report;
        struct gf_nvml *nvml = begin(settings, LONG_MS);

        ask(nvml, GF_NVML_ALL, &report);
        assert_null(gf_nvml_stop(nvml));
        return report;
}

/* PIDs 1000…, 1 MiB, 2 MiB, …: none lost, none invented. */
static void check_processes(const struct gf_driver_gpu *gpu, size_t n)
{
        assert_int_equal(gpu->processes.n, n);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(gpu->processes.v[i].pid, 1000 + i);
                assert_int_equal(gpu->processes.v[i].memory, (uint64_t)(i + 1) << 20);
                assert_int_equal(gpu->processes.v[i].gpu_instance, UINT32_MAX);
                assert_int_equal(gpu->processes.v[i].compute_instance, UINT32_MAX);
        }
}

static void everything_is_reported(void **state)
{
        struct gf_driver_report report = one_answer("");

        (void)state;
        assert_true(report.asked);
        assert_false(report.timed_out);
        assert_string_equal(report.error, "");
        assert_string_equal(report.version, "580.159.04");
        assert_int_equal(report.gpus.n, 2);
        for (size_t i = 0; i < 2; i++) {
                const struct gf_driver_gpu *gpu = &report.gpus.v[i];
                char pci[32], uuid[96];

                snprintf(pci, sizeof(pci), "0000:%02zx:00.0", 0x18 + i);
                snprintf(uuid, sizeof(uuid), "GPU-00000000-0000-0000-0000-%012zu", i);
                assert_int_equal(gpu->index, i);
                assert_int_equal(gpu->minor, 1 - i);
                assert_string_equal(gpu->pci, pci);
                assert_string_equal(gpu->uuid, uuid);
                assert_string_equal(gpu->name, "NVIDIA Stand-in");
                assert_string_equal(gpu->error, "");
                assert_true(gpu->lists_ok);
                assert_false(gpu->mig);
                assert_int_equal(gpu->memory.total, 1000ull << 20);
                check_processes(gpu, 3);
                assert_int_equal(gpu->processes.v[0].lists, GF_LIST_COMPUTE);
        }
        gf_driver_report_done(&report);
}

static void memory_of_version_2_leaves_the_reserved_out(void **state)
{
        struct gf_driver_report report = one_answer("");

        (void)state;
        if (is("all")) {
                assert_int_equal(report.gpus.v[0].memory.used, 100ull << 20);
                assert_int_equal(report.gpus.v[0].memory.reserved, 615ull << 20);
        } else {
                assert_int_equal(report.gpus.v[0].memory.used, 715ull << 20);
                assert_true(report.gpus.v[0].memory.reserved == GPUFREE_UNKNOWN);
        }
        gf_driver_report_done(&report);
}

static void memory_falls_back_to_version_1(void **state)
{
        struct gf_driver_report report = one_answer("nomem2=25");

        (void)state;
        assert_int_equal(report.gpus.v[0].memory.total, 1000ull << 20);
        assert_int_equal(report.gpus.v[0].memory.used, 715ull << 20);
        assert_true(report.gpus.v[0].memory.reserved == GPUFREE_UNKNOWN);
        assert_string_equal(report.gpus.v[0].error, "");
        gf_driver_report_done(&report);
}

static void every_slot_size_is_measured(void **state)
{
        static const char *const settings[] = {
                "stride=16",         "stride=24",        "stride=32",        "stride=16 clear=1", "stride=24 clear=1",
                "stride=32 clear=1", "stride=32 pids=1", "stride=16 pids=1", "stride=24 pids=2",
        };
        static const size_t counts[] = { 3, 3, 3, 3, 3, 3, 1, 1, 2 };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(settings); i++) {
                struct gf_driver_report report = one_answer(settings[i]);

                assert_true(report.gpus.v[0].lists_ok);
                check_processes(&report.gpus.v[0], counts[i]);
                gf_driver_report_done(&report);
        }
}

static void an_empty_list_is_complete(void **state)
{
        struct gf_driver_report report = one_answer("pids=0");

        (void)state;
        assert_true(report.gpus.v[0].lists_ok);
        assert_int_equal(report.gpus.v[0].processes.n, 0);
        gf_driver_report_done(&report);
}

static void as_many_as_the_driver_lists_is_a_cut_list(void **state)
{
        struct gf_driver_report report = one_answer("pids=950");

        (void)state;
        check_processes(&report.gpus.v[0], 950);
        assert_false(report.gpus.v[0].lists_ok);
        assert_non_null(strstr(report.gpus.v[0].error, "950"));
        gf_driver_report_done(&report);
        report = one_answer("pids=949");
        check_processes(&report.gpus.v[0], 949);
        assert_true(report.gpus.v[0].lists_ok);
        gf_driver_report_done(&report);
}

/* Also when the library clears all the room: the room is no multiple of 2 or 3, so that no two sizes look alike. */
static void more_than_the_first_room_is_fetched_again(void **state)
{
        static const size_t counts[] = { 1022, 1361, 2042, 3000, 3001, 6001 };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(counts); i++)
                for (size_t stride = 16; stride <= 32; stride += 8)
                        for (int clear = 0; clear < 2; clear++) {
                                struct gf_driver_report report;
                                char settings[96];

                                snprintf(settings, sizeof(settings), "gpus=1 pids=%zu stride=%zu clear=%d", counts[i],
                                         stride, clear);
                                report = one_answer(settings);
                                check_processes(&report.gpus.v[0], counts[i]);
                                gf_driver_report_done(&report);
                        }
}

static void a_list_that_grows_for_ever_is_given_up(void **state)
{
        struct gf_driver_report report = one_answer("grow=3 gpus=1");

        (void)state;
        assert_true(report.gpus.v[0].lists_ok);
        check_processes(&report.gpus.v[0], 3);
        gf_driver_report_done(&report);
        report = one_answer("grow=1000000 gpus=1");
        assert_false(report.gpus.v[0].lists_ok);
        assert_non_null(strstr(report.gpus.v[0].error, "INSUFFICIENT_SIZE"));
        gf_driver_report_done(&report);
}

static void the_same_pid_on_two_lists_is_one(void **state)
{
        struct gf_driver_report report = one_answer("both=1");

        (void)state;
        check_processes(&report.gpus.v[0], 3);
        assert_int_equal(report.gpus.v[0].processes.v[0].lists, GF_LIST_COMPUTE | GF_LIST_GRAPHICS | GF_LIST_MPS);
        gf_driver_report_done(&report);
}

static void no_figure_is_unknown(void **state)
{
        struct gf_driver_report report = one_answer("ones=1");

        (void)state;
        assert_int_equal(report.gpus.v[0].processes.n, 3);
        assert_true(report.gpus.v[0].processes.v[0].memory == GPUFREE_UNKNOWN);
        assert_true(report.gpus.v[0].lists_ok);
        gf_driver_report_done(&report);
}

static void a_number_that_is_no_pid_spoils_the_list(void **state)
{
        struct gf_driver_report report = one_answer("badpid=1");

        (void)state;
        assert_false(report.gpus.v[0].lists_ok);
        assert_int_equal(report.gpus.v[0].processes.n, 0);
        assert_string_not_equal(report.gpus.v[0].error, "");
        gf_driver_report_done(&report);
}

static void lists_that_a_gpu_has_not_are_no_failure(void **state)
{
        struct gf_driver_report report = one_answer("graphics:0=3 mps:0=13");

        (void)state;
        assert_true(report.gpus.v[0].lists_ok);
        assert_string_equal(report.gpus.v[0].error, "");
        check_processes(&report.gpus.v[0], 3);
        gf_driver_report_done(&report);
        report = one_answer("graphics:0=4");
        assert_false(report.gpus.v[0].lists_ok); /* refused is not the same as not there */
        check_processes(&report.gpus.v[0], 3);
        gf_driver_report_done(&report);
}

/* One GPU's failure says what to do, and hides no other. */
static void one_sick_gpu_hides_no_other(void **state)
{
        static const struct {
                const char *settings, *word;
        } cases[] = {
                { "gpus=3 handle:1=15", "GPU_IS_LOST" },    { "gpus=3 handle:1=4", "NO_PERMISSION" },
                { "gpus=3 handle:1=16", "RESET_REQUIRED" }, { "gpus=3 lists:1=4", "NO_PERMISSION" },
                { "gpus=3 memory:1=999", "UNKNOWN" },       { "gpus=3 lists:1=3", "NOT_SUPPORTED" },
                { "gpus=3 lists:1=777", "error 777" },      { "gpus=3 handle:1=28", "GPU_NOT_FOUND" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct gf_driver_report report = one_answer(cases[i].settings);

                assert_true(report.asked);
                assert_int_equal(report.gpus.n, 3);
                assert_int_equal(report.gpus.v[1].index, 1);
                assert_non_null(strstr(report.gpus.v[1].error, "GPU 1: "));
                assert_non_null(strstr(report.gpus.v[1].error, cases[i].word));
                check_processes(&report.gpus.v[0], 3);
                check_processes(&report.gpus.v[2], 3);
                assert_true(report.gpus.v[0].lists_ok && report.gpus.v[2].lists_ok);
                assert_string_equal(report.gpus.v[0].error, "");
                assert_string_equal(report.gpus.v[2].error, "");
                gf_driver_report_done(&report);
        }
}

static void what_cannot_be_read_of_a_lost_gpu_is_unknown(void **state)
{
        struct gf_driver_report report = one_answer("handle:0=15");

        (void)state;
        assert_int_equal(report.gpus.v[0].minor, -1);
        assert_string_equal(report.gpus.v[0].uuid, "");
        assert_true(report.gpus.v[0].memory.used == GPUFREE_UNKNOWN);
        assert_false(report.gpus.v[0].lists_ok);
        gf_driver_report_done(&report);
}

static void failures_of_the_whole_are_sentences(void **state)
{
        static const struct {
                const char *settings, *word;
        } cases[] = {
                { "init=9", "DRIVER_NOT_LOADED" }, { "init=12", "LIBRARY_NOT_FOUND" },
                { "init=17", "/dev/nvidiactl" },   { "init=18", "Driver/library version mismatch" },
                { "init=999", "UNKNOWN" },         { "count=10", "TIMEOUT" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct gf_driver_report report = one_answer(cases[i].settings);

                assert_false(report.asked);
                assert_false(report.timed_out);
                assert_int_equal(report.gpus.n, 0);
                assert_non_null(strstr(report.error, cases[i].word));
                gf_driver_report_done(&report);
        }
}

static void memory_alone_is_cheaper(void **state)
{
        struct gf_nvml *nvml = begin("", LONG_MS);
        struct gf_driver_report report;

        (void)state;
        for (int i = 0; i < 3; i++) {
                ask(nvml, GF_NVML_MEMORY, &report);
                assert_int_equal(report.gpus.n, 2);
                assert_int_equal(report.gpus.v[1].memory.total, 1000ull << 20);
                assert_int_equal(report.gpus.v[1].processes.n, 0);
                assert_false(report.gpus.v[1].lists_ok); /* not asked is not empty */
                gf_driver_report_done(&report);
        }
        ask(nvml, GF_NVML_ALL, &report);
        check_processes(&report.gpus.v[1], 3);
        gf_driver_report_done(&report);
        gf_nvml_stop(nvml);
}

/* What cannot be read is neither busy nor idle; memory is known all the same. */
static void how_busy_a_gpu_is_is_asked_apart(void **state)
{
        struct gf_nvml *nvml = begin("gpus=3 busy:0=37 rates:1=3 busy:1=50 busy:2=250", LONG_MS);
        bool has = !is("v1");
        struct gf_driver_report report;

        (void)state;
        ask(nvml, GF_NVML_MEMORY, &report);
        assert_false(report.gpus.v[0].busy_known);
        gf_driver_report_done(&report);
        ask(nvml, GF_NVML_BUSY, &report);
        assert_int_equal(report.gpus.n, 3);
        for (size_t i = 0; i < 3; i++) {
                const struct gf_driver_gpu *gpu = &report.gpus.v[i];

                assert_int_equal(gpu->memory.total, 1000ull << 20);
                assert_int_equal(gpu->busy_known, has && i != 1);
                assert_int_equal(gpu->busy, !has || i == 1 ? 0 : i == 0 ? 37 : 100);
                assert_int_equal(gpu->error[0] == '\0', has && i != 1);
                if (gpu->error[0])
                        assert_non_null(strstr(gpu->error, "utilisation"));
        }
        gf_driver_report_done(&report);
        gf_nvml_stop(nvml);
}

static void the_last_question_is_answered(void **state)
{
        struct gf_nvml *nvml = begin("pids=500", LONG_MS);
        struct gf_driver_report report;

        (void)state;
        assert_int_equal(gf_nvml_answer(nvml, &report), -EINVAL); /* nothing was asked */
        assert_int_equal(gf_nvml_ask(nvml, GF_NVML_ALL), 0);
        assert_int_equal(gf_nvml_ask(nvml, GF_NVML_MEMORY), 0);
        assert_int_equal(gf_nvml_answer(nvml, &report), 0);
        assert_int_equal(report.gpus.v[0].processes.n, 0);
        gf_driver_report_done(&report);
        gf_nvml_stop(nvml);
}

/* A hang: what was known before stays known, the report says where it hung, and nobody waits again. */
static void a_hang_ends_in_a_sentence(void **state)
{
        static const struct {
                const char *settings, *word;
                size_t gpus;
        } cases[] = {
                { "hang-init=1", "NVML", 0 },
                { "gpus=3 hang-handle:1=1", "GPU 1", 1 },
                { "gpus=3 hang-lists:2=1", "GPU 2", 2 },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct gf_nvml *nvml = begin(cases[i].settings, 300);
                struct gf_driver_report report;
                uint64_t before = gf_now_ms();

                ask(nvml, GF_NVML_ALL, &report);
                assert_true(gf_now_ms() - before < LONG_MS);
                assert_true(report.timed_out);
                assert_int_equal(report.asked, cases[i].gpus > 0);
                assert_int_equal(report.gpus.n, cases[i].gpus);
                assert_non_null(strstr(report.error, cases[i].word));
                assert_non_null(strstr(report.error, "300 ms"));
                for (size_t k = 0; k < report.gpus.n; k++)
                        check_processes(&report.gpus.v[k], 3);
                gf_driver_report_done(&report);
                assert_int_equal(gf_nvml_child(nvml).pid, 0); /* ended and reaped */
                env.driver_deadline_ms = GPUFREE_UNKNOWN;     /* a second wait would be for ever */
                ask(nvml, GF_NVML_ALL, &report);
                assert_true(report.timed_out);
                assert_false(report.asked);
                assert_non_null(strstr(report.error, "did not answer"));
                gf_driver_report_done(&report);
                gf_nvml_stop(nvml);
        }
}

/* Without persistence each GPU takes its time: together more than the deadline, none more alone. */
static void slow_gpus_are_not_hanging_ones(void **state)
{
        struct gf_nvml *nvml = begin("gpus=4 slow=400", 1500);
        struct gf_driver_report report;

        (void)state;
        ask(nvml, GF_NVML_ALL, &report);
        assert_false(report.timed_out);
        assert_int_equal(report.gpus.n, 4);
        gf_driver_report_done(&report);
        gf_nvml_stop(nvml);
}

static void a_crash_ends_in_a_sentence(void **state)
{
        static const char *const settings[] = { "crash-init=1", "gpus=3 crash-lists:1=1" };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(settings); i++) {
                struct gf_driver_report report = one_answer(settings[i]);

                assert_false(report.timed_out);
                assert_non_null(strstr(report.error, "crashed"));
                assert_int_equal(report.gpus.n, i);
                gf_driver_report_done(&report);
        }
}

/* The child runs a foreign library: what it says is checked, and breaking a rule ends it. */
static void nonsense_from_the_child_is_refused(void **state)
{
        (void)state;
        for (int kind = 1; kind <= 15; kind++) {
                struct gf_driver_report report;
                char settings[32];

                snprintf(settings, sizeof(settings), "evil=%d", kind);
                report = one_answer(settings);
                assert_non_null(strstr(report.error, "nonsense"));
                assert_false(report.timed_out);
                assert_int_equal(report.gpus.n, kind >= 10); /* what was whole stays */
                if (report.gpus.n == 1) {
                        assert_int_equal(report.gpus.v[0].index, 0);
                        assert_false(report.gpus.v[0].lists_ok);
                        assert_true(report.gpus.v[0].processes.n <= 16384);
                }
                gf_driver_report_done(&report);
        }
}

static void cancel_ends_the_wait(void **state)
{
        struct gf_nvml *nvml = begin("hang-init=1", GPUFREE_UNKNOWN);
        struct gf_driver_report report;
        int fds[2];

        (void)state;
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        env.cancel_fd = fds[0];
        assert_int_equal(gf_nvml_ask(nvml, GF_NVML_ALL), 0);
        assert_int_equal(gf_nvml_answer(nvml, &report), -ECANCELED);
        env.cancel_fd = -1;
        gf_nvml_stop(nvml);
        close(fds[0]);
        close(fds[1]);
}

static void the_library_prints_nothing_of_ours(void **state)
{
        int saved[2], fds[2];
        struct gf_driver_report report;
        char buf[64];

        (void)state;
        assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
        fflush(stdout);
        saved[0] = dup(1);
        saved[1] = dup(2);
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        report = one_answer("noise=1");
        dup2(saved[0], 1);
        dup2(saved[1], 2);
        close(saved[0]);
        close(saved[1]);
        assert_int_equal(read(fds[0], buf, sizeof(buf)), -1);
        assert_int_equal(errno, EAGAIN);
        close(fds[0]);
        close(fds[1]);
        assert_int_equal(report.gpus.n, 2);
        gf_driver_report_done(&report);
}

static void instances_are_asked_where_the_gpu_is_refused(void **state)
{
        struct gf_driver_report report = one_answer("mig=1 lists:0=4");

        (void)state;
        assert_true(report.gpus.v[0].mig);
        check_processes(&report.gpus.v[0], 3);
        assert_false(report.gpus.v[0].lists_ok); /* other users' instances are not in it */
        gf_driver_report_done(&report);
}

static void a_child_killed_by_others_is_a_sentence(void **state)
{
        struct gf_nvml *nvml = begin("hang-init=1", LONG_MS);
        struct gf_driver_report report;
        struct gf_ident id = gf_nvml_child(nvml);

        (void)state;
        assert_true(id.pid > 0 && id.start_ticks > 0);
        assert_int_equal(kill(id.pid, SIGKILL), 0); /* our own child, not reaped */
        ask(nvml, GF_NVML_ALL, &report);
        assert_false(report.asked);
        assert_string_not_equal(report.error, "");
        gf_driver_report_done(&report);
        gf_nvml_stop(nvml);
}

static void without_a_library_the_sentence_is_calm(void **state)
{
        struct gf_driver_report report;

        (void)state;
        if (is("none")) {
                void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY);

                if (library) {
                        dlclose(library);
                        skip_because("this machine has the real library"); /* this machine has the real one */
                }
        }
        report = one_answer("");
        assert_false(report.asked);
        assert_false(report.timed_out);
        assert_int_equal(report.gpus.n, 0);
        assert_non_null(strstr(report.error, is("none") ? "is not installed" : "cannot be loaded"));
        gf_driver_report_done(&report);
}

static void measuring_is_not_fooled(void **state)
{
        unsigned char buf[101 * NVML_SLOT_MAX];

        (void)state;
        for (unsigned salt = 0; salt < 3; salt++) {
                gf_nvml_sentinel_fill(buf, sizeof(buf), salt);
                assert_int_equal(gf_nvml_measure_slot(buf, 101, 0, salt), 0);
                assert_int_equal(gf_nvml_measure_slot(buf, 101, 1, salt), 0);   /* nothing was written */
                assert_int_equal(gf_nvml_measure_slot(buf, 101, 102, salt), 0); /* more than there is room for */
                memset(buf, 0, 4 * 24);
                assert_int_equal(gf_nvml_measure_slot(buf, 101, 4, salt), 24);
                assert_int_equal(gf_nvml_measure_slot(buf, 101, 6, salt), 16);
                assert_int_equal(gf_nvml_measure_slot(buf, 101, 3, salt), 32);
                assert_int_equal(gf_nvml_measure_slot(buf, 101, 5, salt), 0);
        }
}

static void every_return_code_has_its_own_sentence(void **state)
{
        static const uint32_t codes[] = { 3, 4, 6, 9, 10, 12, 13, 15, 16, 17, 18, 25, 28, 999 };
        char text[ELEMENTSOF(codes)][256], other[256];

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(codes); i++) {
                gf_nvml_sentence(GF_CALL_INIT, codes[i], -1, NULL, text[i], sizeof(text[i]));
                assert_true(strlen(text[i]) > 40 && strlen(text[i]) < 250); /* whole, not cut */
                for (size_t k = 0; k < i; k++)
                        assert_string_not_equal(text[i], text[k]);
                for (uint32_t call = 0; call < GF_CALL_MAX_ + 2; call++) {
                        gf_nvml_sentence(call, codes[i], 15, NULL, other, sizeof(other));
                        assert_true(strlen(other) < 255);
                }
        }
        gf_nvml_sentence(GF_CALL_INIT, 4242, -1, NULL, other, sizeof(other));
        assert_non_null(strstr(other, "4242"));
}

int main(void)
{
        const struct CMUnitTest with_library[] = {
                cmocka_unit_test(everything_is_reported),
                cmocka_unit_test(memory_of_version_2_leaves_the_reserved_out),
                cmocka_unit_test(memory_falls_back_to_version_1),
                cmocka_unit_test(every_slot_size_is_measured),
                cmocka_unit_test(an_empty_list_is_complete),
                cmocka_unit_test(as_many_as_the_driver_lists_is_a_cut_list),
                cmocka_unit_test(more_than_the_first_room_is_fetched_again),
                cmocka_unit_test(a_list_that_grows_for_ever_is_given_up),
                cmocka_unit_test(the_same_pid_on_two_lists_is_one),
                cmocka_unit_test(no_figure_is_unknown),
                cmocka_unit_test(a_number_that_is_no_pid_spoils_the_list),
                cmocka_unit_test(lists_that_a_gpu_has_not_are_no_failure),
                cmocka_unit_test(one_sick_gpu_hides_no_other),
                cmocka_unit_test(what_cannot_be_read_of_a_lost_gpu_is_unknown),
                cmocka_unit_test(failures_of_the_whole_are_sentences),
                cmocka_unit_test(memory_alone_is_cheaper),
                cmocka_unit_test(how_busy_a_gpu_is_is_asked_apart),
                cmocka_unit_test(the_last_question_is_answered),
                cmocka_unit_test(a_hang_ends_in_a_sentence),
                cmocka_unit_test(slow_gpus_are_not_hanging_ones),
                cmocka_unit_test(a_crash_ends_in_a_sentence),
                cmocka_unit_test(nonsense_from_the_child_is_refused),
                cmocka_unit_test(cancel_ends_the_wait),
                cmocka_unit_test(the_library_prints_nothing_of_ours),
                cmocka_unit_test(instances_are_asked_where_the_gpu_is_refused),
                cmocka_unit_test(a_child_killed_by_others_is_a_sentence),
                cmocka_unit_test(measuring_is_not_fooled),
                cmocka_unit_test(every_return_code_has_its_own_sentence),
        };
        const struct CMUnitTest without_library[] = {
                cmocka_unit_test(without_a_library_the_sentence_is_calm),
        };
        int r;

        gf_env_init(&env);
        if (is("none") || is("broken"))
                r = cmocka_run_group_tests_name("nvml", without_library, NULL, NULL);
        else
                r = cmocka_run_group_tests_name("nvml", with_library, NULL, NULL);
        gf_env_done(&env);
        return r;
}

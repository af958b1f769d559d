/* SPDX-License-Identifier: MIT */
/* The whole command line, with a stand-in for the library: what is written where, and with which exit status. */
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "run.h"

#define HAS(text, part)                                                                                                \
        do {                                                                                                           \
                if (!strstr((text), (part)))                                                                           \
                        fail_msg("no \"%s\" in:\n%s", (part), (text));                                                 \
        } while (0)
#define HAS_NOT(text, part)                                                                                            \
        do {                                                                                                           \
                if (strstr((text), (part)))                                                                            \
                        fail_msg("\"%s\" in:\n%s", (part), (text));                                                    \
        } while (0)

static struct run ran(const char *scene, const char *end, const char *args)
{
        static char scene_env[64], end_env[64];
        struct run run = { .args = args, .env = { scene_env, end_env } };

        (void)snprintf(scene_env, sizeof(scene_env), "GPUFREE_FAKE=%s", scene);
        (void)snprintf(end_env, sizeof(end_env), "GPUFREE_FAKE_END=%s", end);
        run_command(&run);
        return run;
}

static size_t lines(const char *text)
{
        size_t n = 0;

        for (; *text; text++)
                n += *text == '\n';
        return n;
}

static void exits(const char *scene, const char *end, const char *args, int code)
{
        struct run run = ran(scene, end, args);

        if (run.code != code)
                fail_msg("%s/%s: \"gpufree %s\": exit %d, not %d\n%s%s", scene, end, args, run.code, code, run.out,
                         run.err);
        run_done(&run);
}

static void exit_status_follows_the_contract(void **state)
{
        (void)state;
        exits("story", "ok", "", 0);
        exits("story", "ok", "list", 0);
        exits("incomplete", "ok", "list", 3);
        exits("none", "ok", "list", 0);
        exits("free", "ok", "check", 0);
        exits("story", "ok", "check", 1);
        exits("story", "ok", "check --for run", 1);
        exits("incomplete", "ok", "check", 3);
        exits("free", "ok", "check --for reset", 0);
        exits("story", "ok", "check --for reset", 1);
        exits("incomplete", "ok", "check --for unload", 3);
        exits("none", "ok", "check --for reset", 0);
        exits("story", "ok", "explain", 0);
        exits("incomplete", "ok", "explain", 3);
        exits("none", "ok", "explain", 0);
        exits("story", "ok", "explain 1", 0);
        exits("story", "ok", "explain 404", 2);
        exits("residue", "ok", "check", 5);
        exits("none", "ok", "check", 0);
        exits("free", "ok", "wait", 0);
        exits("story", "ok", "wait --timeout 1s", 6);
        exits("residue", "ok", "wait", 5);
        exits("none", "ok", "wait", 0);
        exits("story", "ok", "kill -y", 0);
        exits("story", "killed", "kill -y", 0);
        exits("story", "survived", "kill -y", 1);
        exits("story", "incomplete", "kill -y", 3);
        exits("story", "refused", "kill -y", 4);
        exits("story", "residue", "kill -y", 5);
        exits("story", "timeout", "kill -y", 6);
        exits("none", "ok", "kill -y", 0);
        exits("free", "ok", "kill", 0);
        exits("story", "look-fails", "list", 3);
        exits("story", "ok", "list --gpu 99", 2);
        exits("story", "ok", "kill --gpu x", 2);
}

static void bad_usage_is_one_line_and_nothing_is_done(void **state)
{
        static const char *const wrong[] = { "kill --grace banana", "lst",
                                             "kill --signal FOO",   "list --gpu 99",
                                             "kill /nonexistent",   "kill --dev-root /nonexistent",
                                             "check --for tea" };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                struct run run = ran("story", "ok", wrong[i]);

                assert_int_equal(run.code, 2);
                assert_string_equal(run.out, "");
                assert_int_equal(lines(run.err), 1);
                assert_int_equal(strncmp(run.err, "gpufree: ", 9), 0);
                run_done(&run);
        }
}

static void explanations_are_escaped_like_everything_else(void **state)
{
        static const char *const forms[] = { "explain",        "explain 1",        "check --for reset",
                                             "explain --json", "explain 1 --json", "check --for reset --json" };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                struct run run = ran("story", "ok", forms[i]);

                HAS_NOT(run.out, "\033");
                HAS(run.out, i < 3 ? "\\x1B" : "\\u001B");
                assert_string_equal(run.err, "");
                run_done(&run);
        }
}

static void every_wrong_path_gets_its_line(void **state)
{
        struct run run = ran("story", "ok", "list /nonexistent /etc /dev/null");

        (void)state;
        assert_int_equal(run.code, 2);
        assert_int_equal(lines(run.err), 2);
        HAS(run.err, "/nonexistent");
        HAS(run.err, "/etc");
        run_done(&run);
}

static char *log_of(const char *scene, const char *end, const char *args)
{
        char path[] = "/tmp/gpufree-test-XXXXXX", log_env[64], scene_env[64], end_env[64], buf[4096];
        _cleanup_close_ int fd = mkstemp(path);
        struct run run = { .args = args, .env = { scene_env, end_env, log_env } };
        ssize_t n;

        assert_true(fd >= 0);
        (void)snprintf(scene_env, sizeof(scene_env), "GPUFREE_FAKE=%s", scene);
        (void)snprintf(end_env, sizeof(end_env), "GPUFREE_FAKE_END=%s", end);
        (void)snprintf(log_env, sizeof(log_env), "GPUFREE_FAKE_LOG=%s", path);
        run_command(&run);
        run_done(&run);
        n = read(fd, buf, sizeof(buf) - 1);
        assert_true(n >= 0);
        buf[n] = '\0';
        (void)unlink(path);
        return strdup(buf);
}

static void every_option_reaches_the_library(void **state)
{
        _cleanup_free_ char *log = log_of(
                "story", "ok",
                "kill -y --signal INT --grace 3s --timeout 9s --settle 250ms --scan proc --scope namespace /dev/null");
        _cleanup_free_ char *force = log_of("story", "ok", "kill -y9 --pid 716 --include nv-hostengine");

        (void)state;
        HAS(log, "kill signal 2 force 0 grace 3000 timeout 9000 settle 250");
        HAS(log, "scan 2\n");
        HAS(log, "scope 1\n");
        HAS(log, "device /dev/null\n");
        HAS(force, "force 1");
        HAS(force, "criterion 13 nv-hostengine");
        HAS(force, "targets 1\n");
}

static void nothing_is_signalled_without_yes(void **state)
{
        _cleanup_free_ char *log = log_of("story", "ok", "kill"), *dry = log_of("story", "ok", "kill -n -y");
        struct run run = ran("story", "ok", "kill");

        (void)state;
        HAS_NOT(log, "kill signal");
        HAS_NOT(dry, "kill signal");
        assert_int_equal(run.code, 4);
        HAS(run.out, "Will end 4 processes");
        assert_int_equal(lines(run.err), 1);
        HAS(run.err, "--yes");
        run_done(&run);
}

static void nothing_is_signalled_when_the_plan_cannot_be_written(void **state)
{
        static const char *const forms[] = { "kill -y", "kill -y -q", "kill -y --json" };
        static const enum run_output outputs[] = { RUN_FULL, RUN_CLOSED, RUN_NO_READER };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(forms) * ELEMENTSOF(outputs); i++) {
                char path[] = "/tmp/gpufree-test-XXXXXX", log_env[64], buf[4096];
                _cleanup_close_ int fd = mkstemp(path);
                struct run run = { .args = forms[i % 3], .env = { log_env }, .output = outputs[i / 3] };
                ssize_t n;

                assert_true(fd >= 0);
                (void)snprintf(log_env, sizeof(log_env), "GPUFREE_FAKE_LOG=%s", path);
                run_command(&run);
                n = read(fd, buf, sizeof(buf) - 1);
                buf[n > 0 ? n : 0] = '\0';
                (void)unlink(path);
                HAS(buf, "look\n");
                HAS_NOT(buf, "kill signal");
                assert_int_equal(run.code, 2);
                assert_int_equal(lines(run.err), 1);
                HAS(run.err, "standard output");
                run_done(&run);
        }
}

static void output_that_is_not_delivered_is_an_error(void **state)
{
        static const char *const forms[] = { "list", "list --json", "list -q", "check", "wait", "--help", "--version" };
        static const enum run_output outputs[] = { RUN_FULL, RUN_CLOSED, RUN_NO_READER };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(forms) * ELEMENTSOF(outputs); i++) {
                struct run run = { .args = forms[i % ELEMENTSOF(forms)], .output = outputs[i / ELEMENTSOF(forms)] };

                run_command(&run);
                if (run.code != 2 || lines(run.err) < 1)
                        fail_msg("\"gpufree %s\": exit %d, \"%s\"", run.args, run.code, run.err);
                HAS(run.err, "standard output");
                run_done(&run);
        }
}

static void no_control_sequence_reaches_the_output(void **state)
{
        static const char *const forms[] = { "list", "kill -y", "kill -n", "check", "list --json" };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                struct run run = ran("hostile", "survived", forms[i]);

                for (const char *text = run.out; text; text = text == run.out ? run.err : NULL)
                        for (const char *c = text; *c; c++)
                                if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f)
                                        fail_msg("byte %02x in:\n%s", (unsigned)*c, text);
                HAS_NOT(run.out, "\xe2\x80\xae");
                HAS_NOT(run.out, "\xff");
                run_done(&run);
        }
}

/* GPUFREE_FAKE_PARK plays one process with a hostile name. */
static struct run parked(const char *how, const char *args)
{
        _cleanup_free_ char *env = gf_asprintf("GPUFREE_FAKE_PARK=%s", how);
        struct run run = { .args = args, .env = { env } };

        assert_non_null(env);
        run_command(&run);
        return run;
}

static void parking_is_told_and_its_outcome_is_the_exit_status(void **state)
{
        struct run run = parked("ok", "park --gpu 0");

        (void)state;
        assert_int_equal(run.code, 0);
        HAS(run.out, "A warning.");
        HAS(run.out, "4711 is parked (62.0 GiB in 31.0 s, 2.0 GiB/s).");
        run_done(&run);
        run = parked("refused", "unpark 4711 -q");
        assert_int_equal(run.code, 4);
        HAS(run.err, "4711 is no CUDA process");
        HAS_NOT(run.out, "4711");
        run_done(&run);
        run = parked("ok", "list");
        HAS(run.out, "Parked: 4711 (e\\x1B[31mvil), 62.0 GiB of GPU 3");
        run_done(&run);
        run = parked("ok", "unpark --all --json");
        HAS(run.out, "\"state\": \"parked\"");
        HAS(run.out, "\"since\": null");
        HAS_NOT(run.out, "\033");
        run_done(&run);
}

static void an_ascii_locale_gets_ascii(void **state)
{
        struct run run = { .args = "list", .env = { "LC_ALL=C", "GPUFREE_FAKE=hostile" } };

        (void)state;
        run_command(&run);
        for (const char *c = run.out; *c; c++)
                assert_true((unsigned char)*c < 0x80);
        HAS(run.out, "fd+map x20");
        run_done(&run);
}

static void pids_alone_are_each_once(void **state)
{
        struct run run = ran("story", "ok", "list -q");

        (void)state;
        assert_string_equal(run.out, "21316\n524\n902\n31001\n716\n"); /* 31001 is on two GPUs */
        assert_string_equal(run.err, "");
        run_done(&run);
        run = ran("story", "ok", "kill -y -q --gpu 5");
        assert_string_equal(run.out, "31001\n");
        assert_string_equal(run.err, "");
        run_done(&run);
        run = ran("story", "ok", "check -q --gpu 1");
        assert_string_equal(run.out, "21316\n");
        run_done(&run);
        run = ran("free", "ok", "list -q");
        assert_string_equal(run.out, "");
        run_done(&run);
        run = ran("incomplete", "ok", "list -q");
        assert_int_equal(run.code, 3);
        HAS(run.err, "3 processes");
        run_done(&run);
}

static void a_list_shows_what_how_and_whose(void **state)
{
        struct run run = ran("story", "ok", "list");

        (void)state;
        HAS(run.out, "fd+map ×20; leader zombie");
        HAS(run.out, "from dead 511");
        HAS(run.out, "stopped, orphan");
        HAS(run.out, "dma-buf 2.0 GiB");
        HAS(run.out, "lxc:129 (ml)");
        HAS(run.out, "python train.py --epochs 90 (pt_data_worker)");
        HAS(run.out, "python3 -m torch.distributed.run serve.py\n"); /* the name says nothing new */
        HAS(run.out, "--any-open shows it.");
        HAS_NOT(run.out, "persistenced");
        run_done(&run);
        run = ran("story", "ok", "list --any-open");
        HAS(run.out, "nvidia-persistenced");
        HAS(run.out, "0-7");
        HAS(run.out, "open ×32");
        run_done(&run);
}

static void free_is_said_only_when_the_library_vouches(void **state)
{
        static const char *const scenes[] = { "incomplete", "unknown", "error" };
        static const char *const forms[] = { "list --gpu 0", "check --gpu 0" };
        struct run run = ran("free", "ok", "list --gpu 0");

        (void)state;
        HAS(run.out, "  free  ");
        run_done(&run);
        for (size_t i = 0; i < ELEMENTSOF(scenes) * ELEMENTSOF(forms); i++) {
                run = ran(scenes[i % 3], "ok", forms[i / 3]);
                if (strcmp(scenes[i % 3], "error") != 0 || i / 3 == 0)
                        HAS_NOT(run.out, "  free  ");
                run_done(&run);
        }
        run = ran("residue", "ok", "list");
        HAS(run.out, "no holder found");
        HAS(run.out, "GPU 3 keeps memory");
        HAS_NOT(run.out, "No process holds");
        run_done(&run);
}

static void a_plan_says_what_else_is_freed_and_what_is_left_alone(void **state)
{
        struct run run = ran("story", "ok", "kill -n --gpu 4,5");

        (void)state;
        assert_int_equal(run.code, 0);
        HAS(run.out, "Will end 1 process, to free 20.1 GiB on GPU 5-6:");
        HAS(run.out, "31001 also holds GPU 6");
        HAS(run.out, "TERM, after 10 s KILL");
        HAS(run.out, "Left alone: nv-hostengine (902; a system service)");
        run_done(&run);
        run = ran("story", "ok", "kill -n -9 --gpu 5");
        HAS(run.out, "KILL at once");
        run_done(&run);
        run = ran("protected", "ok", "kill -n");
        assert_int_equal(run.code, 4);
        HAS(run.out, "--include");
        run_done(&run);
        run = ran("unknown", "ok", "kill -n");
        HAS(run.out, "how much is not known");
        run_done(&run);
}

static void failures_are_told_with_their_detail(void **state)
{
        struct run run = ran("story", "survived", "kill -y --gpu 1");

        (void)state;
        HAS(run.out, "21316  sglang::schedul  still there: waits in the kernel");
        HAS(run.err, "still there after 10.0 s: KILL");
        run_done(&run);
        run = ran("story", "ok", "kill -y --gpu 1");
        HAS(run.out, "verified free");
        HAS(run.err, "21316  TERM, gone after 200 ms");
        run_done(&run);
}

static void no_gpu_is_a_note(void **state)
{
        struct run run = ran("none", "ok", "kill -y");

        (void)state;
        assert_string_equal(run.out, "");
        HAS(run.err, "no GPU");
        run_done(&run);
        run = ran("none", "ok", "list");
        HAS(run.out, "No GPU found");
        assert_string_equal(run.err, "");
        run_done(&run);
}

static json_t *document(const char *scene, const char *end, const char *args, int code)
{
        struct run run = ran(scene, end, args);
        json_error_t error;
        json_t *value = json_loads(run.out, JSON_REJECT_DUPLICATES, &error);

        if (!value)
                fail_msg("\"gpufree %s\": %s, line %d:\n%s", args, error.text, error.line, run.out);
        assert_int_equal(run.code, code);
        assert_int_equal(json_integer_value(json_object_get(value, "schema")), 1);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(value, "exit"), "code")), code);
        assert_true(json_is_string(json_object_get(value, "outcome")));
        run_done(&run);
        return value;
}

static void has_keys(json_t *object, const char *keys)
{
        _cleanup_free_ char *copy = strdup(keys);
        char *save = NULL;

        for (char *key = strtok_r(copy, " ", &save); key; key = strtok_r(NULL, " ", &save))
                if (!json_object_get(object, key))
                        fail_msg("no field \"%s\"", key);
}

static void json_has_every_field_of_the_contract(void **state)
{
        json_t *d = document("story", "ok", "list --json --any-open", 0), *holder, *gpu;

        (void)state;
        has_keys(d, "schema version command outcome exit reason scan driver gpus holders others");
        has_keys(json_object_get(d, "scan"), "complete method method_reason elapsed_ms processes unreadable gaps");
        gpu = json_array_get(json_object_get(d, "gpus"), 1);
        has_keys(gpu, "index uuid pci minor name vendor selected memory holders openers error verdict");
        has_keys(json_object_get(gpu, "memory"), "total used reserved accounted unaccounted");
        holder = json_array_get(json_object_get(d, "holders"), 1);
        has_keys(holder, "pid start_time comm cmdline uid user state ppid pidns_pid age_s protected "
                         "protection_absolute selected owner devices gpus notes");
        assert_int_equal(json_array_size(json_object_get(holder, "cmdline")), 4);
        has_keys(json_array_get(json_object_get(holder, "devices"), 0), "path rdev type class count bytes via");
        assert_string_equal(
                json_string_value(json_object_get(json_array_get(json_object_get(holder, "devices"), 0), "rdev")),
                "195:2");
        has_keys(json_array_get(json_object_get(holder, "gpus"), 0), "index uuid pci memory context");
        has_keys(json_array_get(json_object_get(json_object_get(holder, "owner"), "chain"), 0), "kind runtime id name");
        assert_string_equal(json_string_value(json_array_get(json_object_get(holder, "notes"), 0)),
                            "inherited-from:511");
        json_decref(d);
}

static void json_of_what_is_not_known_is_null(void **state)
{
        json_t *d = document("unknown", "ok", "list --json", 0), *gpu, *holder;

        (void)state;
        gpu = json_array_get(json_object_get(d, "gpus"), 0);
        assert_true(json_is_null(json_object_get(json_object_get(gpu, "memory"), "used")));
        holder = json_array_get(json_object_get(d, "holders"), 0);
        assert_true(json_is_null(json_object_get(holder, "cmdline")));
        assert_true(json_is_null(json_object_get(holder, "pidns_pid")));
        assert_true(json_is_null(json_object_get(json_array_get(json_object_get(holder, "gpus"), 0), "memory")));
        json_decref(d);
}

static void json_loses_no_byte(void **state)
{
        json_t *d = document("hostile", "ok", "list --json", 0), *holder;

        (void)state;
        holder = json_array_get(json_object_get(d, "holders"), 0);
        assert_string_equal(json_string_value(json_object_get(holder, "comm")), "ev\033[2Jil\n");
        assert_null(json_object_get(holder, "comm_hex"));
        HAS(json_string_value(json_object_get(holder, "cmdline_hex")), "fffe00");
        HAS(json_string_value(json_array_get(json_object_get(holder, "cmdline"), 1)), "\xef\xbf\xbd");
        json_decref(d);
}

static void json_of_a_kill_has_plan_fates_and_verdicts(void **state)
{
        json_t *d = document("story", "survived", "kill -y --json --gpu 1", 1), *plan = json_object_get(d, "plan");

        (void)state;
        has_keys(d, "plan fates sentences elapsed_ms gpus holders scan outcome");
        has_keys(plan, "targets spared gpus ladder");
        has_keys(json_object_get(plan, "ladder"), "signal force grace_ms timeout_ms settle_ms");
        assert_string_equal(json_string_value(json_object_get(d, "outcome")), "held");
        has_keys(json_array_get(json_object_get(d, "fates"), 0), "pid start_time comm fate elapsed_ms detail");
        has_keys(json_object_get(json_array_get(json_object_get(d, "gpus"), 1), "verdict"),
                 "verified used_before used_after elapsed_ms sentence");
        assert_true(json_is_null(json_object_get(json_array_get(json_object_get(d, "gpus"), 2), "verdict")));
        json_decref(d);
        json_decref(document("story", "ok", "kill -n --json", 0));
        json_decref(document("none", "ok", "kill -y --json", 0));
        d = document("story", "ok", "kill --json", 4);
        assert_string_equal(json_string_value(json_object_get(d, "reason")), "not-confirmed");
        assert_string_equal(json_string_value(json_object_get(d, "outcome")), "refused");
        json_decref(d);
        json_decref(document("story", "ok", "check --json", 1));
        json_decref(document("story", "ok", "wait --json --timeout 1s", 6));
}

/* GPUFREE_FAKE_OWNER stands for every text about an owner that the library hands out, raw. */
static void owners_in_a_plan_are_shown_and_escaped(void **state)
{
        struct run r = { .args = "kill -y --stop-owner --gpu 1",
                         .env = { "GPUFREE_FAKE=story", "GPUFREE_FAKE_END=survived",
                                  "GPUFREE_FAKE_OWNER=ow\033[2J\nner\"" } };
        struct run j = { .args = "kill -y --json --stop-owner --gpu 1", .env = { r.env[0], r.env[1], r.env[2] } };
        json_t *d, *target, *stop;

        (void)state;
        run_command(&r);
        HAS(r.out, "first ow");
        HAS(r.out, "by its owner");
        assert_null(strstr(r.out, "\033"));
        assert_null(strstr(r.out, "ow\n"));
        run_done(&r);
        run_command(&j);
        d = json_loads(j.out, 0, NULL);
        assert_non_null(d);
        target = json_array_get(json_object_get(json_object_get(d, "plan"), "targets"), 0);
        stop = json_object_get(target, "stop");
        has_keys(stop, "restart why owner command advice warning refusal runs group");
        assert_string_equal(json_string_value(json_object_get(stop, "command")), "ow\033[2J\nner\"");
        assert_true(json_is_true(json_object_get(json_object_get(json_object_get(d, "plan"), "ladder"), "stop_owner")));
        has_keys(json_array_get(json_object_get(d, "stops"), 0),
                 "owner command outcome status output sentence elapsed_ms");
        assert_null(strchr(j.out, '\033'));
        json_decref(d);
        run_done(&j);
}

static void a_list_by_owner_has_a_line_for_each(void **state)
{
        json_t *d = document("story", "ok", "list --json --by owner", 0), *owner;
        struct run r = { .args = "list --by owner", .env = { "GPUFREE_FAKE=story" } };

        (void)state;
        owner = json_array_get(json_object_get(d, "owners"), 0);
        has_keys(owner, "label memory memory_partly_unknown age_s gpus users pids");
        assert_true(json_array_size(json_object_get(owner, "pids")) > 0);
        json_decref(d);
        run_command(&r);
        HAS(r.out, "WHOSE");
        HAS(r.out, "PROCESSES");
        run_done(&r);
}

/* ---- on a terminal ---- */

static struct run on_terminal(const char *args, const char *end, const char *until, const char *answer, int signo)
{
        static char end_env[64];
        struct run run = { .args = args, .env = { end_env }, .terminal = true, .until = until, .answer = answer };

        (void)snprintf(end_env, sizeof(end_env), "GPUFREE_FAKE_END=%s", end);
        run.signal = signo;
        run_command(&run);
        return run;
}

static void only_yes_goes_on(void **state)
{
        static const struct {
                const char *answer;
                int code;
        } cases[] = { { "y\n", 0 },    { "YES\n", 0 }, { "n\n", 4 },     { "\n", 4 },
                      { "yess\n", 4 }, { "\004", 4 },  { "kill y\n", 4 } };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct run run = on_terminal("kill --gpu 1", "ok", "[y/N] ", cases[i].answer, 0);

                if (run.code != cases[i].code)
                        fail_msg("answer \"%s\": exit %d\n%s", cases[i].answer, run.code, run.out);
                if (cases[i].code == 4) {
                        HAS(run.out, "nothing was ended");
                        HAS_NOT(run.out, "gone after");
                }
                run_done(&run);
        }
}

static void the_plan_is_shown_before_the_question_in_every_form(void **state)
{
        static const char *const forms[] = { "kill --gpu 1", "kill -q --gpu 1", "kill --json --gpu 1" };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                struct run run = on_terminal(forms[i], "ok", "[y/N] ", "n\n", 0);
                const char *plan = strstr(run.out, "Will end 1 process"), *question = strstr(run.out, "[y/N]");

                assert_int_equal(run.code, 4);
                assert_non_null(plan);
                assert_non_null(question);
                assert_true(plan < question);
                run_done(&run);
        }
}

static void an_interrupted_question_ends_nothing(void **state)
{
        struct run run = on_terminal("kill", "ok", "[y/N] ", "\003", 0); /* Ctrl-C */

        (void)state;
        assert_int_equal(run.code, 4);
        HAS(run.out, "nothing was ended");
        run_done(&run);
}

static void an_interrupted_kill_says_what_was_and_was_not_done(void **state)
{
        struct run run = on_terminal("kill -y --gpu 1,2", "interrupted", "gone after", NULL, SIGTERM);

        (void)state;
        assert_int_equal(run.code, 1);
        HAS(run.out, "interrupted by SIGTERM");
        HAS(run.out, "21316  sglang::schedul  ended");
        HAS(run.out, "524  pt_data_worker  not dealt with");
        run_done(&run);
        run = on_terminal("kill -y", "kill-hangs", "Will end", NULL, SIGINT);
        assert_int_equal(run.code, 1);
        HAS(run.out, "nothing was ended");
        run_done(&run);
}

static void interrupted_waiting_is_128_and_the_signal(void **state)
{
        struct run run = on_terminal("wait", "wait-hangs", "waiting for", NULL, SIGINT);

        (void)state;
        assert_int_equal(run.code, 130);
        HAS(run.out, "interrupted by SIGINT");
        run_done(&run);
        run = on_terminal("wait", "wait-hangs", "waiting for", NULL, SIGTERM);
        assert_int_equal(run.code, 143);
        run_done(&run);
}

static void colour_is_for_terminals_unless_told(void **state)
{
        struct run run = { .args = "list", .terminal = true };

        (void)state;
        run_command(&run);
        HAS(run.out, "\033[33mheld");
        run_done(&run);
        run = (struct run){ .args = "list", .terminal = true, .env = { "NO_COLOR=1" } };
        run_command(&run);
        HAS_NOT(run.out, "\033[33m");
        run_done(&run);
        run = (struct run){ .args = "list --color never", .terminal = true };
        run_command(&run);
        HAS_NOT(run.out, "\033[33m");
        run_done(&run);
        run = (struct run){ .args = "list --color always", .env = { "NO_COLOR=1" } };
        run_command(&run);
        HAS(run.out, "\033[33mheld");
        run_done(&run);
        run = (struct run){ .args = "list" };
        run_command(&run);
        HAS_NOT(run.out, "\033");
        run_done(&run);
}

static size_t widest(char *text)
{
        size_t widest = 0;
        char *save = NULL;

        for (char *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
                size_t cells = 0;

                for (const char *c = line; *c; c++)
                        cells += ((unsigned char)*c & 0xc0) != 0x80; /* no wide characters in this scene */
                if (cells > widest)
                        widest = cells;
        }
        return widest;
}

static void no_output_is_wider_than_the_terminal(void **state)
{
        static const char *const forms[] = { "list --color never", "list --color never --any-open",
                                             "kill -n --color never", "check --color never" };

        (void)state;
        for (unsigned columns = 20; columns <= 200; columns += 9)
                for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                        struct run run = { .args = forms[i], .terminal = true, .columns = columns };
                        size_t cells;

                        run_command(&run);
                        cells = widest(run.out);
                        if (cells > columns)
                                fail_msg("%s: %zu cells on %u columns", forms[i], cells, columns);
                        run_done(&run);
                }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(exit_status_follows_the_contract),
                cmocka_unit_test(bad_usage_is_one_line_and_nothing_is_done),
                cmocka_unit_test(explanations_are_escaped_like_everything_else),
                cmocka_unit_test(every_wrong_path_gets_its_line),
                cmocka_unit_test(every_option_reaches_the_library),
                cmocka_unit_test(nothing_is_signalled_without_yes),
                cmocka_unit_test(nothing_is_signalled_when_the_plan_cannot_be_written),
                cmocka_unit_test(output_that_is_not_delivered_is_an_error),
                cmocka_unit_test(no_control_sequence_reaches_the_output),
                cmocka_unit_test(parking_is_told_and_its_outcome_is_the_exit_status),
                cmocka_unit_test(an_ascii_locale_gets_ascii),
                cmocka_unit_test(pids_alone_are_each_once),
                cmocka_unit_test(a_list_shows_what_how_and_whose),
                cmocka_unit_test(free_is_said_only_when_the_library_vouches),
                cmocka_unit_test(a_plan_says_what_else_is_freed_and_what_is_left_alone),
                cmocka_unit_test(failures_are_told_with_their_detail),
                cmocka_unit_test(no_gpu_is_a_note),
                cmocka_unit_test(json_has_every_field_of_the_contract),
                cmocka_unit_test(json_of_what_is_not_known_is_null),
                cmocka_unit_test(json_loses_no_byte),
                cmocka_unit_test(json_of_a_kill_has_plan_fates_and_verdicts),
                cmocka_unit_test(owners_in_a_plan_are_shown_and_escaped),
                cmocka_unit_test(a_list_by_owner_has_a_line_for_each),
                cmocka_unit_test(only_yes_goes_on),
                cmocka_unit_test(the_plan_is_shown_before_the_question_in_every_form),
                cmocka_unit_test(an_interrupted_question_ends_nothing),
                cmocka_unit_test(an_interrupted_kill_says_what_was_and_was_not_done),
                cmocka_unit_test(interrupted_waiting_is_128_and_the_signal),
                cmocka_unit_test(colour_is_for_terminals_unless_told),
                cmocka_unit_test(no_output_is_wider_than_the_terminal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

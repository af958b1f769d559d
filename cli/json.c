/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "text.h"

static void set(json_t *object, const char *key, json_t *value)
{
        (void)json_object_set_new(object, key, value ? value : json_null());
}

json_t *cli_json_string(const char *text, size_t n)
{
        struct gf_str out = { 0 };
        json_t *value;

        while (n > 0) {
                uint32_t c;
                size_t length = cli_text_decode(text, n, &c);

                if (length > 0)
                        gf_str_addn(&out, text, length);
                else
                        gf_str_add(&out, "\xef\xbf\xbd");
                length = length ? length : 1;
                text += length;
                n -= length;
        }
        value = out.failed ? NULL : json_stringn(out.s ? out.s : "", out.n);
        gf_str_done(&out);
        return value;
}

static json_t *string_or_null(const char *text)
{
        return text ? cli_json_string(text, strlen(text)) : json_null();
}

static json_t *number_or_null(uint64_t value)
{
        return value > INT64_MAX ? json_null() : json_integer((json_int_t)value);
}

static json_t *index_or_null(int value)
{
        return value < 0 ? json_null() : json_integer(value);
}

static bool is_utf8(const char *text, size_t n)
{
        while (n > 0) {
                uint32_t c;
                size_t length = cli_text_decode(text, n, &c);

                if (length == 0)
                        return false;
                text += length;
                n -= length;
        }
        return true;
}

/* Where U+FFFD stands for something, the bytes themselves too: nothing is lost. */
static void set_hex(json_t *object, const char *key, const char *bytes, size_t n)
{
        struct gf_str hex = { 0 };

        if (is_utf8(bytes, n))
                return;
        for (size_t i = 0; i < n; i++)
                gf_str_addf(&hex, "%02x", (unsigned)(unsigned char)bytes[i]);
        set(object, key, hex.failed ? NULL : json_stringn(hex.s, hex.n));
        gf_str_done(&hex);
}

json_t *cli_json_new(const struct cli_session *session)
{
        json_t *document = json_object();

        set(document, "schema", json_integer(1));
        set(document, "version", json_string(GPUFREE_VERSION));
        set(document, "command", json_string(cli_commands[session->request->command].name));
        return document;
}

void cli_json_outcome(json_t *document, int code, const char *reason)
{
        json_t *status = json_object();

        set(document, "outcome", json_string(cli_exit_name(code)));
        set(status, "code", json_integer(code));
        set(status, "name", json_string(cli_exit_name(code)));
        set(document, "exit", status);
        set(document, "reason", string_or_null(reason));
}

static json_t *verdict_of(const gpufree_report *report, size_t position)
{
        json_t *verdict;

        for (size_t i = 0; report && i < gpufree_report_gpu_count(report); i++) {
                const gpufree_gpu *gpu = NULL;
                const char *sentence = NULL;
                uint64_t before, after, elapsed;
                bool verified;

                if (gpufree_report_gpu(report, i, &gpu, &before, &after, &elapsed, &verified, &sentence) < 0 ||
                    gpu != gpufree_snapshot_gpu(gpufree_report_snapshot(report), position))
                        continue;
                verdict = json_object();
                set(verdict, "verified", json_boolean(verified));
                set(verdict, "used_before", number_or_null(before));
                set(verdict, "used_after", number_or_null(after));
                set(verdict, "elapsed_ms", number_or_null(elapsed));
                set(verdict, "sentence", string_or_null(sentence));
                return verdict;
        }
        return NULL;
}

static json_t *gpu_object(const gpufree_snapshot *snapshot, size_t position, const gpufree_report *report)
{
        const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, position);
        json_t *object = json_object(), *memory = json_object();

        set(object, "index", index_or_null(gpufree_gpu_index(gpu)));
        set(object, "uuid", string_or_null(gpufree_gpu_uuid(gpu)));
        set(object, "pci", string_or_null(gpufree_gpu_pci(gpu)));
        set(object, "minor", index_or_null(gpufree_gpu_minor(gpu)));
        set(object, "name", string_or_null(gpufree_gpu_name(gpu)));
        set(object, "vendor", string_or_null(gpufree_vendor_name(gpufree_gpu_vendor(gpu))));
        set(object, "selected", json_boolean(gpufree_gpu_selected(gpu)));
        set(memory, "total", number_or_null(gpufree_gpu_memory_total(gpu)));
        set(memory, "used", number_or_null(gpufree_gpu_memory_used(gpu)));
        set(memory, "reserved", number_or_null(gpufree_gpu_memory_reserved(gpu)));
        set(memory, "accounted", number_or_null(gpufree_gpu_memory_accounted(gpu)));
        set(memory, "unaccounted", number_or_null(gpufree_gpu_memory_unaccounted(gpu)));
        set(object, "memory", memory);
        set(object, "holders", number_or_null(gpufree_gpu_holders(gpu)));
        set(object, "openers", number_or_null(gpufree_gpu_openers(gpu)));
        set(object, "error", string_or_null(gpufree_gpu_error(gpu)));
        set(object, "verdict", verdict_of(report, position));
        return object;
}

static json_t *via_array(unsigned via)
{
        static const struct {
                unsigned bit;
                const char *name;
        } names[] = {
                { GPUFREE_VIA_FD, "fd" },         { GPUFREE_VIA_MAP, "map" },
                { GPUFREE_VIA_SCM, "scm" },       { GPUFREE_VIA_IO_URING, "io_uring" },
                { GPUFREE_VIA_DMABUF, "dmabuf" }, { GPUFREE_VIA_DRIVER, "driver" },
        };
        json_t *array = json_array();

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (via & names[i].bit)
                        (void)json_array_append_new(array, json_string(names[i].name));
        return array;
}

static json_t *holder_devices(const gpufree_snapshot *snapshot, const gpufree_holder *holder)
{
        json_t *array = json_array();

        for (size_t i = 0; i < gpufree_holder_device_count(holder); i++) {
                int position = -1;
                unsigned via = 0;
                uint64_t count = 0, bytes = GPUFREE_UNKNOWN;
                const gpufree_device *device;
                json_t *object;

                if (gpufree_holder_device(holder, i, &position, &via, &count, &bytes) < 0)
                        continue;
                device = position < 0 ? NULL : gpufree_snapshot_device(snapshot, (size_t)position);
                object = json_object();
                set(object, "path", device ? string_or_null(gpufree_device_path(device)) : NULL);
                set(object, "rdev",
                    device ? json_sprintf("%u:%u", major(gpufree_device_rdev(device)),
                                          minor(gpufree_device_rdev(device)))
                           : NULL);
                set(object, "type", device ? json_string(gpufree_device_is_block(device) ? "block" : "char") : NULL);
                set(object, "class", device ? string_or_null(gpufree_device_class(device)) : json_string("dma-buf"));
                set(object, "count", number_or_null(count));
                set(object, "bytes", number_or_null(bytes));
                set(object, "via", via_array(via));
                (void)json_array_append_new(array, object);
        }
        return array;
}

static json_t *holder_gpus(const gpufree_snapshot *snapshot, const gpufree_holder *holder)
{
        json_t *array = json_array();

        for (size_t i = 0; i < gpufree_holder_gpu_count(holder); i++) {
                int position = -1;
                uint64_t memory = GPUFREE_UNKNOWN;
                bool context = false;
                const gpufree_gpu *gpu;
                json_t *object;

                if (gpufree_holder_gpu(holder, i, &position, &memory, &context) < 0 || position < 0)
                        continue;
                gpu = gpufree_snapshot_gpu(snapshot, (size_t)position);
                object = json_object();
                set(object, "index", index_or_null(gpufree_gpu_index(gpu)));
                set(object, "uuid", string_or_null(gpufree_gpu_uuid(gpu)));
                set(object, "pci", string_or_null(gpufree_gpu_pci(gpu)));
                set(object, "memory", number_or_null(memory));
                set(object, "context", json_boolean(context));
                (void)json_array_append_new(array, object);
        }
        return array;
}

static json_t *holder_owner(const gpufree_holder *holder)
{
        json_t *owner = json_object(), *chain = json_array();

        for (size_t i = 0; i < gpufree_holder_owner_count(holder); i++) {
                const char *kind = NULL, *runtime = NULL, *id = NULL, *name = NULL;
                json_t *link;

                if (gpufree_holder_owner(holder, i, &kind, &runtime, &id, &name) < 0)
                        continue;
                link = json_object();
                set(link, "kind", string_or_null(kind));
                set(link, "runtime", string_or_null(runtime));
                set(link, "id", string_or_null(id));
                set(link, "name", string_or_null(name));
                (void)json_array_append_new(chain, link);
        }
        set(owner, "chain", chain);
        set(owner, "label", string_or_null(gpufree_holder_owner_label(holder)));
        return owner;
}

static json_t *cmdline_array(const char *cmdline, size_t length)
{
        json_t *array;

        if (!cmdline)
                return json_null();
        array = json_array();
        if (length > 0 && cmdline[length - 1] == '\0')
                length--;
        else if (length == 0)
                return array;
        for (size_t at = 0; at <= length;) {
                size_t n = strnlen(cmdline + at, length - at);

                (void)json_array_append_new(array, cli_json_string(cmdline + at, n));
                at += n + 1;
        }
        return array;
}

static void set_identity(json_t *object, const gpufree_holder *holder)
{
        char state[2] = { gpufree_holder_state(holder), '\0' };
        uint64_t age = gpufree_holder_age_ms(holder);
        const char *cmdline;
        size_t length = 0;

        set(object, "pid", json_integer(gpufree_holder_pid(holder)));
        set(object, "start_time", number_or_null(gpufree_holder_start_ticks(holder)));
        set(object, "comm", string_or_null(gpufree_holder_comm(holder)));
        if (gpufree_holder_comm(holder))
                set_hex(object, "comm_hex", gpufree_holder_comm(holder), strlen(gpufree_holder_comm(holder)));
        cmdline = gpufree_holder_cmdline(holder, &length);
        set(object, "cmdline", cmdline_array(cmdline, length));
        if (cmdline)
                set_hex(object, "cmdline_hex", cmdline, length);
        set(object, "uid",
            gpufree_holder_uid(holder) == UINT32_MAX ? NULL : json_integer((json_int_t)gpufree_holder_uid(holder)));
        set(object, "user", string_or_null(gpufree_holder_user(holder)));
        set(object, "state", state[0] == '?' ? NULL : cli_json_string(state, strlen(state)));
        set(object, "ppid", json_integer(gpufree_holder_ppid(holder)));
        set(object, "pidns_pid",
            gpufree_holder_pidns_pid(holder) > 0 ? json_integer(gpufree_holder_pidns_pid(holder)) : NULL);
        set(object, "age_s", age == GPUFREE_UNKNOWN ? NULL : json_real((double)age / 1000));
}

static json_t *holder_object(const gpufree_snapshot *snapshot, const gpufree_holder *holder)
{
        json_t *object = json_object(), *notes = json_array();
        const char *note;

        set_identity(object, holder);
        set(object, "selected", json_boolean(gpufree_holder_selected(holder)));
        set(object, "protected", string_or_null(gpufree_holder_protected(holder)));
        set(object, "protection_absolute", json_boolean(gpufree_holder_protection_absolute(holder)));
        set(object, "owner", holder_owner(holder));
        set(object, "devices", holder_devices(snapshot, holder));
        set(object, "gpus", holder_gpus(snapshot, holder));
        for (size_t i = 0; (note = gpufree_holder_note(holder, i)) != NULL; i++)
                (void)json_array_append_new(notes, string_or_null(note));
        set(object, "notes", notes);
        return object;
}

static const char *method_name(enum gpufree_scan_method method)
{
        switch (method) {
        case GPUFREE_SCAN_BPF:
                return "bpf";
        case GPUFREE_SCAN_PROC:
                return "proc";
        case GPUFREE_SCAN_AUTO:
        default:
                return NULL;
        }
}

static json_t *scan_object(const gpufree_snapshot *snapshot)
{
        json_t *scan = json_object(), *gaps = json_array();
        const char *gap;

        set(scan, "complete", json_boolean(gpufree_snapshot_complete(snapshot)));
        set(scan, "method", string_or_null(method_name(gpufree_snapshot_method(snapshot))));
        set(scan, "method_reason", string_or_null(gpufree_snapshot_method_reason(snapshot)));
        set(scan, "elapsed_ms", json_real((double)gpufree_snapshot_elapsed_us(snapshot) / 1000));
        set(scan, "processes", number_or_null(gpufree_snapshot_processes(snapshot)));
        set(scan, "unreadable", number_or_null(gpufree_snapshot_unreadable(snapshot)));
        for (size_t i = 0; (gap = gpufree_snapshot_gap(snapshot, i)) != NULL; i++)
                (void)json_array_append_new(gaps, string_or_null(gap));
        set(scan, "gaps", gaps);
        return scan;
}

void cli_json_snapshot(json_t *document, const gpufree_snapshot *snapshot, const gpufree_report *report)
{
        json_t *driver = json_object(), *gpus = json_array(), *holders = json_array();
        size_t others = 0;

        set(document, "scan", scan_object(snapshot));
        set(driver, "version", string_or_null(gpufree_snapshot_driver_version(snapshot)));
        set(driver, "error", string_or_null(gpufree_snapshot_driver_error(snapshot)));
        set(document, "driver", driver);
        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++)
                (void)json_array_append_new(gpus, gpu_object(snapshot, i, report));
        set(document, "gpus", gpus);
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);

                if (gpufree_holder_selected(holder))
                        (void)json_array_append_new(holders, holder_object(snapshot, holder));
                else
                        others++;
        }
        set(document, "holders", holders);
        set(document, "others", json_integer((json_int_t)others));
}

void cli_json_plan(json_t *document, const gpufree_snapshot *snapshot, const gpufree_plan *plan,
                   const struct gpufree_ladder *ladder)
{
        json_t *object = json_object(), *targets = json_array(), *spared = json_array(), *gpus = json_array(),
               *steps = json_object();

        for (size_t i = 0; i < gpufree_plan_target_count(plan); i++)
                (void)json_array_append_new(targets, holder_object(snapshot, gpufree_plan_target(plan, i)));
        for (size_t i = 0; i < gpufree_plan_spared_count(plan); i++)
                (void)json_array_append_new(spared, holder_object(snapshot, gpufree_plan_spared(plan, i)));
        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, i);
                json_t *entry;

                if (!gpufree_gpu_selected(gpu))
                        continue;
                entry = json_object();
                set(entry, "index", index_or_null(gpufree_gpu_index(gpu)));
                set(entry, "pci", string_or_null(gpufree_gpu_pci(gpu)));
                set(entry, "memory", number_or_null(gpufree_plan_memory(plan, i)));
                (void)json_array_append_new(gpus, entry);
        }
        set(object, "targets", targets);
        set(object, "spared", spared);
        set(object, "gpus", gpus);
        set(steps, "signal", string_or_null(cli_signal_name(ladder->force ? 9 : ladder->signal)));
        set(steps, "force", json_boolean(ladder->force));
        set(steps, "grace_ms", number_or_null(ladder->grace_ms));
        set(steps, "timeout_ms", number_or_null(ladder->timeout_ms));
        set(steps, "settle_ms", number_or_null(ladder->settle_ms));
        set(object, "ladder", steps);
        set(document, "plan", object);
}

void cli_json_report(json_t *document, const gpufree_report *report, bool with_fates)
{
        json_t *sentences = json_array(), *fates = json_array();
        const char *sentence;

        for (size_t i = 0; (sentence = gpufree_report_sentence(report, i)) != NULL; i++)
                (void)json_array_append_new(sentences, string_or_null(sentence));
        set(document, "sentences", sentences);
        set(document, "elapsed_ms", number_or_null(gpufree_report_elapsed_ms(report)));
        for (size_t i = 0; i < gpufree_report_fate_count(report); i++) {
                const gpufree_holder *holder = NULL;
                enum gpufree_fate fate = GPUFREE_FATE_SURVIVED;
                const char *detail = NULL;
                uint64_t elapsed = GPUFREE_UNKNOWN;
                json_t *object;

                if (gpufree_report_fate(report, i, &holder, &fate, &elapsed, &detail) < 0)
                        continue;
                object = json_object();
                set(object, "pid", holder ? json_integer(gpufree_holder_pid(holder)) : NULL);
                set(object, "start_time", holder ? number_or_null(gpufree_holder_start_ticks(holder)) : NULL);
                set(object, "comm", holder ? string_or_null(gpufree_holder_comm(holder)) : NULL);
                set(object, "fate", string_or_null(gpufree_fate_name(fate)));
                set(object, "elapsed_ms", number_or_null(elapsed));
                set(object, "detail", string_or_null(detail));
                (void)json_array_append_new(fates, object);
        }
        if (with_fates)
                set(document, "fates", fates);
        else
                json_decref(fates);
}

/* ASCII alone: neither a C1 control nor a mark that turns text reaches a terminal. jansson leaves DEL as it is. */
static char *dump(const json_t *document)
{
        _cleanup_free_ char *raw = json_dumps(document, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12));
        struct gf_str out = { 0 };
        char *text = NULL;

        if (!raw)
                return NULL;
        for (const char *c = raw; *c; c++)
                if (*c == 0x7f)
                        gf_str_add(&out, "\\u007f");
                else
                        gf_str_addc(&out, *c);
        return gf_str_take(&out, &text) < 0 ? NULL : text;
}

void cli_json_text(struct gf_str *out, const json_t *document, int part)
{
        _cleanup_free_ char *text = dump(document);
        size_t n;

        if (!text) {
                out->failed = true;
                return;
        }
        n = strlen(text); /* "{\n  … \n}" */
        if (part == 1 && n > 4)
                gf_str_addn(out, text, n - 2);
        else if (part == 2 && n > 4)
                gf_str_addf(out, ",%s\n", text + 1);
        else
                gf_str_addf(out, "%s\n", text);
}

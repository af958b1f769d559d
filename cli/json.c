/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "text.h"

void cli_json_set(json_t *object, const char *key, json_t *value)
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

json_t *cli_json_text_or_null(const char *text)
{
        return text ? cli_json_string(text, strlen(text)) : json_null();
}

json_t *cli_json_number(uint64_t value)
{
        return value > INT64_MAX ? json_null() : json_integer((json_int_t)value);
}

json_t *cli_json_index(int value)
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
        cli_json_set(object, key, hex.failed ? NULL : json_stringn(hex.s, hex.n));
        gf_str_done(&hex);
}

json_t *cli_json_new(const struct cli_session *session)
{
        json_t *document = json_object();

        cli_json_set(document, "schema", json_integer(1));
        cli_json_set(document, "version", json_string(GPUFREE_VERSION));
        cli_json_set(document, "command", json_string(cli_commands[session->request->command].name));
        return document;
}

void cli_json_outcome(json_t *document, int code, const char *reason)
{
        json_t *status = json_object();

        cli_json_set(document, "outcome", json_string(cli_exit_name(code)));
        cli_json_set(status, "code", json_integer(code));
        cli_json_set(status, "name", json_string(cli_exit_name(code)));
        cli_json_set(document, "exit", status);
        cli_json_set(document, "reason", cli_json_text_or_null(reason));
}

/* Only where it was asked: what is not known is null, and says why. */
static void set_busy(json_t *verdict, const gpufree_report *report, size_t position)
{
        const char *why = NULL;
        unsigned percent = 0;
        int r = gpufree_report_gpu_busy(report, position, &percent, &why);

        if (r == -ENODATA || r == -ERANGE)
                return;
        cli_json_set(verdict, "busy", r < 0 ? NULL : json_integer((json_int_t)percent));
        cli_json_set(verdict, "busy_error", r < 0 ? cli_json_text_or_null(why) : NULL);
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
                cli_json_set(verdict, "verified", json_boolean(verified));
                cli_json_set(verdict, "used_before", cli_json_number(before));
                cli_json_set(verdict, "used_after", cli_json_number(after));
                cli_json_set(verdict, "elapsed_ms", cli_json_number(elapsed));
                cli_json_set(verdict, "sentence", cli_json_text_or_null(sentence));
                set_busy(verdict, report, i);
                return verdict;
        }
        return NULL;
}

static json_t *gpu_object(const gpufree_snapshot *snapshot, size_t position, const gpufree_report *report)
{
        const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, position);
        json_t *object = json_object(), *memory = json_object();

        cli_json_set(object, "index", cli_json_index(gpufree_gpu_index(gpu)));
        cli_json_set(object, "uuid", cli_json_text_or_null(gpufree_gpu_uuid(gpu)));
        cli_json_set(object, "pci", cli_json_text_or_null(gpufree_gpu_pci(gpu)));
        cli_json_set(object, "minor", cli_json_index(gpufree_gpu_minor(gpu)));
        cli_json_set(object, "name", cli_json_text_or_null(gpufree_gpu_name(gpu)));
        cli_json_set(object, "vendor", cli_json_text_or_null(gpufree_vendor_name(gpufree_gpu_vendor(gpu))));
        cli_json_set(object, "selected", json_boolean(gpufree_gpu_selected(gpu)));
        cli_json_set(memory, "total", cli_json_number(gpufree_gpu_memory_total(gpu)));
        cli_json_set(memory, "used", cli_json_number(gpufree_gpu_memory_used(gpu)));
        cli_json_set(memory, "reserved", cli_json_number(gpufree_gpu_memory_reserved(gpu)));
        cli_json_set(memory, "accounted", cli_json_number(gpufree_gpu_memory_accounted(gpu)));
        cli_json_set(memory, "unaccounted", cli_json_number(gpufree_gpu_memory_unaccounted(gpu)));
        cli_json_set(object, "memory", memory);
        cli_json_set(object, "holders", cli_json_number(gpufree_gpu_holders(gpu)));
        cli_json_set(object, "openers", cli_json_number(gpufree_gpu_openers(gpu)));
        cli_json_set(object, "error", cli_json_text_or_null(gpufree_gpu_error(gpu)));
        cli_json_set(object, "verdict", verdict_of(report, position));
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
                cli_json_set(object, "path", device ? cli_json_text_or_null(gpufree_device_path(device)) : NULL);
                cli_json_set(object, "rdev",
                             device ? json_sprintf("%u:%u", major(gpufree_device_rdev(device)),
                                                   minor(gpufree_device_rdev(device)))
                                    : NULL);
                cli_json_set(object, "type",
                             device ? json_string(gpufree_device_is_block(device) ? "block" : "char") : NULL);
                cli_json_set(object, "class",
                             device ? cli_json_text_or_null(gpufree_device_class(device)) : json_string("dma-buf"));
                cli_json_set(object, "count", cli_json_number(count));
                cli_json_set(object, "bytes", cli_json_number(bytes));
                cli_json_set(object, "via", via_array(via));
                (void)json_array_append_new(array, object);
        }
        return array;
}

static const char *witness_name(enum gpufree_witness witness)
{
        switch (witness) {
        case GPUFREE_WITNESS_OPEN:
                return "open";
        case GPUFREE_WITNESS_CONTEXT:
                return "context";
        case GPUFREE_WITNESS_SHARED:
                return "shared";
        case GPUFREE_WITNESS_HANDLE:
                return "handle";
        case GPUFREE_WITNESS_DMABUF:
                return "dma-buf";
        case GPUFREE_WITNESS_NONE:
        default:
                return NULL;
        }
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
                cli_json_set(object, "index", cli_json_index(gpufree_gpu_index(gpu)));
                cli_json_set(object, "uuid", cli_json_text_or_null(gpufree_gpu_uuid(gpu)));
                cli_json_set(object, "pci", cli_json_text_or_null(gpufree_gpu_pci(gpu)));
                cli_json_set(object, "memory", cli_json_number(memory));
                cli_json_set(object, "context", json_boolean(context));
                cli_json_set(object, "busy", cli_json_number(gpufree_holder_gpu_busy(holder, i)));
                cli_json_set(object, "witness",
                             cli_json_text_or_null(witness_name(gpufree_holder_gpu_witness(holder, i))));
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
                cli_json_set(link, "kind", cli_json_text_or_null(kind));
                cli_json_set(link, "runtime", cli_json_text_or_null(runtime));
                cli_json_set(link, "id", cli_json_text_or_null(id));
                cli_json_set(link, "name", cli_json_text_or_null(name));
                (void)json_array_append_new(chain, link);
        }
        cli_json_set(owner, "chain", chain);
        cli_json_set(owner, "label", cli_json_text_or_null(gpufree_holder_owner_label(holder)));
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

        cli_json_set(object, "pid", json_integer(gpufree_holder_pid(holder)));
        cli_json_set(object, "start_time", cli_json_number(gpufree_holder_start_ticks(holder)));
        cli_json_set(object, "comm", cli_json_text_or_null(gpufree_holder_comm(holder)));
        if (gpufree_holder_comm(holder))
                set_hex(object, "comm_hex", gpufree_holder_comm(holder), strlen(gpufree_holder_comm(holder)));
        cmdline = gpufree_holder_cmdline(holder, &length);
        cli_json_set(object, "cmdline", cmdline_array(cmdline, length));
        if (cmdline)
                set_hex(object, "cmdline_hex", cmdline, length);
        cli_json_set(object, "uid",
                     gpufree_holder_uid(holder) == UINT32_MAX ? NULL
                                                              : json_integer((json_int_t)gpufree_holder_uid(holder)));
        cli_json_set(object, "user", cli_json_text_or_null(gpufree_holder_user(holder)));
        cli_json_set(object, "state", state[0] == '?' ? NULL : cli_json_string(state, strlen(state)));
        cli_json_set(object, "ppid", json_integer(gpufree_holder_ppid(holder)));
        cli_json_set(object, "pidns_pid",
                     gpufree_holder_pidns_pid(holder) > 0 ? json_integer(gpufree_holder_pidns_pid(holder)) : NULL);
        cli_json_set(object, "age_s", age == GPUFREE_UNKNOWN ? NULL : json_real((double)age / 1000));
}

json_t *cli_json_holder(const gpufree_snapshot *snapshot, const gpufree_holder *holder)
{
        json_t *object = json_object(), *notes = json_array();
        const char *note;

        set_identity(object, holder);
        cli_json_set(object, "selected", json_boolean(gpufree_holder_selected(holder)));
        cli_json_set(object, "protected", cli_json_text_or_null(gpufree_holder_protected(holder)));
        cli_json_set(object, "protection_absolute", json_boolean(gpufree_holder_protection_absolute(holder)));
        cli_json_set(object, "owner", holder_owner(holder));
        cli_json_set(object, "devices", holder_devices(snapshot, holder));
        cli_json_set(object, "gpus", holder_gpus(snapshot, holder));
        for (size_t i = 0; (note = gpufree_holder_note(holder, i)) != NULL; i++)
                (void)json_array_append_new(notes, cli_json_text_or_null(note));
        cli_json_set(object, "notes", notes);
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

static json_t *witness_object(const gpufree_snapshot *snapshot)
{
        json_t *witness = json_object();
        const char *reason = NULL;
        uint64_t load_us, pass_us;
        bool read = gpufree_snapshot_witness(snapshot, &reason, &load_us, &pass_us);

        cli_json_set(witness, "read", json_boolean(read));
        cli_json_set(witness, "reason", cli_json_text_or_null(reason));
        cli_json_set(witness, "load_ms", read ? json_real((double)load_us / 1000) : NULL);
        cli_json_set(witness, "pass_ms", read ? json_real((double)pass_us / 1000) : NULL);
        return witness;
}

static json_t *scan_object(const gpufree_snapshot *snapshot)
{
        json_t *scan = json_object(), *gaps = json_array();
        struct gpufree_look_count count = { .threads_existing = GPUFREE_UNKNOWN };
        const char *gap;

        cli_json_set(scan, "complete", json_boolean(gpufree_snapshot_complete(snapshot)));
        cli_json_set(scan, "method", cli_json_text_or_null(method_name(gpufree_snapshot_method(snapshot))));
        cli_json_set(scan, "method_reason", cli_json_text_or_null(gpufree_snapshot_method_reason(snapshot)));
        cli_json_set(scan, "witness", witness_object(snapshot));
        cli_json_set(scan, "elapsed_ms", json_real((double)gpufree_snapshot_elapsed_us(snapshot) / 1000));
        cli_json_set(scan, "processes", cli_json_number(gpufree_snapshot_processes(snapshot)));
        (void)gpufree_snapshot_count(snapshot, &count, sizeof(count));
        cli_json_set(scan, "threads", cli_json_number(count.threads));
        cli_json_set(scan, "threads_existing", cli_json_number(count.threads_existing));
        cli_json_set(scan, "vanished", cli_json_number(count.vanished));
        cli_json_set(scan, "refused_permission", cli_json_number(count.refused_permission));
        cli_json_set(scan, "refused_other", cli_json_number(count.refused_other));
        cli_json_set(scan, "opaque", cli_json_number(count.opaque));
        cli_json_set(scan, "unreadable", cli_json_number(gpufree_snapshot_unreadable(snapshot)));
        for (size_t i = 0; (gap = gpufree_snapshot_gap(snapshot, i)) != NULL; i++)
                (void)json_array_append_new(gaps, cli_json_text_or_null(gap));
        cli_json_set(scan, "gaps", gaps);
        return scan;
}

void cli_json_snapshot(json_t *document, const gpufree_snapshot *snapshot, const gpufree_report *report)
{
        json_t *driver = json_object(), *gpus = json_array(), *holders = json_array();
        size_t others = 0;

        cli_json_set(document, "scan", scan_object(snapshot));
        cli_json_set(driver, "version", cli_json_text_or_null(gpufree_snapshot_driver_version(snapshot)));
        cli_json_set(driver, "error", cli_json_text_or_null(gpufree_snapshot_driver_error(snapshot)));
        cli_json_set(document, "driver", driver);
        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++)
                (void)json_array_append_new(gpus, gpu_object(snapshot, i, report));
        cli_json_set(document, "gpus", gpus);
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);

                if (gpufree_holder_selected(holder))
                        (void)json_array_append_new(holders, cli_json_holder(snapshot, holder));
                else
                        others++;
        }
        cli_json_set(document, "holders", holders);
        cli_json_set(document, "others", json_integer((json_int_t)others));
}

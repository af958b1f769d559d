/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <string.h>

#include "base/num.h"
#include "text.h"

static char *take(struct gf_str *str)
{
        char *text = NULL;

        return gf_str_take(str, &text) < 0 ? NULL : text;
}

/* Our own marks in the terminal's alphabet. */
static char *take_marked(const struct cli_term *term, struct gf_str *str)
{
        struct gf_str plain = { 0 };

        if (term->utf8 || !str->s)
                return take(str);
        cli_text_plain(&plain, str->s);
        plain.failed |= str->failed;
        gf_str_done(str);
        return take(&plain);
}

static void add_escaped(const struct cli_term *term, struct gf_str *out, const char *text)
{
        cli_text_escape(out, text, strlen(text), term->utf8);
}

char *cli_view_count(size_t n, const char *one, const char *many)
{
        return gf_asprintf("%zu %s", n, n == 1 ? one : many);
}

char *cli_view_size(uint64_t bytes)
{
        char buf[GF_TEXT_MAX];

        return strdup(bytes == GPUFREE_UNKNOWN ? "?" : gf_format_size(bytes, buf));
}

char *cli_view_gpu(const gpufree_snapshot *snapshot, int gpu)
{
        struct gf_str out = { 0 };
        const gpufree_gpu *g = gpu < 0 ? NULL : gpufree_snapshot_gpu(snapshot, (size_t)gpu);

        if (!g)
                return strdup("-");
        if (gpufree_gpu_index(g) >= 0)
                return gf_asprintf("%d", gpufree_gpu_index(g));
        if (!gpufree_gpu_pci(g))
                return gf_asprintf("#%d", gpu);
        cli_text_escape(&out, gpufree_gpu_pci(g), strlen(gpufree_gpu_pci(g)), false);
        return take(&out);
}

char *cli_view_user(const struct cli_term *term, const gpufree_holder *holder)
{
        struct gf_str out = { 0 };

        if (gpufree_holder_user(holder))
                add_escaped(term, &out, gpufree_holder_user(holder));
        else if (gpufree_holder_uid(holder) != UINT32_MAX)
                gf_str_addf(&out, "%u", gpufree_holder_uid(holder));
        else
                gf_str_add(&out, "?");
        return take(&out);
}

char *cli_view_owner(const struct cli_term *term, const gpufree_holder *holder)
{
        struct gf_str out = { 0 };
        const char *label = gpufree_holder_owner_label(holder);

        add_escaped(term, &out, label ? label : "-");
        return take(&out);
}

/* Does the command line tell the name already? An argument need not end in NUL: a process may write over its own. */
static bool names(const char *cmdline, size_t length, const char *comm)
{
        size_t k = strlen(comm);

        for (size_t at = 0; at < length;) {
                const char *argument = cmdline + at;
                size_t n = strnlen(argument, length - at);
                const char *slash = memrchr(argument, '/', n);
                size_t base = slash ? (size_t)(slash + 1 - argument) : 0;

                if ((n - base >= k && memcmp(argument + base, comm, k) == 0) ||
                    (n >= k && memcmp(argument, comm, k) == 0))
                        return true;
                at += n + 1;
        }
        return false;
}

char *cli_view_command(const struct cli_term *term, const gpufree_holder *holder)
{
        struct gf_str out = { 0 };
        const char *comm = gpufree_holder_comm(holder), *cmdline;
        size_t length = 0;

        cmdline = gpufree_holder_cmdline(holder, &length);
        while (cmdline && length > 0 && cmdline[length - 1] == '\0')
                length--;
        if (!cmdline || length == 0) {
                add_escaped(term, &out, comm ? comm : "?");
                return take(&out);
        }
        for (size_t at = 0; at < length;) {
                size_t n = strnlen(cmdline + at, length - at);

                if (at > 0)
                        gf_str_addc(&out, ' ');
                cli_text_escape(&out, cmdline + at, n, term->utf8);
                at += n + 1;
        }
        if (comm && comm[0] != '\0' && !names(cmdline, length, comm)) {
                gf_str_add(&out, " (");
                add_escaped(term, &out, comm);
                gf_str_addc(&out, ')');
        }
        return take(&out);
}

static void add_part(struct gf_str *out, const char *text)
{
        if (out->n > 0)
                gf_str_add(out, ", ");
        gf_str_add(out, text);
}

struct uses {
        unsigned via;
        uint64_t count, bytes;
        const char *first; /* class of the first device, when none is the GPU's own */
        size_t n;
};

/* What it holds of that GPU's own nodes; of everything when `own` is false. */
static void gather(const gpufree_snapshot *snapshot, const gpufree_holder *holder, int gpu, bool own, struct uses *ret)
{
        *ret = (struct uses){ 0 };
        for (size_t i = 0; i < gpufree_holder_device_count(holder); i++) {
                int position = -1;
                unsigned via = 0;
                uint64_t count = 0, bytes = GPUFREE_UNKNOWN;
                const gpufree_device *device;

                if (gpufree_holder_device(holder, i, &position, &via, &count, &bytes) < 0)
                        continue;
                device = position < 0 ? NULL : gpufree_snapshot_device(snapshot, (size_t)position);
                if (own && device && gpufree_device_gpu(device) != gpu)
                        continue;
                ret->via |= via;
                if (device && (via & (GPUFREE_VIA_FD | GPUFREE_VIA_MAP)))
                        ret->count += count;
                if (bytes != GPUFREE_UNKNOWN && (via & GPUFREE_VIA_DMABUF))
                        ret->bytes += bytes;
                if (device && !ret->first)
                        ret->first = gpufree_device_class(device);
                ret->n += device != NULL;
        }
}

static const char *note_text(const char *note)
{
        static const struct {
                const char *note, *text;
        } texts[] = {
                { "zombie-leader", "leader zombie" },
                { "own-device-node", "own device node" },
                { "unlinked-node", "node deleted" },
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                if (strcmp(note, texts[i].note) == 0)
                        return texts[i].text;
        if (gf_startswith(note, "witness-context:"))
                return "unlisted context";
        if (gf_startswith(note, "witness-open:"))
                return "listed, no context seen";
        return note;
}

static void add_uses(struct gf_str *out, const struct uses *uses, bool gpu_node)
{
        char size[GF_TEXT_MAX];

        if (!gpu_node && uses->first)
                add_part(out, uses->first);
        /* The count is of descriptors and mappings together. */
        if (uses->via & (GPUFREE_VIA_FD | GPUFREE_VIA_MAP)) {
                const char *what = !(uses->via & GPUFREE_VIA_MAP) ? "fd"
                                   : uses->via & GPUFREE_VIA_FD   ? "fd+map"
                                                                  : "map";

                if (!gpu_node && uses->first)
                        gf_str_addf(out, " %s", what);
                else
                        add_part(out, what);
                gf_str_addf(out, " ×%llu", (unsigned long long)uses->count);
        }
        if (uses->via & GPUFREE_VIA_SCM)
                add_part(out, "fd in a socket");
        if (uses->via & GPUFREE_VIA_IO_URING)
                add_part(out, "io_uring");
        if (uses->via & GPUFREE_VIA_DMABUF) {
                add_part(out, "dma-buf");
                if (uses->bytes > 0)
                        gf_str_addf(out, " %s", gf_format_size(uses->bytes, size));
        }
        if (uses->via & GPUFREE_VIA_DRIVER)
                add_part(out, "listed by the driver");
}

char *cli_view_how(const struct cli_term *term, const gpufree_snapshot *snapshot, const gpufree_holder *holder, int gpu)
{
        struct gf_str out = { 0 };
        struct uses uses;
        const char *note, *gap = "; ";
        bool own = gpu >= 0;

        gather(snapshot, holder, gpu, own, &uses);
        if (own && uses.via == 0) {
                own = false;
                gather(snapshot, holder, gpu, false, &uses);
        }
        if (gpu >= 0 || cli_holds_any(holder) || uses.n == 0)
                add_uses(&out, &uses, own);
        else {
                add_part(&out, "open ");
                gf_str_addf(&out, "×%llu", (unsigned long long)uses.count);
        }
        for (size_t i = 0; (note = gpufree_holder_note(holder, i)) != NULL; i++) {
                if (gf_startswith(note, "inherited-from:")) {
                        gf_str_addf(&out, "%sfrom dead ", gap);
                        add_escaped(term, &out, note + strlen("inherited-from:"));
                        gap = ", ";
                        continue;
                }
                gf_str_add(&out, gap);
                add_escaped(term, &out, note_text(note));
                gap = ", ";
        }
        for (size_t i = 0; i < gpufree_holder_gpu_count(holder); i++) {
                uint64_t busy = gpufree_holder_gpu_busy(holder, i);
                uint64_t memory;
                int position = -1;
                bool context;

                if (gpufree_holder_gpu(holder, i, &position, &memory, &context) < 0 || position != gpu ||
                    busy == GPUFREE_UNKNOWN)
                        continue;
                if (busy > 0)
                        gf_str_addf(&out, "%s%llu %% busy", gap, (unsigned long long)busy), gap = ", ";
                else
                        gf_str_addf(&out, "%sidle", gap), gap = ", ";
        }
        if (gpufree_holder_state(holder) == 'D')
                gf_str_addf(&out, "%sin the kernel (D)", gap), gap = ", ";
        if (gpufree_holder_protected(holder))
                gf_str_addf(&out, "%sprotected", gap);
        return take_marked(term, &out);
}

char *cli_view_gpu_set(const gpufree_snapshot *snapshot, const bool *has)
{
        struct gf_str out = { 0 };
        size_t n = gpufree_snapshot_gpu_count(snapshot);

        for (size_t i = 0; i < n; i++) {
                size_t last = i;
                int index = gpufree_gpu_index(gpufree_snapshot_gpu(snapshot, i));
                _cleanup_free_ char *name = NULL;

                if (!has[i])
                        continue;
                while (index >= 0 && last + 1 < n && has[last + 1] &&
                       gpufree_gpu_index(gpufree_snapshot_gpu(snapshot, last + 1)) == index + (int)(last + 1 - i))
                        last++;
                name = cli_view_gpu(snapshot, (int)i);
                add_part(&out, name ? name : "?");
                if (last > i)
                        gf_str_addf(&out, "-%d", index + (int)(last - i));
                i = last;
        }
        return take(&out);
}

bool cli_holds_any(const gpufree_holder *holder)
{
        for (size_t i = 0; i < gpufree_holder_gpu_count(holder); i++) {
                bool context = false;
                uint64_t memory;
                int gpu;

                if (gpufree_holder_gpu(holder, i, &gpu, &memory, &context) >= 0 && context)
                        return true;
        }
        return false;
}

char *cli_view_text(const struct cli_term *term, const char *text)
{
        struct gf_str plain = { 0 }, safe = { 0 };

        if (!text)
                text = "";
        if (!term->utf8) {
                cli_text_plain(&plain, text);
                text = plain.s ? plain.s : "";
        }
        add_escaped(term, &safe, text);
        safe.failed |= plain.failed;
        gf_str_done(&plain);
        return take(&safe);
}

void cli_view_sentence(const struct cli_term *term, struct gf_str *out, const char *text)
{
        _cleanup_free_ char *safe = cli_view_text(term, text);

        if (safe)
                cli_text_wrap(out, safe, term->width, 2, 0);
        else
                out->failed = true;
}

void cli_view_gaps(const struct cli_term *term, const gpufree_snapshot *snapshot, struct gf_str *out)
{
        const char *gap, *driver = gpufree_snapshot_driver_error(snapshot);
        bool told = false;

        for (size_t i = 0; (gap = gpufree_snapshot_gap(snapshot, i)) != NULL; i++) {
                cli_view_sentence(term, out, gap);
                told |= driver && strstr(gap, driver);
        }
        /* Of no interest where devices were named that are no GPUs. */
        if (driver && !told && gpufree_snapshot_gpu_count(snapshot) > 0)
                cli_view_sentence(term, out, driver);
}

uint64_t cli_loose_memory(const gpufree_holder *holder)
{
        uint64_t sum = 0;
        bool any = false;

        for (size_t i = 0; i < gpufree_holder_device_count(holder); i++) {
                int device = -1;
                unsigned via = 0;
                uint64_t count = 0, bytes = GPUFREE_UNKNOWN;

                if (gpufree_holder_device(holder, i, &device, &via, &count, &bytes) < 0 ||
                    !(via & GPUFREE_VIA_DMABUF) || bytes == GPUFREE_UNKNOWN)
                        continue;
                sum += bytes;
                any = true;
        }
        return any ? sum : GPUFREE_UNKNOWN;
}

char *cli_view_duration(uint64_t ms)
{
        char buf[GF_TEXT_MAX];

        if (ms > 0 && ms < 60000 && ms % 1000 == 0)
                return gf_asprintf("%llu s", (unsigned long long)ms / 1000);
        return strdup(gf_format_duration(ms, buf));
}

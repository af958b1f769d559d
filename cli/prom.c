/* SPDX-License-Identifier: MIT */
/*
 * list --format prom. Labels are chosen so that series stay few and comparable over months: the GPU, the kind of owner
 * and the user; no PID, command, container or job, of which a busy machine makes new ones all day.
 */
#include "prom.h"

#include <inttypes.h>
#include <string.h>

#include "prom_owners.h"
#include "text.h"

void cli_prom_escape(struct gf_str *out, const char *text)
{
        size_t left = strlen(text);

        while (left > 0) {
                uint32_t c;
                size_t length = cli_text_decode(text, left, &c);

                if (length == 0) {
                        gf_str_add(out, "\xef\xbf\xbd");
                        length = 1;
                } else if (*text == '\n') {
                        gf_str_add(out, "\\n");
                } else {
                        if (*text == '\\' || *text == '"')
                                gf_str_addc(out, '\\');
                        gf_str_addn(out, text, length);
                }
                text += length;
                left -= length;
        }
}

void cli_prom_label(struct gf_str *labels, const char *name, const char *value)
{
        if (!value)
                return;
        gf_str_addf(labels, "%s%s=\"", labels->n > 0 ? "," : "", name);
        cli_prom_escape(labels, value);
        gf_str_addc(labels, '"');
}

void cli_prom_sample(struct gf_str *samples, const char *name, const struct gf_str *labels, uint64_t value)
{
        if (value == GPUFREE_UNKNOWN)
                return;
        gf_str_add(samples, name);
        if (labels && labels->n > 0)
                gf_str_addf(samples, "{%s}", labels->s);
        if (labels)
                samples->failed |= labels->failed;
        gf_str_addf(samples, " %" PRIu64 "\n", value);
}

/* A name stands once, with all its samples behind it; without a sample it does not stand there at all. */
void cli_prom_family(struct gf_str *out, const char *name, const char *help, struct gf_str *samples)
{
        if (samples->n > 0)
                gf_str_addf(out, "# HELP %s %s\n# TYPE %s gauge\n%s", name, help, name, samples->s);
        out->failed |= samples->failed;
        gf_str_done(samples);
}

static void number_label(struct gf_str *labels, const char *name, uint64_t number)
{
        _cleanup_free_ char *text = gf_asprintf("%" PRIu64, number);

        labels->failed |= !text;
        cli_prom_label(labels, name, text);
}

/* Where a driver tells none of index, UUID and PCI address: the place in the list, so that no two are the same. */
void cli_prom_gpu(struct gf_str *labels, const gpufree_gpu *gpu, size_t position)
{
        if (gpufree_gpu_index(gpu) >= 0)
                number_label(labels, "gpu", (uint64_t)gpufree_gpu_index(gpu));
        cli_prom_label(labels, "uuid", gpufree_gpu_uuid(gpu));
        cli_prom_label(labels, "pci", gpufree_gpu_pci(gpu));
        if (labels->n > 0)
                return;
        number_label(labels, "position", position);
        if (gpufree_gpu_minor(gpu) >= 0)
                number_label(labels, "minor", (uint64_t)gpufree_gpu_minor(gpu));
}

static void one(struct gf_str *out, const char *name, const char *help, uint64_t value)
{
        struct gf_str samples = { 0 };

        cli_prom_sample(&samples, name, NULL, value);
        cli_prom_family(out, name, help, &samples);
}

static void seconds(struct gf_str *out, const char *name, const char *help, double value)
{
        gf_str_addf(out, "# HELP %s %s\n# TYPE %s gauge\n%s %.3f\n", name, help, name, name, value);
}

static void add_scan(const gpufree_snapshot *snapshot, double at, struct gf_str *out)
{
        const char *version = gpufree_snapshot_driver_version(snapshot), *error;
        struct gf_str samples = { 0 }, labels = { 0 };

        cli_prom_label(&labels, "version", GPUFREE_VERSION);
        cli_prom_sample(&samples, "gpufree_build_info", &labels, 1);
        cli_prom_family(out, "gpufree_build_info", "The gpufree that looked.", &samples);
        seconds(out, "gpufree_scan_timestamp_seconds", "When the look began, seconds since 1970.", at);
        seconds(out, "gpufree_scan_duration_seconds", "How long the look took.",
                (double)gpufree_snapshot_elapsed_us(snapshot) / 1000000);
        one(out, "gpufree_scan_complete",
            "1: everything could be seen. 0: not everything, and counts of processes are lower bounds.",
            gpufree_snapshot_complete(snapshot));
        one(out, "gpufree_scan_processes", "Processes looked at.", gpufree_snapshot_processes(snapshot));
        one(out, "gpufree_scan_unreadable_processes", "Processes that should have been looked at and could not be.",
            gpufree_snapshot_unreadable(snapshot));
        error = gpufree_snapshot_driver_error(snapshot);
        if (version || error)
                one(out, "gpufree_driver_up", "1: the driver's library answered. 0: it could not be asked, or failed.",
                    !error);
        if (version) {
                gf_str_done(&labels);
                cli_prom_label(&labels, "version", version);
                cli_prom_sample(&samples, "gpufree_driver_info", &labels, 1);
                cli_prom_family(out, "gpufree_driver_info", "The driver, as its library says.", &samples);
        }
        gf_str_done(&labels);
}

static void add_info(const gpufree_snapshot *snapshot, struct gf_str *out)
{
        static const char name[] = "gpufree_gpu_info";
        struct gf_str samples = { 0 };

        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, i);
                struct gf_str labels = { 0 };

                if (!gpufree_gpu_selected(gpu))
                        continue;
                cli_prom_gpu(&labels, gpu, i);
                cli_prom_label(&labels, "name", gpufree_gpu_name(gpu));
                cli_prom_label(&labels, "vendor", gpufree_vendor_name(gpufree_gpu_vendor(gpu)));
                cli_prom_sample(&samples, name, &labels, 1);
                gf_str_done(&labels);
        }
        cli_prom_family(out, name, "What the GPU is.", &samples);
}

static uint64_t holders_of(const gpufree_gpu *gpu)
{
        return gpufree_gpu_holders(gpu);
}

static uint64_t openers_of(const gpufree_gpu *gpu)
{
        return gpufree_gpu_openers(gpu);
}

static const struct {
        const char *name, *help;
        uint64_t (*figure)(const gpufree_gpu *gpu);
} figures[] = {
        { "gpufree_gpu_memory_total_bytes", "Memory that the GPU has.", gpufree_gpu_memory_total },
        { "gpufree_gpu_memory_used_bytes", "Memory in use, without what the driver reserves.",
          gpufree_gpu_memory_used },
        { "gpufree_gpu_memory_reserved_bytes", "Memory that the driver reserves.", gpufree_gpu_memory_reserved },
        { "gpufree_gpu_memory_accounted_bytes", "Of the memory in use, what holders are known to have.",
          gpufree_gpu_memory_accounted },
        { "gpufree_gpu_memory_unaccounted_bytes", "Of the memory in use, what no holder is known to have.",
          gpufree_gpu_memory_unaccounted },
        { "gpufree_gpu_holders", "Processes found that hold the GPU (a context, or memory).", holders_of },
        { "gpufree_gpu_openers", "Processes found that merely have the GPU's device open.", openers_of },
};

static void add_figure(const gpufree_snapshot *snapshot, size_t which, struct gf_str *out)
{
        struct gf_str samples = { 0 };

        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, i);
                struct gf_str labels = { 0 };

                if (!gpufree_gpu_selected(gpu))
                        continue;
                cli_prom_gpu(&labels, gpu, i);
                cli_prom_sample(&samples, figures[which].name, &labels, figures[which].figure(gpu));
                gf_str_done(&labels);
        }
        cli_prom_family(out, figures[which].name, figures[which].help, &samples);
}

/* A driver that did not answer has not said that all is well. */
static void add_errors(const gpufree_snapshot *snapshot, struct gf_str *out)
{
        static const char name[] = "gpufree_gpu_error";
        struct gf_str samples = { 0 };

        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, i);
                struct gf_str labels = { 0 };

                if (!gpufree_gpu_selected(gpu))
                        continue;
                cli_prom_gpu(&labels, gpu, i);
                if (gpufree_gpu_error(gpu) || !gpufree_snapshot_driver_error(snapshot))
                        cli_prom_sample(&samples, name, &labels, gpufree_gpu_error(gpu) ? 1 : 0);
                gf_str_done(&labels);
        }
        cli_prom_family(out, name, "1: the driver reports an error of this GPU alone. 0: it reports none.", &samples);
}

/* The word "free" of the table: only the library's verdict says it, and no figure is given where there is none. */
static void add_free(const gpufree_snapshot *snapshot, const gpufree_report *report, struct gf_str *out)
{
        static const char name[] = "gpufree_gpu_free";
        struct gf_str samples = { 0 };

        for (size_t i = 0; report && i < gpufree_report_gpu_count(report); i++) {
                const gpufree_gpu *gpu = NULL;
                struct gf_str labels = { 0 };
                const char *sentence;
                uint64_t before, after, elapsed;
                bool verified = false;

                if (gpufree_report_gpu(report, i, &gpu, &before, &after, &elapsed, &verified, &sentence) < 0 || !gpu ||
                    !gpufree_gpu_selected(gpu))
                        continue;
                for (size_t k = 0; k < gpufree_snapshot_gpu_count(snapshot); k++)
                        if (gpufree_snapshot_gpu(snapshot, k) == gpu)
                                cli_prom_gpu(&labels, gpu, k);
                if (labels.n > 0)
                        cli_prom_sample(&samples, name, &labels,
                                        verified && gpufree_gpu_holders(gpu) == 0 && !gpufree_gpu_error(gpu));
                gf_str_done(&labels);
        }
        cli_prom_family(out, name,
                        "1: nobody holds the GPU and its memory is back. 0: held, or that could not be verified.",
                        &samples);
}

/* Memory booked to processes that have ended. GPUFREE_UNKNOWN where one figure of it, or the whole, is not known. */
static uint64_t kept_by_dead(const gpufree_account *account)
{
        uint64_t sum = 0;

        if (gpufree_account_unaccounted(account) == GPUFREE_UNKNOWN)
                return GPUFREE_UNKNOWN;
        for (size_t i = 0; i < gpufree_account_entry_count(account); i++) {
                enum gpufree_entry kind = GPUFREE_ENTRY_OPEN;
                uint64_t bytes = GPUFREE_UNKNOWN;
                const char *sentence = NULL;
                bool counts = false;
                pid_t pid = 0;

                if (gpufree_account_entry(account, i, &kind, &bytes, &counts, &pid, &sentence) < 0 ||
                    kind != GPUFREE_ENTRY_DEAD)
                        continue;
                if (bytes == GPUFREE_UNKNOWN || __builtin_add_overflow(sum, bytes, &sum))
                        return GPUFREE_UNKNOWN;
        }
        return sum;
}

static void add_dead(struct cli_session *session, gpufree_snapshot *snapshot, struct gf_str *out)
{
        static const char name[] = "gpufree_gpu_memory_kept_of_dead_bytes";
        struct gf_str samples = { 0 };

        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, i);
                _cleanup_(gpufree_account_unrefp) gpufree_account *account = NULL;
                struct gf_str labels = { 0 };

                /* No account is no figure. */
                if (!gpufree_gpu_selected(gpu) || gpufree_account_new(session->context, snapshot, i, &account) < 0)
                        continue;
                cli_prom_gpu(&labels, gpu, i);
                cli_prom_sample(&samples, name, &labels, kept_by_dead(account));
                gf_str_done(&labels);
        }
        cli_prom_family(out, name, "Of the memory in use, what is booked to processes that have ended.", &samples);
}

void cli_prom(struct cli_session *session, gpufree_snapshot *snapshot, const gpufree_report *report, double at,
              struct gf_str *out)
{
        add_scan(snapshot, at, out);
        add_info(snapshot, out);
        for (size_t i = 0; i < ELEMENTSOF(figures); i++)
                add_figure(snapshot, i, out);
        add_errors(snapshot, out);
        add_dead(session, snapshot, out);
        add_free(snapshot, report, out);
        cli_prom_owners(snapshot, out);
}

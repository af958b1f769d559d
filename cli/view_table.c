/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/num.h"
#include "text.h"
#include "view.h"

static const gpufree_gpu *verdict_of(const gpufree_report *report, const gpufree_gpu *gpu, bool *ret_verified,
                                     const char **ret_sentence)
{
        for (size_t i = 0; report && i < gpufree_report_gpu_count(report); i++) {
                const gpufree_gpu *judged = NULL;
                uint64_t before, after, elapsed;

                if (gpufree_report_gpu(report, i, &judged, &before, &after, &elapsed, ret_verified, ret_sentence) >=
                            0 &&
                    judged == gpu)
                        return judged;
        }
        return NULL;
}

/* Never "free" on our own word: that needs the library's verdict. */
static const char *gpu_state(const gpufree_snapshot *snapshot, const gpufree_gpu *gpu, const gpufree_report *report,
                             enum cli_style *ret_style)
{
        const uint64_t tolerance = 32ULL << 20;
        const char *sentence = NULL;
        bool verified = false;

        *ret_style = gpufree_gpu_error(gpu) ? CLI_RED : CLI_YELLOW;
        if (gpufree_gpu_holders(gpu) > 0)
                return "held";
        if (gpufree_gpu_error(gpu))
                return "error";
        if (verdict_of(report, gpu, &verified, &sentence) && verified) {
                *ret_style = CLI_GREEN;
                return "free";
        }
        *ret_style = CLI_RED;
        /* Asked about by path: whoever has it open holds it. */
        if (report && gpufree_report_outcome(report) == GPUFREE_HELD && gpufree_gpu_openers(gpu) > 0)
                return "held";
        if (gpufree_gpu_memory_used(gpu) != GPUFREE_UNKNOWN && gpufree_gpu_memory_used(gpu) > tolerance)
                return "no holder found";
        if (!gpufree_snapshot_complete(snapshot))
                return "no holder seen";
        if (report && gpufree_report_outcome(report) == GPUFREE_OK) { /* a driver without a memory figure */
                *ret_style = CLI_GREEN;
                return "free, by the look alone";
        }
        *ret_style = CLI_YELLOW;
        return "no holder found";
}

/* "74.3 of 139.8 GiB", "615 MiB of 139.8 GiB", "0 of 139.8 GiB" */
static char *gpu_memory(const gpufree_gpu *gpu)
{
        char used[GF_TEXT_MAX], total[GF_TEXT_MAX], *unit, *total_unit;

        if (gpufree_gpu_memory_total(gpu) == GPUFREE_UNKNOWN)
                return gpufree_gpu_memory_used(gpu) == GPUFREE_UNKNOWN
                               ? strdup("memory unknown")
                               : gf_asprintf("%s used", gf_format_size(gpufree_gpu_memory_used(gpu), used));
        gf_format_size(gpufree_gpu_memory_total(gpu), total);
        if (gpufree_gpu_memory_used(gpu) == GPUFREE_UNKNOWN)
                return gf_asprintf("? of %s", total);
        gf_format_size(gpufree_gpu_memory_used(gpu), used);
        unit = strchr(used, ' ');
        total_unit = strchr(total, ' ');
        if (unit && total_unit && (strcmp(unit, total_unit) == 0 || gpufree_gpu_memory_used(gpu) == 0))
                *unit = '\0';
        return gf_asprintf("%s of %s", used, total);
}

static char *gpu_holders(const struct cli_request *request, const gpufree_gpu *gpu)
{
        size_t holders = gpufree_gpu_holders(gpu), openers = gpufree_gpu_openers(gpu);
        struct gf_str out = { 0 };
        char *text = NULL;

        if (holders > 0)
                gf_str_addf(&out, "%zu %s", holders, holders == 1 ? "holder" : "holders");
        if (openers > 0 && cli_request_any_open(request))
                gf_str_addf(&out, "%s%zu open", holders > 0 ? ", " : "", openers);
        return gf_str_take(&out, &text) < 0 ? NULL : text;
}

static const struct cli_column gpu_columns[] = {
        { NULL, false, 0, 0 }, /* GPU 0 */
        { NULL, false, 8, 2 }, /* name */
        { NULL, false, 0, 1 }, /* PCI address */
        { NULL, false, 4, 0 }, /* state */
        { NULL, true, 0, 4 },  /* memory: a figure cut short is another figure */
        { NULL, false, 0, 3 }, /* holders */
};

void cli_view_gpus(const struct cli_session *session, const gpufree_snapshot *snapshot, const gpufree_report *report,
                   struct gf_str *out)
{
        struct cli_table table = { .columns = gpu_columns, .n_columns = ELEMENTSOF(gpu_columns) };
        const struct cli_term *term = &session->term;

        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, i);
                _cleanup_free_ char *name = cli_view_gpu(snapshot, (int)i);
                enum cli_style style;
                const char *state;

                if (!gpufree_gpu_selected(gpu))
                        continue;
                state = gpu_state(snapshot, gpu, report, &style);
                cli_table_add(&table, gf_asprintf("GPU %s", name ? name : "?"), CLI_PLAIN);
                cli_table_add(&table, cli_view_text(term, gpufree_gpu_name(gpu)), CLI_PLAIN);
                cli_table_add(&table, cli_view_text(term, gpufree_gpu_pci(gpu)), CLI_DIM);
                cli_table_add(&table, strdup(state), style);
                cli_table_add(&table, gpu_memory(gpu), CLI_PLAIN);
                cli_table_add(&table, gpu_holders(session->request, gpu), CLI_PLAIN);
        }
        cli_table_render(&table, term->width, term->utf8, term->color, out);
        cli_table_done(&table);
        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, i);
                _cleanup_free_ char *name = cli_view_gpu(snapshot, (int)i), *line = NULL;

                if (!gpufree_gpu_selected(gpu) || !gpufree_gpu_error(gpu))
                        continue;
                line = gf_startswith(gpufree_gpu_error(gpu), "GPU ")
                               ? gf_asprintf("%s", gpufree_gpu_error(gpu))
                               : gf_asprintf("GPU %s: %s", name ? name : "?", gpufree_gpu_error(gpu));
                cli_view_sentence(term, out, line ? line : "");
        }
}

static const struct cli_column holder_columns[] = {
        { "GPU", true, 3, 6 },    { "MEMORY", true, 0, 5 }, { "PID", false, 0, 0 },    { "USER", false, 8, 4 },
        { "SINCE", false, 0, 1 }, { "HOW", false, 12, 2 },  { "WHOSE", false, 12, 3 }, { "COMMAND", false, 16, 0 },
};

struct row {
        const gpufree_holder *holder;
        int gpu; /* -1: none in particular */
        char *gpu_text, *memory_text;
        enum cli_style style;
};

static void add_row(const struct cli_session *session, const gpufree_snapshot *snapshot, struct cli_table *table,
                    const struct row *row)
{
        const struct cli_term *term = &session->term;
        const gpufree_holder *holder = row->holder;
        char buf[GF_TEXT_MAX];
        uint64_t age = gpufree_holder_age_ms(holder);
        enum cli_style style = row->style;

        cli_table_add(table, row->gpu_text, style);
        cli_table_add(table, row->memory_text, style);
        cli_table_add(table, gf_asprintf("%d", (int)gpufree_holder_pid(holder)), style);
        cli_table_add(table, cli_view_user(term, holder), style);
        cli_table_add(table, strdup(age == GPUFREE_UNKNOWN ? "?" : gf_format_duration(age, buf)), style);
        cli_table_add(table, cli_view_how(term, snapshot, holder, row->gpu), style);
        cli_table_add(table, cli_view_owner(term, holder), style);
        cli_table_add(table, cli_view_command(term, holder), style);
}

/* A holder that has no context anywhere: one line, the GPUs that it has open together. */
static void add_open_row(const struct cli_session *session, const gpufree_snapshot *snapshot, struct cli_table *table,
                         const gpufree_holder *holder)
{
        _cleanup_free_ bool *has = calloc(gpufree_snapshot_gpu_count(snapshot) + 1, sizeof(bool));
        uint64_t loose = cli_loose_memory(holder);
        bool any = false;
        struct row row = { .holder = holder, .gpu = -1 };

        for (size_t i = 0; has && i < gpufree_holder_gpu_count(holder); i++) {
                int gpu = -1;
                uint64_t memory;
                bool context;

                if (gpufree_holder_gpu(holder, i, &gpu, &memory, &context) >= 0 && gpu >= 0 &&
                    (size_t)gpu < gpufree_snapshot_gpu_count(snapshot))
                        any = has[gpu] = true;
        }
        row.gpu_text = any ? cli_view_gpu_set(snapshot, has) : strdup("-");
        row.memory_text = loose == GPUFREE_UNKNOWN ? strdup("-") : cli_view_size(loose);
        row.style = loose == GPUFREE_UNKNOWN ? CLI_DIM : CLI_PLAIN;
        add_row(session, snapshot, table, &row);
}

static void add_rows_of_gpu(const struct cli_session *session, const gpufree_snapshot *snapshot,
                            struct cli_table *table, int wanted)
{
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);

                if (!gpufree_holder_selected(holder))
                        continue;
                if (wanted < 0 && !cli_holds_any(holder))
                        add_open_row(session, snapshot, table, holder);
                for (size_t k = 0; wanted >= 0 && k < gpufree_holder_gpu_count(holder); k++) {
                        int gpu = -1;
                        uint64_t memory = GPUFREE_UNKNOWN;
                        bool context = false;
                        struct row row;

                        if (gpufree_holder_gpu(holder, k, &gpu, &memory, &context) < 0 || gpu != wanted || !context)
                                continue;
                        row = (struct row){ holder, gpu, cli_view_gpu(snapshot, gpu), cli_view_size(memory),
                                            CLI_PLAIN };
                        add_row(session, snapshot, table, &row);
                }
        }
}

void cli_view_holders(const struct cli_session *session, const gpufree_snapshot *snapshot, struct gf_str *out)
{
        struct cli_table table = { .columns = holder_columns, .n_columns = ELEMENTSOF(holder_columns) };

        for (size_t gpu = 0; gpu < gpufree_snapshot_gpu_count(snapshot); gpu++)
                add_rows_of_gpu(session, snapshot, &table, (int)gpu);
        add_rows_of_gpu(session, snapshot, &table, -1);
        if (table.cells.n > 0)
                cli_table_render(&table, session->term.width, session->term.utf8, session->term.color, out);
        cli_table_done(&table);
}

static const char *verdict_word(const struct cli_session *session, const gpufree_report *report, const gpufree_gpu *gpu,
                                bool verified, enum cli_style *ret_style)
{
        bool killed = session->request->command == CLI_KILL;

        *ret_style = CLI_GREEN;
        if (verified && gpufree_gpu_holders(gpu) == 0)
                return killed ? "verified free" : "free";
        if (verified)
                return killed ? "verified, others stay" : "not held by the selected";
        return gpu_state(gpufree_report_snapshot(report), gpu, report, ret_style);
}

static char *figures(const gpufree_gpu *gpu)
{
        _cleanup_free_ char *memory = gpu_memory(gpu);
        size_t n = gpufree_gpu_holders(gpu);

        return gf_asprintf("%s, %zu %s.", memory ? memory : "?", n, n == 1 ? "holder" : "holders");
}

void cli_view_verdicts(const struct cli_session *session, const gpufree_report *report, struct gf_str *out)
{
        const struct cli_term *term = &session->term;
        const gpufree_snapshot *snapshot = gpufree_report_snapshot(report);
        const char *line;

        for (size_t i = 0; i < gpufree_report_gpu_count(report); i++) {
                const gpufree_gpu *gpu = NULL;
                const char *sentence = NULL, *word;
                uint64_t before, after, elapsed;
                bool verified = false;
                enum cli_style style;
                _cleanup_free_ char *name = NULL, *text = NULL;
                int position = -1;

                if (gpufree_report_gpu(report, i, &gpu, &before, &after, &elapsed, &verified, &sentence) < 0 || !gpu)
                        continue;
                for (size_t k = 0; k < gpufree_snapshot_gpu_count(snapshot); k++)
                        if (gpufree_snapshot_gpu(snapshot, k) == gpu)
                                position = (int)k;
                name = cli_view_gpu(snapshot, position);
                word = verdict_word(session, report, gpu, verified, &style);
                text = sentence ? cli_view_text(term, sentence) : figures(gpu);
                if (!name || !text) {
                        out->failed = true;
                        return;
                }
                gf_str_addf(out, "GPU %s  %s%s%s  ", name, term->color ? cli_style_code(style) : "", word,
                            term->color ? CLI_STYLE_END : "");
                cli_text_wrap(out, text, term->width, 7, strlen("GPU     ") + strlen(name) + strlen(word));
        }
        for (size_t i = 0; (line = gpufree_report_sentence(report, i)) != NULL; i++)
                cli_view_sentence(term, out, line);
}

/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/num.h"
#include "fleet.h"
#include "text.h"
#include "view.h"

static char *size_text(json_int_t bytes)
{
        return cli_view_size(bytes < 0 ? GPUFREE_UNKNOWN : (uint64_t)bytes);
}

static char *dash(void)
{
        return strdup("-");
}

static char *index_text(const json_t *gpu)
{
        json_int_t index = fleet_number(gpu, "index", -1);

        return index < 0 ? dash() : gf_asprintf("%" JSON_INTEGER_FORMAT, index);
}

static char *or_dash(const struct cli_term *term, const char *text)
{
        return text && text[0] ? cli_view_text(term, text) : dash();
}

static char *command_text(const struct cli_term *term, const json_t *holder)
{
        const json_t *words = json_object_get(holder, "cmdline");
        struct gf_str line = { 0 };
        char *text;

        for (size_t i = 0; i < json_array_size(words) && line.n < 4096; i++) {
                const char *word = json_string_value(json_array_get(words, i));

                gf_str_addf(&line, "%s%s", i ? " " : "", word ? word : "?");
        }
        text = or_dash(term, line.n > 0 ? line.s : fleet_text(holder, "comm"));
        gf_str_done(&line);
        return text;
}

static char *since_text(const json_t *holder)
{
        double age = json_number_value(json_object_get(holder, "age_s"));
        char buf[GF_TEXT_MAX];

        if (!(age >= 0 && age < 1e10))
                return dash();
        return strdup(gf_format_duration((uint64_t)(age * 1000), buf));
}

static const struct cli_column holder_columns[] = {
        { "HOST", false, 8, 0 }, { "GPU", true, 0, 0 },   { "MEMORY", true, 0, 0 }, { "PID", true, 0, 0 },
        { "USER", false, 4, 3 }, { "SINCE", true, 0, 2 }, { "WHOSE", false, 6, 1 }, { "COMMAND", false, 12, 0 },
};

static void add_holder(struct cli_table *table, const struct cli_term *term, const char *host, const json_t *holder,
                       const json_t *gpu)
{
        cli_table_add(table, cli_view_text(term, host), CLI_PLAIN);
        cli_table_add(table, gpu ? index_text(gpu) : dash(), CLI_PLAIN);
        cli_table_add(table, gpu ? size_text(fleet_number(gpu, "memory", -1)) : dash(), CLI_PLAIN);
        cli_table_add(table, gf_asprintf("%" JSON_INTEGER_FORMAT, fleet_number(holder, "pid", 0)), CLI_PLAIN);
        cli_table_add(table, or_dash(term, fleet_text(holder, "user")), CLI_PLAIN);
        cli_table_add(table, since_text(holder), CLI_PLAIN);
        cli_table_add(table, or_dash(term, fleet_text(json_object_get(holder, "owner"), "label")), CLI_PLAIN);
        cli_table_add(table, command_text(term, holder), CLI_PLAIN);
}

/* A row for each GPU that it holds; one that holds none (a device by path, mere opening) has one, too. */
static void add_holders(struct cli_table *table, const struct cli_term *term, const char *host, const json_t *holders)
{
        for (size_t i = 0; i < json_array_size(holders); i++) {
                const json_t *holder = json_array_get(holders, i), *gpus = json_object_get(holder, "gpus");
                size_t rows = 0;

                for (size_t k = 0; k < json_array_size(gpus); k++) {
                        const json_t *gpu = json_array_get(gpus, k);

                        if (!json_is_true(json_object_get(gpu, "context")))
                                continue;
                        add_holder(table, term, host, holder, gpu);
                        rows++;
                }
                if (rows == 0)
                        add_holder(table, term, host, holder, NULL);
        }
}

struct gpus {
        size_t n, held, verified;
        json_int_t used, total; /* -1: of one it is not known */
};

static struct gpus count_gpus(const json_t *document)
{
        const json_t *gpus = json_object_get(document, "gpus");
        struct gpus count = { 0 };

        for (size_t i = 0; i < json_array_size(gpus); i++) {
                const json_t *gpu = json_array_get(gpus, i), *memory = json_object_get(gpu, "memory");
                json_int_t used = fleet_number(memory, "used", -1), total = fleet_number(memory, "total", -1);

                if (!json_is_true(json_object_get(gpu, "selected")))
                        continue;
                count.n++;
                count.held += fleet_number(gpu, "holders", 0) > 0;
                count.verified += json_is_true(json_object_get(json_object_get(gpu, "verdict"), "verified"));
                if (used < 0 || count.used < 0 || __builtin_add_overflow(count.used, used, &count.used))
                        count.used = -1;
                if (total < 0 || count.total < 0 || __builtin_add_overflow(count.total, total, &count.total))
                        count.total = -1;
        }
        return count;
}

/* In a word; "free" only where each GPU was verified there, or the check said so. */
static const char *state_of(const struct cli_fleet *fleet, const struct fleet_answer *answer, const struct gpus *gpus,
                            enum cli_style *ret_style)
{
        enum cli_command command = fleet->session->request->command;

        *ret_style = CLI_RED;
        if (!answer->document)
                return strcmp(answer->reason, "interrupted") == 0 ? "interrupted" : "not reached";
        *ret_style = CLI_YELLOW;
        if (answer->code >= 128)
                return "interrupted";
        if (gpus->n == 0 && answer->code == 0 && command != CLI_EXPLAIN)
                return "no GPU";
        if (command == CLI_LIST && gpus->held > 0)
                return "held";
        if (command == CLI_LIST && answer->code == 0 && gpus->verified < gpus->n)
                return "no holder";
        switch (answer->code) {
        case GPUFREE_OK:
                *ret_style = CLI_GREEN;
                if (command == CLI_KILL) {
                        const char *reason = fleet_text(answer->document, "reason");

                        *ret_style = CLI_PLAIN;
                        if (reason)
                                return strcmp(reason, "dry-run") == 0 ? "as it was" : "nothing to do";
                        *ret_style = CLI_GREEN;
                        return "verified free";
                }
                return command == CLI_EXPLAIN ? "explained" : "free";
        case GPUFREE_HELD:
                return command == CLI_KILL ? "not all ended" : "held";
        case GPUFREE_REFUSED:
                return "refused";
        case GPUFREE_RESIDUE:
                return "memory held";
        case GPUFREE_TIMEOUT:
                return "timeout";
        default:
                return "not all seen";
        }
}

static char *gpus_text(const struct gpus *gpus)
{
        if (gpus->n == 0)
                return dash();
        return gf_asprintf("%zu of %zu held", gpus->held, gpus->n);
}

static char *memory_text(const struct gpus *gpus)
{
        _cleanup_free_ char *used = size_text(gpus->used), *total = size_text(gpus->total);

        if (gpus->n == 0)
                return dash();
        return used && total ? gf_asprintf("%s of %s", used, total) : NULL;
}

/* What is to be said of a host besides its state: why it was not reached, or the first sentence of its own. */
static char *note_text(const struct cli_fleet *fleet, const struct cli_far *far)
{
        const struct cli_term *term = &fleet->session->term;
        const json_t *document = far->answer.document, *gaps;
        const char *sentence;

        if (!document)
                return cli_view_text(term, far->answer.sentence);
        gaps = json_object_get(json_object_get(document, "scan"), "gaps");
        sentence = json_string_value(json_array_get(json_object_get(document, "sentences"), 0));
        if (!sentence)
                sentence = json_string_value(json_array_get(gaps, 0));
        if (!sentence)
                sentence = fleet_text(json_object_get(document, "driver"), "error");
        return cli_view_text(term, sentence ? sentence : "");
}

static void view_hosts(const struct cli_fleet *fleet, struct gf_str *out)
{
        static const struct cli_column columns[] = {
                { "HOST", false, 8, 0 },  { "STATE", false, 0, 0 }, { "GPUS", false, 0, 1 },
                { "MEMORY", true, 0, 2 }, { "", false, 12, 0 },
        };
        const struct cli_term *term = &fleet->session->term;
        struct cli_table table = { .columns = columns, .n_columns = ELEMENTSOF(columns) };

        for (size_t i = 0; i < fleet->hosts.n; i++) {
                const struct cli_far *far = &fleet->hosts.v[i];
                struct gpus gpus = count_gpus(far->answer.document);
                enum cli_style style;
                const char *state = state_of(fleet, &far->answer, &gpus, &style);

                cli_table_add(&table, cli_view_text(term, far->target.text), CLI_PLAIN);
                cli_table_add(&table, strdup(state), style);
                cli_table_add(&table, gpus_text(&gpus), CLI_PLAIN);
                cli_table_add(&table, memory_text(&gpus), CLI_PLAIN);
                cli_table_add(&table, note_text(fleet, far), CLI_PLAIN);
        }
        cli_table_render(&table, term->width, term->utf8, term->color, out);
        cli_table_done(&table);
}

static void view_holders(const struct cli_fleet *fleet, struct gf_str *out)
{
        const struct cli_term *term = &fleet->session->term;
        struct cli_table table = { .columns = holder_columns, .n_columns = ELEMENTSOF(holder_columns) };

        for (size_t i = 0; i < fleet->hosts.n; i++)
                add_holders(&table, term, fleet->hosts.v[i].target.text,
                            json_object_get(fleet->hosts.v[i].answer.document, "holders"));
        if (table.cells.n > 0) {
                gf_str_addc(out, '\n');
                cli_table_render(&table, term->width, term->utf8, term->color, out);
        }
        cli_table_done(&table);
}

/* The members `first` and `second` of each element but the first `from`, a line each. */
static void view_lines(const struct cli_term *term, const json_t *array, size_t from, const char *first,
                       const char *second, struct gf_str *out)
{
        for (size_t i = from; i < json_array_size(array); i++) {
                const json_t *item = json_array_get(array, i);
                const char *a = json_is_string(item) ? json_string_value(item) : fleet_text(item, first);
                const char *b = second ? fleet_text(item, second) : NULL;
                json_int_t bytes = fleet_number(item, "bytes", -1);
                _cleanup_free_ char *size = bytes >= 0 ? size_text(bytes) : NULL;
                _cleanup_free_ char *line = gf_asprintf("  %s%s%s%s%s", size ? size : "", size ? "  " : "", a ? a : "?",
                                                        b ? ":  " : "", b ? b : "");

                cli_view_sentence(term, out, line ? line : "");
        }
}

/* What check --for and explain say of one host. */
static void view_details(const struct cli_fleet *fleet, struct gf_str *out)
{
        const struct cli_term *term = &fleet->session->term;

        for (size_t i = 0; i < fleet->hosts.n; i++) {
                const json_t *document = fleet->hosts.v[i].answer.document;
                const json_t *accounts = json_object_get(document, "accounts"),
                             *processes = json_object_get(document, "processes"),
                             *steps = json_object_get(document, "steps"), *fates = json_object_get(document, "fates"),
                             *sentences = json_object_get(document, "sentences");
                _cleanup_free_ char *host = cli_view_text(term, fleet->hosts.v[i].target.text);

                if (json_array_size(accounts) + json_array_size(processes) + json_array_size(steps) +
                                    json_array_size(fates) ==
                            0 &&
                    json_array_size(sentences) < 2)
                        continue;
                gf_str_addf(out, "\n%s\n", host ? host : "?");
                view_lines(term, sentences, 1, "sentence", NULL, out); /* the first stands beside the host */
                view_lines(term, steps, 0, "sentence", "command", out);
                for (size_t k = 0; k < json_array_size(accounts); k++) {
                        const json_t *account = json_array_get(accounts, k);
                        _cleanup_free_ char *gpu = index_text(account);

                        gf_str_addf(out, " GPU %s\n", gpu ? gpu : "?");
                        view_lines(term, json_object_get(account, "entries"), 0, "sentence", NULL, out);
                        view_lines(term, json_object_get(account, "reasons"), 0, "sentence", NULL, out);
                        view_lines(term, json_object_get(account, "commands"), 0, "command", NULL, out);
                }
                for (size_t k = 0; k < json_array_size(processes); k++) {
                        const json_t *process = json_array_get(processes, k);

                        gf_str_addf(out, " PID %" JSON_INTEGER_FORMAT "\n", fleet_number(process, "pid", 0));
                        view_lines(term, json_object_get(process, "story"), 0, "sentence", NULL, out);
                }
                for (size_t k = 0; k < json_array_size(fates); k++) {
                        const json_t *fate = json_array_get(fates, k);
                        const char *comm = fleet_text(fate, "comm"), *what = fleet_text(fate, "fate");
                        _cleanup_free_ char *line = gf_asprintf("  %" JSON_INTEGER_FORMAT "  %s  %s",
                                                                fleet_number(fate, "pid", 0), comm ? comm : "?",
                                                                what ? what : "?");

                        cli_view_sentence(term, out, line ? line : "");
                }
        }
}

static void view_closing(const struct cli_fleet *fleet, struct gf_str *out)
{
        const struct cli_term *term = &fleet->session->term;
        struct gf_str line = { 0 };
        size_t answered = 0, held = 0, named = 0;

        for (size_t i = 0; i < fleet->hosts.n; i++) {
                const struct fleet_answer *answer = &fleet->hosts.v[i].answer;

                answered += answer->document != NULL;
                held += count_gpus(answer->document).held;
        }
        gf_str_addf(&line, "%zu of %zu %s answered, %zu %s held.", answered, fleet->hosts.n,
                    fleet->hosts.n == 1 ? "host" : "hosts", held, held == 1 ? "GPU" : "GPUs");
        if (answered < fleet->hosts.n)
                gf_str_add(&line, " No answer of");
        for (size_t i = 0; i < fleet->hosts.n; i++)
                if (!fleet->hosts.v[i].answer.document && ++named <= 20)
                        gf_str_addf(&line, "%s %s", named > 1 ? "," : "", fleet->hosts.v[i].target.text);
        if (named > 0)
                gf_str_add(&line, named > 20 ? " and more." : ".");
        gf_str_addc(out, '\n');
        out->failed |= line.failed;
        cli_view_sentence(term, out, line.s ? line.s : "");
        gf_str_done(&line);
}

void cli_fleet_view(const struct cli_fleet *fleet, struct gf_str *out)
{
        view_hosts(fleet, out);
        if (fleet->session->request->command == CLI_LIST)
                view_holders(fleet, out);
        else
                view_details(fleet, out);
        view_closing(fleet, out);
}

static void view_spared(const struct cli_fleet *fleet, const struct cli_term *term, struct gf_str *out)
{
        for (size_t i = 0; i < fleet->hosts.n; i++) {
                const struct cli_far *far = &fleet->hosts.v[i];
                const json_t *plan = json_object_get(far->answer.document, "plan"),
                             *spared = json_object_get(plan, "spared");

                for (size_t k = 0; k < json_array_size(spared); k++) {
                        const json_t *holder = json_array_get(spared, k);
                        const char *comm = fleet_text(holder, "comm"), *why = fleet_text(holder, "protected");
                        _cleanup_free_ char *line = gf_asprintf(
                                "Left alone on %s: %s (%" JSON_INTEGER_FORMAT "%s%s)", far->target.text,
                                comm ? comm : "?", fleet_number(holder, "pid", 0), why ? "; " : "", why ? why : "");

                        cli_view_sentence(term, out, line ? line : "");
                }
                if (!far->answer.document) {
                        _cleanup_free_ char *line = gf_asprintf("Not reached: %s: %s", far->target.text,
                                                                far->answer.sentence);

                        cli_view_sentence(term, out, line ? line : "");
                }
        }
}

void cli_fleet_view_plan(const struct cli_fleet *fleet, const struct cli_term *term, struct gf_str *out)
{
        struct cli_table table = { .columns = holder_columns, .n_columns = ELEMENTSOF(holder_columns), .indent = 2 };
        size_t total = 0, hosts = 0;

        for (size_t i = 0; i < fleet->hosts.n; i++) {
                const struct cli_far *far = &fleet->hosts.v[i];
                size_t n = 0;

                if (!cli_fleet_targets(far, &n) || n == 0)
                        continue;
                total += n;
                hosts++;
                add_holders(&table, term, far->target.text,
                            json_object_get(json_object_get(far->answer.document, "plan"), "targets"));
        }
        if (total == 0)
                gf_str_add(out, "Nothing to end.\n");
        else
                gf_str_addf(out, "Will end %zu %s on %zu %s:\n", total, total == 1 ? "process" : "processes", hosts,
                            hosts == 1 ? "host" : "hosts");
        if (total > 0)
                cli_table_render(&table, term->width, term->utf8, term->color, out);
        cli_table_done(&table);
        view_spared(fleet, term, out);
}

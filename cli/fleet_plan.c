/* SPDX-License-Identifier: MIT */
/* The plans of all hosts as one. */
#include <signal.h>

#include "fleet.h"
#include "view.h"

/* Who would start a target again, and what is run first against that: each command once. */
static void view_stops(const struct cli_fleet *fleet, const struct cli_term *term, struct gf_str *out)
{
        for (size_t i = 0; i < fleet->hosts.n; i++) {
                const struct cli_far *far = &fleet->hosts.v[i];
                const json_t *targets = json_object_get(json_object_get(far->answer.document, "plan"), "targets");
                json_int_t last = -1;

                for (size_t k = 0; k < json_array_size(targets); k++) {
                        const json_t *stop = json_object_get(json_array_get(targets, k), "stop");
                        const char *command = fleet_text(stop, "command"), *why = fleet_text(stop, "why"),
                                   *warning = fleet_text(stop, "warning");
                        bool runs = json_is_true(json_object_get(stop, "runs"));
                        json_int_t group = fleet_number(stop, "group", -1);
                        _cleanup_free_ char *line = NULL;

                        if (!json_is_object(stop) || (group >= 0 && group == last) || (!runs && !why))
                                continue;
                        last = group;
                        if (runs)
                                line = gf_asprintf("First on %s: %s%s%s", far->target.text, command ? command : "?",
                                                   warning ? "; " : "", warning ? warning : "");
                        else
                                line = gf_asprintf("On %s: %s%s%s", far->target.text, why,
                                                   command ? "; that stops " : "", command ? command : "");
                        cli_view_sentence(term, out, line ? line : "");
                }
        }
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
        struct cli_table table = { .columns = cli_fleet_holder_columns,
                                   .n_columns = CLI_FLEET_HOLDER_COLUMNS,
                                   .indent = 2 };
        const struct gpufree_ladder *ladder = &fleet->session->request->ladder;
        size_t total = 0, hosts = 0;

        for (size_t i = 0; i < fleet->hosts.n; i++) {
                const struct cli_far *far = &fleet->hosts.v[i];
                size_t n = 0;

                if (!cli_fleet_targets(far, &n) || n == 0)
                        continue;
                total += n;
                hosts++;
                cli_fleet_add_holders(&table, term, far->target.text,
                                      json_object_get(json_object_get(far->answer.document, "plan"), "targets"));
        }
        if (total == 0) {
                gf_str_add(out, "Nothing to end.\n");
        } else {
                const char *name = cli_signal_name(ladder->force ? SIGKILL : ladder->signal);
                _cleanup_free_ char *grace = cli_view_duration(ladder->grace_ms);

                gf_str_addf(out, "Will end %zu %s on %zu %s (%s", total, total == 1 ? "process" : "processes", hosts,
                            hosts == 1 ? "host" : "hosts", name ? name : "a signal");
                if (!ladder->force)
                        gf_str_addf(out, ", after %s KILL", grace ? grace : "?");
                gf_str_add(out, "):\n");
        }
        if (total > 0)
                cli_table_render(&table, term->width, term->utf8, term->color, out);
        cli_table_done(&table);
        view_stops(fleet, term, out);
        view_spared(fleet, term, out);
}

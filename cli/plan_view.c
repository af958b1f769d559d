/* SPDX-License-Identifier: MIT */
#include "plan_view.h"

#include <string.h>

#include "base/num.h"
#include "view.h"

/* "74.3 GiB on GPU 1", "608.0 GiB on GPU 0-7", "GPU 3 (memory not known)" */
static void add_gain(const gpufree_snapshot *snapshot, const gpufree_plan *plan, struct gf_str *out)
{
        size_t n = gpufree_snapshot_gpu_count(snapshot);
        _cleanup_free_ bool *known = calloc(n + 1, sizeof(bool)), *unknown = calloc(n + 1, sizeof(bool));
        _cleanup_free_ char *set = NULL, *dark = NULL;
        uint64_t sum = 0;
        char buf[GF_TEXT_MAX];

        for (size_t i = 0; known && unknown && i < n; i++) {
                uint64_t memory = gpufree_plan_memory(plan, i);

                if (memory == GPUFREE_UNKNOWN)
                        unknown[i] = true;
                else if (memory > 0)
                        known[i] = true, sum += memory;
        }
        set = known ? cli_view_gpu_set(snapshot, known) : NULL;
        dark = unknown ? cli_view_gpu_set(snapshot, unknown) : NULL;
        if (set && set[0] != '\0')
                gf_str_addf(out, ", to free %s on GPU %s", gf_format_size(sum, buf), set);
        if (dark && dark[0] != '\0')
                gf_str_addf(out, "%s GPU %s (how much is not known)", set && set[0] ? " and" : ", to free", dark);
}

static const struct cli_column plan_columns[] = {
        { NULL, false, 0, 0 },  /* PID */
        { NULL, false, 8, 4 },  /* user */
        { NULL, true, 0, 3 },   /* memory */
        { NULL, false, 12, 2 }, /* whose */
        { NULL, false, 16, 0 }, /* command */
        { NULL, false, 0, 1 },  /* what will be sent */
};

static uint64_t memory_of(const gpufree_holder *holder)
{
        uint64_t sum = 0;
        bool any = false;

        for (size_t i = 0; i < gpufree_holder_gpu_count(holder); i++) {
                int gpu = -1;
                uint64_t memory = GPUFREE_UNKNOWN;
                bool context = false;

                if (gpufree_holder_gpu(holder, i, &gpu, &memory, &context) < 0 || memory == GPUFREE_UNKNOWN)
                        continue;
                sum += memory;
                any = true;
        }
        return any ? sum : cli_loose_memory(holder);
}

static char *ladder_text(const struct cli_request *request, bool stop)
{
        const struct gpufree_ladder *ladder = &request->ladder;
        const char *first = request->park_first ? "park, else " : "";
        _cleanup_free_ char *grace = cli_view_duration(ladder->grace_ms);
        const char *name = cli_signal_name(ladder->signal);

        if (ladder->stop_owner && stop)
                return strdup("by its owner");
        if (ladder->force || ladder->signal == 9)
                return gf_asprintf("%sKILL at once", first);
        return gf_asprintf("%s%s, after %s KILL", first, name ? name : "signal", grace ? grace : "?");
}

static void add_targets(const struct cli_session *session, const gpufree_plan *plan, struct gf_str *out)
{
        struct cli_table table = { .columns = plan_columns, .n_columns = ELEMENTSOF(plan_columns), .indent = 2 };
        const struct cli_term *term = &session->term;

        for (size_t i = 0; i < gpufree_plan_target_count(plan); i++) {
                const gpufree_holder *holder = gpufree_plan_target(plan, i);

                cli_table_add(&table, gf_asprintf("%d", (int)gpufree_holder_pid(holder)), CLI_BOLD);
                cli_table_add(&table, cli_view_user(term, holder), CLI_PLAIN);
                cli_table_add(&table, cli_view_size(memory_of(holder)), CLI_PLAIN);
                cli_table_add(&table, cli_view_owner(term, holder), CLI_PLAIN);
                cli_table_add(&table, cli_view_command(term, holder), CLI_PLAIN);
                cli_table_add(&table, ladder_text(session->request, cli_plan_runs_stop(plan, i)), CLI_DIM);
        }
        cli_table_render(&table, term->width, term->utf8, term->color, out);
        cli_table_done(&table);
}

/* Ending a process lets go of all its GPUs, also those that nobody asked about. */
static void add_other_gpus(const struct cli_session *session, const gpufree_snapshot *snapshot,
                           const gpufree_plan *plan, struct gf_str *out)
{
        size_t n = gpufree_snapshot_gpu_count(snapshot);

        for (size_t i = 0; i < gpufree_plan_target_count(plan); i++) {
                const gpufree_holder *holder = gpufree_plan_target(plan, i);
                _cleanup_free_ bool *has = calloc(n + 1, sizeof(bool));
                _cleanup_free_ char *set = NULL, *line = NULL;
                bool any = false;

                for (size_t k = 0; has && k < gpufree_holder_gpu_count(holder); k++) {
                        int gpu = -1;
                        uint64_t memory = GPUFREE_UNKNOWN;
                        bool context = false;

                        if (gpufree_holder_gpu(holder, k, &gpu, &memory, &context) >= 0 && context && gpu >= 0 &&
                            (size_t)gpu < n && !gpufree_gpu_selected(gpufree_snapshot_gpu(snapshot, (size_t)gpu)))
                                any = has[gpu] = true;
                }
                if (!any)
                        continue;
                set = cli_view_gpu_set(snapshot, has);
                line = gf_asprintf("%d also holds GPU %s, which was not asked for and is freed with it.",
                                   (int)gpufree_holder_pid(holder), set ? set : "?");
                cli_view_sentence(&session->term, out, line ? line : "");
        }
}

static void add_spared(const struct cli_session *session, const gpufree_plan *plan, struct gf_str *out)
{
        struct gf_str line = { 0 };

        for (size_t i = 0; i < gpufree_plan_spared_count(plan); i++) {
                const gpufree_holder *holder = gpufree_plan_spared(plan, i);
                const char *comm = gpufree_holder_comm(holder), *why = gpufree_holder_protected(holder);

                gf_str_addf(&line, "%s%s (%d; %s)", i == 0 ? "Left alone: " : ", ", comm ? comm : "?",
                            (int)gpufree_holder_pid(holder), why ? why : "protected");
        }
        out->failed |= line.failed;
        if (line.s)
                cli_view_sentence(&session->term, out, line.s);
        gf_str_done(&line);
}

void cli_view_plan(const struct cli_session *session, const gpufree_snapshot *snapshot, const gpufree_plan *plan,
                   struct gf_str *out)
{
        size_t targets = gpufree_plan_target_count(plan);
        struct gf_str line = { 0 };

        if (targets == 0) {
                cli_view_sentence(&session->term, out,
                                  gpufree_plan_spared_count(plan) > 0
                                          ? "Nothing to end: what is selected is protected (--include NAME lifts one)."
                                  : gpufree_snapshot_complete(snapshot)
                                          ? "Nothing to end: no selected process holds a GPU."
                                          : "Nothing to end: no holder was seen, but not everything could be seen.");
        } else {
                gf_str_addf(&line, "Will %s %zu %s", session->request->park_first ? "park or else end" : "end", targets,
                            targets == 1 ? "process" : "processes");
                add_gain(snapshot, plan, &line);
                gf_str_addc(&line, ':');
                out->failed |= line.failed;
                cli_view_sentence(&session->term, out, line.s ? line.s : "");
                gf_str_done(&line);
                add_targets(session, plan, out);
                if (session->request->park_first)
                        cli_view_sentence(
                                &session->term, out,
                                "Each is parked if the driver can (its memory goes to host memory, gpufree "
                                "unpark PID brings it back), else ended. What fails half-way and may still be "
                                "copied by the driver is neither: it is named.");
                cli_view_plan_owners(session, plan, out);
                add_other_gpus(session, snapshot, plan, out);
        }
        add_spared(session, plan, out);
}

static bool told_already(enum gpufree_fate fate)
{
        return fate == GPUFREE_FATE_ENDED_BY_SIGNAL || fate == GPUFREE_FATE_KILLED || fate == GPUFREE_FATE_BY_OWNER;
}

static const char *fate_text(enum gpufree_fate fate)
{
        switch (fate) {
        case GPUFREE_FATE_ENDED_BY_SIGNAL:
                return "ended";
        case GPUFREE_FATE_KILLED:
                return "ended by KILL";
        case GPUFREE_FATE_BY_OWNER:
                return "ended by its owner";
        case GPUFREE_FATE_ALREADY_GONE:
                return "had gone already";
        case GPUFREE_FATE_LET_GO:
                return "lives, but let go of the GPU";
        case GPUFREE_FATE_REFUSED:
                return "left alone";
        case GPUFREE_FATE_SURVIVED:
                return "still there";
        case GPUFREE_FATE_NOT_IN_PLAN:
                return "not ended: it came after the plan was shown";
        default:
                return gpufree_fate_name(fate);
        }
}

static void add_fate(const struct cli_session *session, pid_t pid, const char *comm, const char *text,
                     const char *detail, struct gf_str *out)
{
        _cleanup_free_ char *line = gf_asprintf("  %d  %s  %s%s%s", (int)pid, comm ? comm : "?", text,
                                                detail ? ": " : "", detail ? detail : "");

        cli_view_sentence(&session->term, out, line ? line : "");
}

static bool has_fate(const gpufree_report *report, const gpufree_holder *target)
{
        for (size_t i = 0; i < gpufree_report_fate_count(report); i++) {
                const gpufree_holder *holder = NULL;
                enum gpufree_fate fate;
                uint64_t elapsed;
                const char *detail;

                if (gpufree_report_fate(report, i, &holder, &fate, &elapsed, &detail) >= 0 && holder &&
                    gpufree_holder_pid(holder) == gpufree_holder_pid(target) &&
                    gpufree_holder_start_ticks(holder) == gpufree_holder_start_ticks(target))
                        return true;
        }
        return false;
}

void cli_view_fates(const struct cli_session *session, const gpufree_plan *plan, const gpufree_report *report, bool all,
                    struct gf_str *out)
{
        for (size_t i = 0; i < gpufree_report_fate_count(report); i++) {
                const gpufree_holder *holder = NULL;
                enum gpufree_fate fate = GPUFREE_FATE_SURVIVED;
                uint64_t elapsed = 0;
                const char *detail = NULL;

                if (gpufree_report_fate(report, i, &holder, &fate, &elapsed, &detail) < 0 || !holder ||
                    (told_already(fate) && !all))
                        continue;
                add_fate(session, gpufree_holder_pid(holder), gpufree_holder_comm(holder), fate_text(fate), detail,
                         out);
        }
        for (size_t i = 0; all && i < gpufree_plan_target_count(plan); i++) {
                const gpufree_holder *target = gpufree_plan_target(plan, i);

                if (!has_fate(report, target))
                        add_fate(session, gpufree_holder_pid(target), gpufree_holder_comm(target),
                                 "not dealt with before the interruption", NULL, out);
        }
}

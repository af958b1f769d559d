/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "json.h"

void cli_json_plan(json_t *document, const gpufree_snapshot *snapshot, const gpufree_plan *plan,
                   const struct gpufree_ladder *ladder)
{
        json_t *object = json_object(), *targets = json_array(), *spared = json_array(), *gpus = json_array(),
               *steps = json_object();

        for (size_t i = 0; i < gpufree_plan_target_count(plan); i++) {
                json_t *target = cli_json_holder(snapshot, gpufree_plan_target(plan, i));

                cli_json_plan_owner(target, plan, i);
                (void)json_array_append_new(targets, target);
        }
        for (size_t i = 0; i < gpufree_plan_spared_count(plan); i++)
                (void)json_array_append_new(spared, cli_json_holder(snapshot, gpufree_plan_spared(plan, i)));
        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, i);
                json_t *entry;

                if (!gpufree_gpu_selected(gpu))
                        continue;
                entry = json_object();
                cli_json_set(entry, "index", cli_json_index(gpufree_gpu_index(gpu)));
                cli_json_set(entry, "pci", cli_json_text_or_null(gpufree_gpu_pci(gpu)));
                cli_json_set(entry, "memory", cli_json_number(gpufree_plan_memory(plan, i)));
                (void)json_array_append_new(gpus, entry);
        }
        cli_json_set(object, "targets", targets);
        cli_json_set(object, "spared", spared);
        cli_json_set(object, "gpus", gpus);
        cli_json_set(steps, "signal", cli_json_text_or_null(cli_signal_name(ladder->force ? 9 : ladder->signal)));
        cli_json_set(steps, "force", json_boolean(ladder->force));
        cli_json_set(steps, "grace_ms", cli_json_number(ladder->grace_ms));
        cli_json_set(steps, "timeout_ms", cli_json_number(ladder->timeout_ms));
        cli_json_set(steps, "settle_ms", cli_json_number(ladder->settle_ms));
        cli_json_set(steps, "stop_owner", json_boolean(ladder->stop_owner));
        cli_json_set(object, "ladder", steps);
        cli_json_set(document, "plan", object);
}

static json_t *milliseconds(uint64_t us)
{
        return us == GPUFREE_UNKNOWN ? json_null() : json_real((double)us / 1000.0);
}

static void set_timings(json_t *document, const gpufree_report *report)
{
        uint64_t planned, signalled, last_exit, quiet, verified;
        json_t *timings = json_object();

        if (gpufree_report_timings(report, &planned, &signalled, &last_exit, &quiet, &verified) == 0) {
                cli_json_set(timings, "planned_ms", milliseconds(planned));
                cli_json_set(timings, "signalled_ms", milliseconds(signalled));
                cli_json_set(timings, "last_exit_ms", milliseconds(last_exit));
                cli_json_set(timings, "quiet_ms", milliseconds(quiet));
                cli_json_set(timings, "verified_ms", milliseconds(verified));
        }
        cli_json_set(document, "timings", timings);
}

void cli_json_report(json_t *document, const gpufree_report *report, bool with_fates)
{
        json_t *sentences = json_array(), *fates = json_array();
        const char *sentence;

        for (size_t i = 0; (sentence = gpufree_report_sentence(report, i)) != NULL; i++)
                (void)json_array_append_new(sentences, cli_json_text_or_null(sentence));
        cli_json_set(document, "sentences", sentences);
        cli_json_set(document, "elapsed_ms", cli_json_number(gpufree_report_elapsed_ms(report)));
        if (with_fates)
                set_timings(document, report);
        for (size_t i = 0; i < gpufree_report_fate_count(report); i++) {
                const gpufree_holder *holder = NULL;
                enum gpufree_fate fate = GPUFREE_FATE_SURVIVED;
                const char *detail = NULL;
                uint64_t elapsed = GPUFREE_UNKNOWN;
                json_t *object;

                if (gpufree_report_fate(report, i, &holder, &fate, &elapsed, &detail) < 0)
                        continue;
                object = json_object();
                cli_json_set(object, "pid", holder ? json_integer(gpufree_holder_pid(holder)) : NULL);
                cli_json_set(object, "start_time", holder ? cli_json_number(gpufree_holder_start_ticks(holder)) : NULL);
                cli_json_set(object, "comm", holder ? cli_json_text_or_null(gpufree_holder_comm(holder)) : NULL);
                cli_json_set(object, "fate", cli_json_text_or_null(gpufree_fate_name(fate)));
                cli_json_set(object, "elapsed_ms", cli_json_number(elapsed));
                cli_json_set(object, "detail", cli_json_text_or_null(detail));
                (void)json_array_append_new(fates, object);
        }
        if (!with_fates) {
                json_decref(fates);
                return;
        }
        cli_json_set(document, "fates", fates);
        cli_json_stops(document, report);
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

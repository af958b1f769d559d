/* SPDX-License-Identifier: MIT */
#include "park_view.h"

#include <time.h>

#include "base/num.h"
#include "view.h"

static bool get(const gpufree_parking *parking, size_t position, struct gpufree_parked_process *ret)
{
        return gpufree_parking_process(parking, position, sizeof(*ret), ret) >= 0;
}

/* "61.9 GiB in 30.9 s, 2.0 GiB/s": the copying alone. */
static char *rate_text(const struct gpufree_parked_process *process)
{
        char size[GF_TEXT_MAX], time[GF_TEXT_MAX], rate[GF_TEXT_MAX];

        if (process->copy_ms == GPUFREE_UNKNOWN || process->memory == GPUFREE_UNKNOWN || process->copy_ms == 0)
                return NULL;
        return gf_asprintf(
                " (%s in %s, %s/s)", gf_format_size(process->memory, size), gf_format_duration(process->copy_ms, time),
                gf_format_size((uint64_t)((double)process->memory * 1000.0 / (double)process->copy_ms), rate));
}

void cli_view_parking(const struct cli_session *session, const gpufree_parking *parking, struct gf_str *out)
{
        const char *sentence;

        for (size_t i = 0; (sentence = gpufree_parking_sentence(parking, i)) != NULL; i++)
                cli_view_sentence(&session->term, out, sentence);
        for (size_t i = 0; i < gpufree_parking_count(parking); i++) {
                struct gpufree_parked_process process;
                _cleanup_free_ char *rate = NULL, *line = NULL;

                if (!get(parking, i, &process) || !process.sentence)
                        continue;
                rate = process.outcome == GPUFREE_OK ? rate_text(&process) : NULL;
                line = gf_asprintf("%s%s.", process.sentence, rate ? rate : "");
                cli_view_sentence(&session->term, out, line ? line : process.sentence);
        }
}

static char *since_text(int64_t since)
{
        time_t now = time(NULL);
        char buf[GF_TEXT_MAX];

        if (since < 0 || now < since)
                return NULL;
        return gf_asprintf(" since %s", gf_format_duration((uint64_t)(now - since) * 1000, buf));
}

void cli_view_parked(const struct cli_session *session, const gpufree_parking *parking, struct gf_str *out)
{
        for (size_t i = 0; parking && i < gpufree_parking_count(parking); i++) {
                struct gpufree_parked_process process;
                _cleanup_free_ char *since = NULL, *line = NULL;
                char size[GF_TEXT_MAX];

                if (!get(parking, i, &process) || process.state == GPUFREE_PARK_RUNNING)
                        continue;
                since = since_text(process.since);
                line = gf_asprintf("%s: %d (%s)%s%s%s%s%s%s%s; gpufree unpark %d brings it back.",
                                   gpufree_park_state_name(process.state), (int)process.pid,
                                   process.comm ? process.comm : "?", since ? since : "", process.by ? " by " : "",
                                   process.by ? process.by : "", process.memory != GPUFREE_UNKNOWN ? ", " : "",
                                   process.memory != GPUFREE_UNKNOWN ? gf_format_size(process.memory, size) : "",
                                   process.gpus ? " of GPU " : "", process.gpus ? process.gpus : "", (int)process.pid);
                if (line && line[0] >= 'a' && line[0] <= 'z')
                        line[0] = (char)(line[0] - 'a' + 'A');
                cli_view_sentence(&session->term, out, line ? line : "");
                if (process.sentence)
                        cli_view_sentence(&session->term, out, process.sentence);
        }
}

static json_t *process_json(const struct gpufree_parked_process *process)
{
        json_t *object = json_object();

        cli_json_set(object, "pid", json_integer(process->pid));
        cli_json_set(object, "start_time", cli_json_number(process->start_ticks));
        cli_json_set(object, "comm", cli_json_text_or_null(process->comm));
        cli_json_set(object, "cmdline", cli_json_text_or_null(process->cmdline));
        cli_json_set(object, "user", cli_json_text_or_null(process->user));
        cli_json_set(object, "state", cli_json_text_or_null(gpufree_park_state_name(process->state)));
        cli_json_set(object, "step", cli_json_text_or_null(gpufree_park_step_name(process->step)));
        cli_json_set(object, "memory", cli_json_number(process->memory));
        cli_json_set(object, "copy_ms", cli_json_number(process->copy_ms));
        cli_json_set(object, "outcome", cli_json_text_or_null(gpufree_outcome_name(process->outcome)));
        cli_json_set(object, "sentence", cli_json_text_or_null(process->sentence));
        cli_json_set(object, "on_gpus", cli_json_text_or_null(process->gpus));
        cli_json_set(object, "since", process->since < 0 ? NULL : json_integer(process->since));
        cli_json_set(object, "by", cli_json_text_or_null(process->by));
        return object;
}

void cli_json_parked(json_t *document, const gpufree_parking *parking, bool running_too)
{
        json_t *parked = json_array();

        for (size_t i = 0; parking && i < gpufree_parking_count(parking); i++) {
                struct gpufree_parked_process process;

                if (get(parking, i, &process) && (running_too || process.state != GPUFREE_PARK_RUNNING))
                        (void)json_array_append_new(parked, process_json(&process));
        }
        cli_json_set(document, "parked", parked);
}

void cli_json_parking(json_t *document, const gpufree_parking *parking)
{
        json_t *sentences = json_array();
        const char *sentence;

        cli_json_parked(document, parking, true);
        for (size_t i = 0; parking && (sentence = gpufree_parking_sentence(parking, i)) != NULL; i++)
                (void)json_array_append_new(sentences, cli_json_text_or_null(sentence));
        cli_json_set(document, "sentences", sentences);
        cli_json_set(document, "elapsed_ms", parking ? cli_json_number(gpufree_parking_elapsed_ms(parking)) : NULL);
}

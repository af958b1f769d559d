/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <signal.h>
#include <string.h>

#include "base/num.h"

static struct cli_step *step_of(struct cli_progress *progress, pid_t pid)
{
        struct cli_step *step;

        for (size_t i = 0; i < progress->steps.n; i++)
                if (progress->steps.v[i].pid == pid)
                        return &progress->steps.v[i];
        step = gf_vec_add(&progress->steps);
        if (step)
                step->pid = pid;
        return step;
}

static const char *signal_text(int signal)
{
        const char *name = cli_signal_name(signal);

        return name ? name : "signal";
}

static void on_signalled(struct cli_progress *progress, const struct gpufree_event *event)
{
        struct cli_step *step = step_of(progress, event->pid);
        char buf[GF_TEXT_MAX];

        if (event->signal == SIGCONT || !step) /* part of the first signal's delivery */
                return;
        if (event->signal == SIGKILL && step->signal != 0) {
                step->escalated = true;
                cli_term_say(&progress->session->term, "  %d  %s, still there after %s: KILL", (int)event->pid,
                             signal_text(step->signal), gf_format_duration(event->elapsed_ms, buf));
        }
        step->signal = event->signal;
        step->elapsed_ms = event->elapsed_ms;
}

static void on_gone(struct cli_progress *progress, const struct gpufree_event *event)
{
        const struct cli_step *step = step_of(progress, event->pid);
        char buf[GF_TEXT_MAX];

        if (progress->stopping && !(step && step->signal != 0)) {
                cli_term_say(&progress->session->term, "  %d  ended by its owner after %s", (int)event->pid,
                             gf_format_duration(event->elapsed_ms, buf));
                return;
        }
        cli_term_say(&progress->session->term, "  %d  %s, gone after %s", (int)event->pid,
                     step && step->signal != 0 ? signal_text(step->signal) : "no signal",
                     gf_format_duration(event->elapsed_ms, buf));
}

static void on_memory(struct cli_progress *progress, const struct gpufree_event *event)
{
        char size[GF_TEXT_MAX], since[GF_TEXT_MAX];
        _cleanup_free_ char *text = NULL;
        int index = event->gpu ? gpufree_gpu_index(event->gpu) : -1;

        text = index < 0 ? gf_asprintf("  memory: %s still held, %s", gf_format_size(event->bytes, size),
                                       gf_format_duration(event->elapsed_ms, since))
                         : gf_asprintf("  GPU %d: %s still held, %s", index, gf_format_size(event->bytes, size),
                                       gf_format_duration(event->elapsed_ms, since));
        cli_term_progress(&progress->session->term, text);
}

static void on_waiting(struct cli_progress *progress, const struct gpufree_event *event)
{
        char since[GF_TEXT_MAX];
        _cleanup_free_ char *text = gf_asprintf("  waiting for %llu %s, %s", (unsigned long long)event->count,
                                                event->count == 1 ? "process" : "processes",
                                                gf_format_duration(event->elapsed_ms, since));

        cli_term_progress(&progress->session->term, text);
}

static void on_step(struct cli_progress *progress, const struct gpufree_event *event)
{
        const char *text = event->count == GPUFREE_PARK_LOCK      ? "waits for its work on the GPU to pause"
                           : event->count == GPUFREE_PARK_COPY    ? "GPU memory → host memory"
                           : event->count == GPUFREE_PARK_RESTORE ? "host memory → GPU memory"
                           : event->count == GPUFREE_PARK_UNLOCK  ? "goes on"
                                                                  : NULL;
        _cleanup_free_ char *line = text ? gf_asprintf("  %d  %s", (int)event->pid, text) : NULL;

        if (line)
                cli_term_progress(&progress->session->term, line);
}

/* "  21316  48.1 of 61.9 GiB  2.0 GiB/s  7 s left"; a figure that is not known is left out. */
static void on_copied(struct cli_progress *progress, const struct gpufree_event *event)
{
        char done[GF_TEXT_MAX], all[GF_TEXT_MAX], rate[GF_TEXT_MAX], left[GF_TEXT_MAX];
        uint64_t per_second = event->elapsed_ms >= 500 ? event->bytes * 1000 / event->elapsed_ms : 0;
        _cleanup_free_ char *line = NULL;
        struct gf_str s = { 0 };

        gf_str_addf(&s, "  %d  %s", (int)event->pid, gf_format_size(event->bytes, done));
        if (event->count != GPUFREE_UNKNOWN)
                gf_str_addf(&s, " of %s", gf_format_size(event->count, all));
        if (per_second > 0)
                gf_str_addf(&s, "  %s/s", gf_format_size(per_second, rate));
        if (per_second > 0 && event->count != GPUFREE_UNKNOWN && event->count > event->bytes)
                gf_str_addf(&s, "  %s left",
                            gf_format_duration((event->count - event->bytes) / per_second * 1000, left));
        if (gf_str_take(&s, &line) >= 0)
                cli_term_progress(&progress->session->term, line);
}

void cli_progress_event(void *userdata, const struct gpufree_event *event)
{
        struct cli_progress *progress = userdata;
        struct cli_term *term = &progress->session->term;

        switch (event->type) {
        case GPUFREE_EVENT_STOPPING:
                progress->stopping = true;
                cli_term_progress(term, NULL);
                cli_term_say(term, "  stopping: %s", event->text ? event->text : "?");
                break;
        case GPUFREE_EVENT_STOPPED:
                cli_term_say(term, "  %s", event->text ? event->text : "?");
                break;
        case GPUFREE_EVENT_SIGNALLED:
                progress->stopping = false;
                on_signalled(progress, event);
                break;
        case GPUFREE_EVENT_GONE:
                on_gone(progress, event);
                break;
        case GPUFREE_EVENT_REFUSED:
                cli_term_say(term, "  %d  not signalled: %s", (int)event->pid, strerror(-event->error));
                break;
        case GPUFREE_EVENT_SURVIVED:
                cli_term_say(term, "  %d  still there", (int)event->pid);
                break;
        case GPUFREE_EVENT_NEWCOMER:
                cli_term_say(term, "  %d  holds too, came after the plan", (int)event->pid);
                break;
        case GPUFREE_EVENT_WAITING:
                on_waiting(progress, event);
                break;
        case GPUFREE_EVENT_RESCAN:
                cli_term_progress(term, "  looking again");
                break;
        case GPUFREE_EVENT_MEMORY:
                on_memory(progress, event);
                break;
        case GPUFREE_EVENT_PARK_STEP:
                on_step(progress, event);
                break;
        case GPUFREE_EVENT_COPIED:
                on_copied(progress, event);
                break;
        default: /* of a newer library */
                break;
        }
}

void cli_progress_done(struct cli_progress *progress)
{
        cli_term_progress(&progress->session->term, NULL);
        gf_vec_done(&progress->steps);
}

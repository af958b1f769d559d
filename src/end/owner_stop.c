/* SPDX-License-Identifier: MIT */
#include "end/owner_stop.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "sys/command.h"

#define ASK_MS 5000

void gf_stopped_done(struct gf_stopped *stopped)
{
        free(stopped->command);
        free(stopped->output);
        free(stopped->sentence);
        *stopped = (struct gf_stopped){ 0 };
}

_printf_(3, 4) static int conclude(struct gf_stopped *s, enum gf_stop_outcome outcome, const char *format, ...)
{
        va_list ap;

        s->outcome = outcome;
        free(s->sentence);
        va_start(ap, format);
        s->sentence = gf_vasprintf(format, ap);
        va_end(ap);
        return s->sentence ? 0 : -ENOMEM;
}

/*
 * The program's path. 0 with *ret_path NULL: the sentence says why not.
 */
static int find_program(const char *name, const char *const *dirs, struct gf_stopped *s, char **ret_path)
{
        _cleanup_free_ char *path = NULL;
        int r;

        r = gf_command_find(name, dirs, &path);
        if (r == -ENOMEM)
                return r;
        if (r == -EPERM)
                return conclude(s, GF_STOP_REFUSED,
                                "not run: %s could be changed by others than root; run it yourself: %s", path,
                                s->command);
        if (r < 0)
                return conclude(s, GF_STOP_REFUSED, "not run: %s is not installed where programs of the system are: %s",
                                name, s->command);
        *ret_path = TAKE(path);
        return 0;
}

/* The first word that is a number. */
static bool first_number(const char *text, pid_t *ret)
{
        char word[16];
        size_t n = strspn(text, "0123456789");

        if (n == 0 || n >= sizeof(word) || (text[n] != '\0' && text[n] != '\n'))
                return false;
        memcpy(word, text, n);
        word[n] = '\0';
        return gf_parse_pid(word, ret) == 0;
}

/* Does the owner itself say that this process is the one meant? 1; 0 with the sentence. */
static int ask(struct gf_env *env, const char *const *dirs, const struct gf_stop *stop, struct gf_stopped *s)
{
        _cleanup_(gf_command_result_done) struct gf_command_result result = { 0 };
        _cleanup_free_ char *path = NULL;
        pid_t pid = 0;
        int r;

        r = find_program(stop->ask.v[0], dirs, s, &path);
        if (r < 0 || !path)
                return r;
        r = gf_command_run(path, &stop->ask, ASK_MS, env->cancel_fd, &result);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return conclude(s, GF_STOP_REFUSED, "not run: %s: %s", path, strerror(-r));
        if (result.cancelled)
                return conclude(s, GF_STOP_CANCELLED, "interrupted before %s", s->command);
        if (result.ended && result.status == 0 && first_number(result.output, &pid) && pid == stop->ask_pid)
                return 1;
        r = gf_strset(&s->output, result.output);
        if (r < 0)
                return r;
        return conclude(s, GF_STOP_REFUSED, "not run: its owner does not confirm that process %d is what %s stops",
                        stop->ask_pid, s->command);
}

static int run(struct gf_env *env, const char *const *dirs, const struct gf_stop *stop, uint64_t timeout_ms,
               struct gf_stopped *s)
{
        _cleanup_(gf_command_result_done) struct gf_command_result result = { 0 };
        _cleanup_free_ char *path = NULL;
        char took[GF_TEXT_MAX];
        int r;

        r = find_program(stop->argv.v[0], dirs, s, &path);
        if (r < 0 || !path)
                return r;
        r = gf_command_run(path, &stop->argv, timeout_ms, env->cancel_fd, &result);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return conclude(s, GF_STOP_FAILED, "%s could not be started: %s", s->command, strerror(-r));
        s->output = TAKE(result.output);
        s->status = result.status;
        s->elapsed_ms = result.elapsed_ms;
        gf_format_duration(result.elapsed_ms, took);
        if (result.cancelled)
                return conclude(s, GF_STOP_CANCELLED, "%s was interrupted after %s; its owner may still carry it out",
                                s->command, took);
        if (result.timed_out)
                return conclude(s, GF_STOP_TIMED_OUT,
                                "%s had not ended after %s and was given up; its owner may still "
                                "carry it out",
                                s->command, took);
        if (result.status == 0)
                return conclude(s, GF_STOP_DONE, "%s: done (%s)", s->command, took);
        if (result.status > 128)
                return conclude(s, GF_STOP_FAILED, "%s was ended by signal %d", s->command, result.status - 128);
        return conclude(s, GF_STOP_FAILED, "%s failed with exit status %d", s->command, result.status);
}

int gf_owner_stop_in(struct gf_env *env, const char *const *dirs, const struct gf_stop *stop, uint64_t timeout_ms,
                     struct gf_stopped *ret_stopped)
{
        _cleanup_(gf_stopped_done) struct gf_stopped s = { 0 };
        int r = 0;

        if (stop->argv.n > 0) {
                s.command = gf_shell_quote(&stop->argv);
                if (!s.command)
                        return -ENOMEM;
        }
        if (stop->refusal)
                r = conclude(&s, GF_STOP_REFUSED, "not run: %s", stop->refusal);
        else if (stop->argv.n == 0)
                r = conclude(&s, GF_STOP_REFUSED, "nothing to run: %s",
                             stop->text ? stop->text : "no command is known that stops its owner");
        else if (stop->ask.n > 0)
                r = ask(env, dirs, stop, &s);
        else
                r = 1;
        if (r == 1)
                r = run(env, dirs, stop, timeout_ms, &s);
        if (r < 0)
                return r;
        *ret_stopped = s;
        s = (struct gf_stopped){ 0 };
        return 0;
}

int gf_owner_stop(struct gf_env *env, const struct gf_stop *stop, uint64_t timeout_ms, struct gf_stopped *ret_stopped)
{
        return gf_owner_stop_in(env, NULL, stop, timeout_ms, ret_stopped);
}

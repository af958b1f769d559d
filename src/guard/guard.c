/* SPDX-License-Identifier: MIT */
#include "guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "guard/http.h"
#include "guard/probe.h"
#include "select/criteria.h"

__attribute__((format(printf, 3, 0))) static void
hand_over(const struct gpufree_guard *guard, enum gpufree_guard_event_type type, const char *format, va_list ap)
{
        _cleanup_free_ char *text = guard->handler ? gf_vasprintf(format, ap) : NULL;

        if (text)
                guard->handler(guard->userdata, type, text);
}

void gf_guard_say(const struct gpufree_guard *guard, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        hand_over(guard, GPUFREE_GUARD_SAID, format, ap);
        va_end(ap);
}

void gf_guard_warn(const struct gpufree_guard *guard, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        hand_over(guard, GPUFREE_GUARD_WARNED, format, ap);
        va_end(ap);
}

void gf_guard_progress(const struct gpufree_guard *guard, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        hand_over(guard, GPUFREE_GUARD_PROGRESS, format, ap);
        va_end(ap);
}

char *gf_guard_label(const struct gpufree_snapshot *snapshot, const size_t *gpus, size_t n)
{
        struct gf_str text = { 0 };
        char *label = NULL;

        gf_str_add(&text, "GPU ");
        for (size_t i = 0; i < n; i++) {
                const struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[gpus[i]];
                size_t last = i;

                while (last + 1 < n && gpu->index >= 0 &&
                       snapshot->inventory.gpus.v[gpus[last + 1]].index == gpu->index + (int)(last + 1 - i))
                        last++;
                gf_str_add(&text, i > 0 ? ", " : "");
                if (gpu->index < 0)
                        gf_str_add(&text, gpu->pci ? gpu->pci : gpu->uuid ? gpu->uuid : "without a number");
                else if (last > i)
                        gf_str_addf(&text, "%d-%d", gpu->index, snapshot->inventory.gpus.v[gpus[last]].index);
                else
                        gf_str_addf(&text, "%d", gpu->index);
                i = last;
        }
        return gf_str_take(&text, &label) < 0 ? NULL : label;
}

static int copy_text(const char **text)
{
        if (!*text)
                return 0;
        *text = strdup(*text);
        return *text ? 0 : -ENOMEM;
}

/* The options as they are from now on: texts are ours, even when not all could be copied. */
static int copy_options(struct gpufree_guard *guard, const struct gpufree_guard_options *options)
{
        struct gpufree_guard_options *own = &guard->options;
        const char **texts[] = { &own->claim_dir, &own->ready_url, &own->ready_tcp,
                                 &own->ready_log, &own->on_ready,  &own->log };
        int r = 0;

        memcpy(own, options, options->size);
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                if (r < 0)
                        *texts[i] = NULL;
                else
                        r = copy_text(texts[i]);
        }
        return r;
}

static int compile_regex(struct gpufree_guard *guard)
{
        struct gf_env *env = &guard->context->env;
        char text[128];
        int r;

        if (!guard->options.log)
                return gf_fail(env, -EINVAL, "--ready-log: needs --log FILE, where the command's output goes");
        guard->ready_regex = calloc(1, sizeof(*guard->ready_regex));
        if (!guard->ready_regex)
                return -ENOMEM;
        r = regcomp(guard->ready_regex, guard->options.ready_log, REG_EXTENDED | REG_NOSUB);
        if (r == 0)
                return 0;
        (void)regerror(r, guard->ready_regex, text, sizeof(text));
        free(guard->ready_regex);
        guard->ready_regex = NULL;
        return gf_fail(env, -EINVAL, "--ready-log: \"%s\" is no regular expression: %s", guard->options.ready_log,
                       text);
}

static int check_options(struct gpufree_guard *guard)
{
        struct gpufree_guard_options *o = &guard->options;
        struct gf_env *env = &guard->context->env;
        int kinds = (o->ready_url != NULL) + (o->ready_tcp != NULL) + (o->ready_log != NULL) + o->ready_fd;

        if (kinds > 1)
                return gf_fail(env, -EINVAL,
                               "one way to be ready at most: --ready-url, --ready-tcp, --ready-log or --ready-fd");
        if (kinds == 0 && (o->ready_timeout_ms != GPUFREE_UNKNOWN || o->on_ready))
                return gf_fail(env, -EINVAL,
                               "%s: needs a way to be ready (--ready-url, --ready-tcp, --ready-log, --ready-fd)",
                               o->on_ready ? "--on-ready" : "--ready-timeout");
        if (o->unpark_on != 0 && o->park_on == 0)
                return gf_fail(env, -EINVAL, "--unpark-on: needs --park-on");
        if (o->park_on != 0 && o->unpark_on == 0)
                o->unpark_on = o->park_on == SIGUSR2 ? SIGUSR1 : SIGUSR2;
        if (o->park_on != 0 &&
            ((o->park_on != SIGUSR1 && o->park_on != SIGUSR2) || (o->unpark_on != SIGUSR1 && o->unpark_on != SIGUSR2)))
                return gf_fail(env, -EINVAL, "--park-on, --unpark-on: USR1 and USR2 alone are free for that");
        if (o->park_on != 0 && o->park_on == o->unpark_on)
                return gf_fail(env, -EINVAL,
                               "--park-on and --unpark-on: must be two signals, so that one that is lost "
                               "or doubled changes nothing");
        guard->ready_kind = o->ready_url   ? GF_READY_URL
                            : o->ready_tcp ? GF_READY_TCP
                            : o->ready_log ? GF_READY_LOG
                            : o->ready_fd  ? GF_READY_FD
                                           : GF_READY_NONE;
        if (o->ready_url)
                return gf_http_check(env, o->ready_url);
        if (o->ready_tcp)
                return gf_probe_check_tcp(env, o->ready_tcp);
        return o->ready_log ? compile_regex(guard) : 0;
}

int gpufree_guard_new(gpufree *context, const struct gpufree_guard_options *options, gpufree_guard **ret_guard)
{
        static const struct gpufree_guard_options defaults = GPUFREE_GUARD_OPTIONS_INIT;
        struct gpufree_guard *guard;
        int r;

        if (options && (options->size < sizeof(options->size) || options->size > sizeof(*options)))
                return gf_fail(&context->env, -EINVAL, "the options of the guard have a size of %zu bytes, not %zu",
                               options->size, sizeof(*options));
        guard = calloc(1, sizeof(*guard));
        if (!guard)
                return gf_fail(&context->env, -ENOMEM, "out of memory");
        guard->context = gpufree_ref(context);
        guard->options = defaults;
        guard->signal_fd = -1;
        guard->result = (struct gpufree_guard_result){ .size = sizeof(guard->result),
                                                       .status = -1,
                                                       .ready_ms = GPUFREE_UNKNOWN,
                                                       .verified = -1,
                                                       .elapsed_ms = GPUFREE_UNKNOWN };
        (void)pthread_sigmask(SIG_SETMASK, NULL, &guard->mask);
        r = copy_options(guard, options ? options : &defaults);
        if (r == 0)
                r = check_options(guard);
        if (r < 0) {
                gpufree_guard_unref(guard);
                return r == -ENOMEM ? gf_fail(&context->env, r, "out of memory") : r;
        }
        *ret_guard = guard;
        return 0;
}

static void free_text(const char *text)
{
        free((void *)(uintptr_t)text);
}

gpufree_guard *gpufree_guard_unref(gpufree_guard *guard)
{
        if (!guard)
                return NULL;
        gf_locks_done(&guard->locks);
        for (size_t i = 0; i < guard->preempted.n; i++)
                gf_close(guard->preempted.v[i]); /* after the claims, which they take back */
        gf_vec_done(&guard->preempted);
        free_text(guard->options.claim_dir);
        free_text(guard->options.ready_url);
        free_text(guard->options.ready_tcp);
        free_text(guard->options.ready_log);
        free_text(guard->options.on_ready);
        free_text(guard->options.log);
        if (guard->ready_regex)
                regfree(guard->ready_regex);
        free(guard->ready_regex);
        gpufree_selection_unref(guard->selection);
        gpufree_report_unref(guard->report);
        gpufree_snapshot_unref(guard->snapshot);
        gf_vec_done(&guard->gpus);
        free(guard->label);
        gf_strv_done(&guard->environment);
        gpufree_unref(guard->context);
        free(guard);
        return NULL;
}

void gpufree_guard_set_handler(gpufree_guard *guard, gpufree_guard_handler handler, void *userdata)
{
        guard->handler = handler;
        guard->userdata = userdata;
}

int gpufree_guard_set_signal_fd(gpufree_guard *guard, int fd)
{
        if (fd >= 0 && fcntl(fd, F_GETFD) < 0)
                return gf_fail(&guard->context->env, -errno, "descriptor %d: %s", fd, strerror(errno));
        guard->signal_fd = fd < 0 ? -1 : fd;
        return 0;
}

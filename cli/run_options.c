/* SPDX-License-Identifier: MIT */
/* The options of `run`, and what `check` and `wait` share with it. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/num.h"
#include "options.h"

#define RESTARTS 5
#define MOST_GPUS 1024
#define MOST_PRIORITY 1000

_printf_(2, 3) static int wrong(char **ret_error, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        *ret_error = gf_vasprintf(format, ap);
        va_end(ap);
        return *ret_error ? -EINVAL : -ENOMEM;
}

static int take_duration(const char *name, const char *value, uint64_t *ret, char **ret_error)
{
        if (gf_parse_duration(value, ret) < 0)
                return wrong(ret_error, "--%s: \"%s\" is no duration (like 500ms, 10s, 2m)", name, value);
        return 0;
}

static int take_restart(const char *value, unsigned *ret, char **ret_error)
{
        uint32_t n = RESTARTS;

        if (strcmp(value, "no") == 0)
                n = 0;
        else if (strncmp(value, "on-failure:", 11) == 0 ? gf_parse_u32(value + 11, &n) < 0
                                                        : strcmp(value, "on-failure") != 0)
                return wrong(ret_error, "--restart: \"%s\" is none of no, on-failure or on-failure:N", value);
        *ret = n;
        return 0;
}

static int take_gpus(const char *value, unsigned *ret, char **ret_error)
{
        uint32_t n;

        if (gf_parse_u32(value, &n) < 0 || n == 0 || n > MOST_GPUS)
                return wrong(ret_error, "--gpus: \"%s\" is no number of GPUs (like 4); --gpu names them", value);
        *ret = n;
        return 0;
}

static int take_park_signal(const char *name, const char *value, int *ret, char **ret_error)
{
        int number = 0;

        if (cli_signal_parse(value, &number) < 0 || (number != SIGUSR1 && number != SIGUSR2))
                return wrong(ret_error, "--%s: \"%s\" is none of USR1 and USR2", name, value);
        *ret = number;
        return 0;
}

static int take_priority(const char *value, int *ret, char **ret_error)
{
        bool negative = value[0] == '-';
        uint32_t n;

        if (gf_parse_u32(value + negative, &n) < 0 || n > MOST_PRIORITY)
                return wrong(ret_error, "--priority: \"%s\" is no number from -%d to %d", value, MOST_PRIORITY,
                             MOST_PRIORITY);
        *ret = negative ? -(int)n : (int)n;
        return 0;
}

int cli_run_option(struct cli_request *request, const struct cli_option *option, const char *value, char **ret_error)
{
        struct gpufree_guard_options *guard = &request->guard;

        switch ((int)option->id) {
        case CLI_OPT_FREE_MEMORY:
                if (gf_parse_size(value, &request->calm.free_memory) < 0 ||
                    request->calm.free_memory == GPUFREE_UNKNOWN)
                        return wrong(ret_error, "--free-memory: \"%s\" is no size (like 512MiB, 60GiB)", value);
                return 0;
        case CLI_OPT_QUIET_FOR:
                return take_duration(option->name, value, &request->calm.quiet_ms, ret_error);
        case CLI_OPT_GPUS:
                return take_gpus(value, &guard->gpus, ret_error);
        case CLI_OPT_CLEAN:
                guard->clean = true;
                return 0;
        case CLI_OPT_CLAIM:
                guard->claim_dir = value;
                return 0;
        case CLI_OPT_READY_URL:
                guard->ready_url = value;
                return 0;
        case CLI_OPT_READY_TCP:
                guard->ready_tcp = value;
                return 0;
        case CLI_OPT_READY_LOG:
                guard->ready_log = value;
                return 0;
        case CLI_OPT_READY_FD:
                guard->ready_fd = true;
                return 0;
        case CLI_OPT_READY_TIMEOUT:
                return take_duration(option->name, value, &guard->ready_timeout_ms, ret_error);
        case CLI_OPT_STALL_TIMEOUT:
                return take_duration(option->name, value, &guard->stall_timeout_ms, ret_error);
        case CLI_OPT_ON_READY:
                guard->on_ready = value;
                return 0;
        case CLI_OPT_LOG:
                guard->log = value;
                return 0;
        case CLI_OPT_JSON_FILE:
                request->json_file = value;
                return 0;
        case CLI_OPT_RESTART:
                return take_restart(value, &guard->restarts, ret_error);
        case CLI_OPT_PARK_ON:
                return take_park_signal(option->name, value, &guard->park_on, ret_error);
        case CLI_OPT_UNPARK_ON:
                return take_park_signal(option->name, value, &guard->unpark_on, ret_error);
        case CLI_OPT_PREEMPT:
                guard->preempt = true;
                return 0;
        case CLI_OPT_PRIORITY:
                return take_priority(value, &guard->priority, ret_error);
        default:
                return -EINVAL;
        }
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/num.h"
#include "fleet/transport.h"
#include "options.h"

_printf_(2, 3) static int wrong(char **ret_error, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        *ret_error = gf_vasprintf(format, ap);
        va_end(ap);
        return *ret_error ? -EINVAL : -ENOMEM;
}

int cli_fleet_option(struct cli_request *request, const struct cli_option *option, const char *value, char **ret_error)
{
        struct cli_criterion *host;

        switch ((int)option->id) {
        case CLI_OPT_HOST:
        case CLI_OPT_HOSTS:
                host = gf_vec_add(&request->hosts);
                if (!host)
                        return -ENOMEM;
                *host = (struct cli_criterion){ option, value };
                return 0;
        case CLI_OPT_FANOUT:
                if (gf_parse_u32(value, &request->fanout) < 0 || request->fanout < 1 ||
                    request->fanout > FLEET_FANOUT_MAX)
                        return wrong(ret_error, "--fanout: \"%s\" is no number from 1 to %d", value, FLEET_FANOUT_MAX);
                return 0;
        case CLI_OPT_HOST_TIMEOUT:
                if (gf_parse_duration(value, &request->host_timeout_ms) < 0 || request->host_timeout_ms == 0)
                        return wrong(ret_error, "--host-timeout: \"%s\" is no duration (like 500ms, 10s, 2m)", value);
                return 0;
        case CLI_OPT_TETHER:
                request->tether = true;
                return 0;
        case CLI_OPT_SHOWN:
                request->shown = value;
                return 0;
        default:
                return -EINVAL;
        }
}

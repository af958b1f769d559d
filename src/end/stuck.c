/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "end/run.h"
#include "sys/pidstat.h"

#define SIGKILL_BIT (1ULL << 8)

static const char *state_name(char state)
{
        switch (state) {
        case 'R':
                return "runs";
        case 'S':
                return "sleeps";
        case 'D':
                return "sleeps uninterruptibly in the kernel";
        case 'T':
                return "is stopped";
        case 't':
                return "is stopped by a debugger";
        case 'Z':
                return "is a zombie whose other threads live";
        default:
                return "is in an unknown state";
        }
}

/* The hexadecimal mask behind `key` in the text of a status file. */
static bool pending(const char *status, const char *key, uint64_t *ret)
{
        const char *at = status;
        char hex[17];
        size_t n;

        while (at && strncmp(at, key, strlen(key)) != 0) {
                at = strchr(at, '\n');
                if (at)
                        at++;
        }
        if (!at)
                return false;
        at += strlen(key);
        at += strspn(at, " \t");
        n = strspn(at, "0123456789abcdefABCDEF");
        if (n == 0 || n >= sizeof(hex))
                return false;
        memcpy(hex, at, n);
        hex[n] = '\0';
        return gf_parse_hex64(hex, ret) == 0;
}

static bool sigkill_pending(const char *status)
{
        uint64_t own = 0, shared = 0;

        if (!status)
                return false;
        (void)pending(status, "SigPnd:", &own);
        (void)pending(status, "ShdPnd:", &shared);
        return ((own | shared) & SIGKILL_BIT) != 0;
}

char *gf_stuck_describe(char state, const char *wchan, const char *status)
{
        bool kill_pending = sigkill_pending(status);
        struct gf_str text = { 0 };
        char *taken;

        gf_str_addf(&text, "it %s (state %c)", state_name(state), state ? state : '?');
        if (wchan && wchan[0] && strcmp(wchan, "0") != 0)
                gf_str_addf(&text, " in %.*s", (int)strcspn(wchan, "\n"), wchan);
        if (kill_pending)
                gf_str_add(&text, ", SIGKILL is pending");
        if (state == 'D' && kill_pending)
                gf_str_add(
                        &text,
                        ": it ends when that call into the kernel returns, or, if its cgroup is frozen (docker pause), "
                        "when that is thawed. Look at the kernel log for Xid or "
                        "\"blocked for more than\" (dmesg); if the driver hangs, only a reset of the GPU or a reboot "
                        "ends it");
        else if (state == 'D')
                gf_str_add(&text, ": it takes no signal until that call into the kernel returns");
        else if (kill_pending)
                gf_str_add(&text, ": it is ending, and the kernel still frees what it had; run the same command again");
        else if (state == 't')
                gf_str_add(&text, ": its debugger keeps it; end the debugger (TracerPid in /proc/PID/status)");
        return gf_str_take(&text, &taken) < 0 ? NULL : taken;
}

char *gf_stuck_sentence(struct gf_env *env, const struct gf_ident *id)
{
        _cleanup_free_ char *wchan = NULL, *status = NULL;
        struct gf_pidstat stat;

        if (gf_pidstat_of(env, id, &stat) < 0)
                return NULL;
        (void)gf_pid_text(env, id->pid, "wchan", &wchan);
        (void)gf_pid_text(env, id->pid, "status", &status);
        /* Read by PID: only if it is still the same process afterwards is the text about it. */
        if (gf_pidstat_of(env, id, &stat) < 0)
                return NULL;
        return gf_stuck_describe(stat.state, wchan, status);
}

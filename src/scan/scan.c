/* SPDX-License-Identifier: MIT */
#include "scan/scan.h"

#include <fcntl.h>
#include <string.h>

#include "base/num.h"
#include "sys/clock.h"
#include "sys/procfs.h"

/* "0.00 0.01 0.05 1/234 5678": 234 threads exist on the machine, whatever PID namespace this is. 0: not told. */
static uint64_t count_existing(const struct gf_env *env)
{
        _cleanup_free_ char *path = gf_asprintf("%s/loadavg", env->proc_root);
        char text[128], *slash, *end;
        uint64_t n;
        ssize_t k;

        k = path ? gf_read_head(AT_FDCWD, path, text, sizeof(text) - 1) : -ENOMEM;
        if (k <= 0)
                return 0;
        text[k] = '\0';
        slash = strchr(text, '/');
        end = slash ? strchr(slash, ' ') : NULL;
        if (!end)
                return 0;
        *end = '\0';
        return gf_parse_u64(slash + 1, &n) == 0 ? n : 0;
}

static int run_proc(struct gf_env *env, const struct gf_wanted *wanted, char **reason, struct gf_scan *ret_scan)
{
        int r = gf_scan_proc(env, wanted, ret_scan);

        if (r == 0)
                ret_scan->method_reason = TAKE(*reason);
        return r;
}

int gf_scan_run(struct gf_env *env, const struct gf_wanted *wanted, struct gf_scan *ret_scan)
{
        _cleanup_free_ char *reason = NULL;
        uint64_t began = gf_now_us();
        int r;

        if (env->scan_method == GPUFREE_SCAN_PROC) {
                r = run_proc(env, wanted, &reason, ret_scan);
        } else {
                r = gf_scan_bpf(env, wanted, ret_scan, &reason);
                if (r < 0 && r != -ECANCELED && r != -ENOMEM) {
                        if (!reason)
                                reason = gf_asprintf("BPF: %s", strerror(-r));
                        if (env->scan_method == GPUFREE_SCAN_BPF)
                                return gf_fail(env, -EOPNOTSUPP,
                                               "a scan with BPF was asked for and does not work here: %s",
                                               reason ? reason : strerror(-r));
                        r = run_proc(env, wanted, &reason, ret_scan);
                }
        }
        if (r < 0)
                return r;
        ret_scan->elapsed_us = gf_now_us() - began;
        ret_scan->existing = count_existing(env);
        return 0;
}

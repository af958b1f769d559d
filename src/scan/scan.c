/* SPDX-License-Identifier: MIT */
#include "scan/scan.h"

#include <string.h>

#include "sys/clock.h"

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
        return 0;
}

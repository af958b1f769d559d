/* SPDX-License-Identifier: MIT */
#include "base/str.h"
#include "scan/scan.h"

/* In place of bpf.c where the build had no clang or bpftool. */
int gf_scan_bpf(_unused_ struct gf_env *env, _unused_ const struct gf_wanted *wanted, _unused_ struct gf_scan *ret_scan,
                char **ret_reason)
{
        char *reason = gf_asprintf("gpufree was built without BPF");

        if (!reason)
                return -ENOMEM;
        *ret_reason = reason;
        return -EOPNOTSUPP;
}

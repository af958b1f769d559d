/* SPDX-License-Identifier: MIT */
#include "scan/scan.h"

/* Stands in for the BPF scanner where it was not built. */
int gf_scan_bpf(struct gf_env *env _unused_, const struct gf_wanted *wanted _unused_, struct gf_scan *ret_scan _unused_,
                char **ret_reason)
{
        *ret_reason = NULL;
        return gf_strset(ret_reason, "gpufree was built without BPF") < 0 ? -ENOMEM : -EOPNOTSUPP;
}

/* SPDX-License-Identifier: MIT */
#include "scan/witness.h"

/* Stands in where gpufree was built without BPF. */
int gf_witness_read(struct gf_env *env _unused_, struct gf_witness *ret_witness)
{
        struct gf_witness witness = { 0 };

        witness.reason = gf_asprintf("gpufree was built without BPF");
        if (!witness.reason)
                return -ENOMEM;
        *ret_witness = witness;
        return 0;
}

/* SPDX-License-Identifier: MIT */
#include "model/witness.h"

#include <stdlib.h>

void gf_witness_done(struct gf_witness *witness)
{
        free(witness->reason);
        gf_vec_done(&witness->facts);
        *witness = (struct gf_witness){ 0 };
}

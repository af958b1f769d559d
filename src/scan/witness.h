/* SPDX-License-Identifier: MIT */
#pragma once

#include <linux/types.h>

#include "../bpf/witness.h"
#include "model/env.h"
#include "model/witness.h"

/*
 * Reads the driver's structures behind every open descriptor: root, the first PID namespace, a kernel and a driver with
 * type information. Where that is not given or something in it is odd, the answer is that nothing is known, with the
 * reason; 0 all the same. -ECANCELED, -ENOMEM.
 */
int gf_witness_read(struct gf_env *env, struct gf_witness *ret_witness);

typedef GF_VEC(struct gf_witness_record) gf_witness_records;

/* The clock behind start times: what our time namespace adds to them, and how many ticks a second has. */
struct gf_witness_clock {
        int64_t boot_offset_ns;
        uint64_t ticks_per_s;
};

/* From the program's records to facts, checked. Pure. -ENOMEM. */
int gf_witness_facts(const gf_witness_records *records, const struct gf_witness_clock *clock,
                     struct gf_witness *witness);

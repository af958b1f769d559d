/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "base/str.h"
#include "gpufree.h"

/* The families about owners: who has how much of which GPU, by kind of owner and user. */
void cli_prom_owners(const gpufree_snapshot *snapshot, struct gf_str *out);

/* prom.c: parts of the format. A value of NULL is no label, GPUFREE_UNKNOWN no sample. */
void cli_prom_label(struct gf_str *labels, const char *name, const char *value);
void cli_prom_gpu(struct gf_str *labels, const gpufree_gpu *gpu, size_t position);
void cli_prom_sample(struct gf_str *samples, const char *name, const struct gf_str *labels, uint64_t value);
/* HELP, TYPE and the samples, which are emptied. */
void cli_prom_family(struct gf_str *out, const char *name, const char *help, struct gf_str *samples);

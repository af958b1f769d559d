/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "gpu/nvml_wire.h"

/*
 * What NVML's return code means at this call and what to do next, as one sentence into `buf`. `gpu` is the index of the
 * GPU that it is about, -1 the library as a whole.
 */
void gf_nvml_sentence(uint32_t call, uint32_t code, int gpu, const char *detail, char *buf, size_t size);

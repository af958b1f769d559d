/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/*
 * Could a dma-buf of this exporter be memory of a GPU? True for every name but those that are known to be plain memory
 * or cameras, so that a new driver's buffers are not missed. "" (unknown) is true.
 */
bool gf_dmabuf_is_gpu(const char *exporter);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "gpu/nvml_abi.h"
#include "gpu/nvml_wire.h"

/* The side of NVML's door that may hang or crash: runs in the child process only. */

enum gf_nvml_list {
        GF_NVML_LIST_COMPUTE,
        GF_NVML_LIST_GRAPHICS,
        GF_NVML_LIST_MPS,
        GF_NVML_LIST_COUNT,
};
#define GF_NVML_LIST_VERSIONS 3 /* _v3, _v2, none, in this order */

/* The library's functions; NULL where it has none. */
struct gf_nvml_api {
        void *library;
        nvml_init_fn init;
        nvml_text_fn driver_version;
        nvml_count_fn count;
        nvml_handle_fn handle;
        nvml_device_text_fn uuid, name;
        nvml_device_number_fn minor, max_mig;
        nvml_device_pci_fn pci;
        nvml_device_memory1_fn memory1;
        nvml_device_memory2_fn memory2;
        nvml_device_list_fn list[GF_NVML_LIST_COUNT][GF_NVML_LIST_VERSIONS];
        nvml_device_utilization_fn utilization;
        nvml_device_rates_fn rates;
        nvml_device_mig_fn mig_mode;
        nvml_device_mig_handle_fn mig_handle;
};

typedef GF_VEC(struct gf_wire_process) gf_wire_processes_vec;

/*
 * Every process list of a device, merged: each PID once an instance. 0: all could be read in full; else the NVML or
 * GF_CODE_… that says why not, with what could be read in `list` all the same. A list that this GPU does not have is no
 * failure. Exits the child when memory runs out.
 */
uint32_t gf_nvml_lists_read(const struct gf_nvml_api *api, nvml_device device, gf_wire_processes_vec *list);

typedef GF_VEC(struct gf_wire_sample) gf_wire_samples_vec;
/* nvml_samples.c: the shares of processes since *since_us, which moves on to the latest of them. As above. */
uint32_t gf_nvml_samples_read(const struct gf_nvml_api *api, nvml_device device, uint64_t *since_us,
                              gf_wire_samples_vec *list);

/*
 * Size of a slot, from what the library wrote into `buf` (`capacity` slots of NVML_SLOT_MAX bytes, filled by
 * gf_nvml_sentinel_fill() before) for `n` processes. 0: not to be told.
 */
void gf_nvml_sentinel_fill(unsigned char *buf, size_t size, unsigned salt);
size_t gf_nvml_measure_slot(const unsigned char *buf, size_t capacity, size_t n, unsigned salt);

int gf_nvml_child_main(int socket, void *userdata);

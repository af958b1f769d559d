/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* The part of NVML's binary interface that the stand-in library and its probe speak, layouts as published. */

enum {
        NVML_SUCCESS = 0,
        NVML_UNINITIALIZED = 1,
        NVML_INVALID_ARGUMENT = 2,
        NVML_NOT_SUPPORTED = 3,
        NVML_NOT_FOUND = 6,
        NVML_INSUFFICIENT_SIZE = 7,
        NVML_DRIVER_NOT_LOADED = 9,
        NVML_ARGUMENT_VERSION_MISMATCH = 25,
        NVML_UNKNOWN = 999,
};

typedef struct nvml_device *nvml_device;

struct nvml_process_v1 {
        uint32_t pid;
        uint64_t used;
};
struct nvml_process_v2 {
        uint32_t pid;
        uint64_t used;
        uint32_t gpu_instance, compute_instance;
};
/* What drivers 535.43.02 to 535.86.05 wrote through the _v3 functions. */
struct nvml_process_32 {
        uint32_t pid;
        uint64_t used;
        uint32_t gpu_instance, compute_instance;
        uint64_t used_protected;
};
struct nvml_utilization {
        uint32_t pid;
        uint64_t time_us;
        uint32_t sm, memory, encoder, decoder;
};
struct nvml_rates {
        uint32_t gpu, memory;
};
struct nvml_memory_v1 {
        uint64_t total, free, used; /* used: with what is reserved */
};
struct nvml_memory_v2 {
        uint32_t version;
        uint64_t total, reserved, free, used; /* used: without */
};
#define NVML_MEMORY_V2 0x02000028u
struct nvml_pci_v3 {
        char bus_id_legacy[16];
        uint32_t domain, bus, device, device_id, subsystem_id;
        char bus_id[32];
};

_Static_assert(sizeof(struct nvml_process_v1) == 16, "v1");
_Static_assert(sizeof(struct nvml_process_v2) == 24, "v2");
_Static_assert(sizeof(struct nvml_process_32) == 32, "535");
_Static_assert(sizeof(struct nvml_memory_v1) == 24, "memory v1");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "memory v2");
_Static_assert(sizeof(struct nvml_pci_v3) == 68, "pci v3");

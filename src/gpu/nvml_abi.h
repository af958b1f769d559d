/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * The part of NVML's binary interface that gpufree uses, declared here because the library is loaded at run time and
 * its header need not be installed. Layouts are those of the versions named.
 */
typedef struct nvml_device *nvml_device;

enum nvml_return {
        NVML_SUCCESS = 0,
        NVML_UNINITIALIZED = 1,
        NVML_INVALID_ARGUMENT = 2,
        NVML_NOT_SUPPORTED = 3,
        NVML_NO_PERMISSION = 4,
        NVML_NOT_FOUND = 6,
        NVML_INSUFFICIENT_SIZE = 7,
        NVML_DRIVER_NOT_LOADED = 9,
        NVML_TIMEOUT = 10,
        NVML_IRQ_ISSUE = 11,
        NVML_LIBRARY_NOT_FOUND = 12,
        NVML_FUNCTION_NOT_FOUND = 13,
        NVML_GPU_IS_LOST = 15,
        NVML_RESET_REQUIRED = 16,
        NVML_OPERATING_SYSTEM = 17,
        NVML_LIB_RM_VERSION_MISMATCH = 18,
        NVML_IN_USE = 19,
        NVML_MEMORY = 20,
        NVML_ARGUMENT_VERSION_MISMATCH = 25,
        NVML_GPU_NOT_FOUND = 28,
        NVML_UNKNOWN = 999,
};

/* Functions return int, not the enumeration: a newer library has values that are not in it. */
struct nvml_memory_v1 {
        uint64_t total, free, used; /* used with what the driver reserved, where the driver knows of it */
};

#define NVML_MEMORY_V2 0x02000028u
struct nvml_memory_v2 {
        uint32_t version;
        uint64_t total, reserved, free, used;
};
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");

/* v2 (52 bytes) and v3 (68 bytes) agree up to pciSubSystemId; v3 has a longer bus id behind it. */
struct nvml_pci {
        char bus_id_legacy[16];
        uint32_t domain, bus, device, device_id, subsystem_id;
        char bus_id[32];
        char room[64]; /* of ours, for a version to come */
};

/* One slot of a process list: u32 pid at 0, u64 memory at 8, and from 24 bytes on u32 GPU and compute instance at
 * 16, 20. */
#define NVML_SLOT_V1 16
#define NVML_SLOT_V2 24
#define NVML_SLOT_ODD 32 /* drivers 535.43.02 to 535.86.05 */
#define NVML_SLOT_MAX 32
#define NVML_LIST_CAP 950 /* the kernel driver lists no more */

/* One process's share of the GPU since the time that was asked about; the times are the library's own. */
struct nvml_utilization {
        uint32_t pid;
        uint64_t time_us;
        uint32_t sm, memory, encoder, decoder; /* percent */
};
_Static_assert(sizeof(struct nvml_utilization) == 32, "nvmlProcessUtilizationSample_t");

/* The whole GPU, over the driver's last sampling period (a sixth of a second to a second). */
struct nvml_rates {
        uint32_t gpu, memory; /* percent */
};
_Static_assert(sizeof(struct nvml_rates) == 8, "nvmlUtilization_t");

#define NVML_UUID_SIZE 96
#define NVML_NAME_SIZE 96
#define NVML_VERSION_SIZE 80

/* name here, the symbols to try in order (the first that the library has is taken), arguments */
typedef int (*nvml_init_fn)(void);
typedef int (*nvml_text_fn)(char *text, unsigned length);
typedef int (*nvml_count_fn)(unsigned *count);
typedef int (*nvml_handle_fn)(unsigned index, nvml_device *device);
typedef int (*nvml_device_text_fn)(nvml_device device, char *text, unsigned length);
typedef int (*nvml_device_number_fn)(nvml_device device, unsigned *number);
typedef int (*nvml_device_pci_fn)(nvml_device device, struct nvml_pci *pci);
typedef int (*nvml_device_memory1_fn)(nvml_device device, struct nvml_memory_v1 *memory);
typedef int (*nvml_device_memory2_fn)(nvml_device device, struct nvml_memory_v2 *memory);
typedef int (*nvml_device_list_fn)(nvml_device device, unsigned *count, void *slots);
typedef int (*nvml_device_utilization_fn)(nvml_device device, struct nvml_utilization *samples, unsigned *count,
                                          uint64_t since_us);
typedef int (*nvml_device_rates_fn)(nvml_device device, struct nvml_rates *rates);
typedef int (*nvml_device_mig_fn)(nvml_device device, unsigned *current, unsigned *pending);
typedef int (*nvml_device_mig_handle_fn)(nvml_device device, unsigned index, nvml_device *mig);

/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for the NVIDIA driver's libnvidia-ml.so.1. Says what a driver would say of the simulated node that
 * GPUFREE_SIM_DIR names: memory is used for as long as the real processes it is booked to really hold their device.
 * GPUFREE_SIM_FAULT makes it misbehave, see fault.h. It serves one thread at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "fault.h"
#include "nvml_abi.h"
#include "state.h"

#define LIST_CAP 950 /* the kernel driver lists no more */
#define API __attribute__((visibility("default")))

/* The interface has no handle for the library itself, so its state is the library's, as with the real one. */
static struct {
        unsigned users;
        int dir;
        struct sim_fault fault;
        struct sim_state state;
        int nodes[SIM_MAX_GPUS + 1]; /* the library of the driver holds every GPU's device as well */
} self = { .dir = -1 };

static struct sim_gpu *to_gpu(nvml_device device)
{
        for (size_t i = 0; i < self.state.n_gpus; i++)
                if (__extension__(void *) device == (void *)&self.state.gpus[i])
                        return &self.state.gpus[i];
        return NULL;
}

/* Hangs, crashes or fails where it was told to; else success. `gpu` NULL: no GPU in particular. */
static int stage(enum sim_call call, const struct sim_gpu *gpu)
{
        const struct sim_fault *f = &self.fault;

        while (f->hang == call)
                (void)pause();
        if (f->crash == call)
                (void)raise(SIGSEGV);
        if (f->error != 0 && f->error_call == call && (!gpu || f->error_gpu < 0 || f->error_gpu == gpu->index))
                return (int)f->error;
        return NVML_SUCCESS;
}

static int open_node(const char *name)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "dev/%s", name);
        return openat(self.dir, path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

static void close_all(void)
{
        for (size_t i = 0; i < ELEMENTSOF(self.nodes); i++)
                self.nodes[i] = gf_close(self.nodes[i]);
        self.dir = gf_close(self.dir);
}

API int nvmlInitWithFlags(unsigned flags);
API int nvmlInitWithFlags(unsigned flags)
{
        const char *dir = getenv("GPUFREE_SIM_DIR");
        int r;

        (void)flags;
        if (self.users > 0) {
                self.users++;
                return NVML_SUCCESS;
        }
        if (!dir)
                return NVML_DRIVER_NOT_LOADED;
        if (sim_fault_parse(getenv("GPUFREE_SIM_FAULT"), &self.fault) < 0) {
                /* A test with a mistyped fault must not pass by chance. */
                (void)dprintf(STDERR_FILENO, "libnvidia-ml (simulated): GPUFREE_SIM_FAULT not understood\n");
                return NVML_UNKNOWN;
        }
        for (size_t i = 0; i < ELEMENTSOF(self.nodes); i++)
                self.nodes[i] = -1;
        self.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (self.dir < 0 || sim_state_read(self.dir, &self.state) < 0) {
                close_all();
                return NVML_DRIVER_NOT_LOADED;
        }
        for (size_t i = 0; i < self.state.n_gpus; i++) {
                char name[32];

                (void)snprintf(name, sizeof(name), "nvidia%d", self.state.gpus[i].minor);
                self.nodes[i] = open_node(name);
        }
        self.nodes[SIM_MAX_GPUS] = open_node("nvidiactl");
        r = stage(SIM_CALL_INIT, NULL);
        if (r != NVML_SUCCESS) {
                close_all();
                return r;
        }
        self.users = 1;
        return NVML_SUCCESS;
}

API int nvmlInit_v2(void);
API int nvmlInit_v2(void)
{
        return nvmlInitWithFlags(0);
}

API int nvmlInit(void);
API int nvmlInit(void)
{
        return nvmlInitWithFlags(0);
}

API int nvmlShutdown(void);
API int nvmlShutdown(void)
{
        if (self.users == 0)
                return NVML_UNINITIALIZED;
        if (--self.users == 0)
                close_all();
        return NVML_SUCCESS;
}

API const char *nvmlErrorString(int result);
API const char *nvmlErrorString(int result)
{
        static const struct {
                int code;
                const char *text;
        } table[] = {
                { 0, "Success" },
                { 1, "Uninitialized" },
                { 2, "Invalid Argument" },
                { 3, "Not Supported" },
                { 4, "Insufficient Permissions" },
                { 6, "Not Found" },
                { 7, "Insufficient Size" },
                { 8, "Insufficient External Power" },
                { 9, "Driver Not Loaded" },
                { 10, "Timeout" },
                { 11, "Interrupt Request Issue" },
                { 12, "NVML Shared Library Not Found" },
                { 13, "Function Not Found" },
                { 14, "Corrupted infoROM" },
                { 15, "GPU is lost" },
                { 16, "GPU requires reset" },
                { 17, "GPU access blocked by the operating system" },
                { 18, "Driver/library version mismatch" },
                { 19, "GPU is in use" },
                { 20, "Insufficient Memory" },
                { 21, "No Data" },
                { 25, "Argument version mismatch" },
                { 28, "GPU not found" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (table[i].code == result)
                        return table[i].text;
        return "Unknown Error";
}

static int give(char *dst, unsigned size, const char *text)
{
        if (!dst)
                return NVML_INVALID_ARGUMENT;
        if (strlen(text) >= size)
                return NVML_INSUFFICIENT_SIZE;
        memcpy(dst, text, strlen(text) + 1);
        return NVML_SUCCESS;
}

/* The beginning of each call on a device. */
#define DEVICE_CALL(device, gpu)                                                                                       \
        struct sim_gpu *gpu;                                                                                           \
        if (self.users == 0)                                                                                           \
                return NVML_UNINITIALIZED;                                                                             \
        gpu = to_gpu(device);                                                                                          \
        if (!gpu)                                                                                                      \
        return NVML_INVALID_ARGUMENT

API int nvmlSystemGetDriverVersion(char *version, unsigned length);
API int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
        return self.users == 0 ? NVML_UNINITIALIZED : give(version, length, self.state.driver);
}

API int nvmlSystemGetNVMLVersion(char *version, unsigned length);
API int nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
        char text[64];

        (void)snprintf(text, sizeof(text), "13.%s", self.users > 0 ? self.state.driver : "0");
        return give(version, length, text);
}

API int nvmlDeviceGetCount_v2(unsigned *count);
API int nvmlDeviceGetCount_v2(unsigned *count)
{
        if (self.users == 0)
                return NVML_UNINITIALIZED;
        if (!count)
                return NVML_INVALID_ARGUMENT;
        *count = (unsigned)self.state.n_gpus;
        return NVML_SUCCESS;
}

API int nvmlDeviceGetCount(unsigned *count);
API int nvmlDeviceGetCount(unsigned *count)
{
        return nvmlDeviceGetCount_v2(count);
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device);
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device)
{
        int r;

        if (self.users == 0)
                return NVML_UNINITIALIZED;
        if (!device || index >= self.state.n_gpus)
                return NVML_INVALID_ARGUMENT;
        r = stage(SIM_CALL_HANDLE, &self.state.gpus[index]);
        if (r == NVML_SUCCESS)
                *device = (void *)&self.state.gpus[index];
        return r;
}

API int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *device);
API int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *device)
{
        return nvmlDeviceGetHandleByIndex_v2(index, device);
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *device);
API int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *device)
{
        if (self.users == 0)
                return NVML_UNINITIALIZED;
        for (unsigned i = 0; i < self.state.n_gpus; i++)
                if (gf_streq(uuid, self.state.gpus[i].uuid))
                        return nvmlDeviceGetHandleByIndex_v2(i, device);
        return NVML_NOT_FOUND;
}

API int nvmlDeviceGetIndex(nvml_device device, unsigned *index);
API int nvmlDeviceGetIndex(nvml_device device, unsigned *index)
{
        DEVICE_CALL(device, gpu);
        if (!index)
                return NVML_INVALID_ARGUMENT;
        *index = (unsigned)gpu->index;
        return NVML_SUCCESS;
}

API int nvmlDeviceGetMinorNumber(nvml_device device, unsigned *number);
API int nvmlDeviceGetMinorNumber(nvml_device device, unsigned *number)
{
        DEVICE_CALL(device, gpu);
        if (!number)
                return NVML_INVALID_ARGUMENT;
        *number = (unsigned)gpu->minor;
        return NVML_SUCCESS;
}

API int nvmlDeviceGetUUID(nvml_device device, char *uuid, unsigned length);
API int nvmlDeviceGetUUID(nvml_device device, char *uuid, unsigned length)
{
        DEVICE_CALL(device, gpu);
        return give(uuid, length, gpu->uuid);
}

API int nvmlDeviceGetName(nvml_device device, char *name, unsigned length);
API int nvmlDeviceGetName(nvml_device device, char *name, unsigned length)
{
        DEVICE_CALL(device, gpu);
        return give(name, length, gpu->name);
}

API int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci_v3 *pci);
API int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci_v3 *pci)
{
        struct nvml_pci_v3 info = { .device_id = 0x233510de, .subsystem_id = 0x18be10de };
        DEVICE_CALL(device, gpu);

        /* Kept as sysfs writes it, "0000:18:00.0"; NVML answers with eight digits and capitals. */
        if (!pci)
                return NVML_INVALID_ARGUMENT;
        if (sscanf(gpu->pci, "%x:%x:%x", &info.domain, &info.bus, &info.device) != 3)
                return NVML_UNKNOWN;
        (void)snprintf(info.bus_id, sizeof(info.bus_id), "%08X:%02X:%02X.0", info.domain, info.bus & 0xff,
                       info.device & 0x1f);
        (void)snprintf(info.bus_id_legacy, sizeof(info.bus_id_legacy), "%04X:%02X:%02X.0", info.domain & 0xffff,
                       info.bus & 0xff, info.device & 0x1f);
        *pci = info;
        return NVML_SUCCESS;
}

/* Since when the memory of this ended holder has been missing; noted on disk where possible, for later callers. */
static uint64_t gone_since(const struct sim_record *record)
{
        uint64_t now = sim_now_ms(), since;
        char path[64], text[32];
        int length;
        _cleanup_close_ int fd = -1;

        (void)snprintf(path, sizeof(path), "gone/%d.%llu", (int)record->id.pid, (unsigned long long)record->id.start);
        if (sim_read(self.dir, path, text, sizeof(text)) > 0 && gf_parse_u64(text, &since) == 0)
                return since;
        length = snprintf(text, sizeof(text), "%llu", (unsigned long long)now);
        fd = openat(self.dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd >= 0)
                (void)!write(fd, text, (size_t)length);
        return now;
}

/* Is the memory of this record still used? */
static bool uses_memory(const struct sim_record *record)
{
        if (record->memory == 0)
                return false;
        if (sim_record_held(record) || self.fault.never)
                return true;
        return self.fault.late_ms > 0 && sim_now_ms() < gone_since(record) + self.fault.late_ms;
}

static int read_used(const struct sim_gpu *gpu, uint64_t *ret_used)
{
        sim_records records = { 0 };
        uint64_t used = 0;

        if (sim_records_read(self.dir, &records) < 0)
                return NVML_UNKNOWN;
        for (size_t i = 0; i < records.n; i++)
                if (records.v[i].gpu == gpu->index && uses_memory(&records.v[i]))
                        used += records.v[i].memory;
        gf_vec_done(&records);
        /* More may be booked than there is: still no GPU uses more than it has. */
        *ret_used = used < gpu->total - gpu->reserved ? used : gpu->total - gpu->reserved;
        return NVML_SUCCESS;
}

API int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory_v1 *memory);
API int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory_v1 *memory)
{
        uint64_t used = 0;
        int r;
        DEVICE_CALL(device, gpu);

        if (!memory)
                return NVML_INVALID_ARGUMENT;
        r = stage(SIM_CALL_MEMORY, gpu);
        if (r == NVML_SUCCESS)
                r = read_used(gpu, &used);
        if (r != NVML_SUCCESS)
                return r;
        memory->total = gpu->total;
        memory->used = used + gpu->reserved;
        memory->free = gpu->total - memory->used;
        return NVML_SUCCESS;
}

static int get_memory_v2(nvml_device device, struct nvml_memory_v2 *memory)
{
        uint64_t used = 0;
        int r;
        DEVICE_CALL(device, gpu);

        if (!memory)
                return NVML_INVALID_ARGUMENT;
        if (memory->version != NVML_MEMORY_V2)
                return NVML_ARGUMENT_VERSION_MISMATCH;
        r = stage(SIM_CALL_MEMORY, gpu);
        if (r == NVML_SUCCESS)
                r = read_used(gpu, &used);
        if (r != NVML_SUCCESS)
                return r;
        memory->total = gpu->total;
        memory->reserved = gpu->reserved;
        memory->used = used;
        memory->free = gpu->total - gpu->reserved - used;
        return NVML_SUCCESS;
}

/* A process that lives and has let go of its device has no context any more, whoever else keeps its memory. */
static bool is_parked(const struct sim_record *record)
{
        for (size_t i = 0; i < record->n_keepers; i++) {
                const struct sim_keeper *k = &record->keepers[i];

                if (k->id.pid == record->id.pid && k->id.start == record->id.start)
                        return sim_alive(&k->id) && !sim_holds(&k->id, k->check);
        }
        return false;
}

static bool is_listed(const struct sim_record *record)
{
        if (!record->listed || self.fault.hide_pids || is_parked(record))
                return false;
        return self.fault.dead_pids || sim_record_held(record);
}

static void put_process(void *slot, size_t stride, const struct sim_record *record)
{
        struct nvml_process_32 p = { (uint32_t)record->id.pid, record->memory, UINT32_MAX, UINT32_MAX, 0 };

        memset(slot, 0, stride);
        memcpy(slot, &p, stride < sizeof(p) ? stride : sizeof(p));
}

/* The layouts have a common beginning, so that one function serves all with `stride` bytes a slot. */
static int list_compute(nvml_device device, unsigned *count, void *infos, size_t stride)
{
        sim_records records = { 0 };
        unsigned n = 0;
        int r;
        DEVICE_CALL(device, gpu);

        if (!count || (*count > 0 && !infos))
                return NVML_INVALID_ARGUMENT;
        r = stage(SIM_CALL_LIST, gpu);
        if (r != NVML_SUCCESS)
                return r;
        if (sim_records_read(self.dir, &records) < 0)
                return NVML_UNKNOWN;
        for (size_t i = 0; i < records.n; i++) {
                if (records.v[i].gpu != gpu->index || !is_listed(&records.v[i]))
                        continue;
                if (n < *count)
                        put_process((char *)infos + n * stride, stride, &records.v[i]);
                n++;
        }
        /* PIDs that no machine has, without memory: what is told of the list is only that it is full. */
        for (unsigned i = 0; self.fault.full_list && n < LIST_CAP; i++, n++) {
                struct sim_record filler = { .id = { .pid = (pid_t)(2000000000 + i) } };

                if (n < *count)
                        put_process((char *)infos + n * stride, stride, &filler);
        }
        gf_vec_done(&records);
        r = n > *count ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
        *count = n;
        return r;
}

API int nvmlDeviceGetProcessUtilization(nvml_device device, struct nvml_utilization *samples, unsigned *count,
                                        uint64_t since_us);
API int nvmlDeviceGetProcessUtilization(nvml_device device, struct nvml_utilization *samples, unsigned *count,
                                        uint64_t since_us)
{
        sim_records records = { 0 };
        uint64_t now_us = sim_now_ms() * 1000;
        unsigned n = 0, room;
        DEVICE_CALL(device, gpu);

        if (!count)
                return NVML_INVALID_ARGUMENT;
        room = samples ? *count : 0;
        if (self.fault.busy == 0 || now_us <= since_us)
                return NVML_NOT_FOUND;
        if (sim_records_read(self.dir, &records) < 0)
                return NVML_UNKNOWN;
        for (size_t i = 0; i < records.n; i++) {
                if (records.v[i].gpu != gpu->index || !is_listed(&records.v[i]))
                        continue;
                if (n < room)
                        samples[n] = (struct nvml_utilization){ .pid = (uint32_t)records.v[i].id.pid,
                                                                .time_us = now_us,
                                                                .sm = (uint32_t)self.fault.busy };
                n++;
        }
        gf_vec_done(&records);
        *count = n;
        return n > room ? NVML_INSUFFICIENT_SIZE : n > 0 ? NVML_SUCCESS : NVML_NOT_FOUND;
}

/* What `gpufree-sim busy` has set; 0. */
static unsigned set_busy(const struct sim_gpu *gpu)
{
        char path[32], text[32];
        uint32_t percent;

        (void)snprintf(path, sizeof(path), "busy/%d", gpu->index);
        if (sim_read(self.dir, path, text, sizeof(text)) <= 0 || gf_parse_u32(text, &percent) < 0)
                return 0;
        return percent < 100 ? percent : 100;
}

API int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_rates *rates);
API int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_rates *rates)
{
        struct nvml_rates now = { 0 };
        sim_records records = { 0 };
        int r;
        DEVICE_CALL(device, gpu);

        if (!rates)
                return NVML_INVALID_ARGUMENT;
        r = stage(SIM_CALL_UTILIZATION, gpu);
        if (r != NVML_SUCCESS)
                return r;
        now.gpu = set_busy(gpu);
        if (sim_records_read(self.dir, &records) < 0)
                return NVML_UNKNOWN;
        for (size_t i = 0; i < records.n; i++)
                if (records.v[i].gpu == gpu->index && is_listed(&records.v[i]) && now.gpu < self.fault.busy)
                        now.gpu = (uint32_t)self.fault.busy;
        gf_vec_done(&records);
        *rates = now;
        return NVML_SUCCESS;
}

/* Nobody draws on a simulated GPU, and there is no MPS server. */
static int list_nobody(nvml_device device, unsigned *count)
{
        int r;
        DEVICE_CALL(device, gpu);

        if (!count)
                return NVML_INVALID_ARGUMENT;
        r = stage(SIM_CALL_LIST, gpu);
        if (r == NVML_SUCCESS)
                *count = 0;
        return r;
}

static int compute_v1(nvml_device device, unsigned *count, void *infos)
{
        return list_compute(device, count, infos, sizeof(struct nvml_process_v1));
}

static int compute_v2(nvml_device device, unsigned *count, void *infos)
{
        return list_compute(device, count, infos, sizeof(struct nvml_process_v2));
}

static int compute_v3(nvml_device device, unsigned *count, void *infos)
{
        return list_compute(device, count, infos,
                            self.fault.stride32 ? sizeof(struct nvml_process_32) : sizeof(struct nvml_process_v2));
}

static int nobody(nvml_device device, unsigned *count, void *infos)
{
        (void)infos;
        return list_nobody(device, count);
}

/*
 * A driver that lacks a function has no such symbol. Here an indirect function decides when it is looked up:
 * dlsym() gives NULL for one that the fault hides.
 */
static bool hidden(int version)
{
        struct sim_fault fault;

        if (sim_fault_parse(getenv("GPUFREE_SIM_FAULT"), &fault) < 0)
                return false;
        return (version == 3 && fault.no_v3) || (version == 2 && fault.no_v2);
}

typedef int list_function(nvml_device device, unsigned *count, void *infos);
#define VERSIONED(name, version, function)                                                                             \
        __attribute__((used)) static list_function *resolve_##name(void);                                              \
        static list_function *resolve_##name(void)                                                                     \
        {                                                                                                              \
                return hidden(version) ? NULL : (function);                                                            \
        }                                                                                                              \
        API int name(nvml_device device, unsigned *count, void *infos) __attribute__((ifunc("resolve_" #name)))

VERSIONED(nvmlDeviceGetComputeRunningProcesses, 1, compute_v1);
VERSIONED(nvmlDeviceGetComputeRunningProcesses_v2, 2, compute_v2);
VERSIONED(nvmlDeviceGetComputeRunningProcesses_v3, 3, compute_v3);
VERSIONED(nvmlDeviceGetGraphicsRunningProcesses, 1, nobody);
VERSIONED(nvmlDeviceGetGraphicsRunningProcesses_v2, 2, nobody);
VERSIONED(nvmlDeviceGetGraphicsRunningProcesses_v3, 3, nobody);
VERSIONED(nvmlDeviceGetMPSComputeRunningProcesses, 1, nobody);
VERSIONED(nvmlDeviceGetMPSComputeRunningProcesses_v2, 2, nobody);
VERSIONED(nvmlDeviceGetMPSComputeRunningProcesses_v3, 3, nobody);

typedef int memory_function(nvml_device device, struct nvml_memory_v2 *memory);
__attribute__((used)) static memory_function *resolve_memory(void);
static memory_function *resolve_memory(void)
{
        return hidden(2) ? NULL : get_memory_v2;
}
API int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory_v2 *memory)
        __attribute__((ifunc("resolve_memory")));

API int nvmlDeviceGetMigMode(nvml_device device, unsigned *current, unsigned *pending);
API int nvmlDeviceGetMigMode(nvml_device device, unsigned *current, unsigned *pending)
{
        DEVICE_CALL(device, gpu);
        if (!current || !pending)
                return NVML_INVALID_ARGUMENT;
        *current = *pending = 0;
        return NVML_SUCCESS;
}

API int nvmlDeviceGetMaxMigDeviceCount(nvml_device device, unsigned *count);
API int nvmlDeviceGetMaxMigDeviceCount(nvml_device device, unsigned *count)
{
        DEVICE_CALL(device, gpu);
        if (!count)
                return NVML_INVALID_ARGUMENT;
        *count = 7;
        return NVML_SUCCESS;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device device, unsigned index, nvml_device *mig);
API int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device device, unsigned index, nvml_device *mig)
{
        DEVICE_CALL(device, gpu);
        (void)index;
        return mig ? NVML_NOT_FOUND : NVML_INVALID_ARGUMENT;
}

API int nvmlDeviceGetPersistenceMode(nvml_device device, unsigned *mode);
API int nvmlDeviceGetPersistenceMode(nvml_device device, unsigned *mode)
{
        DEVICE_CALL(device, gpu);
        if (!mode)
                return NVML_INVALID_ARGUMENT;
        *mode = 1;
        return NVML_SUCCESS;
}

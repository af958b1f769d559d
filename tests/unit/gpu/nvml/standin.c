/* SPDX-License-Identifier: MIT */
/*
 * A stand-in libnvidia-ml.so.1 for the unit tests. GF_TEST_NVML in the environment says how it behaves: words
 * "name=number", "name:GPU=number", separated by blanks:
 *
 * gpus=2  pids=3 (a list)  stride=24 (of _v3)  clear=1 (zeroes all the room first)  ones=1 (no memory figures)
 * pid=1000 (the first)  both=1 (the same PIDs in the graphics list)  badpid=1  nomem2=CODE  mig=1  noise=1
 * init= count= handle:N= uuid:N= memory:N= lists:N= graphics:N= mps:N=CODE  grow=N (says "too small" N times)
 * busy:N=PERCENT  rates:N=CODE (of the whole GPU)
 * evil=N (speaks in the child's name: a record of each kind that breaks a rule)
 * hang-init=1 hang-handle:N=1 hang-lists:N=1 crash-init=1 crash-lists:N=1 slow=MS (each handle)
 *
 * Built without GF_HAVE_V3 or GF_HAVE_V2 it is an older library, that has no such symbols.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "gpu/nvml_wire.h"

#define EXPORT __attribute__((visibility("default")))

struct pci {
        char legacy[16];
        unsigned domain, bus, device, device_id, subsystem;
        char bus_id[32];
};
struct memory1 {
        unsigned long long total, free, used;
};
struct memory2 {
        unsigned version;
        unsigned long long total, reserved, free, used;
};

static long setting(const char *name, long fallback)
{
        const char *text = getenv("GF_TEST_NVML");
        size_t length = strlen(name);

        for (; text && *text; text++) {
                if (strncmp(text, name, length) == 0 && text[length] == '=')
                        return strtol(text + length + 1, NULL, 10);
                text = strchr(text, ' ');
                if (!text)
                        break;
        }
        return fallback;
}

static long gpu_setting(const char *name, const void *device, long fallback)
{
        char key[64];

        snprintf(key, sizeof(key), "%s:%ld", name, (long)(intptr_t)device - 1);
        return setting(key, fallback);
}

static void hang(void)
{
        for (;;)
                pause();
}

static void crash(void)
{
        raise(SIGSEGV);
}

EXPORT int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
        if (setting("noise", 0)) {
                printf("noise of a driver library\n");
                fprintf(stderr, "noise of a driver library\n");
                fflush(stdout);
        }
        if (setting("hang-init", 0))
                hang();
        if (setting("crash-init", 0))
                crash();
        return (int)setting("init", 0);
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned length);
int nvmlSystemGetDriverVersion(char *text, unsigned length)
{
        snprintf(text, length, "580.159.04");
        return 0;
}

static void speak(void *record, size_t size, uint32_t type)
{
        struct gf_wire_head *head = record;

        *head = (struct gf_wire_head){ GF_WIRE_MAGIC, type, 1 };
        (void)send(3, record, size, MSG_NOSIGNAL);
}

/* What a child gone mad could say: first what is right, as far as it is needed, then what is wrong; then it hangs. */
static void speak_evil(long kind)
{
        struct gf_wire_status status = { .gpus = 1 };
        struct gf_wire_mark mark = { .index = 0 };
        struct gf_wire_gpu gpu = { .index = 0 };
        static struct gf_wire_processes processes;
        static char big[1 << 16];

        if (kind >= 5)
                speak(&status, sizeof(status), GF_WIRE_STATUS);
        if (kind >= 8)
                speak(&mark, sizeof(mark), GF_WIRE_BEGIN);
        if (kind >= 10)
                speak(&gpu, sizeof(gpu), GF_WIRE_GPU);
        processes.v[0].pid = 5;
        switch (kind) {
        case 1: /* not the protocol */
                (void)send(3, "rubbish", 7, MSG_NOSIGNAL);
                break;
        case 2: /* longer than any record */
                (void)send(3, big, sizeof(big), MSG_NOSIGNAL);
                break;
        case 3:
                status.gpus = 1000000;
                speak(&status, sizeof(status), GF_WIRE_STATUS);
                break;
        case 4: /* a text without an end */
                memset(status.version, 'x', sizeof(status.version));
                speak(&status, sizeof(status), GF_WIRE_STATUS);
                break;
        case 5: /* a GPU that was not begun */
                speak(&gpu, sizeof(gpu), GF_WIRE_GPU);
                break;
        case 6:
                mark.index = 7;
                speak(&mark, sizeof(mark), GF_WIRE_BEGIN);
                break;
        case 7: /* the end before the GPU */
                speak(&mark, sizeof(mark), GF_WIRE_END);
                break;
        case 8: /* processes before their GPU */
                processes.n = 1;
                speak(&processes, sizeof(processes), GF_WIRE_PROCESSES);
                break;
        case 9:
                memset(gpu.name, 'x', sizeof(gpu.name));
                speak(&gpu, sizeof(gpu), GF_WIRE_GPU);
                break;
        case 10: /* more than there is in a record */
                processes.n = 100000;
                speak(&processes, sizeof(processes), GF_WIRE_PROCESSES);
                break;
        case 11: /* cut short */
                processes.n = 1;
                speak(&processes, sizeof(processes) / 2, GF_WIRE_PROCESSES);
                break;
        case 12: /* without end */
                processes.n = GF_WIRE_BATCH;
                for (uint32_t i = 0; i < GF_WIRE_BATCH; i++)
                        processes.v[i].pid = i + 1;
                for (int i = 0; i < 1000; i++)
                        speak(&processes, sizeof(processes), GF_WIRE_PROCESSES);
                break;
        case 13:
                processes.n = 1;
                processes.v[0].pid = 0;
                speak(&processes, sizeof(processes), GF_WIRE_PROCESSES);
                break;
        case 14: /* the same GPU again */
                speak(&gpu, sizeof(gpu), GF_WIRE_GPU);
                break;
        default: /* a kind of record that does not exist */
                speak(&mark, sizeof(mark), 99);
        }
        hang();
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count)
{
        if (setting("evil", 0))
                speak_evil(setting("evil", 0));
        *count = (unsigned)setting("gpus", 2);
        return (int)setting("count", 0);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
        long ms = setting("slow", 0);
        struct timespec pause_for = { ms / 1000, ms % 1000 * 1000000 };

        *device = (void *)(intptr_t)(index + 1);
        if (gpu_setting("hang-handle", *device, 0))
                hang();
        if (ms)
                nanosleep(&pause_for, NULL);
        return (int)gpu_setting("handle", *device, 0);
}

EXPORT int nvmlDeviceGetUUID(void *device, char *text, unsigned length);
int nvmlDeviceGetUUID(void *device, char *text, unsigned length)
{
        snprintf(text, length, "GPU-00000000-0000-0000-0000-%012ld", (long)(intptr_t)device - 1);
        return (int)gpu_setting("uuid", device, 0);
}

EXPORT int nvmlDeviceGetName(void *device, char *text, unsigned length);
int nvmlDeviceGetName(void *device, char *text, unsigned length)
{
        (void)device;
        snprintf(text, length, "NVIDIA Stand-in");
        return 0;
}

/* Minors the other way round than indices, as on machines where the probe order is not the PCI order. */
EXPORT int nvmlDeviceGetMinorNumber(void *device, unsigned *number);
int nvmlDeviceGetMinorNumber(void *device, unsigned *number)
{
        *number = (unsigned)(setting("gpus", 2) - (long)(intptr_t)device);
        return 0;
}

#ifdef GF_HAVE_V3
EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci);
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci)
{
        pci->domain = 0;
        pci->bus = 0x18 + (unsigned)(intptr_t)device - 1;
        pci->device = 0;
        snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
        return 0;
}
#else
EXPORT int nvmlDeviceGetPciInfo_v2(void *device, struct pci *pci);
int nvmlDeviceGetPciInfo_v2(void *device, struct pci *pci)
{
        pci->domain = 0;
        pci->bus = 0x18 + (unsigned)(intptr_t)device - 1;
        pci->device = 0;
        return 0;
}
#endif

EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct memory1 *memory);
int nvmlDeviceGetMemoryInfo(void *device, struct memory1 *memory)
{
        *memory = (struct memory1){ 1000ull << 20, 285ull << 20, 715ull << 20 };
        return (int)gpu_setting("memory", device, 0);
}

#ifdef GF_HAVE_V3
EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory2 *memory);
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory2 *memory)
{
        if (setting("nomem2", 0))
                return (int)setting("nomem2", 0);
        if (memory->version != 0x02000028u)
                return 25;
        *memory = (struct memory2){ memory->version, 1000ull << 20, 615ull << 20, 285ull << 20, 100ull << 20 };
        return (int)gpu_setting("memory", device, 0);
}
#endif

#ifdef GF_HAVE_V2
struct rates {
        unsigned gpu, memory;
};
EXPORT int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates);
int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates)
{
        *rates = (struct rates){ (unsigned)gpu_setting("busy", device, 0), 99 };
        return (int)gpu_setting("rates", device, 0);
}
#endif

static void put_slot(unsigned char *slot, size_t stride, uint32_t pid, uint64_t memory)
{
        uint32_t none = UINT32_MAX;
        uint64_t zero = 0;

        memcpy(slot, &pid, 4);
        memcpy(slot + 8, &memory, 8);
        if (stride >= 24) {
                memcpy(slot + 16, &none, 4);
                memcpy(slot + 20, &none, 4);
        }
        if (stride >= 32)
                memcpy(slot + 24, &zero, 8);
}

/* As the real one: the count is room on the way in, and what there is on the way out. */
static int list(void *device, const char *name, unsigned *count, unsigned char *slots, size_t stride)
{
        static long grown;
        unsigned room = *count, n = (unsigned)setting("pids", 3);
        bool compute = strcmp(name, "lists") == 0;

        if (gpu_setting("hang-lists", device, 0) && compute)
                hang();
        if (gpu_setting("crash-lists", device, 0) && compute)
                crash();
        if (gpu_setting(name, device, 0))
                return (int)gpu_setting(name, device, 0);
        if (!compute && !setting("both", 0))
                n = 0;
        if (compute && grown < setting("grow", 0)) {
                grown++;
                *count = room + 1;
                return 7;
        }
        *count = n;
        if (n > room)
                return 7;
        if (setting("clear", 0))
                memset(slots, 0, room * stride);
        for (unsigned i = 0; i < n; i++) {
                uint32_t pid = (uint32_t)setting("pid", 1000) + i;
                uint64_t memory = setting("ones", 0) ? UINT64_MAX : (uint64_t)(i + 1) << 20;

                put_slot(slots + i * stride, stride, setting("badpid", 0) && i == 1 ? 0 : pid, memory);
        }
        return 0;
}

#define LISTS(suffix, stride)                                                                                          \
        EXPORT int nvmlDeviceGetComputeRunningProcesses##suffix(void *device, unsigned *count, void *slots);           \
        int nvmlDeviceGetComputeRunningProcesses##suffix(void *device, unsigned *count, void *slots)                   \
        {                                                                                                              \
                return list(device, "lists", count, slots, stride);                                                    \
        }                                                                                                              \
        EXPORT int nvmlDeviceGetGraphicsRunningProcesses##suffix(void *device, unsigned *count, void *slots);          \
        int nvmlDeviceGetGraphicsRunningProcesses##suffix(void *device, unsigned *count, void *slots)                  \
        {                                                                                                              \
                return list(device, "graphics", count, slots, stride);                                                 \
        }                                                                                                              \
        EXPORT int nvmlDeviceGetMPSComputeRunningProcesses##suffix(void *device, unsigned *count, void *slots);        \
        int nvmlDeviceGetMPSComputeRunningProcesses##suffix(void *device, unsigned *count, void *slots)                \
        {                                                                                                              \
                return list(device, "mps", count, slots, stride);                                                      \
        }

#ifdef GF_HAVE_V3
LISTS(_v3, (size_t)setting("stride", 24))
#endif
#ifdef GF_HAVE_V2
LISTS(_v2, 24)
#endif
LISTS(, 16)

EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending);
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
        (void)device;
        *current = *pending = (unsigned)setting("mig", 0);
        return 0;
}

/* One instance a GPU; its handle is another "device", so that "lists:N" of the GPU itself does not hit it. */
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count);
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count)
{
        (void)device;
        *count = 7;
        return 0;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **mig);
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **mig)
{
        *mig = (void *)((intptr_t)device + 1000);
        return index == 0 ? 0 : 6;
}

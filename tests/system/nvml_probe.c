/* SPDX-License-Identifier: MIT */
/*
 * Prints what a libnvidia-ml.so.1 answers, a line for each answer: found by the loader like gpufree's own, asked
 * through the same binary interface. For the tests of the stand-in library, and to look at a real one.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../sim/nvml_abi.h"
#include "base/cleanup.h"

#define ROOM 64

static void *library;

static int call_name(int (*f)(nvml_device, char *, unsigned), nvml_device device, const char *what)
{
        char text[96] = "";
        int r = f ? f(device, text, sizeof(text)) : -1;

        (void)printf("  %s %d %s\n", what, r, text);
        return r;
}

/* A symbol as a function; NULL when the library lacks it. */
#define FUNCTION(type, name) __extension__((type)dlsym(library, name))

static void print_memory(nvml_device device)
{
        int (*v1)(nvml_device, struct nvml_memory_v1 *) = FUNCTION(int (*)(nvml_device, struct nvml_memory_v1 *),
                                                                   "nvmlDeviceGetMemoryInfo");
        int (*v2)(nvml_device, struct nvml_memory_v2 *) = FUNCTION(int (*)(nvml_device, struct nvml_memory_v2 *),
                                                                   "nvmlDeviceGetMemoryInfo_v2");
        struct nvml_memory_v1 a = { 0 };
        struct nvml_memory_v2 b = { .version = NVML_MEMORY_V2 };

        if (v1) {
                int r = v1(device, &a);

                (void)printf("  memory_v1 %d total %llu used %llu\n", r, (unsigned long long)a.total,
                             (unsigned long long)a.used);
        }
        if (v2) {
                int r = v2(device, &b);

                (void)printf("  memory_v2 %d total %llu used %llu reserved %llu\n", r, (unsigned long long)b.total,
                             (unsigned long long)b.used, (unsigned long long)b.reserved);
        } else
                (void)printf("  memory_v2 missing\n");
}

/* The distance of two entries, from what was written over a sentinel: what gpufree must find out as well. */
static void print_list(nvml_device device, const char *name)
{
        int (*f)(nvml_device, unsigned *, void *) = FUNCTION(int (*)(nvml_device, unsigned *, void *), name);
        size_t size = sizeof(struct nvml_process_32) * ROOM, last;
        unsigned count = ROOM;
        unsigned char *buf;
        int r;

        if (!f) {
                (void)printf("  %s missing\n", name);
                return;
        }
        buf = malloc(size);
        if (!buf)
                return;
        memset(buf, 0xa5, size);
        r = f(device, &count, buf);
        for (last = size; last > 0 && buf[last - 1] == 0xa5; last--)
                ;
        (void)printf("  %s %d count %u stride %zu\n", name, r, count, r == 0 && count > 0 ? last / count : 0);
        for (unsigned i = 0; r == 0 && i < count; i++) {
                struct nvml_process_v1 p;

                memcpy(&p, buf + i * (last / count), sizeof(p));
                (void)printf("  %s pid %u used %llu\n", name, p.pid, (unsigned long long)p.used);
        }
        free(buf);
        count = 0;
        r = f(device, &count, NULL);
        (void)printf("  %s asked for the number: %d count %u\n", name, r, count);
}

static void print_device(nvml_device device)
{
        static const char *const lists[] = {
                "nvmlDeviceGetComputeRunningProcesses",    "nvmlDeviceGetComputeRunningProcesses_v2",
                "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
                "nvmlDeviceGetMPSComputeRunningProcesses",
        };
        int (*minor)(nvml_device, unsigned *) = FUNCTION(int (*)(nvml_device, unsigned *), "nvmlDeviceGetMinorNumber");
        int (*pci)(nvml_device, struct nvml_pci_v3 *) = FUNCTION(int (*)(nvml_device, struct nvml_pci_v3 *),
                                                                 "nvmlDeviceGetPciInfo_v3");
        int (*mig)(nvml_device, unsigned *, unsigned *) = FUNCTION(int (*)(nvml_device, unsigned *, unsigned *),
                                                                   "nvmlDeviceGetMigMode");
        struct nvml_pci_v3 info = { 0 };
        unsigned number = 0, current = 9, pending = 9;
        int r;

        (void)call_name(FUNCTION(int (*)(nvml_device, char *, unsigned), "nvmlDeviceGetUUID"), device, "uuid");
        (void)call_name(FUNCTION(int (*)(nvml_device, char *, unsigned), "nvmlDeviceGetName"), device, "name");
        r = minor ? minor(device, &number) : -1;
        (void)printf("  minor %d %u\n", r, number);
        r = pci ? pci(device, &info) : -1;
        (void)printf("  pci %d %.31s\n", r, info.bus_id);
        r = mig ? mig(device, &current, &pending) : -1;
        (void)printf("  mig %d %u %u\n", r, current, pending);
        print_memory(device);
        for (size_t i = 0; i < ELEMENTSOF(lists); i++)
                print_list(device, lists[i]);
}

int main(void)
{
        int (*init)(void), (*shutdown)(void), (*count)(unsigned *), (*by_index)(unsigned, nvml_device *);
        const char *(*text)(int);
        int (*version)(char *, unsigned);
        char driver[96] = "";
        unsigned n = 0;
        int r;

        (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what was said before a crash or a hang is wanted */
        library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library) {
                (void)printf("dlopen %s\n", dlerror());
                return 1;
        }
        init = FUNCTION(int (*)(void), "nvmlInit_v2");
        shutdown = FUNCTION(int (*)(void), "nvmlShutdown");
        count = FUNCTION(int (*)(unsigned *), "nvmlDeviceGetCount_v2");
        by_index = FUNCTION(int (*)(unsigned, nvml_device *), "nvmlDeviceGetHandleByIndex_v2");
        text = FUNCTION(const char *(*)(int), "nvmlErrorString");
        version = FUNCTION(int (*)(char *, unsigned), "nvmlSystemGetDriverVersion");
        if (!init || !shutdown || !count || !by_index || !text || !version) {
                (void)printf("a function is missing\n");
                return 1;
        }
        r = init();
        (void)printf("init %d %s\n", r, text(r));
        if (r != 0)
                return 0;
        r = version(driver, sizeof(driver));
        (void)printf("driver %d %s\n", r, driver);
        r = count(&n);
        (void)printf("count %d %u\n", r, n);
        for (unsigned i = 0; i < n; i++) {
                nvml_device device = NULL;

                r = by_index(i, &device);
                (void)printf("gpu %u %d %s\n", i, r, text(r));
                if (r == 0)
                        print_device(device);
        }
        (void)printf("shutdown %d\n", shutdown());
        return 0;
}

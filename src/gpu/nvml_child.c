/* SPDX-License-Identifier: MIT */
/* NVML in its child process: loads the library and answers questions. Everything here may hang or crash. */
#include "gpu/nvml_child.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/str.h"
#include "gpu/nvml.h"
#include "parse/nvidia.h"

struct child {
        int socket;
        uint64_t sequence;
        struct gf_nvml_api api;
        bool initialised;
        uint64_t sampled_us[GF_WIRE_GPUS_MAX]; /* the latest sample of each GPU */
        struct gf_wire_status status;          /* of loading and initialising */
};

/* The first symbol that the library has. `symbols` is one string of names joined by NULs, with an empty one at the end.
 */
static void bind_symbol(const struct gf_nvml_api *api, void *slot, const char *symbols)
{
        for (; *symbols; symbols += strlen(symbols) + 1) {
                void *address = dlsym(api->library, symbols);

                if (address) {
                        memcpy(slot, &address,
                               sizeof(address)); /* ISO C has no cast from object to function pointers */
                        return;
                }
        }
}

static void bind_lists(struct gf_nvml_api *api)
{
        static const char *const names[] = { "Compute", "Graphics", "MPSCompute" };
        static const char *const versions[] = { "_v3", "_v2", "" };

        for (size_t which = 0; which < GF_NVML_LIST_COUNT; which++)
                for (size_t version = 0; version < GF_NVML_LIST_VERSIONS; version++) {
                        char symbol[64] = { 0 };

                        snprintf(symbol, sizeof(symbol) - 1, "nvmlDeviceGet%sRunningProcesses%s", names[which],
                                 versions[version]);
                        bind_symbol(api, &api->list[which][version], symbol);
                }
}

static void bind_api(struct gf_nvml_api *api)
{
        bind_symbol(api, &api->init, "nvmlInit_v2\0nvmlInit\0");
        bind_symbol(api, &api->driver_version, "nvmlSystemGetDriverVersion\0");
        bind_symbol(api, &api->count, "nvmlDeviceGetCount_v2\0nvmlDeviceGetCount\0");
        bind_symbol(api, &api->handle, "nvmlDeviceGetHandleByIndex_v2\0nvmlDeviceGetHandleByIndex\0");
        bind_symbol(api, &api->uuid, "nvmlDeviceGetUUID\0");
        bind_symbol(api, &api->name, "nvmlDeviceGetName\0");
        bind_symbol(api, &api->minor, "nvmlDeviceGetMinorNumber\0");
        bind_symbol(api, &api->pci, "nvmlDeviceGetPciInfo_v3\0nvmlDeviceGetPciInfo_v2\0nvmlDeviceGetPciInfo\0");
        bind_symbol(api, &api->memory1, "nvmlDeviceGetMemoryInfo\0");
        bind_symbol(api, &api->memory2, "nvmlDeviceGetMemoryInfo_v2\0");
        bind_symbol(api, &api->mig_mode, "nvmlDeviceGetMigMode\0");
        bind_symbol(api, &api->max_mig, "nvmlDeviceGetMaxMigDeviceCount\0");
        bind_symbol(api, &api->mig_handle, "nvmlDeviceGetMigDeviceHandleByIndex\0");
        bind_symbol(api, &api->utilization, "nvmlDeviceGetProcessUtilization\0");
        bind_symbol(api, &api->rates, "nvmlDeviceGetUtilizationRates\0");
        bind_lists(api);
}

static void fail_status(struct child *child, enum gf_wire_call call, uint32_t code, const char *detail)
{
        child->status.call = call;
        child->status.code = code;
        snprintf(child->status.detail, sizeof(child->status.detail), "%s", detail ? detail : "");
}

/* Loads and initialises; done again at the next question when it failed: a driver can be loaded in the meantime. */
static void initialise(struct child *child)
{
        struct gf_nvml_api *api = &child->api;
        int code;

        if (child->initialised)
                return;
        fail_status(child, GF_CALL_LOAD, 0, NULL);
        if (!api->library) {
                api->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
                if (!api->library) {
                        const char *error = dlerror();
                        bool missing = error &&
                                       gf_startswith(error, "libnvidia-ml.so.1: cannot open shared object file") &&
                                       strstr(error, "No such file");

                        fail_status(child, GF_CALL_LOAD, missing ? GF_CODE_NO_LIBRARY : GF_CODE_BAD_LIBRARY, error);
                        return;
                }
                bind_api(api);
        }
        if (!api->init || !api->count || !api->handle) {
                fail_status(child, GF_CALL_LOAD, NVML_FUNCTION_NOT_FOUND, NULL);
                return;
        }
        code = api->init();
        if (code != NVML_SUCCESS) {
                fail_status(child, GF_CALL_INIT, (uint32_t)code, NULL);
                return;
        }
        child->initialised = true;
        if (api->driver_version)
                (void)api->driver_version(child->status.version, NVML_VERSION_SIZE);
        child->status.version[sizeof(child->status.version) - 1] = '\0';
}

/* False: the parent is gone. */
static bool say(const struct child *child, void *record, size_t size, enum gf_wire_type type)
{
        struct gf_wire_head *head = record;
        ssize_t n;

        *head = (struct gf_wire_head){ .magic = GF_WIRE_MAGIC, .type = type, .sequence = child->sequence };
        do
                n = send(child->socket, record, size, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n == (ssize_t)size;
}

static void note(struct gf_wire_gpu *gpu, enum gf_wire_call call, uint32_t code)
{
        if (gpu->code == 0) {
                gpu->call = call;
                gpu->code = code;
        }
}

static void read_identity(const struct gf_nvml_api *api, nvml_device device, struct gf_wire_gpu *gpu)
{
        struct nvml_pci pci = { 0 };
        unsigned number, pending;

        if (api->uuid && api->uuid(device, gpu->uuid, NVML_UUID_SIZE) != NVML_SUCCESS)
                gpu->uuid[0] = '\0';
        if (api->name && api->name(device, gpu->name, NVML_NAME_SIZE) != NVML_SUCCESS)
                gpu->name[0] = '\0';
        if (api->minor && api->minor(device, &number) == NVML_SUCCESS && number < 1u << 20)
                gpu->minor = (int32_t)number;
        if (api->pci && api->pci(device, &pci) == NVML_SUCCESS) {
                pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
                /* The long bus id has the function's number; version 2 has reserved zeros there. */
                if (gf_parse_pci(pci.bus_id, gpu->pci, sizeof(gpu->pci)) < 0)
                        snprintf(gpu->pci, sizeof(gpu->pci), "%04x:%02x:%02x.0", pci.domain, pci.bus & 0xff,
                                 pci.device & 0x1f);
        }
        if (api->mig_mode && api->mig_mode(device, &number, &pending) == NVML_SUCCESS)
                gpu->mig = number == 1;
}

/*
 * Version 2 keeps apart what the driver reserved. A library without it is older than that distinction: its `used` has
 * no reserved part. Where version 2 exists and fails, version 1's figure may be too high, never too low.
 */
static void read_memory(const struct gf_nvml_api *api, nvml_device device, struct gf_wire_gpu *gpu)
{
        struct nvml_memory_v2 v2 = { .version = NVML_MEMORY_V2 };
        struct nvml_memory_v1 v1 = { 0 };
        int code = NVML_FUNCTION_NOT_FOUND;

        if (api->memory2)
                code = api->memory2(device, &v2);
        if (code == NVML_SUCCESS) {
                gpu->total = v2.total;
                gpu->used = v2.used;
                gpu->reserved = v2.reserved;
                return;
        }
        if (api->memory1 && code != NVML_GPU_IS_LOST)
                code = api->memory1(device, &v1);
        if (code == NVML_SUCCESS) {
                gpu->total = v1.total;
                gpu->used = v1.used;
                return;
        }
        if (code != NVML_NOT_SUPPORTED)
                note(gpu, GF_CALL_MEMORY, (uint32_t)code);
}

static void read_rates(const struct gf_nvml_api *api, nvml_device device, struct gf_wire_gpu *gpu)
{
        struct nvml_rates rates = { 0 };
        int code = api->rates ? api->rates(device, &rates) : NVML_FUNCTION_NOT_FOUND;

        if (code == NVML_SUCCESS)
                gpu->busy = rates.gpu > 100 ? 100 : rates.gpu;
        else
                note(gpu, GF_CALL_SAMPLES, (uint32_t)code);
}

/*
 * The figure belongs to the lists only if nothing came or went between them: a process that ended before the lists were
 * read would leave memory that nobody explains, and one that came after them too. The smaller of the figures before and
 * after has neither.
 */
static void read_memory_again(const struct gf_nvml_api *api, nvml_device device, struct gf_wire_gpu *gpu)
{
        struct gf_wire_gpu after = *gpu;

        read_memory(api, device, &after);
        if (after.used < gpu->used)
                gpu->used = after.used;
}

/* With MIG, a user without privileges is refused the list of the whole GPU, but not those of its own instances. */
static void read_mig_lists(const struct gf_nvml_api *api, nvml_device device, gf_wire_processes_vec *list)
{
        unsigned count = 0;

        if (!api->max_mig || !api->mig_handle || api->max_mig(device, &count) != NVML_SUCCESS)
                return;
        for (unsigned i = 0; i < count && i < 64; i++) {
                nvml_device mig = NULL;

                if (api->mig_handle(device, i, &mig) == NVML_SUCCESS)
                        (void)gf_nvml_lists_read(api, mig, list);
        }
}

static bool say_processes(const struct child *child, uint32_t index, const gf_wire_processes_vec *list)
{
        for (size_t at = 0; at < list->n; at += GF_WIRE_BATCH) {
                struct gf_wire_processes batch = { .index = index };
                size_t n = list->n - at < GF_WIRE_BATCH ? list->n - at : GF_WIRE_BATCH;

                batch.n = (uint32_t)n;
                memcpy(batch.v, list->v + at, n * sizeof(batch.v[0]));
                if (!say(child, &batch, sizeof(batch), GF_WIRE_PROCESSES))
                        return false;
        }
        return true;
}

static bool say_samples(const struct child *child, uint32_t index, const gf_wire_samples_vec *list)
{
        for (size_t at = 0; at < list->n; at += GF_WIRE_BATCH) {
                struct gf_wire_samples batch = { .index = index };
                size_t n = list->n - at < GF_WIRE_BATCH ? list->n - at : GF_WIRE_BATCH;

                batch.n = (uint32_t)n;
                memcpy(batch.v, list->v + at, n * sizeof(batch.v[0]));
                if (!say(child, &batch, sizeof(batch), GF_WIRE_SAMPLES))
                        return false;
        }
        return true;
}

static bool answer_samples(struct child *child, nvml_device device, struct gf_wire_gpu *gpu)
{
        gf_wire_samples_vec list = { 0 };
        uint32_t code;
        bool heard;

        code = gf_nvml_samples_read(&child->api, device, &child->sampled_us[gpu->index], &list);
        gpu->lists_ok = code == NVML_SUCCESS; /* of the samples, here */
        if (code != NVML_SUCCESS)
                note(gpu, GF_CALL_SAMPLES, code);
        heard = say(child, gpu, sizeof(*gpu), GF_WIRE_GPU) && say_samples(child, gpu->index, &list);
        gf_vec_done(&list);
        return heard;
}

static bool answer_gpu(struct child *child, uint32_t index, enum gf_nvml_question question)
{
        const struct gf_nvml_api *api = &child->api;
        struct gf_wire_mark begin = { .index = index };
        struct gf_wire_gpu gpu = {
                .index = index,
                .minor = -1,
                .total = GPUFREE_UNKNOWN,
                .used = GPUFREE_UNKNOWN,
                .reserved = GPUFREE_UNKNOWN,
                .busy = GF_WIRE_NO_BUSY,
        };
        gf_wire_processes_vec list = { 0 };
        nvml_device device = NULL;
        uint32_t code;
        bool heard;

        if (!say(child, &begin, sizeof(begin), GF_WIRE_BEGIN))
                return false;
        code = (uint32_t)api->handle(index, &device);
        if (code != NVML_SUCCESS) {
                note(&gpu, GF_CALL_HANDLE, code);
                return say(child, &gpu, sizeof(gpu), GF_WIRE_GPU);
        }
        read_identity(api, device, &gpu);
        if (question == GF_NVML_SAMPLES)
                return answer_samples(child, device, &gpu);
        read_memory(api, device, &gpu);
        if (question == GF_NVML_BUSY)
                read_rates(api, device, &gpu);
        if (question == GF_NVML_ALL) {
                code = gf_nvml_lists_read(api, device, &list);
                gpu.lists_ok = code == NVML_SUCCESS;
                if (code != NVML_SUCCESS)
                        note(&gpu, GF_CALL_LISTS, code);
                if (code == NVML_NO_PERMISSION && gpu.mig)
                        read_mig_lists(api, device, &list);
                read_memory_again(api, device, &gpu);
        }
        heard = say(child, &gpu, sizeof(gpu), GF_WIRE_GPU) && say_processes(child, index, &list);
        gf_vec_done(&list);
        return heard;
}

static bool answer(struct child *child, enum gf_nvml_question question)
{
        struct gf_wire_mark end = { 0 };
        unsigned count = 0;

        initialise(child);
        child->status.gpus = 0;
        if (child->initialised) {
                int code = child->api.count(&count);

                if (code != NVML_SUCCESS)
                        fail_status(child, GF_CALL_COUNT, (uint32_t)code, NULL);
                else
                        fail_status(child, GF_CALL_COUNT, 0, NULL);
                child->status.gpus = code != NVML_SUCCESS ? 0 : count < GF_WIRE_GPUS_MAX ? count : GF_WIRE_GPUS_MAX;
        }
        if (!say(child, &child->status, sizeof(child->status), GF_WIRE_STATUS))
                return false;
        for (uint32_t i = 0; i < child->status.gpus; i++)
                if (!answer_gpu(child, i, question))
                        return false;
        return say(child, &end, sizeof(end), GF_WIRE_END);
}

int gf_nvml_child_main(int socket, void *userdata)
{
        struct child child = { .socket = socket };

        (void)userdata;
        (void)prctl(PR_SET_NAME, "gpufree-driver"); /* for whoever finds it stuck in the driver */
        initialise(&child);
        for (;;) {
                struct gf_wire_ask ask;
                ssize_t n = recv(socket, &ask, sizeof(ask), 0);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n != (ssize_t)sizeof(ask) || ask.head.type != GF_WIRE_ASK)
                        return 0; /* the parent is gone, or wants this to end */
                child.sequence = ask.head.sequence;
                if (!answer(&child, (enum gf_nvml_question)ask.question))
                        return 0;
        }
}

/* SPDX-License-Identifier: MIT */
/* Process lists in the child: three lists, three versions of each, and drivers that got the layout wrong. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/nvml_child.h"
#include "gpufree.h"
#include "model/driver.h"

#define FIRST_CAPACITY 1021
#define CAPACITY_MAX 65537
#define SIZE_TRIES 6
#define MEASURE_TRIES 3

void gf_nvml_sentinel_fill(unsigned char *buf, size_t size, unsigned salt)
{
        for (size_t i = 0; i < size; i++)
                buf[i] = (unsigned char)(0xa5u + i * 37u + salt * 101u);
}

/* One behind the last byte that is not the sentinel's any more. */
static size_t written_end(const unsigned char *buf, size_t size, unsigned salt)
{
        while (size > 0 && buf[size - 1] == (unsigned char)(0xa5u + (size - 1) * 37u + salt * 101u))
                size--;
        return size;
}

size_t gf_nvml_measure_slot(const unsigned char *buf, size_t capacity, size_t n, unsigned salt)
{
        static const size_t slots[] = { NVML_SLOT_V2, NVML_SLOT_V1, NVML_SLOT_ODD };
        size_t end = written_end(buf, capacity * NVML_SLOT_MAX, salt);

        if (n == 0 || n > capacity)
                return 0;
        for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
                if (end == n * slots[i])
                        return slots[i];
        /*
         * A library that clears all the room it was given before it fills it. The capacity is no multiple of 2 or 3, so
         * that this end is not taken for that of n slots of another size.
         */
        for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
                if (end == capacity * slots[i])
                        return slots[i];
        return 0;
}

static size_t next_capacity(size_t want)
{
        want |= 1;
        while (want % 3 == 0)
                want += 2;
        return want;
}

static void *must_alloc(size_t size)
{
        void *p = malloc(size);

        if (!p)
                _exit(ENOMEM); /* the parent sees the child end, and says so */
        return p;
}

/* One process of one list into what the lists before had: each PID once an instance, the larger figure. */
static void add_process(gf_wire_processes_vec *list, const struct gf_wire_process *process)
{
        struct gf_wire_process *slot;

        for (size_t i = 0; i < list->n; i++) {
                slot = &list->v[i];
                if (slot->pid != process->pid || slot->gpu_instance != process->gpu_instance ||
                    slot->compute_instance != process->compute_instance)
                        continue;
                slot->lists |= process->lists;
                /* Compute and graphics list give the same figure for the same process: it is not summed. */
                if (slot->memory == GPUFREE_UNKNOWN ||
                    (process->memory != GPUFREE_UNKNOWN && process->memory > slot->memory))
                        slot->memory = process->memory;
                return;
        }
        slot = gf_vec_add(list);
        if (!slot)
                _exit(ENOMEM);
        *slot = *process;
}

static struct gf_wire_process read_slot(const unsigned char *slot, size_t size, unsigned bit)
{
        struct gf_wire_process process = { .lists = bit, .gpu_instance = UINT32_MAX, .compute_instance = UINT32_MAX };

        memcpy(&process.pid, slot, sizeof(process.pid));
        memcpy(&process.memory, slot + 8, sizeof(process.memory)); /* all ones is GPUFREE_UNKNOWN as well */
        if (size >= NVML_SLOT_V2) {
                memcpy(&process.gpu_instance, slot + 16, sizeof(process.gpu_instance));
                memcpy(&process.compute_instance, slot + 20, sizeof(process.compute_instance));
        }
        return process;
}

/* Takes `n` slots of `size` bytes. A number that is no PID shows that they were not what they seemed: none is taken. */
static bool take_slots(const unsigned char *buf, size_t n, size_t size, unsigned bit, gf_wire_processes_vec *list)
{
        if (list->n + n > GF_WIRE_PROCESSES_MAX)
                return false;
        for (size_t i = 0; i < n; i++) {
                struct gf_wire_process process = read_slot(buf + i * size, size, bit);

                if (process.pid == 0 || process.pid > INT_MAX)
                        return false;
        }
        for (size_t i = 0; i < n; i++) {
                struct gf_wire_process process = read_slot(buf + i * size, size, bit);

                add_process(list, &process);
        }
        return true;
}

/* Calls until the list fits. NVML's return code; on success *ret_n slots are in *ret_buf (free()). */
static uint32_t call_list(nvml_device_list_fn call, nvml_device device, unsigned salt, unsigned char **ret_buf,
                          size_t *ret_capacity, size_t *ret_n)
{
        size_t capacity = next_capacity(FIRST_CAPACITY);

        for (int try = 0; try < SIZE_TRIES && capacity <= CAPACITY_MAX; try++) {
                size_t size = capacity * NVML_SLOT_MAX;
                unsigned char *buf = must_alloc(size);
                unsigned count = (unsigned)capacity;
                uint32_t code;

                gf_nvml_sentinel_fill(buf, size, salt);
                code = (uint32_t)call(device, &count, buf);
                if (code == NVML_SUCCESS && count <= capacity) {
                        *ret_buf = buf;
                        *ret_capacity = capacity;
                        *ret_n = count;
                        return NVML_SUCCESS;
                }
                free(buf);
                if (code == NVML_SUCCESS)
                        return GF_CODE_ODD_LIST; /* more than there was room for */
                if (code != NVML_INSUFFICIENT_SIZE)
                        return code;
                /* The count is now what it needs; processes come while we ask, so with room to spare. */
                capacity = next_capacity((count > capacity ? count : capacity) * (size_t)2);
        }
        return NVML_INSUFFICIENT_SIZE;
}

/* One list by one version of the function. */
static uint32_t read_version(nvml_device_list_fn call, nvml_device device, unsigned bit, gf_wire_processes_vec *list)
{
        for (unsigned salt = 0; salt < MEASURE_TRIES; salt++) {
                unsigned char *buf = NULL;
                size_t capacity, n, size;
                uint32_t code;
                bool taken;

                code = call_list(call, device, salt, &buf, &capacity, &n);
                if (code != NVML_SUCCESS)
                        return code;
                if (n == 0) {
                        free(buf);
                        return NVML_SUCCESS;
                }
                /* The last byte written may equal the sentinel there by chance: another salt tells. */
                size = gf_nvml_measure_slot(buf, capacity, n, salt);
                if (size == 0) {
                        free(buf);
                        continue;
                }
                taken = take_slots(buf, n, size, bit, list);
                free(buf);
                if (!taken)
                        return GF_CODE_ODD_LIST;
                return n >= NVML_LIST_CAP ? GF_CODE_CUT_LIST : NVML_SUCCESS;
        }
        return GF_CODE_ODD_LIST;
}

static bool try_older(uint32_t code)
{
        return code == NVML_FUNCTION_NOT_FOUND || code == NVML_ARGUMENT_VERSION_MISMATCH ||
               code == NVML_INVALID_ARGUMENT || code == GF_CODE_ODD_LIST;
}

/* One list, by the newest version that works. */
static uint32_t read_list(const struct gf_nvml_api *api, enum gf_nvml_list which, nvml_device device,
                          gf_wire_processes_vec *list)
{
        static const unsigned bits[] = { GF_LIST_COMPUTE, GF_LIST_GRAPHICS, GF_LIST_MPS };
        uint32_t first = NVML_FUNCTION_NOT_FOUND;
        bool tried = false;

        for (size_t version = 0; version < GF_NVML_LIST_VERSIONS; version++) {
                nvml_device_list_fn call = api->list[which][version];
                uint32_t code;

                if (!call)
                        continue;
                code = read_version(call, device, bits[which], list);
                if (!try_older(code))
                        return code;
                if (!tried)
                        first = code;
                tried = true;
        }
        return first;
}

uint32_t gf_nvml_lists_read(const struct gf_nvml_api *api, nvml_device device, gf_wire_processes_vec *list)
{
        uint32_t first = NVML_SUCCESS;

        for (enum gf_nvml_list which = GF_NVML_LIST_COMPUTE; which < GF_NVML_LIST_COUNT; which++) {
                uint32_t code = read_list(api, which, device, list);

                /* Every driver has the compute list; the others came later or are not for every GPU. */
                if (which != GF_NVML_LIST_COMPUTE && (code == NVML_NOT_SUPPORTED || code == NVML_FUNCTION_NOT_FOUND))
                        continue;
                if (first == NVML_SUCCESS)
                        first = code;
        }
        return first;
}

/* SPDX-License-Identifier: MIT */
/* Utilisation in the child: the driver gives a sample for each process that did something since the last one. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu/nvml_child.h"

#define TRIES 4
#define MOST_SAMPLES 16384

uint32_t gf_nvml_samples_read(const struct gf_nvml_api *api, nvml_device device, uint64_t *since_us,
                              gf_wire_samples_vec *list)
{
        uint64_t latest = *since_us;
        unsigned room = 128;

        if (!api->utilization)
                return NVML_FUNCTION_NOT_FOUND;
        for (int try = 0; try < TRIES && room <= MOST_SAMPLES; try++) {
                struct nvml_utilization *samples = calloc(room, sizeof(*samples));
                unsigned count = room;
                int code;

                if (!samples)
                        _exit(ENOMEM);
                code = api->utilization(device, samples, &count, *since_us);
                for (unsigned i = 0; code == NVML_SUCCESS && i < count && i < room; i++) {
                        struct gf_wire_sample *slot;

                        /* Stale ones linger for seconds after the work has stopped; slots that were left empty too. */
                        if (samples[i].pid == 0 || samples[i].pid > INT32_MAX || samples[i].time_us <= *since_us)
                                continue;
                        if (samples[i].time_us > latest)
                                latest = samples[i].time_us;
                        slot = gf_vec_add(list);
                        if (!slot)
                                _exit(ENOMEM);
                        *slot = (struct gf_wire_sample){ samples[i].pid, samples[i].sm > 100 ? 100 : samples[i].sm };
                }
                free(samples);
                *since_us = latest;
                if (code == NVML_SUCCESS || code == NVML_NOT_FOUND) /* nobody did anything */
                        return NVML_SUCCESS;
                if (code != NVML_INSUFFICIENT_SIZE)
                        return (uint32_t)code;
                room = (count > room ? count : room) * 2;
        }
        return NVML_INSUFFICIENT_SIZE;
}

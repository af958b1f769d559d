/* SPDX-License-Identifier: MIT */
#include "model/driver.h"

#include <strings.h>

void gf_driver_report_done(struct gf_driver_report *report)
{
        for (size_t i = 0; i < report->gpus.n; i++) {
                gf_vec_done(&report->gpus.v[i].processes);
                gf_vec_done(&report->gpus.v[i].migs);
                gf_vec_done(&report->gpus.v[i].samples);
        }
        gf_vec_done(&report->gpus);
        *report = (struct gf_driver_report){ 0 };
}

const struct gf_driver_gpu *gf_driver_gpu_of(const struct gf_driver_report *report, const struct gpufree_gpu *gpu)
{
        for (size_t i = 0; i < report->gpus.n; i++) {
                const struct gf_driver_gpu *known = &report->gpus.v[i];
                bool same;

                if (gpu->uuid && known->uuid[0])
                        same = strcasecmp(gpu->uuid, known->uuid) == 0;
                else if (gpu->pci && known->pci[0])
                        same = strcasecmp(gpu->pci, known->pci) == 0;
                else if (gpu->minor >= 0 && known->minor >= 0)
                        same = gpu->minor == known->minor;
                else
                        same = gpu->index >= 0 && gpu->index == known->index;
                if (same)
                        return known;
        }
        return NULL;
}

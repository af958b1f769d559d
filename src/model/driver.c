/* SPDX-License-Identifier: MIT */
#include "model/driver.h"

void gf_driver_report_done(struct gf_driver_report *report)
{
        for (size_t i = 0; i < report->gpus.n; i++) {
                gf_vec_done(&report->gpus.v[i].processes);
                gf_vec_done(&report->gpus.v[i].migs);
        }
        gf_vec_done(&report->gpus);
        *report = (struct gf_driver_report){ 0 };
}

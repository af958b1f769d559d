/* SPDX-License-Identifier: MIT */
#include "model/stop.h"

#include <stdlib.h>

void gf_stop_done(struct gf_stop *stop)
{
        free(stop->owner);
        free(stop->why);
        gf_strv_done(&stop->argv);
        free(stop->text);
        free(stop->warning);
        free(stop->refusal);
        gf_strv_done(&stop->ask);
        *stop = (struct gf_stop){ 0 };
}

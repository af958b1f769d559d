/* SPDX-License-Identifier: MIT */
#pragma once

#include "gpu/nvml.h"
#include "model/env.h"
#include "select/rules.h"

/* What a program keeps between calls: the settings, and the driver's child, which stays so that only the first look
 * pays for its start. */
struct gpufree {
        unsigned refs;
        struct gf_env env;
        struct gf_nvml *nvml;  /* NULL until the first look */
        struct gf_rules rules; /* of the configuration file */
        bool park_silent;      /* asked whether something can be parked, libcuda did not answer in time */
        gpufree_event_handler on_event;
        void *event_userdata;
};

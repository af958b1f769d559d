/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/holder.h"

/*
 * Joins the scan with the driver's report: which GPU each holder holds and with how much memory, which it merely has
 * open, which dead PIDs are still listed and which live process keeps their memory; per GPU what is accounted for and
 * what is not. Pure: reads and writes the snapshot only. Notes "inherited-from:PID" come from here.
 */
int gf_attribute(struct gpufree_snapshot *snapshot);

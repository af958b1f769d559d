/* SPDX-License-Identifier: MIT */
#pragma once

#include "lib/context.h"
#include "model/holder.h"

/*
 * The driver's report, asked for after the scan, into snapshot->driver; processes that it lists and that the scan did
 * not show are looked at alone. -ECANCELED, -ENOMEM, -errno.
 */
int gf_ask_driver(struct gpufree *context, struct gpufree_snapshot *snapshot);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "verify/verify.h"

/* As gf_wait_free(), with what gpufree_wait_calm() adds. */
int gf_wait_calm(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_calm *calm, uint64_t timeout_ms,
                 uint64_t settle_ms, struct gpufree_report **ret_report);

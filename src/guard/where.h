/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"

/*
 * What the descendants of `root` wait for, most common first: "8 processes wait in futex (VLLM::Worker 21316, …)". One
 * sentence each into `sentences`, the first few.
 */
int gf_where_they_wait(struct gf_env *env, pid_t root, gf_strv *sentences);
/* From the text of /proc/PID/syscall and /proc/PID/wchan (each may be NULL), and the state. malloc'ed. Pure. */
char *gf_where_describe(char state, const char *syscall, const char *wchan);

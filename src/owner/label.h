/* SPDX-License-Identifier: MIT */
#pragma once

/* One owner as a short text, in a fresh buffer: "docker:3f2a1b2c3d4e (vllm)", "vllm.service", "job 3385.0 (slurm)",
 * "session 3", "vm 101 (ml)", "pod ns/name". NULL: no memory. */
char *gf_label_of(const char *kind, const char *runtime, const char *id, const char *name);

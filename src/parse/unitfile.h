/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The last value of `key` in [section] of an INI-like text (a systemd unit, a Proxmox configuration with section NULL:
 * the part before the first section), whichever of "=" and ":" separates. Comments and continuation lines are known.
 * false: not there, or longer than `size`. Pure.
 */
bool gf_unitfile_get(const char *text, const char *section, const char *key, char *buf, size_t size);

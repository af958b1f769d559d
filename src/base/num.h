/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Checked conversions. All of the text must be the number: -EINVAL for anything else (a sign, a space, nothing),
 * -ERANGE when it does not fit. *ret is written on success only.
 */
int gf_parse_u64(const char *text, uint64_t *ret);
int gf_parse_u32(const char *text, uint32_t *ret);
int gf_parse_hex64(const char *text, uint64_t *ret); /* without 0x */
int gf_parse_pid(const char *text, pid_t *ret);      /* 1 and up */
/* "500ms" "10s" "2m" "8h" "3d", also "1.5s"; a bare number is not a duration (but "0" is). Milliseconds. */
int gf_parse_duration(const char *text, uint64_t *ret_ms);
/* "512MiB" "60GiB" "1.5GiB" "100B", "0"; Bytes. */
int gf_parse_size(const char *text, uint64_t *ret_bytes);

/* For people, into a buffer that always suffices: "74.3 GiB", "615 MiB", "0 B"; "500 ms", "10.2 s", "2m 05s", "8h 02m",
 * "3d 04h". */
#define GF_TEXT_MAX 32
const char *gf_format_size(uint64_t bytes, char buf[static GF_TEXT_MAX]);
const char *gf_format_duration(uint64_t ms, char buf[static GF_TEXT_MAX]);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What /proc says, read plainly and apart from the scanners: the other opinion of their tests. */

/* Field 22 of stat; 0, or -1 when the process is gone. */
int check_start_ticks(pid_t pid, uint64_t *ret);
/* Descriptors (not O_PATH; a table once) and mappings of these devices in a process; `block` 0: none. */
size_t check_count(pid_t pid, const dev_t *chr, size_t n_chr, dev_t block);
size_t check_processes(void);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * Reading files that somebody else may have put there: regular files only (a FIFO would block, a device would do who
 * knows what), never through a symbolic link at the end, never more than `max` bytes.
 */

/* The whole file in a fresh NUL-terminated buffer. -EFBIG, -ELOOP, -ENOTSUP (not regular), -errno. */
int gf_safe_read(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_length);
/* The same for a file of /proc, where every file is regular and a process may write what it likes: what is beyond `max`
 * is left out instead of failing. */
int gf_proc_read(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_length);
/*
 * The same for a file of a file system that may hang (FUSE, NFS): read in a child of its own that is left behind after
 * `timeout_ms`. -ETIMEDOUT.
 */
int gf_slow_read(const char *path, size_t max, uint64_t timeout_ms, char **ret_text, size_t *ret_length);
/* gf_safe_read() of what `path` leads to: for configuration that is often a link, such as unit files. */
int gf_linked_read(const char *path, size_t max, char **ret_text);
/* Target of a symbolic link (of /proc: cwd), in a fresh buffer. */
int gf_safe_link(const char *path, char **ret_target);
bool gf_is_there(const char *path);
/*
 * The first name in a directory for which `match` says yes; looks at 65,536 names at most. -ENOENT: none.
 */
int gf_find_name(const char *directory, bool (*match)(const char *name, const void *userdata), const void *userdata,
                 char **ret_name);
/* The names in a directory that end with `suffix`, sorted; the first `max` that are met. */
int gf_list_names(const char *directory, const char *suffix, size_t max, gf_strv *ret_names);
/* Overwrites a buffer that may hold secrets, then frees it. */
void gf_wipe(char *text, size_t length);

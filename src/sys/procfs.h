/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/env.h"

/* Reading /proc and /sys: always relative to a directory descriptor, always bounded, EINTR hidden. */

/* Opens a directory for reading, O_CLOEXEC. The descriptor, or -errno. */
int gf_open_dir(int dirfd, const char *path);
/* Opens env->proc_root and makes sure that it is a procfs that shows ourselves; -ENOENT with the sentence. */
int gf_open_proc(struct gf_env *env);
/*
 * Reads a whole file of at most `max` bytes into a fresh NUL-terminated buffer (free() it); *ret_length without that
 * NUL, may be NULL. -EFBIG when there is more, -errno of the open or read.
 */
int gf_read_file(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_length);
/* Reads the beginning of a file, up to `size` bytes, into a buffer of the caller's. The length, or -errno. */
ssize_t gf_read_head(int dirfd, const char *path, char *buf, size_t size);
/* Target of a symbolic link in a fresh buffer; at most 64 KiB. */
int gf_read_link(int dirfd, const char *path, char **ret_target);

/* The system call itself, -errno: the C library's wrapper may fall back to a stat() that hangs. */
struct statx;
int gf_statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *ret);

/* Walks a directory with getdents64 in a buffer of the caller's: constant memory however many entries. */
struct gf_dirwalk {
        int fd; /* borrowed */
        char *buf;
        size_t size, fill, at;
        bool eof;
};
void gf_dirwalk_init(struct gf_dirwalk *walk, int fd, char *buf, size_t size);
/* 1: *ret_name is the next name ("." and ".." left out), valid until the next call; 0: end; -errno. */
int gf_dirwalk_next(struct gf_dirwalk *walk, const char **ret_name);
/* The same for names that are numbers: PIDs, TIDs, descriptors; others are passed over. */
int gf_dirwalk_next_number(struct gf_dirwalk *walk, uint32_t *ret_number, const char **ret_name);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Runs another program: no shell, a deadline, bounded output, nothing of ours inherited. */

/* Where programs are looked for when none are given: NULL-terminated. Never PATH. */
extern const char *const gf_command_dirs[];

/*
 * The file that `name` (no slash in it) is in one of `dirs` (NULL: gf_command_dirs), symbolic links resolved. It is
 * trusted only if it and every directory above it belong to root and nobody else can write them (a sticky directory
 * such as /tmp is fine above). -ENOENT: not there; -EPERM: there, but not to be trusted (*ret_path tells where);
 * -EINVAL: no plain name.
 */
int gf_command_find(const char *name, const char *const *dirs, char **ret_path);

struct gf_command_result {
        bool ended; /* it ran to its end: status is meant */
        int status; /* exit status; 128 + signal when a signal ended it */
        bool timed_out, cancelled;
        char *output; /* standard output and error, the first bytes of it; NULL-safe text, NUL bytes are shown as "?" */
        bool output_cut;
        uint64_t elapsed_ms;
};
void gf_command_result_done(struct gf_command_result *result);

/*
 * Runs `path` with argv (argv[0] is what it sees as its name) and waits for its end on a pidfd, until `timeout_ms`
 * (GPUFREE_UNKNOWN: for ever) or until `cancel_fd` is readable (-1: none); then it is ended with its process group. Its
 * environment is a fixed PATH, LC_ALL=C and the few variables that say who and where we are. 0: it was started, the
 * rest is in the result; -errno: it was not.
 */
int gf_command_run(const char *path, const gf_strv *argv, uint64_t timeout_ms, int cancel_fd,
                   struct gf_command_result *ret_result);
/*
 * The same with `input` on its standard input (at most a pipe's atomic 4096 bytes; NULL: nothing) and one variable
 * more, "NAME=value" (NULL: none). -E2BIG.
 */
int gf_command_talk(const char *path, const gf_strv *argv, const char *input, const char *variable, uint64_t timeout_ms,
                    int cancel_fd, struct gf_command_result *ret_result);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/env.h"

/* Follows what is added to a file, as tail -f does: by inotify, no more than a line in memory. */
struct gf_follow {
        int output; /* for the command: appends */
        int file, inotify;
        uint64_t bytes; /* seen so far */
        char line[1024], last[256];
        size_t n;
        bool matched;
};
#define GF_FOLLOW_NONE                                                                                                 \
        {                                                                                                              \
                .output = -1, .file = -1, .inotify = -1                                                                \
        }

int gf_follow_open(struct gf_env *env, const char *path, struct gf_follow *ret_follow);
/* Reads what has come; `regex` may be NULL. */
void gf_follow_read(struct gf_follow *follow, const regex_t *regex);
void gf_follow_done(struct gf_follow *follow);

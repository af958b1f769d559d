/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/str.h"

#define ROUNDS_MAX 200
#define COMMANDS_MAX 12
#define WORDS_MAX 32

struct sample {
        double wall, cpu; /* ms */
};

struct command {
        const char *name;
        char *argv[WORDS_MAX];
        struct sample samples[ROUNDS_MAX];
        long rss_kib, slab_kib; /* slab: LONG_MIN not measured */
        int status;
};

struct bench {
        uint32_t rounds, processes, descriptors, mappings, giants;
        bool slab;
        struct command commands[COMMANDS_MAX];
        size_t n;
};

/* Medians and the ratios to the first command, for people. */
void bench_table(const struct bench *b, FILE *out);
/* The same as tab-separated text: what bench-picture reads. */
int bench_write(const struct bench *b, const char *path);

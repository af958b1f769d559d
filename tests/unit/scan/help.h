/* SPDX-License-Identifier: MIT */
#pragma once

#include "../skip.h"

#include "../unit.h"

#include <stdbool.h>
#include <sys/types.h>

#include "model/env.h"
#include "model/scan.h"

/* ---- stand-in devices ---- */

#define STANDS 4

/* Devices that exist everywhere and that nobody else has: unused consoles for root, pseudo-terminals otherwise. */
struct stand {
        char path[128];
        dev_t rdev;
        int master; /* of a pseudo-terminal; -1 */
};

struct stage {
        char dir[64]; /* for nodes and files; readable by all */
        bool mknod;   /* nodes of our own can be made */
        struct stand dev[STANDS];
        char zero[128]; /* a node with the number of /dev/zero, whose private mappings count */
        dev_t zero_rdev;
};
int stage_setup(void **state); /* group setup: *state is a struct stage */
int stage_teardown(void **state);
/* Another node with the number of stand `i`; false: not permitted. */
bool stage_node(const struct stage *stage, unsigned i, const char *name, char path[static 128]);
/* Opens as a holder does; the descriptor, or -errno. */
int stage_open(const char *path);

/*
 * What a test program was told to be: "old-kernel": system calls that old kernels do not have fail, in it and its kids;
 * "nobody": an unprivileged user. False: cannot be here.
 */
bool take_roles(int argc, char **argv);
/* Becomes uid 65534, whose /proc files are its own. 0 or an errno. */
int become_nobody(void);

/* ---- kids: processes that hold something and wait ---- */

#define KID_DEADLINE_MS 20000

struct kid {
        pid_t pid;
        int words; /* what the kid says */
};

/*
 * Forks. `hold` runs in the kid: takes hold of something and returns 0, or a positive errno for "cannot be done here".
 * Then the kid waits to be ended. Returns what `hold` returned. The kid dies with its parent.
 */
int kid_start(struct kid *ret_kid, int (*hold)(void *arg), void *arg);
void kid_end(struct kid *kid);
/* Test teardown: ends what a failed test has left. */
int kids_end(void **state);
/* In a kid whose `hold` never returns: says `word` in its place. */
void kid_say(int word);
void kid_sleep(void) __attribute__((noreturn));
/* The kid's next word (for those that say more than one). */
int kid_hear(const struct kid *kid);

/* ---- scanning ---- */

/* Looks for `n` numbers; `only`: one PID, or 0 for every process. */
void scan_for(const dev_t *chr, size_t n, pid_t only, struct gf_scan *ret_scan);
size_t count_hits(const struct gf_scan *scan, pid_t pid, unsigned via);
const struct gf_hit *find_hit(const struct gf_scan *scan, pid_t pid, unsigned via);
bool is_opaque(const struct gf_scan *scan, pid_t pid);
const struct gf_refused *find_refused(const struct gf_scan *scan, pid_t pid);
uint64_t start_ticks_of(pid_t pid);
/* How many entries a directory has; 0 when it cannot be read. */
size_t count_entries(const char *dir);

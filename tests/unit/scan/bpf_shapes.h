/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Real processes that hold a device in every shape, for the tests of the BPF scanner. A shape runs in a child, which
 * says when it is ready and then waits; it dies with the test.
 *
 * The devices are /dev/full (1:7, for descriptors) and /dev/zero (1:5, which can be mapped).
 */
enum shape {
        SHAPE_FD,
        SHAPE_MAP,
        SHAPE_OWN_NODE,
        SHAPE_UNLINKED,
        SHAPE_THREAD_TABLE,
        SHAPE_ZOMBIE_FD,
        SHAPE_ZOMBIE_MAP,
        SHAPE_PIDNS,
        SHAPE_SCM,
        SHAPE_SCM_BACKLOG,
        SHAPE_SCM_NESTED,
        SHAPE_URING,
        SHAPE_URING_MAPPED,
        SHAPE_BLOCK,
        SHAPE_HIGH_FD,
        SHAPE_MANY_MAPS,
        SHAPE_MANY_THREADS,
        SHAPE_SWAPPED,  /* the two ways at once: a descriptor and two mappings */
        SHAPE_MANY_FDS, /* 400, and one in a socket: more than fits into the iterator's buffer */
        SHAPE_O_PATH,
        SHAPE_BYSTANDER,
        SHAPE_SCM_OTHER, /* another file in a queue */
        SHAPES,
};

struct holder {
        enum shape shape;
        pid_t pid;    /* the process that holds */
        pid_t child;  /* our child: the same, or its parent */
        bool skipped; /* this machine cannot make it */
};

const char *shape_name(enum shape shape);
/* Fails the test when a shape that must work does not. */
void holder_start(struct holder *holder, enum shape shape);
void holder_stop(struct holder *holder);

/* Can BPF be used here? If not, says so as TAP does for a test that is left out whole. */
bool bpf_works(void);

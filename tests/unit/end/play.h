/* SPDX-License-Identifier: MIT */
/*
 * A made machine for tests of ending: real processes, which "hold" GPUs by a word in shared memory, and eyes that read
 * it. Everything that a test starts is ended and reaped by play_done(), which also fails when descriptors leaked.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>

#include "end/end.h"
#include "verify/verdict.h"

#define PLAY_SLOTS 1024
#define GIB (1ULL << 30)
#define MIB (1ULL << 20)
/* No deadline of a test is tight: the machine may be busy. */
#define PATIENCE_MS 30000

/* Room in a vector, or the test ends: the compiler knows of abort() that it does not return. */
#define must_add(vec)                                                                                                  \
        __extension__({                                                                                                \
                __typeof__((vec)->v) _added = gf_vec_add(vec);                                                         \
                if (!_added)                                                                                           \
                        abort();                                                                                       \
                _added;                                                                                                \
        })

struct slot {
        atomic_int pid; /* set last: 0 free */
        uint64_t start_ticks;
        atomic_bool holds;
        atomic_bool unselected;
        int gpu; /* -1: open only, nothing of a GPU */
        uint64_t memory;
        char program[32];
        const char *protected_why; /* the same address in every process */
        const char *owner_kind;    /* "unit", …; the same */
        bool absolute, open_only;
        atomic_int terms; /* SIGTERMs that its handler saw */
};

struct stage {
        atomic_int used;
        struct slot slots[PLAY_SLOTS];
};

struct play {
        struct stage *stage; /* shared with every child */
        struct gf_env env;
        struct gf_eyes eyes;
        struct gpufree_ladder ladder;
        size_t n_gpus;
        enum gpufree_vendor vendor;
        bool memory_unknown; /* the driver gives no figure */
        uint64_t residue;    /* more memory, on GPU 0, that nobody holds … */
        uint64_t residue_ms; /* … until this long after it was first seen; GPUFREE_UNKNOWN for ever */
        uint64_t residue_seen;
        bool gap, lists_complete, outside_init; /* an incomplete look */
        size_t listed;
        int memory_error, look_error;
        size_t looks, memories;
        void (*on_look)(struct play *play, size_t look);    /* before the n-th look, from 1 */
        void (*after_look)(struct play *play, size_t look); /* before its answer is handed over */
        void (*on_event)(struct play *play, const struct gpufree_event *event);
        size_t events[GPUFREE_EVENT_STOPPED + 1];
        int sigkills;
        bool lose_gpus; /* the driver has lost them from the second look on */
        int cancel;     /* eventfd */
        size_t fds;
        pid_t children[PLAY_SLOTS];
        size_t n_children;
        bool real_exe; /* what they run is the test itself, as /proc says: all the same program */
        bool reap;     /* children are reaped before each look */
};

int play_setup(void **state);
int play_teardown(void **state);
size_t count_fds(void);

/* A free slot in shared memory, filled by the caller (child or test), then opened with slot_open(). */
struct slot *slot_new(struct stage *stage, const char *program, int gpu, uint64_t memory);
void slot_open(struct slot *slot);

typedef void (*play_part)(struct play *play, struct slot *slot);
/* Starts a process that plays `part` in a process group of its own; returns once it has opened its slot. */
struct slot *play_start(struct play *play, const char *program, uint64_t memory, play_part part);
/* Parts. */
void part_plain(struct play *play, struct slot *slot);
void part_deaf(struct play *play, struct slot *slot);      /* ignores TERM */
void part_stopped(struct play *play, struct slot *slot);   /* is in state T when its slot is open */
void part_headless(struct play *play, struct slot *slot);  /* the leader has exited, a thread lives */
void part_generous(struct play *play, struct slot *slot);  /* lets go on TERM, and lives */
void part_bystander(struct play *play, struct slot *slot); /* holds nothing */
/* In a child: never returns; ends by itself after a minute whatever happens. */
void play_rest(void) __attribute__((noreturn));

bool is_alive(const struct slot *slot);
uint64_t start_ticks_of(pid_t pid);
void await_death(const struct slot *slot);

struct gpufree_snapshot *play_look(struct play *play);
struct gpufree_report *play_kill(struct play *play); /* look, plan, execute */
const struct gf_fate_entry *fate_of(const struct gpufree_report *report, const struct slot *slot);
#define assert_fate(report, slot, expected)                                                                            \
        do {                                                                                                           \
                const struct gf_fate_entry *_e = fate_of(report, slot);                                                \
                assert_non_null(_e);                                                                                   \
                assert_int_equal(_e->fate, expected);                                                                  \
        } while (0)

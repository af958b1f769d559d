/* SPDX-License-Identifier: MIT */
#pragma once

#include "explain/xid.h"
#include "model/env.h"
#include "model/holder.h"
#include "owner/restart.h"
#include "park/may.h"

#define GF_STORY_THREADS 64 /* described one by one; all are counted */
#define GF_STORY_CHILDREN 64

struct gf_story_thread {
        pid_t tid;
        char state;
        char wchan[64]; /* "" not known, or it runs */
        char *stack;    /* NULL */
};

/* What was read about the threads of a process. */
struct gf_story_threads {
        size_t n; /* all of them */
        size_t states[128];
        uint64_t pending;    /* GPUFREE_UNKNOWN */
        bool stacks_refused; /* no right to read kernel stacks */
        bool incomplete;     /* the reads did not come back in time */
        GF_VEC(struct gf_story_thread) list;
};
void gf_story_threads_done(struct gf_story_threads *threads);
/* story_read.c: in a thread of its own, with a deadline: reads about a hung process can hang. -ESRCH, -ENOMEM. */
int gf_story_threads_read(struct gf_env *env, pid_t pid, struct gf_story_threads *ret_threads);

struct gf_story_line {
        const char *topic; /* static */
        char *sentence;
};

struct gpufree_story {
        struct gpufree_snapshot *snapshot; /* a reference */
        struct gpufree_holder *own;        /* it holds nothing: who it is; NULL */
        const struct gpufree_holder *process;
        struct gf_story_threads threads;
        GF_VEC(pid_t) children;
        size_t n_children;
        char *parent; /* its name; NULL */
        gf_xids xids;
        char *log_error;
        struct gf_may_park parking;
        GF_VEC(struct gf_story_line) lines;
};

/* Reads everything about the process; the sentences come from gf_story_tell(). -ESRCH, -ENOMEM. */
int gf_story_read(struct gf_env *env, struct gpufree_snapshot *snapshot, pid_t pid, struct gpufree_story **ret_story);
/* The sentences, from what was read. `stop`: who would start it again. Pure. -ENOMEM. */
int gf_story_tell(struct gpufree_story *story, const struct gf_stop *stop);

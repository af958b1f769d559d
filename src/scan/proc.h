/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The /proc scanner's own header. One job a scan; its workers (threads) take one PID at a time. The caller's thread
 * watches them: a worker that the kernel holds up (a process whose memory map is locked by a hung driver) is left
 * behind with a reference on the job, and the process counts as one that could not be looked at.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/scan.h"
#include "sys/procfs.h"

struct statx;

#define GF_PROC_BUFFER (64U * 1024)
/* Hits of one process that are kept one by one; beyond it, only what is new in kind. */
#define GF_PROC_HITS_MAX 65536U
#define GF_PROC_CACHE 4096U /* a power of two */

/* What differs between two hits of a process beyond its descriptors' numbers. */
struct gf_proc_kind {
        enum gpufree_via via;
        dev_t rdev;
        bool block;
};

struct gf_proc_opaque {
        pid_t pid;
        uint64_t ino; /* of the socket or ring */
};

/* A job's lock guards all below the line. What is above is not changed once workers run. */
struct gf_proc_job {
        char *root; /* of the procfs, for the one call that takes no descriptor */
        int procfd;
        int rootfd; /* our own "/" */
        dev_t *chr, *blk;
        size_t n_chr, n_blk;
        bool dmabufs;
        pid_t *only, *skip;
        size_t n_only, n_skip;
        int cancel_fd;
        bool kcmp;        /* PIDs of this /proc are PIDs of our system calls */
        bool links_count; /* the link count of task/ tells how many threads there are */
        bool anon_known;  /* the inode that event descriptors and the like share, and no ring has */
        uint32_t anon_major, anon_minor;
        uint64_t anon_ino;
        _Atomic bool no_query; /* the kernel has no PROCMAP_QUERY */
        _Atomic bool no_xattrat;

        pthread_mutex_t lock; /* ---- */
        pthread_cond_t changed;
        unsigned refs;
        unsigned running; /* workers neither finished nor left behind */
        int error;        /* ends the scan */
        struct gf_dirwalk walk;
        char *walk_buffer;
        unsigned char *seen; /* a bit a PID */
        size_t next_only;
        unsigned round;
        uint64_t round_found;
        unsigned left; /* workers left behind */
        struct gf_scan scan;
        GF_VEC(struct gf_proc_opaque) opaque;
};

struct gf_proc_cached {
        uint64_t dev, ino;
        bool valid;
};

struct gf_proc_worker {
        struct gf_proc_job *job;
        pthread_t thread;
        bool finished, left; /* under the job's lock */
        /* Read by the watching thread. */
        _Atomic uint64_t beats;
        _Atomic pid_t pid;
        _Atomic(const char *) doing;
        uint64_t seen_beats; /* the watcher's */
        unsigned still;

        char *names, *tasks, *text; /* GF_PROC_BUFFER each */
        struct gf_proc_cached *cache;

        /* The process in hand. */
        int dirfd;
        int rootfd; /* its root directory, once it was needed; -1 */
        pid_t in_hand;
        bool gone;       /* ended meanwhile */
        bool by_path;    /* map_files is closed to us: go by name */
        bool all_tables; /* tables cannot be told apart: every thread's is read */
        bool doubles;    /* so that hits may come twice */
        int refused;     /* positive errno; 0 */
        const char *refused_what;
        uint64_t threads;
        uint64_t taken;             /* hits of this process so far */
        int error;                  /* -ENOMEM */
        GF_VEC(struct gf_hit) hits; /* not handed in yet */
        GF_VEC(struct gf_proc_kind) kinds;
        GF_VEC(uint64_t) rings; /* inodes of its io_urings that have a descriptor */
        GF_VEC(struct gf_proc_opaque) opaque;
        GF_VEC(pid_t) tables; /* one thread for each descriptor table, in kcmp's order */
};

/* proc_look.c */
/* Looks at one process and hands in what is found. */
void gf_proc_look(struct gf_proc_worker *w, pid_t pid);
/* Notes why the process in hand could not be looked at. -ENOENT, -ESRCH: something has ended, which is no refusal. */
void gf_proc_refuse(struct gf_proc_worker *w, int error, const char *what);
void gf_proc_hit(struct gf_proc_worker *w, const struct gf_hit *hit);
void gf_proc_note_opaque(struct gf_proc_worker *w, uint64_t ino);
bool gf_proc_wants(const struct gf_proc_job *job, const struct statx *sx, dev_t *ret_rdev, bool *ret_block);

uint32_t gf_proc_uid(int dirfd, const char *status); /* effective; UINT32_MAX unknown */

/* proc_fd.c */
/* Looks at every descriptor in `path` ("fd", "task/7/fd"), relative to the process. */
void gf_proc_table(struct gf_proc_worker *w, const char *prefix, pid_t tid);
/* statx through a link of /proc to the file behind it, with the answers of a FUSE that is closed to us sorted out. */
int gf_proc_statx(int dirfd, const char *name, struct statx *ret);
bool gf_proc_link_deleted(int dirfd, const char *name);

/* proc_ring.c */
void gf_proc_ring(struct gf_proc_worker *w, const char *fdinfo, pid_t tid, int fd, uint64_t ino);
/*
 * The file that `path` (as /proc prints it) names for the process in hand, or for us: is it a wanted device? 1 with
 * the hit's device fields filled; 0: it is something else; -ENOENT: nothing by that name (deleted, perhaps).
 */
int gf_proc_resolve(struct gf_proc_worker *w, const char *path, struct gf_hit *hit);

/* proc_maps.c */
/* The memory map of the process in hand, through `dirfd` ("maps", "map_files/"). 1: there was one, 0: none. */
int gf_proc_maps(struct gf_proc_worker *w, int dirfd, pid_t tid);

/* proc_sort.c */
/* Brings the answer into order: hits sorted, dma-bufs named, what is opaque counted once. 0, -ENOMEM. */
int gf_proc_sort(struct gf_proc_job *job);

static inline void gf_proc_beat(struct gf_proc_worker *w)
{
        atomic_store_explicit(&w->beats, atomic_load_explicit(&w->beats, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

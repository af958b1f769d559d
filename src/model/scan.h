/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "base/vec.h"
#include "gpufree.h"
#include "model/ident.h"

/* A character device by a name that leads to it. */
struct gf_node {
        const char *path;
        dev_t rdev;
};

/* What a scanner looks for. Borrowed from the inventory. */
struct gf_wanted {
        const dev_t *chr; /* sorted numbers of character devices */
        size_t n_chr;
        const dev_t *blk;
        size_t n_blk;
        bool dmabufs;      /* GPU drivers' dma-bufs count as well */
        const pid_t *only; /* sorted; NULL: every process */
        size_t n_only;
        const pid_t *skip; /* never looked at (gpufree's own) */
        size_t n_skip;
        const struct gf_node *nodes; /* of the character devices; for counting how often they are open */
        size_t n_nodes;
};

/* One thing found: this thread keeps this device open in this way. */
struct gf_hit {
        struct gf_ident id; /* the thread group */
        pid_t tid;
        enum gpufree_via via;
        dev_t rdev; /* 0 for a dma-buf */
        bool block;
        int fd;            /* -1 none */
        bool unlinked;     /* the node's name is gone */
        dev_t node_dev;    /* the node it was opened through; 0 unknown */
        ino_t node_ino;    /* for a dma-buf: its own inode, the same in every process that shares it */
        uint64_t bytes;    /* of a dma-buf; GPUFREE_UNKNOWN otherwise */
        char exporter[32]; /* of a dma-buf: "nv_dmabuf", "amdgpu", …; "" otherwise */
};

/* Why a process could not be looked at. */
enum gf_refusal {
        GF_REFUSED_PERMISSION, /* EACCES, EPERM */
        GF_REFUSED_IO,         /* any other errno; not ENOENT, ESRCH: those have gone */
};

struct gf_refused {
        pid_t pid;
        uint32_t uid; /* UINT32_MAX unknown */
        enum gf_refusal why;
        int error;        /* errno, positive */
        const char *what; /* static: "fd", "maps", "task", "fdinfo" */
};

/* Open files of a device, by the kernel's count, that are in no process that was looked at. */
struct gf_missed {
        dev_t rdev;
        uint64_t n;
};

/* The answer of a scanner. */
struct gf_scan {
        enum gpufree_scan_method method;
        char *method_reason;        /* why BPF was not used; NULL */
        GF_VEC(struct gf_hit) hits; /* sorted by pid, tid, via, fd */
        GF_VEC(struct gf_refused) refused;
        uint64_t processes; /* looked at, the refused included */
        uint64_t threads;
        uint64_t existing; /* threads that the kernel counts on the whole machine, at the end; 0 unknown */
        uint64_t vanished; /* ended while being looked at: no gap */
        uint64_t slipped;  /* of them, those that had been seen to hold: what they held may have gone on to a fork */
        /*
         * Sockets with descriptors waiting in them, rings with files that have no name: /proc shows that they are
         * there, not what they hold. Each is counted once; the processes that have one are in `opaque`, sorted.
         */
        uint64_t opaque_queues;
        GF_VEC(pid_t) opaque;
        GF_VEC(struct gf_missed) missed; /* only where the kernel's count can be read (BPF) */
        uint64_t elapsed_us;
};

void gf_scan_done(struct gf_scan *scan);

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the BPF programs tell user space: one record a finding, fixed layout, read from the iterator. Included by both
 * sides; __u32 and friends come from kernel.h there and from <linux/types.h> here.
 */
#ifndef GPUFREE_BPF_RECORD_H
#define GPUFREE_BPF_RECORD_H

enum gf_bpf_kind {
        GF_BPF_FD = 1, /* a descriptor */
        GF_BPF_MAP,    /* a mapping */
        GF_BPF_SCM,    /* waiting in the UNIX socket `fd` */
        GF_BPF_URING,  /* registered with the io_uring `fd` (-1: only mapped, or a registered ring) */
        GF_BPF_LOOK,   /* this process could not be walked to the end: look at it in /proc */
};

enum gf_bpf_flags {
        GF_BPF_BLOCK = 1 << 0,
        GF_BPF_DMABUF = 1 << 1,
        GF_BPF_UNLINKED = 1 << 2,
        GF_BPF_NODE_UNSURE = 1 << 3, /* a file system whose superblock number is not what stat() shows */
        GF_BPF_OWN = 1 << 4,         /* of a process that is to be skipped: for counting open files alone */
};

#define GF_BPF_EXPORTER_MAX 32
/* Records of one thread beyond which it is left to /proc: the iterator's buffer holds 32 KiB a thread. Queues and rings
 * have a share of their own, for /proc does not say what is in a queue. */
#define GF_BPF_PER_TASK 160
#define GF_BPF_DEEP_PER_TASK 128

/* Devices whose open files are counted. */
#define GF_BPF_WATCH_MAX 64
#define GF_BPF_UNCOUNTED 0xffffffffu

struct gf_bpf_record {
        __u32 kind;
        __u32 tgid, tid;
        __s32 fd;
        __u32 slot; /* place in the queue or in the ring's table */
        __u32 flags;
        __u32 rdev, sdev; /* the kernel's encoding: major << 20 | minor */
        __u64 start_ns;   /* start_boottime of the thread group's leader */
        __u64 ino;
        __u64 addr;  /* of a mapping */
        __u64 bytes; /* of a dma-buf */
        __u64 file;  /* which open file: the same in all that share it */
        char exporter[GF_BPF_EXPORTER_MAX];
};

#endif

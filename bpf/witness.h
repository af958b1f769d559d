/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the second witness tells user space: one record a finding, fixed layout, read from the iterator. */
#ifndef GPUFREE_BPF_WITNESS_H
#define GPUFREE_BPF_WITNESS_H

enum gf_witness_kind {
        GF_WITNESS_NODE = 1, /* a descriptor of the driver's: a GPU's node or nvidiactl */
        GF_WITNESS_SPACE,    /* a UVM descriptor with its VA space; the GPUs of it follow */
        GF_WITNESS_PART,     /* a GPU that is registered with the VA space before */
        GF_WITNESS_DMABUF,   /* memory exported by NVIDIA's driver */
};

enum gf_witness_flags {
        GF_WITNESS_GPU_KNOWN = 1 << 0,     /* gpu_id was read; 0 is the control device */
        GF_WITNESS_HANDLES_KNOWN = 1 << 1, /* whether memory handles were exported through it was read */
        GF_WITNESS_HANDLES = 1 << 2,       /* they were: `instance` counts */
        GF_WITNESS_WHOLE = 1 << 3,         /* of a VA space: every GPU of it was read */
        GF_WITNESS_USED = 1 << 4,          /* of a part: the GPU has address space there, so a context */
};

#define GF_WITNESS_PCI_MAX 16

struct gf_witness_record {
        __u32 kind, flags;
        __u32 tgid, tid;
        __s32 fd;
        __u32 rdev;                     /* the kernel's encoding */
        __u64 start_ns;                 /* start_boottime of the thread group's leader */
        __u64 space;                    /* tells VA spaces apart */
        __u64 ino, bytes;               /* of a dma-buf */
        __u32 gpu_id;                   /* domain << 16 | bus << 8 | device */
        __u32 instance;                 /* the resource manager's number of the GPU */
        __u32 attached, attached_first; /* GPUs attached to nvidiactl: how many, the id of the first */
        __u8 uuid[16];
        char pci[GF_WITNESS_PCI_MAX]; /* as sysfs writes it; "" unknown */
};

#endif

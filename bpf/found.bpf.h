/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * State of a pass, what a file is, and the records about it. Part of scan.bpf.c, which says how all this is to be read.
 */
#ifndef GPUFREE_BPF_FOUND_H
#define GPUFREE_BPF_FOUND_H

#include "kernel.h"
#include "record.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define S_IFCHR 0020000
#define S_IFIFO 0010000
#define FMODE_PATH 0x4000
#define PF_KTHREAD 0x00200000
#define AF_UNIX 1
#define TCP_LISTEN 10
#define ANON_INODE_FS_MAGIC 0x09041934
#define DMA_BUF_MAGIC 0x444d4142
#define BTRFS_SUPER_MAGIC 0x9123683e
#define OVERLAYFS_SUPER_MAGIC 0x794c7630

#define CHUNK 16       /* pointers fetched at once */
#define QUEUE_MAX 4096 /* messages in one socket */
#define DEEP_MAX 512   /* sockets and rings of one thread that need a look inside */
#define STACK_MAX 256  /* nodes of a maple tree waiting; 15 a level */
#define NODES_MAX (1 << 18)
#define RING_MAX (1 << 20) /* files registered with one ring */

/* What a file is, remembered by its operations. Device files are never decided by their operations alone. */
enum {
        K_UNKNOWN,
        K_NONE, /* a regular file, directory or pipe: its inode need not be touched */
        K_SOCKET,
        K_RING,
        K_DMABUF,
        K_ANON,   /* another anonymous inode: VFIO uses the same operations for a character device */
        K_DEVICE, /* a wanted device */
};

enum {
        FILTER_NONE,
        FILTER_SKIP, /* not those in `pids` */
        FILTER_ONLY, /* only those in `pids` with a value of `want_round` or more */
};

const volatile __u32 want_dmabufs = 0;

/* Set by user space before a pass. */
__u32 filter, want_round;

__u32 watch_n, watch_begun;
__s32 watch_fd[GF_BPF_WATCH_MAX]; /* descriptors of the reader, opened with O_PATH */

/* Read by user space after it. */
__u32 unsupported;
__u64 processes, threads;
/* How often these devices are open, when the pass began and when it ended; GF_BPF_UNCOUNTED: not known. */
__u32 watch_before[GF_BPF_WATCH_MAX], watch_after[GF_BPF_WATCH_MAX];

/* Scratch: one pass at a time. */
struct gf_bpf_record queue[2 * 64];
__u32 queued, written, written_deep, trouble, is_own;
__u64 cur_task, cur_vma, cur_mm, cur_fds, cur_open, cur_pid, last_file;
__u64 P[CHUNK], A[CHUNK], B[CHUNK];
__u64 kinds[256]; /* operations | K_… */
__u64 seen_ptr[512];
__u32 seen_tgid[512], seen_tid[512];
__u64 deep_ptr[DEEP_MAX];
__s32 deep_fd[DEEP_MAX];
__u32 deep_kind[DEEP_MAX];
__u32 deep_n;
__u64 skb, skb_head;
__u32 skb_n, skb_listen;
__s32 deep_cur_fd;
__u32 deep_cur;
__u64 ring_table;
__u32 ring_old;
__u64 stack[STACK_MAX];
__u32 stack_n;

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, 64);
        __type(key, __u64); /* block << 32 | number */
        __type(value, __u32);
} wanted SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, 16384);
        __uint(map_flags, 1 /* BPF_F_NO_PREALLOC */);
        __type(key, __u32);
        __type(value, __u32);
} pids SEC(".maps");

/* A member read as a number, whatever `p` is; 0 where it cannot be read. */
#define NUM(T, p, member)                                                                                              \
        ({                                                                                                             \
                __u64 v_ = 0;                                                                                          \
                bpf_probe_read_kernel(&v_, sizeof(((struct T *)0)->member), &((struct T *)(p))->member);               \
                v_;                                                                                                    \
        })

#ifdef GF_FAST
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;
/* A plain load that yields 0 on a fault: no call, and several run side by side. */
#define GET(T, p, member) (((struct T *)bpf_rdonly_cast((void *)(p), bpf_core_type_id_kernel(struct T)))->member)
#else
#define GET(T, p, member) NUM(T, p, member)
#endif

/* Through memory, so that the verifier's states of a loop body meet again. */
#define MEM(x) (*(volatile __typeof__(x) *)&(x))

static __always_inline __u32 task_tgid(void)
{
        return (__u32)NUM(task_struct, cur_task, tgid);
}

__noinline int in_set(__u32 rdev, __u32 block)
{
        __u64 key = (__u64)(block != 0) << 32 | rdev;

        return bpf_map_lookup_elem(&wanted, &key) != 0;
}

/* The slow half of file_kind(): what this file is by its inode, remembered for the next with the same operations. */
__noinline int file_learn(__u64 file, __u64 ops)
{
        __u64 inode = NUM(file, file, f_inode), name, magic;
        __u32 type = (__u32)NUM(inode, inode, i_mode) & S_IFMT, kind;
        char text[11] = {};

        if (NUM(file, file, f_mode) & FMODE_PATH)
                return K_NONE;
        magic = NUM(super_block, NUM(inode, inode, i_sb), s_magic);
        if (type == S_IFSOCK)
                kind = K_SOCKET;
        else if (magic == DMA_BUF_MAGIC)
                kind = K_DMABUF;
        else if (magic == ANON_INODE_FS_MAGIC) {
                name = NUM(file, file, f_path.dentry);
                name = NUM(dentry, name, d_name.name);
                bpf_probe_read_kernel_str(text, sizeof(text), (void *)name);
                kind = text[0] == '[' && text[1] == 'i' && text[2] == 'o' && text[3] == '_' && text[4] == 'u' &&
                                       text[5] == 'r' && text[6] == 'i' && text[7] == 'n' && text[8] == 'g' &&
                                       text[9] == ']'
                               ? K_RING
                               : K_ANON;
        } else if (type == S_IFREG || type == S_IFDIR || type == S_IFIFO)
                kind = K_NONE;
        else
                return K_NONE;
        kinds[(ops >> 5) & 255] = (ops & ~7ull) | kind;
        return kind == K_DMABUF && !want_dmabufs ? K_NONE : kind;
}

__noinline int file_kind(__u64 file, __u64 ops)
{
        __u64 known = kinds[(ops >> 5) & 255];
        __u32 kind = known && (known & ~7ull) == ops ? known & 7 : K_UNKNOWN, type, block;

        if (!ops)
                return K_NONE;
        if (kind == K_DMABUF)
                return want_dmabufs ? K_DMABUF : K_NONE;
        if (kind == K_NONE || kind == K_SOCKET || kind == K_RING)
                return kind;
        {
#ifdef GF_FAST
                struct inode *inode = GET(file, file, f_inode);
#else
                __u64 inode = NUM(file, file, f_inode);
#endif
                type = GET(inode, inode, i_mode) & S_IFMT;
                if (type == S_IFCHR || type == S_IFBLK) {
                        block = type == S_IFBLK;
                        if (GET(file, file, f_mode) & FMODE_PATH)
                                return K_NONE;
                        return in_set(GET(inode, inode, i_rdev), block) ? K_DEVICE : K_NONE;
                }
        }
        if (kind == K_ANON)
                return K_NONE;
        return file_learn(file, ops);
}

__noinline int add(__u32 kind, __s32 fd, __u64 file, __u64 vma, __u32 slot)
{
        __u64 inode = NUM(file, file, f_inode), sb = NUM(inode, inode, i_sb), magic = NUM(super_block, sb, s_magic);
        __u32 n = MEM(queued);
        struct gf_bpf_record *r;

        if (n >= 2 * 64)
                goto full;
        if (kind == GF_BPF_FD || kind == GF_BPF_MAP) {
                if (MEM(written) >= GF_BPF_PER_TASK)
                        goto full;
                written++;
        } else {
                if (MEM(written_deep) >= GF_BPF_DEEP_PER_TASK)
                        goto full;
                written_deep++;
        }
        r = &queue[n & 127];
        queued = n + 1;
        r->kind = kind;
        r->tgid = task_tgid();
        r->tid = (__u32)NUM(task_struct, cur_task, pid);
        r->fd = fd;
        r->slot = slot;
        r->flags = MEM(is_own) ? GF_BPF_OWN : 0;
        if (((__u32)NUM(inode, inode, i_mode) & S_IFMT) == S_IFBLK)
                r->flags |= GF_BPF_BLOCK;
        if (!NUM(inode, inode, i_nlink))
                r->flags |= GF_BPF_UNLINKED;
        if (magic == OVERLAYFS_SUPER_MAGIC || magic == BTRFS_SUPER_MAGIC)
                r->flags |= GF_BPF_NODE_UNSURE;
        r->rdev = (__u32)NUM(inode, inode, i_rdev);
        r->sdev = (__u32)NUM(super_block, sb, s_dev);
        r->start_ns = NUM(task_struct, NUM(task_struct, cur_task, group_leader), start_boottime);
        r->ino = NUM(inode, inode, i_ino);
        r->addr = vma ? NUM(vm_area_struct, vma, vm_start) : 0;
        r->bytes = 0;
        r->file = file;
        __builtin_memset(r->exporter, 0, sizeof(r->exporter));
        if (magic == DMA_BUF_MAGIC) {
                __u64 buf = NUM(file, file, private_data);

                r->flags |= GF_BPF_DMABUF;
                r->flags &= ~(__u32)GF_BPF_UNLINKED;
                r->rdev = 0;
                r->bytes = NUM(dma_buf, buf, size);
                bpf_probe_read_kernel_str(r->exporter, sizeof(r->exporter), (void *)NUM(dma_buf, buf, exp_name));
        }
        return 0;
full:
        trouble = 1;
        return 0;
}

/* The record that says: not walked to the end. */
__noinline int add_look(void)
{
        struct gf_bpf_record *r = &queue[0];

        __builtin_memset(r, 0, sizeof(*r));
        r->kind = GF_BPF_LOOK;
        r->flags = MEM(is_own) ? GF_BPF_OWN : 0;
        r->tgid = task_tgid();
        r->tid = (__u32)NUM(task_struct, cur_task, pid);
        r->start_ns = NUM(task_struct, NUM(task_struct, cur_task, group_leader), start_boottime);
        queued = 1;
        return 0;
}

static __always_inline void flush(struct seq_file *seq)
{
        __u64 size = (__u64)MEM(queued) * sizeof(struct gf_bpf_record);

        asm volatile("" : "+r"(size));
        if (size && size <= sizeof(queue))
                bpf_seq_write(seq, queue, (__u32)size);
        queued = 0;
}

/* Has another thread of this process already shown this table or address space in this pass? */
__noinline int seen(__u64 ptr, __u32 half)
{
        __u32 i = (__u32)((ptr >> 7) ^ (ptr >> 15)) & 255, tgid = task_tgid();
        __u32 tid = (__u32)NUM(task_struct, cur_task, pid);

        if (half)
                i += 256;
        if (seen_ptr[i & 511] == ptr && seen_tgid[i & 511] == tgid && seen_tid[i & 511] != tid)
                return 1;
        seen_ptr[i & 511] = ptr;
        seen_tgid[i & 511] = tgid;
        seen_tid[i & 511] = tid;
        return 0;
}

#endif

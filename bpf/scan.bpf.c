// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * One pass over every thread: its descriptor table, its mappings, and what hides behind them (queues of UNIX sockets,
 * registered files of io_uring). Built twice:
 *
 *  GF_FAST  mappings by walking the maple tree by hand, sixteen slots at a time with their loads side by side, so that
 *           cache misses overlap. No lock is taken, so a process stuck with its address space locked cannot stop it.
 *           Needs VMAs that outlive an RCU grace period (6.4) and bpf_rdonly_cast (6.2).
 *  without  mappings by the kernel's VMA iterator, loads by bpf_probe_read_kernel: from 5.17.
 *
 * Nothing found here is certain: no reference is taken, so a table may be freed and used again while it is read. User
 * space makes a second pass and asks /proc before it believes a record. What cannot be walked to the end is said
 * (GF_BPF_LOOK), never passed over.
 *
 * Most functions are global with plain numbers as arguments: the verifier then checks each once, not once a path, and
 * loading takes milliseconds. For the same reason counters live in memory. The iterator calls a program again for the
 * same thread when its buffer was full, so nothing may depend on how often a thread is seen.
 */
#include "kernel.h"
#include "record.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

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

/* Read by user space after it. */
__u32 unsupported;
__u64 processes, threads;

/* Scratch: one pass at a time. */
struct gf_bpf_record queue[2 * 64];
__u32 queued, written, written_deep, trouble;
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
        r->flags = 0;
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

/* ---- what needs a look inside ---- */

static long deep_same(__u32 i, __u64 *ptr)
{
        if (deep_ptr[i & (DEEP_MAX - 1)] != *ptr)
                return 0;
        *ptr = 0;
        return 1;
}

__noinline int deep_push(__u64 ptr, __s32 fd, __u32 kind)
{
        __u32 n = MEM(deep_n);
        __u64 same = ptr;

        if (n >= DEEP_MAX) {
                trouble = 1;
                return 0;
        }
        /* A duplicated descriptor, or sockets queued in a circle. */
        if (n)
                bpf_loop(n, deep_same, &same, 0);
        if (!same)
                return 0;
        deep_ptr[n & (DEEP_MAX - 1)] = ptr;
        deep_fd[n & (DEEP_MAX - 1)] = fd;
        deep_kind[n & (DEEP_MAX - 1)] = kind;
        deep_n = n + 1;
        return 0;
}

/* A UNIX socket is worth walking when descriptors wait in it, or when it listens: they may wait in a connection that
 * nobody has accepted yet. */
__noinline int sock_push(__u64 sk, __s32 fd)
{
        if (!sk || GET(sock, sk, __sk_common.skc_family) != AF_UNIX)
                return 0;
        if (GET(sock, sk, __sk_common.skc_state) == TCP_LISTEN) {
                if (!NUM(sock, sk, sk_receive_queue.qlen))
                        return 0;
        } else if (bpf_core_field_exists(struct unix_sock, scm_stat)) {
                if (!GET(unix_sock, sk, scm_stat.nr_fds.counter))
                        return 0;
        }
        return deep_push(sk, fd, K_SOCKET);
}

static __always_inline __u64 sock_of(__u64 file)
{
#ifdef GF_FAST
        B[0] = (__u64)GET(socket, GET(file, file, private_data), sk);
        return MEM(B[0]);
#else
        return NUM(socket, NUM(file, file, private_data), sk);
#endif
}

/* A file in a socket's queue or in a ring's table. */
__noinline int deep_file(__u32 kind, __u64 file, __u32 slot)
{
        int what;

        if (!file)
                return 0;
        what = file_kind(file, NUM(file, file, f_op));
        if (what == K_DEVICE || what == K_DMABUF)
                add(kind, MEM(deep_cur_fd), file, 0, (MEM(deep_cur) << 20) + slot);
        else if (what == K_SOCKET) /* a socket in a socket */
                sock_push(sock_of(file), MEM(deep_cur_fd));
        return 0;
}

struct pass {
        struct seq_file *seq;
};

struct scm_pass {
        struct seq_file *seq;
        __u64 list;
};

static long scm_step(__u32 i, struct scm_pass *pass)
{
        __u64 file = 0, at = pass->list + bpf_core_field_offset(struct scm_fp_list, fp) + i * 8ull;

        bpf_probe_read_kernel(&file, sizeof(file), (void *)at);
        deep_file(GF_BPF_SCM, file, ((MEM(skb_n) & 0xfff) << 8) + i);
        if (MEM(queued))
                flush(pass->seq);
        return 0;
}

static long skb_step(__u32 i __attribute__((unused)), struct pass *pass)
{
        __u64 cur = MEM(skb), list;
        __u32 count;

        if (!cur || cur == MEM(skb_head))
                return 1;
        skb_n++;
        if (MEM(skb_listen)) {
                sock_push(NUM(sk_buff, cur, sk), MEM(deep_cur_fd));
        } else {
                list = cur + bpf_core_field_offset(struct sk_buff, cb);
                list = NUM(unix_skb_parms, list, fp);
                count = list ? (__u32)NUM(scm_fp_list, list, count) : 0;
                if (count > 0 && count <= 256) {
                        struct scm_pass scm = { .seq = pass->seq, .list = list };

                        bpf_loop(count, scm_step, &scm, 0);
                }
        }
        skb = NUM(sk_buff, cur, next);
        return 0;
}

/* The queue's lock cannot be taken: it was walked whole when the walk came back to its head and met as many messages
 * as the queue had before and after. Else /proc is asked. */
static __always_inline void walk_socket(struct pass *pass, __u64 sk)
{
        __u32 before = (__u32)NUM(sock, sk, sk_receive_queue.qlen);

        skb_head = sk + bpf_core_field_offset(struct sock, sk_receive_queue);
        skb = NUM(sock, sk, sk_receive_queue.next);
        skb_n = 0;
        skb_listen = NUM(sock, sk, __sk_common.skc_state) == TCP_LISTEN;
        bpf_loop(QUEUE_MAX, skb_step, pass, 0);
        if (MEM(skb) != MEM(skb_head) || MEM(skb_n) != before || (__u32)NUM(sock, sk, sk_receive_queue.qlen) != before)
                trouble = 1;
}

static long ring_step(__u32 i, struct pass *pass)
{
        __u64 file = 0;

        bpf_probe_read_kernel(&file, sizeof(file), (void *)(MEM(ring_table) + i * 8ull));
        if (!file)
                return 0;
        if (!MEM(ring_old))
                file = NUM(io_rsrc_node, file, file_ptr);
        deep_file(GF_BPF_URING, file & ~7ull, i); /* flags live in the low bits */
        if (MEM(queued))
                flush(pass->seq);
        return 0;
}

static __always_inline void walk_ring(struct pass *pass, __u64 file)
{
        __u64 ring = NUM(file, file, private_data);
        __u32 n = 0;

        if (bpf_core_field_exists(struct io_ring_ctx, file_table.data.nodes)) {
                ring_table = NUM(io_ring_ctx, ring, file_table.data.nodes);
                n = (__u32)NUM(io_ring_ctx, ring, file_table.data.nr);
                ring_old = 0;
        } else if (bpf_core_field_exists(struct io_ring_ctx___old, file_table.files) &&
                   bpf_core_field_exists(struct io_ring_ctx___old, nr_user_files)) {
                ring_table = NUM(io_ring_ctx___old, ring, file_table.files);
                n = (__u32)NUM(io_ring_ctx___old, ring, nr_user_files);
                ring_old = 1;
        } else {
                trouble = 1;
                return;
        }
        if (!MEM(ring_table) || !n)
                return;
        if (n > RING_MAX) {
                trouble = 1;
                return;
        }
        bpf_loop(n, ring_step, pass, 0);
}

static long deep_step(__u32 i, struct pass *pass)
{
        if (i >= MEM(deep_n))
                return 1;
        deep_cur = i;
        deep_cur_fd = deep_fd[i & (DEEP_MAX - 1)];
        if (deep_kind[i & (DEEP_MAX - 1)] == K_SOCKET)
                walk_socket(pass, deep_ptr[i & (DEEP_MAX - 1)]);
        else
                walk_ring(pass, deep_ptr[i & (DEEP_MAX - 1)]);
        return 0;
}

/* Rings that a thread registered for itself need no descriptor (IORING_REGISTER_RING_FDS). */
static long own_ring(__u32 i, __u64 *own)
{
        __u64 file = 0;

        bpf_probe_read_kernel(&file, sizeof(file), (void *)(*own + i * 8ull));
        if (file && file_kind(file, NUM(file, file, f_op)) == K_RING)
                deep_push(file, -1, K_RING);
        return 0;
}

/* ---- descriptors ---- */

__noinline int fd_found(__u64 file, __u64 ops, __s32 fd)
{
        int kind = file_kind(file, ops);

        if (kind == K_DEVICE || kind == K_DMABUF)
                add(GF_BPF_FD, fd, file, 0, 0);
        else if (kind == K_SOCKET)
                sock_push(sock_of(file), fd);
        else if (kind == K_RING)
                deep_push(file, fd, K_RING);
        return 0;
}

__noinline int fd_chunk(__u32 base)
{
        if (bpf_probe_read_kernel(P, sizeof(P), (void *)(MEM(cur_fds) + base * 8ull)))
                return 0; /* the table is gone: the thread ends */
#ifdef GF_FAST
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
                A[i] = (__u64)GET(file, P[i], f_op);
#else
        for (int i = 0; i < CHUNK; i++)
                MEM(A[i]) = MEM(P[i]) ? NUM(file, MEM(P[i]), f_op) : 0;
#endif
        for (int i = 0; i < CHUNK; i++) {
                __u64 ops = MEM(A[i]), file = P[i], known;

                if (!file || !ops)
                        continue;
                known = kinds[(ops >> 5) & 255];
                if (known == ((ops & ~7ull) | K_NONE))
                        continue;
                fd_found(file, ops, (__s32)base + i);
        }
        return 0;
}

static long fd_word(__u32 w, struct pass *pass)
{
        __u64 bits = 0;

        bpf_probe_read_kernel(&bits, 8, (void *)(MEM(cur_open) + w * 8ull));
        if (!bits)
                return 0;
        if (bits & 0xffff)
                fd_chunk(w * 64);
        if (bits & 0xffff0000)
                fd_chunk(w * 64 + 16);
        if (bits & 0xffff00000000)
                fd_chunk(w * 64 + 32);
        if (bits >> 48)
                fd_chunk(w * 64 + 48);
        if (MEM(queued))
                flush(pass->seq);
        return 0;
}

/* How many words of the table to walk; 0: none, or another thread shows it. */
__noinline int fd_start(void)
{
        __u64 files = NUM(task_struct, cur_task, files), leader = NUM(task_struct, cur_task, group_leader), fdt;
        __u32 max;

        if (!files)
                return 0;
        if (leader != MEM(cur_task)) {
                if (NUM(task_struct, leader, files) == files)
                        return 0;
                if (seen(files, 0))
                        return 0;
        }
        fdt = NUM(files_struct, files, fdt);
        cur_fds = NUM(fdtable, fdt, fd);
        cur_open = NUM(fdtable, fdt, open_fds);
        max = (__u32)NUM(fdtable, fdt, max_fds);
        if (NUM(task_struct, cur_task, files) != files)
                return 0; /* freed under our eyes: the thread ends */
        if (max > 1u << 28) {
                trouble = 1;
                return 0;
        }
        return (int)((max + 63) / 64);
}

/* Does this thread show its address space, or another one of its process? */
__noinline int mm_mine(void)
{
        __u64 leader = NUM(task_struct, cur_task, group_leader), mm = MEM(cur_mm);

        if (!mm)
                return 0;
        if (leader != MEM(cur_task)) {
                if (NUM(task_struct, leader, mm))
                        return 0;
                if (seen(mm, 1))
                        return 0;
        }
        return 1;
}

__noinline int map_found(__u64 vma, __u64 file, __u64 ops)
{
        int kind = file_kind(file, ops);

        if (kind == K_RING)
                return deep_push(file, -1, K_RING);
        if (kind != K_DEVICE && kind != K_DMABUF) {
                last_file = file;
                return 0;
        }
        /* A stale slot, or a recycled object: not this process's. */
        if (NUM(vm_area_struct, vma, vm_mm) != MEM(cur_mm) || NUM(task_struct, cur_task, mm) != MEM(cur_mm))
                return 0;
        return add(GF_BPF_MAP, -1, file, vma, 0);
}

#ifdef GF_FAST
__noinline int tree_leaf(__u64 node)
{
        if (bpf_probe_read_kernel(P, sizeof(P), &((struct maple_range_64 *)node)->slot))
                return 0;
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
                A[i] = (__u64)GET(vm_area_struct, P[i], vm_file);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
                B[i] = (__u64)GET(file, MEM(A[i]), f_op);
        for (int i = 0; i < CHUNK; i++) {
                __u64 file = MEM(A[i]), ops = MEM(B[i]);

                if (!file || !ops || file == MEM(last_file))
                        continue;
                if (kinds[(ops >> 5) & 255] == ((ops & ~7ull) | K_NONE))
                        continue;
                map_found(P[i], file, ops);
        }
        return 0;
}

__noinline int tree_inner(__u64 node, __u32 type)
{
        __u32 n;

        for (int i = 0; i < CHUNK; i++)
                P[i] = 0;
        if (type == bpf_core_enum_value(enum maple_type, maple_arange_64))
                bpf_probe_read_kernel(P, 10 * 8, &((struct maple_arange_64 *)node)->slot);
        else if (type == bpf_core_enum_value(enum maple_type, maple_range_64))
                bpf_probe_read_kernel(P, 16 * 8, &((struct maple_range_64 *)node)->slot);
        else {
                trouble = 1;
                return 0;
        }
        for (int i = CHUNK - 1; i >= 0; i--) {
                __u64 child = P[i];

                if ((child >> 56) != 0xff)
                        continue;
                n = MEM(stack_n);
                stack[n & (STACK_MAX - 1)] = child;
                MEM(stack_n) = n + 1;
        }
        if (MEM(stack_n) > STACK_MAX - CHUNK) {
                trouble = 1;
                stack_n = 0;
        }
        return 0;
}

static long tree_step(__u32 i __attribute__((unused)), struct pass *pass)
{
        __u32 n = MEM(stack_n), type;
        __u64 entry, node;

        if (!n)
                return 1;
        n--;
        stack_n = n;
        entry = stack[n & (STACK_MAX - 1)];
        node = entry & ~0xffull;
        type = (entry >> 3) & 0xf;
        if (type == bpf_core_enum_value(enum maple_type, maple_leaf_64)) {
                tree_leaf(node);
                if (MEM(queued))
                        flush(pass->seq);
        } else {
                tree_inner(node, type);
        }
        return 0;
}

/* Is the kernel's tree what this walk knows? */
static __always_inline int tree_known(void)
{
        return bpf_core_field_exists(struct vm_area_struct, vm_lock_seq) &&
               bpf_core_field_size(struct maple_range_64, slot) == 16 * 8 &&
               bpf_core_field_size(struct maple_arange_64, slot) == 10 * 8;
}

static __always_inline void walk_maps(struct pass *pass)
{
        __u64 root;

        if (!mm_mine())
                return;
        root = NUM(mm_struct, cur_mm, mm_mt.ma_root);
        if ((root & 3) != 2 || root < 4096)
                return;
        stack[0] = root;
        stack_n = 1;
        last_file = 0;
        bpf_loop(NODES_MAX, tree_step, pass, 0);
        if (MEM(stack_n))
                trouble = 1;
}
#endif

__noinline int passed_over(__u32 tgid)
{
        __u32 *value;

        if (MEM(filter) == FILTER_NONE)
                return 0;
        value = bpf_map_lookup_elem(&pids, &tgid);
        if (MEM(filter) == FILTER_SKIP)
                return value != 0;
        return !value || *value < MEM(want_round);
}

SEC("iter/task")
int scan_tasks(struct bpf_iter__task *ctx)
{
        struct task_struct *task = ctx->task;
        struct pass pass = { .seq = ctx->meta->seq };
        __u64 own;
        __u32 n;

        if (!task)
                return 0;
#ifdef GF_FAST
        if (!tree_known()) {
                unsupported = 1;
                return 0;
        }
#endif
        if (passed_over((__u32)task->tgid))
                return 0;
        if (MEM(cur_pid) != (__u32)task->pid) { /* not the same thread once more */
                cur_pid = (__u32)task->pid;
                threads++;
                if (task->pid == task->tgid)
                        processes++;
        }
        if (task->flags & PF_KTHREAD)
                return 0;
        cur_task = (__u64)task;
        cur_mm = NUM(task_struct, cur_task, mm);
        queued = written = written_deep = trouble = deep_n = 0;
        n = (__u32)fd_start();
        bpf_loop(n, fd_word, &pass, 0);
        if (bpf_core_field_exists(struct task_struct, io_uring)) {
                own = NUM(task_struct, cur_task, io_uring);
                if (own && bpf_core_field_exists(struct io_uring_task, registered_rings)) {
                        own += bpf_core_field_offset(struct io_uring_task, registered_rings);
                        bpf_loop(16, own_ring, &own, 0);
                }
        }
#ifdef GF_FAST
        walk_maps(&pass);
#endif
        if (MEM(deep_n))
                bpf_loop(DEEP_MAX, deep_step, &pass, 0);
        if (MEM(trouble)) {
                add_look();
                flush(pass.seq);
        }
        return 0;
}

#ifndef GF_FAST
SEC("iter/task_vma")
int scan_vmas(struct bpf_iter__task_vma *ctx)
{
        struct task_struct *task = ctx->task;
        struct vm_area_struct *vma = ctx->vma;
        struct pass pass = { .seq = ctx->meta->seq };
        __u64 file, ops;

        if (!task || !vma || passed_over((__u32)task->tgid))
                return 0;
        file = NUM(vm_area_struct, vma, vm_file);
        if (!file)
                return 0;
        cur_task = (__u64)task;
        cur_mm = NUM(task_struct, cur_task, mm);
        queued = written = written_deep = trouble = deep_n = 0;
        if (task->pid != task->tgid && NUM(task_struct, NUM(task_struct, cur_task, group_leader), mm))
                return 0;
        ops = NUM(file, file, f_op);
        cur_vma = (__u64)vma;
        map_found(MEM(cur_vma), file, ops);
        if (MEM(deep_n))
                bpf_loop(DEEP_MAX, deep_step, &pass, 0);
        if (MEM(trouble))
                add_look();
        if (MEM(queued))
                flush(pass.seq);
        return 0;
}
#endif

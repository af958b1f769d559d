/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What hides behind a descriptor: the queues of UNIX sockets and the registered files of io_uring. They are noted while
 * descriptors and mappings are walked, and looked into afterwards. Part of scan.bpf.c.
 */
#ifndef GPUFREE_BPF_DEEP_H
#define GPUFREE_BPF_DEEP_H

#include "found.bpf.h"

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

#endif

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
#include "found.bpf.h"
#include "deep.bpf.h"
#include "watch.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

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
        if (bpf_probe_read_kernel(P, sizeof(P), (void *)(MEM(cur_fds) + base * 8ull))) {
                trouble = 1;
                return 0;
        }
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
        if (bpf_probe_read_kernel(P, sizeof(P), &((struct maple_range_64 *)node)->slot)) {
                trouble = 1;
                return 0;
        }
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

/* Those to be skipped are walked too: what they have open is in the driver's count. User space drops it. */
__noinline int passed_over(__u32 tgid)
{
        __u32 *value;

        is_own = 0;
        if (MEM(filter) == FILTER_NONE)
                return 0;
        value = bpf_map_lookup_elem(&pids, &tgid);
        if (MEM(filter) == FILTER_SKIP) {
                is_own = value != 0;
                return 0;
        }
        return !value || *value < MEM(want_round);
}

SEC("iter/task")
int scan_tasks(struct bpf_iter__task *ctx)
{
        struct task_struct *task = ctx->task;
        struct pass pass = { .seq = ctx->meta->seq };
        __u64 own;
        __u32 n;

        if (!task) { /* the end */
                watch(1);
                return 0;
        }
        if (!MEM(watch_begun)) {
                watch_begun = 1;
                watch(0);
        }
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
                if (!MEM(is_own))
                        threads++;
                if (!MEM(is_own) && task->pid == task->tgid)
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

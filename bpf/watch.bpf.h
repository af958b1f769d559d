/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How often a device is open, by the count that the kernel keeps. Every open file of a character device has a reference
 * to its driver's cdev, whatever node and namespace it came through; the cdev itself is one more. Part of scan.bpf.c.
 *
 * The count is comparable with what the pass finds only where the cdev is of one device number: one that serves a
 * range counts files of numbers that nobody asked about. Nothing is opened for it: the reader has the node with O_PATH,
 * which no driver sees, and its inode leads to the cdev once anybody has opened the device through it.
 */
#ifndef GPUFREE_BPF_WATCH_H
#define GPUFREE_BPF_WATCH_H

#include "found.bpf.h"

__noinline int watch_count(__s32 fd)
{
        __u64 task = bpf_get_current_task(), fdt, at, file = 0, cdev;
        __u32 n;

        fdt = NUM(files_struct, NUM(task_struct, task, files), fdt);
        if (fd < 0 || (__u32)fd >= (__u32)NUM(fdtable, fdt, max_fds))
                return -1;
        at = NUM(fdtable, fdt, fd) + (__u32)fd * 8ull;
        if (bpf_probe_read_kernel(&file, sizeof(file), (void *)at) || !file)
                return -1;
        cdev = NUM(file, file, f_inode);
        cdev = NUM(inode, cdev, i_cdev);
        if (!cdev || (__u32)NUM(cdev, cdev, count) != 1)
                return -1;
        n = (__u32)NUM(cdev, cdev, kobj.kref.refcount.refs.counter);
        return n >= 1 && n < 1u << 30 ? (int)(n - 1) : -1;
}

static long watch_step(__u32 i, __u32 *after)
{
        __u32 n;

        if (i >= MEM(watch_n))
                return 1;
        n = (__u32)watch_count(watch_fd[i & (GF_BPF_WATCH_MAX - 1)]);
        if (*after)
                watch_after[i & (GF_BPF_WATCH_MAX - 1)] = n;
        else
                watch_before[i & (GF_BPF_WATCH_MAX - 1)] = n;
        return 0;
}

static __always_inline void watch(__u32 after)
{
        if (MEM(watch_n))
                bpf_loop(GF_BPF_WATCH_MAX, watch_step, &after, 0);
}

#endif

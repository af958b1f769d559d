/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The few kernel types the scanner reads, with only the members it reads. Offsets are not these: the kernel relocates
 * every access by name against its own type information when the program is loaded (CO-RE). So the build needs no
 * vmlinux.h and no kernel, and one object runs on kernels whose structures differ. `X___old` is an older shape of `X`.
 */
#ifndef GPUFREE_BPF_KERNEL_H
#define GPUFREE_BPF_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum bpf_map_type {
        BPF_MAP_TYPE_HASH = 1,
};

#define KERNEL __attribute__((preserve_access_index))

struct seq_file;

struct super_block {
        __u32 s_dev;
        unsigned long s_magic;
} KERNEL;

typedef struct {
        int counter;
} KERNEL atomic_t;

typedef struct refcount_struct {
        atomic_t refs;
} KERNEL refcount_t;

struct kref {
        refcount_t refcount;
} KERNEL;

struct kobject {
        const char *name;
        struct kref kref;
} KERNEL;

/* A driver's character device: it is referred to by each open file, whatever node that came through. */
struct cdev {
        struct kobject kobj;
        unsigned int count;
} KERNEL;

struct inode {
        unsigned short i_mode;
        unsigned int i_nlink;
        __u32 i_rdev;
        struct super_block *i_sb;
        unsigned long i_ino;
        struct cdev *i_cdev;
} KERNEL;

struct qstr {
        const unsigned char *name;
} KERNEL;

struct dentry {
        struct qstr d_name;
} KERNEL;

struct path {
        struct dentry *dentry;
} KERNEL;

struct module {
        char name[56];
} KERNEL;

struct file_operations {
        struct module *owner;
} KERNEL;

struct file {
        unsigned int f_mode;
        const struct file_operations *f_op;
        void *private_data;
        struct inode *f_inode;
        struct path f_path;
} KERNEL;

struct fdtable {
        unsigned int max_fds;
        struct file **fd;
        unsigned long *open_fds;
} KERNEL;

struct files_struct {
        struct fdtable *fdt;
} KERNEL;

struct maple_tree {
        void *ma_root;
} KERNEL;

/* Both lie at the beginning of struct maple_node. */
struct maple_range_64 {
        void *slot[16];
} KERNEL;

struct maple_arange_64 {
        void *slot[10];
} KERNEL;

enum maple_type {
        maple_dense,
        maple_leaf_64,
        maple_range_64,
        maple_arange_64,
};

struct mm_struct {
        struct maple_tree mm_mt;
} KERNEL;

struct vm_area_struct {
        unsigned long vm_start;
        struct mm_struct *vm_mm;
        struct file *vm_file;
        unsigned int vm_lock_seq; /* there: VMAs are freed after an RCU grace period */
} KERNEL;

struct io_uring_task {
        struct file *registered_rings[16];
} KERNEL;

struct task_struct {
        unsigned int flags;
        int pid, tgid;
        struct mm_struct *mm;
        struct files_struct *files;
        struct task_struct *group_leader;
        __u64 start_boottime;
        struct io_uring_task *io_uring;
} KERNEL;

/* What an iterator hands over: fixed by the kernel's interface, so not relocated. */
struct bpf_iter_meta {
        struct seq_file *seq;
};

struct bpf_iter__task {
        struct bpf_iter_meta *meta;
        struct task_struct *task;
};

struct bpf_iter__task_file {
        struct bpf_iter_meta *meta;
        struct task_struct *task;
        __u32 fd;
        struct file *file __attribute__((aligned(8)));
};

struct bpf_iter__task_vma {
        struct bpf_iter_meta *meta;
        struct task_struct *task;
        struct vm_area_struct *vma;
};

/* UNIX sockets and the descriptors in their queues. */
struct sk_buff {
        struct sk_buff *next;
        struct sock *sk;
        char cb[48];
} KERNEL;

struct sk_buff_head {
        struct sk_buff *next;
        __u32 qlen;
} KERNEL;

struct sock_common {
        unsigned short skc_family;
        unsigned char skc_state;
} KERNEL;

struct sock {
        struct sock_common __sk_common;
        struct sk_buff_head sk_receive_queue;
} KERNEL;

struct socket {
        struct sock *sk;
} KERNEL;

struct scm_stat {
        atomic_t nr_fds;
} KERNEL;

struct unix_sock {
        struct sock sk;
        struct scm_stat scm_stat;
} KERNEL;

struct scm_fp_list {
        short count;
        struct file *fp[253];
} KERNEL;

struct unix_skb_parms {
        struct scm_fp_list *fp;
} KERNEL;

/* io_uring: since 6.13 a table of nodes, before it an array of tagged file pointers. */
struct io_rsrc_node {
        unsigned long file_ptr;
} KERNEL;

struct io_rsrc_data {
        unsigned int nr;
        struct io_rsrc_node **nodes;
} KERNEL;

struct io_file_table {
        struct io_rsrc_data data;
} KERNEL;

struct io_ring_ctx {
        struct io_file_table file_table;
} KERNEL;

struct io_file_table___old {
        void *files;
} KERNEL;

struct io_ring_ctx___old {
        struct io_file_table___old file_table;
        unsigned int nr_user_files;
} KERNEL;

struct dma_buf {
        unsigned long size;
        const char *exp_name;
        void *priv;
} KERNEL;

struct device {
        struct kobject kobj;
} KERNEL;

struct pci_dev {
        struct device dev;
} KERNEL;

#endif

// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What NVIDIA's driver keeps behind each open descriptor: a witness beside its library. Every driver structure is
 * relocated by name against the type information of the modules `nvidia` and `nvidia_uvm`; a member that this driver
 * does not have is left out, and user space takes what is missing as unknown. Without the modules this loads all the
 * same and finds nothing.
 *
 * The iterator holds a reference on each file, so its private data stay. What hangs on them may go away while it is
 * read: reads that fail say so, and user space believes no GPU that it does not know from elsewhere.
 */
#include "kernel.h"
#include "witness.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define S_IFMT 0170000
#define S_IFCHR 0020000
#define FMODE_PATH 0x4000
#define DMA_BUF_MAGIC 0x444d4142
/* Of a descriptor of UVM's, in the low bits of its private data. */
#define UVM_TYPE 7ull
#define UVM_SPACE 2 /* a VA space */
#define UVM_MM 3    /* the file of a VA space */
#define UVM_GPUS_MAX 512
#define MINOR_BITS 20
#define NVIDIA_MAJOR 195 /* assigned to the driver for good */
#define NVIDIA_MODESET 254

/* ---- the driver's types, with the members that are read ---- */

struct nvidia_file_private___gf {
        void *handles;
        __u32 deviceInstance;
} KERNEL;

struct pci_info___gf {
        __u32 domain;
        __u8 bus, slot;
} KERNEL;

struct nv_state_t___gf {
        __u32 gpu_id;
} KERNEL;

struct nv_linux_state_s___gf {
        struct nv_state_t___gf nv_state;
        struct pci_dev *pci_dev;
} KERNEL;

/* A structure without a name of its own, so a typedef is the root. */
typedef struct {
        struct nvidia_file_private___gf nvfp;
        void *nvptr;
        __u32 *attached_gpus;
        unsigned long num_attached_gpus;
} KERNEL nv_linux_file_private_t___gf;

struct nv_dma_buf_file_private___gf {
        void *nv;
} KERNEL;

typedef struct {
        unsigned long bitmap[5];
} KERNEL uvm_processor_mask_t___gf;

struct uvm_va_space_struct___gf {
        uvm_processor_mask_t___gf registered_gpus;
        void *gpu_va_spaces[256];
} KERNEL;

struct uvm_gpu_va_space_struct___gf {
        void *gpu;
} KERNEL;

struct uuid___gf {
        __u8 uuid[16];
} KERNEL;

struct uvm_gpu_struct___gf {
        void *parent;
        struct uuid___gf uuid;
} KERNEL;

struct uvm_parent_gpu_struct___gf {
        struct pci_dev *pci_dev;
} KERNEL;

/* ---- one at a time ---- */

struct gf_witness_record record;
__u64 space;       /* the VA space whose GPUs are walked */
__u32 space_whole; /* nothing of it could not be read */

/* Reads a member, if this driver has it and it can be read: 1 or 0. */
#define READ(to, T, p, member)                                                                                         \
        (bpf_core_field_exists(T, member) &&                                                                           \
         bpf_probe_read_kernel(&(to), sizeof(to), (char *)(p) + bpf_core_field_offset(T, member)) == 0)

/* A kernel's own member; 0 where it cannot be read. */
#define NUM(T, p, member)                                                                                              \
        ({                                                                                                             \
                __u64 v_ = 0;                                                                                          \
                bpf_probe_read_kernel(&v_, sizeof(((struct T *)0)->member), &((struct T *)(p))->member);               \
                v_;                                                                                                    \
        })

static __always_inline void read_pci(void *device)
{
        __u64 name = device ? NUM(pci_dev, device, dev.kobj.name) : 0;

        if (name)
                bpf_probe_read_kernel_str(record.pci, sizeof(record.pci), (void *)name);
}

/* `state` is the nv_state_t of a GPU or of the control device, in its nv_linux_state_t. */
static __always_inline void read_state(char *linux_state, char *state)
{
        void *device = 0;

        if (READ(record.gpu_id, struct nv_state_t___gf, state, gpu_id))
                record.flags |= GF_WITNESS_GPU_KNOWN;
        if (READ(device, struct nv_linux_state_s___gf, linux_state, pci_dev))
                read_pci(device);
}

#define ATTACHED_MAX 32

/* The caller of the driver gives the array's length, with zeroes behind the ids: what counts is what is not 0. */
static __always_inline void read_attached(char *private)
{
        __u32 id, *from = 0;
        __u64 n = 0;

        if (!READ(n, nv_linux_file_private_t___gf, private, num_attached_gpus) || n == 0 || n > ATTACHED_MAX ||
            !READ(from, nv_linux_file_private_t___gf, private, attached_gpus) || !from)
                return;
        for (int i = 0; i < ATTACHED_MAX; i++) {
                if (i >= (int)n || bpf_probe_read_kernel(&id, 4, from + i) != 0)
                        break;
                if (id == 0 || (record.attached > 0 && id == record.attached_first))
                        continue;
                if (record.attached++ == 0)
                        record.attached_first = id;
        }
}

static __always_inline void read_node(char *private)
{
        char *state = 0;
        __u64 handles = 0;

        record.kind = GF_WITNESS_NODE;
        if (READ(state, nv_linux_file_private_t___gf, private, nvptr) && state &&
            bpf_core_field_exists(struct nv_linux_state_s___gf, nv_state))
                read_state(state, state + bpf_core_field_offset(struct nv_linux_state_s___gf, nv_state));
        if (READ(handles, nv_linux_file_private_t___gf, private, nvfp.handles)) {
                record.flags |= GF_WITNESS_HANDLES_KNOWN;
                if (handles && READ(record.instance, nv_linux_file_private_t___gf, private, nvfp.deviceInstance))
                        record.flags |= GF_WITNESS_HANDLES;
        }
        read_attached(private);
}

static __always_inline void read_dmabuf(__u64 buf, __u64 inode)
{
        char *state = 0;
        void *private = (void *)NUM(dma_buf, buf, priv);

        record.kind = GF_WITNESS_DMABUF;
        record.ino = NUM(inode, inode, i_ino);
        record.bytes = NUM(dma_buf, buf, size);
        if (READ(state, struct nv_dma_buf_file_private___gf, private, nv) && state &&
            bpf_core_field_exists(struct nv_linux_state_s___gf, nv_state))
                read_state(state - bpf_core_field_offset(struct nv_linux_state_s___gf, nv_state), state);
}

struct parts {
        struct seq_file *seq;
};

/* The GPU with number `i` + 1 of the VA space. */
static long read_part(__u32 i, struct parts *parts)
{
        __u64 word = 0, used = 0;
        void *gpu = 0, *parent = 0, *device = 0;
        __u32 id = i + 1;

        if (id / 8 >= bpf_core_field_size(struct uvm_va_space_struct___gf, registered_gpus) ||
            i >= bpf_core_field_size(struct uvm_va_space_struct___gf, gpu_va_spaces) / 8)
                return 1;
        if (bpf_probe_read_kernel(&word, 8,
                                  (char *)space +
                                          bpf_core_field_offset(struct uvm_va_space_struct___gf, registered_gpus) +
                                          id / 64 * 8)) {
                space_whole = 0;
                return 1;
        }
        if (!(word >> (id & 63) & 1))
                return 0;
        record.kind = GF_WITNESS_PART;
        record.flags = 0;
        __builtin_memset(record.pci, 0, sizeof(record.pci));
        __builtin_memset(record.uuid, 0, sizeof(record.uuid));
        if (bpf_probe_read_kernel(
                    &used, 8,
                    (char *)space + bpf_core_field_offset(struct uvm_va_space_struct___gf, gpu_va_spaces) + i * 8ull)) {
                space_whole = 0;
                return 1;
        }
        if (!used)
                return 0; /* registered, and nothing of it there: merely open */
        record.flags |= GF_WITNESS_USED;
        if (!READ(gpu, struct uvm_gpu_va_space_struct___gf, used, gpu) || !gpu ||
            !READ(record.uuid, struct uvm_gpu_struct___gf, gpu, uuid))
                space_whole = 0;
        else if (READ(parent, struct uvm_gpu_struct___gf, gpu, parent) && parent &&
                 READ(device, struct uvm_parent_gpu_struct___gf, parent, pci_dev))
                read_pci(device);
        bpf_seq_write(parts->seq, &record, sizeof(record));
        return 0;
}

static __always_inline void read_uvm(__u64 private, struct seq_file *seq)
{
        struct parts parts = { .seq = seq };

        record.kind = GF_WITNESS_SPACE;
        if ((private & UVM_TYPE) == UVM_MM && private & ~UVM_TYPE)
        private = NUM(file, private & ~UVM_TYPE, private_data);
        /* Opened and never set up: no VA space at all. Anything else is not understood. */
        if ((private & UVM_TYPE) != UVM_SPACE || !(private & ~UVM_TYPE)) {
                record.flags = private ? 0 : GF_WITNESS_WHOLE;
                bpf_seq_write(seq, &record, sizeof(record));
                return;
        }
        record.space = space = private & ~UVM_TYPE;
        space_whole = 0;
        if (bpf_core_field_exists(struct uvm_va_space_struct___gf, registered_gpus) &&
            bpf_core_field_exists(struct uvm_va_space_struct___gf, gpu_va_spaces)) {
                space_whole = 1;
                bpf_loop(UVM_GPUS_MAX, read_part, &parts, 0);
        }
        record.kind = GF_WITNESS_SPACE;
        record.flags = *(volatile __u32 *)&space_whole ? GF_WITNESS_WHOLE : 0;
        bpf_seq_write(seq, &record, sizeof(record));
}

enum {
        OF_NOBODY,
        OF_NVIDIA,
        OF_UVM,
};

/*
 * Whose descriptor is it? Asked by the module of its operations, for stand-ins are not the driver's; and by number, for
 * the modules have other devices with other private data (capabilities, switches, mode setting, UVM's tools).
 */
static __always_inline int whose_is(__u64 file, __u32 rdev)
{
        __u32 major = rdev >> MINOR_BITS, minor = rdev & ((1u << MINOR_BITS) - 1);
        __u64 ops = NUM(file, file, f_op), module = NUM(file_operations, ops, owner);
        char name[12] = {};

        if (!module)
                return OF_NOBODY;
        bpf_probe_read_kernel_str(name, sizeof(name), &((struct module *)module)->name);
        if (name[0] != 'n' || name[1] != 'v' || name[2] != 'i' || name[3] != 'd' || name[4] != 'i' || name[5] != 'a')
                return OF_NOBODY;
        if (!name[6])
                return major == NVIDIA_MAJOR && minor != NVIDIA_MODESET ? OF_NVIDIA : OF_NOBODY;
        if (minor != 0)
                return OF_NOBODY;
        return name[6] == '_' && name[7] == 'u' && name[8] == 'v' && name[9] == 'm' && !name[10] ? OF_UVM : OF_NOBODY;
}

static __always_inline int is_nvidias_dmabuf(__u64 buf)
{
        const char want[10] = "nv_dmabuf";
        char name[10] = {};

        bpf_probe_read_kernel_str(name, sizeof(name), (void *)NUM(dma_buf, buf, exp_name));
        for (int i = 0; i < 9; i++)
                if (name[i] != want[i])
                        return 0;
        return 1;
}

SEC("iter/task_file")
int witness_files(struct bpf_iter__task_file *ctx)
{
        __u64 task = (__u64)ctx->task, file = (__u64)ctx->file, inode, private;
        int whose = OF_NOBODY, dmabuf = 0;

        if (!task || !file)
                return 0;
        inode = NUM(file, file, f_inode);
        if (NUM(file, file, f_mode) & FMODE_PATH)
                return 0;
        private = NUM(file, file, private_data);
        if ((NUM(inode, inode, i_mode) & S_IFMT) == S_IFCHR)
                whose = whose_is(file, (__u32)NUM(inode, inode, i_rdev));
        else
                dmabuf = NUM(super_block, NUM(inode, inode, i_sb), s_magic) == DMA_BUF_MAGIC &&
                         is_nvidias_dmabuf(private);
        if ((whose == OF_NOBODY && !dmabuf) || (!private && whose != OF_UVM))
                return 0;
        __builtin_memset(&record, 0, sizeof(record));
        record.tgid = (__u32)NUM(task_struct, task, tgid);
        record.tid = (__u32)NUM(task_struct, task, pid);
        record.fd = (__s32)ctx->fd;
        record.rdev = (__u32)NUM(inode, inode, i_rdev);
        record.start_ns = NUM(task_struct, NUM(task_struct, task, group_leader), start_boottime);
        if (whose == OF_UVM) {
                read_uvm(private, ctx->meta->seq);
                return 0;
        }
        if (dmabuf)
                read_dmabuf(private, inode);
        else
                read_node((char *)private);
        bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
        return 0;
}

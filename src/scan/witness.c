/* SPDX-License-Identifier: MIT */
/* Loads the second witness and reads its iterator. See bpf/witness.bpf.c. */
#include "scan/witness.h"

#include <poll.h>

#include "scan/bpf_scan.h"
#include "sys/clock.h"

#include "gf_bpf_witness.lskel.h"

#define READ_SIZE (64u << 10)
#define RECORDS_MAX (200u * 1000u)

static bool cancelled(int cancel_fd)
{
        struct pollfd p = { .fd = cancel_fd, .events = POLLIN };

        return cancel_fd >= 0 && poll(&p, 1, 0) > 0;
}

/* A record may be cut by the end of a read; the rest comes with the next. */
static int drain(int fd, int cancel_fd, gf_witness_records *records)
{
        size_t size = sizeof(struct gf_witness_record), fill = 0;
        ssize_t n;

        for (;;) {
                if (cancelled(cancel_fd))
                        return -ECANCELED;
                while (records->cap * size - fill < READ_SIZE) {
                        size_t cap = records->cap < 512 ? 1024 : records->cap * 2;
                        struct gf_witness_record *v;

                        if (cap > 2 * RECORDS_MAX)
                                return -EOVERFLOW;
                        v = realloc(records->v, cap * size);
                        if (!v)
                                return -ENOMEM;
                        records->v = v;
                        records->cap = cap;
                }
                n = read(fd, (char *)records->v + fill, READ_SIZE);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                fill += (size_t)n;
                records->n = fill / size;
        }
        return fill % size == 0 ? 0 : -EIO;
}

static int iterate(int prog_fd, int cancel_fd, gf_witness_records *records)
{
        _cleanup_close_ int link = -1, iter = -1;
        union bpf_attr attr;

        link = skel_link_create(prog_fd, 0, BPF_TRACE_ITER);
        if (link < 0)
                return -errno;
        memset(&attr, 0, sizeof(attr));
        attr.iter_create.link_fd = (__u32)link;
        iter = skel_sys_bpf(BPF_ITER_CREATE, &attr, sizeof(attr.iter_create));
        if (iter < 0)
                return -errno;
        return drain(iter, cancel_fd, records);
}

/* The loader's error, which some paths leave positive or zero with errno set. */
static int load(struct gf_bpf_witness **ret_program)
{
        struct gf_bpf_witness *program = gf_bpf_witness__open();
        int r;

        if (!program)
                return -ENOMEM;
        errno = 0;
        r = gf_bpf_witness__load(program);
        if (r != 0) {
                r = r < 0 ? r : errno > 0 ? -errno : -EINVAL;
                gf_bpf_witness__destroy(program);
                return r;
        }
        *ret_program = program;
        return 0;
}

static int look(struct gf_env *env, struct gf_witness *witness)
{
        struct gf_witness_clock clock = { 0 };
        struct gf_bpf_witness *program = NULL;
        struct gf_bpf_confirm confirm;
        gf_witness_records records = { 0 };
        uint64_t begin = gf_now_us();
        int r;

        r = gf_bpf_confirm_init(&confirm, env);
        if (r < 0)
                return r;
        clock = (struct gf_witness_clock){ confirm.boot_offset_ns, confirm.ticks_per_s };
        gf_bpf_confirm_done(&confirm);
        r = load(&program);
        if (r < 0)
                return r;
        witness->load_us = gf_now_us() - begin;
        begin = gf_now_us();
        r = iterate(program->progs.witness_files.prog_fd, env->cancel_fd, &records);
        witness->pass_us = gf_now_us() - begin;
        gf_bpf_witness__destroy(program);
        if (r >= 0)
                r = gf_witness_facts(&records, &clock, witness);
        gf_vec_done(&records);
        return r;
}

/* The modules' type information, without which nothing in them has a name. */
static int check_types(struct gf_env *env, char **ret_reason)
{
        static const char *const modules[] = { "nvidia", "nvidia_uvm" };

        for (size_t i = 0; i < ELEMENTSOF(modules); i++) {
                _cleanup_free_ char *path = gf_asprintf("%s/kernel/btf/%s", env->sys_root, modules[i]);

                if (!path)
                        return -ENOMEM;
                if (access(path, F_OK) == 0)
                        return 0; /* without UVM's, handles and nodes are told all the same */
        }
        *ret_reason = gf_asprintf("NVIDIA's modules are not loaded, or were built without type information (BTF)");
        return *ret_reason ? -EOPNOTSUPP : -ENOMEM;
}

int gf_witness_read(struct gf_env *env, struct gf_witness *ret_witness)
{
        _cleanup_(gf_witness_done) struct gf_witness witness = { 0 };
        int r;

        if (env->scan_method == GPUFREE_SCAN_PROC) {
                witness.reason = gf_asprintf("a scan without BPF was asked for");
                r = witness.reason ? -EOPNOTSUPP : -ENOMEM;
        } else {
                r = check_types(env, &witness.reason);
        }
        if (r >= 0)
                r = gf_bpf_check_place(env, &witness.reason);
        if (r >= 0)
                r = look(env, &witness);
        if (r == -ECANCELED || r == -ENOMEM)
                return r;
        if (r < 0) {
                gf_vec_done(&witness.facts);
                if (!witness.reason)
                        witness.reason = gf_asprintf("the driver's structures could not be read by BPF: %s",
                                                     strerror(-r));
                if (!witness.reason)
                        return -ENOMEM;
        } else {
                witness.asked = true;
        }
        *ret_witness = witness;
        witness = (struct gf_witness){ 0 };
        return 0;
}

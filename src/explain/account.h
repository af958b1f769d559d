/* SPDX-License-Identifier: MIT */
#pragma once

#include "explain/words.h"
#include "explain/xid.h"
#include "model/holder.h"

/* Less than this is a rounding, a device opened in passing, a figure that moved between two questions. */
#define GF_ACCOUNT_NOISE (16ULL << 20)
/* What an opened GPU without a context was seen to cost a process. */
#define GF_ACCOUNT_OPENER (3ULL << 20)
/* More than a driver was seen to reserve for itself on any GPU. */
#define GF_ACCOUNT_RESERVED (2ULL << 30)

struct gf_entry {
        enum gpufree_entry kind;
        uint64_t bytes;
        bool counts; /* a part of "used" */
        pid_t pid;   /* the PID it is booked to; 0 none */
        gf_holder_list keepers;
        char *sentence;
};

struct gpufree_account {
        struct gpufree_snapshot *snapshot; /* a reference */
        size_t gpu;
        GF_VEC(struct gf_entry) entries;
        uint64_t named, unaccounted; /* GPUFREE_UNKNOWN */
        gf_strv reasons, commands;
        gf_xids xids; /* of this GPU, the latest first */
        char *log_error;
};

/*
 * The account of one GPU from a look and the kernel log (NULL: not asked). What is used is the sum of the entries that
 * count plus `unaccounted`; no sum goes below 0, and what is not known stays so. Pure. -ENOMEM.
 */
int gf_account_make(struct gpufree_snapshot *snapshot, size_t gpu, const struct gf_kernel_log *log,
                    struct gpufree_account **ret_account);
/* Of the parts, for this room: account_why.c. */
int gf_account_add_reasons(struct gpufree_account *account);
int gf_account_add_commands(struct gpufree_account *account);
/* The Xids of that GPU and, with a PID, those that name it: copies. */
int gf_xids_copy(const gf_xids *from, const char *pci, pid_t pid, gf_xids *to);

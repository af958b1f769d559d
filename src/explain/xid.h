/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

/* What a Xid (an error that the NVIDIA driver writes to the kernel log) asks for. */
enum gf_remedy {
        GF_REMEDY_NONE,        /* nothing: it is information */
        GF_REMEDY_APPLICATION, /* of the program's making, as a rule: the GPU goes on */
        GF_REMEDY_RESET,       /* the GPU needs a reset */
        GF_REMEDY_REBOOT,      /* a reset is not enough, as a rule */
};

struct gf_xid_row {
        unsigned number;
        enum gf_remedy remedy;
        const char *meaning; /* a sentence */
};
/* The row of this number, or NULL. */
const struct gf_xid_row *gf_xid_find(unsigned number);
/* For people, also of a number that is in no table. */
const char *gf_xid_meaning(unsigned number);

/* An error of the kernel log. */
struct gf_xid {
        unsigned number;  /* 0: a task that is blocked in the kernel */
        char pci[16];     /* "0000:18:00"; "" none */
        pid_t pid;        /* 0 none named */
        uint64_t time_us; /* after boot */
        uint64_t age_ms;
        char *line; /* without the record's head */
};
typedef GF_VEC(struct gf_xid) gf_xids;
void gf_xids_done(gf_xids *list);
/*
 * One record of /dev/kmsg ("4,1234,56789012,-;NVRM: Xid (PCI:0000:18:00): 79, …"). 1: it is an error of a GPU or a
 * blocked task, *ret is filled; 0: something else; -ENOMEM. Pure.
 */
int gf_xid_parse(const char *record, size_t length, struct gf_xid *ret);
/* Is this Xid of the GPU at `pci` ("0000:18:00.0"; NULL: of none)? */
bool gf_xid_is_of(const struct gf_xid *xid, const char *pci);

/* The kernel log, as far as it can be read. */
struct gf_kernel_log {
        gf_xids xids; /* the latest first */
        char *error;  /* why it could not be read, a sentence; NULL */
};
void gf_kernel_log_done(struct gf_kernel_log *log);
/* Reads `path` ("/dev/kmsg") without waiting: what is there now, at most a few seconds. -ENOMEM only. kmsg.c */
int gf_kernel_log_read(const char *path, struct gf_kernel_log *ret_log);

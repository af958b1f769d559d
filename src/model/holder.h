/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "base/vec.h"
#include "gpufree.h"
#include "model/device.h"
#include "model/driver.h"
#include "model/ident.h"
#include "model/scan.h"
#include "model/witness.h"

/* A container, unit, job, VM, session that a process belongs to. */
struct gf_owner {
        char *kind;    /* "container", "pod", "unit", "user-unit", "scope", "session", "job", "vm" */
        char *runtime; /* "docker", "lxc", "kubernetes", "slurm", "systemd", …; NULL */
        char *id;
        char *name; /* NULL unknown */
};

/* What /proc says about a process, read for holders only. Unknown text is NULL, numbers as noted. */
struct gf_facts {
        char *comm;
        char *cmdline; /* NUL separated; cmdline_length bytes */
        size_t cmdline_length;
        char *exe;                 /* target of /proc/PID/exe, without " (deleted)"; NULL unreadable or none */
        bool exe_trusted;          /* owned by root, writable by root alone, and by this name here, too */
        uint64_t exe_dev, exe_ino; /* 0 unknown */
        uint32_t uid;              /* effective; UINT32_MAX unknown */
        char *user;
        char state; /* '?' unknown */
        pid_t ppid, pgrp, session;
        int tty; /* device number; 0 none */
        bool kernel_thread;
        bool leader_zombie; /* the leader has exited, other threads live */
        size_t threads;
        pid_t pidns_pid;        /* 0 unknown */
        uint64_t pidns;         /* inode of its PID namespace; 0 unknown */
        uint64_t age_ms;        /* GPUFREE_UNKNOWN */
        char *cgroup;           /* the path that names its owner best; NULL */
        uint32_t login_session; /* /proc/PID/sessionid; UINT32_MAX none */
        gf_strv cgroups;        /* every line of /proc/PID/cgroup */
};

struct gf_device_use {
        int device;         /* position in the inventory; -1: a dma-buf */
        unsigned via;       /* bits of gpufree_via */
        uint64_t fds, maps; /* how many of each; other forms count as fds */
        uint64_t bytes;     /* dma-bufs: sum of sizes, each once; GPUFREE_UNKNOWN otherwise */
        char exporter[32];
        bool own_node, unlinked;
};

struct gf_gpu_use {
        int gpu; /* position in the inventory */
        uint64_t memory;
        bool context; /* holds it; false: merely open */
        bool listed;  /* the driver lists this PID there */
        bool doubted; /* a context by the driver's structures alone, which its complete lists do not have */
        enum gpufree_witness witness;
        bool inherited; /* memory is booked to a dead process, this one keeps it */
        bool sampled;   /* `busy` is known */
        unsigned busy;  /* percent of the time sampled */
};

struct gpufree_holder {
        struct gf_ident id;
        struct gf_facts facts;
        GF_VEC(struct gf_device_use) devices;
        GF_VEC(struct gf_gpu_use) gpus;
        GF_VEC(struct gf_owner) owners;
        char *owner_label;
        gf_strv notes;
        bool asked; /* holds a device that was named by path */
        bool selected;
        char *protected_why; /* NULL: not protected */
        bool protected_absolute;
        bool lifted; /* protected, but named by --include */
};

/* A PID that the driver lists and that no longer runs (or never was visible here). */
struct gf_dead {
        pid_t pid;
        int gpu;
        uint64_t memory;
};

/* A dma-buf that attribution gave to a GPU: counted once, however many processes have it. */
struct gf_dmabuf {
        dev_t dev;
        ino_t ino; /* 0: the scan could not tell it from others of the same process */
        uint64_t bytes;
        int gpu;
        pid_t pid; /* one that has it */
};

struct gpufree_snapshot {
        unsigned refs;
        struct gf_inventory inventory;
        struct gf_driver_report driver;
        struct gf_scan scan;
        struct gf_witness witness;
        GF_VEC(struct gpufree_holder) holders;
        GF_VEC(struct gf_dead) dead;
        GF_VEC(struct gf_dmabuf) dmabufs;
        gf_strv gaps;        /* sentences; none: complete */
        uint64_t unreadable; /* of those asked about */
        uint64_t slipped;    /* seen to hold, and ended before they could be described */
        bool initial_pidns;
        bool blind;      /* holders were selected by GPU, and the driver's library does not say who holds one */
        bool by_process; /* processes were picked by what they are, and no GPU was named */
        uint64_t elapsed_us;
        uint64_t boot_ticks; /* now, in clock ticks after boot: what "older than" is measured against */
};

void gf_facts_done(struct gf_facts *facts);
void gf_holder_done(struct gpufree_holder *holder);
GF_DEFINE_CLEANUP(gpufree_snapshot *, gpufree_snapshot_unref)
#define _cleanup_snapshot_ _cleanup_(gpufree_snapshot_unrefp)

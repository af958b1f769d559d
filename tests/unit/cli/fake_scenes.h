/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/cleanup.h"
#include "gpufree.h"

/* The stand-in's own idea of the opaque things. */
#define FAKE_GPUS 8

struct gpufree_gpu {
        int index, minor;
        const char *uuid, *pci, *name, *error;
        enum gpufree_vendor vendor;
        bool selected;
        uint64_t total, used, reserved;
        size_t holders, openers;
};

struct gpufree_device {
        const char *path, *cls;
        dev_t rdev;
        int gpu;
};

struct fake_use {
        int device;
        unsigned via;
        uint64_t count, bytes;
};

struct fake_gpu_use {
        int gpu;
        uint64_t memory;
        bool context;
};

struct gpufree_holder {
        pid_t pid, ppid, pidns_pid;
        const char *comm, *cmdline, *user, *label;
        size_t cmdline_length;
        uint32_t uid;
        char state;
        uint64_t age_ms;
        const char *protected_why;
        bool absolute, selected, open_only;
        size_t n_devices, n_gpus;
        struct fake_use devices[10];
        struct fake_gpu_use gpus[FAKE_GPUS];
        const char *notes[4];
};

struct gpufree_snapshot {
        unsigned refs;
        size_t n_gpus, n_devices, n_holders;
        struct gpufree_gpu gpus[FAKE_GPUS];
        struct gpufree_device devices[16];
        struct gpufree_holder holders[12];
        const char *gaps[3], *driver_error;
        uint64_t unreadable;
};

GF_DEFINE_CLEANUP(gpufree_snapshot *, gpufree_snapshot_unref)

/* A new snapshot: "story", "free", "none", "incomplete", "residue", "protected", "hostile", "unknown", "error". NULL:
 * no such scene. */
gpufree_snapshot *fake_scene(const char *name);

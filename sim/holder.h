/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdnoreturn.h>

#include "spawn.h"

/* A process that is about to hold. */
struct holder {
        struct sim_params params;
        struct sim_state state;
        int report;   /* to whoever started us: see spawn.c */
        int dir;      /* the node's directory */
        int dev;      /* its dev/ */
        int minor;    /* of the GPU to hold */
        char gpu[32]; /* its node's name, "nvidia3" */
        int control;  /* where the stand-in libcuda.so.1 asks; -1 none: see control.c */
};

/* Ends this process with a sentence for whoever asked. */
_printf_(2, 3) noreturn void holder_fail(const struct holder *h, const char *format, ...);

/* Opens a node under dev/, or ends. */
int holder_open(const struct holder *h, const char *name, int flags);
/* As a CUDA process has it: many descriptors on the GPU, one on nvidiactl, two on nvidia-uvm, kept until the end. */
void holder_open_all(const struct holder *h);
/* nvidiactl and nvidia-uvm of these, and the other GPUs when asked for. */
void holder_open_rest(const struct holder *h);
#define HOLDER_GPU_FDS 20
#define HOLDER_OTHER_GPU_FDS 4

/* Reports: memory is booked to this process, which keeps it while `check` (sim_holds()) is true; and more of the kind.
 */
void holder_booked(const struct holder *h, pid_t pid, const char *role, bool listed);
void holder_keeper(const struct holder *h, pid_t pid, const char *check);
void holder_process(const struct holder *h, pid_t pid, const char *role);
const char *holder_check_gpu(const struct holder *h, char buf[static 64]); /* "fd:4:40" */
/* Booked to this very process, which keeps it by descriptors. */
void holder_booked_self(const struct holder *h);
/* Tells that everything is in place and lets go of the node's directory. */
void holder_ready(struct holder *h);
/* From now on the stand-in libcuda.so.1 can park this process, as a CUDA process can be: holder_serve() answers. */
void holder_control(struct holder *h);
noreturn void holder_serve(struct holder *h);
/* Until a signal ends us. */
noreturn void holder_stay(void);

typedef void holder_shape(struct holder *h);
holder_shape shape_plain, shape_open, shape_fork_heir, shape_map, shape_own_node, shape_scm, shape_io_uring,
        shape_unlinked, shape_opath, shape_ctl_only, shape_exporter, shape_stopped, shape_ignore_term, shape_service;
holder_shape shape_zombie_leader, shape_own_table, shape_pidns, shape_workers, shape_respawner;

/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/str.h"
#include "state.h"

#define SIM_NO_USER UINT32_MAX

/* What a holder is to be. */
struct sim_params {
        char shape[32];
        char name[128]; /* the command line, split at spaces; its first word is the comm. "": as the shape has it */
        int gpu;        /* index */
        uint64_t memory;
        uint32_t user;   /* to run as; SIM_NO_USER: as we are */
        uint32_t count;  /* workers: how many; 0: one for each GPU from `gpu` on */
        int zombie;      /* workers: this one's leader exits; -1 none */
        bool orphaned;   /* workers: the launcher ends once they hold */
        bool all_gpus;   /* has the other GPUs open as well, as a CUDA process with all of them visible */
        bool left_alone; /* outlives its parent */
};

struct sim_shape {
        const char *name, *help;
        const char *command; /* command line, unless named */
        uint64_t memory;     /* 0: none is booked to it */
};
extern const struct sim_shape sim_shapes[];
extern const size_t sim_n_shapes;
const struct sim_shape *sim_shape_find(const char *name); /* NULL */

void sim_params_init(struct sim_params *params, const struct sim_shape *shape);
/* As text: lines "key=value"; what can hold anything is in hexadecimal. */
void sim_params_encode(const struct sim_params *params, struct gf_str *text);
int sim_params_decode(char *text, struct sim_params *ret_params);

struct sim_process {
        struct sim_id id;
        char role[16]; /* "holder", "heir", "launcher", "dead" */
        int gpu;
};
struct sim_report {
        GF_VEC(struct sim_process) processes; /* holders first */
        char error[256];
};
void sim_report_done(struct sim_report *report);

/*
 * Starts a holder as a child and waits until it says that it holds. Its processes are then recorded in the directory.
 * The text of a failure is in the report. The child dies with the caller unless left_alone.
 */
int sim_spawn(int dir, const struct sim_params *params, struct sim_report *ret_report);

/* The environment variable that carries the parameters: "report=FD\ndir=FD\n" and the encoded ones. */
#define SIM_ENV_HOLDER "GPUFREE_SIM_HOLDER"

/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/cleanup.h"
#include "base/vec.h"
#include "proc.h"

/*
 * The directory of a simulated node:
 *   state       the GPUs and how the node is made (struct sim_state)
 *   dev/        the stand-in device nodes
 *   lib/        the stand-in libnvidia-ml.so.1 and libcuda.so.1
 *   bin/        the holder program under the name of a service
 *   holders/    one file for each process started: "PID.START" (struct sim_record)
 *   gone/       when the memory of an ended holder was first missed, for GPUFREE_SIM_FAULT=late
 *   control/    the sockets of holders that the stand-in libcuda.so.1 can park
 *   busy/       how busy each GPU is, in percent: a file named after its index, made by `gpufree-sim busy`
 *   keeper.sock where `gpufree-sim add` asks for holders
 */
#define SIM_MAX_GPUS 16
#define SIM_MAX_KEEPERS 4
#define SIM_TEXT_MAX (64u << 10)

struct sim_gpu {
        int index, minor;
        char uuid[64], pci[32], name[64];
        uint64_t total, reserved;
};

struct sim_state {
        char driver[32];
        char dir[4096];
        bool ttys;     /* nodes made by mknod; false: pseudo-terminals behind symlinks */
        bool mappable; /* nvidia-uvm can be mapped */
        struct sim_id keeper;
        size_t n_gpus;
        struct sim_gpu gpus[SIM_MAX_GPUS];
};

int sim_state_read(int at, struct sim_state *ret_state); /* -ENOENT: no simulated node; -EBADMSG */
int sim_state_write(int at, const struct sim_state *state);

/* A process of the node, and the memory booked to it. */
struct sim_keeper {
        struct sim_id id;
        char check[64]; /* what sim_holds() takes */
};
struct sim_record {
        struct sim_id id; /* whom the driver would list */
        char shape[32], role[16];
        int gpu;         /* index; -1 none */
        uint64_t memory; /* 0: none booked */
        bool listed;     /* by the driver */
        size_t n_keepers;
        struct sim_keeper keepers[SIM_MAX_KEEPERS]; /* while one of them holds, the memory stays */
};
typedef GF_VEC(struct sim_record) sim_records;

int sim_record_write(int at, const struct sim_record *record);
int sim_records_read(int at, sim_records *ret_records); /* sorted by start, then PID */
bool sim_record_alive(const struct sim_record *record);
bool sim_record_held(const struct sim_record *record); /* does a keeper still hold? */

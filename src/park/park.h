/* SPDX-License-Identifier: MIT */
#pragma once

#include "end/end.h"
#include "model/env.h"
#include "model/holder.h"
#include "park/cuda.h"

/* A part of a parked process's memory: on which GPU it was. */
struct gf_park_gpu {
        char uuid[96];
        int index; /* -1 unknown */
        uint64_t memory;
};

/* One process to be parked or brought back, and what became of it. */
struct gf_parked {
        struct gf_ident id;
        uint32_t uid; /* UINT32_MAX unknown */
        char *comm, *cmdline, *user;
        GF_VEC(struct gf_park_gpu) gpus;
        uint64_t memory; /* sum; GPUFREE_UNKNOWN */
        int pidfd;
        struct gf_cuda cuda;
        struct gf_cuda_request request; /* of the long call that gf_run_all() makes */
        enum gpufree_park_state state;
        enum gpufree_park_step step;
        uint64_t copy_ms;
        bool locked_by_us; /* a way back leads through an unlock */
        bool left_out;     /* not to be parked, as `sentence` says, whatever becomes of the others */
        bool done;         /* the copying has come to its end, as `outcome` says */
        enum gpufree_outcome outcome;
        char *sentence;
        char *gpu_list;
        int64_t since;
        char *by;
};

struct gpufree_parking {
        enum gpufree_outcome outcome;
        gf_strv sentences;
        uint64_t elapsed_ms;
        GF_VEC(struct gf_parked) items;
};
GF_DEFINE_CLEANUP(gpufree_parking *, gpufree_parking_unref)
#define _cleanup_parking_ _cleanup_(gpufree_parking_unrefp)

/* items.c */
struct gpufree_parking *gf_parking_new(void);
struct gf_parked *gf_parking_add(struct gpufree_parking *parking, const struct gf_ident *id);
/* From a holder of the snapshot: its memory, a GPU at a time. */
int gf_parked_from_holder(struct gpufree_parking *parking, const struct gpufree_snapshot *snapshot,
                          const struct gpufree_holder *holder);
int gf_parked_name_gpus(struct gf_parked *item);
/* The outcome and its sentence; a worse one that is there already stays. Returns 0, -ENOMEM. */
_printf_(3, 4) int gf_parked_say(struct gf_parked *item, enum gpufree_outcome outcome, const char *format, ...);
/* The worst of the items'. Pure. */
enum gpufree_outcome gf_parking_worst(const struct gpufree_parking *parking);
/* comm, cmdline, user, uid of a process that is no holder. */
int gf_parked_describe(struct gf_env *env, struct gf_parked *item);

/* steps.c: one call of the driver each, with its deadline; the pidfd is looked at before. 0, -ESRCH (it has ended),
 * -ETIMEDOUT, -ECANCELED, -EPIPE, -errno; the driver's answer is in the reply. */
int gf_parked_call(struct gf_env *env, struct gf_parked *item, const struct gf_cuda_request *request, uint64_t ms,
                   struct gf_cuda_reply *ret_reply);
/* Asks the driver: item->state. Not reached: GPUFREE_PARK_UNKNOWN. A reply that explains an unknown state is in
 * *ret_reply. */
int gf_parked_ask_state(struct gf_env *env, struct gf_parked *item, struct gf_cuda_reply *ret_reply);
int gf_parked_unlock(struct gf_env *env, struct gf_parked *item, struct gf_cuda_reply *ret_reply);

/* Tells of the step. */
void gf_parked_begin(const struct gf_eyes *eyes, struct gf_parked *item, enum gpufree_park_step step);
/* run.c: makes the long calls of all items that are not done, at the same time, and tells of the progress. `finish` is
 * told how each ended (0 and the reply, or -errno) and marks it done. */
typedef int (*gf_run_finish)(struct gf_env *env, struct gf_parked *item, const struct gf_cuda_reply *reply, int error);
int gf_run_all(struct gf_env *env, const struct gf_eyes *eyes, struct gpufree_parking *parking,
               enum gpufree_park_step step, uint64_t timeout_ms, gf_run_finish finish);

/* host.c: host memory that a process of this cgroup could still take: the least of MemAvailable and what its memory
 * cgroups leave. GPUFREE_UNKNOWN. */
uint64_t gf_host_room(struct gf_env *env, pid_t pid);
/* Host memory of the machine. */
uint64_t gf_host_available(struct gf_env *env);
/* Resident memory of a process; GPUFREE_UNKNOWN. */
uint64_t gf_host_resident(struct gf_env *env, pid_t pid);

/* checks.c */
int gf_check_process(struct gf_env *env, struct gf_parked *item, bool resume_stopped); /* may we, and can it answer? */
int gf_say_no_driver(struct gf_parked *item, const struct gf_cuda_reply *reply, int error);
int gf_park_check(struct gf_env *env, struct gpufree_parking *parking, const struct gpufree_snapshot *snapshot,
                  const struct gpufree_park_options *options);
/* verify.c: the devices and the memory after parking. */
int gf_park_verify(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_snapshot *before,
                   uint64_t settle_ms, struct gpufree_parking *parking);
bool gf_gpus_match(const struct gpufree_gpu *a, const struct gpufree_gpu *b);

/* record.c: a file a process, that says who parked it, when, and how much of which GPU. It finds what the driver is
 * then asked about; it never decides anything. Failing to write one is no failure of parking: *ret_why. */
int gf_record_write(const struct gf_parked *item, char **ret_why);
void gf_record_drop(const struct gf_ident *id);
int gf_record_read(const struct gf_ident *id, struct gf_parked *item);
/* Those of processes that still live, as items with `id` and what the record says; others are removed. */
int gf_records_find(struct gf_env *env, struct gpufree_parking *parking);

/* park.c, unpark.c */
int gf_park(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_snapshot *before,
            const struct gpufree_park_options *options, struct gpufree_parking *parking);
int gf_unpark(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_park_options *options,
              struct gpufree_parking *parking);
/* move.c: the pairs for --to, a permutation of this machine's GPUs of the driver. -EINVAL with the sentence in env. */
struct gf_gpu_move {
        size_t from, to; /* positions in the snapshot */
};
struct gf_move {
        bool given;
        struct gf_cuda_request request; /* n_pairs, pairs: every GPU of the machine */
        GF_VEC(struct gf_gpu_move) moves;
};
int gf_move_parse(struct gf_env *env, const char *to, const struct gpufree_snapshot *snapshot,
                  const struct gf_parked *item, struct gf_move *ret_move);
void gf_move_done(struct gf_move *move);
/* Only the pairs of the GPUs that the process used: for a driver that takes no others. */
void gf_move_narrow(struct gf_move *move, const struct gpufree_snapshot *snapshot);

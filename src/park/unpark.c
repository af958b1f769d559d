/* SPDX-License-Identifier: MIT */
/*
 * Bringing back, in order: ask the driver what each is → room on the GPU → restore all, at the same time → unlock →
 * verify. A process whose restore fails stays parked; one that is locked only has to be unlocked.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "park/cuda_abi.h"
#include "park/park.h"
#include "sys/clock.h"
#include "sys/pidwait.h"

#define TOLERANCE (32ULL << 20)
#define FIRST_PAUSE_MS 10
#define LAST_PAUSE_MS 200

static int judge_state(struct gf_env *env, struct gf_parked *item)
{
        struct gf_cuda_reply reply = { 0 };
        int pid = (int)item->id.pid, r = gf_parked_ask_state(env, item, &reply);

        switch (item->state) {
        case GPUFREE_PARK_LOCKED:
        case GPUFREE_PARK_PARKED:
                return 0;
        case GPUFREE_PARK_RUNNING:
                gf_record_drop(&item->id);
                return gf_parked_say(item, GPUFREE_OK, "%d runs, it is not parked: nothing to do", pid);
        case GPUFREE_PARK_FAILED:
                return gf_parked_say(
                        item, GPUFREE_HELD,
                        "%d: the driver has given it up (state failed): it can only be ended: gpufree kill "
                        "--pid %d, or kill %d",
                        pid, pid, pid);
        case GPUFREE_PARK_PARKING:
        case GPUFREE_PARK_RESTORING:
                return gf_parked_say(item, GPUFREE_TIMEOUT,
                                     "%d is just being %s: \"gpufree unpark %d\" once that has come to its end", pid,
                                     item->state == GPUFREE_PARK_PARKING ? "parked" : "brought back", pid);
        case GPUFREE_PARK_NOT_CUDA:
                return gf_parked_say(item, GPUFREE_REFUSED, "%d is no CUDA process: it cannot be parked", pid);
        case GPUFREE_PARK_UNKNOWN:
        default:
                return gf_say_no_driver(item, &reply, r);
        }
}

static int ask_all(struct gf_env *env, struct gpufree_parking *parking, bool resume_stopped)
{
        for (size_t i = 0; i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];
                int r;

                if (item->sentence)
                        continue;
                r = gf_parked_describe(env, item);
                if (r >= 0)
                        r = gf_check_process(env, item, resume_stopped);
                else if (r == -ESRCH)
                        r = gf_parked_say(item, GPUFREE_HELD, "%d has ended", (int)item->id.pid);
                if (r == 0 && !item->sentence)
                        r = judge_state(env, item);
                if (r == -ECANCELED || r == -ENOMEM)
                        return r;
        }
        return 0;
}

static const struct gpufree_gpu *gpu_by_uuid(const struct gpufree_snapshot *snapshot, const char *uuid)
{
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                if (uuid[0] != '\0' && gf_streq(snapshot->inventory.gpus.v[i].uuid, uuid))
                        return &snapshot->inventory.gpus.v[i];
        return NULL;
}

/* Where this part of its memory is to go. */
static const struct gpufree_gpu *goal_of(const struct gpufree_snapshot *snapshot, const struct gf_move *move,
                                         const struct gf_park_gpu *part)
{
        const struct gpufree_gpu *from = gpu_by_uuid(snapshot, part->uuid);

        for (size_t i = 0; from && i < move->moves.n; i++)
                if (from == &snapshot->inventory.gpus.v[move->moves.v[i].from])
                        return &snapshot->inventory.gpus.v[move->moves.v[i].to];
        return from;
}

static bool needs_restore(const struct gf_parked *item)
{
        return item->state == GPUFREE_PARK_PARKED && !item->sentence;
}

static uint64_t needed_on(const struct gpufree_snapshot *snapshot, const struct gf_move *move,
                          const struct gpufree_parking *parking, const struct gpufree_gpu *gpu)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < parking->items.n; i++)
                for (size_t k = 0; needs_restore(&parking->items.v[i]) && k < parking->items.v[i].gpus.n; k++) {
                        const struct gf_park_gpu *part = &parking->items.v[i].gpus.v[k];

                        if (goal_of(snapshot, move, part) == gpu && part->memory != GPUFREE_UNKNOWN &&
                            __builtin_add_overflow(sum, part->memory, &sum))
                                return GPUFREE_UNKNOWN;
                }
        return sum;
}

static uint64_t room_on(const struct gpufree_gpu *gpu)
{
        const struct gf_memory *m = &gpu->memory;
        uint64_t reserved = m->reserved == GPUFREE_UNKNOWN ? 0 : m->reserved;

        if (m->total == GPUFREE_UNKNOWN || m->used == GPUFREE_UNKNOWN)
                return GPUFREE_UNKNOWN;
        return m->total > reserved + m->used ? m->total - reserved - m->used : 0;
}

static int check_part(struct gpufree_parking *parking, const struct gpufree_snapshot *snapshot,
                      const struct gf_move *move, struct gf_parked *item, const struct gf_park_gpu *part)
{
        const struct gpufree_gpu *from = gpu_by_uuid(snapshot, part->uuid), *gpu = goal_of(snapshot, move, part);
        char need[GF_TEXT_MAX], have[GF_TEXT_MAX];
        int pid = (int)item->id.pid;
        uint64_t needed, room;

        if (!gpu)
                return gf_strv_addf(&parking->sentences,
                                    "The GPU that %d was on is not to be seen here: its room was not checked", pid);
        if (from && from != gpu && from->name && gpu->name && !gf_streq(from->name, gpu->name))
                return gf_parked_say(
                        item, GPUFREE_REFUSED,
                        "%d stays parked: GPU %d is a %s, GPU %d a %s, and the driver restores to the same "
                        "kind alone",
                        pid, from->index, from->name, gpu->index, gpu->name);
        needed = needed_on(snapshot, move, parking, gpu);
        room = room_on(gpu);
        if (room != GPUFREE_UNKNOWN && needed > room)
                return gf_parked_say(
                        item, GPUFREE_REFUSED,
                        "%d stays parked: GPU %d has %s free, and %s are needed; gpufree list --gpu %d shows "
                        "who has it",
                        pid, gpu->index, gf_format_size(room, have), gf_format_size(needed, need), gpu->index);
        return 0;
}

static int check_room(struct gpufree_parking *parking, const struct gpufree_snapshot *snapshot,
                      const struct gf_move *move)
{
        for (size_t i = 0; i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];
                int r = 0;

                if (!needs_restore(item))
                        continue;
                if (item->gpus.n == 0)
                        r = gf_strv_addf(&parking->sentences,
                                         "No record tells how much of which GPU %d needs: its room was not checked",
                                         (int)item->id.pid);
                for (size_t k = 0; r >= 0 && !item->sentence && k < item->gpus.n; k++)
                        r = check_part(parking, snapshot, move, item, &item->gpus.v[k]);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int restore_failed(struct gf_parked *item, const struct gf_cuda_reply *reply, int error)
{
        int pid = (int)item->id.pid;
        const char *why = error == -ETIMEDOUT ? "the driver did not come to an end in time"
                          : error == -EPIPE   ? "libcuda.so.1 crashed"
                          : error < 0         ? strerror(-error)
                                              : gf_cuda_words(reply->code);

        if (reply->fail == GF_CUDA_NO_PAIRS)
                return gf_parked_say(
                        item, GPUFREE_REFUSED,
                        "%d stays parked: this driver (CUDA %d.%d) restores to the same GPU alone; --to needs "
                        "driver 580 or later",
                        pid, (int)reply->version / 1000, (int)reply->version % 1000 / 10);
        if (item->state == GPUFREE_PARK_PARKED)
                return gf_parked_say(
                        item, error == -ETIMEDOUT ? GPUFREE_TIMEOUT : GPUFREE_HELD,
                        "%d could not be brought back (%s%s%s) and stays parked: \"gpufree unpark %d\" tries "
                        "again",
                        pid, why, reply->detail[0] ? ", " : "", reply->detail, pid);
        if (item->state == GPUFREE_PARK_FAILED)
                return gf_parked_say(
                        item, GPUFREE_HELD,
                        "%d could not be brought back (%s), and the driver has given it up: it can only be "
                        "ended: kill %d",
                        pid, why, pid);
        return gf_parked_say(item, GPUFREE_TIMEOUT, "%d: %s, and its state is %s: \"gpufree unpark %d\" asks again",
                             pid, why, gpufree_park_state_name(item->state), pid);
}

static int finish_restore(struct gf_env *env, struct gf_parked *item, const struct gf_cuda_reply *reply, int error)
{
        struct gf_cuda_reply asked = { 0 };

        item->done = true;
        if (error == -ESRCH || gf_parked_ask_state(env, item, &asked) == -ESRCH)
                return gf_parked_say(item, GPUFREE_HELD, "%d ended while it was brought back", (int)item->id.pid);
        if (item->state == GPUFREE_PARK_LOCKED || item->state == GPUFREE_PARK_RUNNING)
                return 0; /* whatever the call said */
        return restore_failed(item, reply, error);
}

/* The pairs of all GPUs are what the driver's documentation wants; one that takes those of the process alone gets them.
 */
static int restore_narrowly(struct gf_env *env, struct gpufree_parking *parking,
                            const struct gpufree_snapshot *snapshot, struct gf_move *move, uint64_t timeout_ms)
{
        int r = 0;

        if (!move->given)
                return 0;
        gf_move_narrow(move, snapshot);
        for (size_t i = 0; r >= 0 && i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];
                struct gf_cuda_reply reply = { 0 };
                int k;

                if (item->state != GPUFREE_PARK_PARKED || item->step != GPUFREE_PARK_RESTORE ||
                    item->outcome != GPUFREE_HELD || item->request.n_pairs == move->request.n_pairs)
                        continue;
                item->request.n_pairs = move->request.n_pairs;
                memcpy(item->request.pairs, move->request.pairs, sizeof(item->request.pairs));
                k = gf_parked_call(env, item, &item->request, timeout_ms, &reply);
                free(item->sentence);
                item->sentence = NULL;
                item->outcome = GPUFREE_OK;
                r = finish_restore(env, item, &reply, k);
        }
        return r;
}

static int restore_all(struct gf_env *env, const struct gf_eyes *eyes, struct gpufree_parking *parking,
                       const struct gpufree_snapshot *snapshot, struct gf_move *move, uint64_t timeout_ms)
{
        int r;

        for (size_t i = 0; i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];

                item->done = !needs_restore(item);
                item->request = move->request;
                item->request.op = GF_CUDA_RESTORE;
                item->request.pid = item->id.pid;
        }
        r = gf_run_all(env, eyes, parking, GPUFREE_PARK_RESTORE, timeout_ms, finish_restore);
        return r < 0 ? r : restore_narrowly(env, parking, snapshot, move, timeout_ms);
}

static int unlock_all(struct gf_env *env, const struct gf_eyes *eyes, struct gpufree_parking *parking)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];
                struct gf_cuda_reply reply = { 0 }, asked = { 0 };
                int k;

                if (item->sentence || item->state != GPUFREE_PARK_LOCKED)
                        continue;
                gf_parked_begin(eyes, item, GPUFREE_PARK_UNLOCK);
                k = gf_parked_unlock(env, item, &reply);
                (void)gf_parked_ask_state(env, item, &asked);
                if (item->state == GPUFREE_PARK_RUNNING)
                        continue;
                r = gf_parked_say(item, k == -ETIMEDOUT ? GPUFREE_TIMEOUT : GPUFREE_HELD,
                                  "%d has its memory back on the GPU, and could not be unlocked (%s): it stands still "
                                  "until \"gpufree unpark %d\" succeeds",
                                  (int)item->id.pid, k == -EIO ? gf_cuda_words(reply.code) : strerror(-k),
                                  (int)item->id.pid);
        }
        return r;
}

/* Is it a holder again, and on the GPUs where it was to go? */
static bool is_back(const struct gpufree_snapshot *snapshot, const struct gf_move *move,
                    const struct gpufree_snapshot *before, const struct gf_parked *item, uint64_t *ret_memory)
{
        const struct gpufree_holder *holder = NULL;
        uint64_t memory = 0;

        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (gf_ident_equal(&snapshot->holders.v[i].id, &item->id))
                        holder = &snapshot->holders.v[i];
        for (size_t i = 0; holder && i < item->gpus.n; i++) {
                const struct gpufree_gpu *goal = goal_of(before, move, &item->gpus.v[i]);
                bool found = !goal;

                for (size_t k = 0; goal && k < holder->gpus.n; k++)
                        found = found || (holder->gpus.v[k].context &&
                                          gf_gpus_match(&snapshot->inventory.gpus.v[holder->gpus.v[k].gpu], goal));
                if (!found)
                        return false;
        }
        for (size_t k = 0; holder && k < holder->gpus.n; k++)
                if (holder->gpus.v[k].context && holder->gpus.v[k].memory != GPUFREE_UNKNOWN)
                        memory += holder->gpus.v[k].memory;
        *ret_memory = memory;
        return holder && (item->memory == GPUFREE_UNKNOWN || memory + TOLERANCE >= item->memory || memory == 0);
}

/* The GPUs where it is now. */
static int name_place(const struct gpufree_snapshot *before, const struct gf_move *move, struct gf_parked *item)
{
        for (size_t i = 0; i < item->gpus.n; i++) {
                const struct gpufree_gpu *goal = goal_of(before, move, &item->gpus.v[i]);

                if (goal)
                        item->gpus.v[i].index = goal->index;
        }
        return gf_parked_name_gpus(item);
}

static int judge(const struct gpufree_snapshot *before, const struct gpufree_snapshot *after,
                 const struct gf_move *move, struct gf_parked *item)
{
        char size[GF_TEXT_MAX];
        uint64_t memory = 0;
        int pid = (int)item->id.pid, r;

        if (item->sentence || item->state != GPUFREE_PARK_RUNNING)
                return 0;
        gf_record_drop(&item->id);
        r = name_place(before, move, item);
        if (r < 0)
                return r;
        if (is_back(after, move, before, item, &memory))
                return gf_parked_say(item, GPUFREE_OK, "%d runs again: %s on GPU %s", pid, gf_format_size(memory, size),
                                     item->gpu_list ? item->gpu_list : "?");
        return gf_parked_say(
                item, GPUFREE_INCOMPLETE,
                "%d runs again by the driver's word, but is not seen on GPU %s with its memory; gpufree list "
                "--any-open shows what is",
                pid, item->gpu_list ? item->gpu_list : "?");
}

static bool all_back(const struct gpufree_snapshot *before, const struct gpufree_snapshot *after,
                     const struct gf_move *move, const struct gpufree_parking *parking)
{
        uint64_t memory;

        for (size_t i = 0; i < parking->items.n; i++)
                if (!parking->items.v[i].sentence && !is_back(after, move, before, &parking->items.v[i], &memory))
                        return false;
        return true;
}

static int verify(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_snapshot *before,
                  const struct gf_move *move, uint64_t settle_ms, struct gpufree_parking *parking)
{
        uint64_t deadline = gf_deadline_in(settle_ms);
        struct gpufree_snapshot *after = NULL;
        int r = 0;

        for (uint64_t pause = FIRST_PAUSE_MS;;) {
                r = eyes->look(eyes->userdata, &after);
                if (r < 0)
                        return r;
                if (all_back(before, after, move, parking) || gf_deadline_left(deadline) == 0)
                        break;
                after = gpufree_snapshot_unref(after);
                r = gf_pidfds_wait(NULL, 0, gf_deadline_in(pause), env->cancel_fd);
                if (r < 0)
                        return r;
                pause = pause * 2 > LAST_PAUSE_MS ? LAST_PAUSE_MS : pause * 2;
        }
        for (size_t i = 0; r >= 0 && i < parking->items.n; i++)
                r = judge(before, after, move, &parking->items.v[i]);
        gpufree_snapshot_unref(after);
        return r;
}

static bool any_open(const struct gpufree_parking *parking)
{
        for (size_t i = 0; i < parking->items.n; i++)
                if (!parking->items.v[i].sentence)
                        return true;
        return false;
}

/* The memory came back to the GPU; what was asked for was given or refused: now carry it out. */
static int carry_out(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_park_options *options,
                     struct gpufree_parking *parking, const struct gpufree_snapshot *before)
{
        struct gf_move move = { 0 };
        int r, cancel_fd = env->cancel_fd;

        if (options->to && parking->items.n != 1)
                return gf_fail(env, -EINVAL, "--to is for one process at a time: gpufree unpark PID --to %s",
                               options->to);
        r = gf_move_parse(env, options->to, before, &parking->items.v[0], &move);
        if (r >= 0)
                r = check_room(parking, before, &move);
        if (r >= 0 && gf_cancelled(env->cancel_fd))
                r = -ECANCELED;
        if (r >= 0)
                r = restore_all(env, eyes, parking, before, &move, options->timeout_ms);
        env->cancel_fd = -1; /* nobody is left locked because of a Ctrl-C */
        if (r >= 0)
                r = unlock_all(env, eyes, parking);
        for (size_t i = 0; i < parking->items.n; i++)
                gf_cuda_stop(&parking->items.v[i].cuda); /* libcuda has devices open: no holder to be found */
        if (r >= 0 && any_open(parking))
                r = verify(env, eyes, before, &move, options->settle_ms, parking);
        env->cancel_fd = cancel_fd;
        gf_move_done(&move);
        return r;
}

int gf_unpark(struct gf_env *env, const struct gf_eyes *eyes, const struct gpufree_park_options *options,
              struct gpufree_parking *parking)
{
        uint64_t started = gf_now_ms();
        struct gpufree_snapshot *before = NULL;
        int r = ask_all(env, parking, options->resume_stopped);

        if (r >= 0 && (any_open(parking) || options->to)) {
                r = eyes->look(eyes->userdata, &before);
                if (r >= 0)
                        r = carry_out(env, eyes, options, parking, before);
                gpufree_snapshot_unref(before);
        }
        if (r < 0)
                return r;
        parking->outcome = gf_parking_worst(parking);
        parking->elapsed_ms = gf_now_ms() - started;
        return 0;
}

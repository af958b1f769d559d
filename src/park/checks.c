/* SPDX-License-Identifier: MIT */
/* Before anything is done: may and can each of these be parked? What is found is said for all of them at once. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "park/park.h"
#include "park/peers.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidstat.h"
#include "sys/pidwait.h"

/* The target needs what is copied, and tables for it; the machine something to go on with. */
#define HOST_MARGIN (256ULL << 20)
#define CONTINUE_MS 2000
#define LOOK_AGAIN_MS 10

static int pin(struct gf_env *env, struct gf_parked *item)
{
        int fd = gf_pidfd_pin(env, &item->id);

        if (fd >= 0) {
                item->pidfd = fd;
                return 0;
        }
        if (fd == -ESRCH)
                return gf_parked_say(item, GPUFREE_HELD, "%d has ended meanwhile", (int)item->id.pid);
        return gf_parked_say(item, GPUFREE_REFUSED, "%d cannot be pinned: %s", (int)item->id.pid, strerror(-fd));
}

static bool is_stopped(struct gf_env *env, const struct gf_parked *item)
{
        struct gf_pidstat stat;

        return gf_pidstat_of(env, &item->id, &stat) == 0 && (stat.state == 'T' || stat.state == 't');
}

/* No event tells that a process runs again, so this looks again after a moment. */
static int resume(struct gf_env *env, struct gf_parked *item)
{
        uint64_t deadline = gf_deadline_in(CONTINUE_MS);
        int r = gf_pidfd_signal(item->pidfd, SIGCONT);

        while (r == 0 && is_stopped(env, item) && gf_deadline_left(deadline) > 0)
                r = gf_pidfds_wait(&item->pidfd, 1, gf_deadline_in(LOOK_AGAIN_MS), env->cancel_fd);
        if (r == -ECANCELED)
                return r;
        if (r < 0 || is_stopped(env, item))
                return gf_parked_say(item, GPUFREE_REFUSED, "%d is stopped and does not go on after SIGCONT%s%s",
                                     (int)item->id.pid, r < 0 ? ": " : "", r < 0 ? strerror(-r) : "");
        return 0;
}

int gf_check_process(struct gf_env *env, struct gf_parked *item, bool resume_stopped)
{
        int r;

        if (geteuid() != 0 && item->uid != geteuid())
                return gf_parked_say(item, GPUFREE_REFUSED,
                                     "%d belongs to %s: only that user and root may park it or bring it back",
                                     (int)item->id.pid, item->user ? item->user : "somebody else");
        r = pin(env, item);
        if (r < 0 || item->sentence || !is_stopped(env, item))
                return r;
        if (resume_stopped)
                return resume(env, item);
        return gf_parked_say(item, GPUFREE_REFUSED,
                             "%d is stopped (Ctrl-Z or SIGSTOP), and the driver would wait for it for ever: add "
                             "--continue to let it go on first",
                             (int)item->id.pid);
}

/* The driver could not be asked at all: the same for every process. */
int gf_say_no_driver(struct gf_parked *item, const struct gf_cuda_reply *reply, int error)
{
        int pid = (int)item->id.pid;

        if (error == -ETIMEDOUT)
                return gf_parked_say(item, GPUFREE_TIMEOUT,
                                     "the driver does not tell the state of %d: another process that works with it "
                                     "may be locked (NCCL); nothing was done",
                                     pid);
        if (error == -ESRCH)
                return gf_parked_say(item, GPUFREE_HELD, "%d has ended meanwhile", pid);
        if (error < 0)
                return gf_parked_say(item, GPUFREE_REFUSED, "%d: asking the driver failed: %s", pid,
                                     error == -EPIPE ? "libcuda.so.1 crashed" : strerror(-error));
        if (reply->fail == GF_CUDA_NO_LIBRARY)
                return gf_parked_say(item, GPUFREE_REFUSED,
                                     "%d: nothing can be parked without the driver's library: %s", pid, reply->detail);
        if (reply->fail == GF_CUDA_NO_CALL)
                return gf_parked_say(item, GPUFREE_REFUSED,
                                     "%d: this driver (CUDA %d.%d) cannot park: its libcuda.so.1 has no checkpoint "
                                     "calls, which came with driver 570",
                                     pid, (int)reply->version / 1000, (int)reply->version % 1000 / 10);
        return gf_parked_say(item, GPUFREE_REFUSED, "%d: the driver does not tell its state: %s (%s, %d)", pid,
                             gf_cuda_words(reply->code), reply->detail[0] ? reply->detail : "CUDA error",
                             (int)reply->code);
}

static int check_state(struct gf_env *env, struct gf_parked *item)
{
        struct gf_cuda_reply reply = { 0 };
        int pid = (int)item->id.pid, r = gf_parked_ask_state(env, item, &reply);

        switch (item->state) {
        case GPUFREE_PARK_RUNNING:
        case GPUFREE_PARK_LOCKED: /* an earlier attempt ended here: go on from there */
        case GPUFREE_PARK_PARKED:
                return 0;
        case GPUFREE_PARK_FAILED:
                return gf_parked_say(
                        item, GPUFREE_REFUSED,
                        "%d: the driver has given it up (state failed): it can only be ended: gpufree kill "
                        "--pid %d",
                        pid, pid);
        case GPUFREE_PARK_PARKING:
        case GPUFREE_PARK_RESTORING:
                return gf_parked_say(item, GPUFREE_REFUSED, "%d is just being %s by somebody else", pid,
                                     item->state == GPUFREE_PARK_PARKING ? "parked" : "brought back");
        case GPUFREE_PARK_NOT_CUDA:
                return gf_parked_say(item, GPUFREE_REFUSED, "%d is no CUDA process that the driver could park", pid);
        case GPUFREE_PARK_UNKNOWN:
        default:
                return gf_say_no_driver(item, &reply, r);
        }
}

/* Each cgroup for itself, and the machine for all of them together; with `each`, for as many as there is room. */
static int check_host(struct gf_env *env, struct gpufree_parking *parking, bool each)
{
        uint64_t machine = gf_host_available(env), all = 0;
        char need[GF_TEXT_MAX], have[GF_TEXT_MAX];
        int r = 0;

        for (size_t i = 0; r >= 0 && i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];
                uint64_t room;

                if (item->memory == GPUFREE_UNKNOWN || item->state == GPUFREE_PARK_PARKED || item->sentence)
                        continue;
                room = gf_host_room(env, item->id.pid);
                if (room != GPUFREE_UNKNOWN && room < item->memory + HOST_MARGIN)
                        r = gf_parked_say(item, GPUFREE_REFUSED,
                                          "%d needs %s of host memory, and %s are left for it (%s)", (int)item->id.pid,
                                          gf_format_size(item->memory + HOST_MARGIN, need), gf_format_size(room, have),
                                          room < machine ? "the limit of its cgroup" : "MemAvailable");
                else if (each && machine != GPUFREE_UNKNOWN && all + item->memory + HOST_MARGIN > machine)
                        r = gf_parked_say(item, GPUFREE_REFUSED,
                                          "%d needs %s of host memory, and with what is parked before it %s are left",
                                          (int)item->id.pid, gf_format_size(item->memory + HOST_MARGIN, need),
                                          gf_format_size(machine - all, have));
                if (!item->sentence || !each)
                        all += item->memory + HOST_MARGIN;
        }
        if (each)
                return r;
        if (r >= 0 && machine != GPUFREE_UNKNOWN && all > machine && gf_parking_worst(parking) == GPUFREE_OK)
                for (size_t i = 0; r >= 0 && i < parking->items.n; i++)
                        r = gf_parked_say(&parking->items.v[i], GPUFREE_REFUSED,
                                          "%d: together these need %s of host memory, and %s are available",
                                          (int)parking->items.v[i].id.pid, gf_format_size(all, need),
                                          gf_format_size(machine, have));
        return r;
}

int gf_park_check(struct gf_env *env, struct gpufree_parking *parking, const struct gpufree_snapshot *snapshot,
                  const struct gpufree_park_options *options)
{
        for (size_t i = 0; i < parking->items.n; i++) {
                struct gf_parked *item = &parking->items.v[i];
                int r = gf_check_process(env, item, options->resume_stopped);

                if (r == 0 && !item->sentence)
                        r = check_state(env, item);
                if (r == -ESRCH || r == -ETIMEDOUT)
                        r = 0; /* said */
                if (r < 0)
                        return r;
                if (gf_cancelled(env->cancel_fd))
                        return -ECANCELED;
        }
        if (options->each || gf_parking_worst(parking) == GPUFREE_OK) {
                int r = check_host(env, parking, options->each);

                if (r < 0)
                        return r;
        }
        return gf_peers_warn(parking, snapshot);
}

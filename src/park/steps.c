/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "park/cuda_abi.h"
#include "park/park.h"
#include "sys/clock.h"
#include "sys/pidfd.h"

/* What the driver may take beyond what a call itself was told to. */
#define STEP_MARGIN_MS 5000

int gf_parked_call(struct gf_env *env, struct gf_parked *item, const struct gf_cuda_request *request, uint64_t ms,
                   struct gf_cuda_reply *ret_reply)
{
        uint64_t deadline = gf_deadline_in(ms);
        int r;

        /* The driver takes a bare PID: make sure that it is still this process's. */
        r = item->pidfd < 0 ? -EBADF : gf_pidfd_ended(item->pidfd);
        if (r != 0)
                return r < 0 ? r : -ESRCH;
        r = gf_cuda_ask(&item->cuda, request);
        if (r >= 0)
                r = gf_cuda_answer(&item->cuda, ret_reply, deadline, -1);
        if (r < 0)
                gf_cuda_stop(&item->cuda); /* the next call gets a new child */
        (void)env;
        return r;
}

int gf_parked_ask_state(struct gf_env *env, struct gf_parked *item, struct gf_cuda_reply *ret_reply)
{
        struct gf_cuda_request request = { .op = GF_CUDA_STATE, .pid = item->id.pid };
        struct gf_cuda_reply reply = { 0 };
        int r = gf_parked_call(env, item, &request, env->driver_deadline_ms, &reply);

        item->state = GPUFREE_PARK_UNKNOWN;
        if (r < 0)
                return r;
        if (reply.fail == GF_CUDA_CALLED && reply.code == CUDA_OK && reply.state >= 0 &&
            reply.state <= GPUFREE_PARK_RESTORING)
                item->state = (enum gpufree_park_state)reply.state;
        else if (reply.fail == GF_CUDA_CALLED &&
                 (reply.code == CUDA_INVALID_VALUE || reply.code == CUDA_NOT_INITIALIZED))
                item->state = GPUFREE_PARK_NOT_CUDA;
        *ret_reply = reply;
        return 0;
}

int gf_parked_unlock(struct gf_env *env, struct gf_parked *item, struct gf_cuda_reply *ret_reply)
{
        struct gf_cuda_request request = { .op = GF_CUDA_UNLOCK, .pid = item->id.pid };
        struct gf_cuda_reply reply = { 0 };
        int r = gf_parked_call(env, item, &request, env->driver_deadline_ms + STEP_MARGIN_MS, &reply);

        if (r < 0)
                return r;
        *ret_reply = reply;
        if (reply.fail != GF_CUDA_CALLED || reply.code != CUDA_OK)
                return -EIO;
        item->locked_by_us = false;
        return 0;
}

/* SPDX-License-Identifier: MIT */
/* libcuda in its child process. Everything here may hang or crash. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "park/cuda.h"
#include "park/cuda_abi.h"
#include "park/cuda_child.h"

struct api {
        void *library;
        char why[160];
        cuda_init_fn init;
        cuda_version_fn version;
        cuda_name_fn name;
        cuda_state_fn state;
        cuda_lock_fn lock;
        cuda_checkpoint_fn checkpoint;
        cuda_restore_fn restore;
        cuda_unlock_fn unlock;
};

static void bind_symbol(const struct api *api, void *slot, const char *symbol)
{
        void *address = dlsym(api->library, symbol);

        memcpy(slot, &address, sizeof(address)); /* ISO C has no cast from object to function pointers */
}

static void load(struct api *api)
{
        const char *why;

        api->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!api->library) {
                why = dlerror();
                (void)snprintf(api->why, sizeof(api->why), "%s", why ? why : "it cannot be loaded");
                return;
        }
        bind_symbol(api, &api->init, "cuInit");
        bind_symbol(api, &api->version, "cuDriverGetVersion");
        bind_symbol(api, &api->name, "cuGetErrorName");
        bind_symbol(api, &api->state, "cuCheckpointProcessGetState");
        bind_symbol(api, &api->lock, "cuCheckpointProcessLock");
        bind_symbol(api, &api->checkpoint, "cuCheckpointProcessCheckpoint");
        bind_symbol(api, &api->restore, "cuCheckpointProcessRestore");
        bind_symbol(api, &api->unlock, "cuCheckpointProcessUnlock");
}

static cuda_result do_restore(const struct api *api, const struct gf_cuda_request *request)
{
        struct cuda_gpu_pair pairs[GF_CUDA_PAIRS] = { 0 };
        struct cuda_restore_args args = { .pairs = pairs, .n_pairs = request->n_pairs };

        /* A restore needs the driver awake: persistence mode, or a caller that has initialised it. Failing that, the
         * restore itself says why. */
        if (api->init)
                (void)api->init(0);
        for (uint32_t i = 0; i < request->n_pairs; i++) {
                memcpy(pairs[i].old_uuid, request->pairs[i][0], sizeof(pairs[i].old_uuid));
                memcpy(pairs[i].new_uuid, request->pairs[i][1], sizeof(pairs[i].new_uuid));
        }
        return api->restore(request->pid, request->n_pairs > 0 ? &args : NULL);
}

static cuda_result do_call(const struct api *api, const struct gf_cuda_request *request, struct gf_cuda_reply *reply)
{
        switch ((enum gf_cuda_op)request->op) {
        case GF_CUDA_STATE:
                return api->state(request->pid, &reply->state);
        case GF_CUDA_LOCK:
                return api->lock(request->pid, &(struct cuda_lock_args){ .timeout_ms = request->timeout_ms });
        case GF_CUDA_CHECKPOINT:
                return api->checkpoint(request->pid, NULL);
        case GF_CUDA_RESTORE:
                return do_restore(api, request);
        case GF_CUDA_UNLOCK:
                return api->unlock(request->pid, NULL);
        default:
                return CUDA_INVALID_VALUE;
        }
}

static void answer(const struct api *api, const struct gf_cuda_request *request, struct gf_cuda_reply *reply)
{
        const char *name = NULL;

        reply->state = -1;
        if (!api->library) {
                reply->fail = GF_CUDA_NO_LIBRARY;
                (void)snprintf(reply->detail, sizeof(reply->detail), "%s", api->why);
                return;
        }
        if (api->version && api->version(&reply->version) != CUDA_OK)
                reply->version = 0;
        /* All or none: a process that could be parked and not brought back is not parked. */
        if (!api->state || !api->lock || !api->checkpoint || !api->restore || !api->unlock) {
                reply->fail = GF_CUDA_NO_CALL;
                return;
        }
        if (request->n_pairs > 0 && reply->version < CUDA_VERSION_PAIRS) {
                reply->fail = GF_CUDA_NO_PAIRS;
                return;
        }
        reply->code = do_call(api, request, reply);
        if (reply->code != CUDA_OK && api->name && api->name(reply->code, &name) == CUDA_OK && name)
                (void)snprintf(reply->detail, sizeof(reply->detail), "%s", name);
}

int gf_cuda_child_main(int socket, void *userdata)
{
        struct api api = { 0 };

        (void)userdata;
        (void)unsetenv("CUDA_VISIBLE_DEVICES"); /* ours is not the target's */
        load(&api);
        for (;;) {
                struct gf_cuda_request request;
                struct gf_cuda_reply reply = { 0 };
                ssize_t n = recv(socket, &request, sizeof(request), 0);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n != sizeof(request) || request.n_pairs > GF_CUDA_PAIRS)
                        return n == 0 ? 0 : 1;
                answer(&api, &request, &reply);
                if (send(socket, &reply, sizeof(reply), MSG_NOSIGNAL) != (ssize_t)sizeof(reply))
                        return 1;
        }
}

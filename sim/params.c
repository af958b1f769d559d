/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "spawn.h"

#define GIB (1ull << 30)

const struct sim_shape sim_shapes[] = {
        { "plain", "descriptors on its GPU, nvidiactl and nvidia-uvm, like a CUDA process", "python3 train.py",
          20 * GIB },
        { "open", "has the device open, no context, no memory", "monitor --loop", 0 },
        { "fork-heir", "parent dead, its forked child keeps the descriptors", "python3 train.py --workers 1",
          20 * GIB },
        { "zombie-leader", "leader has exited, another thread holds", "python3 infer.py", 20 * GIB },
        { "map", "a mapping of nvidia-uvm, no descriptor", "python3 mapped.py", 20 * GIB },
        { "own-node", "a device node of its own, as in a container", "python3 contained.py", 20 * GIB },
        { "pidns", "first process of a PID namespace of its own", "python3 pod.py", 20 * GIB },
        { "own-table", "a thread with a descriptor table of its own", "python3 threaded.py", 20 * GIB },
        { "scm", "descriptors waiting in a UNIX socket", "python3 queued.py", 20 * GIB },
        { "io_uring", "files registered with an io_uring, descriptors closed", "python3 uring.py", 20 * GIB },
        { "unlinked", "a device node that was removed", "python3 unlinked.py", 20 * GIB },
        { "opath", "an O_PATH descriptor, which does not hold", "python3 opath.py", 0 },
        { "ctl-only", "nvidiactl alone, as with an exported memory handle", "rdma-relay", 2 * GIB },
        { "exporter", "like plain, a peer keeps its memory by an exported handle", "python3 export.py", 20 * GIB },
        { "stopped", "like plain, then stopped", "python3 paused.py", 20 * GIB },
        { "ignore-term", "like plain, ignores SIGTERM", "python3 stubborn.py", 20 * GIB },
        { "service", "a daemon that has every GPU open", "nvidia-persistenced --verbose", 0 },
        { "workers", "a launcher and one worker for each GPU", "sglang::scheduler_TP", 74 * GIB },
        { "respawner", "a parent that starts its holder again when it ends", "python3 serve.py", 20 * GIB },
};
const size_t sim_n_shapes = ELEMENTSOF(sim_shapes);

const struct sim_shape *sim_shape_find(const char *name)
{
        for (size_t i = 0; i < sim_n_shapes; i++)
                if (gf_streq(sim_shapes[i].name, name))
                        return &sim_shapes[i];
        return NULL;
}

void sim_params_init(struct sim_params *params, const struct sim_shape *shape)
{
        *params = (struct sim_params){ .user = SIM_NO_USER, .zombie = -1, .memory = shape->memory };
        (void)snprintf(params->shape, sizeof(params->shape), "%s", shape->name);
        (void)snprintf(params->name, sizeof(params->name), "%s", shape->command);
}

void sim_params_encode(const struct sim_params *p, struct gf_str *text)
{
        gf_str_addf(text, "shape=%s\nname=", p->shape);
        for (const char *c = p->name; *c; c++)
                gf_str_addf(text, "%02x", (unsigned char)*c);
        gf_str_addf(text, "\ngpu=%d\nmemory=%llu\nuser=%u\ncount=%u\n", p->gpu, (unsigned long long)p->memory, p->user,
                    p->count);
        if (p->zombie >= 0)
                gf_str_addf(text, "zombie=%d\n", p->zombie);
        gf_str_addf(text, "orphaned=%d\nall_gpus=%d\nleft_alone=%d\n", p->orphaned, p->all_gpus, p->left_alone);
}

static int unhex(const char *text, char *dst, size_t size)
{
        size_t n = strlen(text) / 2;

        if (strlen(text) % 2 != 0 || n >= size)
                return -EINVAL;
        for (size_t i = 0; i < n; i++) {
                char pair[3] = { text[2 * i], text[2 * i + 1], '\0' };
                uint64_t value;

                if (gf_parse_hex64(pair, &value) < 0)
                        return -EINVAL;
                dst[i] = (char)value;
        }
        dst[n] = '\0';
        return 0;
}

static int decode_one(const char *key, const char *value, struct sim_params *p)
{
        uint64_t number;

        if (gf_streq(key, "shape")) {
                (void)snprintf(p->shape, sizeof(p->shape), "%s", value);
                return 0;
        }
        if (gf_streq(key, "name"))
                return unhex(value, p->name, sizeof(p->name));
        if (gf_parse_u64(value, &number) < 0)
                return -EINVAL;
        if (gf_streq(key, "memory")) {
                p->memory = number;
                return 0;
        }
        if (number > UINT32_MAX)
                return -EINVAL;
        if (gf_streq(key, "user"))
                p->user = (uint32_t)number;
        else if (gf_streq(key, "count"))
                p->count = (uint32_t)number;
        else if (number > INT32_MAX)
                return -EINVAL;
        else if (gf_streq(key, "gpu"))
                p->gpu = (int)number;
        else if (gf_streq(key, "zombie"))
                p->zombie = (int)number;
        else if (gf_streq(key, "orphaned"))
                p->orphaned = number != 0;
        else if (gf_streq(key, "all_gpus"))
                p->all_gpus = number != 0;
        else if (gf_streq(key, "left_alone"))
                p->left_alone = number != 0;
        return 0;
}

int sim_params_decode(char *text, struct sim_params *ret_params)
{
        struct sim_params p = { .user = SIM_NO_USER, .zombie = -1 };
        char *save = NULL;

        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                char *value = strchr(line, '=');
                int r;

                if (!value)
                        return -EINVAL;
                *value++ = '\0';
                r = decode_one(line, value, &p);
                if (r < 0)
                        return r;
        }
        if (!sim_shape_find(p.shape))
                return -EINVAL;
        *ret_params = p;
        return 0;
}

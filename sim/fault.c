/* SPDX-License-Identifier: MIT */
#include "fault.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "base/str.h"

static int parse_call(const char *text, enum sim_call *ret)
{
        static const struct {
                const char *name;
                enum sim_call call;
        } table[] = {
                { "init", SIM_CALL_INIT },     { "handle", SIM_CALL_HANDLE },           { "list", SIM_CALL_LIST },
                { "memory", SIM_CALL_MEMORY }, { "utilization", SIM_CALL_UTILIZATION },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (gf_streq(text, table[i].name)) {
                        *ret = table[i].call;
                        return 0;
                }
        return -EINVAL;
}

static int parse_cuda_call(const char *text, enum sim_cuda_call *ret)
{
        static const char *const names[] = { "state", "lock", "checkpoint", "restore", "unlock" };

        for (unsigned i = 0; text && i < ELEMENTSOF(names); i++)
                if (gf_streq(text, names[i])) {
                        *ret = (enum sim_cuda_call)(SIM_CUDA_STATE + i);
                        return 0;
                }
        return -EINVAL;
}

/* Faults of libcuda; 1: it is none of them. */
static int parse_cuda(const char *name, char *value, struct sim_fault *fault)
{
        char *colon;

        if (gf_streq(name, "cuda-keep") || gf_streq(name, "cuda-old")) {
                *(gf_streq(name, "cuda-keep") ? &fault->cuda_keep : &fault->cuda_old) = true;
                return value ? -EINVAL : 0;
        }
        if (gf_streq(name, "cuda-hang"))
                return parse_cuda_call(value, &fault->cuda_hang);
        if (gf_streq(name, "cuda-lost"))
                return parse_cuda_call(value, &fault->cuda_lost);
        if (gf_streq(name, "cuda-crash"))
                return parse_cuda_call(value, &fault->cuda_crash);
        if (gf_streq(name, "cuda-slow"))
                return value ? gf_parse_u64(value, &fault->cuda_slow_ms) : -EINVAL;
        if (!gf_streq(name, "cuda-error"))
                return 1;
        colon = value ? strchr(value, ':') : NULL;
        if (!colon)
                return -EINVAL;
        *colon = '\0';
        if (gf_parse_u32(value, &fault->cuda_error) < 0)
                return -EINVAL;
        value = colon + 1;
        colon = strchr(value, ':');
        if (colon) {
                *colon = '\0';
                if (gf_parse_u32(colon + 1, &fault->cuda_pid) < 0)
                        return -EINVAL;
        }
        return parse_cuda_call(value, &fault->cuda_error_call);
}

/* CODE[:GPU[:CALL]] */
static int parse_error(char *text, struct sim_fault *fault)
{
        char *save = NULL;
        const char *code = strtok_r(text, ":", &save), *gpu = strtok_r(NULL, ":", &save),
                   *call = strtok_r(NULL, ":", &save);
        uint32_t number;

        if (!code || gf_parse_u32(code, &fault->error) < 0)
                return -EINVAL;
        fault->error_call = SIM_CALL_INIT;
        fault->error_gpu = -1;
        if (gpu && !gf_streq(gpu, "all")) {
                if (gf_parse_u32(gpu, &number) < 0 || number > INT32_MAX)
                        return -EINVAL;
                fault->error_gpu = (int)number;
        }
        if (gpu)
                fault->error_call = SIM_CALL_HANDLE;
        return call ? parse_call(call, &fault->error_call) : 0;
}

static int parse_one(const char *name, char *value, struct sim_fault *fault)
{
        int r;
        bool *flag = gf_streq(name, "dead-pids")   ? &fault->dead_pids
                     : gf_streq(name, "hide-pids") ? &fault->hide_pids
                     : gf_streq(name, "never")     ? &fault->never
                     : gf_streq(name, "no-v2")     ? &fault->no_v2
                     : gf_streq(name, "no-v3")     ? &fault->no_v3
                     : gf_streq(name, "stride32")  ? &fault->stride32
                     : gf_streq(name, "full-list") ? &fault->full_list
                                                   : NULL;

        if (flag) {
                *flag = true;
                return value ? -EINVAL : 0;
        }
        if (gf_streq(name, "late"))
                return value ? gf_parse_u64(value, &fault->late_ms) : -EINVAL;
        if (gf_streq(name, "busy"))
                return value && gf_parse_u64(value, &fault->busy) == 0 && fault->busy <= 100 ? 0 : -EINVAL;
        if (gf_streq(name, "error"))
                return value ? parse_error(value, fault) : -EINVAL;
        if (gf_streq(name, "hang") || gf_streq(name, "crash")) {
                enum sim_call *call = gf_streq(name, "hang") ? &fault->hang : &fault->crash;

                *call = SIM_CALL_INIT;
                return value ? parse_call(value, call) : 0;
        }
        r = parse_cuda(name, value, fault);
        return r > 0 ? -EINVAL : r;
}

int sim_fault_parse(const char *text, struct sim_fault *ret_fault)
{
        struct sim_fault fault = { .error_gpu = -1 };
        _cleanup_free_ char *copy = NULL;
        char *save = NULL;
        int r = 0;

        if (text) {
                copy = strdup(text);
                if (!copy)
                        return -ENOMEM;
        }
        for (char *item = copy ? strtok_r(copy, ",", &save) : NULL; r >= 0 && item; item = strtok_r(NULL, ",", &save)) {
                char *value = strchr(item, '=');

                if (value)
                        *value++ = '\0';
                r = parse_one(item, value, &fault);
        }
        if (r < 0)
                return r;
        fault.no_v3 = fault.no_v3 || fault.no_v2; /* a driver without the older one has not got the newer */
        *ret_fault = fault;
        return 0;
}

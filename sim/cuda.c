/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for the NVIDIA driver's libcuda.so.1, as far as parking goes: it passes each call to the holder of the
 * simulated node (GPUFREE_SIM_DIR) that has this PID, see control.c. GPUFREE_SIM_FAULT makes it misbehave, see fault.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fault.h"
#include "sim_cuda.h"
#include "state.h"

#define API __attribute__((visibility("default")))
#define VERSION 13000
#define VERSION_OLD 12080

static int read_fault(struct sim_fault *fault)
{
        if (sim_fault_parse(getenv("GPUFREE_SIM_FAULT"), fault) < 0) {
                (void)dprintf(STDERR_FILENO, "libcuda (simulated): GPUFREE_SIM_FAULT not understood\n");
                return SIM_CUDA_UNKNOWN;
        }
        return SIM_CUDA_SUCCESS;
}

static int connect_to(int pid)
{
        const char *node = getenv("GPUFREE_SIM_DIR");
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_close_ int dir = node ? open(node, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (dir < 0 || fd < 0)
                return -EIO;
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/control/%d", dir, pid);
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* A holder that is not there, or not made for it, is no CUDA process. */
static int ask(int pid, const char *line, int *ret_state)
{
        _cleanup_close_ int fd = connect_to(pid);
        char answer[64] = { 0 };
        int code, state;
        ssize_t n;

        if (fd == -EACCES || fd == -EPERM)
                return SIM_CUDA_NOT_PERMITTED;
        if (fd < 0)
                return SIM_CUDA_INVALID_VALUE;
        if (send(fd, line, strlen(line), MSG_NOSIGNAL) < 0)
                return SIM_CUDA_UNKNOWN;
        do
                n = read(fd, answer, sizeof(answer) - 1);
        while (n < 0 && errno == EINTR);
        if (n <= 0 || sscanf(answer, "%d %d", &code, &state) != 2)
                return SIM_CUDA_UNKNOWN;
        if (ret_state)
                *ret_state = state;
        return code;
}

static void hang_if(bool told)
{
        while (told)
                (void)pause();
}

static int call(enum sim_cuda_call which, int pid, const char *line, int *ret_state)
{
        struct sim_fault fault;
        int r = read_fault(&fault);

        if (r != SIM_CUDA_SUCCESS)
                return r;
        hang_if(fault.cuda_hang == which);
        if (fault.cuda_crash == which)
                (void)raise(SIGSEGV);
        if (fault.cuda_error != 0 && fault.cuda_error_call == which &&
            (fault.cuda_pid == 0 || (int)fault.cuda_pid == pid))
                return (int)fault.cuda_error;
        r = ask(pid, line, ret_state);
        hang_if(fault.cuda_lost == which);
        return r;
}

API int cuInit(unsigned flags);
API int cuInit(unsigned flags)
{
        (void)flags;
        return SIM_CUDA_SUCCESS;
}

API int cuDriverGetVersion(int *version);
API int cuDriverGetVersion(int *version)
{
        struct sim_fault fault;

        if (!version || read_fault(&fault) != SIM_CUDA_SUCCESS)
                return SIM_CUDA_INVALID_VALUE;
        *version = fault.cuda_old ? VERSION_OLD : VERSION;
        return SIM_CUDA_SUCCESS;
}

API int cuGetErrorName(int result, const char **name);
API int cuGetErrorName(int result, const char **name)
{
        static const struct {
                int result;
                const char *name;
        } table[] = {
                { 0, "CUDA_SUCCESS" },
                { 1, "CUDA_ERROR_INVALID_VALUE" },
                { 2, "CUDA_ERROR_OUT_OF_MEMORY" },
                { 3, "CUDA_ERROR_NOT_INITIALIZED" },
                { 101, "CUDA_ERROR_INVALID_DEVICE" },
                { 401, "CUDA_ERROR_ILLEGAL_STATE" },
                { 600, "CUDA_ERROR_NOT_READY" },
                { 800, "CUDA_ERROR_NOT_PERMITTED" },
                { 801, "CUDA_ERROR_NOT_SUPPORTED" },
                { 999, "CUDA_ERROR_UNKNOWN" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (table[i].result == result) {
                        *name = table[i].name;
                        return SIM_CUDA_SUCCESS;
                }
        return SIM_CUDA_INVALID_VALUE;
}

API int cuCheckpointProcessGetState(int pid, int *state);
API int cuCheckpointProcessGetState(int pid, int *state)
{
        return call(SIM_CUDA_STATE, pid, "state\n", state);
}

API int cuCheckpointProcessLock(int pid, const void *args);
API int cuCheckpointProcessLock(int pid, const void *args)
{
        (void)args;
        return call(SIM_CUDA_LOCK, pid, "lock\n", NULL);
}

API int cuCheckpointProcessCheckpoint(int pid, const void *args);
API int cuCheckpointProcessCheckpoint(int pid, const void *args)
{
        struct sim_fault fault;
        char line[64];

        (void)args;
        if (read_fault(&fault) != SIM_CUDA_SUCCESS)
                return SIM_CUDA_UNKNOWN;
        (void)snprintf(line, sizeof(line), "checkpoint %llu %d\n", (unsigned long long)fault.cuda_slow_ms,
                       fault.cuda_keep);
        return call(SIM_CUDA_CHECKPOINT, pid, line, NULL);
}

struct restore_args {
        const unsigned char (*pairs)[2][16];
        unsigned n_pairs;
        char reserved[44];
        unsigned long long reserved1;
};

static void add_uuid(struct gf_str *line, const unsigned char uuid[16])
{
        gf_str_add(line, " GPU-");
        for (int i = 0; i < 16; i++)
                gf_str_addf(line, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

API int cuCheckpointProcessRestore(int pid, const struct restore_args *args);
API int cuCheckpointProcessRestore(int pid, const struct restore_args *args)
{
        struct gf_str s = { 0 };
        _cleanup_free_ char *line = NULL;
        struct sim_fault fault;

        if (read_fault(&fault) != SIM_CUDA_SUCCESS)
                return SIM_CUDA_UNKNOWN;
        gf_str_addf(&s, "restore %llu", (unsigned long long)fault.cuda_slow_ms);
        for (unsigned i = 0; args && i < args->n_pairs; i++) {
                add_uuid(&s, args->pairs[i][0]);
                add_uuid(&s, args->pairs[i][1]);
        }
        gf_str_addc(&s, '\n');
        if (gf_str_take(&s, &line) < 0)
                return SIM_CUDA_UNKNOWN;
        return call(SIM_CUDA_RESTORE, pid, line, NULL);
}

API int cuCheckpointProcessUnlock(int pid, const void *args);
API int cuCheckpointProcessUnlock(int pid, const void *args)
{
        (void)args;
        return call(SIM_CUDA_UNLOCK, pid, "unlock\n", NULL);
}

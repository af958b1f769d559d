/* SPDX-License-Identifier: MIT */
#include "park/cuda.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "park/cuda_abi.h"
#include "park/cuda_child.h"

int gf_cuda_start(struct gf_cuda *cuda)
{
        int r;

        if (cuda->started)
                return 0;
        r = gf_child_start(gf_cuda_child_main, NULL, &cuda->child);
        cuda->started = r >= 0;
        return r;
}

void gf_cuda_stop(struct gf_cuda *cuda)
{
        if (cuda->started)
                gf_child_stop(&cuda->child);
        cuda->started = false;
}

int gf_cuda_ask(struct gf_cuda *cuda, const struct gf_cuda_request *request)
{
        int r = gf_cuda_start(cuda);

        return r < 0 ? r : gf_child_send(&cuda->child, request, sizeof(*request));
}

int gf_cuda_answer(struct gf_cuda *cuda, struct gf_cuda_reply *ret_reply, uint64_t deadline, int cancel_fd)
{
        struct gf_cuda_reply reply = { 0 };
        ssize_t n = gf_child_receive(&cuda->child, &reply, sizeof(reply), deadline, cancel_fd);

        if (n < 0)
                return (int)n;
        if (n == 0)
                return -EPIPE;
        if (n != sizeof(reply))
                return -EBADMSG;
        reply.detail[sizeof(reply.detail) - 1] = '\0';
        *ret_reply = reply;
        return 0;
}

static int hex(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int gf_cuda_uuid(const char *text, unsigned char ret[static 16])
{
        unsigned char bytes[16];

        if (!text || !gf_startswith(text, "GPU-"))
                return -EINVAL;
        text += 4;
        for (size_t i = 0; i < sizeof(bytes); i++) {
                int high, low;

                if (*text == '-' && (i == 4 || i == 6 || i == 8 || i == 10))
                        text++;
                high = hex(text[0]);
                low = high < 0 ? -1 : hex(text[1]);
                if (low < 0)
                        return -EINVAL;
                bytes[i] = (unsigned char)(high * 16 + low);
                text += 2;
        }
        if (*text != '\0')
                return -EINVAL;
        memcpy(ret, bytes, sizeof(bytes));
        return 0;
}

const char *gf_cuda_words(int code)
{
        switch (code) {
        case CUDA_INVALID_VALUE:
        case CUDA_NOT_INITIALIZED:
                return "the driver knows no CUDA process by this PID";
        case CUDA_OUT_OF_MEMORY:
                return "there was not memory enough";
        case CUDA_ILLEGAL_STATE:
                return "the process is not in the state that this step needs";
        case CUDA_NOT_READY:
                return "its work on the GPU did not come to a pause in time";
        case CUDA_NOT_PERMITTED:
                return "the driver does not permit it";
        case CUDA_NOT_SUPPORTED:
                return "the driver does not support it for this process (unified memory, CUDA IPC, MPS or MIG, say)";
        default:
                return "the driver failed";
        }
}

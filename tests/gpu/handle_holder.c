/* SPDX-License-Identifier: MIT */
/*
 * Keeps memory of a real NVIDIA GPU that a dead process exported, in a process that never loads a driver library.
 *
 *     handle_holder SHAPE MIB
 *
 * dmabuf         the peer has a dma-buf (cuMemGetHandleForAddressRange) and no NVIDIA file
 * vmm            the peer has an exported memory handle (cuMemExportToShareableHandle): one descriptor on nvidiactl
 * dmabuf-queued  the dma-buf waits in the peer's UNIX socket; nobody has it as a descriptor
 * vmm-queued     the same with the memory handle
 *
 * Prints "ready PID MIB" once the exporter is dead: PID is the peer. Waits until it is killed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int cu_result;

/* CUmemAllocationProp. */
struct cu_allocation {
        int type;        /* 1: pinned */
        int handle_type; /* 1: a file descriptor */
        struct {
                int type; /* 1: a device */
                int id;
        } location;
        void *win32;
        struct {
                unsigned char compression, rdma;
                unsigned short usage;
                unsigned char reserved[4];
        } flags;
};

static struct {
        cu_result (*init)(unsigned flags);
        cu_result (*device_get)(int *device, int ordinal);
        cu_result (*context_create)(void **context, unsigned flags, int device);
        cu_result (*allocate)(uint64_t *pointer, size_t bytes);
        cu_result (*range_handle)(void *handle, uint64_t pointer, size_t bytes, int type, unsigned long long flags);
        cu_result (*create)(uint64_t *handle, size_t bytes, const struct cu_allocation *prop, unsigned long long flags);
        cu_result (*export_handle)(void *shareable, uint64_t handle, int type, unsigned long long flags);
} cu;

static void die(const char *what, int code)
{
        fprintf(stderr, "handle_holder: %s: %d\n", what, code);
        exit(1);
}

static void *symbol(void *library, const char *name)
{
        void *address = dlsym(library, name);

        if (!address)
                die(name, 0);
        return address;
}

static void check(const char *what, cu_result result)
{
        if (result != 0)
                die(what, result);
}

static void make_context(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
        int device;

        if (!library)
                die(dlerror(), 0);
        *(void **)&cu.init = symbol(library, "cuInit");
        *(void **)&cu.device_get = symbol(library, "cuDeviceGet");
        *(void **)&cu.context_create = symbol(library, "cuCtxCreate_v2");
        *(void **)&cu.allocate = symbol(library, "cuMemAlloc_v2");
        *(void **)&cu.range_handle = symbol(library, "cuMemGetHandleForAddressRange");
        *(void **)&cu.create = symbol(library, "cuMemCreate");
        *(void **)&cu.export_handle = symbol(library, "cuMemExportToShareableHandle");
        check("cuInit", cu.init(0));
        check("cuDeviceGet", cu.device_get(&device, 0));
        check("cuCtxCreate", cu.context_create(&context, 0, device));
}

static int export_dmabuf(size_t bytes)
{
        uint64_t pointer;
        int fd = -1;

        check("cuMemAlloc", cu.allocate(&pointer, bytes));
        check("cuMemGetHandleForAddressRange", cu.range_handle(&fd, pointer, bytes, 1, 0));
        return fd;
}

static int export_vmm(size_t bytes)
{
        struct cu_allocation prop = { .type = 1, .handle_type = 1, .location = { .type = 1, .id = 0 } };
        uint64_t handle;
        int fd = -1;

        check("cuMemCreate", cu.create(&handle, bytes, &prop, 0));
        check("cuMemExportToShareableHandle", cu.export_handle(&fd, handle, 1, 0));
        return fd;
}

union control {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
};

static void send_descriptor(int socket, int fd)
{
        union control control = { 0 };
        struct iovec iov = { .iov_base = "x", .iov_len = 1 };
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
        if (sendmsg(socket, &msg, MSG_NOSIGNAL) != 1)
                die("sendmsg", errno);
}

/* With `peek` the message stays in the queue, and nothing is taken out of it. */
static void receive(int socket, int peek)
{
        union control control = { 0 };
        char byte;
        struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

        if (!peek) {
                msg.msg_control = &control;
                msg.msg_controllen = sizeof(control);
        }
        if (recvmsg(socket, &msg, peek ? MSG_PEEK : 0) != 1)
                die("the exporter failed", errno);
        if (!peek && !CMSG_FIRSTHDR(&msg))
                die("no descriptor came", 0);
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                int (*make)(size_t bytes);
                int queued;
        } shapes[] = {
                { "dmabuf", export_dmabuf, 0 },
                { "vmm", export_vmm, 0 },
                { "dmabuf-queued", export_dmabuf, 1 },
                { "vmm-queued", export_vmm, 1 },
        };
        size_t shape = 0;
        unsigned long mib;
        int pair[2];
        pid_t exporter;
        char *end;

        while (argc == 3 && shape < 4 && strcmp(argv[1], shapes[shape].name) != 0)
                shape++;
        if (argc != 3 || shape == 4 || (mib = strtoul(argv[2], &end, 10), *end) || mib == 0 || mib > 1UL << 20) {
                fprintf(stderr, "usage: handle_holder dmabuf|vmm|dmabuf-queued|vmm-queued MIB\n");
                return 2;
        }
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                die("socketpair", errno);
        exporter = fork();
        if (exporter < 0)
                die("fork", errno);
        if (exporter == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                close(pair[0]);
                make_context();
                send_descriptor(pair[1], shapes[shape].make(mib << 20));
                for (;;)
                        pause();
        }
        close(pair[1]);
        receive(pair[0], shapes[shape].queued);
        kill(exporter, SIGKILL);
        waitpid(exporter, NULL, 0);
        printf("ready %d %lu\n", (int)getpid(), mib);
        fflush(stdout);
        for (;;)
                pause();
}

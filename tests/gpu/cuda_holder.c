/* SPDX-License-Identifier: MIT */
/*
 * Holds memory of a real NVIDIA GPU in the shapes that gpufree must find. The driver's library is loaded at run time,
 * so that this builds anywhere.
 *
 *     cuda_holder SHAPE MIB
 *
 * plain          a CUDA context with MIB of memory
 * fork           the same, then a forked child lives on while its parent is killed
 * zombie-leader  the first thread has exited, a second one has the context
 * own-node       a mount namespace with a /dev of its own, the nodes made anew
 * ipc            an exporter is killed while an importer has its memory open
 *
 * Prints "ready PID MIB" once the memory is held: PID is the process that keeps it. Waits until it is killed.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int cu_result;
typedef struct {
        char reserved[64];
} cu_ipc_handle;

static struct {
        cu_result (*init)(unsigned flags);
        cu_result (*device_get)(int *device, int ordinal);
        cu_result (*context_create)(void **context, unsigned flags, int device);
        cu_result (*allocate)(uint64_t *pointer, size_t bytes);
        cu_result (*ipc_get)(cu_ipc_handle *handle, uint64_t pointer);
        cu_result (*ipc_open)(uint64_t *pointer, cu_ipc_handle handle, unsigned flags);
} cu;

static void die(const char *what, int code)
{
        fprintf(stderr, "cuda_holder: %s: %d\n", what, code);
        exit(1);
}

static void *symbol(void *library, const char *name)
{
        void *address = dlsym(library, name);

        if (!address)
                die(name, 0);
        return address;
}

static void load(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW);

        if (!library)
                die(dlerror(), 0);
        *(void **)&cu.init = symbol(library, "cuInit");
        *(void **)&cu.device_get = symbol(library, "cuDeviceGet");
        *(void **)&cu.context_create = symbol(library, "cuCtxCreate_v2");
        *(void **)&cu.allocate = symbol(library, "cuMemAlloc_v2");
        *(void **)&cu.ipc_get = symbol(library, "cuIpcGetMemHandle");
        *(void **)&cu.ipc_open = symbol(library, "cuIpcOpenMemHandle_v2");
}

static void check(const char *what, cu_result result)
{
        if (result != 0)
                die(what, result);
}

static void make_context(void)
{
        void *context;
        int device;

        load();
        check("cuInit", cu.init(0));
        check("cuDeviceGet", cu.device_get(&device, 0));
        check("cuCtxCreate", cu.context_create(&context, 0, device));
}

static uint64_t hold(size_t bytes)
{
        uint64_t pointer;

        make_context();
        check("cuMemAlloc", cu.allocate(&pointer, bytes));
        return pointer;
}

static void ready(pid_t pid, size_t bytes)
{
        printf("ready %d %zu\n", (int)pid, bytes >> 20);
        fflush(stdout);
}

static void wait_for_ever(void)
{
        for (;;)
                pause();
}

static void shape_fork(size_t bytes)
{
        pid_t parent = getpid();
        int link[2];
        pid_t child;
        char byte;

        if (pipe(link) < 0)
                die("pipe", errno);
        hold(bytes);
        child = fork();
        if (child < 0)
                die("fork", errno);
        if (child == 0) {
                close(link[1]);
                /* End of file: the parent, the only writer, is dead. */
                while (read(link[0], &byte, 1) > 0)
                        ;
                ready(getpid(), bytes);
                wait_for_ever();
        }
        kill(parent, SIGKILL);
        wait_for_ever();
}

static size_t thread_bytes;
static pthread_t leader;

static void *second_thread(void *unused)
{
        (void)unused;
        pthread_join(leader, NULL);
        hold(thread_bytes);
        ready(getpid(), thread_bytes);
        wait_for_ever();
        return NULL;
}

static void shape_zombie_leader(size_t bytes)
{
        pthread_t thread;

        thread_bytes = bytes;
        leader = pthread_self();
        if (pthread_create(&thread, NULL, second_thread, NULL) != 0)
                die("pthread_create", errno);
        pthread_exit(NULL);
}

/* A /dev of our own: same numbers, other inodes, as container runtimes make them. */
static void shape_own_node(size_t bytes)
{
        struct {
                char name[64];
                dev_t number;
        } nodes[64];
        size_t n = 0;
        struct dirent *entry;
        DIR *dev = opendir("/dev");

        while (dev && (entry = readdir(dev)) && n < 64) {
                struct stat st;

                if (strncmp(entry->d_name, "nvidia", 6) != 0 && strcmp(entry->d_name, "null") != 0 &&
                    strcmp(entry->d_name, "zero") != 0 && strcmp(entry->d_name, "urandom") != 0)
                        continue;
                if (fstatat(dirfd(dev), entry->d_name, &st, 0) < 0 || !S_ISCHR(st.st_mode))
                        continue;
                snprintf(nodes[n].name, sizeof(nodes[n].name), "/dev/%.50s", entry->d_name);
                nodes[n++].number = st.st_rdev;
        }
        if (dev)
                closedir(dev);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", "/dev", "tmpfs", 0, NULL) < 0)
                die("mount namespace", errno);
        for (size_t i = 0; i < n; i++)
                if (mknod(nodes[i].name, S_IFCHR | 0666, nodes[i].number) < 0)
                        die(nodes[i].name, errno);
        hold(bytes);
        ready(getpid(), bytes);
        wait_for_ever();
}

static void shape_ipc(size_t bytes)
{
        int link[2];
        cu_ipc_handle handle;
        pid_t exporter;
        uint64_t pointer;
        int status;

        if (pipe(link) < 0)
                die("pipe", errno);
        exporter = fork();
        if (exporter < 0)
                die("fork", errno);
        if (exporter == 0) {
                pointer = hold(bytes);
                check("cuIpcGetMemHandle", cu.ipc_get(&handle, pointer));
                if (write(link[1], &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
                        die("write", errno);
                wait_for_ever();
        }
        if (read(link[0], &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
                die("read", errno);
        make_context();
        check("cuIpcOpenMemHandle", cu.ipc_open(&pointer, handle, 1));
        kill(exporter, SIGKILL);
        waitpid(exporter, &status, 0);
        ready(getpid(), bytes);
        wait_for_ever();
}

int main(int argc, char **argv)
{
        char *end;
        unsigned long mib;

        if (argc != 3 || (mib = strtoul(argv[2], &end, 10), *end) || mib == 0 || mib > 1UL << 20) {
                fprintf(stderr, "usage: cuda_holder plain|fork|zombie-leader|own-node|ipc MIB\n");
                return 2;
        }
        if (strcmp(argv[1], "plain") == 0) {
                hold(mib << 20);
                ready(getpid(), mib << 20);
                wait_for_ever();
        } else if (strcmp(argv[1], "fork") == 0) {
                shape_fork(mib << 20);
        } else if (strcmp(argv[1], "zombie-leader") == 0) {
                shape_zombie_leader(mib << 20);
        } else if (strcmp(argv[1], "own-node") == 0) {
                shape_own_node(mib << 20);
        } else if (strcmp(argv[1], "ipc") == 0) {
                shape_ipc(mib << 20);
        }
        fprintf(stderr, "cuda_holder: no shape \"%s\"\n", argv[1]);
        return 2;
}

/* SPDX-License-Identifier: MIT */
/* The shapes that are one process with one thread. */
#include "holder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void shape_plain(struct holder *h)
{
        holder_open_all(h);
        holder_booked_self(h);
        holder_control(h);
        holder_ready(h);
}

void shape_open(struct holder *h)
{
        for (int n = 0; n < HOLDER_OTHER_GPU_FDS; n++)
                (void)holder_open(h, h->gpu, O_RDWR);
        (void)holder_open(h, "nvidiactl", O_RDWR);
        holder_process(h, getpid(), "holder");
        holder_ready(h);
}

void shape_opath(struct holder *h)
{
        (void)holder_open(h, h->gpu, O_PATH);
        holder_process(h, getpid(), "holder");
        holder_ready(h);
}

void shape_ctl_only(struct holder *h)
{
        (void)holder_open(h, "nvidiactl", O_RDWR);
        holder_booked(h, getpid(), "holder", false);
        holder_keeper(h, getpid(), "alive");
        holder_ready(h);
}

/* The peer of an exporter: nvidiactl alone, for as long as its parent lives. */
static void keep_handle(const struct holder *h, pid_t parent)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_NAME, "rdma-relay");
        if (getppid() != parent)
                _exit(0);
        (void)close(h->report);
        holder_stay();
}

void shape_exporter(struct holder *h)
{
        pid_t parent = getpid(), peer;

        (void)holder_open(h, "nvidiactl", O_RDWR);
        peer = fork();
        if (peer < 0)
                holder_fail(h, "fork: %s", strerror(errno));
        if (peer == 0)
                keep_handle(h, parent);
        holder_open_all(h);
        holder_booked_self(h);
        holder_keeper(h, peer, "alive");
        holder_process(h, peer, "peer");
        holder_control(h);
        holder_ready(h);
}

void shape_stopped(struct holder *h)
{
        holder_open_all(h);
        holder_booked_self(h);
        holder_control(h);
        (void)dprintf(h->report, "stops\n");
        holder_ready(h);
        (void)raise(SIGSTOP);
}

void shape_ignore_term(struct holder *h)
{
        static const int ignored[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };

        for (size_t i = 0; i < ELEMENTSOF(ignored); i++)
                (void)signal(ignored[i], SIG_IGN);
        shape_plain(h);
}

void shape_service(struct holder *h)
{
        for (size_t i = 0; i < h->state.n_gpus; i++) {
                char name[32];

                (void)snprintf(name, sizeof(name), "nvidia%d", h->state.gpus[i].minor);
                (void)holder_open(h, name, O_RDWR);
        }
        (void)holder_open(h, "nvidiactl", O_RDWR);
        holder_process(h, getpid(), "holder");
        holder_ready(h);
}

/* The heir: tells, once its parent is dead, that the memory booked to that one is kept by it. */
static void inherit(struct holder *h, int parent_fd, struct sim_id parent)
{
        char check[64];

        if (sim_wait_end(parent_fd, 10000) < 0)
                holder_fail(h, "the parent does not end");
        holder_process(h, getpid(), "heir");
        (void)dprintf(h->report, "booked %d %llu dead 1\n", (int)parent.pid, (unsigned long long)parent.start);
        holder_keeper(h, getpid(), holder_check_gpu(h, check));
        holder_ready(h);
        holder_stay();
}

void shape_fork_heir(struct holder *h)
{
        struct sim_id self;
        int fd;
        pid_t child;

        if (sim_identify(getpid(), &self) < 0)
                holder_fail(h, "/proc cannot be read");
        fd = sim_pin(&self);
        if (fd < 0)
                holder_fail(h, "pidfd: %s", strerror(-fd));
        holder_open_all(h);
        child = fork();
        if (child < 0)
                holder_fail(h, "fork: %s", strerror(errno));
        if (child > 0)
                _exit(0);
        (void)prctl(PR_SET_NAME, "pt_data_worker");
        inherit(h, fd, self);
}

void shape_map(struct holder *h)
{
        struct stat st;
        char check[64];
        int fd;

        if (!h->state.mappable)
                holder_fail(h, "nvidia-uvm cannot be mapped on this node");
        fd = holder_open(h, "nvidia-uvm", O_RDWR);
        /* Private: a shared mapping of this stand-in would become anonymous memory. */
        if (mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) == MAP_FAILED)
                holder_fail(h, "mmap nvidia-uvm: %s", strerror(errno));
        if (fstat(fd, &st) < 0)
                holder_fail(h, "nvidia-uvm: %s", strerror(errno));
        (void)close(fd);
        (void)snprintf(check, sizeof(check), "map:%llu", (unsigned long long)st.st_ino);
        holder_booked(h, getpid(), "holder", true);
        holder_keeper(h, getpid(), check);
        holder_ready(h);
}

/* A copy of a node under another name or place: the same number, another inode. */
static void copy_node(const struct holder *h, const char *name, int at, const char *path)
{
        struct stat st;

        if (!h->state.ttys)
                holder_fail(h, "the nodes of this machine are pseudo-terminals, which cannot be copied");
        if (fstatat(h->dev, name, &st, 0) < 0 || mknodat(at, path, S_IFCHR | 0666, st.st_rdev) < 0)
                holder_fail(h, "mknod %s: %s", path, strerror(errno));
}

void shape_unlinked(struct holder *h)
{
        char path[64];

        (void)snprintf(path, sizeof(path), ".node.%d", (int)getpid());
        copy_node(h, h->gpu, h->dir, path);
        for (int n = 0; n < HOLDER_GPU_FDS; n++)
                if (openat(h->dir, path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) < 0)
                        holder_fail(h, "open %s: %s", path, strerror(errno));
        if (unlinkat(h->dir, path, 0) < 0)
                holder_fail(h, "unlink %s: %s", path, strerror(errno));
        holder_open_rest(h);
        holder_booked_self(h);
        holder_ready(h);
}

/* A /dev of its own in a mount namespace of its own, at the same path, as a container has it. */
static int own_dev(const struct holder *h)
{
        static const char *const names[] = { "nvidiactl", "nvidia-uvm" };
        _cleanup_free_ char *path = gf_asprintf("%s/dev", h->state.dir);
        int fd;

        if (!path || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") < 0)
                return -errno;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                holder_fail(h, "%s: %s", path, strerror(errno));
        copy_node(h, h->gpu, fd, h->gpu);
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                copy_node(h, names[i], fd, names[i]);
        return fd;
}

void shape_own_node(struct holder *h)
{
        int fd = own_dev(h);

        if (fd >= 0) {
                int old = h->dev;

                h->dev = fd;
                h->params.all_gpus = false;
                holder_open_all(h);
                (void)close(old);
        } else {
                /* No mount namespace to be had: another inode in this one is the same thing to a scan. */
                char path[64];

                (void)snprintf(path, sizeof(path), ".node.%d", (int)getpid());
                copy_node(h, h->gpu, h->dir, path);
                for (int n = 0; n < HOLDER_GPU_FDS; n++)
                        if (openat(h->dir, path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) < 0)
                                holder_fail(h, "open %s: %s", path, strerror(errno));
                holder_open_rest(h);
        }
        holder_booked_self(h);
        holder_ready(h);
}

/* The GPU, nvidiactl, nvidia-uvm twice: what the shapes without descriptors of their own keep elsewhere. */
#define N_KEPT 4
static void open_kept(const struct holder *h, int fds[static N_KEPT])
{
        fds[0] = holder_open(h, h->gpu, O_RDWR);
        fds[1] = holder_open(h, "nvidiactl", O_RDWR);
        fds[2] = holder_open(h, "nvidia-uvm", O_RDWR);
        fds[3] = holder_open(h, "nvidia-uvm", O_RDWR);
}

static void booked_without_descriptors(struct holder *h, int fds[static N_KEPT])
{
        for (size_t i = 0; i < N_KEPT; i++)
                (void)close(fds[i]);
        holder_booked(h, getpid(), "holder", true);
        holder_keeper(h, getpid(), "alive");
        holder_ready(h);
}

void shape_scm(struct holder *h)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * N_KEPT)];
        } control = { 0 };
        struct iovec iov = { .iov_base = (char[]){ 'x' }, .iov_len = 1 };
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        int pair[2], fds[N_KEPT];

        open_kept(h, fds);
        if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
                holder_fail(h, "socketpair: %s", strerror(errno));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(fds));
        memcpy(CMSG_DATA(c), fds, sizeof(fds));
        if (sendmsg(pair[0], &msg, 0) < 0)
                holder_fail(h, "sendmsg: %s", strerror(errno));
        booked_without_descriptors(h, fds);
}

void shape_io_uring(struct holder *h)
{
        struct io_uring_params p = { 0 };
        int fds[N_KEPT], ring;

        open_kept(h, fds);
        ring = (int)syscall(SYS_io_uring_setup, 4, &p);
        if (ring < 0)
                holder_fail(h, "io_uring_setup: %s", strerror(errno));
        (void)fcntl(ring, F_SETFD, FD_CLOEXEC);
        if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, fds, N_KEPT) < 0)
                holder_fail(h, "io_uring_register: %s", strerror(errno));
        booked_without_descriptors(h, fds);
}

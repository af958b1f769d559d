/* SPDX-License-Identifier: MIT */
#include "bpf_shapes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "scan/scan.h"

#define FULL "/dev/full"
#define ZERO "/dev/zero"
#define READY_MS 20000
/* Exit statuses of a child that cannot be the shape here, and of one that failed. */
#define CANNOT 77
#define FAILED 78

static const char *const names[SHAPES] = {
        [SHAPE_FD] = "descriptor",
        [SHAPE_MAP] = "mapping without descriptor",
        [SHAPE_OWN_NODE] = "own node with the same number",
        [SHAPE_UNLINKED] = "unlinked node",
        [SHAPE_THREAD_TABLE] = "thread with its own table",
        [SHAPE_ZOMBIE_FD] = "descriptor behind a zombie leader",
        [SHAPE_ZOMBIE_MAP] = "mapping behind a zombie leader",
        [SHAPE_PIDNS] = "process in a PID namespace",
        [SHAPE_SCM] = "descriptor in a socket",
        [SHAPE_SCM_BACKLOG] = "descriptor in a connection not accepted",
        [SHAPE_SCM_NESTED] = "descriptor in a socket in a socket",
        [SHAPE_URING] = "file registered with io_uring",
        [SHAPE_URING_MAPPED] = "file registered with an io_uring that is only mapped",
        [SHAPE_BLOCK] = "block device",
        [SHAPE_HIGH_FD] = "descriptor 900",
        [SHAPE_MANY_MAPS] = "mapping among 20,000",
        [SHAPE_MANY_THREADS] = "descriptor shared by 200 threads",
        [SHAPE_SWAPPED] = "descriptor and mappings",
        [SHAPE_MANY_FDS] = "400 descriptors, and one in a socket",
        [SHAPE_O_PATH] = "O_PATH",
        [SHAPE_BYSTANDER] = "bystander",
        [SHAPE_SCM_OTHER] = "another file in a socket",
};

const char *shape_name(enum shape shape)
{
        return names[shape];
}

/* In the child: a step that must work. */
static long must(long r, const char *what)
{
        if (r < 0) {
                fprintf(stderr, "# %s: %s\n", what, strerror(errno));
                _exit(FAILED);
        }
        return r;
}

static void say(int ready, pid_t pid)
{
        if (write(ready, &pid, sizeof(pid)) != sizeof(pid))
                _exit(FAILED);
}

_Noreturn static void rest(void)
{
        for (;;)
                pause();
}

_Noreturn static void say_and_rest(int ready)
{
        say(ready, getpid());
        rest();
}

static int open_full(void)
{
        return (int)must(open(FULL, O_WRONLY | O_CLOEXEC), FULL);
}

static void *map_zero(void)
{
        int fd = (int)must(open(ZERO, O_RDWR | O_CLOEXEC), ZERO);
        void *p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

        must(p == MAP_FAILED ? -1 : 0, "mmap");
        must(close(fd), "close");
        return p;
}

/* A node of our own with the number of FULL, in a directory that goes with it. */
static void own_node(bool keep, int ready)
{
        char dir[] = "/tmp/gpufree-node-XXXXXX", path[64];
        int fd;

        must(mkdtemp(dir) ? 0 : -1, "mkdtemp");
        (void)snprintf(path, sizeof(path), "%s/n", dir);
        if (mknod(path, S_IFCHR | 0600, makedev(1, 7)) < 0 || (fd = open(path, O_WRONLY | O_CLOEXEC)) < 0) {
                (void)unlink(path);
                (void)rmdir(dir);
                _exit(CANNOT);
        }
        if (!keep) {
                must(unlink(path), "unlink");
                must(rmdir(dir), "rmdir");
                say_and_rest(ready);
        }
        /* Kept while the test looks at it: a child cleans up when this process has gone. */
        int p[2];

        must(pipe2(p, O_CLOEXEC), "pipe");
        if (must(fork(), "fork") == 0) {
                char c;

                must(close(fd), "close");
                must(close(p[1]), "close");
                while (read(p[0], &c, 1) < 0 && errno == EINTR)
                        ;
                (void)unlink(path);
                (void)rmdir(dir);
                _exit(0);
        }
        say_and_rest(ready);
}

struct threaded {
        int ready;
        bool unshare, fd, map, last;
};

static void *thread_main(void *p)
{
        struct threaded *t = p;

        if (t->last) { /* wait until the leader is a zombie */
                char path[64], text[512], *end;

                for (;;) {
                        int f;
                        ssize_t n;

                        (void)snprintf(path, sizeof(path), "/proc/%d/stat", getpid());
                        f = (int)must(open(path, O_RDONLY | O_CLOEXEC), path);
                        n = must(read(f, text, sizeof(text) - 1), path);
                        must(close(f), "close");
                        text[n] = '\0';
                        end = strrchr(text, ')');
                        if (end && end[2] == 'Z')
                                break;
                        (void)sched_yield();
                }
        }
        if (t->unshare)
                must(unshare(CLONE_FILES), "unshare");
        if (t->fd)
                (void)open_full();
        if (t->map)
                (void)map_zero();
        if (t->ready >= 0)
                say(t->ready, getpid());
        rest();
}

static void start_thread(struct threaded *t)
{
        pthread_t thread;
        pthread_attr_t attr;

        must(-pthread_attr_init(&attr), "pthread_attr_init");
        must(-pthread_attr_setstacksize(&attr, 64 << 10), "stack size");
        must(-pthread_create(&thread, &attr, thread_main, t), "pthread_create");
}

_Noreturn static void leader_exits(struct threaded *t)
{
        start_thread(t);
        syscall(SYS_exit, 0);
        _exit(FAILED);
}

static void send_fd(int socket, int fd)
{
        union {
                struct cmsghdr h;
                char space[CMSG_SPACE(sizeof(int))];
        } control;
        char byte = 'x';
        struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c;

        memset(&control, 0, sizeof(control));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(int));
        must(sendmsg(socket, &msg, 0), "sendmsg");
        must(close(fd), "close");
}

static void queue_fd(int fd, bool nested)
{
        int pair[2], outer[2];

        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
        send_fd(pair[0], fd);
        if (!nested)
                return;
        must(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, outer), "socketpair");
        send_fd(outer[0], pair[1]);
        must(close(pair[0]), "close");
}

static void queue_in_backlog(void)
{
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        socklen_t length = sizeof(sa_family_t);
        int listener = (int)must(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
        int client = (int)must(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");

        must(bind(listener, (struct sockaddr *)&a, length), "bind");
        length = sizeof(a);
        must(getsockname(listener, (struct sockaddr *)&a, &length), "getsockname");
        must(listen(listener, 4), "listen");
        must(connect(client, (struct sockaddr *)&a, length), "connect");
        send_fd(client, open_full());
        must(close(client), "close");
}

static void register_file(bool only_mapped)
{
        struct io_uring_params params;
        int fd, ring, fds[40];

        memset(&params, 0, sizeof(params));
        ring = (int)syscall(SYS_io_uring_setup, 4, &params);
        if (ring < 0)
                _exit(CANNOT);
        fd = open_full();
        for (int i = 0; i < 40; i++)
                fds[i] = i == 37 ? fd : -1;
        must(syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, fds, 40), "register");
        must(close(fd), "close");
        if (only_mapped) {
                void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, ring, IORING_OFF_SQ_RING);

                must(p == MAP_FAILED ? -1 : 0, "mmap of the ring");
                must(close(ring), "close");
        }
}

static void open_block(void)
{
        char path[128];

        for (int i = 0; i < 256; i++) {
                static const char *const roots[] = { "vda", "sda", "nvme0n1", "xvda", "loop0" };

                if (i >= (int)ELEMENTSOF(roots))
                        _exit(CANNOT);
                (void)snprintf(path, sizeof(path), "/dev/%s", roots[i]);
                if (open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) >= 0)
                        return;
        }
}

static void high_fd(void)
{
        int fd = open_full();

        must(dup3(fd, 900, O_CLOEXEC), "dup3");
        must(close(fd), "close");
}

static void many_maps(void)
{
        char *p;

        for (int i = 0; i < 20000; i++) {
                p = mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                must(p == MAP_FAILED ? -1 : 0, "mmap");
                if (i == 10000)
                        (void)map_zero();
        }
}

static void in_pidns(int ready)
{
        pid_t pid;

        if (unshare(CLONE_NEWPID) < 0)
                _exit(CANNOT);
        pid = (pid_t)must(fork(), "fork");
        if (pid == 0) {
                must(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
                (void)open_full();
                say(ready, 0); /* it does not know its PID here: its parent does */
                rest();
        }
        say(ready, pid);
        rest();
}

_Noreturn static void run(enum shape shape, int ready)
{
        struct threaded t = { .ready = ready };

        switch (shape) {
        case SHAPE_FD:
                (void)open_full();
                break;
        case SHAPE_MAP:
                (void)map_zero();
                break;
        case SHAPE_OWN_NODE:
        case SHAPE_UNLINKED:
                own_node(shape == SHAPE_OWN_NODE, ready);
                break;
        case SHAPE_THREAD_TABLE:
                t.unshare = t.fd = true;
                start_thread(&t);
                rest();
        case SHAPE_ZOMBIE_FD:
                t.last = t.fd = true;
                leader_exits(&t);
        case SHAPE_ZOMBIE_MAP:
                t.last = t.map = true;
                leader_exits(&t);
        case SHAPE_PIDNS:
                in_pidns(ready);
                break;
        case SHAPE_SCM:
                queue_fd(open_full(), false);
                break;
        case SHAPE_SCM_NESTED:
                queue_fd(open_full(), true);
                break;
        case SHAPE_SCM_BACKLOG:
                queue_in_backlog();
                break;
        case SHAPE_SCM_OTHER:
                queue_fd((int)must(open("/dev/null", O_RDWR | O_CLOEXEC), "null"), false);
                break;
        case SHAPE_URING:
        case SHAPE_URING_MAPPED:
                register_file(shape == SHAPE_URING_MAPPED);
                break;
        case SHAPE_BLOCK:
                open_block();
                break;
        case SHAPE_HIGH_FD:
                high_fd();
                break;
        case SHAPE_MANY_MAPS:
                many_maps();
                break;
        case SHAPE_MANY_THREADS:
                (void)open_full();
                t.ready = -1;
                for (int i = 0; i < 200; i++)
                        start_thread(&t);
                break;
        case SHAPE_SWAPPED:
                (void)open_full();
                (void)map_zero();
                (void)map_zero();
                break;
        case SHAPE_MANY_FDS:
                for (int i = 0; i < 400; i++)
                        (void)open_full();
                queue_fd(open_full(), false);
                break;
        case SHAPE_O_PATH:
                must(open(FULL, O_PATH | O_CLOEXEC), FULL);
                must(open(ZERO, O_PATH | O_CLOEXEC), ZERO);
                break;
        case SHAPE_BYSTANDER:
                must(open("/dev/null", O_RDWR | O_CLOEXEC), "null");
                must(open("/dev/urandom", O_RDONLY | O_CLOEXEC), "urandom");
                break;
        case SHAPES:
                _exit(FAILED);
        }
        say_and_rest(ready);
}

static pid_t read_pid(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };
        pid_t pid;

        assert_int_equal(poll(&p, 1, READY_MS), 1);
        return read(fd, &pid, sizeof(pid)) == sizeof(pid) ? pid : -1;
}

void holder_start(struct holder *holder, enum shape shape)
{
        int ready[2];
        pid_t parent = getpid();

        *holder = (struct holder){ .shape = shape };
        assert_return_code(pipe2(ready, O_CLOEXEC), errno);
        holder->child = fork();
        assert_return_code(holder->child, errno);
        if (holder->child == 0) {
                must(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
                if (getppid() != parent)
                        _exit(FAILED);
                (void)close_range(3, (unsigned)ready[1] - 1, 0);
                (void)close_range((unsigned)ready[1] + 1, ~0U, 0);
                run(shape, ready[1]);
        }
        assert_return_code(close(ready[1]), errno);
        holder->pid = read_pid(ready[0]);
        if (shape == SHAPE_PIDNS && holder->pid >= 0) { /* two messages, in any order */
                pid_t other = read_pid(ready[0]);

                holder->pid = holder->pid > other ? holder->pid : other;
        }
        assert_return_code(close(ready[0]), errno);
        if (holder->pid < 0) {
                int status;

                assert_int_equal(waitpid(holder->child, &status, 0), holder->child);
                holder->child = 0;
                if (!WIFEXITED(status) || WEXITSTATUS(status) != CANNOT)
                        print_message("# %s: ended with %#x\n", names[shape], (unsigned)status);
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == CANNOT);
                holder->skipped = true;
                print_message("# cannot be made here: %s\n", names[shape]);
        }
}

void holder_stop(struct holder *holder)
{
        if (holder->child <= 0)
                return;
        (void)kill(holder->child, SIGKILL);
        (void)waitpid(holder->child, NULL, 0);
        holder->child = 0;
}

bool bpf_works(void)
{
        _cleanup_(gf_scan_done) struct gf_scan scan = { 0 };
        _cleanup_(gf_env_done) struct gf_env env;
        _cleanup_free_ char *reason = NULL;
        const struct gf_wanted none = { 0 };
        int r;

        gf_env_init(&env);
        if (gf_env_defaults(&env) < 0)
                return false;
        r = gf_scan_bpf(&env, &none, &scan, &reason);
        if (r == -EOPNOTSUPP)
                printf("1..0 # SKIP %s\n", reason);
        return r != -EOPNOTSUPP; /* any other failure is for the tests to show */
}

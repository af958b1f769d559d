/* SPDX-License-Identifier: MIT */
#include "fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"

#define FILE_NODE 2U
#define FILE_BYTES 4096U

static void answer(int dev, uint64_t unique, int error, const void *data, size_t length)
{
        char buf[sizeof(struct fuse_out_header) + FILE_BYTES];
        struct fuse_out_header header = {
                .len = (uint32_t)(sizeof(header) + length),
                .error = error,
                .unique = unique,
        };

        memcpy(buf, &header, sizeof(header));
        if (length > 0)
                memcpy(buf + sizeof(header), data, length);
        if (write(dev, buf, header.len) < 0 && errno != ENOENT)
                _exit(97);
}

static struct fuse_attr attributes(uint64_t node)
{
        return (struct fuse_attr){
                .ino = node,
                .mode = node == FILE_NODE ? S_IFREG | 0666U : S_IFDIR | 0755U,
                .size = node == FILE_NODE ? FILE_BYTES : 0,
                .nlink = 1,
                .blksize = 4096,
        };
}

static void serve(int dev, const struct fuse_in_header *in)
{
        static const char zeros[FILE_BYTES];

        switch (in->opcode) {
        case FUSE_INIT: {
                struct fuse_init_out out = {
                        .major = 7,
                        .minor = 31,
                        .max_readahead = 65536,
                        .max_write = 65536,
                        .max_background = 8,
                        .congestion_threshold = 6,
                };

                answer(dev, in->unique, 0, &out, sizeof(out));
                break;
        }
        case FUSE_GETATTR:
        case FUSE_SETATTR: {
                struct fuse_attr_out out = { .attr = attributes(in->nodeid) };

                answer(dev, in->unique, 0, &out, sizeof(out));
                break;
        }
        case FUSE_LOOKUP: {
                struct fuse_entry_out out = { .nodeid = FILE_NODE, .attr = attributes(FILE_NODE) };

                answer(dev, in->unique, 0, &out, sizeof(out));
                break;
        }
        case FUSE_OPEN: {
                struct fuse_open_out out = { .fh = 1 };

                answer(dev, in->unique, 0, &out, sizeof(out));
                break;
        }
        case FUSE_READ:
                answer(dev, in->unique, 0, zeros, sizeof(zeros));
                break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
                break; /* no answer */
        default:
                answer(dev, in->unique, -ENOSYS, NULL, 0);
                break;
        }
}

static int mount_fuse(const char *mountpoint)
{
        char options[128];
        int dev;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (dev < 0)
                return -errno;
        (void)mkdir(mountpoint, 0755);
        (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev);
        if (mount("hung", mountpoint, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
                return -errno;
        return dev;
}

int fuse_kid(const char *mountpoint, int (*user)(const char *file, void *arg), void (*after)(void), void *arg)
{
        static _Alignas(8) char buf[1 << 17];
        int dev = mount_fuse(mountpoint), ready[2], told = 0;
        pid_t parent = getpid();

        if (dev < 0)
                return -dev;
        if (pipe2(ready, O_CLOEXEC) < 0)
                return errno;
        if (fork() == 0) {
                char file[256];
                unsigned char word;

                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(98);
                (void)close(dev);
                (void)snprintf(file, sizeof(file), "%s/file", mountpoint);
                word = (unsigned char)user(file, arg);
                if (write(ready[1], &word, 1) != 1)
                        _exit(96);
                if (word == 0 && after)
                        after();
                kid_sleep();
        }
        while (!told) {
                struct pollfd p[2] = { { .fd = dev, .events = POLLIN }, { .fd = ready[0], .events = POLLIN } };
                unsigned char word;
                ssize_t n;

                if (poll(p, 2, KID_DEADLINE_MS) <= 0)
                        return ETIMEDOUT;
                if (p[1].revents) {
                        if (read(ready[0], &word, 1) != 1 || word != 0)
                                return word ? word : EIO;
                        told = 1;
                } else if ((n = read(dev, buf, sizeof(buf))) >= (ssize_t)sizeof(struct fuse_in_header)) {
                        serve(dev, (const struct fuse_in_header *)(const void *)buf);
                }
        }
        return 0; /* from now on nobody reads from `dev` */
}

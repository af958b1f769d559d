/* SPDX-License-Identifier: MIT */
#include "guard/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static void add_place(const struct gf_env *env, struct gf_str *name)
{
        struct stat st;

        gf_str_add(name, "gpufree-claim");
        if (env->dev_root_set && stat(env->dev_root, &st) == 0)
                gf_str_addf(name, ":%llx.%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
}

char *gf_lock_name(const struct gf_env *env, const struct gpufree_gpu *gpu)
{
        struct gf_str name = { 0 };
        char *text = NULL;

        add_place(env, &name);
        /* The PCI address is known with and without the driver's library; two guards must agree on the name. */
        if (gpu->pci)
                gf_str_addf(&name, ":pci-%s", gpu->pci);
        else if (gpu->uuid)
                gf_str_addf(&name, ":%s", gpu->uuid);
        else
                gf_str_addf(&name, ":%s-%d", gpufree_vendor_name(gpu->vendor),
                            gpu->minor >= 0 ? gpu->minor : gpu->index);
        return gf_str_take(&name, &text) < 0 ? NULL : text;
}

char *gf_lock_device_name(const struct gf_env *env, const struct gpufree_device *device)
{
        struct gf_str name = { 0 };
        char *text = NULL;

        add_place(env, &name);
        gf_str_addf(&name, ":%s-%u:%u", device->block ? "block" : "char", major(device->rdev), minor(device->rdev));
        return gf_str_take(&name, &text) < 0 ? NULL : text;
}

/* Who listens there? Its credentials are those of the moment when it began to listen. */
static pid_t ask_owner(const struct sockaddr_un *addr, socklen_t length)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct ucred peer;
        socklen_t n = sizeof(peer);

        if (fd < 0 || connect(fd, (const struct sockaddr *)addr, length) < 0 ||
            getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                return 0;
        return peer.pid;
}

static int take_socket(struct gf_env *env, const char *name, pid_t *ret_pid)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un addr = { .sun_family = AF_UNIX };
        size_t n = strlen(name);
        socklen_t length;

        if (fd < 0)
                return gf_fail(env, -errno, "claim %s: %s", name, strerror(errno));
        if (n > sizeof(addr.sun_path) - 1)
                return gf_fail(env, -ENAMETOOLONG, "claim %s: the name is too long", name);
        memcpy(addr.sun_path + 1, name, n);
        length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
        if (bind(fd, (const struct sockaddr *)&addr, length) < 0) {
                if (errno != EADDRINUSE)
                        return gf_fail(env, -errno, "claim %s: %s", name, strerror(errno));
                *ret_pid = ask_owner(&addr, length);
                return -EBUSY;
        }
        if (listen(fd, SOMAXCONN) < 0) /* so that others can ask who we are */
                return gf_fail(env, -errno, "claim %s: %s", name, strerror(errno));
        return TAKE_FD(fd);
}

static int take_file(struct gf_env *env, const char *directory, const char *name)
{
        _cleanup_close_ int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
        struct stat st;

        if (dir < 0)
                return gf_fail(env, -errno, "claim in %s: %s", directory, strerror(errno));
        fd = openat(dir, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0444);
        if (fd < 0 || fstat(fd, &st) < 0)
                return gf_fail(env, -errno, "claim %s/%s: %s", directory, name, strerror(errno));
        if (!S_ISREG(st.st_mode))
                return gf_fail(env, -ENOTSUP, "claim %s/%s: is no regular file", directory, name);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? -EBUSY
                                            : gf_fail(env, -errno, "claim %s/%s: %s", directory, name, strerror(errno));
        return TAKE_FD(fd);
}

int gf_lock_take(struct gf_env *env, const char *directory, const char *name, gf_locks *locks, pid_t *ret_pid)
{
        _cleanup_close_ int fd = -1, file = -1;
        _cleanup_free_ char *copy = strdup(name);
        struct gf_lock *lock;

        *ret_pid = 0;
        if (gf_lock_has(locks, name))
                return 0;
        fd = take_socket(env, name, ret_pid);
        if (fd < 0)
                return fd;
        if (directory) {
                file = take_file(env, directory, name);
                if (file < 0)
                        return file;
        }
        lock = copy ? gf_vec_add(locks) : NULL;
        if (!lock)
                return -ENOMEM;
        *lock = (struct gf_lock){ .name = TAKE(copy), .socket = TAKE_FD(fd), .file = TAKE_FD(file) };
        return 0;
}

bool gf_lock_has(const gf_locks *locks, const char *name)
{
        for (size_t i = 0; i < locks->n; i++)
                if (strcmp(locks->v[i].name, name) == 0)
                        return true;
        return false;
}

static void lock_done(struct gf_lock *lock)
{
        free(lock->name);
        gf_close(lock->file);
        gf_close(lock->socket);
}

void gf_lock_drop(gf_locks *locks, const char *name)
{
        for (size_t i = 0; i < locks->n; i++)
                if (strcmp(locks->v[i].name, name) == 0) {
                        lock_done(&locks->v[i]);
                        locks->v[i] = locks->v[--locks->n];
                        return;
                }
}

void gf_locks_done(gf_locks *locks)
{
        for (size_t i = 0; i < locks->n; i++)
                lock_done(&locks->v[i]);
        gf_vec_done(locks);
}

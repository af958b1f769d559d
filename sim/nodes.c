/* SPDX-License-Identifier: MIT */
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"

#define TTY_MAJOR 4
#define ZERO makedev(1, 5)

void sim_nodes_done(struct sim_nodes *nodes)
{
        for (size_t i = 0; i < nodes->fds.n; i++)
                (void)close(nodes->fds.v[i]);
        gf_vec_done(&nodes->fds);
}

static int keep(struct sim_nodes *nodes, int fd)
{
        int *slot = gf_vec_add(&nodes->fds);

        if (!slot) {
                (void)close(fd);
                return -ENOMEM;
        }
        *slot = fd;
        return 0;
}

/*
 * Numbers are the machine's, whatever root directory and mount namespace we are in. An abstract socket is seen from all
 * of them, goes away with its owner and so leaves no stale lock behind. -EADDRINUSE: somebody else's.
 */
static int claim(dev_t rdev)
{
        struct sockaddr_un addr = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        int n;

        if (fd < 0)
                return -errno;
        n = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "gpufree-sim/%u:%u", major(rdev), minor(rdev));
        if (bind(fd, (const struct sockaddr *)&addr,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* Far from the consoles that people and display servers use: from the highest tty down. */
static unsigned candidate(unsigned i)
{
        return 63 - i;
}
#define N_CANDIDATES 44u

/* Can such nodes be made and opened here? Not in a container that may not, nor on a filesystem without devices. */
static bool node_works(int dir, const char *name, dev_t rdev, bool mapped)
{
        _cleanup_close_ int fd = -1;
        mode_t old = umask(0);
        int r = mknodat(dir, name, S_IFCHR | 0666, rdev);

        (void)umask(old);
        if (r < 0)
                return false;
        fd = openat(dir, name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && mapped) {
                void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

                if (p == MAP_FAILED)
                        return false;
                (void)munmap(p, 4096);
        }
        return fd >= 0;
}

/* A tty node under the next free number. -ENOSPC: none is left. */
static int make_tty(int dev, const char *name, const bool *used, unsigned *next, struct sim_nodes *nodes)
{
        for (; *next < N_CANDIDATES; (*next)++) {
                dev_t rdev = makedev(TTY_MAJOR, candidate(*next));
                int fd, r;

                if (used[candidate(*next)])
                        continue;
                fd = claim(rdev);
                if (fd == -EADDRINUSE)
                        continue;
                if (fd < 0)
                        return fd;
                if (!node_works(dev, name, rdev, false)) {
                        (void)unlinkat(dev, name, 0);
                        (void)close(fd);
                        continue;
                }
                r = keep(nodes, fd);
                (*next)++;
                return r;
        }
        return -ENOSPC;
}

static int make_pty(int dev, const char *name, struct sim_nodes *nodes)
{
        _cleanup_close_ int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        char path[64];
        int r;

        if (master < 0)
                return -errno;
        r = unlockpt(master) < 0 ? -errno : -ptsname_r(master, path, sizeof(path));
        if (r < 0)
                return r;
        /* Like the driver's nodes: for everybody. */
        (void)chmod(path, 0666);
        if (symlinkat(path, dev, name) < 0)
                return -errno;
        return keep(nodes, TAKE_FD(master));
}

static const char *const common_names[] = {
        "nvidiactl",
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidia-modeset",
        "nvidia-caps/nvidia-cap1",
        "nvidia-caps/nvidia-cap2",
};

static int make_all(int dev, const struct sim_state *state, bool ttys, struct sim_nodes *nodes)
{
        bool used[SIM_N_MINORS];
        unsigned next = 0;
        int r = ttys ? sim_minors_in_use(TTY_MAJOR, NULL, 0, used) : 0;

        for (size_t i = 0; r >= 0 && i < state->n_gpus + ELEMENTSOF(common_names); i++) {
                char name[64];

                if (i < state->n_gpus)
                        (void)snprintf(name, sizeof(name), "nvidia%d", state->gpus[i].minor);
                else
                        (void)snprintf(name, sizeof(name), "%s", common_names[i - state->n_gpus]);
                r = ttys ? make_tty(dev, name, used, &next, nodes) : make_pty(dev, name, nodes);
        }
        return r;
}

static void unmake_all(int dev, const struct sim_state *state)
{
        for (size_t i = 0; i < state->n_gpus; i++) {
                char name[64];

                (void)snprintf(name, sizeof(name), "nvidia%d", state->gpus[i].minor);
                (void)unlinkat(dev, name, 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(common_names); i++)
                (void)unlinkat(dev, common_names[i], 0);
}

int sim_nodes_make(int dir, struct sim_state *state, bool ptys, struct sim_nodes *nodes, const char **ret_what)
{
        _cleanup_close_ int dev = -1;
        int r;

        *ret_what = "dev";
        if (mkdirat(dir, "dev", 0755) < 0 || mkdirat(dir, "dev/nvidia-caps", 0755) < 0)
                return -errno;
        dev = openat(dir, "dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dev < 0)
                return -errno;
        state->ttys = !ptys && geteuid() == 0;
        if (state->ttys) {
                r = make_all(dev, state, true, nodes);
                if (r >= 0)
                        return 0;
                unmake_all(dev, state);
                sim_nodes_done(nodes);
                state->ttys = false;
        }
        *ret_what = "pseudo-terminals (is /dev/pts mounted?)";
        return make_all(dev, state, false, nodes);
}

int sim_nodes_make_mappable(int dir, struct sim_nodes *nodes)
{
        static const char temp[] = "dev/nvidia-uvm~";
        bool used[SIM_N_MINORS];
        int fd = claim(ZERO), r;

        if (fd == -EADDRINUSE)
                return -EBUSY;
        if (fd < 0)
                return fd;
        if (sim_minors_in_use(major(ZERO), "/dev/zero", minor(ZERO), used) < 0 || used[minor(ZERO)]) {
                (void)close(fd);
                return -EBUSY;
        }
        r = !node_works(dir, temp, ZERO, true) ? -EPERM : renameat(dir, temp, dir, "dev/nvidia-uvm") < 0 ? -errno : 0;
        if (r < 0) {
                (void)unlinkat(dir, temp, 0);
                (void)close(fd);
                return r;
        }
        return keep(nodes, fd);
}

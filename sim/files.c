/* SPDX-License-Identifier: MIT */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

#define END_MS 20000

int sim_copy(int from_at, const char *from, int to_at, const char *to, mode_t mode)
{
        _cleanup_close_ int in = openat(from_at, from, O_RDONLY | O_CLOEXEC), out = -1;
        char buf[65536];

        if (in < 0)
                return -errno;
        out = openat(to_at, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (out < 0)
                return -errno;
        for (;;) {
                ssize_t n = read(in, buf, sizeof(buf));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                for (ssize_t done = 0; done < n;) {
                        ssize_t put = write(out, buf + done, (size_t)(n - done));

                        if (put < 0 && errno != EINTR)
                                return -errno;
                        if (put > 0)
                                done += put;
                }
        }
        return fchmod(out, mode) < 0 ? -errno : 0;
}

char *sim_find_part(const char *name)
{
        char self[4096], *slash;
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        char *path;

        if (n <= 0)
                return NULL;
        self[n] = '\0';
        slash = strrchr(self, '/');
        if (!slash)
                return NULL;
        *slash = '\0';
        path = gf_asprintf("%s/%s", self, name);
        if (path && access(path, R_OK) == 0)
                return path;
        free(path);
        path = gf_asprintf("%s/%s", SIM_LIBDIR, name);
        if (path && access(path, R_OK) == 0)
                return path;
        free(path);
        return NULL;
}

/* Kills one; its pidfd to wait on, or -1 when there is nothing to wait for. */
static int kill_one(const struct sim_id *id)
{
        _cleanup_close_ int fd = sim_pin(id);

        if (fd < 0 || sim_wait_end(fd, 0) == 0)
                return -1;
        if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0)
                return -1;
        return TAKE_FD(fd);
}

/* Kills all that live now; how many, or -ETIMEDOUT. */
static int kill_round(const sim_records *records, uint64_t deadline)
{
        GF_VEC(int) fds = { 0 };
        int r = 0;

        for (size_t i = 0; i < records->n; i++)
                for (size_t k = 0; k <= records->v[i].n_keepers; k++) {
                        int fd = kill_one(k == 0 ? &records->v[i].id : &records->v[i].keepers[k - 1].id), *slot;

                        if (fd < 0)
                                continue;
                        slot = gf_vec_add(&fds);
                        if (slot)
                                *slot = fd;
                        else
                                (void)close(fd);
                }
        for (size_t i = 0; i < fds.n; i++) {
                uint64_t now = sim_now_ms();

                if (sim_wait_end(fds.v[i], now < deadline ? (int)(deadline - now) : 0) < 0)
                        r = -ETIMEDOUT;
                (void)close(fds.v[i]);
        }
        if (r == 0)
                r = (int)fds.n;
        gf_vec_done(&fds);
        return r;
}

int sim_end_all(int dir, const struct sim_state *state)
{
        uint64_t deadline = sim_now_ms() + END_MS;
        int fd, r;

        /* Until a round finds nobody: a respawner may have recorded another holder while it was being ended. */
        do {
                sim_records records = { 0 };

                r = sim_records_read(dir, &records);
                if (r == -ENOENT)
                        r = 0;
                else if (r >= 0)
                        r = kill_round(&records, deadline);
                gf_vec_done(&records);
                if (r > 0 && sim_now_ms() > deadline)
                        r = -ETIMEDOUT;
        } while (r > 0);
        if (r < 0)
                return r;
        fd = sim_pin(&state->keeper);
        if (fd < 0)
                return 0;
        if (syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) < 0 || sim_wait_end(fd, 5000) < 0)
                (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        r = sim_wait_end(fd, 5000);
        (void)close(fd);
        return r;
}

/* Removes what is in one of our directories, which has no directories of its own but those named in remove_all(). */
static void empty_directory(int at, const char *name)
{
        _cleanup_closedir_ DIR *dir = NULL;
        _cleanup_close_ int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat here, there;

        if (fd < 0 || fstat(at, &here) < 0 || fstat(fd, &there) < 0 || here.st_dev != there.st_dev)
                return;
        dir = fdopendir(fd);
        if (!dir)
                return;
        fd = -1;
        for (const struct dirent *e; (e = readdir(dir));)
                if (!gf_streq(e->d_name, ".") && !gf_streq(e->d_name, ".."))
                        (void)unlinkat(dirfd(dir), e->d_name, 0);
        (void)unlinkat(at, name, AT_REMOVEDIR);
}

int sim_remove_all(int dir)
{
        static const char *const directories[] = { "dev/nvidia-caps", "dev",  "lib",     "bin",
                                                   "holders",         "gone", "control", "busy" };
        _cleanup_closedir_ DIR *d = NULL;
        int fd;

        for (size_t i = 0; i < ELEMENTSOF(directories); i++)
                empty_directory(dir, directories[i]);
        fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        d = fdopendir(fd);
        if (!d) {
                (void)close(fd);
                return -ENOMEM;
        }
        for (const struct dirent *e; (e = readdir(d));)
                if (gf_startswith(e->d_name, ".node.") || gf_startswith(e->d_name, "state.") ||
                    gf_streq(e->d_name, "keeper.sock"))
                        (void)unlinkat(dir, e->d_name, 0);
        /* The state goes last: as long as it is there, another `down` finds what is left. */
        return unlinkat(dir, "state", 0) < 0 && errno != ENOENT ? -errno : 0;
}

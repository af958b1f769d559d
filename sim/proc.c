/* SPDX-License-Identifier: MIT */
#include "proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"

ssize_t sim_read(int at, const char *path, char *buf, size_t size)
{
        _cleanup_close_ int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        size_t n = 0;

        if (fd < 0)
                return -errno;
        for (;;) {
                ssize_t got;

                if (n == size - 1)
                        return -EFBIG;
                got = read(fd, buf + n, size - 1 - n);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        break;
                n += (size_t)got;
        }
        buf[n] = '\0';
        return (ssize_t)n;
}

int sim_write(int at, const char *path, const char *text, size_t length)
{
        _cleanup_free_ char *temp = gf_asprintf("%s.%d~", path, (int)getpid());
        _cleanup_close_ int fd = -1;

        if (!temp)
                return -ENOMEM;
        fd = openat(at, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0)
                return -errno;
        while (length > 0) {
                ssize_t put = write(fd, text, length);

                if (put < 0 && errno == EINTR)
                        continue;
                if (put < 0)
                        goto fail;
                text += put;
                length -= (size_t)put;
        }
        if (renameat(at, temp, at, path) == 0)
                return 0;
fail : {
        int error = -errno;

        (void)unlinkat(at, temp, 0);
        return error;
}
}

int sim_stat(pid_t pid, uint64_t *ret_start, char *ret_state)
{
        char path[64], buf[2048], *p, *save = NULL, *field;
        uint64_t start = 0;
        char state;
        int number = 3;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        if (sim_read(AT_FDCWD, path, buf, sizeof(buf)) < 0)
                return -ESRCH;
        p = strrchr(buf, ')'); /* a comm may contain anything, ')' too */
        if (!p || p[1] != ' ')
                return -EBADMSG;
        field = strtok_r(p + 2, " \n", &save);
        if (!field)
                return -EBADMSG;
        state = *field;
        for (; field; field = strtok_r(NULL, " \n", &save), number++)
                if (number == 22)
                        break;
        if (!field || gf_parse_u64(field, &start) < 0)
                return -EBADMSG;
        if (ret_start)
                *ret_start = start;
        if (ret_state)
                *ret_state = state;
        return 0;
}

int sim_identify(pid_t pid, struct sim_id *ret_id)
{
        uint64_t start;
        int r = sim_stat(pid, &start, NULL);

        if (r < 0)
                return r;
        *ret_id = (struct sim_id){ pid, start };
        return 0;
}

int sim_pin(const struct sim_id *id)
{
        _cleanup_close_ int fd = -1;
        uint64_t start;

        if (id->pid <= 0)
                return -ESRCH;
        fd = (int)syscall(SYS_pidfd_open, id->pid, 0);
        if (fd < 0)
                return -errno;
        /* The start time is read after the descriptor was opened: what it names is then known. */
        if (sim_stat(id->pid, &start, NULL) < 0 || start != id->start)
                return -ESRCH;
        return TAKE_FD(fd);
}

int sim_wait_end(int pidfd, int timeout_ms)
{
        uint64_t deadline = sim_now_ms() + (uint64_t)timeout_ms;

        for (;;) {
                struct pollfd p = { .fd = pidfd, .events = POLLIN };
                uint64_t now = sim_now_ms();
                int r = poll(&p, 1, now < deadline ? (int)(deadline - now) : 0);

                if (r > 0)
                        return 0;
                if (r == 0)
                        return -ETIMEDOUT;
                if (errno != EINTR)
                        return -errno;
        }
}

bool sim_alive(const struct sim_id *id)
{
        _cleanup_close_ int fd = sim_pin(id);

        return fd >= 0 && sim_wait_end(fd, 0) == -ETIMEDOUT;
}

/* Told of each character device open in a directory of descriptors; true: enough. */
typedef bool device_seen(dev_t rdev, void *userdata);

/* 1: enough was seen; 0: the end; -errno: it could not be looked into. */
static int each_in_directory(int at, const char *path, device_seen *seen, void *userdata)
{
        _cleanup_closedir_ DIR *dir = NULL;
        _cleanup_close_ int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        dir = fdopendir(fd);
        if (!dir)
                return -errno;
        fd = -1;
        for (const struct dirent *e; (e = readdir(dir));) {
                struct statx st;

                /* Without a look at the disk: a file of a hung server would never answer. */
                if (!isdigit((unsigned char)e->d_name[0]) ||
                    statx(dirfd(dir), e->d_name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st) < 0)
                        continue;
                if (S_ISCHR(st.stx_mode) && seen(makedev(st.stx_rdev_major, st.stx_rdev_minor), userdata))
                        return 1;
        }
        return 0;
}

/* The same over every thread: a thread can have a descriptor table of its own, and a leader can be gone. */
static int each_device(pid_t pid, device_seen *seen, void *userdata)
{
        char path[64];
        _cleanup_closedir_ DIR *dir = NULL;
        int worst = 0;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        dir = opendir(path);
        if (!dir)
                return -errno;
        for (const struct dirent *e; (e = readdir(dir));) {
                char sub[300];
                int r;

                if (!isdigit((unsigned char)e->d_name[0]))
                        continue;
                (void)snprintf(sub, sizeof(sub), "%s/fd", e->d_name);
                r = each_in_directory(dirfd(dir), sub, seen, userdata);
                if (r > 0)
                        return 1;
                if (r == -EACCES || r == -EPERM)
                        worst = r;
        }
        return worst;
}

/* Is there a line with both texts in /proc/PID/maps, whatever its size? */
static int maps_have(pid_t pid, const char *a, const char *b)
{
        char path[64];
        _cleanup_free_ char *line = NULL;
        _cleanup_fclose_ FILE *f = NULL;
        size_t size = 0;

        (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
        f = fopen(path, "re");
        if (!f)
                return -errno;
        errno = 0;
        while (getline(&line, &size, f) > 0)
                if (strstr(line, a) && strstr(line, b))
                        return 1;
        return errno == EACCES || errno == EPERM ? -errno : 0;
}

static int parse_rdev(const char *text, dev_t *ret)
{
        char major_text[16];
        const char *colon = strchr(text, ':');
        uint32_t a, b;

        if (!colon || (size_t)(colon - text) >= sizeof(major_text))
                return -EINVAL;
        memcpy(major_text, text, (size_t)(colon - text));
        major_text[colon - text] = '\0';
        if (gf_parse_u32(major_text, &a) < 0 || gf_parse_u32(colon + 1, &b) < 0)
                return -EINVAL;
        *ret = makedev(a, b);
        return 0;
}

static bool is_device(dev_t rdev, void *userdata)
{
        return rdev == *(const dev_t *)userdata;
}

bool sim_holds(const struct sim_id *id, const char *check)
{
        dev_t rdev;
        int r;

        if (!sim_alive(id))
                return false;
        if (gf_startswith(check, "fd:") && parse_rdev(check + 3, &rdev) == 0)
                r = each_device(id->pid, is_device, &rdev);
        else if (gf_startswith(check, "map:")) {
                char text[64];

                (void)snprintf(text, sizeof(text), " %s ", check + 4);
                r = maps_have(id->pid, text, "nvidia-uvm");
        } else
                return true;
        if (r == -EACCES || r == -EPERM)
                return true;
        return r > 0;
}

struct minors {
        unsigned major;
        bool *used;
};

static bool note_minor(dev_t rdev, void *userdata)
{
        const struct minors *m = userdata;

        if (major(rdev) == m->major && minor(rdev) < SIM_N_MINORS)
                m->used[minor(rdev)] = true;
        return false;
}

int sim_minors_in_use(unsigned major, const char *path, unsigned path_minor, bool used[static SIM_N_MINORS])
{
        struct minors m = { major, used };
        _cleanup_closedir_ DIR *dir = opendir("/proc");

        if (!dir)
                return -errno;
        memset(used, 0, SIM_N_MINORS * sizeof(*used));
        for (const struct dirent *e; (e = readdir(dir));) {
                pid_t pid;

                if (gf_parse_pid(e->d_name, &pid) < 0)
                        continue;
                (void)each_device(pid, note_minor, &m);
                if (path && maps_have(pid, path, "") > 0)
                        used[path_minor] = true;
        }
        return 0;
}

uint64_t sim_now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_BOOTTIME, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

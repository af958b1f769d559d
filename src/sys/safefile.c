/* SPDX-License-Identifier: MIT */
#include "sys/safefile.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/str.h"

#define CHUNK 4096
#define NAMES_MAX 65536

/* Up to `max` bytes; with `cut` the rest is left out, without it more is -EFBIG. */
static int read_all(int fd, size_t max, bool cut, char **ret_text, size_t *ret_length)
{
        _cleanup_free_ char *buf = NULL;
        size_t n = 0, cap = 0;

        for (;;) {
                ssize_t r;

                if (n == max && cut)
                        break;
                if (cap - n < 2) {
                        size_t want = cap ? cap * 2 : CHUNK;
                        char *grown = realloc(buf, want);

                        if (!grown)
                                return -ENOMEM;
                        buf = grown;
                        cap = want;
                }
                r = read(fd, buf + n, cap - n - 1);
                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return -errno;
                if (r == 0)
                        break;
                n += (size_t)r;
                if (n > max) {
                        if (!cut) {
                                explicit_bzero(buf, n);
                                return -EFBIG;
                        }
                        n = max;
                }
        }
        buf[n] = '\0';
        *ret_text = TAKE(buf);
        if (ret_length)
                *ret_length = n;
        return 0;
}

int gf_safe_read(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_length)
{
        _cleanup_close_ int fd = -1;
        struct stat st;

        fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -ENOTSUP;
        return read_all(fd, max, false, ret_text, ret_length);
}

int gf_proc_read(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_length)
{
        _cleanup_close_ int fd = -1;

        fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        return read_all(fd, max, true, ret_text, ret_length);
}

/* In the child of gf_slow_read(): no memory is taken, nothing of the parent's is touched. */
static int copy_out(const char *path, size_t max, int out)
{
        char buf[CHUNK];
        size_t total = 0;
        struct stat st;
        int fd;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return errno;
        if (fstat(fd, &st) < 0)
                return errno;
        if (!S_ISREG(st.st_mode))
                return ENOTSUP;
        for (;;) {
                ssize_t r = read(fd, buf, sizeof(buf));

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return errno;
                if (r == 0)
                        return 0;
                total += (size_t)r;
                if (total > max)
                        return EFBIG;
                for (ssize_t at = 0; at < r;) {
                        ssize_t w = write(out, buf + at, (size_t)(r - at));

                        if (w < 0 && errno == EINTR)
                                continue;
                        if (w < 0)
                                return errno;
                        at += w;
                }
        }
}

static uint64_t now_ms(void)
{
        struct timespec ts;

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Everything up to the end of the pipe, until `deadline`. */
static int collect(int fd, size_t max, uint64_t deadline, char **ret_text, size_t *ret_length)
{
        _cleanup_free_ char *buf = malloc(max + 1);
        size_t n = 0;

        if (!buf)
                return -ENOMEM;
        for (;;) {
                struct pollfd pfd = { .fd = fd, .events = POLLIN };
                uint64_t now = now_ms();
                ssize_t r;
                int k;

                if (now >= deadline)
                        return -ETIMEDOUT;
                k = poll(&pfd, 1, (int)(deadline - now));
                if (k < 0 && errno != EINTR)
                        return -errno;
                if (k <= 0)
                        continue;
                r = read(fd, buf + n, max + 1 - n);
                if (r < 0 && errno != EINTR)
                        return -errno;
                if (r == 0)
                        break;
                if (r > 0)
                        n += (size_t)r;
                if (n > max)
                        return -EFBIG;
        }
        buf[n] = '\0';
        *ret_text = TAKE(buf);
        *ret_length = n;
        return 0;
}

int gf_slow_read(const char *path, size_t max, uint64_t timeout_ms, char **ret_text, size_t *ret_length)
{
        _cleanup_close_ int in = -1, out = -1;
        _cleanup_free_ char *text = NULL;
        uint64_t deadline = now_ms() + (timeout_ms > 60000 ? 60000 : timeout_ms);
        siginfo_t info = { 0 };
        size_t n = 0;
        int pipe_fds[2], r;
        pid_t pid;

        if (pipe2(pipe_fds, O_CLOEXEC) < 0)
                return -errno;
        in = pipe_fds[0];
        out = pipe_fds[1];
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)signal(SIGPIPE, SIG_DFL);
                _exit(copy_out(path, max, out));
        }
        out = gf_close(out);
        r = collect(in, max, deadline, &text, &n);
        if (r < 0) {
                /* not reaped yet, so the number is still this child's; it may be stuck, so it is not waited for */
                (void)kill(pid, SIGKILL);
                (void)waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG);
                return r;
        }
        /* its end of the pipe is closed: it is in _exit */
        while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0)
                if (errno != EINTR)
                        return -errno;
        if (info.si_code != CLD_EXITED)
                return -EIO;
        if (info.si_status != 0)
                return -info.si_status;
        *ret_text = TAKE(text);
        if (ret_length)
                *ret_length = n;
        return 0;
}

int gf_linked_read(const char *path, size_t max, char **ret_text)
{
        _cleanup_free_ char *real = realpath(path, NULL);

        return real ? gf_safe_read(AT_FDCWD, real, max, ret_text, NULL) : -errno;
}

int gf_safe_link(const char *path, char **ret_target)
{
        char target[PATH_MAX];
        ssize_t n = readlink(path, target, sizeof(target));

        if (n < 0)
                return -errno;
        if ((size_t)n >= sizeof(target))
                return -ENAMETOOLONG;
        target[n] = '\0';
        return gf_strset(ret_target, target);
}

bool gf_is_there(const char *path)
{
        return faccessat(AT_FDCWD, path, F_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0;
}

int gf_find_name(const char *directory, bool (*match)(const char *name, const void *userdata), const void *userdata,
                 char **ret_name)
{
        _cleanup_closedir_ DIR *dir = opendir(directory);

        if (!dir)
                return -errno;
        for (unsigned i = 0; i < NAMES_MAX; i++) {
                const struct dirent *entry;

                errno = 0;
                entry = readdir(dir);
                if (!entry)
                        return errno ? -errno : -ENOENT;
                if (match(entry->d_name, userdata)) {
                        char *name = strdup(entry->d_name);

                        if (!name)
                                return -ENOMEM;
                        *ret_name = name;
                        return 0;
                }
        }
        return -ENOENT;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

int gf_list_names(const char *directory, const char *suffix, size_t max, gf_strv *ret_names)
{
        _cleanup_closedir_ DIR *dir = opendir(directory);
        _cleanup_(gf_strv_done) gf_strv names = { 0 };
        const struct dirent *entry;

        if (!dir)
                return -errno;
        while (names.n < max && (entry = readdir(dir)))
                if (gf_endswith(entry->d_name, suffix) && gf_strv_add(&names, entry->d_name) < 0)
                        return -ENOMEM;
        if (names.n > 1)
                qsort(names.v, names.n, sizeof(*names.v), by_name);
        *ret_names = names;
        names = (gf_strv){ 0 };
        return 0;
}

void gf_wipe(char *text, size_t length)
{
        if (!text)
                return;
        explicit_bzero(text, length);
        free(text);
}

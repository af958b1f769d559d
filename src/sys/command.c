/* SPDX-License-Identifier: MIT */
#include "sys/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "gpufree.h"

#define OUTPUT_MAX 8192
#define FIXED_PATH "PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"

const char *const gf_command_dirs[] = {
        "/usr/bin",        "/usr/sbin",      "/bin",      "/sbin", "/usr/local/bin",
        "/usr/local/sbin", "/opt/slurm/bin", "/snap/bin", NULL,
};

static bool only_roots(const struct stat *st, bool sticky_ok)
{
        if (st->st_uid != 0)
                return false;
        if (sticky_ok && (st->st_mode & S_ISVTX))
                return true;
        return (st->st_mode & S_IWOTH) == 0 && ((st->st_mode & S_IWGRP) == 0 || st->st_gid == 0);
}

/* Can nobody but root change the directories above this (resolved) path? */
static bool parents_trusted(const char *path)
{
        char dir[PATH_MAX];
        struct stat st;
        size_t n = strlen(path);

        if (n >= sizeof(dir))
                return false;
        memcpy(dir, path, n + 1);
        for (char *slash = strrchr(dir, '/'); slash; slash = strrchr(dir, '/')) {
                if (slash == dir)
                        slash++;
                *slash = '\0';
                if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || !only_roots(&st, true))
                        return false;
                if (dir[1] == '\0')
                        return true;
        }
        return false;
}

static bool path_trusted(const char *path)
{
        struct stat st;

        if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || !only_roots(&st, false))
                return false;
        if ((st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0)
                return false;
        return parents_trusted(path);
}

/* The directory that a link was found in counts as much as what it leads to. */
static bool dir_trusted(const char *directory)
{
        _cleanup_free_ char *real = realpath(directory, NULL), *inside = real ? gf_asprintf("%s/x", real) : NULL;

        return inside && parents_trusted(inside);
}

int gf_command_find(const char *name, const char *const *dirs, char **ret_path)
{
        if (name[0] == '\0' || name[0] == '.' || strchr(name, '/'))
                return -EINVAL;
        for (dirs = dirs ? dirs : gf_command_dirs; *dirs; dirs++) {
                _cleanup_free_ char *path = gf_asprintf("%s/%s", *dirs, name), *real = NULL;

                if (!path)
                        return -ENOMEM;
                real = realpath(path, NULL);
                if (!real)
                        continue;
                if (!dir_trusted(*dirs) || !path_trusted(real)) {
                        *ret_path = TAKE(path);
                        return -EPERM;
                }
                /* the name it was found by: a program with many names looks at it */
                *ret_path = TAKE(path);
                return 0;
        }
        return -ENOENT;
}

void gf_command_result_done(struct gf_command_result *result)
{
        free(result->output);
        *result = (struct gf_command_result){ 0 };
}

static uint64_t now_ms(void)
{
        struct timespec ts;

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int make_environment(gf_strv *env)
{
        static const char *const passed[] = {
                "HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "KUBECONFIG", "SLURM_CONF",
        };
        int r;

        r = gf_strv_add(env, FIXED_PATH);
        if (r == 0)
                r = gf_strv_add(env, "LC_ALL=C");
        for (size_t i = 0; i < ELEMENTSOF(passed) && r == 0; i++) {
                const char *value = getenv(passed[i]);

                if (value)
                        r = gf_strv_addf(env, "%s=%s", passed[i], value);
        }
        return r;
}

/* A NULL-terminated copy of the pointers, for exec. */
static char **pointers(const gf_strv *list)
{
        char **array = calloc(list->n + 1, sizeof(*array));

        if (array && list->n > 0)
                memcpy(array, list->v, list->n * sizeof(*array));
        return array;
}

/* In the child: nothing that takes memory or locks. */
_Noreturn static void child(const char *path, char *const *argv, char *const *envp, int input, int output, pid_t parent)
{
        sigset_t none;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(127);
        (void)setpgid(0, 0);
        for (int s = 1; s < NSIG; s++)
                (void)signal(s, SIG_DFL);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0)
                _exit(127);
        (void)syscall(SYS_close_range, 3U, ~0U, 0U);
        if (chdir("/") < 0)
                _exit(127);
        (void)execve(path, argv, envp);
        _exit(127);
}

/* Takes what is there; past the limit it is thrown away. -1: the end. */
static int drain(int fd, char *buf, size_t *n, bool *cut)
{
        for (;;) {
                char waste[1024];
                bool full = *n == OUTPUT_MAX;
                ssize_t r = full ? read(fd, waste, sizeof(waste)) : read(fd, buf + *n, OUTPUT_MAX - *n);

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return errno == EAGAIN ? 0 : -1;
                if (r == 0)
                        return -1;
                if (full)
                        *cut = true;
                else
                        *n += (size_t)r;
        }
}

/* Until the process has ended, the time is up or somebody cancels. */
static void watch(int pidfd, int output, int cancel_fd, uint64_t deadline, char *buf, size_t *n,
                  struct gf_command_result *result)
{
        bool open = true;

        for (;;) {
                struct pollfd pfds[3] = { { .fd = pidfd, .events = POLLIN },
                                          { .fd = open ? output : -1, .events = POLLIN },
                                          { .fd = cancel_fd, .events = POLLIN } };
                uint64_t now = now_ms(), left = deadline > now ? deadline - now : 0;
                int timeout = deadline == GPUFREE_UNKNOWN ? -1 : left > INT_MAX ? INT_MAX : (int)left;
                int k = poll(pfds, 3, timeout);

                if (k < 0 && errno != EINTR)
                        return;
                if (k < 0)
                        continue;
                if (pfds[1].revents)
                        open = drain(output, buf, n, &result->output_cut) == 0;
                if (pfds[0].revents) {
                        if (open)
                                (void)drain(output, buf, n, &result->output_cut);
                        result->ended = true;
                        return;
                }
                if (pfds[2].revents) {
                        result->cancelled = true;
                        return;
                }
                if (deadline != GPUFREE_UNKNOWN && now_ms() >= deadline) {
                        result->timed_out = true;
                        return;
                }
        }
}

static int reap(pid_t pid, struct gf_command_result *result)
{
        siginfo_t info = { 0 };

        if (!result->ended) {
                /* not reaped, so the group's number is still this child's */
                (void)kill(-pid, SIGKILL);
                (void)kill(pid, SIGKILL);
                (void)waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG);
                return 0;
        }
        while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0)
                if (errno != EINTR)
                        return -errno;
        result->status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
        return 0;
}

static int finish_output(char *buf, size_t n, struct gf_command_result *result)
{
        for (size_t i = 0; i < n; i++)
                if (buf[i] == '\0')
                        buf[i] = '?';
        while (n > 0 && (buf[n - 1] == '\n' || buf[n - 1] == ' '))
                n--;
        buf[n] = '\0';
        return gf_strset(&result->output, buf);
}

/* What the program reads: all of it is in the pipe before anybody reads. */
static int open_input(const char *input)
{
        _cleanup_close_ int read_end = -1, write_end = -1;
        size_t n = input ? strlen(input) : 0;
        int fds[2], fd;
        ssize_t k;

        if (!input) {
                fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                return fd < 0 ? -errno : fd;
        }
        if (n > PIPE_BUF)
                return -E2BIG;
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        read_end = fds[0];
        write_end = fds[1];
        do
                k = write(write_end, input, n);
        while (k < 0 && errno == EINTR);
        if (k < 0)
                return -errno;
        return (size_t)k == n ? TAKE_FD(read_end) : -EIO;
}

int gf_command_run(const char *path, const gf_strv *argv, uint64_t timeout_ms, int cancel_fd,
                   struct gf_command_result *ret_result)
{
        return gf_command_talk(path, argv, NULL, NULL, timeout_ms, cancel_fd, ret_result);
}

int gf_command_talk(const char *path, const gf_strv *argv, const char *input, const char *variable, uint64_t timeout_ms,
                    int cancel_fd, struct gf_command_result *ret_result)
{
        _cleanup_(gf_strv_done) gf_strv env = { 0 };
        _cleanup_(gf_command_result_done) struct gf_command_result result = { 0 };
        _cleanup_free_ char **args = NULL, **envp = NULL;
        _cleanup_free_ char *buf = malloc(OUTPUT_MAX + 1);
        _cleanup_close_ int in = -1, out = -1, pidfd = -1, stdin_fd = -1;
        uint64_t begin = now_ms(), deadline = GPUFREE_UNKNOWN;
        pid_t pid, self = getpid();
        int fds[2], r;
        size_t n = 0;

        if (argv->n == 0)
                return -EINVAL;
        if (timeout_ms != GPUFREE_UNKNOWN && __builtin_add_overflow(begin, timeout_ms, &deadline))
                deadline = GPUFREE_UNKNOWN;
        r = make_environment(&env);
        if (r == 0 && variable)
                r = gf_strv_add(&env, variable);
        args = pointers(argv);
        envp = pointers(&env);
        if (r < 0 || !args || !envp || !buf)
                return -ENOMEM;
        stdin_fd = open_input(input);
        if (stdin_fd < 0)
                return stdin_fd;
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        in = fds[0];
        out = fds[1];
        /* what it writes is a plain pipe for it */
        (void)fcntl(out, F_SETFL, 0);
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                child(path, args, envp, stdin_fd, out, self);
        (void)setpgid(pid, pid);
        out = gf_close(out);
        pidfd = (int)syscall(SYS_pidfd_open, pid, 0U);
        if (pidfd < 0) {
                r = -errno;
                (void)reap(pid, &result);
                return r;
        }
        watch(pidfd, in, cancel_fd, deadline, buf, &n, &result);
        r = reap(pid, &result);
        if (r == 0)
                r = finish_output(buf, n, &result);
        if (r < 0)
                return r;
        result.elapsed_ms = now_ms() - begin;
        *ret_result = result;
        result = (struct gf_command_result){ 0 };
        return 0;
}

/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/str.h"

#define DEADLINE_MS 60000
#define ARGS_MAX 32

/* In the child: the environment and the words, then the program. */
static void become(const struct run *run)
{
        const char *command = getenv("GPUFREE_FAKE_COMMAND");
        char *argv[ARGS_MAX] = { (char[]){ "gpufree" } }, *words = strdup(run->args), *save = NULL;
        int argc = 1;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < ELEMENTSOF(run->env) && run->env[i]; i++)
                (void)putenv(strdup(run->env[i]));
        for (char *word = strtok_r(words, " ", &save); word && argc < ARGS_MAX - 1; word = strtok_r(NULL, " ", &save))
                argv[argc++] = word;
        if (command)
                (void)execv(command, argv);
        _exit(127);
}

static void plug_in(const struct run *run, int out, int err)
{
        int fds[2], fd = -1;

        fd = open("/dev/null", O_RDONLY);
        (void)dup2(fd, STDIN_FILENO);
        (void)dup2(err, STDERR_FILENO);
        if (run->output == RUN_CLOSED) {
                (void)close(STDOUT_FILENO);
                return;
        }
        if (run->output == RUN_FULL) {
                out = open("/dev/full", O_WRONLY);
        } else if (run->output == RUN_NO_READER && pipe(fds) == 0) {
                out = fds[1];
                (void)close(fds[0]);
        }
        (void)dup2(out, STDOUT_FILENO);
}

static void wait_for(struct run *run, pid_t pid)
{
        _cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        struct pollfd p = { .fd = pidfd, .events = POLLIN };
        int status;

        if (pidfd < 0 || poll(&p, 1, DEADLINE_MS) != 1) {
                (void)kill(pid, SIGKILL);
                (void)waitpid(pid, &status, 0);
                fail_msg("\"gpufree %s\" did not end", run->args);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        run->code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static char *contents(int fd)
{
        struct gf_str text = { 0 };
        char buf[4096], *all = NULL;
        ssize_t n;

        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        while ((n = read(fd, buf, sizeof(buf))) > 0)
                gf_str_addn(&text, buf, (size_t)n);
        assert_int_equal(gf_str_take(&text, &all), 0);
        return all;
}

static void run_plainly(struct run *run)
{
        _cleanup_close_ int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
        pid_t pid;

        assert_true(out >= 0 && err >= 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                plug_in(run, out, err);
                become(run);
        }
        wait_for(run, pid);
        run->out = contents(out);
        run->err = contents(err);
}

/* Reads what the terminal shows until the command has closed it; does what was asked on the way. */
static void watch(struct run *run, pid_t pid, int master)
{
        struct gf_str text = { 0 };
        bool done = !run->until;

        for (;;) {
                struct pollfd p = { .fd = master, .events = POLLIN };
                char buf[4096];
                ssize_t n;

                if (poll(&p, 1, DEADLINE_MS) != 1) {
                        (void)kill(pid, SIGKILL);
                        (void)waitpid(pid, NULL, 0);
                        fail_msg("\"gpufree %s\" on a terminal: no end; so far: %s", run->args, text.s);
                }
                n = read(master, buf, sizeof(buf));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) /* EIO: the other end is closed */
                        break;
                gf_str_addn(&text, buf, (size_t)n);
                if (done || !strstr(text.s, run->until))
                        continue;
                done = true;
                if (run->answer)
                        assert_true(write(master, run->answer, strlen(run->answer)) > 0);
                else
                        assert_int_equal(kill(pid, run->signal), 0);
        }
        assert_int_equal(gf_str_take(&text, &run->out), 0);
        run->err = strdup("");
}

static void run_on_a_terminal(struct run *run)
{
        struct winsize size = { .ws_row = 40, .ws_col = (unsigned short)(run->columns ? run->columns : 120) };
        _cleanup_close_ int master = -1;
        pid_t pid = forkpty(&master, NULL, NULL, &size);

        assert_true(pid >= 0);
        if (pid == 0) {
                (void)setenv("TERM", "xterm-256color", 1);
                become(run);
        }
        watch(run, pid, master);
        wait_for(run, pid);
}

void run_command(struct run *run)
{
        assert_non_null(getenv("GPUFREE_FAKE_COMMAND"));
        if (run->terminal)
                run_on_a_terminal(run);
        else
                run_plainly(run);
        assert_int_not_equal(run->code, 127); /* it could not even be started */
}

void run_done(struct run *run)
{
        free(run->out);
        free(run->err);
}

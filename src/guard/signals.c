/* SPDX-License-Identifier: MIT */
/*
 * Passing signals on, once. The command is in the guard's process group: Ctrl-C, Ctrl-Z and `kill %1` reach it by
 * themselves, `kill PID` reaches the guard alone. The kernel tells the sender, not the audience; so a process that does
 * nothing else, the canary, is in the group as well: what it gets too, the command has got already.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard/run.h"
#include "sys/clock.h"

#define AUDIENCE_MS 20

struct heard {
        int signal;
        pid_t sender;
};

__attribute__((noreturn)) static void canary_main(int socket, pid_t parent)
{
        sigset_t all;
        int fd;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        gf_keeper_rename("gpu-canary");
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, NULL);
        if (getppid() != parent || dup2(socket, 3) < 0)
                _exit(0);
        (void)syscall(SYS_close_range, 4U, ~0U, 0U);
        for (int i = 0; i < 3; i++)
                (void)close(i);
        fd = signalfd(-1, &all, SFD_CLOEXEC);
        for (;;) {
                struct signalfd_siginfo info;
                struct heard heard;

                if (read(fd, &info, sizeof(info)) != sizeof(info))
                        _exit(0);
                heard = (struct heard){ (int)info.ssi_signo, (pid_t)info.ssi_pid };
                if (send(3, &heard, sizeof(heard), MSG_NOSIGNAL) < 0)
                        _exit(0);
        }
}

int gf_canary_start(int *ret_pidfd, int *ret_socket)
{
        pid_t parent = getpid(), pid;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        pid = fork();
        if (pid < 0) {
                int r = -errno;

                gf_close(pair[0]);
                gf_close(pair[1]);
                return r;
        }
        if (pid == 0)
                canary_main(pair[1], parent);
        gf_close(pair[1]);
        *ret_pidfd = (int)syscall(SYS_pidfd_open, pid, 0U);
        *ret_socket = pair[0];
        return 0;
}

static void pass_on(struct gf_life *life, int signal)
{
        if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT) {
                life->asked_to_end = true;
                if (life->exited || life->failed_ready) {
                        /* What is left is being ended already; whoever asks again has no patience. */
                        if (++life->interrupts >= 2)
                                (void)gf_say(life->keeper.socket, GF_SAY_END, SIGKILL, 1, 0);
                        return;
                }
        }
        if (!life->exited)
                (void)gf_say(life->keeper.socket, GF_SAY_SIGNAL, signal, 0, 0);
}

static void noted(struct gf_life *life, int signal)
{
        /* The command has it already; that it was asked to end is known all the same. */
        if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT)
                life->asked_to_end = true;
}

static void take(struct gf_life *life, const struct signalfd_siginfo *info)
{
        int signal = (int)info->ssi_signo;

        if (signal == SIGCHLD || gf_park_signal(life, signal))
                return;
        if (signal == SIGCONT && (pid_t)info->ssi_pid == life->keeper.pid) /* it wakes us, nothing more */
                return;
        if (signal == SIGCONT) {
                (void)gf_say(life->keeper.socket, GF_SAY_CONTINUE, 0, 0, 0);
                return;
        }
        if (info->ssi_code > 0 && !life->exited && !life->failed_ready) { /* by the terminal */
                noted(life, signal);
                return;
        }
        if (life->n_held == ELEMENTSOF(life->held))
                gf_signals_due(life);
        if (life->canary < 0 || life->n_held == ELEMENTSOF(life->held) || life->exited || life->failed_ready) {
                pass_on(life, signal);
                return;
        }
        life->held[life->n_held++] = (struct gf_held_signal){ .signal = signal,
                                                              .sender = (pid_t)info->ssi_pid,
                                                              .due = gf_deadline_in(AUDIENCE_MS) };
}

void gf_signals_read(struct gf_life *life)
{
        struct signalfd_siginfo info;
        struct pollfd p = { .fd = life->guard->signal_fd, .events = POLLIN };

        while (p.fd >= 0 && poll(&p, 1, 0) > 0 && read(p.fd, &info, sizeof(info)) == sizeof(info))
                take(life, &info);
}

static void drop_held(struct gf_life *life, size_t at)
{
        memmove(&life->held[at], &life->held[at + 1], (life->n_held - at - 1) * sizeof(life->held[0]));
        life->n_held--;
}

void gf_canary_read(struct gf_life *life)
{
        struct heard heard;
        ssize_t n;

        while (life->canary >= 0 && (n = recv(life->canary, &heard, sizeof(heard), MSG_DONTWAIT)) >= 0) {
                if (n != sizeof(heard)) {
                        life->canary = -1; /* it was ended; the owner of the number closes it */
                        return;
                }
                for (size_t i = 0; i < life->n_held; i++)
                        if (life->held[i].signal == heard.signal && life->held[i].sender == heard.sender) {
                                noted(life, heard.signal);
                                drop_held(life, i);
                                break;
                        }
        }
}

void gf_signals_due(struct gf_life *life)
{
        gf_canary_read(life);
        while (life->n_held > 0 && gf_deadline_left(life->held[0].due) == 0) {
                int signal = life->held[0].signal;

                drop_held(life, 0);
                pass_on(life, signal);
        }
}

/* The command was stopped: so is the guard, for the shell to see; once that continues, so does the command. */
void gf_say_stopped(struct gf_life *life, int signal, pid_t group)
{
        bool apart = group > 0 && group != getpgrp();

        if ((signal == SIGTTIN || signal == SIGTTOU) && apart && gf_tty_in_front(life->tty)) {
                /* It has a group of its own, and the terminal is still ours: hand it over. */
                gf_tty_give(life->tty, group);
                (void)gf_say(life->keeper.socket, GF_SAY_CONTINUE, 0, 0, 0);
                return;
        }
        (void)kill(getpid(), SIGSTOP);
        if (apart && gf_tty_in_front(life->tty))
                gf_tty_give(life->tty, group);
        (void)gf_say(life->keeper.socket, GF_SAY_CONTINUE, 0, 0, 0);
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

/* The controlling terminal, so far as a guard must touch it: the command has it as if there were no guard. */
struct gf_tty {
        int fd; /* -1: there is none */
        bool in_front, has_modes;
        struct termios modes;
};
#define GF_TTY_NONE                                                                                                    \
        {                                                                                                              \
                .fd = -1                                                                                               \
        }

void gf_tty_open(struct gf_tty *tty);
/* Is the guard's process group in the foreground now? */
bool gf_tty_in_front(const struct gf_tty *tty);
void gf_tty_give(const struct gf_tty *tty, pid_t group);
/* After a command that was ended by a signal: the foreground, and the modes as they were. */
void gf_tty_restore(const struct gf_tty *tty, bool modes);
void gf_tty_done(struct gf_tty *tty);

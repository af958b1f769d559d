/* SPDX-License-Identifier: MIT */
#include "guard/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"

void gf_tty_open(struct gf_tty *tty)
{
        *tty = (struct gf_tty)GF_TTY_NONE;
        tty->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (tty->fd < 0)
                return;
        tty->in_front = gf_tty_in_front(tty);
        tty->has_modes = tty->in_front && tcgetattr(tty->fd, &tty->modes) == 0;
}

bool gf_tty_in_front(const struct gf_tty *tty)
{
        return tty->fd >= 0 && tcgetpgrp(tty->fd) == getpgrp();
}

/* Changing the terminal from the background stops whoever does not block SIGTTOU. */
static void block_ttou(sigset_t *saved)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGTTOU);
        (void)sigprocmask(SIG_BLOCK, &set, saved);
}

void gf_tty_give(const struct gf_tty *tty, pid_t group)
{
        sigset_t saved;

        if (tty->fd < 0)
                return;
        block_ttou(&saved);
        (void)tcsetpgrp(tty->fd, group);
        (void)sigprocmask(SIG_SETMASK, &saved, NULL);
}

void gf_tty_restore(const struct gf_tty *tty, bool modes)
{
        pid_t group;
        sigset_t saved;

        if (tty->fd < 0 || !tty->in_front)
                return;
        group = tcgetpgrp(tty->fd);
        if (group != getpgrp()) {
                /* Somebody else's by now (the shell that put us in the background): not ours to change. */
                if (group > 0 && (kill(-group, 0) == 0 || errno != ESRCH))
                        return;
                gf_tty_give(tty, getpgrp());
        }
        block_ttou(&saved);
        if (modes && tty->has_modes)
                (void)tcsetattr(tty->fd, TCSADRAIN, &tty->modes);
        (void)sigprocmask(SIG_SETMASK, &saved, NULL);
}

void gf_tty_done(struct gf_tty *tty)
{
        tty->fd = gf_close(tty->fd);
}

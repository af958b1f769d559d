/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "session.h"

/*
 * A gpufree that was started over ssh is told of nothing when its ssh goes away, but its standard input ends. A thread
 * waits for that and asks for the end as a signal would.
 */
static void *hold(void *userdata)
{
        struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
        char ignored[256];
        ssize_t n;

        (void)userdata;
        for (;;) {
                if (poll(&p, 1, -1) < 0 && errno != EINTR)
                        break;
                n = read(STDIN_FILENO, ignored, sizeof(ignored));
                if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
                        break;
        }
        (void)kill(getpid(), SIGTERM);
        return NULL;
}

int cli_tether(void)
{
        sigset_t all, before;
        pthread_t thread;
        int r;

        /* Signals are the main thread's: what it waits in is to be interrupted. */
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&thread, NULL, hold, NULL);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r != 0)
                return -r;
        (void)pthread_detach(thread);
        return 0;
}

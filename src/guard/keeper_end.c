/* SPDX-License-Identifier: MIT */
/* The ladder for all of the command's own: first signal, grace, SIGKILL until none is left. */
#include <errno.h>

#include "guard/keeper.h"
#include "sys/clock.h"
#include "sys/pidfd.h"

#define LOOK_MS 50
#define KILL_LOOK_MS 5
/* After SIGKILL this long: what is still there is stuck in the kernel. */
#define STUCK_MS 10000

void gf_ending_begin(struct gf_ending *ending, int signal, bool force, uint64_t grace_ms)
{
        uint64_t now = gf_now_ms();

        if (ending->begun && !force)
                return;
        if (!ending->begun) {
                ending->signalled = 0;
                ending->sent = false;
        }
        ending->begun = true;
        ending->signal = force ? SIGKILL : signal;
        ending->kill_at = force ? now : gf_deadline_in(grace_ms);
        ending->next_look = now;
        ending->last_left = 0;
}

static bool is_running(char state)
{
        return state != 'Z' && state != 'X';
}

/* One signal to every one of them that runs. How many there are. */
static int signal_all(struct gf_ending *ending, int signal, int *ret_signalled)
{
        gf_owns owns = { 0 };
        int r = gf_own_list(ending->env, ending->root, &owns), n = 0, signalled = 0;

        for (size_t i = 0; r == 0 && i < owns.n; i++) {
                _cleanup_close_ int fd = -1;

                if (owns.v[i].id.pid == ending->spare)
                        continue;
                n += is_running(owns.v[i].state);
                /* A leader that is a zombie may have threads that live: those count, and hear the signal. */
                if (signal == 0)
                        continue;
                fd = gf_own_pin(ending->env, ending->root, &owns, i);
                if (fd < 0 || gf_pidfd_ended(fd) == 1)
                        continue;
                if (gf_pidfd_signal(fd, signal) == 0)
                        signalled++;
                if (signal != SIGKILL && signal != SIGSTOP)
                        (void)gf_pidfd_signal(fd, SIGCONT);
        }
        gf_owns_done(&owns);
        *ret_signalled = signalled;
        return r < 0 ? r : n;
}

int gf_ending_step(struct gf_ending *ending)
{
        uint64_t now = gf_now_ms();
        int signalled = 0, n;

        if (!ending->killing && now >= ending->kill_at) {
                ending->killing = true;
                ending->stuck_at = now + STUCK_MS;
        }
        if (ending->killing) {
                (void)gf_cgroup_kill(ending->cgroup);
                n = signal_all(ending, SIGKILL, &signalled);
                /* Each is signalled at every look; counted are those of the first. */
                if (signalled > ending->killed)
                        ending->killed = signalled;
                ending->next_look = now + KILL_LOOK_MS;
        } else {
                /* The first signal once: a second one makes some programs give up what they were about to save. */
                n = signal_all(ending, ending->sent ? 0 : ending->signal, &signalled);
                if (!ending->sent)
                        ending->signalled = signalled;
                ending->sent = true;
                ending->next_look = now + LOOK_MS < ending->kill_at ? now + LOOK_MS : ending->kill_at;
        }
        if (n > 0)
                ending->last_left = n;
        return n;
}

/* SPDX-License-Identifier: MIT */
/* Being asked to park, at the socket that is the claim. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/num.h"
#include "guard/preempt.h"
#include "guard/run.h"
#include "sys/clock.h"

/* Who connects sends at once; only a guard of the same user is waited for. */
#define QUESTION_MS 100

static void answer(int fd, enum gf_preempt_answer what, const char *text)
{
        struct gf_preempt_said said = { .magic = GF_PREEMPT_MAGIC, .what = what };

        (void)snprintf(said.text, sizeof(said.text), "%s", text ? text : "");
        (void)send(fd, &said, sizeof(said), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool read_question(int fd, struct gf_preempt_said *ret_said)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };

        return poll(&p, 1, QUESTION_MS) > 0 &&
               recv(fd, ret_said, sizeof(*ret_said), MSG_DONTWAIT) == (ssize_t)sizeof(*ret_said) &&
               ret_said->magic == GF_PREEMPT_MAGIC;
}

/* Why not; NULL: it may. */
static const char *objection(const struct gf_life *life, const struct gf_preempt_said *said)
{
        if (life->guard->options.park_on == 0)
                return "it was not started with --park-on.";
        if (said->priority <= life->guard->options.priority)
                return "its priority is not lower (--priority).";
        if (life->park.asker >= 0)
                return "it is parked for another guard.";
        if (life->park.at != GF_PARK_RUNS || life->park.letting_go)
                return "it is just being parked or brought back.";
        if (!life->started || life->exited || life->failed_ready)
                return "it is just beginning or ending.";
        return NULL;
}

static void take_one(struct gf_life *life, int listener)
{
        _cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct gf_preempt_said said = { 0 };
        struct ucred peer = { 0 };
        socklen_t n = sizeof(peer);
        const char *why;

        if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                return;
        /* Others connect, too, merely to see who we are. */
        if (peer.uid != geteuid() || !read_question(fd, &said))
                return;
        why = objection(life, &said);
        if (why) {
                answer(fd, GF_PREEMPT_NO, why);
                return;
        }
        gf_guard_say(life->guard, "process %d needs %s and has the higher priority (%d)", (int)peer.pid,
                     life->guard->label, said.priority);
        answer(fd, GF_PREEMPT_HEARD, NULL);
        life->park.asker = TAKE_FD(fd);
        (void)gf_park_signal(life, life->guard->options.park_on);
        if (life->park.at == GF_PARK_RUNS)
                gf_preempt_reply(life, false, "parking could not be begun.");
}

void gf_preempt_reply(struct gf_life *life, bool parked, const char *why)
{
        if (life->park.asker < 0)
                return;
        answer(life->park.asker, parked ? GF_PREEMPT_PARKED : GF_PREEMPT_NO, why);
        if (!parked)
                life->park.asker = gf_close(life->park.asker);
}

/* It has ended, or has given the GPUs back. */
static bool asker_is_gone(const struct gf_life *life)
{
        char byte;
        ssize_t n = recv(life->park.asker, &byte, 1, MSG_DONTWAIT);

        return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

void gf_preempt_listen(struct gf_life *life)
{
        const struct gpufree_guard *guard = life->guard;

        if (life->park.asker >= 0 && asker_is_gone(life)) {
                life->park.asker = gf_close(life->park.asker);
                life->park.wants_back = true;
                life->park.retry_at = gf_now_ms();
        }
        for (size_t i = 0; i < guard->locks.n; i++) {
                struct pollfd p = { .fd = guard->locks.v[i].socket, .events = POLLIN };

                if (poll(&p, 1, 0) > 0 && (p.revents & POLLIN)) {
                        take_one(life, p.fd); /* the claims may be gone after it */
                        return;
                }
        }
}

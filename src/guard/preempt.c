/* SPDX-License-Identifier: MIT */
/* Asking the guard that has a GPU to park its command. */
#include "guard/preempt.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/num.h"
#include "sys/clock.h"

/* The other one copies for up to ten minutes; it answers by then, or something is wrong with it. */
#define ANSWER_MS 660000
/* That it has heard us it says at once; one that is just beginning or ending may take a moment. */
#define HEARD_MS 10000

static int connect_to(const char *name)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        size_t n = strlen(name);

        if (fd < 0)
                return -errno;
        if (n > sizeof(address.sun_path) - 1)
                return -ENAMETOOLONG;
        memcpy(address.sun_path + 1, name, n);
        if (connect(fd, (const struct sockaddr *)&address,
                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* 0: an answer, or the other one is gone (what 0); -ECANCELED, -ETIMEDOUT. */
static int await(struct gf_env *env, int fd, uint64_t ms, struct gf_preempt_said *ret_said)
{
        uint64_t deadline = gf_deadline_in(ms);
        struct gf_preempt_said said = { 0 };
        size_t got = 0;

        while (got < sizeof(said)) {
                struct pollfd fds[] = {
                        { .fd = fd, .events = POLLIN },
                        { .fd = env->cancel_fd, .events = POLLIN },
                };
                ssize_t n;

                if (poll(fds, 2, gf_deadline_poll_ms(deadline)) < 0 && errno != EINTR)
                        return -errno;
                if (fds[1].revents)
                        return -ECANCELED;
                if (gf_deadline_left(deadline) == 0)
                        return -ETIMEDOUT;
                n = recv(fd, (char *)&said + got, sizeof(said) - got, MSG_DONTWAIT);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        continue;
                if (n <= 0)
                        break;
                got += (size_t)n;
        }
        if (got < sizeof(said) || said.magic != GF_PREEMPT_MAGIC)
                said = (struct gf_preempt_said){ 0 };
        said.text[sizeof(said.text) - 1] = '\0';
        *ret_said = said;
        return 0;
}

/* 1: it is one that may be asked. 0: *ret_why. */
static int check_owner(int fd, pid_t *ret_pid, char **ret_why)
{
        struct ucred peer = { 0 };
        socklen_t n = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                return -errno;
        *ret_pid = peer.pid;
        if (peer.uid == geteuid())
                return 1;
        *ret_why = gf_asprintf("claimed by another user's guard (process %d, uid %u), which is never preempted.",
                               (int)peer.pid, (unsigned)peer.uid);
        return *ret_why ? 0 : -ENOMEM;
}

int gf_preempt_ask(struct gpufree_guard *guard, const char *name, const char *label, int *ret_fd, char **ret_why)
{
        struct gf_env *env = &guard->context->env;
        struct gf_preempt_said said = { .magic = GF_PREEMPT_MAGIC, .priority = guard->options.priority };
        _cleanup_close_ int fd = connect_to(name);
        pid_t pid = 0;
        int r;

        *ret_why = NULL;
        if (fd < 0)
                return 0;
        r = check_owner(fd, &pid, ret_why);
        if (r <= 0)
                return r == -ENOMEM ? r : 0;
        gf_guard_say(guard, "asking process %d to park what it has on %s", (int)pid, label);
        r = send(fd, &said, sizeof(said), MSG_NOSIGNAL) == sizeof(said) ? await(env, fd, HEARD_MS, &said) : -EPIPE;
        if (r == 0 && said.what == GF_PREEMPT_HEARD)
                r = await(env, fd, ANSWER_MS, &said);
        if (r == -ECANCELED)
                return r;
        if (r == 0 && said.what == GF_PREEMPT_PARKED) {
                *ret_fd = TAKE_FD(fd);
                return 1;
        }
        *ret_why = gf_asprintf("claimed by another guard, process %d, which was not preempted: %s", (int)pid,
                               r == -ETIMEDOUT              ? "it gave no answer."
                               : said.what == GF_PREEMPT_NO ? said.text
                                                            : "it has ended.");
        return *ret_why ? 0 : -ENOMEM;
}

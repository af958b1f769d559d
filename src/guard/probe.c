/* SPDX-License-Identifier: MIT */
#include "guard/probe.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"
#include "guard/http.h"
#include "sys/clock.h"
#include "sys/pidfd.h"

#define ANSWER_MS 5000

int gf_probe_split(const char *place, char **ret_host, char **ret_port)
{
        const char *colon = strrchr(place, ':');
        _cleanup_free_ char *host = NULL, *port = NULL;
        uint32_t number;

        if (!colon || colon == place || gf_parse_u32(colon + 1, &number) < 0 || number == 0 || number > 65535)
                return -EINVAL;
        if (place[0] == '[' && colon[-1] == ']' && colon - place > 2)
                host = strndup(place + 1, (size_t)(colon - place - 2));
        else if (place[0] != '[' && !memchr(place, ':', (size_t)(colon - place)))
                host = strndup(place, (size_t)(colon - place));
        else
                return -EINVAL;
        port = strdup(colon + 1);
        if (!host || !port)
                return -ENOMEM;
        *ret_host = TAKE(host);
        *ret_port = TAKE(port);
        return 0;
}

int gf_probe_check_tcp(struct gf_env *env, const char *place)
{
        _cleanup_free_ char *host = NULL, *port = NULL;

        if (gf_probe_split(place, &host, &port) < 0)
                return gf_fail(env, -EINVAL, "--ready-tcp: \"%s\" is no HOST:PORT (like 127.0.0.1:8000)", place);
        return 0;
}

static int connect_one(const struct addrinfo *info, int ms)
{
        struct timeval time = { .tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000 };
        _cleanup_close_ int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol);

        if (fd < 0)
                return -errno;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)); /* of connect() as well */
        if (connect(fd, info->ai_addr, info->ai_addrlen) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int gf_probe_connect(const char *host, const char *port, int ms)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
        int fd = -EADDRNOTAVAIL;

        if (getaddrinfo(host, port, &hints, &list) != 0)
                return -EADDRNOTAVAIL;
        for (const struct addrinfo *info = list; info && fd < 0; info = info->ai_next)
                fd = connect_one(info, ms);
        freeaddrinfo(list);
        return fd;
}

__attribute__((noreturn)) static void ask(const struct gpufree_guard *guard)
{
        _cleanup_free_ char *host = NULL, *port = NULL;
        int r = -EINVAL;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (guard->ready_kind == GF_READY_URL) {
                r = gf_http_get(guard->options.ready_url, ANSWER_MS);
                _exit(r >= 200 && r < 300 ? 0 : 1);
        }
        if (gf_probe_split(guard->options.ready_tcp, &host, &port) == 0)
                r = gf_probe_connect(host, port, ANSWER_MS);
        _exit(r >= 0 ? 0 : 1);
}

int gf_probe_start(const struct gpufree_guard *guard, struct gf_probe *probe)
{
        pid_t pid = fork();

        if (pid < 0)
                return -errno;
        if (pid == 0)
                ask(guard);
        *probe = (struct gf_probe){ .pid = pid,
                                    .pidfd = (int)syscall(SYS_pidfd_open, pid, 0U),
                                    .deadline = gf_deadline_in(2 * ANSWER_MS) };
        return 0;
}

int gf_probe_result(struct gf_probe *probe)
{
        siginfo_t info = { 0 };

        if (waitid(P_PID, (id_t)probe->pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0) {
                if (gf_deadline_left(probe->deadline) > 0)
                        return -EAGAIN;
                gf_probe_stop(probe);
                return 0;
        }
        probe->pid = 0;
        probe->pidfd = gf_close(probe->pidfd);
        return info.si_code == CLD_EXITED && info.si_status == 0 && info.si_pid > 0;
}

void gf_probe_stop(struct gf_probe *probe)
{
        if (probe->pid > 0) {
                (void)kill(probe->pid, SIGKILL); /* our child, not reaped: nobody else has that number */
                (void)waitpid(probe->pid, NULL, 0);
        }
        probe->pid = 0;
        probe->pidfd = gf_close(probe->pidfd);
}

/* SPDX-License-Identifier: MIT */
#include "guard/wire.h"

#include <errno.h>
#include <sys/socket.h>

int gf_say(int socket, enum gf_wire_say what, int a, int b, uint64_t n)
{
        struct gf_said said = { .what = what, .a = a, .b = b, .n = n };

        for (;;) {
                if (send(socket, &said, sizeof(said), MSG_NOSIGNAL) >= 0)
                        return 0;
                if (errno != EINTR)
                        return errno == ECONNRESET || errno == ENOTCONN ? -EPIPE : -errno;
        }
}

int gf_hear(int socket, struct gf_said *ret_said)
{
        for (;;) {
                struct gf_said said;
                ssize_t n = recv(socket, &said, sizeof(said), MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -EPIPE;
                if (n != sizeof(said))
                        return -EPIPE;
                *ret_said = said;
                return 1;
        }
}

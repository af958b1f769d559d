/* SPDX-License-Identifier: MIT */
#include "sys/precedence.h"

#include <errno.h>
#include <sys/resource.h>

#define FIRST (-20)

struct gf_precedence gf_precedence_take(void)
{
        struct gf_precedence precedence = { 0 };

        /* On Linux 0 is the calling thread, not its process. */
        errno = 0;
        precedence.before = getpriority(PRIO_PROCESS, 0);
        if (errno == 0)
                precedence.taken = setpriority(PRIO_PROCESS, 0, FIRST) == 0;
        return precedence;
}

void gf_precedence_give_back(struct gf_precedence *precedence)
{
        if (precedence->taken)
                (void)setpriority(PRIO_PROCESS, 0, precedence->before);
        precedence->taken = false;
}

/* SPDX-License-Identifier: MIT */
#include "guard/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

int gf_follow_open(struct gf_env *env, const char *path, struct gf_follow *ret_follow)
{
        struct gf_follow follow = GF_FOLLOW_NONE;

        follow.output = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
        if (follow.output < 0)
                return gf_fail(env, -errno, "--log %s: %s", path, strerror(errno));
        /* What cannot be read back (a FIFO, a terminal) is written to all the same. */
        follow.file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        follow.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (follow.file >= 0 && lseek(follow.file, 0, SEEK_END) < 0)
                follow.file = gf_close(follow.file);
        if (follow.inotify >= 0 && inotify_add_watch(follow.inotify, path, IN_MODIFY) < 0)
                follow.inotify = gf_close(follow.inotify);
        *ret_follow = follow;
        return 0;
}

static void end_line(struct gf_follow *follow, const regex_t *regex)
{
        follow->line[follow->n] = '\0';
        if (regex && regexec(regex, follow->line, 0, NULL, 0) == 0)
                follow->matched = true;
        if (follow->n > 0)
                (void)snprintf(follow->last, sizeof(follow->last), "%.255s", follow->line);
        follow->n = 0;
}

void gf_follow_read(struct gf_follow *follow, const regex_t *regex)
{
        char buf[16384];
        ssize_t n;

        while (follow->inotify >= 0 && read(follow->inotify, buf, sizeof(buf)) > 0)
                ; /* that something came is all they say */
        while (follow->file >= 0 && (n = read(follow->file, buf, sizeof(buf))) > 0) {
                follow->bytes += (uint64_t)n;
                for (ssize_t i = 0; i < n; i++) {
                        if (buf[i] == '\n' || buf[i] == '\r')
                                end_line(follow, regex);
                        else if (buf[i] != '\0' && follow->n < sizeof(follow->line) - 1)
                                follow->line[follow->n++] = buf[i];
                }
        }
}

void gf_follow_done(struct gf_follow *follow)
{
        follow->output = gf_close(follow->output);
        follow->file = gf_close(follow->file);
        follow->inotify = gf_close(follow->inotify);
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <sys/types.h>

#include "guard/guard.h"

/* Asks whether the command is ready, in a child: names are looked up and servers hang for as long as they like. */
struct gf_probe {
        pid_t pid; /* 0: none under way */
        int pidfd;
        uint64_t deadline;
};
#define GF_PROBE_NONE                                                                                                  \
        {                                                                                                              \
                0, -1, 0                                                                                               \
        }

int gf_probe_start(const struct gpufree_guard *guard, struct gf_probe *probe);
/* 1: ready. 0: not. -EAGAIN: still at it. */
int gf_probe_result(struct gf_probe *probe);
void gf_probe_stop(struct gf_probe *probe);

int gf_probe_check_tcp(struct gf_env *env, const char *place); /* -EINVAL with the sentence */
/* "HOST:PORT", "[::1]:80". Pure. */
int gf_probe_split(const char *place, char **ret_host, char **ret_port);
/* A connected socket with that time-out on it, or -errno. May block longer, for the look-up of the name. */
int gf_probe_connect(const char *host, const char *port, int ms);

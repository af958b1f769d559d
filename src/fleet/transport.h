/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

/* One command on one host, by the `ssh` of PATH with the user's own configuration. */
struct fleet_job {
        const char *host, *line; /* borrowed */
        /* What became of it. */
        bool started;
        int error;  /* an errno: it could not be started */
        bool ended; /* `status` is meant: exit status, 128 + signal */
        int status;
        bool timed_out, cancelled, too_large;
        struct gf_str output; /* standard output, bounded */
        struct gf_str said;   /* standard error: the last of it */
        uint64_t elapsed_ms;
        /* The transport's own. */
        pid_t pid;
        int pidfd, in, out, err;
        uint64_t since, deadline, kill_at;
};

struct fleet_transport {
        size_t fanout;       /* so many at a time, 1 … FLEET_FANOUT_MAX */
        uint64_t timeout_ms; /* for each, from its start; GPUFREE_UNKNOWN: none */
        uint64_t connect_ms; /* without a timeout: for the connection at least */
        size_t output_max;   /* bytes of each */
        int cancel_fd;       /* readable: end them, -1 none */
        bool may_ask;        /* ssh may ask for a password on the terminal: one job alone */
        void (*on_done)(void *userdata, struct fleet_job *job); /* each, as soon as it has ended; may take its output */
        void (*on_tick)(void *userdata, size_t done, size_t running);
        void *userdata;
};
#define FLEET_FANOUT_MAX 200 /* four descriptors each, of the usual 1024 */

/*
 * Runs all jobs. Their standard input stays open as long as they are wanted: its end tells a remote gpufree (--tether)
 * to end as by Ctrl-C, and it still answers. What has not ended a while after that is ended here.
 * -ECANCELED: cancel_fd became readable; each job says how far it came. -errno: nothing more could be run.
 */
int fleet_transport_run(const struct fleet_transport *transport, struct fleet_job *jobs, size_t n);
void fleet_job_done(struct fleet_job *job);

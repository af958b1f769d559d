/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A child for calls that may hang for ever (a GPU driver's). It answers over a socket; the parent waits no longer than
 * a deadline, then kills it and never waits for its death (it may be stuck in the kernel), only reaps it if it is
 * there. The child dies with its parent, keeps no descriptor but the socket and standard error's /dev/null, and runs
 * with signals reset to their defaults.
 */
struct gf_child {
        pid_t pid;
        int pidfd;
        int socket;
        uint64_t start_ticks; /* of the child; 0 unknown: with the pid, what scans pass over */
};

/* Runs in the child: returns its exit status. `socket` is a blocking SOCK_SEQPACKET of the child. */
typedef int (*gf_child_main)(int socket, void *userdata);

int gf_child_start(gf_child_main main, void *userdata, struct gf_child *ret_child);
/* Sends one message. -EPIPE: the child is gone. */
int gf_child_send(struct gf_child *child, const void *data, size_t length);
/*
 * Receives one message of at most `size` bytes until `deadline` (gf_deadline_in()). The length; 0: the child has ended;
 * -ETIMEDOUT, -ECANCELED (cancel_fd readable; -1 none), -EMSGSIZE, -errno.
 */
ssize_t gf_child_receive(struct gf_child *child, void *data, size_t size, uint64_t deadline, int cancel_fd);
/*
 * Ends it (SIGKILL through the pidfd), reaps it when that takes no waiting beyond a moment: `pid` is 0 then; of a child
 * that is stuck in the kernel it stays. Safe on a zeroed child with fds -1, and twice.
 */
void gf_child_stop(struct gf_child *child);

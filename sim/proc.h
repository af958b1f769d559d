/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A process the simulated node started, or books memory to: the PID alone may be somebody else's later. */
struct sim_id {
        pid_t pid;
        uint64_t start; /* clock ticks after boot */
};

/* Reads at most size - 1 bytes of a file and ends them with NUL. The length, or -errno; -EFBIG when there is more. */
ssize_t sim_read(int at, const char *path, char *buf, size_t size);
/* Writes a whole file by way of a temporary name, so that a reader sees all of it or nothing. */
int sim_write(int at, const char *path, const char *text, size_t length);

/* Start time and state letter of a process; -ESRCH. Either result may be NULL. */
int sim_stat(pid_t pid, uint64_t *ret_start, char *ret_state);
int sim_identify(pid_t pid, struct sim_id *ret_id);

/* A pidfd that is known to be this process and no successor: the descriptor, -ESRCH, -errno. */
int sim_pin(const struct sim_id *id);
/* Does any thread of it still run? */
bool sim_alive(const struct sim_id *id);
/* Waits until the process has ended: 0, -ETIMEDOUT, -errno. */
int sim_wait_end(int pidfd, int timeout_ms);

/*
 * Does the process still hold what `check` names? "fd:MAJOR:MINOR" a descriptor of that device in any thread,
 * "map:INODE" a mapping of the node nvidia-uvm with that inode, "alive" anything. A process that may not be looked into
 * is taken to hold while it lives.
 */
bool sim_holds(const struct sim_id *id, const char *check);

/*
 * Which minor numbers of a major are open in some process that can be looked into. `path` (may be NULL): a file mapped
 * under that name counts as path_minor.
 */
#define SIM_N_MINORS 256u
int sim_minors_in_use(unsigned major, const char *path, unsigned path_minor, bool used[static SIM_N_MINORS]);

uint64_t sim_now_ms(void); /* since boot */

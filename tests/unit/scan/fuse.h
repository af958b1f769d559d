/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A file system in user space that answers until it is told to hang, and then never again. In a mount namespace of the
 * calling kid, so that nothing is left. `user` then runs in a child of it with the path of a file of 4 KiB there; the
 * server hangs as soon as `user` returns 0 (or says 0 itself); `after`, when not NULL, is run then in the same child.
 */
int fuse_kid(const char *mountpoint, int (*user)(const char *file, void *arg), void (*after)(void), void *arg);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* /proc/PID/fdinfo/N */
struct gf_fdinfo {
        bool has_flags;
        uint64_t flags;    /* of the kernel, not of the C library: see gf_fdinfo_o_path() */
        char exporter[32]; /* of a dma-buf, cut to fit; "" none */
        uint64_t size;     /* of a dma-buf; GPUFREE_UNKNOWN */
        uint64_t scm_fds;  /* descriptors waiting in this UNIX socket; 0 none, or a kernel that does not say */
};
void gf_parse_fdinfo(const char *text, size_t length, struct gf_fdinfo *ret);
/* Opened with O_PATH: names a file, does not hold it. */
static inline bool gf_fdinfo_o_path(const struct gf_fdinfo *info)
{
        return info->has_flags && (info->flags & 010000000U);
}

/*
 * The fdinfo of an io_uring, line by line: the files registered with it. Old kernels print names without their
 * directories, and leave the files out when the ring is busy.
 */
struct gf_ring_text {
        bool seen;      /* there was a "UserFiles:" line */
        bool in_files;  /* inside its list */
        uint64_t slots; /* the size of the table */
        uint64_t lines; /* entries printed, empty ones included */
};
/* true: `line` names a registered file; *ret_name points into it, escaped as /proc does. */
bool gf_ring_line(struct gf_ring_text *ring, const char *line, size_t length, const char **ret_name,
                  size_t *ret_length);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line of /proc/PID/maps. `name` points into the line: a path, "[heap]", or nothing. */
struct gf_map {
        uint64_t start, end, offset;
        char perms[5];
        uint32_t dev_major, dev_minor; /* of the file system that the file is on */
        uint64_t ino;                  /* 0: no file */
        const char *name;
        size_t n_name;
};
int gf_parse_maps_line(const char *line, size_t length, struct gf_map *ret); /* -EINVAL */

/* A line of /proc/PID/mountinfo; the parts point into it, escaped. */
struct gf_mount {
        uint32_t dev_major, dev_minor;
        const char *point, *fstype, *super_options;
        size_t n_point, n_fstype, n_super_options;
};
int gf_parse_mountinfo_line(const char *line, size_t length, struct gf_mount *ret); /* -EINVAL */

/* The hidepid= of a procfs. */
enum gf_hidepid {
        GF_HIDEPID_OFF,
        GF_HIDEPID_NOACCESS,   /* processes are listed, their files are closed */
        GF_HIDEPID_INVISIBLE,  /* processes of others are not listed */
        GF_HIDEPID_PTRACEABLE, /* neither, and no group is exempt */
};
/* From mount options; *ret_gid is the exempt group, 0 unless given. */
enum gf_hidepid gf_parse_hidepid(const char *options, size_t length, uint32_t *ret_gid);

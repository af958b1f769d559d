/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * From the cgroups of a process to the owners it belongs to. Pure, allocates nothing, takes any bytes.
 *
 * A path is read from the left: the first owner is the one this machine can stop, the last is the innermost. What is
 * below a container carries names that the container chose, and what is below a user's manager names that the user
 * chose: both are marked, so that nobody stops something of the host by a name that was made up.
 */
#define GF_CGROUP_TEXT 256 /* NAME_MAX and the NUL */
#define GF_CGROUP_OWNERS 12

struct gf_cgroup_owner {
        const char *kind;          /* static: "container", "pod", "unit", "user-unit", "scope", "session", "job", "vm",
                                      "monitor" (of a container: outside it), "cgroup" (nothing known of it) */
        const char *runtime;       /* static; NULL: the path does not tell */
        char id[GF_CGROUP_TEXT];   /* as its own tools take it */
        char name[GF_CGROUP_TEXT]; /* ""; the path does not tell */
        uint32_t manager;          /* below the manager of this user; UINT32_MAX: the machine's own */
        bool nested;               /* inside a container or VM of this chain */
};

struct gf_cgroup_chain {
        struct gf_cgroup_owner v[GF_CGROUP_OWNERS]; /* outermost first */
        size_t n;
        bool outside; /* lies outside our cgroup namespace ("/../…") */
        bool deleted; /* the cgroup was removed */
        bool cut;     /* more owners than there is room for; the last is the innermost all the same */
};

/* "id:controllers:path": the path (into `line`), or NULL when it is no such line. *ret_controllers is not terminated.
 */
const char *gf_cgroup_split(const char *line, const char **ret_controllers, size_t *ret_length);
/* The owners of one path; 0 of them for "/". */
void gf_cgroup_parse(const char *path, struct gf_cgroup_chain *ret_chain);
/*
 * The owners of a process from every line of its /proc/PID/cgroup. With several hierarchies (v1, hybrid) the line that
 * tells most decides; among equals name=systemd, v2, devices, memory, then any. *ret_path (may be NULL): the path that
 * was taken, into `lines`; NULL none.
 */
void gf_cgroup_parse_lines(const gf_strv *lines, struct gf_cgroup_chain *ret_chain, const char **ret_path);
/* Is this the form of a systemd unit's name: the characters that systemd allows, no pattern, a known suffix? */
bool gf_unit_name_valid(const char *name);

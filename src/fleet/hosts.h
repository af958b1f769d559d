/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/str.h"

/*
 * Lists of targets as people write them: "gpu[01-64],root@hv/pct:129". Commas separate, but not inside of brackets. A
 * range stands in the host's name alone ("gpu[01-04,07]-ib", also several): what follows a slash is a name, as it is.
 * Each target is added once. At most FLEET_HOSTS_MAX of them.
 * -EINVAL: *ret_error (malloc'ed) is one line, what is wrong; the list may have grown.
 */
#define FLEET_HOSTS_MAX 10000
int fleet_hosts_add(gf_strv *hosts, const char *list, char **ret_error);
/* The text of a file: a target a line, "#" begins a comment line, space around is not meant. */
int fleet_hosts_add_text(gf_strv *hosts, const char *text, char **ret_error);

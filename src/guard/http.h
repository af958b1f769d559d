/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/env.h"

/* Is this a URL that can be asked? -EINVAL with the sentence. */
int gf_http_check(struct gf_env *env, const char *url);
/* One GET. The status of the answer, or -errno. May block for about `ms`: called in a child of its own. */
int gf_http_get(const char *url, int ms);
/* http://HOST[:PORT][/PATH]: fresh texts, "80" and "/" where left out; an IPv6 address without its brackets. Pure. */
int gf_http_split(const char *url, char **ret_host, char **ret_port, char **ret_path);

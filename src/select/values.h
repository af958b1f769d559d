/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "base/str.h"

/* What is wrong with a value, as one line in *ret_error (may be NULL: not wanted). -EINVAL; -ENOMEM: no line. */
_printf_(2, 3) int gf_bad_value(char **ret_error, const char *format, ...);
/* The value in double quotes, one line whatever is in it, cut when it is long. NULL: out of memory. */
char *gf_quoted(const char *value);

/*
 * Calls `one` for each item of "a,b,c" in order, until one fails; the item is valid during the call only. An empty
 * item is an item: it is for `one` to refuse it.
 */
int gf_each_item(const char *list, int (*one)(void *userdata, const char *item, char **ret_error), void *userdata,
                 char **ret_error);

/* users.c, the one place of this room that asks the system: a name, a number or "me". */
int gf_user_resolve(const char *text, uint32_t *ret_uid, char **ret_error);

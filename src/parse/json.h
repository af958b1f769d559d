/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/*
 * One value out of a JSON document, without building the document: runtimes' configuration files hold secrets, and all
 * that is wanted is a name. Pure, allocates nothing, takes any bytes. Not a validator: what it steps over need only be
 * balanced.
 */
struct gf_json {
        const char *p;
        size_t n;
};

/* The value of `key` in the object `object`. -ENOENT: none; -EINVAL: not an object, not JSON, nested too deep. */
int gf_json_member(struct gf_json object, const char *key, struct gf_json *ret_value);
/* Walks an array: *cursor is 0 at first. 1: *ret_item is the next, 0: the end, -EINVAL. */
int gf_json_item(struct gf_json array, size_t *cursor, struct gf_json *ret_item);
/* Decodes a string (escapes become UTF-8) into `buf`, NUL-terminated. -EINVAL: no string, or it has a NUL; -ENOSPC. */
int gf_json_string(struct gf_json value, char *buf, size_t size);

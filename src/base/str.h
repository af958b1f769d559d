/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/vec.h"

/* A growing text. `.failed` is set once memory ran out; later additions do nothing: check once, at the end. */
struct gf_str {
        char *s; /* NUL-terminated once anything was added */
        size_t n, cap;
        bool failed;
};

void gf_str_done(struct gf_str *str);
void gf_str_add(struct gf_str *str, const char *text);
void gf_str_addn(struct gf_str *str, const char *text, size_t length);
void gf_str_addc(struct gf_str *str, char c);
_printf_(2, 3) void gf_str_addf(struct gf_str *str, const char *format, ...);
/* Hands the text over (never NULL on success: empty is ""). -ENOMEM if anything failed; the text is freed then. */
int gf_str_take(struct gf_str *str, char **ret_text);

/* asprintf that yields NULL on failure. */
_printf_(1, 2) char *gf_asprintf(const char *format, ...);
char *gf_vasprintf(const char *format, va_list ap) __attribute__((format(printf, 1, 0)));

bool gf_streq(const char *a, const char *b); /* NULL equals NULL only */
bool gf_startswith(const char *s, const char *prefix);
bool gf_endswith(const char *s, const char *suffix);
/* Replaces *dst by a copy of src (NULL: by NULL). -ENOMEM leaves *dst as it was. */
int gf_strset(char **dst, const char *src);

/* A list of texts. */
typedef GF_VEC(char *) gf_strv;
int gf_strv_add(gf_strv *list, const char *text);
_printf_(2, 3) int gf_strv_addf(gf_strv *list, const char *format, ...);
bool gf_strv_has(const gf_strv *list, const char *text);
void gf_strv_done(gf_strv *list);

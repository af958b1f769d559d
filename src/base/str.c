/* SPDX-License-Identifier: MIT */
#include "base/str.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void gf_str_done(struct gf_str *str)
{
        free(str->s);
        memset(str, 0, sizeof(*str));
}

static bool str_room(struct gf_str *str, size_t more)
{
        size_t need, cap;
        char *grown;

        if (str->failed)
                return false;
        if (more > SIZE_MAX / 4 || str->n > SIZE_MAX / 4) {
                str->failed = true;
                return false;
        }
        need = str->n + more + 1;
        if (need <= str->cap)
                return true;
        cap = str->cap ? str->cap : 64;
        while (cap < need)
                cap *= 2;
        grown = realloc(str->s, cap);
        if (!grown) {
                str->failed = true;
                return false;
        }
        str->s = grown;
        str->cap = cap;
        return true;
}

void gf_str_addn(struct gf_str *str, const char *text, size_t length)
{
        if (!str_room(str, length))
                return;
        if (length > 0)
                memcpy(str->s + str->n, text, length);
        str->n += length;
        str->s[str->n] = '\0';
}

void gf_str_add(struct gf_str *str, const char *text)
{
        gf_str_addn(str, text, strlen(text));
}

void gf_str_addc(struct gf_str *str, char c)
{
        gf_str_addn(str, &c, 1);
}

void gf_str_addf(struct gf_str *str, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;
        va_list ap;

        va_start(ap, format);
        text = gf_vasprintf(format, ap);
        va_end(ap);
        if (!text) {
                str->failed = true;
                return;
        }
        gf_str_add(str, text);
}

int gf_str_take(struct gf_str *str, char **ret_text)
{
        if (!str->failed && !str->s)
                gf_str_addn(str, "", 0);
        if (str->failed) {
                gf_str_done(str);
                return -ENOMEM;
        }
        *ret_text = TAKE(str->s);
        gf_str_done(str);
        return 0;
}

char *gf_vasprintf(const char *format, va_list ap)
{
        char *text = NULL;

        return vasprintf(&text, format, ap) < 0 ? NULL : text;
}

char *gf_asprintf(const char *format, ...)
{
        va_list ap;
        char *text;

        va_start(ap, format);
        text = gf_vasprintf(format, ap);
        va_end(ap);
        return text;
}

bool gf_streq(const char *a, const char *b)
{
        if (!a || !b)
                return a == b;
        return strcmp(a, b) == 0;
}

bool gf_startswith(const char *s, const char *prefix)
{
        return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool gf_endswith(const char *s, const char *suffix)
{
        size_t n = strlen(s), k = strlen(suffix);

        return n >= k && memcmp(s + n - k, suffix, k) == 0;
}

int gf_strset(char **dst, const char *src)
{
        char *copy = NULL;

        if (src) {
                copy = strdup(src);
                if (!copy)
                        return -ENOMEM;
        }
        free(*dst);
        *dst = copy;
        return 0;
}

static int strv_take(gf_strv *list, char *text)
{
        char **slot;

        if (!text)
                return -ENOMEM;
        slot = gf_vec_add(list);
        if (!slot) {
                free(text);
                return -ENOMEM;
        }
        *slot = text;
        return 0;
}

int gf_strv_add(gf_strv *list, const char *text)
{
        return strv_take(list, strdup(text));
}

int gf_strv_addf(gf_strv *list, const char *format, ...)
{
        va_list ap;
        char *text;

        va_start(ap, format);
        text = gf_vasprintf(format, ap);
        va_end(ap);
        return strv_take(list, text);
}

bool gf_strv_has(const gf_strv *list, const char *text)
{
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->v[i], text) == 0)
                        return true;
        return false;
}

void gf_strv_done(gf_strv *list)
{
        for (size_t i = 0; i < list->n; i++)
                free(list->v[i]);
        gf_vec_done(list);
}

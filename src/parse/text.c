/* SPDX-License-Identifier: MIT */
#include "parse/text.h"

#include <string.h>

bool gf_text_line(struct gf_text *text, struct gf_text *ret_line)
{
        const char *newline;

        if (text->p >= text->end)
                return false;
        newline = memchr(text->p, '\n', (size_t)(text->end - text->p));
        *ret_line = (struct gf_text){ text->p, newline ? newline : text->end };
        text->p = newline ? newline + 1 : text->end;
        return true;
}

void gf_text_skip(struct gf_text *text, char c)
{
        while (text->p < text->end && *text->p == c)
                text->p++;
}

bool gf_text_char(struct gf_text *text, char c)
{
        if (text->p >= text->end || *text->p != c)
                return false;
        text->p++;
        return true;
}

bool gf_text_word(struct gf_text *text, const char *word)
{
        size_t n = strlen(word);

        if ((size_t)(text->end - text->p) < n || memcmp(text->p, word, n) != 0)
                return false;
        text->p += n;
        return true;
}

static int digit_of(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return 99;
}

bool gf_text_u64(struct gf_text *text, unsigned base, uint64_t *ret)
{
        const char *p = text->p;
        uint64_t value = 0;

        for (; p < text->end && digit_of(*p) < (int)base; p++)
                if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
                    __builtin_add_overflow(value, (uint64_t)digit_of(*p), &value))
                        return false;
        if (p == text->p)
                return false;
        text->p = p;
        *ret = value;
        return true;
}

bool gf_text_i64(struct gf_text *text, int64_t *ret)
{
        struct gf_text t = *text;
        bool negative = gf_text_char(&t, '-');
        uint64_t value;

        if (!gf_text_u64(&t, 10, &value) || value > INT64_MAX)
                return false;
        *text = t;
        *ret = negative ? -(int64_t)value : (int64_t)value;
        return true;
}

bool gf_text_until(struct gf_text *text, char stop, struct gf_text *ret)
{
        const char *at;

        if (text->p >= text->end)
                return false;
        at = memchr(text->p, stop, (size_t)(text->end - text->p));
        *ret = (struct gf_text){ text->p, at ? at : text->end };
        text->p = at ? at + 1 : text->end;
        return true;
}

static bool is_octal(char c)
{
        return c >= '0' && c <= '7';
}

bool gf_text_unescape(const char *text, size_t length, char *out, size_t size)
{
        size_t n = 0;

        for (size_t i = 0; i < length; i++) {
                char c = text[i];

                if (c == '\\' && length - i > 3 && text[i + 1] <= '3' && is_octal(text[i + 1]) &&
                    is_octal(text[i + 2]) && is_octal(text[i + 3])) {
                        c = (char)((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
                        i += 3;
                }
                if (n + 1 >= size)
                        return false;
                out[n++] = c;
        }
        if (size == 0)
                return false;
        out[n] = '\0';
        return true;
}

/* SPDX-License-Identifier: MIT */
#include "parse/json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DEPTH_MAX 64
#define KEY_MAX 512

static size_t skip_space(struct gf_json t, size_t at)
{
        while (at < t.n && (t.p[at] == ' ' || t.p[at] == '\t' || t.p[at] == '\n' || t.p[at] == '\r'))
                at++;
        return at;
}

/* `at` is on a quote. Where the string ends (behind its quote), or 0. */
static size_t skip_string(struct gf_json t, size_t at)
{
        for (at++; at < t.n; at++) {
                if (t.p[at] == '\\')
                        at++;
                else if (t.p[at] == '"')
                        return at + 1;
        }
        return 0;
}

/* Where the value at `at` ends, or 0. */
static size_t skip_value(struct gf_json t, size_t at)
{
        char open[DEPTH_MAX];
        size_t depth = 0;

        for (;;) {
                at = skip_space(t, at);
                if (at >= t.n)
                        return 0;
                switch (t.p[at]) {
                case '"':
                        at = skip_string(t, at);
                        if (at == 0)
                                return 0;
                        break;
                case '{':
                case '[':
                        if (depth == DEPTH_MAX)
                                return 0;
                        open[depth++] = t.p[at++];
                        continue;
                case '}':
                case ']':
                        if (depth == 0 || open[depth - 1] != (t.p[at] == '}' ? '{' : '['))
                                return 0;
                        depth--;
                        at++;
                        break;
                case ',':
                case ':':
                        if (depth == 0)
                                return 0;
                        at++;
                        continue;
                default:
                        while (at < t.n && !memchr("\"{}[],: \t\n\r", t.p[at], 11))
                                at++;
                }
                if (depth == 0)
                        return at;
        }
}

int gf_json_member(struct gf_json object, const char *key, struct gf_json *ret_value)
{
        char name[KEY_MAX];
        size_t at = skip_space(object, 0);

        if (at >= object.n || object.p[at] != '{')
                return -EINVAL;
        at = skip_space(object, at + 1);
        if (at < object.n && object.p[at] == '}')
                return -ENOENT;
        for (;;) {
                size_t begin, end;
                int r;

                if (at >= object.n || object.p[at] != '"')
                        return -EINVAL;
                end = skip_string(object, at);
                if (end == 0)
                        return -EINVAL;
                r = gf_json_string((struct gf_json){ object.p + at, end - at }, name, sizeof(name));
                at = skip_space(object, end);
                if (at >= object.n || object.p[at] != ':')
                        return -EINVAL;
                begin = skip_space(object, at + 1);
                end = skip_value(object, begin);
                if (end == 0 || end == begin)
                        return -EINVAL;
                if (r == 0 && strcmp(name, key) == 0) {
                        *ret_value = (struct gf_json){ object.p + begin, end - begin };
                        return 0;
                }
                at = skip_space(object, end);
                if (at < object.n && object.p[at] == '}')
                        return -ENOENT;
                if (at >= object.n || object.p[at] != ',')
                        return -EINVAL;
                at = skip_space(object, at + 1);
        }
}

int gf_json_item(struct gf_json array, size_t *cursor, struct gf_json *ret_item)
{
        size_t at = *cursor, end;

        if (at == 0) {
                at = skip_space(array, 0);
                if (at >= array.n || array.p[at] != '[')
                        return -EINVAL;
                at = skip_space(array, at + 1);
                if (at < array.n && array.p[at] == ']')
                        return 0;
        } else {
                at = skip_space(array, at);
                if (at < array.n && array.p[at] == ']')
                        return 0;
                if (at >= array.n || array.p[at] != ',')
                        return -EINVAL;
                at = skip_space(array, at + 1);
        }
        end = skip_value(array, at);
        if (end == 0 || end == at)
                return -EINVAL;
        *ret_item = (struct gf_json){ array.p + at, end - at };
        *cursor = end;
        return 1;
}

static int hex4(const char *p, uint32_t *ret)
{
        uint32_t value = 0;

        for (size_t i = 0; i < 4; i++) {
                char c = p[i];

                if (c >= '0' && c <= '9')
                        value = value * 16 + (uint32_t)(c - '0');
                else if (c >= 'a' && c <= 'f')
                        value = value * 16 + (uint32_t)(c - 'a') + 10;
                else if (c >= 'A' && c <= 'F')
                        value = value * 16 + (uint32_t)(c - 'A') + 10;
                else
                        return -EINVAL;
        }
        *ret = value;
        return 0;
}

/* UTF-8 of a code point; the length. */
static size_t utf8(uint32_t c, char out[static 4])
{
        if (c < 0x80) {
                out[0] = (char)c;
                return 1;
        }
        if (c < 0x800) {
                out[0] = (char)(0xc0 | (c >> 6));
                out[1] = (char)(0x80 | (c & 0x3f));
                return 2;
        }
        if (c < 0x10000) {
                out[0] = (char)(0xe0 | (c >> 12));
                out[1] = (char)(0x80 | ((c >> 6) & 0x3f));
                out[2] = (char)(0x80 | (c & 0x3f));
                return 3;
        }
        out[0] = (char)(0xf0 | (c >> 18));
        out[1] = (char)(0x80 | ((c >> 12) & 0x3f));
        out[2] = (char)(0x80 | ((c >> 6) & 0x3f));
        out[3] = (char)(0x80 | (c & 0x3f));
        return 4;
}

/* The escape at t.p[*at] (on the backslash) as bytes; *at is moved behind it. */
static int decode_escape(struct gf_json t, size_t *at, char out[static 4], size_t *ret_n)
{
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *plain;
        uint32_t c, low;

        if (*at + 1 >= t.n)
                return -EINVAL;
        if (t.p[*at + 1] != 'u') {
                plain = memchr(from, t.p[*at + 1], sizeof(from) - 1);
                if (!plain)
                        return -EINVAL;
                out[0] = to[plain - from];
                *ret_n = 1;
                *at += 2;
                return 0;
        }
        if (*at + 6 > t.n || hex4(t.p + *at + 2, &c) < 0 || c == 0)
                return -EINVAL;
        *at += 6;
        if (c >= 0xd800 && c < 0xdc00 && *at + 6 <= t.n && t.p[*at] == '\\' && t.p[*at + 1] == 'u' &&
            hex4(t.p + *at + 2, &low) == 0 && low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                *at += 6;
        } else if (c >= 0xd800 && c < 0xe000) {
                c = 0xfffd;
        }
        *ret_n = utf8(c, out);
        return 0;
}

int gf_json_string(struct gf_json value, char *buf, size_t size)
{
        size_t out = 0;

        if (value.n < 2 || value.p[0] != '"' || value.p[value.n - 1] != '"')
                return -EINVAL;
        for (size_t at = 1; at < value.n - 1;) {
                char bytes[4];
                size_t n = 1;
                int r;

                if (value.p[at] == '\\') {
                        r = decode_escape((struct gf_json){ value.p, value.n - 1 }, &at, bytes, &n);
                        if (r < 0)
                                return r;
                } else if (value.p[at] == '\0' || value.p[at] == '"') {
                        return -EINVAL;
                } else {
                        bytes[0] = value.p[at++];
                }
                if (out + n + 1 > size)
                        return -ENOSPC;
                memcpy(buf + out, bytes, n);
                out += n;
        }
        if (size == 0)
                return -ENOSPC;
        buf[out] = '\0';
        return 0;
}

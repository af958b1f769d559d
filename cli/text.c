/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <string.h>
#include <wchar.h>

size_t cli_text_decode(const char *s, size_t n, uint32_t *ret_character)
{
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
        uint32_t c;
        size_t length;
        unsigned char first;

        if (n == 0)
                return 0;
        first = (unsigned char)s[0];
        if (first < 0x80) {
                *ret_character = first;
                return 1;
        }
        if (first >= 0xc2 && first < 0xe0) {
                length = 2;
                c = first & 0x1f;
        } else if (first >= 0xe0 && first < 0xf0) {
                length = 3;
                c = first & 0x0f;
        } else if (first >= 0xf0 && first < 0xf5) {
                length = 4;
                c = first & 0x07;
        } else {
                return 0;
        }
        if (length > n)
                return 0;
        for (size_t i = 1; i < length; i++) {
                unsigned char next = (unsigned char)s[i];

                if ((next & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (next & 0x3f);
        }
        if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                return 0;
        *ret_character = c;
        return length;
}

/* Characters that have no cell of their own, turn the direction of text, or hide it. */
static bool deceives(uint32_t c)
{
        static const struct {
                uint32_t first, last;
        } ranges[] = {
                { 0x00ad, 0x00ad },   { 0x034f, 0x034f }, { 0x061c, 0x061c },   { 0x115f, 0x1160 },
                { 0x17b4, 0x17b5 },   { 0x180b, 0x180f }, { 0x200b, 0x200f },   { 0x2028, 0x202e },
                { 0x2060, 0x206f },   { 0x3164, 0x3164 }, { 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },
                { 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
                { 0xe0000, 0xe0fff },
        };

        for (size_t i = 0; i < ELEMENTSOF(ranges); i++)
                if (c >= ranges[i].first && c <= ranges[i].last)
                        return true;
        return false;
}

static bool shown_as_is(uint32_t c, bool utf8)
{
        if (c < 0x80)
                return c >= 0x20 && c != 0x7f;
        return utf8 && c >= 0xa0 && !deceives(c) && wcwidth((wchar_t)c) >= 0;
}

void cli_text_escape(struct gf_str *out, const char *s, size_t n, bool utf8)
{
        while (n > 0) {
                uint32_t c = 0;
                size_t length = cli_text_decode(s, n, &c);

                if (length == 0 || (c < 0x80 && !shown_as_is(c, utf8)))
                        gf_str_addf(out, "\\x%02X", (unsigned)(unsigned char)s[0]);
                else if (shown_as_is(c, utf8))
                        gf_str_addn(out, s, length);
                else
                        gf_str_addf(out, c > 0xffff ? "\\U%08X" : "\\u%04X", (unsigned)c);
                length = length ? length : 1;
                s += length;
                n -= length;
        }
}

void cli_text_plain(struct gf_str *out, const char *s)
{
        static const struct {
                const char *from, *to;
        } marks[] = { { "×", "x" },  { "…", "..." }, { "–", "-" }, { "“", "\"" },
                      { "”", "\"" }, { "’", "'" },   { "→", "->" } };

        while (*s) {
                bool found = false;

                for (size_t i = 0; i < ELEMENTSOF(marks) && !found; i++)
                        if (gf_startswith(s, marks[i].from)) {
                                gf_str_add(out, marks[i].to);
                                s += strlen(marks[i].from);
                                found = true;
                        }
                if (!found)
                        gf_str_addc(out, *s++);
        }
}

static size_t cells(uint32_t c)
{
        int w = c < 0x80 ? (c >= 0x20 && c != 0x7f) : wcwidth((wchar_t)c);

        return w > 0 ? (size_t)w : 0;
}

size_t cli_text_width(const char *s)
{
        size_t n = strlen(s), width = 0;

        while (n > 0) {
                uint32_t c = '?';
                size_t length = cli_text_decode(s, n, &c);

                width += cells(c);
                length = length ? length : 1;
                s += length;
                n -= length;
        }
        return width;
}

/* How many bytes of `s` fit into `width` cells. */
static size_t bytes_that_fit(const char *s, size_t width)
{
        size_t n = strlen(s), at = 0, used = 0;

        while (at < n) {
                uint32_t c = '?';
                size_t length = cli_text_decode(s + at, n - at, &c);

                if (used + cells(c) > width)
                        break;
                used += cells(c);
                at += length ? length : 1;
        }
        return at;
}

void cli_text_fit(struct gf_str *out, const char *s, size_t width, bool utf8)
{
        const char *mark = utf8 ? "…" : "...";

        if (cli_text_width(s) <= width) {
                gf_str_add(out, s);
                return;
        }
        if (width <= cli_text_width(mark)) { /* no room for the mark and a letter */
                gf_str_addn(out, s, bytes_that_fit(s, width));
                return;
        }
        gf_str_addn(out, s, bytes_that_fit(s, width - cli_text_width(mark)));
        gf_str_add(out, mark);
}

static void trim_spaces(struct gf_str *out)
{
        while (out->n > 0 && out->s[out->n - 1] == ' ')
                out->s[--out->n] = '\0';
}

static void new_line(struct gf_str *out, size_t indent, size_t *used)
{
        trim_spaces(out);
        gf_str_addf(out, "\n%*s", (int)indent, "");
        *used = indent;
}

void cli_text_wrap(struct gf_str *out, const char *s, size_t width, size_t indent, size_t start)
{
        size_t used = start;

        if (indent >= width / 2)
                indent = 0;
        while (*s) {
                size_t n = strcspn(s, " "), spaces = strspn(s + n, " ");
                _cleanup_free_ char *word = strndup(s, n);
                char *rest = word;

                if (!word) {
                        out->failed = true;
                        return;
                }
                if (width > 0 && used > indent && used + cli_text_width(word) > width)
                        new_line(out, indent, &used);
                while (width > 0 && used + cli_text_width(rest) > width) { /* longer than a line: broken hard */
                        size_t part = bytes_that_fit(rest, width - used);

                        if (part == 0)
                                break;
                        gf_str_addn(out, rest, part);
                        rest += part;
                        new_line(out, indent, &used);
                }
                gf_str_add(out, rest);
                used += cli_text_width(rest) + spaces;
                for (size_t i = 0; i < spaces; i++)
                        gf_str_addc(out, ' ');
                s += n + spaces;
        }
        trim_spaces(out);
        gf_str_addc(out, '\n');
}

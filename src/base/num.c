/* SPDX-License-Identifier: MIT */
#include "base/num.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Digits of `base` from *p on; *p is moved behind them. */
static int eat_digits(const char **p, unsigned base, uint64_t *ret)
{
        uint64_t value = 0;
        const char *s = *p;

        for (;; s++) {
                unsigned digit;

                if (*s >= '0' && *s <= '9')
                        digit = (unsigned)(*s - '0');
                else if (base == 16 && *s >= 'a' && *s <= 'f')
                        digit = (unsigned)(*s - 'a') + 10;
                else if (base == 16 && *s >= 'A' && *s <= 'F')
                        digit = (unsigned)(*s - 'A') + 10;
                else
                        break;
                if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
                    __builtin_add_overflow(value, (uint64_t)digit, &value))
                        return -ERANGE;
        }
        if (s == *p)
                return -EINVAL;
        *p = s;
        *ret = value;
        return 0;
}

static int parse_all(const char *text, unsigned base, uint64_t *ret)
{
        uint64_t value;
        int r;

        r = eat_digits(&text, base, &value);
        if (r < 0)
                return r;
        if (*text != '\0')
                return -EINVAL;
        *ret = value;
        return 0;
}

int gf_parse_u64(const char *text, uint64_t *ret)
{
        return parse_all(text, 10, ret);
}

int gf_parse_hex64(const char *text, uint64_t *ret)
{
        return parse_all(text, 16, ret);
}

int gf_parse_u32(const char *text, uint32_t *ret)
{
        uint64_t value;
        int r;

        r = parse_all(text, 10, &value);
        if (r < 0)
                return r;
        if (value > UINT32_MAX)
                return -ERANGE;
        *ret = (uint32_t)value;
        return 0;
}

int gf_parse_pid(const char *text, pid_t *ret)
{
        uint64_t value;
        int r;

        r = parse_all(text, 10, &value);
        if (r < 0)
                return r;
        if (value < 1 || value > INT_MAX)
                return -ERANGE;
        *ret = (pid_t)value;
        return 0;
}

struct unit {
        const char *name;
        uint64_t factor;
};

/* "1.5GiB": a number, up to three digits behind a point, one of the units. */
static int parse_with_unit(const char *text, const struct unit *units, size_t n_units, uint64_t *ret)
{
        uint64_t whole, thousandths = 0, value;
        int r;

        if (strcmp(text, "0") == 0) {
                *ret = 0;
                return 0;
        }
        r = eat_digits(&text, 10, &whole);
        if (r < 0)
                return r;
        if (*text == '.') {
                uint64_t scale = 100;

                text++;
                if (*text < '0' || *text > '9')
                        return -EINVAL;
                for (; *text >= '0' && *text <= '9'; text++, scale /= 10)
                        thousandths += (uint64_t)(*text - '0') * scale;
        }
        for (size_t i = 0; i < n_units; i++) {
                uint64_t fraction;

                if (strcmp(text, units[i].name) != 0)
                        continue;
                if (__builtin_mul_overflow(whole, units[i].factor, &value) ||
                    __builtin_mul_overflow(thousandths, units[i].factor, &fraction) ||
                    __builtin_add_overflow(value, fraction / 1000, &value))
                        return -ERANGE;
                *ret = value;
                return 0;
        }
        return -EINVAL;
}

int gf_parse_duration(const char *text, uint64_t *ret_ms)
{
        static const struct unit units[] = {
                { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
        };

        return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), ret_ms);
}

int gf_parse_size(const char *text, uint64_t *ret_bytes)
{
        static const struct unit units[] = {
                { "B", 1 }, { "KiB", 1ULL << 10 }, { "MiB", 1ULL << 20 }, { "GiB", 1ULL << 30 }, { "TiB", 1ULL << 40 },
        };

        return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), ret_bytes);
}

const char *gf_format_size(uint64_t bytes, char buf[static GF_TEXT_MAX])
{
        if (bytes == UINT64_MAX)
                snprintf(buf, GF_TEXT_MAX, "unknown");
        else if (bytes >= 1ULL << 40)
                snprintf(buf, GF_TEXT_MAX, "%.1f TiB", (double)bytes / (double)(1ULL << 40));
        else if (bytes >= 1ULL << 30)
                snprintf(buf, GF_TEXT_MAX, "%.1f GiB", (double)bytes / (double)(1ULL << 30));
        else if (bytes >= 1ULL << 20)
                snprintf(buf, GF_TEXT_MAX, "%llu MiB", (unsigned long long)(bytes >> 20));
        else if (bytes >= 1ULL << 10)
                snprintf(buf, GF_TEXT_MAX, "%llu KiB", (unsigned long long)(bytes >> 10));
        else
                snprintf(buf, GF_TEXT_MAX, "%llu B", (unsigned long long)bytes);
        return buf;
}

const char *gf_format_duration(uint64_t ms, char buf[static GF_TEXT_MAX])
{
        unsigned long long s = ms / 1000;

        if (ms == UINT64_MAX)
                snprintf(buf, GF_TEXT_MAX, "unknown");
        else if (ms < 1000)
                snprintf(buf, GF_TEXT_MAX, "%llu ms", (unsigned long long)ms);
        else if (ms < 60000)
                snprintf(buf, GF_TEXT_MAX, "%.1f s", (double)ms / 1000);
        else if (s < 3600)
                snprintf(buf, GF_TEXT_MAX, "%llum %02llus", s / 60, s % 60);
        else if (s < 86400)
                snprintf(buf, GF_TEXT_MAX, "%lluh %02llum", s / 3600, s % 3600 / 60);
        else
                snprintf(buf, GF_TEXT_MAX, "%llud %02lluh", s / 86400, s % 86400 / 3600);
        return buf;
}

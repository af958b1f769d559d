/* SPDX-License-Identifier: MIT */
#include "parse/unitfile.h"

#include <string.h>

static bool is_space(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **p, size_t *n)
{
        while (*n > 0 && is_space(**p)) {
                (*p)++;
                (*n)--;
        }
        while (*n > 0 && is_space((*p)[*n - 1]))
                (*n)--;
}

static bool equal(const char *p, size_t n, const char *text)
{
        return strlen(text) == n && memcmp(p, text, n) == 0;
}

/* Reads "key = value" or "key: value". */
static bool split(const char *p, size_t n, const char **ret_key, size_t *ret_key_n, const char **ret_value,
                  size_t *ret_value_n)
{
        size_t k = 0;

        while (k < n && p[k] != '=' && p[k] != ':')
                k++;
        if (k == n)
                return false;
        *ret_key = p;
        *ret_key_n = k;
        trim(ret_key, ret_key_n);
        *ret_value = p + k + 1;
        *ret_value_n = n - k - 1;
        trim(ret_value, ret_value_n);
        return true;
}

bool gf_unitfile_get(const char *text, const char *section, const char *key, char *buf, size_t size)
{
        bool inside = section == NULL, found = false, continued = false;

        for (const char *next; *text; text = next) {
                const char *p = text, *k, *v;
                size_t n = strcspn(text, "\n"), kn, vn;
                bool was = continued;

                next = text + n + (text[n] == '\n');
                trim(&p, &n);
                if (n > 0 && (*p == '#' || *p == ';'))
                        continue;
                continued = n > 0 && p[n - 1] == '\\';
                if (was || n == 0)
                        continue;
                if (*p == '[') {
                        if (!section)
                                break;
                        inside = n > 2 && p[n - 1] == ']' && equal(p + 1, n - 2, section);
                        continue;
                }
                if (!inside || !split(p, n, &k, &kn, &v, &vn) || !equal(k, kn, key))
                        continue;
                found = vn < size;
                if (found) {
                        memcpy(buf, v, vn);
                        buf[vn] = '\0';
                }
        }
        return found;
}

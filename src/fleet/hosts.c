/* SPDX-License-Identifier: MIT */
#include "fleet/hosts.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

_printf_(2, 3) static int wrong(char **ret_error, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        *ret_error = gf_vasprintf(format, ap);
        va_end(ap);
        return *ret_error ? -EINVAL : -ENOMEM;
}

/* By name, the earlier first. */
static int compare_names(const void *a, const void *b)
{
        const char *const *x = *(const char *const *const *)a, *const *y = *(const char *const *const *)b;
        int r = strcmp(*x, *y);

        return r != 0 ? r : (x > y) - (x < y);
}

/* Keeps the first of each name, in order: by sorting, since a range of thousands may be written many times over. */
static int keep_first(gf_strv *hosts)
{
        _cleanup_free_ char ***sorted = calloc(hosts->n ? hosts->n : 1, sizeof(*sorted));
        size_t n = 0;

        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < hosts->n; i++)
                sorted[i] = &hosts->v[i];
        qsort(sorted, hosts->n, sizeof(*sorted), compare_names);
        for (size_t i = hosts->n; i-- > 1;)
                if (strcmp(*sorted[i], *sorted[i - 1]) == 0) {
                        free(*sorted[i]);
                        *sorted[i] = NULL;
                }
        for (size_t i = 0; i < hosts->n; i++)
                if (hosts->v[i])
                        hosts->v[n++] = hosts->v[i];
        hosts->n = n;
        return 0;
}

static int too_many(char **ret_error)
{
        return wrong(ret_error, "more than %d hosts", FLEET_HOSTS_MAX);
}

/* Now and then, and at the end, each name is kept once: the list is never long. */
static int add(gf_strv *hosts, const char *name, char **ret_error)
{
        if (hosts->n >= (size_t)2 * FLEET_HOSTS_MAX) {
                int r = keep_first(hosts);

                if (r < 0)
                        return r;
                if (hosts->n > FLEET_HOSTS_MAX)
                        return too_many(ret_error);
        }
        return gf_strv_add(hosts, name);
}

static int finish(gf_strv *hosts, char **ret_error)
{
        int r = keep_first(hosts);

        return r < 0 ? r : hosts->n > FLEET_HOSTS_MAX ? too_many(ret_error) : 0;
}

/* "01" of "01-64" in `text`, up to `length` bytes: a number of at most nine digits. */
static int take_number(const char *text, size_t length, uint32_t *ret)
{
        char digits[10];

        if (length == 0 || length >= sizeof(digits))
                return -EINVAL;
        memcpy(digits, text, length);
        digits[length] = '\0';
        return gf_parse_u32(digits, ret);
}

/* One name while it is expanded. `left` bounds the work: the same name many times costs too. */
struct expansion {
        gf_strv *hosts;
        const char *whole;
        size_t left;
        char **ret_error;
};

static int expand(struct expansion *expansion, const char *before, const char *rest);

/* One item of a range: "7", "01-64". Leading zeros stay. */
static int expand_item(struct expansion *expansion, const char *before, const char *item, size_t n_item,
                       const char *rest)
{
        const char *dash = memchr(item, '-', n_item);
        size_t width = dash ? (size_t)(dash - item) : n_item;
        uint32_t first, last;

        if (take_number(item, width, &first) < 0 ||
            take_number(dash ? dash + 1 : item, dash ? n_item - width - 1 : n_item, &last) < 0)
                return wrong(expansion->ret_error, "\"%s\": \"%.*s\" is no range (like 01-64 or 1,4,7-9)",
                             expansion->whole, (int)n_item, item);
        if (first > last)
                return wrong(expansion->ret_error, "\"%s\": the range %.*s runs backwards", expansion->whole,
                             (int)n_item, item);
        for (uint32_t i = first; i <= last; i++) {
                _cleanup_free_ char *name = gf_asprintf("%s%0*u", before, (int)width, i);
                int r;

                if (!name)
                        return -ENOMEM;
                if (expansion->left-- == 0)
                        return wrong(expansion->ret_error, "\"%s\": more than %d hosts", expansion->whole,
                                     FLEET_HOSTS_MAX);
                r = expand(expansion, name, rest);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* `before` is done; `rest` may have ranges, up to its first slash. */
static int expand(struct expansion *expansion, const char *before, const char *rest)
{
        size_t plain = strcspn(rest, "[]/");
        _cleanup_free_ char *name = NULL;
        const char *item, *end;

        if (rest[plain] != '[') {
                if (rest[plain] == ']')
                        return wrong(expansion->ret_error, "\"%s\": a \"]\" without \"[\"", expansion->whole);
                name = gf_asprintf("%s%s", before, rest);
                return name ? add(expansion->hosts, name, expansion->ret_error) : -ENOMEM;
        }
        name = gf_asprintf("%s%.*s", before, (int)plain, rest);
        if (!name)
                return -ENOMEM;
        item = rest + plain + 1;
        end = strchr(item, ']');
        if (!end)
                return wrong(expansion->ret_error, "\"%s\": a \"[\" without \"]\"", expansion->whole);
        for (;;) {
                size_t n = strcspn(item, ",]");
                int r = expand_item(expansion, name, item, n, end + 1);

                if (r < 0)
                        return r;
                if (item[n] == ']')
                        return 0;
                item += n + 1;
        }
}

/* One target, ranges in its host expanded; a comma outside of brackets belongs to its name. */
static int add_one(gf_strv *hosts, const char *target, size_t length, char **ret_error)
{
        _cleanup_free_ char *whole = NULL;
        size_t brackets = 0;

        if (length == 0)
                return wrong(ret_error, "an empty host in the list");
        if (length > 4096)
                return wrong(ret_error, "a host of more than 4096 bytes");
        whole = strndup(target, length);
        if (!whole)
                return -ENOMEM;
        for (const char *c = whole; *c && *c != '/'; c++)
                brackets += *c == '[';
        if (brackets > 4) /* each multiplies */
                return wrong(ret_error, "\"%s\": more than 4 ranges in one name", whole);
        return expand(&(struct expansion){ hosts, whole, (size_t)2 * FLEET_HOSTS_MAX, ret_error }, "", whole);
}

int fleet_hosts_add(gf_strv *hosts, const char *list, char **ret_error)
{
        for (;;) {
                bool in_range = false, in_name = false;
                size_t n;
                int r;

                for (n = 0; list[n] && (list[n] != ',' || in_range); n++) {
                        in_name |= list[n] == '/';
                        if (!in_name && list[n] == '[')
                                in_range = true;
                        else if (list[n] == ']' || in_name)
                                in_range = false;
                }
                r = add_one(hosts, list, n, ret_error);
                if (r < 0)
                        return r;
                if (!list[n])
                        return finish(hosts, ret_error);
                list += n + 1;
        }
}

int fleet_hosts_add_text(gf_strv *hosts, const char *text, char **ret_error)
{
        while (*text) {
                size_t n = strcspn(text, "\n"), begin = strspn(text, " \t\r"), end = n;
                int r;

                while (end > begin && strchr(" \t\r", text[end - 1]))
                        end--;
                if (begin < end && text[begin] != '#') {
                        r = add_one(hosts, text + begin, end - begin, ret_error);
                        if (r < 0)
                                return r;
                }
                text += n + (text[n] == '\n');
        }
        return finish(hosts, ret_error);
}

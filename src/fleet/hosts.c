/* SPDX-License-Identifier: MIT */
#include "fleet/hosts.h"

#include <errno.h>
#include <stdint.h>
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

static int add_unique(gf_strv *hosts, const char *name, char **ret_error)
{
        if (gf_strv_has(hosts, name))
                return 0;
        if (hosts->n >= FLEET_HOSTS_MAX)
                return wrong(ret_error, "more than %d hosts", FLEET_HOSTS_MAX);
        return gf_strv_add(hosts, name);
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
                return name ? add_unique(expansion->hosts, name, expansion->ret_error) : -ENOMEM;
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

int fleet_hosts_add_one(gf_strv *hosts, const char *target, size_t length, char **ret_error)
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
                r = fleet_hosts_add_one(hosts, list, n, ret_error);
                if (r < 0)
                        return r;
                if (!list[n])
                        return 0;
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
                        r = fleet_hosts_add_one(hosts, text + begin, end - begin, ret_error);
                        if (r < 0)
                                return r;
                }
                text += n + (text[n] == '\n');
        }
        return 0;
}

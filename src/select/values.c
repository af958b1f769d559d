/* SPDX-License-Identifier: MIT */
#include "select/values.h"

int gf_bad_value(char **ret_error, const char *format, ...)
{
        va_list ap;
        char *text;

        if (!ret_error)
                return -EINVAL;
        va_start(ap, format);
        text = gf_vasprintf(format, ap);
        va_end(ap);
        if (!text)
                return -ENOMEM;
        *ret_error = text;
        return -EINVAL;
}

char *gf_quoted(const char *value)
{
        enum { LONGEST = 80 };
        struct gf_str str = { 0 };
        char *text;

        gf_str_addc(&str, '"');
        for (size_t i = 0; value[i]; i++) {
                unsigned char c = (unsigned char)value[i];

                /* Cut between characters, not inside one of UTF-8. */
                if (i >= LONGEST && (c & 0xc0) != 0x80) {
                        gf_str_add(&str, "…");
                        break;
                }
                if (i >= LONGEST + 4) {
                        gf_str_add(&str, "…");
                        break;
                }
                if (c < 0x20 || c == 0x7f)
                        gf_str_addf(&str, "\\x%02x", c);
                else
                        gf_str_addc(&str, (char)c);
        }
        gf_str_addc(&str, '"');
        return gf_str_take(&str, &text) < 0 ? NULL : text;
}

int gf_each_item(const char *list, int (*one)(void *userdata, const char *item, char **ret_error), void *userdata,
                 char **ret_error)
{
        for (;;) {
                size_t length = strcspn(list, ",");
                _cleanup_free_ char *item = strndup(list, length);
                int r;

                if (!item)
                        return -ENOMEM;
                r = one(userdata, item, ret_error);
                if (r < 0)
                        return r;
                if (list[length] == '\0')
                        return 0;
                list += length + 1;
        }
}

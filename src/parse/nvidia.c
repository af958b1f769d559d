/* SPDX-License-Identifier: MIT */
#include "parse/nvidia.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/str.h"

/* Linux has 512 major numbers; several drivers can share one. */
#define MAJORS_MAX 4096

/* Copies the line's value behind its blanks into `dst`; too long a value is as good as none. */
static void take_value(const char *value, size_t length, char *dst, size_t size)
{
        while (length > 0 && (*value == ' ' || *value == '\t')) {
                value++;
                length--;
        }
        while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t' || value[length - 1] == '\r'))
                length--;
        if (length >= size)
                length = 0;
        memcpy(dst, value, length);
        dst[length] = '\0';
}

static bool eat_hex(const char **p, size_t most, uint64_t *ret)
{
        char digits[17];
        size_t n = strspn(*p, "0123456789abcdefABCDEF");

        if (n == 0 || n > most || n >= sizeof(digits))
                return false;
        memcpy(digits, *p, n);
        digits[n] = '\0';
        *p += n;
        return gf_parse_hex64(digits, ret) == 0;
}

int gf_parse_pci(const char *text, char *ret_pci, size_t size)
{
        uint64_t domain, bus, slot, function;
        int n;

        if (!eat_hex(&text, 8, &domain) || *text++ != ':' || !eat_hex(&text, 2, &bus) || *text++ != ':' ||
            !eat_hex(&text, 2, &slot) || *text++ != '.' || !eat_hex(&text, 1, &function) || *text != '\0')
                return -EINVAL;
        if (slot > 31 || function > 7)
                return -EINVAL;
        n = snprintf(ret_pci, size, "%04x:%02x:%02x.%x", (unsigned)domain, (unsigned)bus, (unsigned)slot,
                     (unsigned)function);
        return n < 0 || (size_t)n >= size ? -EINVAL : 0;
}

static void information_line(struct gf_nvidia_information *info, const char *line, size_t length)
{
        const char *colon = memchr(line, ':', length);
        char value[96];
        uint32_t number;
        size_t key;

        if (!colon)
                return;
        key = (size_t)(colon - line);
        take_value(colon + 1, length - key - 1, value, sizeof(value));
        if (key == strlen("Model") && memcmp(line, "Model", key) == 0)
                memcpy(info->model, value, sizeof(value));
        else if (key == strlen("GPU UUID") && memcmp(line, "GPU UUID", key) == 0 && !strchr(value, '?'))
                memcpy(info->uuid, value, sizeof(value));
        else if (key == strlen("Bus Location") && memcmp(line, "Bus Location", key) == 0)
                (void)gf_parse_pci(value, info->pci, sizeof(info->pci));
        else if (key == strlen("Device Minor") && memcmp(line, "Device Minor", key) == 0 &&
                 gf_parse_u32(value, &number) == 0 && number < 1U << 20)
                info->minor = (int)number;
        else if (key == strlen("GPU Excluded") && memcmp(line, "GPU Excluded", key) == 0)
                info->excluded = strcmp(value, "Yes") == 0;
}

int gf_parse_nvidia_information(const char *text, struct gf_nvidia_information *ret)
{
        struct gf_nvidia_information info = { .minor = -1 };

        while (*text) {
                size_t length = strcspn(text, "\n");

                information_line(&info, text, length);
                text += length;
                if (*text == '\n')
                        text++;
        }
        if (!info.pci[0] && info.minor < 0)
                return -EINVAL;
        *ret = info;
        return 0;
}

/* "195 nvidia-frontend", with blanks before. False for anything else. */
static bool major_line(const char *line, size_t length, struct gf_major *ret)
{
        char copy[64], *name;
        uint32_t number;

        take_value(line, length, copy, sizeof(copy));
        name = strchr(copy, ' ');
        if (!name)
                return false;
        *name++ = '\0';
        if (gf_parse_u32(copy, &number) < 0 || !*name || strlen(name) >= sizeof(ret->name))
                return false;
        ret->major = number;
        memcpy(ret->name, name, strlen(name) + 1);
        return true;
}

int gf_parse_char_majors(const char *text, struct gf_majors *ret)
{
        struct gf_majors majors = { .known = true };
        bool characters = false;

        while (*text && majors.list.n < MAJORS_MAX) {
                size_t length = strcspn(text, "\n");
                struct gf_major found = { 0 }, *slot;

                if (gf_startswith(text, "Character devices:"))
                        characters = true;
                else if (gf_startswith(text, "Block devices:"))
                        characters = false;
                else if (characters && major_line(text, length, &found)) {
                        slot = gf_vec_add(&majors.list);
                        if (!slot) {
                                gf_majors_done(&majors);
                                return -ENOMEM;
                        }
                        *slot = found;
                }
                text += length;
                if (*text == '\n')
                        text++;
        }
        *ret = majors;
        return 0;
}

const struct gf_major *gf_majors_find(const struct gf_majors *majors, unsigned major, const char *prefix)
{
        for (size_t i = 0; i < majors->list.n; i++)
                if (majors->list.v[i].major == major && gf_startswith(majors->list.v[i].name, prefix))
                        return &majors->list.v[i];
        return NULL;
}

int gf_majors_of(const struct gf_majors *majors, const char *name)
{
        for (size_t i = 0; i < majors->list.n; i++)
                if (gf_streq(majors->list.v[i].name, name))
                        return (int)majors->list.v[i].major;
        return -1;
}

void gf_majors_done(struct gf_majors *majors)
{
        gf_vec_done(&majors->list);
        majors->known = false;
}

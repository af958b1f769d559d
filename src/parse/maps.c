/* SPDX-License-Identifier: MIT */
#include "parse/maps.h"

#include <errno.h>
#include <string.h>

#include "parse/text.h"

/* "fe:01", in `base`. */
static bool take_dev(struct gf_text *t, unsigned base, uint32_t *ret_major, uint32_t *ret_minor)
{
        uint64_t a, b;

        if (!gf_text_u64(t, base, &a) || !gf_text_char(t, ':') || !gf_text_u64(t, base, &b) || a > UINT32_MAX ||
            b > UINT32_MAX)
                return false;
        *ret_major = (uint32_t)a;
        *ret_minor = (uint32_t)b;
        return true;
}

int gf_parse_maps_line(const char *line, size_t length, struct gf_map *ret)
{
        struct gf_text t = { line, line + length };
        struct gf_map map = { 0 };

        if (!gf_text_u64(&t, 16, &map.start) || !gf_text_char(&t, '-') || !gf_text_u64(&t, 16, &map.end) ||
            !gf_text_char(&t, ' ') || t.end - t.p < 4)
                return -EINVAL;
        memcpy(map.perms, t.p, 4);
        t.p += 4;
        if (!gf_text_char(&t, ' ') || !gf_text_u64(&t, 16, &map.offset) || !gf_text_char(&t, ' ') ||
            !take_dev(&t, 16, &map.dev_major, &map.dev_minor) || !gf_text_char(&t, ' ') ||
            !gf_text_u64(&t, 10, &map.ino))
                return -EINVAL;
        if (t.p < t.end && *t.p != ' ')
                return -EINVAL;
        gf_text_skip(&t, ' ');
        map.name = t.p;
        map.n_name = (size_t)(t.end - t.p);
        *ret = map;
        return 0;
}

int gf_parse_mountinfo_line(const char *line, size_t length, struct gf_mount *ret)
{
        struct gf_text t = { line, line + length }, word, fstype, source;
        struct gf_mount mount = { 0 };
        uint64_t id;

        if (!gf_text_u64(&t, 10, &id) || !gf_text_char(&t, ' ') || !gf_text_u64(&t, 10, &id) ||
            !gf_text_char(&t, ' ') || !take_dev(&t, 10, &mount.dev_major, &mount.dev_minor) || !gf_text_char(&t, ' '))
                return -EINVAL;
        if (!gf_text_until(&t, ' ', &word) || !gf_text_until(&t, ' ', &word)) /* root, then where it is mounted */
                return -EINVAL;
        mount.point = word.p;
        mount.n_point = (size_t)(word.end - word.p);
        do /* options and any number of optional fields, up to a dash */
                if (!gf_text_until(&t, ' ', &word))
                        return -EINVAL;
        while (word.end - word.p != 1 || *word.p != '-');
        if (!gf_text_until(&t, ' ', &fstype) || !gf_text_until(&t, ' ', &source))
                return -EINVAL;
        mount.fstype = fstype.p;
        mount.n_fstype = (size_t)(fstype.end - fstype.p);
        mount.super_options = t.p;
        mount.n_super_options = (size_t)(t.end - t.p);
        *ret = mount;
        return 0;
}

static enum gf_hidepid hidepid_value(struct gf_text value)
{
        if (gf_text_word(&value, "1") || gf_text_word(&value, "noaccess"))
                return GF_HIDEPID_NOACCESS;
        if (gf_text_word(&value, "2") || gf_text_word(&value, "invisible"))
                return GF_HIDEPID_INVISIBLE;
        if (gf_text_word(&value, "4") || gf_text_word(&value, "ptraceable"))
                return GF_HIDEPID_PTRACEABLE;
        return GF_HIDEPID_OFF;
}

enum gf_hidepid gf_parse_hidepid(const char *options, size_t length, uint32_t *ret_gid)
{
        struct gf_text t = { options, options + length }, option;
        enum gf_hidepid hidepid = GF_HIDEPID_OFF;
        uint64_t gid = 0;

        while (gf_text_until(&t, ',', &option)) {
                if (gf_text_word(&option, "hidepid="))
                        hidepid = hidepid_value(option);
                else if (gf_text_word(&option, "gid="))
                        (void)gf_text_u64(&option, 10, &gid);
        }
        *ret_gid = gid <= UINT32_MAX ? (uint32_t)gid : 0;
        return hidepid;
}

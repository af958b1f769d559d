/* SPDX-License-Identifier: MIT */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "parse/fdinfo.h"
#include "parse/maps.h"
#include "parse/text.h"

static void check_inside(const struct gf_text *line, const char *part, size_t length)
{
        if (part < line->p || part + length > line->end)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *)data;
        struct gf_text t = { text, text + size }, line;
        struct gf_ring_text ring = { 0 };
        struct gf_fdinfo info;
        struct gf_mount mount;
        struct gf_map map;
        char out[64];
        uint32_t gid;

        gf_parse_fdinfo(text, size, &info);
        if (!memchr(info.exporter, '\0', sizeof(info.exporter)))
                abort();
        while (gf_text_line(&t, &line)) {
                size_t length = (size_t)(line.end - line.p), n;
                const char *name;

                if (gf_ring_line(&ring, line.p, length, &name, &n)) {
                        check_inside(&line, name, n);
                        if (gf_text_unescape(name, n, out, sizeof(out)) && !memchr(out, '\0', sizeof(out)))
                                abort();
                }
                if (gf_parse_maps_line(line.p, length, &map) == 0)
                        check_inside(&line, map.name, map.n_name);
                if (gf_parse_mountinfo_line(line.p, length, &mount) == 0) {
                        check_inside(&line, mount.point, mount.n_point);
                        check_inside(&line, mount.fstype, mount.n_fstype);
                        check_inside(&line, mount.super_options, mount.n_super_options);
                        (void)gf_parse_hidepid(mount.super_options, mount.n_super_options, &gid);
                }
        }
        return 0;
}

/* SPDX-License-Identifier: MIT */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "parse/process.h"
#include "parse/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *)data;
        struct gf_text t = { text, text + size }, line;
        struct gf_cgroup_line cgroup;
        struct gf_status status;
        struct gf_stat stat;

        if (gf_parse_stat(text, size, &stat) == 0 && (strlen(stat.comm) >= sizeof(stat.comm) || stat.pid < 0))
                abort();
        gf_parse_status(text, size, &status);
        if ((status.nspid != 0) > (status.nspid_levels != 0))
                abort();
        while (gf_text_line(&t, &line))
                if (gf_parse_cgroup_line(line.p, (size_t)(line.end - line.p), &cgroup) == 0 &&
                    (cgroup.path + cgroup.n_path != line.end || cgroup.path[0] != '/' || cgroup.controllers < line.p))
                        abort();
        return 0;
}

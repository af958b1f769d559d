/* SPDX-License-Identifier: MIT */
#include "owner/label.h"

#include <string.h>

#include "base/str.h"

/* As `docker ps` shows it. */
#define SHORT_ID 12
#define LONG_NUMBER 24

/* "job_runner/6d9c83fcea03": long numbers of a path cut as container ids are; they tell nobody anything. */
static char *short_path(const char *path)
{
        struct gf_str out = { 0 };
        char *text = NULL;

        while (*path) {
                size_t n = strcspn(path, "/");
                bool number = n >= LONG_NUMBER && strspn(path, "0123456789abcdefABCDEF-") >= n;

                gf_str_addn(&out, path, number ? SHORT_ID : n);
                path += n;
                if (*path) {
                        gf_str_addc(&out, '/');
                        path++;
                }
        }
        return gf_str_take(&out, &text) < 0 ? NULL : text;
}

char *gf_label_of(const char *kind, const char *runtime, const char *id, const char *name)
{
        static const char *const runtimes[][2] = { { "proxmox", "lxc" }, { "cri", "container" } };
        const char *open = name ? " (" : "", *close = name ? ")" : "";
        size_t shown = strlen(id);

        if (strcmp(kind, "cgroup") == 0) {
                _cleanup_free_ char *path = short_path(id);

                return path ? gf_asprintf("cgroup %s", path) : NULL;
        }
        if (strcmp(kind, "pod") == 0)
                return gf_asprintf("pod %s", name ? name : id);
        if (strcmp(kind, "job") == 0)
                return runtime ? gf_asprintf("job %s (%s)", id, runtime) : gf_asprintf("job %s", id);
        if (strcmp(kind, "service") == 0)
                return gf_asprintf("%s (%s)", name ? name : id, runtime);
        if (strcmp(kind, "launcher") == 0)
                return gf_asprintf("%s%s%s", runtime, name ? " " : "", name ? name : "");
        if (name && strcmp(name, id) == 0)
                open = name = close = "";
        if (!name)
                name = "";
        if (strcmp(kind, "vm") == 0 || strcmp(kind, "session") == 0)
                return gf_asprintf("%s %s%s%s%s", kind, id, open, name, close);
        if (strcmp(kind, "container") == 0 || strcmp(kind, "monitor") == 0) {
                const char *prefix = runtime ? runtime : "container";

                for (size_t i = 0; i < ELEMENTSOF(runtimes); i++)
                        if (strcmp(prefix, runtimes[i][0]) == 0)
                                prefix = runtimes[i][1];
                if (shown == 64)
                        shown = SHORT_ID;
                return gf_asprintf("%s%s:%.*s%s%s%s", prefix, strcmp(kind, "monitor") == 0 ? " monitor" : "",
                                   (int)shown, id, open, name, close);
        }
        return gf_asprintf("%s%s%s%s", id, open, name, close);
}

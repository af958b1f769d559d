/* SPDX-License-Identifier: MIT */
#include "owner/names.h"

#include <fcntl.h>
#include <string.h>

#include "base/num.h"
#include "parse/json.h"
#include "parse/unitfile.h"
#include "sys/safefile.h"

#define CONFIG_MAX (1024 * 1024)
#define STORE_MAX (8 * 1024 * 1024)
#define SLOW_MS 1000

/* A file that can hold secrets, wiped when it goes. */
struct secret {
        char *text;
        size_t n;
};

static void secret_done(struct secret *s)
{
        gf_wipe(s->text, s->n);
        *s = (struct secret){ 0 };
}

#define _cleanup_secret_ _cleanup_(secret_done)

/* What lies in the home of `manager`'s user may be on a network and hang. */
_printf_(5, 6) static int load(const struct gf_places *places, uint32_t manager, size_t max, struct secret *ret,
                               const char *format, ...)
{
        _cleanup_free_ char *tail = NULL, *path = NULL;
        va_list ap;

        va_start(ap, format);
        tail = gf_vasprintf(format, ap);
        va_end(ap);
        path = tail ? gf_asprintf("%s%s", places->root, tail) : NULL;
        if (!path)
                return -ENOMEM;
        if (manager != UINT32_MAX)
                return gf_slow_read(path, max, SLOW_MS, &ret->text, &ret->n);
        return gf_safe_read(AT_FDCWD, path, max, &ret->text, &ret->n);
}

/* The string at `key`, or below `outer` when that is not NULL. */
static int pick(const struct secret *s, const char *outer, const char *key, char *buf, size_t size)
{
        struct gf_json value = { s->text, s->n };
        int r = 0;

        if (outer)
                r = gf_json_member(value, outer, &value);
        if (r == 0)
                r = gf_json_member(value, key, &value);
        return r < 0 ? r : gf_json_string(value, buf, size);
}

int gf_passwd_find(const struct gf_places *places, uint32_t uid, char **ret_name, char **ret_home)
{
        _cleanup_secret_ struct secret file = { 0 };
        char *save = NULL;
        int r;

        r = load(places, UINT32_MAX, CONFIG_MAX, &file, "/etc/passwd");
        if (r < 0)
                return r;
        for (char *line = strtok_r(file.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                char *field[7] = { line };
                uint32_t value;
                size_t n = 1;

                for (char *p = line; *p && n < ELEMENTSOF(field); p++)
                        if (*p == ':') {
                                *p = '\0';
                                field[n++] = p + 1;
                        }
                if (n < 6 || gf_parse_u32(field[2], &value) < 0 || value != uid)
                        continue;
                if (field[5][0] != '/')
                        return -ENOENT;
                if ((ret_name && gf_strset(ret_name, field[0]) < 0) || (ret_home && gf_strset(ret_home, field[5]) < 0))
                        return -ENOMEM;
                return 0;
        }
        return -ENOENT;
}

/* Where this container's Docker keeps its data, for the machine's or a user's own. */
static int docker_dir(const struct gf_places *places, const struct gf_cgroup_owner *owner, char **ret_dir)
{
        _cleanup_secret_ struct secret file = { 0 };
        _cleanup_free_ char *home = NULL, *dir = NULL;
        char root[GF_CGROUP_TEXT * 4] = "/var/lib/docker";
        int r;

        if (owner->manager != UINT32_MAX) {
                r = gf_passwd_find(places, owner->manager, NULL, &home);
                if (r < 0)
                        return r;
                dir = gf_asprintf("%s/.local/share/docker/containers/%s", home, owner->id);
        } else {
                if (load(places, UINT32_MAX, CONFIG_MAX, &file, "/etc/docker/daemon.json") == 0)
                        (void)pick(&file, NULL, "data-root", root, sizeof(root));
                dir = gf_asprintf("%s/containers/%s", root, owner->id);
        }
        if (!dir)
                return -ENOMEM;
        *ret_dir = TAKE(dir);
        return 0;
}

static int docker_name(const struct gf_places *places, const struct gf_cgroup_owner *owner, char *buf, size_t size)
{
        _cleanup_secret_ struct secret file = { 0 };
        _cleanup_free_ char *dir = NULL;
        int r;

        r = docker_dir(places, owner, &dir);
        if (r == 0)
                r = load(places, owner->manager, CONFIG_MAX, &file, "%s/config.v2.json", dir);
        if (r == 0)
                r = pick(&file, NULL, "Name", buf, size);
        if (r == 0 && buf[0] == '/')
                memmove(buf, buf + 1, strlen(buf));
        return r;
}

int gf_docker_policy(const struct gf_places *places, const struct gf_cgroup_owner *owner, char *buf, size_t size)
{
        _cleanup_secret_ struct secret file = { 0 };
        _cleanup_free_ char *dir = NULL;
        int r;

        r = docker_dir(places, owner, &dir);
        if (r == 0)
                r = load(places, owner->manager, CONFIG_MAX, &file, "%s/hostconfig.json", dir);
        if (r == 0)
                r = pick(&file, "RestartPolicy", "Name", buf, size);
        return r < 0 ? -ENOENT : 0;
}

/* containers.json of containers/storage: [{"id": …, "names": ["vllm"], …}, …] */
static int storage_name(const struct secret *file, const char *id, char *buf, size_t size)
{
        struct gf_json item, value, all = { file->text, file->n };
        char text[GF_CGROUP_TEXT];
        size_t cursor = 0, first = 0;

        while (gf_json_item(all, &cursor, &item) == 1) {
                if (gf_json_member(item, "id", &value) < 0 || gf_json_string(value, text, sizeof(text)) < 0 ||
                    strcmp(text, id) != 0)
                        continue;
                if (gf_json_member(item, "names", &value) < 0 || gf_json_item(value, &first, &item) != 1)
                        return -ENOENT;
                return gf_json_string(item, buf, size);
        }
        return -ENOENT;
}

static int podman_name(const struct gf_places *places, const struct gf_cgroup_owner *owner, char *buf, size_t size)
{
        static const char *const files[] = { "containers.json", "volatile-containers.json" };
        _cleanup_free_ char *home = NULL, *base = NULL;
        int r = -ENOENT;

        if (owner->manager != UINT32_MAX && gf_passwd_find(places, owner->manager, NULL, &home) < 0)
                return -ENOENT;
        base = home ? gf_asprintf("%s/.local/share", home) : strdup("/var/lib");
        if (!base)
                return -ENOMEM;
        for (size_t i = 0; i < ELEMENTSOF(files) && r < 0; i++) {
                _cleanup_secret_ struct secret file = { 0 };

                r = load(places, owner->manager, STORE_MAX, &file, "%s/containers/storage/overlay-containers/%s", base,
                         files[i]);
                if (r == 0)
                        r = storage_name(&file, owner->id, buf, size);
        }
        return r;
}

static bool ends_with(const char *name, const void *suffix)
{
        return gf_endswith(name, suffix);
}

/* /var/log/pods/NS_POD_UID: "NS/POD". */
static int pod_name(const struct gf_places *places, const char *uid, char *buf, size_t size)
{
        _cleanup_free_ char *dir = gf_asprintf("%s/var/log/pods", places->root), *suffix = gf_asprintf("_%s", uid);
        _cleanup_free_ char *name = NULL;
        char *under;
        int r;

        if (!dir || !suffix)
                return -ENOMEM;
        r = gf_find_name(dir, ends_with, suffix, &name);
        if (r < 0)
                return r;
        name[strlen(name) - strlen(suffix)] = '\0';
        under = strchr(name, '_');
        if (!under)
                return -ENOENT;
        *under = '/';
        return snprintf(buf, size, "%s", name) < (int)size ? 0 : -ENOSPC;
}

/* /var/log/containers/POD_NS_CONTAINER-ID.log: "CONTAINER". */
static int cri_name(const struct gf_places *places, const char *id, char *buf, size_t size)
{
        _cleanup_free_ char *dir = gf_asprintf("%s/var/log/containers", places->root);
        _cleanup_free_ char *suffix = gf_asprintf("-%s.log", id), *name = NULL;
        const char *last;
        int r;

        if (!dir || !suffix)
                return -ENOMEM;
        r = gf_find_name(dir, ends_with, suffix, &name);
        if (r < 0)
                return r;
        name[strlen(name) - strlen(suffix)] = '\0';
        last = strrchr(name, '_');
        return last && snprintf(buf, size, "%s", last + 1) < (int)size ? 0 : -ENOENT;
}

bool gf_place_has(const struct gf_places *places, const char *path)
{
        _cleanup_free_ char *whole = gf_asprintf("%s%s", places->root, path);

        return whole && gf_is_there(whole);
}

static bool is_there(const struct gf_places *places, const char *directory, const char *id)
{
        _cleanup_free_ char *path = gf_asprintf("%s%s/%s", places->root, directory, id);

        return path && gf_is_there(path);
}

/* A bare ID under a parent that somebody chose: whose state directory knows it? */
static const char *container_runtime(const struct gf_places *places, const struct gf_cgroup_owner *owner)
{
        static const struct {
                const char *directory, *runtime;
        } rows[] = {
                { "/var/lib/docker/containers", "docker" },
                { "/run/containerd/io.containerd.runtime.v2.task/default", "containerd" },
                { "/run/containerd/io.containerd.runtime.v2.task/k8s.io", "containerd" },
                { "/run/containerd/io.containerd.runtime.v2.task/moby", "docker" },
                { "/var/lib/containers/storage/overlay-containers", "podman" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (is_there(places, rows[i].directory, owner->id))
                        return rows[i].runtime;
        return NULL;
}

const char *gf_name_oci(const struct gf_places *places, const char *id)
{
        if (id[0] == '\0' || id[0] == '.' || strchr(id, '/'))
                return NULL;
        if (is_there(places, "/run/runc", id))
                return "runc";
        if (is_there(places, "/run/crun", id))
                return "crun";
        return NULL;
}

/* Incus and LXD use LXC's names for their cgroups; so does Proxmox on its newer versions. */
static const char *lxc_runtime(const struct gf_places *places, const struct gf_cgroup_owner *owner)
{
        static const struct {
                const char *directory, *runtime;
        } rows[] = {
                { "/var/lib/incus/containers", "incus" },
                { "/var/snap/lxd/common/lxd/containers", "lxd" },
                { "/var/lib/lxd/containers", "lxd" },
        };

        if (strchr(owner->id, '/') || owner->id[0] == '.')
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (is_there(places, rows[i].directory, owner->id))
                        return rows[i].runtime;
        return NULL;
}

/* What Proxmox wrote when it started the container, else its configuration, which lies on a FUSE file system. */
static int proxmox_name(const struct gf_places *places, const struct gf_cgroup_owner *owner, char *buf, size_t size)
{
        bool vm = strcmp(owner->kind, "vm") == 0;
        _cleanup_secret_ struct secret file = { 0 };
        _cleanup_free_ char *path = NULL;
        int r;

        if (!vm && load(places, UINT32_MAX, CONFIG_MAX, &file, "/var/lib/lxc/%s/config", owner->id) == 0 &&
            gf_unitfile_get(file.text, NULL, "lxc.uts.name", buf, size))
                return 0;
        path = gf_asprintf("%s/etc/pve/%s/%s.conf", places->root, vm ? "qemu-server" : "lxc", owner->id);
        if (!path)
                return -ENOMEM;
        secret_done(&file);
        r = gf_slow_read(path, CONFIG_MAX, SLOW_MS, &file.text, &file.n);
        if (r < 0)
                return r;
        return gf_unitfile_get(file.text, NULL, vm ? "name" : "hostname", buf, size) ? 0 : -ENOENT;
}

/* QEMU's own command line: "-name ml,debug-threads=on" or "-name guest=ml,…". */
static int qemu_name(const struct gpufree_holder *holder, char *buf, size_t size)
{
        const char *p = holder->facts.cmdline, *end = p ? p + holder->facts.cmdline_length : NULL;
        bool next = false;

        for (; p && p < end; p += strnlen(p, (size_t)(end - p)) + 1) {
                size_t n = strnlen(p, (size_t)(end - p));

                if (next) {
                        if (n > 6 && memcmp(p, "guest=", 6) == 0) {
                                p += 6;
                                n -= 6;
                        }
                        const char *comma = memchr(p, ',', n);

                        n = comma ? (size_t)(comma - p) : n;
                        if (n == 0 || n >= size)
                                return -ENOENT;
                        memcpy(buf, p, n);
                        buf[n] = '\0';
                        return 0;
                }
                next = n == 5 && memcmp(p, "-name", 5) == 0;
        }
        return -ENOENT;
}

static int find(const struct gf_places *places, const struct gf_cgroup_owner *owner, const char *runtime,
                const struct gpufree_holder *holder, char *buf, size_t size)
{
        if (strcmp(owner->kind, "pod") == 0)
                return pod_name(places, owner->id, buf, size);
        if (gf_streq(runtime, "docker")) {
                int r = docker_name(places, owner, buf, size);

                return r < 0 ? cri_name(places, owner->id, buf, size) : r;
        }
        if (gf_streq(runtime, "podman"))
                return podman_name(places, owner, buf, size);
        if (gf_streq(runtime, "containerd") || gf_streq(runtime, "cri") || gf_streq(runtime, "cri-o")) {
                int r = cri_name(places, owner->id, buf, size);

                return r < 0 && gf_streq(runtime, "cri-o") ? podman_name(places, owner, buf, size) : r;
        }
        if (strcmp(owner->kind, "vm") == 0 && qemu_name(holder, buf, size) == 0)
                return 0;
        if (gf_streq(runtime, "proxmox"))
                return proxmox_name(places, owner, buf, size);
        return -ENOENT;
}

int gf_name_find(const struct gf_places *places, const struct gf_cgroup_owner *owner,
                 const struct gpufree_holder *holder, const char **ret_runtime, char **ret_name)
{
        char buf[GF_CGROUP_TEXT * 4] = "";
        const char *runtime = owner->runtime;
        int r;

        if (!owner->nested && strcmp(owner->kind, "container") == 0) {
                const char *better = NULL;

                if (!runtime)
                        better = container_runtime(places, owner);
                else if (strcmp(runtime, "lxc") == 0)
                        better = lxc_runtime(places, owner);
                if (better)
                        *ret_runtime = runtime = better;
        }
        if (owner->name[0] != '\0')
                return gf_strset(ret_name, owner->name);
        /* names of what is inside a container are in the container's own files */
        if (owner->nested)
                return 0;
        r = find(places, owner, runtime, holder, buf, sizeof(buf));
        if (r == -ENOMEM)
                return r;
        return r < 0 || buf[0] == '\0' ? 0 : gf_strset(ret_name, buf);
}

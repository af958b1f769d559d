/* SPDX-License-Identifier: MIT */
#include "parse/cgroup.h"

#include <string.h>

#include "base/num.h"

#define ID_LENGTH 64

/* Where a walk along a path is. */
struct walk {
        struct gf_cgroup_chain *chain;
        const char *prev; /* the segment before, "" at the start */
        uint32_t manager;
        bool nested;
        bool unit;         /* inside a unit of the manager that counts here: deeper ones are the unit's own affair */
        bool payload;      /* the next segments are inside a pod */
        const char *batch; /* "slurm", "nomad", "htcondor": below a parent of that system; NULL */
};

static bool is_hex(char c)
{
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool is_digits(const char *s, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (s[i] < '0' || s[i] > '9')
                        return false;
        return n > 0;
}

static bool starts_with_id(const char *s)
{
        for (size_t i = 0; i < ID_LENGTH; i++)
                if (!is_hex(s[i]))
                        return false;
        return true;
}

static void copy(char dst[static GF_CGROUP_TEXT], const char *src, size_t n)
{
        if (n > GF_CGROUP_TEXT - 1)
                n = GF_CGROUP_TEXT - 1;
        memcpy(dst, src, n);
        dst[n] = '\0';
}

/* Length of `s` without `suffix`, or 0 when it does not end so or nothing is left. */
static size_t stem(const char *s, const char *suffix)
{
        return gf_endswith(s, suffix) ? strlen(s) - strlen(suffix) : 0;
}

/* Daemons under whose unit a runtime may put what it runs: they are not what owns it. */
static bool is_runtime_unit(const char *id)
{
        static const char *const units[] = {
                "docker.service",     "containerd.service",  "crio.service",
                "cri-docker.service", "kubelet.service",     "k3s.service",
                "k3s-agent.service",  "rke2-server.service", "rke2-agent.service",
                "slurmd.service",     "nomad.service",       "condor.service",
                "libvirtd.service",   "virtqemud.service",   "lxd.service",
                "incus.service",      "podman.service",      "snap.docker.dockerd.service",
        };

        for (size_t i = 0; i < ELEMENTSOF(units); i++)
                if (strcmp(id, units[i]) == 0)
                        return true;
        return gf_endswith(id, "slurmstepd.scope");
}

static bool is_boundary(const char *kind)
{
        return strcmp(kind, "container") == 0 || strcmp(kind, "vm") == 0;
}

static struct gf_cgroup_owner *push(struct walk *w, const char *kind, const char *runtime, const char *id, size_t n)
{
        struct gf_cgroup_chain *chain = w->chain;
        struct gf_cgroup_owner *owner;
        bool unit = strcmp(kind, "unit") == 0 || strcmp(kind, "scope") == 0;

        if (!unit && chain->n > 0) {
                const struct gf_cgroup_owner *last = &chain->v[chain->n - 1];

                if ((strcmp(last->kind, "unit") == 0 || strcmp(last->kind, "scope") == 0) && is_runtime_unit(last->id))
                        chain->n--;
        }
        if (chain->n == GF_CGROUP_OWNERS) {
                chain->cut = true;
                chain->n--;
        }
        owner = &chain->v[chain->n++];
        *owner = (struct gf_cgroup_owner){
                .kind = kind, .runtime = runtime, .manager = w->manager, .nested = w->nested
        };
        copy(owner->id, id, n);
        if (is_boundary(kind)) {
                w->nested = true;
                w->unit = false;
                w->payload = false;
                w->batch = NULL;
        }
        return owner;
}

/* docker-<ID>.scope and its relatives. */
static bool match_scope_id(struct walk *w, const char *s)
{
        static const struct {
                const char *prefix, *kind, *runtime;
                bool bare; /* also without ".scope" */
        } rows[] = {
                { "docker-", "container", "docker", false },
                { "cri-containerd-", "container", "containerd", false },
                { "crio-conmon-", "monitor", "cri-o", false },
                { "crio-", "container", "cri-o", true },
                { "libpod-conmon-", "monitor", "podman", true },
                { "libpod-payload-", "container", "podman", true },
                { "libpod-", "container", "podman", true },
                { "nerdctl-", "container", "nerdctl", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                const char *id = s + strlen(rows[i].prefix);

                if (!gf_startswith(s, rows[i].prefix) || !starts_with_id(id))
                        continue;
                if (strcmp(id + ID_LENGTH, ".scope") != 0 && !(rows[i].bare && id[ID_LENGTH] == '\0'))
                        continue;
                push(w, rows[i].kind, rows[i].runtime, id, ID_LENGTH);
                return true;
        }
        return false;
}

/* A bare <ID>: who made it is told by its parent, if at all. */
static bool match_bare_id(struct walk *w, const char *s)
{
        static const struct {
                const char *parent, *runtime;
        } rows[] = {
                { "docker", "docker" },
                { "moby", "docker" },
                { "default", "containerd" },
                { "k8s.io", "containerd" },
        };
        const char *runtime = NULL;

        if (!starts_with_id(s) || s[ID_LENGTH] != '\0')
                return false;
        for (size_t i = 0; i < ELEMENTSOF(rows) && !w->payload; i++)
                if (strcmp(w->prev, rows[i].parent) == 0)
                        runtime = rows[i].runtime;
        push(w, "container", w->payload ? "cri" : runtime, s, ID_LENGTH);
        return true;
}

/* A pod's UID at `s`: 8-4-4-4-12 hex digits, "_" for "-", or the 32 of a static pod. Its length, or 0. */
static size_t pod_uid(const char *s, char ret_uid[static GF_CGROUP_TEXT])
{
        size_t n = 0, digits = 0;

        for (; n < 36 && (is_hex(s[n]) || s[n] == '-' || s[n] == '_'); n++) {
                digits += is_hex(s[n]);
                ret_uid[n] = s[n] == '_' ? '-' : s[n];
        }
        ret_uid[n] = '\0';
        if (n == 32 && digits == 32)
                return n;
        if (n != 36 || digits != 32)
                return 0;
        return ret_uid[8] == '-' && ret_uid[13] == '-' && ret_uid[18] == '-' && ret_uid[23] == '-' ? n : 0;
}

static bool match_pod(struct walk *w, const char *s)
{
        char uid[GF_CGROUP_TEXT];

        for (const char *p = strstr(s, "pod"); p; p = strstr(p + 1, "pod")) {
                const char *rest;
                size_t n;

                if (p != s && p[-1] != '-')
                        continue;
                n = pod_uid(p + 3, uid);
                if (n == 0)
                        continue;
                rest = p + 3 + n;
                if (*rest == '\0' || strcmp(rest, ".slice") == 0) {
                        push(w, "pod", "kubernetes", uid, strlen(uid));
                        w->payload = true;
                        return true;
                }
                /* containerd told to use cgroupfs while kubelet uses systemd: one segment has it all */
                if (gf_startswith(rest, ".slice:cri-containerd:") && starts_with_id(rest + 22) &&
                    rest[22 + ID_LENGTH] == '\0') {
                        push(w, "pod", "kubernetes", uid, strlen(uid));
                        push(w, "container", "containerd", rest + 22, ID_LENGTH);
                        return true;
                }
        }
        return false;
}

static bool match_lxc(struct walk *w, const char *s)
{
        if (gf_startswith(s, "lxc.payload.") && s[12] != '\0')
                push(w, "container", "lxc", s + 12, strlen(s + 12));
        else if (gf_startswith(s, "lxc.monitor.") && s[12] != '\0')
                push(w, "monitor", "lxc", s + 12, strlen(s + 12));
        else if (strcmp(w->prev, "lxc.payload") == 0)
                push(w, "container", is_digits(s, strlen(s)) ? "proxmox" : "lxc", s, strlen(s));
        else if (strcmp(w->prev, "lxc.monitor") == 0)
                push(w, "monitor", is_digits(s, strlen(s)) ? "proxmox" : "lxc", s, strlen(s));
        else if (strcmp(w->prev, "lxc") == 0)
                push(w, "container", is_digits(s, strlen(s)) ? "proxmox" : "lxc", s, strlen(s));
        else
                return false;
        return true;
}

static int hex_value(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return -1;
}

/* systemd's \xHH; the length. An escaped NUL stays as it is written. */
static size_t unescape(const char *s, size_t n, char ret[static GF_CGROUP_TEXT])
{
        size_t out = 0;

        for (size_t i = 0; i < n && out < GF_CGROUP_TEXT - 1; i++) {
                if (i + 3 < n && s[i] == '\\' && s[i + 1] == 'x' && hex_value(s[i + 2]) >= 0 &&
                    hex_value(s[i + 3]) >= 0 && (s[i + 2] != '0' || s[i + 3] != '0')) {
                        ret[out++] = (char)(hex_value(s[i + 2]) * 16 + hex_value(s[i + 3]));
                        i += 3;
                } else {
                        ret[out++] = s[i];
                }
        }
        ret[out] = '\0';
        return out;
}

/* "qemu-1-vm1": what comes behind a driver's name and a number, or NULL. */
static const char *libvirt_name(const char *machine, const char *driver)
{
        size_t n = strlen(driver), k = 0;

        if (!gf_startswith(machine, driver))
                return NULL;
        while (machine[n + k] >= '0' && machine[n + k] <= '9')
                k++;
        return k > 0 && machine[n + k] == '-' && machine[n + k + 1] != '\0' ? machine + n + k + 1 : NULL;
}

static bool match_machine(struct walk *w, const char *s)
{
        char machine[GF_CGROUP_TEXT];
        struct gf_cgroup_owner *owner;
        const char *name;
        size_t n;

        n = stem(s, ".libvirt-qemu");
        if (n > 0) {
                push(w, "vm", "libvirt", s, n);
                return true;
        }
        n = stem(s, ".scope");
        if (strcmp(w->prev, "qemu.slice") == 0 && is_digits(s, n)) {
                push(w, "vm", "proxmox", s, n);
                return true;
        }
        if (n <= 8 || !gf_startswith(s, "machine-"))
                return false;
        n = unescape(s + 8, n - 8, machine);
        if ((name = libvirt_name(machine, "qemu-"))) {
                owner = push(w, "vm", "libvirt", name, strlen(name));
                copy(owner->name, name, strlen(name));
        } else if ((name = libvirt_name(machine, "lxc-"))) {
                owner = push(w, "container", "libvirt-lxc", name, strlen(name));
                copy(owner->name, name, strlen(name));
        } else {
                push(w, "container", "nspawn", machine, n);
        }
        return true;
}

static bool is_sluid(const char *s)
{
        for (size_t i = 1; i < 14; i++)
                if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'A' && s[i] <= 'Z')))
                        return false;
        return s[14] == '\0';
}

static bool match_slurm(struct walk *w, const char *s)
{
        struct gf_cgroup_owner *last = w->chain->n > 0 ? &w->chain->v[w->chain->n - 1] : NULL;

        if (strcmp(s, "slurm") == 0 || (gf_startswith(s, "slurm_") && s[6] != '\0')) {
                w->batch = "slurm";
                return true;
        }
        if (!w->batch || strcmp(w->batch, "slurm") != 0)
                return false;
        if (gf_startswith(s, "job_") && is_digits(s + 4, strlen(s + 4))) {
                push(w, "job", "slurm", s + 4, strlen(s + 4));
                return true;
        }
        if (s[0] == 's' && strlen(s) == 14 && is_sluid(s)) {
                push(w, "job", "slurm", s, 14);
                return true;
        }
        if (gf_startswith(s, "step_") && s[5] != '\0' && last && gf_streq(last->runtime, "slurm") &&
            strchr(last->id, '.') == NULL) {
                size_t n = strlen(last->id), k = strlen(s + 5);

                if (n + 1 + k < GF_CGROUP_TEXT) {
                        last->id[n] = '.';
                        memcpy(last->id + n + 1, s + 5, k + 1);
                }
                return true;
        }
        return false;
}

static bool match_batch(struct walk *w, const char *s)
{
        struct gf_cgroup_owner *owner;
        size_t n;

        if (strcmp(s, "nomad.slice") == 0 || strcmp(s, "htcondor") == 0) {
                w->batch = s[0] == 'n' ? "nomad" : "htcondor";
                return true;
        }
        if (!w->batch)
                return false;
        n = stem(s, ".scope");
        if (strcmp(w->batch, "nomad") == 0 && n > 37 && s[36] == '.' && s[8] == '-' && s[13] == '-') {
                owner = push(w, "job", "nomad", s, 36);
                copy(owner->name, s + 37, n - 37);
                return true;
        }
        if (strcmp(w->batch, "htcondor") == 0 && gf_startswith(s, "condor_")) {
                const char *slot = strstr(s, "_slot");

                owner = push(w, "job", "htcondor", s, strlen(s));
                if (slot)
                        copy(owner->name, slot + 1, strlen(slot + 1));
                return true;
        }
        return false;
}

/* app-flatpak-org.x.Y-2891.scope, runc-NAME.scope */
static bool match_app_scope(struct walk *w, const char *s)
{
        size_t n = stem(s, ".scope");

        if (gf_startswith(s, "app-flatpak-") && n > 12) {
                size_t dash = n;

                while (dash > 12 && s[dash - 1] != '-')
                        dash--;
                if (dash > 13 && is_digits(s + dash, n - dash)) {
                        push(w, "container", "flatpak", s + 12, dash - 1 - 12);
                        return true;
                }
        }
        if (gf_startswith(s, "runc-") && n > 5) {
                push(w, "container", "runc", s + 5, n - 5);
                return true;
        }
        return false;
}

static bool match_login(struct walk *w, const char *s)
{
        char number[GF_CGROUP_TEXT];
        uint32_t uid;
        size_t n;

        n = stem(s, ".service");
        if (gf_startswith(s, "user@") && n > 5) {
                copy(number, s + 5, n - 5);
                if (gf_parse_u32(number, &uid) < 0)
                        return false;
                push(w, "unit", "systemd", s, strlen(s));
                if (w->manager == UINT32_MAX)
                        w->manager = uid;
                w->unit = false;
                return true;
        }
        n = stem(s, ".scope");
        if (gf_startswith(s, "session-") && n > 8 && gf_startswith(w->prev, "user-")) {
                push(w, "session", "systemd", s + 8, n - 8);
                w->unit = true;
                return true;
        }
        return false;
}

static bool match_unit(struct walk *w, const char *s)
{
        bool service = stem(s, ".service") > 0, scope = stem(s, ".scope") > 0, user;

        if (!service && !scope)
                return false;
        if (w->unit)
                return true;
        /* what collides with a file of the kernel's is written with an underscore before it */
        if (s[0] == '_')
                s++;
        user = w->manager != UINT32_MAX;
        if (user && strcmp(s, "init.scope") == 0)
                return true;
        push(w, user ? "user-unit" : service ? "unit" : "scope", "systemd", s, strlen(s));
        w->unit = true;
        if (gf_endswith(s, "slurmstepd.scope"))
                w->batch = "slurm";
        if (gf_startswith(s, "systemd-nspawn@") && service) {
                char machine[GF_CGROUP_TEXT];
                size_t n = unescape(s + 15, stem(s, ".service") - 15, machine);

                if (n > 0)
                        push(w, "container", "nspawn", machine, n);
        }
        return true;
}

/* In this order: the special before the general. */
static bool (*const matchers[])(struct walk *, const char *) = {
        match_scope_id, match_bare_id, match_pod,       match_lxc,   match_machine,
        match_slurm,    match_batch,   match_app_scope, match_login, match_unit,
};

void gf_cgroup_parse(const char *path, struct gf_cgroup_chain *ret_chain)
{
        struct walk w = { .chain = ret_chain, .prev = "", .manager = UINT32_MAX };
        char segments[2][GF_CGROUP_TEXT];
        size_t length = strlen(path), turn = 0;
        static const char deleted[] = " (deleted)";

        *ret_chain = (struct gf_cgroup_chain){ .n = 0 };
        if (gf_endswith(path, deleted)) {
                ret_chain->deleted = true;
                length -= sizeof(deleted) - 1;
        }
        for (size_t at = 0; at < length;) {
                size_t n = 0;
                char *s = segments[turn];

                while (at + n < length && path[at + n] != '/')
                        n++;
                if (n == 2 && memcmp(path + at, "..", 2) == 0) {
                        ret_chain->outside = true;
                } else if (n > 0 && n < GF_CGROUP_TEXT) {
                        copy(s, path + at, n);
                        for (size_t i = 0; i < ELEMENTSOF(matchers); i++)
                                if (matchers[i](&w, s))
                                        break;
                        w.prev = s;
                        turn = 1 - turn;
                }
                at += n + 1;
        }
}

const char *gf_cgroup_split(const char *line, const char **ret_controllers, size_t *ret_length)
{
        const char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;

        if (!second || !is_digits(line, (size_t)(first - line)) || second[1] != '/')
                return NULL;
        *ret_controllers = first + 1;
        *ret_length = (size_t)(second - first - 1);
        return second + 1;
}

static bool has_controller(const char *list, size_t n, const char *want)
{
        size_t k = strlen(want);

        for (size_t at = 0; at <= n;) {
                size_t len = 0;

                while (at + len < n && list[at + len] != ',')
                        len++;
                if (len == k && memcmp(list + at, want, k) == 0)
                        return true;
                at += len + 1;
        }
        return false;
}

/* Lower is better. */
static int line_rank(const char *controllers, size_t n)
{
        static const char *const order[] = { "name=systemd", "", "devices", "memory" };

        for (int i = 0; i < (int)ELEMENTSOF(order); i++)
                if (order[i][0] == '\0' ? n == 0 : has_controller(controllers, n, order[i]))
                        return i;
        return (int)ELEMENTSOF(order);
}

/* How much a chain tells: a container or job more than a unit, a unit more than nothing. */
static int strength(const struct gf_cgroup_chain *chain, const char *path)
{
        static const char *const strong[] = { "container", "pod", "job", "vm", "monitor" };

        for (size_t i = 0; i < chain->n; i++)
                for (size_t k = 0; k < ELEMENTSOF(strong); k++)
                        if (strcmp(chain->v[i].kind, strong[k]) == 0)
                                return 3;
        if (chain->n > 0)
                return 2;
        return strcmp(path, "/") != 0;
}

void gf_cgroup_parse_lines(const gf_strv *lines, struct gf_cgroup_chain *ret_chain, const char **ret_path)
{
        struct gf_cgroup_chain chain;
        int best = -1, best_rank = 0;
        bool placed = false; /* a hierarchy that managers use for placing processes says that this one is at its root */
        const char *best_path = NULL;

        *ret_chain = (struct gf_cgroup_chain){ .n = 0 };
        for (size_t i = 0; i < lines->n; i++) {
                const char *controllers, *path;
                size_t n;
                int force, rank;

                path = gf_cgroup_split(lines->v[i], &controllers, &n);
                if (!path)
                        continue;
                gf_cgroup_parse(path, &chain);
                force = strength(&chain, path);
                rank = line_rank(controllers, n);
                placed |= rank <= 1 && force == 0;
                if (force > best || (force == best && rank < best_rank)) {
                        best = force;
                        best_rank = rank;
                        best_path = path;
                        *ret_chain = chain;
                }
        }
        if (best == 1 && !(placed && best_rank > 1)) {
                struct walk w = { .chain = ret_chain, .prev = "", .manager = UINT32_MAX };
                size_t n = strlen(best_path + 1);

                if (ret_chain->deleted)
                        n -= strlen(" (deleted)");
                push(&w, "cgroup", NULL, best_path + 1, n);
        }
        if (ret_path)
                *ret_path = best_path;
}

bool gf_unit_name_valid(const char *name)
{
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@";
        size_t n = strlen(name);

        if (n == 0 || n > 255 || name[0] == '-' || strspn(name, allowed) != n)
                return false;
        return stem(name, ".service") > 0 || stem(name, ".scope") > 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * AMD's compute driver: /sys/class/kfd/kfd/proc/PID/vram_GPUID in bytes, GPUID → topology/nodes/N. A process stays
 * there until it ends, also when it has closed /dev/kfd. The PIDs are those of the initial PID namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "gpu/vendor.h"
#include "parse/text.h"
#include "sys/procfs.h"
#include "sys/safefile.h"

#define MOST_NODES 256
#define MOST_PROCESSES 65536
#define MOST_FILES 1024

struct node {
        uint64_t id;
        int gpu; /* position in the inventory; -1 */
};
typedef GF_VEC(struct node) nodes;

static int read_number(const char *path, uint64_t *ret)
{
        char text[32];
        ssize_t n;

        n = gf_read_head(AT_FDCWD, path, text, sizeof(text) - 1);
        if (n < 0)
                return (int)n;
        text[n] = '\0';
        text[strcspn(text, "\n")] = '\0';
        return gf_parse_u64(text, ret);
}

/* "location_id 768\ndomain 0\n…": the PCI address, bus and device and function in one number. */
static bool find_pci(const char *text, char *buf, size_t size)
{
        struct gf_text t = { text, text + strlen(text) }, line;
        uint64_t location = 0, domain = 0;
        bool found = false;

        while (gf_text_line(&t, &line)) {
                if (gf_text_word(&line, "location_id "))
                        found = gf_text_u64(&line, 10, &location);
                else if (gf_text_word(&line, "domain "))
                        (void)gf_text_u64(&line, 10, &domain);
        }
        if (!found || location > 0xffff || domain > 0xffff)
                return false;
        snprintf(buf, size, "%04x:%02x:%02x.%x", (unsigned)domain, (unsigned)location >> 8,
                 ((unsigned)location >> 3) & 31, (unsigned)location & 7);
        return true;
}

static int find_gpu(const struct gpufree_snapshot *snapshot, const char *pci)
{
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                if (gf_streq(snapshot->inventory.gpus.v[i].pci, pci))
                        return (int)i;
        return -1;
}

static int read_nodes(struct gf_env *env, const struct gpufree_snapshot *snapshot, nodes *list)
{
        _cleanup_free_ char *directory = gf_asprintf("%s/class/kfd/kfd/topology/nodes", env->sys_root);
        gf_strv names = { 0 };
        int r = directory ? 0 : -ENOMEM;

        if (directory)
                (void)gf_list_names(directory, "", MOST_NODES, &names);
        for (size_t i = 0; i < names.n && r >= 0; i++) {
                _cleanup_free_ char *id = gf_asprintf("%s/%s/gpu_id", directory, names.v[i]),
                                    *properties = gf_asprintf("%s/%s/properties", directory, names.v[i]);
                struct node node = { .gpu = -1 }, *slot;
                char text[4096], pci[32];
                ssize_t n;

                if (!id || !properties) {
                        r = -ENOMEM;
                        break;
                }
                if (read_number(id, &node.id) < 0 || node.id == 0) /* 0: the processor */
                        continue;
                n = gf_read_head(AT_FDCWD, properties, text, sizeof(text) - 1);
                text[n > 0 ? n : 0] = '\0';
                if (find_pci(text, pci, sizeof(pci)))
                        node.gpu = find_gpu(snapshot, pci);
                slot = gf_vec_add(list);
                if (slot)
                        *slot = node;
                else
                        r = -ENOMEM;
        }
        gf_strv_done(&names);
        return r;
}

static int add_use(gf_vendor_uses *uses, pid_t pid, int gpu, uint64_t bytes)
{
        struct gf_vendor_use *use = gf_vec_add(uses);

        if (!use)
                return -ENOMEM;
        *use = (struct gf_vendor_use){ .pid = pid, .gpu = gpu, .bytes = bytes, .alone = true };
        return 0;
}

/* One process: its vram_GPUID files. One without memory anywhere is listed all the same. */
static int read_process(const char *directory, pid_t pid, const nodes *list, gf_vendor_uses *uses)
{
        gf_strv names = { 0 };
        bool any = false;
        int r = 0;

        (void)gf_list_names(directory, "", MOST_FILES, &names);
        for (size_t i = 0; i < names.n && r >= 0; i++) {
                _cleanup_free_ char *path = gf_asprintf("%s/%s", directory, names.v[i]);
                uint64_t id, bytes;
                int gpu = -1;

                if (!path)
                        r = -ENOMEM;
                if (!path || !gf_startswith(names.v[i], "vram_") ||
                    gf_parse_u64(names.v[i] + strlen("vram_"), &id) < 0 || read_number(path, &bytes) < 0 || bytes == 0)
                        continue;
                for (size_t k = 0; k < list->n; k++)
                        if (list->v[k].id == id)
                                gpu = list->v[k].gpu;
                if (gpu < 0)
                        continue;
                r = add_use(uses, pid, gpu, bytes);
                any = true;
        }
        gf_strv_done(&names);
        return r < 0 || any ? r : add_use(uses, pid, -1, GPUFREE_UNKNOWN);
}

int gf_kfd_read(struct gf_env *env, const struct gpufree_snapshot *snapshot, gf_vendor_uses *uses)
{
        _cleanup_free_ char *directory = gf_asprintf("%s/class/kfd/kfd/proc", env->sys_root);
        gf_strv names = { 0 };
        nodes list = { 0 };
        int r = directory ? 0 : -ENOMEM;

        if (directory && gf_is_there(directory)) {
                r = read_nodes(env, snapshot, &list);
                (void)gf_list_names(directory, "", MOST_PROCESSES, &names);
        }
        for (size_t i = 0; i < names.n && r >= 0; i++) {
                _cleanup_free_ char *process = gf_asprintf("%s/%s", directory, names.v[i]);
                pid_t pid;

                if (!process)
                        r = -ENOMEM;
                else if (gf_parse_pid(names.v[i], &pid) == 0)
                        r = read_process(process, pid, &list, uses);
        }
        gf_strv_done(&names);
        gf_vec_done(&list);
        return r;
}

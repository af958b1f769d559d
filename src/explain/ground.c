/* SPDX-License-Identifier: MIT */
/* What /proc and /sys say about drivers, modules and consoles. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "explain/blockers.h"
#include "sys/procfs.h"
#include "sys/safefile.h"

#define MODULES_MAX (1U * 1024 * 1024)
#define MOST_NAMES 256

void gf_ground_done(struct gf_ground *ground)
{
        gf_modules_done(&ground->modules);
        gf_strv_done(&ground->consoles);
        for (size_t i = 0; i < ground->gpus.n; i++)
                gf_strv_done(&ground->gpus.v[i].framebuffers);
        gf_vec_done(&ground->gpus);
        for (size_t i = 0; i < ground->stops.n; i++)
                gf_stop_done(&ground->stops.v[i]);
        gf_vec_done(&ground->stops);
        *ground = (struct gf_ground){ 0 };
}

/* What is the name at the end of this link? "" none. */
static int link_name(char *buf, size_t size, const char *path)
{
        _cleanup_free_ char *target = NULL;
        const char *base;

        buf[0] = '\0';
        if (!path)
                return -ENOMEM;
        if (gf_read_link(AT_FDCWD, path, &target) < 0)
                return 0;
        base = strrchr(target, '/');
        base = base ? base + 1 : target;
        if (strlen(base) < size)
                memcpy(buf, base, strlen(base) + 1);
        return 0;
}

/* /sys/module/NAME/holders names the same as /proc/modules, and is there where that file hides it. */
static int add_sysfs_users(struct gf_env *env, struct gf_module *module)
{
        _cleanup_free_ char *directory = gf_asprintf("%s/module/%s/holders", env->sys_root, module->name);
        gf_strv names = { 0 };
        int r = 0;

        if (!directory)
                return -ENOMEM;
        if (gf_list_names(directory, "", MOST_NAMES, &names) >= 0)
                for (size_t i = 0; i < names.n && r >= 0; i++)
                        if (names.v[i][0] != '.' && !gf_strv_has(&module->users, names.v[i]))
                                r = gf_strv_add(&module->users, names.v[i]);
        gf_strv_done(&names);
        return r;
}

static int read_modules(struct gf_env *env, struct gf_ground *ground)
{
        _cleanup_free_ char *path = gf_asprintf("%s/modules", env->proc_root), *text = NULL;
        int r;

        if (!path)
                return -ENOMEM;
        r = gf_read_file(AT_FDCWD, path, MODULES_MAX, &text, NULL);
        if (r < 0) {
                ground->modules_error = r;
                return r == -ENOMEM ? r : 0;
        }
        r = gf_parse_modules(text, &ground->modules);
        for (size_t i = 0; i < ground->modules.n && r >= 0; i++)
                r = add_sysfs_users(env, &ground->modules.v[i]);
        return r;
}

static int read_modeset(struct gf_env *env, struct gf_ground *ground)
{
        _cleanup_free_ char *path = gf_asprintf("%s/module/nvidia_drm/parameters/modeset", env->sys_root);
        char text[8];

        if (!path)
                return -ENOMEM;
        ground->drm_modeset = gf_read_head(AT_FDCWD, path, text, sizeof(text)) > 0 &&
                              (text[0] == 'Y' || text[0] == '1');
        return 0;
}

static int read_consoles(struct gf_env *env, struct gf_ground *ground)
{
        _cleanup_free_ char *directory = gf_asprintf("%s/class/vtconsole", env->sys_root);
        gf_strv names = { 0 };
        int r = 0;

        if (!directory)
                return -ENOMEM;
        (void)gf_list_names(directory, "", MOST_NAMES, &names);
        for (size_t i = 0; i < names.n && r >= 0; i++) {
                _cleanup_free_ char *bind = gf_asprintf("%s/%s/bind", directory, names.v[i]),
                                    *name = gf_asprintf("%s/%s/name", directory, names.v[i]);
                char text[128];
                ssize_t n;

                if (!bind || !name) {
                        r = -ENOMEM;
                        break;
                }
                if (gf_read_head(AT_FDCWD, bind, text, 2) < 1 || text[0] != '1')
                        continue;
                n = gf_read_head(AT_FDCWD, name, text, sizeof(text));
                if (n > 0 && memmem(text, (size_t)n, "frame buffer", strlen("frame buffer")))
                        r = gf_strv_add(&ground->consoles, names.v[i]);
        }
        gf_strv_done(&names);
        return r;
}

/* Does the link name a path with the GPU's address in it? */
static bool leads_to(const char *path, const char *pci)
{
        _cleanup_free_ char *target = NULL;
        const char *at;
        size_t n = strlen(pci);

        if (!path || gf_read_link(AT_FDCWD, path, &target) < 0)
                return false;
        for (at = target; (at = strstr(at, pci)) != NULL; at++)
                if ((at == target || at[-1] == '/') && (at[n] == '\0' || at[n] == '/'))
                        return true;
        return false;
}

static int read_framebuffers(struct gf_env *env, const char *pci, struct gf_ground_gpu *gpu)
{
        _cleanup_free_ char *directory = gf_asprintf("%s/class/graphics", env->sys_root);
        gf_strv names = { 0 };
        int r = 0;

        if (!directory)
                return -ENOMEM;
        (void)gf_list_names(directory, "", MOST_NAMES, &names);
        for (size_t i = 0; i < names.n && r >= 0; i++) {
                _cleanup_free_ char *itself = gf_asprintf("%s/%s", directory, names.v[i]),
                                    *device = gf_asprintf("%s/%s/device", directory, names.v[i]);

                if (gf_startswith(names.v[i], "fb") && (leads_to(itself, pci) || leads_to(device, pci)))
                        r = gf_strv_add(&gpu->framebuffers, names.v[i]);
        }
        gf_strv_done(&names);
        return r;
}

static int read_gpu(struct gf_env *env, const struct gpufree_gpu *gpu, struct gf_ground *ground)
{
        struct gf_ground_gpu *slot = gf_vec_add(&ground->gpus);
        _cleanup_free_ char *device = NULL, *driver = NULL, *module = NULL;
        int r;

        if (!slot)
                return -ENOMEM;
        if (!gpu->pci)
                return 0;
        device = gf_asprintf("%s/bus/pci/devices/%s", env->sys_root, gpu->pci);
        driver = gf_asprintf("%s/bus/pci/devices/%s/driver", env->sys_root, gpu->pci);
        module = gf_asprintf("%s/bus/pci/devices/%s/driver/module", env->sys_root, gpu->pci);
        slot->sysfs = device && gf_is_there(device);
        r = link_name(slot->driver, sizeof(slot->driver), driver);
        if (r >= 0)
                r = link_name(slot->module, sizeof(slot->module), module);
        return r < 0 ? r : read_framebuffers(env, gpu->pci, slot);
}

static int find_stops(struct gf_env *env, const struct gpufree_snapshot *snapshot, enum gpufree_purpose purpose,
                      struct gf_ground *ground)
{
        int r = 0;

        for (size_t i = 0; i < snapshot->holders.n && r >= 0; i++) {
                struct gf_stop *stop = gf_vec_add(&ground->stops);

                if (!stop)
                        return -ENOMEM;
                if (gf_stands_in_the_way(snapshot, &snapshot->holders.v[i], purpose))
                        r = gf_stop_find(env, geteuid(), &snapshot->holders.v[i], stop);
                if (r < 0 && r != -ENOMEM)
                        r = 0; /* it has ended since, or its owner's files cannot be read */
        }
        return r;
}

int gf_ground_read(struct gf_env *env, const struct gpufree_snapshot *snapshot, enum gpufree_purpose purpose,
                   struct gf_ground *ret_ground)
{
        struct gf_ground ground = { 0 };
        int r;

        r = read_modules(env, &ground);
        if (r >= 0)
                r = read_modeset(env, &ground);
        if (r >= 0)
                r = read_consoles(env, &ground);
        for (size_t i = 0; i < snapshot->inventory.gpus.n && r >= 0; i++)
                r = read_gpu(env, &snapshot->inventory.gpus.v[i], &ground);
        if (r >= 0)
                r = find_stops(env, snapshot, purpose, &ground);
        if (r < 0) {
                gf_ground_done(&ground);
                return r;
        }
        *ret_ground = ground;
        return 0;
}

/* SPDX-License-Identifier: MIT */
#include "owner/unitrestart.h"

#include <string.h>

#include "owner/names.h"
#include "parse/unitfile.h"
#include "sys/safefile.h"

#define UNIT_MAX (256 * 1024)
#define DROPINS_MAX 64

/* First wins, as in systemd. Below a user's home: "%s" is the home. */
static const char *const system_dirs[] = {
        "/etc/systemd/system.control",   "/run/systemd/system.control", "/run/systemd/transient",
        "/etc/systemd/system",           "/run/systemd/system",         "/run/systemd/generator",
        "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",     "/lib/systemd/system",
};
static const char *const user_dirs[] = {
        "/etc/systemd/user",     "/run/systemd/user", "/usr/local/lib/systemd/user",
        "/usr/lib/systemd/user", "/lib/systemd/user",
};

/* The directories to search, with the root before them. */
static int list_dirs(const struct gf_places *places, uint32_t manager, bool in_home, gf_strv *ret)
{
        bool user = manager != UINT32_MAX;
        const char *const *dirs = user ? user_dirs : system_dirs;
        size_t n = user ? ELEMENTSOF(user_dirs) : ELEMENTSOF(system_dirs);
        _cleanup_free_ char *home = NULL;
        int r = 0;

        if (user && in_home && gf_passwd_find(places, manager, NULL, &home) == 0) {
                r = gf_strv_addf(ret, "%s%s/.config/systemd/user", places->root, home);
                if (r == 0)
                        r = gf_strv_addf(ret, "%s%s/.local/share/systemd/user", places->root, home);
        }
        if (user && r == 0)
                r = gf_strv_addf(ret, "%s/run/user/%u/systemd/transient", places->root, manager);
        for (size_t i = 0; i < n && r == 0; i++)
                r = gf_strv_addf(ret, "%s%s", places->root, dirs[i]);
        return r;
}

/* The drop-ins of one directory, later names later. */
static void read_dropins(const char *dir, const char *unit, char *buf, size_t size, bool *found)
{
        _cleanup_(gf_strv_done) gf_strv names = { 0 };
        _cleanup_free_ char *path = gf_asprintf("%s/%s.d", dir, unit);

        if (!path || gf_list_names(path, ".conf", DROPINS_MAX, &names) < 0)
                return;
        for (size_t i = 0; i < names.n; i++) {
                _cleanup_free_ char *file = gf_asprintf("%s/%s", path, names.v[i]), *text = NULL;

                if (file && gf_linked_read(file, UNIT_MAX, &text) == 0 &&
                    gf_unitfile_get(text, "Service", "Restart", buf, size))
                        *found = true;
        }
}

/* "x@y.service" → "x@.service"; NULL for one that is no instance. */
static char *template_of(const char *unit)
{
        const char *at = strchr(unit, '@'), *dot = strrchr(unit, '.');

        if (!at || !dot || dot < at || dot == at + 1)
                return NULL;
        return gf_asprintf("%.*s%s", (int)(at - unit + 1), unit, dot);
}

static enum gf_again meaning(const char *value)
{
        static const struct {
                const char *value;
                enum gf_again again;
        } table[] = {
                { "no", GF_AGAIN_NO },
                { "", GF_AGAIN_NO },
                { "always", GF_AGAIN_YES },
                { "on-success", GF_AGAIN_YES },
                { "on-failure", GF_AGAIN_ON_KILL },
                { "on-abnormal", GF_AGAIN_ON_KILL },
                { "on-abort", GF_AGAIN_ON_KILL },
                { "on-watchdog", GF_AGAIN_NO },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (strcmp(value, table[i].value) == 0)
                        return table[i].again;
        return GF_AGAIN_UNKNOWN;
}

int gf_unit_restart(const struct gf_places *places, const char *unit, uint32_t manager, bool home,
                    enum gf_again *ret_again, char *buf, size_t size)
{
        _cleanup_(gf_strv_done) gf_strv dirs = { 0 };
        _cleanup_free_ char *model = template_of(unit);
        bool there = false, found = false;
        int r;

        if (!gf_unit_name_valid(unit))
                return -EINVAL;
        r = list_dirs(places, manager, home, &dirs);
        if (r < 0)
                return r;
        for (size_t i = 0; i < 2 * dirs.n && !there; i++) {
                const char *name = i < dirs.n ? unit : model;
                _cleanup_free_ char *path = NULL, *text = NULL;

                if (!name)
                        break;
                path = gf_asprintf("%s/%s", dirs.v[i % dirs.n], name);
                if (!path)
                        return -ENOMEM;
                r = gf_linked_read(path, UNIT_MAX, &text);
                if (r < 0)
                        continue;
                there = true;
                found = gf_unitfile_get(text, "Service", "Restart", buf, size);
        }
        if (!there)
                return -ENOENT;
        /* the least important directory first, so that the last word is the most important one's */
        for (size_t i = dirs.n; i > 0; i--) {
                if (model)
                        read_dropins(dirs.v[i - 1], model, buf, size, &found);
                read_dropins(dirs.v[i - 1], unit, buf, size, &found);
        }
        if (!found && size > 2)
                memcpy(buf, "no", 3);
        *ret_again = meaning(buf);
        return 0;
}

int gf_unit_trigger(const struct gf_places *places, const char *unit, char **ret_trigger)
{
        static const char *const suffixes[] = { ".socket", ".timer", ".path" };
        size_t stem = strlen(unit);

        if (!gf_endswith(unit, ".service"))
                return 0;
        stem -= strlen(".service");
        for (size_t k = 0; k < ELEMENTSOF(suffixes); k++)
                for (size_t i = 0; i < ELEMENTSOF(system_dirs); i++) {
                        _cleanup_free_ char *path = gf_asprintf("%s%s/%.*s%s", places->root, system_dirs[i], (int)stem,
                                                                unit, suffixes[k]);

                        if (!path)
                                return -ENOMEM;
                        if (!gf_is_there(path))
                                continue;
                        *ret_trigger = gf_asprintf("%.*s%s", (int)stem, unit, suffixes[k]);
                        return *ret_trigger ? 0 : -ENOMEM;
                }
        return 0;
}

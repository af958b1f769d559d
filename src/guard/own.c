/* SPDX-License-Identifier: MIT */
#include "guard/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "sys/pidfd.h"
#include "sys/pidstat.h"
#include "sys/procfs.h"
#include "sys/safefile.h"

#define CHILDREN_MAX (1u << 20)
#define MOST 65536

static bool has(const gf_owns *owns, pid_t pid)
{
        for (size_t i = 0; i < owns->n; i++)
                if (owns->v[i].id.pid == pid)
                        return true;
        return false;
}

static int add(struct gf_env *env, pid_t pid, gf_owns *owns)
{
        struct gf_pidstat stat;
        struct gf_own *own;
        int r = gf_pidstat_read(env, pid, &stat);

        if (r < 0)
                return r == -ENOMEM ? r : 0; /* gone meanwhile */
        if (has(owns, pid) || owns->n >= MOST)
                return 0;
        own = gf_vec_add(owns);
        if (!own)
                return -ENOMEM;
        *own = (struct gf_own){ .id = { .pid = pid, .start_ticks = stat.start_ticks },
                                .ppid = stat.ppid,
                                .state = stat.state };
        return 0;
}

/* 0; -ENOENT: this kernel has no list of children. */
static int add_children(struct gf_env *env, pid_t pid, gf_owns *owns)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%d/task", env->proc_root, (int)pid);
        _cleanup_close_ int fd = -1;
        _Alignas(8) char buf[1024];
        struct gf_dirwalk walk;
        const char *name;
        uint32_t tid;
        int r;

        if (!path)
                return -ENOMEM;
        fd = gf_open_dir(AT_FDCWD, path);
        if (fd < 0)
                return 0;
        gf_dirwalk_init(&walk, fd, buf, sizeof(buf));
        while ((r = gf_dirwalk_next_number(&walk, &tid, &name)) > 0) {
                _cleanup_free_ char *file = gf_asprintf("%s/children", name), *text = NULL;
                char *save = NULL;

                if (!file)
                        return -ENOMEM;
                r = gf_proc_read(fd, file, CHILDREN_MAX, &text, NULL);
                if (r == -ENOENT && faccessat(fd, name, F_OK, 0) == 0)
                        return -ENOENT;
                if (r < 0)
                        continue;
                for (char *word = strtok_r(text, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
                        pid_t child;

                        if (gf_parse_pid(word, &child) < 0)
                                continue;
                        r = add(env, child, owns);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

static int add_any(pid_t pid, void *userdata)
{
        struct {
                struct gf_env *env;
                gf_owns *owns;
        } *walk = userdata;

        return add(walk->env, pid, walk->owns);
}

/* Without lists of children: everybody, and then those whose line of parents leads to `root`. */
static int list_by_walk(struct gf_env *env, pid_t root, gf_owns *owns)
{
        gf_owns all = { 0 };
        struct {
                struct gf_env *env;
                gf_owns *owns;
        } walk = { env, &all };
        bool more = true;
        int r = gf_pid_walk(env, add_any, &walk);

        while (r == 0 && more) {
                more = false;
                for (size_t i = 0; i < all.n; i++) {
                        struct gf_own *own;

                        if (has(owns, all.v[i].id.pid) || (all.v[i].ppid != root && !has(owns, all.v[i].ppid)))
                                continue;
                        own = gf_vec_add(owns);
                        if (!own) {
                                r = -ENOMEM;
                                break;
                        }
                        *own = all.v[i];
                        more = true;
                }
        }
        gf_vec_done(&all);
        return r;
}

int gf_own_list(struct gf_env *env, pid_t root, gf_owns *owns)
{
        int r;

        owns->n = 0;
        r = add_children(env, root, owns);
        if (r == -ENOENT)
                return list_by_walk(env, root, owns);
        for (size_t i = 0; r == 0 && i < owns->n; i++)
                r = add_children(env, owns->v[i].id.pid, owns);
        return r == -ENOENT ? 0 : r;
}

int gf_own_pin(struct gf_env *env, pid_t root, const gf_owns *owns, size_t at)
{
        const struct gf_own *own = &owns->v[at];
        _cleanup_close_ int fd = gf_pidfd_pin(env, &own->id);
        struct gf_pidstat stat;
        int r;

        if (fd < 0)
                return TAKE_FD(fd);
        r = gf_pidstat_of(env, &own->id, &stat);
        if (r < 0)
                return r;
        /* Pinned now: is it a descendant, or had the number changed hands before it was listed? */
        if (stat.ppid != root && !has(owns, stat.ppid))
                return -ESRCH;
        return TAKE_FD(fd);
}

/* SPDX-License-Identifier: MIT */
#include "guard/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "sys/procfs.h"
#include "sys/safefile.h"

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#define TEXT_MAX (256u << 10)

/* "0::/user.slice/…" → the path behind it; of version 1 the line of `controller`. malloc'ed or NULL. */
static char *own_path(const char *text, bool v2)
{
        const char *head = v2 ? "0::" : ":freezer:";

        for (const char *line = text; *line;) {
                size_t n = strcspn(line, "\n");
                const char *colon = v2 ? line : memchr(line, ':', n);

                if (colon && strncmp(colon, head, strlen(head)) == 0)
                        return strndup(colon + strlen(head), n - (size_t)(colon - line) - strlen(head));
                line += n + (line[n] == '\n');
        }
        return NULL;
}

/* Where the hierarchy is mounted, whole. malloc'ed or NULL. */
static char *mount_of(const char *text, bool v2)
{
        for (const char *line = text; *line;) {
                size_t n = strcspn(line, "\n");
                _cleanup_free_ char *copy = strndup(line, n);
                char *save = NULL, *root = NULL, *point = NULL, *dash, *word;
                int field = 0;

                line += n + (line[n] == '\n');
                if (!copy)
                        return NULL;
                dash = strstr(copy, " - ");
                if (!dash || !gf_startswith(dash + 3, v2 ? "cgroup2 " : "cgroup "))
                        continue;
                if (!v2 && !strstr(dash, "freezer"))
                        continue;
                *dash = '\0';
                for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save), field++) {
                        root = field == 3 ? word : root;
                        point = field == 4 ? word : point;
                }
                if (root && point && strcmp(root, "/") == 0 && !strchr(point, '\\'))
                        return strdup(point);
        }
        return NULL;
}

static bool is_delegated(const char *directory)
{
        static const char *const names[] = { "trusted.delegate", "user.delegate" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char value[4];

                if (getxattr(directory, names[i], value, sizeof(value)) == 1 && value[0] == '1')
                        return true;
        }
        return false;
}

static int make_in(const char *mounts, const char *own, bool v2, struct gf_cgroup *ret)
{
        _cleanup_free_ char *place = own_path(own, v2), *point = mount_of(mounts, v2), *above = NULL, *path = NULL;
        _cleanup_close_ int dir = -1;

        if (!place || !point || gf_startswith(place, "/.."))
                return 0;
        above = gf_asprintf("%s%s", point, strcmp(place, "/") == 0 ? "" : place);
        path = above ? gf_asprintf("%s/gpufree-run-%d", above, (int)getpid()) : NULL;
        if (!path)
                return -ENOMEM;
        if (strcmp(place, "/") != 0 && !is_delegated(above))
                return 0;
        if (mkdir(path, 0755) < 0)
                return 0;
        dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0) {
                (void)rmdir(path);
                return 0;
        }
        *ret = (struct gf_cgroup){ .path = TAKE(path), .dir = TAKE_FD(dir), .v2 = v2 };
        return 0;
}

int gf_cgroup_make(struct gf_env *env, struct gf_cgroup *ret_cgroup)
{
        _cleanup_free_ char *own = NULL, *mounts = NULL, *own_file = NULL, *mounts_file = NULL;
        struct gf_cgroup cgroup = GF_CGROUP_NONE;
        int r;

        own_file = gf_asprintf("%s/self/cgroup", env->proc_root);
        mounts_file = gf_asprintf("%s/self/mountinfo", env->proc_root);
        if (!own_file || !mounts_file)
                return -ENOMEM;
        if (gf_read_file(AT_FDCWD, own_file, TEXT_MAX, &own, NULL) == 0 &&
            gf_read_file(AT_FDCWD, mounts_file, TEXT_MAX, &mounts, NULL) == 0) {
                r = make_in(mounts, own, true, &cgroup);
                if (r == 0 && !cgroup.path)
                        r = make_in(mounts, own, false, &cgroup);
                if (r < 0)
                        return r;
        }
        *ret_cgroup = cgroup;
        return 0;
}

static int write_at(int dir, const char *file, const char *text)
{
        _cleanup_close_ int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

int gf_cgroup_fork(const struct gf_cgroup *cgroup)
{
        pid_t pid;

        if (cgroup->path && cgroup->v2) {
                /* Being moved later would cost every process on the machine a moment. */
                struct clone_args args = {
                        .flags = CLONE_INTO_CGROUP,
                        .exit_signal = (unsigned)SIGCHLD,
                        .cgroup = (unsigned)cgroup->dir,
                };

                pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
                if (pid >= 0)
                        return pid;
        }
        pid = fork();
        if (pid == 0 && cgroup->path)
                (void)write_at(cgroup->dir, "cgroup.procs", "0");
        return pid;
}

bool gf_cgroup_kill(const struct gf_cgroup *cgroup)
{
        return cgroup->path && cgroup->v2 && write_at(cgroup->dir, "cgroup.kill", "1") == 0;
}

void gf_cgroup_done(struct gf_cgroup *cgroup)
{
        if (cgroup->path) {
                /* What has just ended may count for a moment longer. */
                for (int i = 0; i < 20 && rmdir(cgroup->path) < 0 && errno == EBUSY; i++)
                        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
        free(cgroup->path);
        cgroup->path = NULL;
        cgroup->dir = gf_close(cgroup->dir);
}

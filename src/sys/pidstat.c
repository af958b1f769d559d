/* SPDX-License-Identifier: MIT */
#include "sys/pidstat.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "sys/procfs.h"

static const char *proc_root(const struct gf_env *env)
{
        return env->proc_root ? env->proc_root : "/proc";
}

int gf_pid_text(struct gf_env *env, pid_t pid, const char *file, char **ret_text)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%d/%s", proc_root(env), (int)pid, file);
        int r;

        if (!path)
                return -ENOMEM;
        r = gf_read_file(AT_FDCWD, path, 16384, ret_text, NULL);
        return r == -ENOENT ? -ESRCH : r;
}

/* A process whose leader is outside our PID namespace has group and session 0; -1 was seen for a parentless one. */
static int parse_id(const char *text, pid_t *ret)
{
        uint32_t value;

        if (strcmp(text, "-1") == 0) {
                *ret = 0;
                return 0;
        }
        if (gf_parse_u32(text, &value) < 0 || value > INT32_MAX)
                return -EBADMSG;
        *ret = (pid_t)value;
        return 0;
}

/* Fields 3 … 22, after the last ')': comm may hold anything. */
static int parse_stat(char *text, struct gf_pidstat *ret)
{
        struct gf_pidstat stat = { 0 };
        char *at = strrchr(text, ')'), *save = NULL;

        if (!at)
                return -EBADMSG;
        at = strtok_r(at + 1, " \n", &save);
        for (unsigned field = 3; field <= 22; field++, at = strtok_r(NULL, " \n", &save)) {
                int r = 0;

                if (!at)
                        return -EBADMSG;
                if (field == 3)
                        stat.state = at[0];
                else if (field == 4)
                        r = parse_id(at, &stat.ppid);
                else if (field == 5)
                        r = parse_id(at, &stat.pgrp);
                else if (field == 6)
                        r = parse_id(at, &stat.session);
                else if (field == 22)
                        r = gf_parse_u64(at, &stat.start_ticks);
                if (r < 0)
                        return -EBADMSG;
        }
        *ret = stat;
        return 0;
}

int gf_pidstat_read(struct gf_env *env, pid_t pid, struct gf_pidstat *ret_stat)
{
        _cleanup_free_ char *text = NULL;
        int r = gf_pid_text(env, pid, "stat", &text);

        return r < 0 ? r : parse_stat(text, ret_stat);
}

int gf_pidstat_of(struct gf_env *env, const struct gf_ident *id, struct gf_pidstat *ret_stat)
{
        struct gf_pidstat stat;
        int r = gf_pidstat_read(env, id->pid, &stat);

        if (r < 0)
                return r;
        if (stat.start_ticks != id->start_ticks)
                return -ESRCH;
        *ret_stat = stat;
        return 0;
}

bool gf_pid_is_ours(pid_t pid)
{
        return pid == getpid();
}

static int stat_pid(struct gf_env *env, pid_t pid, const char *file, struct stat *ret)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%d/%s", proc_root(env), (int)pid, file);

        if (!path)
                return -ENOMEM;
        if (stat(path, ret) < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        return 0;
}

int gf_pid_uid(struct gf_env *env, pid_t pid, uint32_t *ret_uid)
{
        struct stat st;
        int r = stat_pid(env, pid, "", &st);

        if (r < 0)
                return r;
        *ret_uid = st.st_uid;
        return 0;
}

int gf_pid_exe(struct gf_env *env, pid_t pid, uint64_t *ret_dev, uint64_t *ret_ino)
{
        struct stat st;
        int r = stat_pid(env, pid, "exe", &st);

        if (r < 0)
                return r;
        *ret_dev = st.st_dev;
        *ret_ino = st.st_ino;
        return 0;
}

int gf_pid_walk(struct gf_env *env, int (*each)(pid_t pid, void *userdata), void *userdata)
{
        _cleanup_close_ int fd = gf_open_dir(AT_FDCWD, proc_root(env));
        _Alignas(8) char buf[512];
        struct gf_dirwalk walk;
        uint32_t pid;
        int r;

        if (fd < 0)
                return fd;
        gf_dirwalk_init(&walk, fd, buf, sizeof(buf));
        while ((r = gf_dirwalk_next_number(&walk, &pid, NULL)) > 0) {
                if (pid == 0 || pid > INT32_MAX)
                        continue;
                r = each((pid_t)pid, userdata);
                if (r != 0)
                        return r;
        }
        return r;
}

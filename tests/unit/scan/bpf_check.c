/* SPDX-License-Identifier: MIT */
#include "bpf_check.h"

#include <dirent.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"

int check_start_ticks(pid_t pid, uint64_t *ret)
{
        _cleanup_fclose_ FILE *f = NULL;
        char path[64], text[1024], *at, *save = NULL;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        f = fopen(path, "re");
        if (!f || !fgets(text, sizeof(text), f))
                return -1;
        at = strrchr(text, ')');
        if (!at)
                return -1;
        at = strtok_r(at + 2, " ", &save);
        for (int i = 3; at && i < 22; i++)
                at = strtok_r(NULL, " ", &save);
        return at ? gf_parse_u64(at, ret) : -1;
}

static bool is_wanted(dev_t rdev, const dev_t *chr, size_t n_chr)
{
        for (size_t i = 0; i < n_chr; i++)
                if (chr[i] == rdev)
                        return true;
        return false;
}

static bool o_path(const char *task, const char *fd)
{
        _cleanup_fclose_ FILE *f = NULL;
        char path[1024], line[256];
        unsigned flags;

        (void)snprintf(path, sizeof(path), "%s/fdinfo/%s", task, fd);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "flags: %o", &flags) == 1)
                        return flags & 010000000U;
        return false;
}

static size_t count_fds(const char *task, const dev_t *chr, size_t n_chr, dev_t block)
{
        _cleanup_closedir_ DIR *dir = NULL;
        char path[1024];
        size_t n = 0;

        (void)snprintf(path, sizeof(path), "%s/fd", task);
        dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));) {
                struct stat st;

                (void)snprintf(path, sizeof(path), "%s/fd/%s", task, e->d_name);
                if (e->d_name[0] == '.' || stat(path, &st) < 0)
                        continue;
                if (S_ISCHR(st.st_mode) ? is_wanted(st.st_rdev, chr, n_chr)
                                        : S_ISBLK(st.st_mode) && block && st.st_rdev == block)
                        n += !o_path(task, e->d_name);
        }
        return n;
}

/* By the name in maps: the tests map /dev/zero only. */
static size_t count_maps(const char *task)
{
        _cleanup_fclose_ FILE *f = NULL;
        char path[512], line[1024];
        size_t n = 0;

        (void)snprintf(path, sizeof(path), "%s/maps", task);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
                n += strstr(line, " /dev/zero\n") != NULL;
        return n;
}

size_t check_count(pid_t pid, const dev_t *chr, size_t n_chr, dev_t block)
{
        _cleanup_closedir_ DIR *dir = NULL;
        char path[320];
        size_t n = 0, maps = 0;
        pid_t first = 0;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
        dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));) {
                pid_t tid;
                size_t m;

                if (gf_parse_pid(e->d_name, &tid) < 0)
                        continue;
                (void)snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
                m = count_maps(path);
                maps = m > maps ? m : maps;
                /* A table that threads share counts once. */
                if (first && syscall(SYS_kcmp, first, tid, KCMP_FILES, 0, 0) == 0)
                        continue;
                if (!first)
                        first = tid;
                n += count_fds(path, chr, n_chr, block);
        }
        return n + maps;
}

size_t check_processes(void)
{
        _cleanup_closedir_ DIR *dir = opendir("/proc");
        size_t n = 0;
        pid_t pid;

        for (struct dirent *e; dir && (e = readdir(dir));)
                n += gf_parse_pid(e->d_name, &pid) == 0;
        return n;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "park/park.h"
#include "sys/pidstat.h"
#include "sys/safefile.h"

#define RECORD_MAX 8192
#define RECORDS_MAX 4096

/* Where the records of this user are: root's for everybody to read, others' in their own runtime directory. */
static char *records_dir(void)
{
        const char *given = secure_getenv("GPUFREE_RUNTIME_DIR"), *runtime = secure_getenv("XDG_RUNTIME_DIR");

        if (given && given[0] == '/')
                return gf_asprintf("%s/parked", given);
        if (geteuid() == 0)
                return strdup("/run/gpufree/parked");
        return runtime && runtime[0] == '/' ? gf_asprintf("%s/gpufree/parked", runtime) : NULL;
}

/* Makes the directory and the one above it; it must be ours, and nobody else may write there. */
static int open_dir(const char *path, bool make)
{
        _cleanup_free_ char *above = strdup(path);
        _cleanup_close_ int fd = -1;
        struct stat st;
        char *slash;

        if (!above)
                return -ENOMEM;
        slash = strrchr(above, '/');
        if (make && slash && slash != above) {
                *slash = '\0';
                if (mkdir(above, 0755) < 0 && errno != EEXIST)
                        return -errno;
        }
        if (make && mkdir(path, 0755) < 0 && errno != EEXIST)
                return -errno;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
                return -EPERM;
        return TAKE_FD(fd);
}

static void record_name(const struct gf_ident *id, char buf[static 64])
{
        (void)snprintf(buf, 64, "%d.%llu", (int)id->pid, (unsigned long long)id->start_ticks);
}

static void add_who(struct gf_str *text)
{
        char buf[4096];
        struct passwd entry, *found = NULL;

        gf_str_addf(text, "uid %u\n", (unsigned)getuid());
        if (getpwuid_r(getuid(), &entry, buf, sizeof(buf), &found) == 0 && found && !strchr(found->pw_name, '\n'))
                gf_str_addf(text, "by %s\n", found->pw_name);
}

static int write_all(int dir, const char *name, const char *text)
{
        char temporary[80];
        _cleanup_close_ int fd = -1;
        size_t n = strlen(text);
        int r = 0;

        (void)snprintf(temporary, sizeof(temporary), ".%s", name);
        (void)unlinkat(dir, temporary, 0);
        fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;
        while (n > 0 && r == 0) {
                ssize_t written = write(fd, text, n);

                if (written < 0 && errno != EINTR)
                        r = -errno;
                else if (written > 0) {
                        text += written;
                        n -= (size_t)written;
                }
        }
        if (r == 0 && renameat(dir, temporary, dir, name) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(dir, temporary, 0);
        return r;
}

int gf_record_write(const struct gf_parked *item, char **ret_why)
{
        _cleanup_free_ char *path = records_dir(), *text = NULL;
        _cleanup_close_ int dir = -1;
        struct gf_str s = { 0 };
        char name[64];
        int r;

        if (!path) {
                *ret_why = strdup("XDG_RUNTIME_DIR is not set");
                return -ENOENT;
        }
        add_who(&s);
        gf_str_addf(&s, "since %lld\n", (long long)time(NULL));
        for (size_t i = 0; i < item->gpus.n; i++)
                gf_str_addf(&s, "gpu %d %llu %s\n", item->gpus.v[i].index, (unsigned long long)item->gpus.v[i].memory,
                            item->gpus.v[i].uuid[0] ? item->gpus.v[i].uuid : "-");
        r = gf_str_take(&s, &text);
        if (r >= 0) {
                dir = open_dir(path, true);
                r = dir < 0 ? dir : 0;
        }
        if (r >= 0) {
                record_name(&item->id, name);
                r = write_all(dir, name, text);
        }
        if (r < 0)
                *ret_why = gf_asprintf("%s: %s", path,
                                       r == -EPERM ? "it is somebody else's, or others may write to it" : strerror(-r));
        return r;
}

void gf_record_drop(const struct gf_ident *id)
{
        _cleanup_free_ char *path = records_dir();
        _cleanup_close_ int dir = path ? open_dir(path, false) : -1;
        char name[64];

        record_name(id, name);
        if (dir >= 0)
                (void)unlinkat(dir, name, 0);
}

static int take_gpu(const char *line, struct gf_parked *item)
{
        struct gf_park_gpu part = { .index = -1 }, *slot;
        unsigned long long memory;

        if (sscanf(line, "gpu %d %llu %95s", &part.index, &memory, part.uuid) != 3)
                return 0;
        if (gf_streq(part.uuid, "-"))
                part.uuid[0] = '\0';
        part.memory = memory;
        if (item->gpus.n >= GF_CUDA_PAIRS)
                return 0;
        slot = gf_vec_add(&item->gpus);
        if (!slot)
                return -ENOMEM;
        *slot = part;
        return 0;
}

static int parse_record(char *text, struct gf_parked *item)
{
        char *save = NULL;
        uint64_t sum = 0;
        int r = 0;

        item->gpus.n = 0;
        for (char *line = strtok_r(text, "\n", &save); r >= 0 && line; line = strtok_r(NULL, "\n", &save)) {
                uint64_t since;

                if (gf_startswith(line, "since ") && gf_parse_u64(line + 6, &since) == 0 && since <= INT64_MAX)
                        item->since = (int64_t)since;
                else if (gf_startswith(line, "by "))
                        r = gf_strset(&item->by, line + 3);
                else if (gf_startswith(line, "uid ") && !item->by)
                        r = gf_strset(&item->by, line + 4);
                else if (gf_startswith(line, "gpu "))
                        r = take_gpu(line, item);
        }
        if (r < 0)
                return r;
        for (size_t i = 0; i < item->gpus.n; i++)
                if (item->gpus.v[i].memory == GPUFREE_UNKNOWN ||
                    __builtin_add_overflow(sum, item->gpus.v[i].memory, &sum))
                        sum = GPUFREE_UNKNOWN - 1;
        item->memory = item->gpus.n == 0 || sum == GPUFREE_UNKNOWN - 1 ? GPUFREE_UNKNOWN : sum;
        return gf_parked_name_gpus(item);
}

int gf_record_read(const struct gf_ident *id, struct gf_parked *item)
{
        _cleanup_free_ char *path = records_dir(), *text = NULL;
        _cleanup_close_ int dir = path ? open_dir(path, false) : -1;
        char name[64];
        int r;

        if (dir < 0)
                return -ENOENT;
        record_name(id, name);
        r = gf_safe_read(dir, name, RECORD_MAX, &text, NULL);
        return r < 0 ? r : parse_record(text, item);
}

/* "PID.START" */
static int parse_name(const char *name, struct gf_ident *ret_id)
{
        char buf[64], *dot;

        if (strlen(name) >= sizeof(buf))
                return -EINVAL;
        (void)snprintf(buf, sizeof(buf), "%s", name);
        dot = strchr(buf, '.');
        if (!dot || dot == buf)
                return -EINVAL;
        *dot = '\0';
        if (gf_parse_pid(buf, &ret_id->pid) < 0 || gf_parse_u64(dot + 1, &ret_id->start_ticks) < 0)
                return -EINVAL;
        return 0;
}

int gf_records_find(struct gf_env *env, struct gpufree_parking *parking)
{
        _cleanup_free_ char *path = records_dir();
        gf_strv names = { 0 };
        int r = path ? gf_list_names(path, "", RECORDS_MAX, &names) : 0;

        if (r == -ENOENT || r == -EACCES || r == -ENOTDIR)
                r = 0;
        for (size_t i = 0; r >= 0 && i < names.n; i++) {
                struct gf_pidstat stat;
                struct gf_ident id;
                struct gf_parked *item;

                if (parse_name(names.v[i], &id) < 0)
                        continue;
                if (gf_pidstat_of(env, &id, &stat) == -ESRCH) { /* it has ended, and with it what was parked */
                        gf_record_drop(&id);
                        continue;
                }
                item = gf_parking_add(parking, &id);
                if (!item) {
                        r = -ENOMEM;
                        break;
                }
                r = gf_record_read(&id, item);
                if (r == -ENOENT)
                        r = 0;
        }
        gf_strv_done(&names);
        return r < 0 ? r : 0;
}

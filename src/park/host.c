/* SPDX-License-Identifier: MIT */
/* Host memory that is left: of the machine, and of the memory cgroups that a process is charged to. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "park/park.h"
#include "sys/procfs.h"

#define SMALL_FILE 65536
#define CGROUP_DEPTH 64

/* "KEY   123 kB" or "KEY 123" in a file of lines. */
static uint64_t value_of(const char *text, const char *key)
{
        size_t n = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
                char number[32];
                const char *at = line + n;
                uint64_t value;
                size_t digits;

                if (strncmp(line, key, n) != 0)
                        continue;
                at += strspn(at, " \t");
                digits = strspn(at, "0123456789");
                if (digits == 0 || digits >= sizeof(number))
                        return GPUFREE_UNKNOWN;
                memcpy(number, at, digits);
                number[digits] = '\0';
                return gf_parse_u64(number, &value) == 0 ? value : GPUFREE_UNKNOWN;
        }
        return GPUFREE_UNKNOWN;
}

_printf_(1, 2) static char *read_text(const char *format, ...)
{
        _cleanup_free_ char *path = NULL;
        char *text = NULL;
        va_list ap;

        va_start(ap, format);
        path = gf_vasprintf(format, ap);
        va_end(ap);
        if (!path || gf_read_file(AT_FDCWD, path, SMALL_FILE, &text, NULL) < 0)
                return NULL;
        return text;
}

uint64_t gf_host_available(struct gf_env *env)
{
        _cleanup_free_ char *text = read_text("%s/meminfo", env->proc_root);
        uint64_t kib = text ? value_of(text, "MemAvailable:") : GPUFREE_UNKNOWN;

        return kib == GPUFREE_UNKNOWN || kib > UINT64_MAX / 1024 ? GPUFREE_UNKNOWN : kib * 1024;
}

uint64_t gf_host_resident(struct gf_env *env, pid_t pid)
{
        _cleanup_free_ char *text = read_text("%s/%d/statm", env->proc_root, (int)pid);
        char *save = NULL;
        const char *word = text ? strtok_r(text, " \n", &save) : NULL;
        uint64_t pages;

        word = word ? strtok_r(NULL, " \n", &save) : NULL;
        return word && gf_parse_u64(word, &pages) == 0 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : GPUFREE_UNKNOWN;
}

/* A file with one number; "max" is none. */
static uint64_t number_in(const char *directory, const char *file)
{
        _cleanup_free_ char *text = read_text("%s/%s", directory, file);
        uint64_t value;

        if (!text)
                return GPUFREE_UNKNOWN;
        text[strcspn(text, "\n")] = '\0';
        return gf_parse_u64(text, &value) == 0 ? value : GPUFREE_UNKNOWN;
}

struct hierarchy {
        const char *limit, *usage, *reclaimable;
};

/* What this cgroup leaves; pages of files can be taken back, so they do not count as taken. */
static uint64_t room_in(const char *directory, const struct hierarchy *h)
{
        uint64_t limit = number_in(directory, h->limit), usage = number_in(directory, h->usage), cached;
        _cleanup_free_ char *stat = NULL;

        if (limit == GPUFREE_UNKNOWN || usage == GPUFREE_UNKNOWN)
                return GPUFREE_UNKNOWN;
        stat = read_text("%s/memory.stat", directory);
        cached = stat ? value_of(stat, h->reclaimable) : GPUFREE_UNKNOWN;
        if (cached != GPUFREE_UNKNOWN)
                usage -= cached < usage ? cached : usage;
        return limit > usage ? limit - usage : 0;
}

/* From a cgroup to the root of its hierarchy. */
static uint64_t least_room(const char *root, const char *path, const struct hierarchy *h)
{
        _cleanup_free_ char *directory = gf_asprintf("%s%s", root, path);
        uint64_t least = GPUFREE_UNKNOWN;

        if (!directory || strstr(path, "/.."))
                return GPUFREE_UNKNOWN;
        for (int depth = 0; depth < CGROUP_DEPTH; depth++) {
                uint64_t room = room_in(directory, h);
                char *slash;

                if (room < least)
                        least = room;
                if (strlen(directory) <= strlen(root))
                        break;
                slash = strrchr(directory, '/');
                if (!slash)
                        break;
                *slash = '\0';
        }
        return least;
}

static uint64_t cgroup_room(struct gf_env *env, pid_t pid)
{
        static const struct hierarchy v2 = { "memory.max", "memory.current", "inactive_file " },
                                      v1 = { "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file " };
        _cleanup_free_ char *text = read_text("%s/%d/cgroup", env->proc_root, (int)pid);
        _cleanup_free_ char *unified = gf_asprintf("%s/fs/cgroup", env->sys_root),
                            *memory = gf_asprintf("%s/fs/cgroup/memory", env->sys_root);
        uint64_t least = GPUFREE_UNKNOWN;
        char *save = NULL;

        if (!text || !unified || !memory)
                return GPUFREE_UNKNOWN;
        for (const char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                uint64_t room = GPUFREE_UNKNOWN;
                const char *colon = strchr(line, ':');

                if (!colon)
                        continue;
                if (gf_startswith(colon, "::/"))
                        room = least_room(unified, colon + 2, &v2);
                else if (gf_startswith(colon, ":memory:/"))
                        room = least_room(memory, colon + strlen(":memory:"), &v1);
                if (room < least)
                        least = room;
        }
        return least;
}

uint64_t gf_host_room(struct gf_env *env, pid_t pid)
{
        uint64_t machine = gf_host_available(env), cgroup = cgroup_room(env, pid);

        return cgroup < machine ? cgroup : machine;
}

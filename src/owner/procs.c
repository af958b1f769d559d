/* SPDX-License-Identifier: MIT */
#include "owner/procs.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "sys/safefile.h"

#define STAT_MAX 4096
#define STATUS_MAX 16384
#define WORDS_MAX (64 * 1024)
#define ENVIRON_MAX (1024 * 1024)

static int read_of(struct gf_env *env, pid_t pid, const char *file, size_t max, char **ret, size_t *ret_n)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%d/%s", env->proc_root ? env->proc_root : "/proc", pid, file);
        int r;

        if (!path)
                return -ENOMEM;
        r = gf_proc_read(AT_FDCWD, path, max, ret, ret_n);
        return r == -ENOENT ? -ESRCH : r;
}

/* "12 (a) b)) S 1 …": the name ends at the last bracket. */
static int parse_stat(char *text, struct gf_brief *brief)
{
        char *open = strchr(text, '('), *end = strrchr(text, ')'), *save = NULL, *word;
        uint64_t ppid = 0;
        int field = 2;

        if (!open || !end || end < open)
                return -EINVAL;
        *end = '\0';
        snprintf(brief->comm, sizeof(brief->comm), "%s", open + 1);
        for (word = strtok_r(end + 1, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
                field++;
                if (field == 4 && gf_parse_u64(word, &ppid) < 0)
                        return -EINVAL;
                if (field == 22)
                        break;
        }
        if (!word || ppid > INT32_MAX || gf_parse_u64(word, &brief->id.start_ticks) < 0)
                return -EINVAL;
        brief->ppid = (pid_t)ppid;
        return 0;
}

/* "Uid:\treal\teffective\t…". The owner of /proc/PID would not do: it is root for a process that can't be dumped. */
static uint32_t parse_uid(const char *status)
{
        const char *line = strstr(status, "\nUid:");
        char word[16];
        uint32_t uid;
        size_t n;

        if (!line)
                return UINT32_MAX;
        line += 5;
        line += strspn(line, " \t");
        line += strcspn(line, " \t\n");
        line += strspn(line, " \t");
        n = strcspn(line, " \t\n");
        if (n == 0 || n >= sizeof(word))
                return UINT32_MAX;
        memcpy(word, line, n);
        word[n] = '\0';
        return gf_parse_u32(word, &uid) < 0 ? UINT32_MAX : uid;
}

static int stat_read(struct gf_env *env, pid_t pid, struct gf_brief *ret)
{
        _cleanup_free_ char *text = NULL;
        struct gf_brief brief = { .id.pid = pid, .uid = UINT32_MAX };
        int r;

        r = read_of(env, pid, "stat", STAT_MAX, &text, NULL);
        if (r == 0)
                r = parse_stat(text, &brief);
        if (r < 0)
                return r;
        *ret = brief;
        return 0;
}

int gf_still_there(struct gf_env *env, const struct gf_ident *id)
{
        struct gf_brief brief;
        int r;

        r = stat_read(env, id->pid, &brief);
        if (r < 0)
                return r;
        return brief.id.start_ticks == id->start_ticks ? 0 : -ESRCH;
}

int gf_brief_uid(struct gf_env *env, struct gf_brief *brief)
{
        _cleanup_free_ char *status = NULL;
        int r;

        r = read_of(env, brief->id.pid, "status", STATUS_MAX, &status, NULL);
        if (r == 0)
                r = gf_still_there(env, &brief->id);
        if (r < 0)
                return r;
        brief->uid = parse_uid(status);
        return 0;
}

int gf_brief_read(struct gf_env *env, pid_t pid, struct gf_brief *ret_brief)
{
        struct gf_brief brief;
        int r;

        r = stat_read(env, pid, &brief);
        if (r == 0)
                r = gf_brief_uid(env, &brief);
        if (r < 0)
                return r;
        *ret_brief = brief;
        return 0;
}

size_t gf_ancestors(struct gf_env *env, const struct gf_ident *child, pid_t ppid, struct gf_brief *ret_briefs,
                    size_t max)
{
        uint64_t before = child ? child->start_ticks : UINT64_MAX;
        size_t n = 0;

        while (n < max && ppid > 0 && stat_read(env, ppid, &ret_briefs[n]) == 0) {
                /* a child never started before its parent: a recycled PID ends the chain */
                if (ret_briefs[n].id.start_ticks > before)
                        break;
                before = ret_briefs[n].id.start_ticks;
                ppid = ret_briefs[n++].ppid;
        }
        return n;
}

int gf_cgroup_lines_read(struct gf_env *env, pid_t pid, gf_strv *ret_lines)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_(gf_strv_done) gf_strv lines = { 0 };
        char *save = NULL;
        int r;

        r = read_of(env, pid, "cgroup", WORDS_MAX, &text, NULL);
        if (r < 0)
                return r;
        for (char *line = strtok_r(text, "\n", &save); line && r == 0; line = strtok_r(NULL, "\n", &save))
                r = gf_strv_add(&lines, line);
        if (r < 0)
                return r;
        *ret_lines = lines;
        lines = (gf_strv){ 0 };
        return 0;
}

int gf_words_read(struct gf_env *env, const struct gf_ident *id, gf_strv *ret_words)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_(gf_strv_done) gf_strv words = { 0 };
        size_t n;
        int r;

        r = read_of(env, id->pid, "cmdline", WORDS_MAX, &text, &n);
        if (r == 0)
                r = gf_still_there(env, id);
        for (size_t at = 0; r == 0 && at < n; at += strlen(text + at) + 1)
                r = gf_strv_add(&words, text + at);
        if (r < 0)
                return r;
        *ret_words = words;
        words = (gf_strv){ 0 };
        return 0;
}

int gf_environ_read(struct gf_env *env, const struct gf_ident *id, const char *const *keys, char **ret_values,
                    size_t n_keys)
{
        char *text = NULL;
        size_t n = 0;
        int r;

        r = read_of(env, id->pid, "environ", ENVIRON_MAX, &text, &n);
        if (r < 0)
                return r;
        r = gf_still_there(env, id);
        for (size_t at = 0; r == 0 && at < n; at += strlen(text + at) + 1) {
                const char *equal = strchr(text + at, '=');

                for (size_t k = 0; equal && k < n_keys && r == 0; k++)
                        if (!ret_values[k] && strlen(keys[k]) == (size_t)(equal - (text + at)) &&
                            memcmp(keys[k], text + at, strlen(keys[k])) == 0 && strlen(equal + 1) < STAT_MAX)
                                r = gf_strset(&ret_values[k], equal + 1);
        }
        gf_wipe(text, n);
        return r;
}

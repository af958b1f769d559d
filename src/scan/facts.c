/* SPDX-License-Identifier: MIT */
#include "scan/scan.h"

#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/num.h"
#include "parse/process.h"
#include "parse/text.h"
#include "sys/aside.h"
#include "sys/clock.h"
#include "sys/procfs.h"

#define CMDLINE_MAX (128U * 1024)
#define CGROUP_MAX (64U * 1024)
#define ASIDE_MS 1000U
#define PASSWD_MAX (64U * 1024)
#define FOLLOW_FLAGS (AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT)

static bool has_gone(int error)
{
        return error == -ESRCH || error == -ENOENT;
}

static int read_stat(int dirfd, const char *path, struct gf_stat *ret)
{
        char text[GF_STAT_MAX];
        ssize_t n;

        n = gf_read_head(dirfd, path, text, sizeof(text));
        return n < 0 ? (int)n : gf_parse_stat(text, (size_t)n, ret);
}

/* ---- the command line: reading it takes the memory map's lock, which a hung driver may hold ---- */

struct cmdline {
        int dirfd;
        char path[64];
        char *text;
        ssize_t length;
};

static void cmdline_work(void *userdata)
{
        struct cmdline *c = userdata;

        c->length = gf_read_head(c->dirfd, c->path, c->text, CMDLINE_MAX);
}

static void cmdline_free(void *userdata)
{
        struct cmdline *c = userdata;

        (void)gf_close(c->dirfd);
        free(c->text);
        free(c);
}

static int read_cmdline(int dirfd, const char *prefix, struct gf_facts *facts)
{
        struct cmdline *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        c->length = -EIO;
        c->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
        c->text = malloc(CMDLINE_MAX + 1);
        (void)snprintf(c->path, sizeof(c->path), "%scmdline", prefix);
        if (c->dirfd < 0 || !c->text) {
                cmdline_free(c);
                return -ENOMEM;
        }
        r = gf_aside(cmdline_work, cmdline_free, c, ASIDE_MS);
        if (r == -ETIMEDOUT)
                return 0; /* unknown; the thread cleans up */
        if (r == 0 && c->length >= 0) {
                char *shrunk;

                c->text[c->length] = '\0';
                shrunk = realloc(c->text, (size_t)c->length + 1);
                facts->cmdline = shrunk ? shrunk : c->text;
                facts->cmdline_length = (size_t)c->length;
                c->text = NULL;
        }
        cmdline_free(c);
        return 0;
}

/* ---- the user's name: may come from a directory server that does not answer ---- */

struct user {
        uid_t uid;
        char *name;
};

static void user_work(void *userdata)
{
        struct user *u = userdata;

        for (size_t size = 1024; size <= PASSWD_MAX; size *= 4) {
                _cleanup_free_ char *buf = malloc(size);
                struct passwd pw, *found = NULL;
                int r;

                if (!buf)
                        return;
                r = getpwuid_r(u->uid, &pw, buf, size, &found);
                if (r == ERANGE)
                        continue;
                if (r == 0 && found)
                        u->name = strdup(found->pw_name);
                return;
        }
}

static void user_free(void *userdata)
{
        struct user *u = userdata;

        free(u->name);
        free(u);
}

/*
 * The file itself first: the C library's own look-up of services crashes when memory or descriptors run out while it
 * reads its configuration (glibc 2.36, nss_database.c), and that must not end us half-way through a kill.
 */
static char *local_name(uid_t uid)
{
        _cleanup_free_ char *buf = malloc(PASSWD_MAX);
        struct passwd pw, *found = NULL;
        char *name = NULL;
        FILE *f = buf ? fopen("/etc/passwd", "re") : NULL;

        if (!f)
                return NULL;
        while (!name && fgetpwent_r(f, &pw, buf, PASSWD_MAX, &found) == 0 && found)
                if (found->pw_uid == uid)
                        name = strdup(found->pw_name);
        (void)fclose(f);
        return name;
}

static int read_user(struct gf_facts *facts)
{
        struct user *u;

        if (facts->uid == UINT32_MAX)
                return 0;
        facts->user = local_name(facts->uid);
        if (facts->user)
                return 0;
        u = calloc(1, sizeof(*u));
        if (!u)
                return -ENOMEM;
        u->uid = facts->uid;
        if (gf_aside(user_work, user_free, u, ASIDE_MS) == -ETIMEDOUT)
                return 0;
        facts->user = TAKE(u->name);
        user_free(u);
        return 0;
}

/* ---- the rest ---- */

#define FIRST_USER_UID 1000 /* below: root and what the system runs */

/*
 * The name is of the process's own mount namespace, where a user can mount root's python under the name of a display
 * server. Of a user's process it counts only where that name is that file here, too; of the system's always.
 */
static bool is_same_file_here(const struct gf_facts *facts)
{
        struct statx sx;

        return gf_statx(AT_FDCWD, facts->exe, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_INO, &sx) == 0 &&
               makedev(sx.stx_dev_major, sx.stx_dev_minor) == facts->exe_dev && sx.stx_ino == facts->exe_ino;
}

static int read_exe(int dirfd, const char *prefix, struct gf_facts *facts)
{
        static const char deleted[] = " (deleted)";
        struct statx sx;
        char path[64];
        int r;

        (void)snprintf(path, sizeof(path), "%sexe", prefix);
        r = gf_read_link(dirfd, path, &facts->exe);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        if (gf_endswith(facts->exe, deleted))
                facts->exe[strlen(facts->exe) - strlen(deleted)] = '\0';
        if (gf_statx(dirfd, path, FOLLOW_FLAGS, STATX_TYPE | STATX_MODE | STATX_UID | STATX_GID | STATX_INO, &sx) < 0)
                return 0;
        facts->exe_dev = makedev(sx.stx_dev_major, sx.stx_dev_minor);
        facts->exe_ino = sx.stx_ino;
        facts->exe_trusted = S_ISREG(sx.stx_mode) && sx.stx_uid == 0 && !(sx.stx_mode & S_IWOTH) &&
                             (!(sx.stx_mode & S_IWGRP) || sx.stx_gid == 0) &&
                             (facts->uid < FIRST_USER_UID || is_same_file_here(facts));
        return 0;
}

/* How well a hierarchy's path names the owner: the service manager's before the device and memory controllers'. */
static int cgroup_rank(const struct gf_cgroup_line *line)
{
        struct gf_text all = { line->controllers, line->controllers + line->n_controllers }, one;
        int rank = 1;

        if (line->n_path <= 1)
                return 0; /* "/": names nobody */
        if (line->n_controllers == 0)
                return 2; /* the unified hierarchy */
        while (gf_text_until(&all, ',', &one)) {
                size_t n = (size_t)(one.end - one.p);

                if (n == strlen("name=systemd") && memcmp(one.p, "name=systemd", n) == 0)
                        return 5;
                if (n == strlen("devices") && memcmp(one.p, "devices", n) == 0)
                        rank = 4;
                else if (n == strlen("memory") && memcmp(one.p, "memory", n) == 0 && rank < 3)
                        rank = 3;
        }
        return rank;
}

static int read_cgroups(int dirfd, const char *prefix, struct gf_facts *facts)
{
        _cleanup_free_ char *text = NULL;
        struct gf_text t, line;
        size_t length;
        char path[64];
        int best = -1, r;

        (void)snprintf(path, sizeof(path), "%scgroup", prefix);
        r = gf_read_file(dirfd, path, CGROUP_MAX, &text, &length);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        t = (struct gf_text){ text, text + length };
        while (gf_text_line(&t, &line)) {
                struct gf_cgroup_line parsed;
                int rank;

                if (gf_strv_addf(&facts->cgroups, "%.*s", (int)(line.end - line.p), line.p) < 0)
                        return -ENOMEM;
                if (gf_parse_cgroup_line(line.p, (size_t)(line.end - line.p), &parsed) < 0)
                        continue;
                rank = cgroup_rank(&parsed);
                if (rank > best) {
                        char *copy = strndup(parsed.path, parsed.n_path);

                        if (!copy)
                                return -ENOMEM;
                        free(facts->cgroup);
                        facts->cgroup = copy;
                        best = rank;
                }
        }
        return 0;
}

static void read_numbers(int dirfd, const char *prefix, struct gf_facts *facts)
{
        char text[4096], path[64];
        struct gf_status status;
        struct statx sx;
        ssize_t n;

        n = gf_read_head(dirfd, "status", text, sizeof(text));
        if (n > 0) {
                gf_parse_status(text, (size_t)n, &status);
                facts->uid = status.euid;
                facts->pidns_pid = status.nspid;
        }
        (void)snprintf(path, sizeof(path), "%sns/pid", prefix);
        if (gf_statx(dirfd, path, FOLLOW_FLAGS, STATX_INO, &sx) == 0)
                facts->pidns = sx.stx_ino;
        n = gf_read_head(dirfd, "sessionid", text, 32);
        if (n > 0) {
                text[n] = '\0';
                text[strcspn(text, "\n")] = '\0';
                (void)gf_parse_u32(text, &facts->login_session);
        }
}

/* A thread that lives, of a process whose leader has exited. */
static int find_living(int dirfd, struct gf_stat *ret_stat, char *prefix, size_t size)
{
        _cleanup_close_ int task = -1;
        struct gf_dirwalk walk;
        char buf[4096], path[64];
        uint32_t tid;

        task = gf_open_dir(dirfd, "task");
        if (task < 0)
                return task;
        gf_dirwalk_init(&walk, task, buf, sizeof(buf));
        while (gf_dirwalk_next_number(&walk, &tid, NULL) > 0) {
                struct gf_stat stat;

                (void)snprintf(path, sizeof(path), "%u/stat", tid);
                if (read_stat(task, path, &stat) < 0 || stat.state == 'Z' || stat.state == 'X')
                        continue;
                *ret_stat = stat;
                (void)snprintf(prefix, size, "task/%u/", tid);
                return 0;
        }
        return -ESRCH;
}

static int take_stat(int dirfd, const struct gf_stat *stat, struct gf_facts *facts, char *prefix, size_t size)
{
        uint64_t now = gf_boottime_ticks();

        facts->comm = strdup(stat->comm);
        if (!facts->comm)
                return -ENOMEM;
        facts->state = stat->state;
        facts->ppid = stat->ppid;
        facts->pgrp = stat->pgrp;
        facts->session = stat->session;
        facts->tty = stat->tty;
        facts->kernel_thread = gf_stat_kernel_thread(stat);
        facts->threads = stat->threads;
        facts->age_ms = now >= stat->start_ticks ? gf_ticks_to_ms(now - stat->start_ticks) : 0;
        facts->leader_zombie = (stat->state == 'Z' || stat->state == 'X') && stat->threads > 1;
        if (facts->leader_zombie) {
                struct gf_stat living;
                int r = find_living(dirfd, &living, prefix, size);

                if (r < 0)
                        return r;
                facts->state = living.state; /* what the process does, as far as it lives */
        }
        return 0;
}

static int read_facts(int dirfd, const struct gf_ident *id, struct gf_facts *facts)
{
        struct gf_stat stat, again;
        char prefix[32] = "";
        int r;

        r = read_stat(dirfd, "stat", &stat);
        if (r < 0)
                return has_gone(r) ? -ESRCH : r;
        if (stat.start_ticks != id->start_ticks || gf_stat_dead(&stat))
                return -ESRCH;
        r = take_stat(dirfd, &stat, facts, prefix, sizeof(prefix));
        if (r < 0)
                return has_gone(r) ? -ESRCH : r;
        read_numbers(dirfd, prefix, facts);
        r = read_exe(dirfd, prefix, facts);
        if (r == 0)
                r = read_cgroups(dirfd, prefix, facts);
        if (r == 0)
                r = read_cmdline(dirfd, prefix, facts);
        if (r == 0)
                r = read_user(facts);
        if (r < 0)
                return r;
        /* The directory pins the process; what has ended meanwhile is described by halves. */
        r = read_stat(dirfd, "stat", &again);
        if (r < 0)
                return has_gone(r) ? -ESRCH : r;
        return again.start_ticks == id->start_ticks && !gf_stat_dead(&again) ? 0 : -ESRCH;
}

int gf_facts_read(struct gf_env *env, const struct gf_ident *id, struct gf_facts *ret_facts)
{
        struct gf_facts facts = {
                .uid = UINT32_MAX,
                .state = '?',
                .age_ms = GPUFREE_UNKNOWN,
                .login_session = UINT32_MAX,
        };
        _cleanup_free_ char *path = gf_asprintf("%s/%d", env->proc_root, id->pid);
        _cleanup_close_ int dirfd = -1;
        int r;

        if (!path)
                return -ENOMEM;
        dirfd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dirfd < 0)
                return errno == ENOENT || errno == ESRCH ? -ESRCH
                                                         : gf_fail(env, -errno, "open %s: %s", path, strerror(errno));
        r = read_facts(dirfd, id, &facts);
        if (r < 0) {
                gf_facts_done(&facts);
                return r == -ESRCH ? r : gf_fail(env, r, "read %s: %s", path, strerror(-r));
        }
        *ret_facts = facts;
        return 0;
}

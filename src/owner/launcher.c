/* SPDX-License-Identifier: MIT */
#include "owner/launcher.h"

#include <string.h>

#include "sys/safefile.h"

struct row {
        const char *comm; /* the whole name; with a "*" at the end: how it starts */
        const char *name;
        enum gf_launcher_kind kind;
};

static const struct row rows[] = {
        { "supervisord", "supervisord", GF_LAUNCHER_SUPERVISOR },
        { "runsv", "runit", GF_LAUNCHER_SUPERVISOR },
        { "s6-supervise", "s6", GF_LAUNCHER_SUPERVISOR },
        { "supervise", "daemontools", GF_LAUNCHER_SUPERVISOR },
        { "circusd", "circus", GF_LAUNCHER_SUPERVISOR },
        { "PM2 *", "pm2", GF_LAUNCHER_SUPERVISOR },
        { "monit", "monit", GF_LAUNCHER_SUPERVISOR },
        { "tmux*", "tmux", GF_LAUNCHER_LOGIN },
        { "screen", "screen", GF_LAUNCHER_LOGIN },
        { "SCREEN", "screen", GF_LAUNCHER_LOGIN },
        { "zellij", "zellij", GF_LAUNCHER_LOGIN },
        { "sshd*", "ssh", GF_LAUNCHER_LOGIN },
        { "mosh-server", "mosh", GF_LAUNCHER_LOGIN },
        { "login", "console", GF_LAUNCHER_LOGIN },
        { "cron", "cron", GF_LAUNCHER_LOGIN },
        { "crond", "cron", GF_LAUNCHER_LOGIN },
        { "atd", "at", GF_LAUNCHER_LOGIN },
        { "jupyter*", "jupyter", GF_LAUNCHER_LOGIN },
        { "code-server*", "VS Code", GF_LAUNCHER_LOGIN },
        { "raylet", "ray", GF_LAUNCHER_LOGIN },
};

void gf_launcher_done(struct gf_launcher *launcher)
{
        free(launcher->what);
        free(launcher->conf);
        *launcher = (struct gf_launcher){ 0 };
}

static const struct row *recognise(const char *comm)
{
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                size_t n = strlen(rows[i].comm);

                if (rows[i].comm[n - 1] == '*' ? strncmp(comm, rows[i].comm, n - 1) == 0
                                               : strcmp(comm, rows[i].comm) == 0)
                        return &rows[i];
        }
        return NULL;
}

/* The server of VS Code is a plain node; its path tells. */
static bool is_vscode(struct gf_env *env, const struct gf_brief *brief)
{
        _cleanup_(gf_strv_done) gf_strv words = { 0 };

        if (strcmp(brief->comm, "node") != 0 || gf_words_read(env, &brief->id, &words) < 0 || words.n == 0)
                return false;
        return strstr(words.v[0], "/.vscode-server/") || strstr(words.v[0], "/.cursor-server/");
}

static int proc_link(struct gf_env *env, pid_t pid, const char *what, char **ret)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%d/%s", env->proc_root ? env->proc_root : "/proc", pid, what);

        return path ? gf_safe_link(path, ret) : -ENOMEM;
}

/* supervisord tells its children who they are; where its configuration is, its own command line may tell. */
static int ask_supervisord(struct gf_env *env, struct gf_launcher *l)
{
        static const char *const keys[] = { "SUPERVISOR_PROCESS_NAME", "SUPERVISOR_GROUP_NAME" };
        _cleanup_(gf_strv_done) gf_strv words = { 0 };
        char *values[2] = { NULL, NULL };
        const char *conf = NULL;
        int r = 0;

        if (gf_environ_read(env, &l->child, keys, values, 2) == 0 && values[0] && values[1]) {
                l->what = gf_asprintf("%s:%s", values[1], values[0]);
                r = l->what ? 0 : -ENOMEM;
        }
        free(values[0]);
        free(values[1]);
        if (r < 0 || gf_words_read(env, &l->process.id, &words) < 0)
                return r;
        for (size_t i = 1; i < words.n && !conf; i++) {
                if (strcmp(words.v[i], "-c") == 0 || strcmp(words.v[i], "--configuration") == 0)
                        conf = i + 1 < words.n ? words.v[i + 1] : NULL;
                else if (gf_startswith(words.v[i], "--configuration="))
                        conf = words.v[i] + strlen("--configuration=");
                else if (gf_startswith(words.v[i], "-c") && words.v[i][2] != '\0')
                        conf = words.v[i] + 2;
        }
        /* a relative path is relative to where it was started, which is not known any more */
        return conf && conf[0] == '/' ? gf_strset(&l->conf, conf) : 0;
}

/* Shells that run a script or a command text; an interactive one starts nothing by itself. */
static int ask_shell(struct gf_env *env, const struct gf_brief *parent, struct gf_launcher *l)
{
        static const char *const shells[] = { "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox" };
        _cleanup_(gf_strv_done) gf_strv words = { 0 };
        bool shell = false;

        if (gf_words_read(env, &parent->id, &words) < 0 || words.n < 2)
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(shells); i++) {
                const char *base = strrchr(words.v[0], '/');

                shell |= strcmp(base ? base + 1 : words.v[0], shells[i]) == 0;
        }
        for (size_t i = 1; shell && i < words.n; i++) {
                if (words.v[i][0] == '-' && strcmp(words.v[i], "-c") != 0)
                        continue;
                l->kind = GF_LAUNCHER_SHELL;
                l->name = "shell";
                l->process = *parent;
                l->what = gf_asprintf("%s %s", words.v[0], words.v[i]);
                return l->what ? 0 : -ENOMEM;
        }
        return 0;
}

int gf_launcher_find(struct gf_env *env, const struct gpufree_holder *holder, struct gf_launcher *ret_launcher)
{
        _cleanup_(gf_launcher_done) struct gf_launcher l = { 0 };
        struct gf_brief chain[GF_ANCESTORS_MAX];
        size_t n = gf_ancestors(env, &holder->id, holder->facts.ppid, chain, ELEMENTSOF(chain));
        int r = 0;

        l.child = holder->id;
        for (size_t i = 0; i < n && l.kind == GF_LAUNCHER_NONE; i++) {
                const struct row *row = recognise(chain[i].comm);

                if (row || is_vscode(env, &chain[i])) {
                        l.kind = row ? row->kind : GF_LAUNCHER_LOGIN;
                        l.name = row ? row->name : "VS Code";
                        l.process = chain[i];
                } else {
                        l.child = chain[i].id;
                }
        }
        /* as whom its command would be run; gone meanwhile: then it starts nothing again */
        if (l.kind == GF_LAUNCHER_SUPERVISOR && gf_brief_uid(env, &l.process) < 0)
                l = (struct gf_launcher){ 0 };
        if (l.kind == GF_LAUNCHER_SUPERVISOR && strcmp(l.name, "supervisord") == 0)
                r = ask_supervisord(env, &l);
        else if (l.kind == GF_LAUNCHER_SUPERVISOR)
                (void)proc_link(env, l.process.id.pid, "cwd", &l.what); /* they stand in their service's directory */
        if (r == 0 && l.kind != GF_LAUNCHER_SUPERVISOR && n > 0) {
                struct gf_launcher shell = { 0 };

                r = ask_shell(env, &chain[0], &shell);
                if (r == 0 && shell.kind == GF_LAUNCHER_SHELL && l.kind == GF_LAUNCHER_NONE) {
                        gf_launcher_done(&l);
                        l = shell;
                        l.child = holder->id;
                } else {
                        gf_launcher_done(&shell);
                }
        }
        if (r < 0)
                return r;
        *ret_launcher = l;
        l = (struct gf_launcher){ 0 };
        return 0;
}

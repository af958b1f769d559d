/* SPDX-License-Identifier: MIT */
#include "owner/restart.h"

#include <string.h>
#include <unistd.h>

#include "owner/label.h"
#include "owner/names.h"
#include "owner/stop.h"

bool gf_stop_same(const struct gf_stop *a, const struct gf_stop *b)
{
        if (a->argv.n == 0 || a->argv.n != b->argv.n)
                return false;
        for (size_t i = 0; i < a->argv.n; i++)
                if (strcmp(a->argv.v[i], b->argv.v[i]) != 0)
                        return false;
        return true;
}

char *gf_shell_quote(const gf_strv *argv)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
        struct gf_str s = { 0 };
        char *text = NULL;

        for (size_t i = 0; i < argv->n; i++) {
                const char *word = argv->v[i];

                if (i > 0)
                        gf_str_addc(&s, ' ');
                if (*word != '\0' && strspn(word, plain) == strlen(word)) {
                        gf_str_add(&s, word);
                        continue;
                }
                gf_str_addc(&s, '\'');
                for (; *word; word++)
                        if (*word == '\'')
                                gf_str_add(&s, "'\\''");
                        else
                                gf_str_addc(&s, *word);
                gf_str_addc(&s, '\'');
        }
        return gf_str_take(&s, &text) < 0 ? NULL : text;
}

_printf_(3, 4) void gf_search_say(struct gf_search *s, char **dst, const char *format, ...)
{
        va_list ap;

        free(*dst);
        va_start(ap, format);
        *dst = gf_vasprintf(format, ap);
        va_end(ap);
        s->failed |= *dst == NULL;
}

void gf_search_word(struct gf_search *s, const char *text)
{
        s->failed |= gf_strv_add(&s->stop->argv, text) < 0;
}

/* argv from words, "%" standing for `arg`. */
void gf_search_command(struct gf_search *s, const char *const *words, const char *arg)
{
        for (; *words; words++)
                gf_search_word(s, strcmp(*words, "%") == 0 ? arg : *words);
}
bool gf_search_as(struct gf_search *s, uint32_t uid, const char *variable)
{
        _cleanup_free_ char *name = NULL;

        if (uid == s->me)
                return true;
        if (s->me != 0 || gf_passwd_find(s->places, uid, &name, NULL) < 0 || name[0] == '-') {
                gf_search_say(s, &s->stop->refusal, "it belongs to uid %u, as whom it would have to be run", uid);
                return false;
        }
        GF_COMMAND(s, name, "runuser", "-u", "%", "--");
        if (variable)
                GF_COMMAND(s, variable, "env", "%");
        return true;
}

bool gf_plain_id(const char *id)
{
        return id[0] != '-' && id[0] != '.' &&
               id[strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789+_.-")] == '\0' &&
               id[0] != '\0';
}

/* ---- which owner ---- */

static const char *enter_command(const char *runtime, const char **ret_verb)
{
        static const struct {
                const char *runtime, *argv[2];
        } table[] = {
                { "lxc", { "lxc-attach", "-n" } },
                { "incus", { "incus", "exec" } },
                { "lxd", { "lxc", "exec" } },
                { "proxmox", { "pct", "exec" } },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (gf_streq(runtime, table[i].runtime)) {
                        *ret_verb = table[i].argv[1];
                        return table[i].argv[0];
                }
        return NULL;
}

/*
 * A system container has a manager of its own: stopping the unit or container inside leaves the rest of it alone. The
 * command runs inside, so that names made up there stay there.
 */
static bool stop_inside(struct gf_search *s, const struct gf_cgroup_owner *outer, const char *runtime,
                        const struct gf_cgroup_owner *inner)
{
        const char *verb, *enter = enter_command(runtime, &verb);
        bool unit = strcmp(inner->kind, "unit") == 0, container = strcmp(inner->kind, "container") == 0;

        if (!enter || outer->manager != UINT32_MAX || !gf_plain_id(outer->id) || inner->manager != UINT32_MAX)
                return false;
        if (!(unit && gf_unit_name_valid(inner->id)) &&
            !(container && (gf_streq(inner->runtime, "docker") || gf_streq(inner->runtime, "podman"))))
                return false;
        GF_COMMAND(s, verb, enter, "%");
        gf_search_word(s, outer->id);
        if (gf_streq(runtime, "lxc"))
                gf_stop_lxc_path(s, outer->id);
        gf_search_word(s, "--");
        if (unit)
                gf_stop_unit(s, inner);
        else
                GF_COMMAND(s, inner->id, inner->runtime, "stop", "%");
        s->stop->again = GF_AGAIN_UNKNOWN;
        gf_search_say(s, &s->stop->why, "whether %s starts it again is known inside %s alone",
                      unit ? "systemd" : inner->runtime, outer->id);
        return true;
}

static bool is_kind(const struct gf_cgroup_owner *owner, const char *kind)
{
        return strcmp(owner->kind, kind) == 0;
}

/* The outermost owner that can be stopped: what is inside it is its own affair. */
static const struct gf_cgroup_owner *outermost(const struct gf_cgroup_chain *chain)
{
        const struct gf_cgroup_owner *found = NULL;

        for (size_t i = 0; i < chain->n; i++) {
                const struct gf_cgroup_owner *o = &chain->v[i];

                if (o->nested)
                        break;
                if (is_kind(o, "cgroup") || is_kind(o, "monitor"))
                        continue;
                /* a user's manager is no owner of what runs in a unit below it */
                if (is_kind(o, "unit") && gf_startswith(o->id, "user@") && i + 1 < chain->n)
                        continue;
                found = o;
                break;
        }
        return found;
}

static void stop_owner(struct gf_search *s, const struct gf_cgroup_chain *chain, const struct gf_cgroup_owner *owner)
{
        _cleanup_free_ char *name = NULL;
        const char *runtime = owner->runtime;
        const struct gf_cgroup_owner *inner = NULL;

        if (gf_name_find(s->places, owner, s->holder, &runtime, &name) < 0)
                s->failed = true;
        if (is_kind(owner, "cgroup"))
                runtime = gf_name_oci(s->places, owner->id);
        for (const struct gf_cgroup_owner *o = owner + 1; o < chain->v + chain->n && !inner; o++)
                if (o->nested)
                        inner = o;
        free(s->stop->owner);
        s->stop->owner = gf_label_of(owner->kind, runtime, owner->id, name);
        s->failed |= s->stop->owner == NULL;
        if (inner && stop_inside(s, owner, runtime, inner))
                return;
        if (is_kind(owner, "pod"))
                gf_stop_pod(s, owner);
        else if (is_kind(owner, "session"))
                gf_stop_session(s, owner);
        else if (is_kind(owner, "unit") || is_kind(owner, "user-unit") || is_kind(owner, "scope"))
                gf_stop_unit(s, owner);
        else if (is_kind(owner, "job") && gf_streq(runtime, "slurm"))
                gf_stop_slurm(s, owner->id, false);
        else
                gf_stop_by_row(s, owner, runtime);
}

/* Owners that are known from the environment alone. */
static bool stop_claimed(struct gf_search *s)
{
        for (size_t i = 0; i < s->holder->owners.n; i++) {
                const struct gf_owner *o = &s->holder->owners.v[i];

                if (!gf_streq(o->kind, "job"))
                        continue;
                gf_search_say(s, &s->stop->owner, "%s", s->holder->owner_label ? s->holder->owner_label : o->id);
                if (gf_streq(o->runtime, "slurm")) {
                        gf_stop_slurm(s, o->id, true);
                } else {
                        struct gf_cgroup_owner claimed = { .kind = "job", .runtime = "ray", .manager = UINT32_MAX };

                        snprintf(claimed.id, sizeof(claimed.id), "%s", o->id);
                        if (gf_streq(o->runtime, "ray"))
                                gf_stop_by_row(s, &claimed, "ray");
                }
                return true;
        }
        return false;
}

/* Is there a container, VM, pod or job? Then what started the process inside it is not the host's affair. */
static bool is_contained(const struct gf_cgroup_owner *owner)
{
        return owner && !is_kind(owner, "unit") && !is_kind(owner, "user-unit") && !is_kind(owner, "scope") &&
               !is_kind(owner, "session");
}

/* The script that runs gpufree waits for it: it is no loop around the holder. */
static bool runs_us(struct gf_search *s, const struct gf_ident *id)
{
        struct gf_brief chain[GF_ANCESTORS_MAX];
        size_t n = gf_ancestors(s->env, NULL, getppid(), chain, ELEMENTSOF(chain));

        for (size_t i = 0; i < n; i++)
                if (gf_ident_equal(&chain[i].id, id))
                        return true;
        return false;
}

/* Are we inside what would be stopped? Then the command would end us, and perhaps this very login. */
static bool holds_ourselves(struct gf_search *s, const struct gf_cgroup_owner *owner, const struct gf_launcher *l)
{
        struct gf_cgroup_chain own;
        _cleanup_(gf_strv_done) gf_strv lines = { 0 };

        if (l->kind == GF_LAUNCHER_SUPERVISOR)
                return runs_us(s, &l->child);
        if (gf_cgroup_lines_read(s->env, getpid(), &lines) < 0)
                return false;
        gf_cgroup_parse_lines(&lines, &own, NULL);
        for (size_t i = 0; owner && i < own.n; i++)
                if (strcmp(own.v[i].kind, owner->kind) == 0 && strcmp(own.v[i].id, owner->id) == 0 &&
                    own.v[i].nested == owner->nested)
                        return true;
        return false;
}

static int finish(struct gf_search *s)
{
        if (s->failed)
                return -ENOMEM;
        if (s->stop->refusal)
                gf_strv_done(&s->stop->ask);
        if (s->stop->argv.n > 0 && !s->stop->text) {
                s->stop->text = gf_shell_quote(&s->stop->argv);
                if (!s->stop->text)
                        return -ENOMEM;
        }
        return 0;
}

int gf_stop_find_in(struct gf_env *env, const struct gf_places *places, uint32_t me,
                    const struct gpufree_holder *holder, struct gf_stop *ret_stop)
{
        _cleanup_(gf_stop_done) struct gf_stop stop = { 0 };
        _cleanup_(gf_launcher_done) struct gf_launcher launcher = { 0 };
        struct gf_search s = { env, places, holder, me, &stop, false };
        struct gf_cgroup_chain chain;
        struct gf_cgroup_owner bare;
        const struct gf_cgroup_owner *owner;
        int r;

        gf_cgroup_parse_lines(&holder->facts.cgroups, &chain, NULL);
        owner = outermost(&chain);
        if (!owner && chain.n > 0 && is_kind(&chain.v[0], "cgroup") && gf_name_oci(places, chain.v[0].id)) {
                bare = chain.v[0];
                bare.kind = "container";
                bare.runtime = gf_name_oci(places, bare.id);
                owner = &bare;
                chain.n = 0;
        }
        r = is_contained(owner) ? 0 : gf_launcher_find(env, holder, &launcher);
        if (r < 0)
                return r;
        if (launcher.kind == GF_LAUNCHER_SHELL && runs_us(&s, &launcher.process.id))
                launcher.kind = GF_LAUNCHER_NONE;
        if (launcher.kind == GF_LAUNCHER_SUPERVISOR)
                gf_stop_launcher(&s, &launcher);
        else if (owner == &bare)
                gf_stop_by_row(&s, &bare, bare.runtime);
        else if (owner && (is_contained(owner) || !stop_claimed(&s)))
                stop_owner(&s, &chain, owner);
        else if (!owner && !stop_claimed(&s) && launcher.kind == GF_LAUNCHER_SHELL)
                gf_stop_launcher(&s, &launcher);
        /* a loop in a session or scope starts its child again, whatever systemd does */
        if (launcher.kind == GF_LAUNCHER_SHELL && owner && !is_contained(owner) && stop.again == GF_AGAIN_NO) {
                stop.again = GF_AGAIN_UNKNOWN;
                gf_search_say(&s, &stop.why, "its parent is a shell script (PID %d, %s), which may start it again",
                              launcher.process.id.pid, launcher.what);
        }
        if (stop.argv.n > 0 && !stop.refusal && holds_ourselves(&s, owner, &launcher))
                gf_search_say(&s, &stop.refusal, "gpufree itself runs in it");
        r = finish(&s);
        if (r < 0)
                return r;
        *ret_stop = stop;
        stop = (struct gf_stop){ 0 };
        return 0;
}

int gf_stop_find(struct gf_env *env, uint32_t me, const struct gpufree_holder *holder, struct gf_stop *ret_stop)
{
        return gf_stop_find_in(env, &(struct gf_places){ "" }, me, holder, ret_stop);
}

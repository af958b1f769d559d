/* SPDX-License-Identifier: MIT */
#include "owner/owner.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "owner/label.h"
#include "owner/launcher.h"
#include "owner/names.h"
#include "owner/places.h"

static bool is_kind(const struct gf_owner *owner, const char *kind)
{
        return strcmp(owner->kind, kind) == 0;
}

static int add(struct gpufree_holder *holder, const char *kind, const char *runtime, const char *id, const char *name)
{
        struct gf_owner *owner = gf_vec_add(&holder->owners);

        if (!owner || gf_strset(&owner->kind, kind) < 0 || gf_strset(&owner->runtime, runtime) < 0 ||
            gf_strset(&owner->id, id) < 0 || gf_strset(&owner->name, name) < 0) {
                /* never leave one half filled: readers rely on kind and id */
                if (owner) {
                        free(owner->kind);
                        free(owner->runtime);
                        free(owner->id);
                        free(owner->name);
                        holder->owners.n--;
                }
                return -ENOMEM;
        }
        return 0;
}

static bool is_lxc(const char *runtime)
{
        return gf_streq(runtime, "lxc");
}

/* LXC appends "-1" to the name of a cgroup when that is taken: the container's own name is without it. */
static void lxc_plain(const struct gf_places *places, struct gf_cgroup_owner *owner)
{
        char *dash = strrchr(owner->id, '-');
        _cleanup_free_ char *with = NULL, *without = NULL;

        if (!dash || dash == owner->id || dash[1] == '\0' || dash[1 + strspn(dash + 1, "0123456789")] != '\0')
                return;
        with = gf_asprintf("/var/lib/lxc/%s", owner->id);
        *dash = '\0';
        without = gf_asprintf("/var/lib/lxc/%s", owner->id);
        *dash = '-';
        if (with && without && !gf_place_has(places, with) && gf_place_has(places, without))
                *dash = '\0';
}

/* The owners that the cgroups tell. */
static int add_chain(const struct gf_places *places, const struct gf_cgroup_chain *chain, struct gpufree_holder *holder)
{
        for (size_t i = 0; i < chain->n; i++) {
                struct gf_cgroup_owner owner = chain->v[i];
                _cleanup_free_ char *name = NULL;
                const char *runtime;
                int r;

                if (strcmp(owner.kind, "cgroup") == 0 && gf_name_oci(places, owner.id)) {
                        owner.runtime = gf_name_oci(places, owner.id);
                        owner.kind = "container";
                }
                if (is_lxc(owner.runtime) && !owner.nested)
                        lxc_plain(places, &owner);
                runtime = owner.runtime;
                r = gf_name_find(places, &owner, holder, &runtime, &name);
                if (r == 0 && !name && owner.manager != UINT32_MAX && !owner.nested &&
                    strcmp(owner.kind, "user-unit") == 0)
                        (void)gf_passwd_find(places, owner.manager, &name, NULL);
                if (r == 0)
                        r = add(holder, owner.kind, runtime, owner.id, name);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool has(const struct gpufree_holder *holder, const char *kind, const char *runtime)
{
        for (size_t i = 0; i < holder->owners.n; i++)
                if (is_kind(&holder->owners.v[i], kind) && gf_streq(holder->owners.v[i].runtime, runtime))
                        return true;
        return false;
}

enum { SLURM_JOB, SLURM_STEP, RAY_JOB, APPTAINER_NAME, APPTAINER_FILE, SINGULARITY_NAME, SINGULARITY_FILE, N_KEYS };
static const char *const keys[N_KEYS] = { "SLURM_JOB_ID",         "SLURM_STEP_ID",       "RAY_JOB_ID",
                                          "APPTAINER_NAME",       "APPTAINER_CONTAINER", "SINGULARITY_NAME",
                                          "SINGULARITY_CONTAINER" };

static bool is_number(const char *text)
{
        return text && text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
}

/* Slurm names its cgroup by another identity from 26.05 on; the number people know is in the environment. */
static int slurm_number(struct gpufree_holder *holder, char *const *values)
{
        _cleanup_free_ char *id = NULL;

        if (!is_number(values[SLURM_JOB]))
                return 0;
        for (size_t i = 0; i < holder->owners.n; i++) {
                struct gf_owner *owner = &holder->owners.v[i];

                if (!is_kind(owner, "job") || !gf_streq(owner->runtime, "slurm") || owner->id[0] != 's')
                        continue;
                id = gf_asprintf("%s%s", values[SLURM_JOB], strchr(owner->id, '.') ? strchr(owner->id, '.') : "");
                if (!id || gf_strset(&owner->name, owner->id) < 0)
                        return -ENOMEM;
                return gf_strset(&owner->id, id);
        }
        if (has(holder, "job", "slurm"))
                return 0;
        /* steps that are no steps (batch, extern) have numbers near 2^32 */
        if (is_number(values[SLURM_STEP]) && strlen(values[SLURM_STEP]) < 9)
                id = gf_asprintf("%s.%s", values[SLURM_JOB], values[SLURM_STEP]);
        else
                id = strdup(values[SLURM_JOB]);
        return id ? add(holder, "job", "slurm", id, NULL) : -ENOMEM;
}

/* What runtimes without a cgroup of their own leave in the environment. Unreadable is no error. */
static int add_from_environ(struct gf_env *env, struct gpufree_holder *holder)
{
        char *values[N_KEYS] = { NULL };
        const char *file, *name;
        int r;

        r = gf_environ_read(env, &holder->id, keys, values, N_KEYS);
        if (r == -ENOMEM)
                goto out;
        r = slurm_number(holder, values);
        if (r == 0 && values[RAY_JOB] && values[RAY_JOB][0] != '\0')
                r = add(holder, "job", "ray", values[RAY_JOB], NULL);
        file = values[APPTAINER_FILE] ? values[APPTAINER_FILE] : values[SINGULARITY_FILE];
        name = values[APPTAINER_NAME] ? values[APPTAINER_NAME] : values[SINGULARITY_NAME];
        if (r == 0 && (file || name))
                r = add(holder, "container", "apptainer", name ? name : file, file);
out:
        for (size_t i = 0; i < N_KEYS; i++)
                free(values[i]);
        return r;
}

/* "10.1.2.3" of SSH_CONNECTION, as far as it looks like an address. */
static int ssh_peer(struct gf_env *env, const struct gpufree_holder *holder, char **ret)
{
        static const char *const key[] = { "SSH_CONNECTION" };
        _cleanup_free_ char *value = NULL;
        size_t n;
        int r;

        r = gf_environ_read(env, &holder->id, key, &value, 1);
        if (r < 0 || !value)
                return r == -ENOMEM ? r : 0;
        n = strspn(value, "0123456789abcdefABCDEF.:%");
        if (n == 0 || value[n] != ' ')
                return 0;
        value[n] = '\0';
        *ret = gf_asprintf("from %s", value);
        return *ret ? 0 : -ENOMEM;
}

static struct gf_owner *find_kind(struct gpufree_holder *holder, const char *kind)
{
        for (size_t i = 0; i < holder->owners.n; i++)
                if (is_kind(&holder->owners.v[i], kind))
                        return &holder->owners.v[i];
        return NULL;
}

/* The login session, and the ancestor that a person would recognise. */
static int add_launcher(struct gf_env *env, struct gpufree_holder *holder)
{
        _cleanup_(gf_launcher_done) struct gf_launcher l = { 0 };
        _cleanup_free_ char *peer = NULL;
        struct gf_owner *session = find_kind(holder, "session");
        char number[16];
        int r;

        r = gf_launcher_find(env, holder, &l);
        if (r < 0)
                return r;
        if (!session && holder->facts.login_session != UINT32_MAX && !find_kind(holder, "unit") &&
            !find_kind(holder, "container") && !find_kind(holder, "pod") && !find_kind(holder, "vm")) {
                snprintf(number, sizeof(number), "%u", holder->facts.login_session);
                r = add(holder, "session", NULL, number, NULL);
                if (r < 0)
                        return r;
                session = find_kind(holder, "session");
        }
        if (l.kind == GF_LAUNCHER_SUPERVISOR && l.what)
                return add(holder, "service", l.name, l.what, NULL);
        if (l.kind != GF_LAUNCHER_LOGIN && l.kind != GF_LAUNCHER_SUPERVISOR)
                return 0;
        if (strcmp(l.name, "ssh") == 0)
                r = ssh_peer(env, holder, &peer);
        if (r == 0 && session)
                return gf_strset(&session->name, l.name);
        snprintf(number, sizeof(number), "%d", l.process.id.pid);
        return r == 0 ? add(holder, "launcher", l.name, number, peer) : r;
}

/* Which one owner a table shows: what the machine would stop, else what a person would recognise. */
static const struct gf_owner *most_telling(const struct gpufree_holder *holder)
{
        static const char *const order[][4] = {
                { "job", "pod", "container", "vm" },
                { "service", NULL },
                { "user-unit", "unit", NULL },
                { "session", NULL },
                { "launcher", NULL },
                { "user-unit", "unit", "scope", NULL },
                { "monitor", NULL },
                { "cgroup", NULL },
        };

        for (size_t rank = 0; rank < ELEMENTSOF(order); rank++)
                for (size_t i = 0; i < holder->owners.n; i++) {
                        const struct gf_owner *o = &holder->owners.v[i];

                        /* a scope or a user's manager says little while there is something better */
                        bool manager = gf_startswith(o->id, "user@");

                        if (rank == 2 && (manager || !gf_endswith(o->id, ".service")))
                                continue;
                        if (rank == 5 && manager && i + 1 < holder->owners.n)
                                continue;
                        for (size_t k = 0; k < ELEMENTSOF(order[rank]) && order[rank][k]; k++)
                                if (is_kind(o, order[rank][k]))
                                        return o;
                }
        return NULL;
}

/* A cgroup that nothing is known of and that we are in ourselves says nothing. */
static bool is_where_we_are(struct gf_env *env, const struct gpufree_holder *holder)
{
        _cleanup_(gf_strv_done) gf_strv lines = { 0 };

        if (gf_cgroup_lines_read(env, getpid(), &lines) < 0 || lines.n != holder->facts.cgroups.n)
                return false;
        for (size_t i = 0; i < lines.n; i++)
                if (strcmp(lines.v[i], holder->facts.cgroups.v[i]) != 0)
                        return false;
        return true;
}

int gf_owner_read_in(struct gf_env *env, const struct gf_places *places, struct gpufree_holder *holder)
{
        struct gf_cgroup_chain chain;
        const struct gf_owner *shown;
        const char *path = NULL;
        int r;

        if (holder->facts.kernel_thread)
                return 0;
        if (holder->facts.cgroups.n > 0)
                gf_cgroup_parse_lines(&holder->facts.cgroups, &chain, &path);
        else
                gf_cgroup_parse(holder->facts.cgroup ? holder->facts.cgroup : "/", &chain);
        if (path && gf_strset(&holder->facts.cgroup, path) < 0)
                return -ENOMEM;
        r = add_chain(places, &chain, holder);
        if (r == 0)
                r = add_from_environ(env, holder);
        if (r == 0)
                r = add_launcher(env, holder);
        if (r < 0)
                return r;
        shown = most_telling(holder);
        if (!shown || (is_kind(shown, "cgroup") && is_where_we_are(env, holder)))
                return 0;
        free(holder->owner_label);
        holder->owner_label = gf_label_of(shown->kind, shown->runtime, shown->id, shown->name);
        return holder->owner_label ? 0 : -ENOMEM;
}

int gf_owner_read(struct gf_env *env, struct gpufree_holder *holder)
{
        return gf_owner_read_in(env, &(struct gf_places){ "" }, holder);
}

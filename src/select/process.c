/* SPDX-License-Identifier: MIT */
/* Who a process is: user, container, unit, job, session, command line, age, state. */
#include "select/criteria_match.h"

/* Start times in /proc are in USER_HZ, 100 on every machine that has these GPUs; not a matter of the kernel's HZ. */
#define MS_PER_TICK 10

/* An ID of a container runtime or a pod's UID is long and hexadecimal; a name is not to be taken by its beginning. */
#define LONG_ID 32
#define SHORTEST_PREFIX 4

const struct gf_owner *gf_innermost_owner(const struct gpufree_holder *holder)
{
        return holder->owners.n ? &holder->owners.v[holder->owners.n - 1] : NULL;
}

const char *gf_owner_unit(const struct gf_owner *owner)
{
        if (!owner ||
            !(gf_streq(owner->kind, "unit") || gf_streq(owner->kind, "user-unit") || gf_streq(owner->kind, "scope")))
                return NULL;
        return owner->id ? owner->id : owner->name;
}

bool gf_unit_is(const char *unit, const char *name)
{
        size_t n = strlen(name);

        return strncmp(unit, name, n) == 0 && (unit[n] == '\0' || strcmp(unit + n, ".service") == 0);
}

bool gf_is_contained(const struct gpufree_holder *holder)
{
        static const char *const kinds[] = { "container", "pod", "job", "vm" };

        for (size_t i = 0; i < holder->owners.n; i++)
                for (size_t j = 0; j < ELEMENTSOF(kinds); j++)
                        if (gf_streq(holder->owners.v[i].kind, kinds[j]))
                                return true;
        return false;
}

static bool is_long_id(const char *id)
{
        return strlen(id) >= LONG_ID && strspn(id, "0123456789abcdef-") == strlen(id);
}

/* The word in front of a colon, as in a label: Proxmox's containers are shown as LXC's, "pct" are Proxmox's alone. */
static bool runtime_is(const struct gf_owner *owner, const char *word, size_t n)
{
        static const char *const also[][2] = { { "lxc", "proxmox" }, { "pct", "proxmox" } };

        for (size_t i = 0; i < ELEMENTSOF(also); i++)
                if (strlen(also[i][0]) == n && strncmp(word, also[i][0], n) == 0 &&
                    gf_streq(owner->runtime, also[i][1]))
                        return true;
        return (strlen(owner->kind) == n && strncmp(word, owner->kind, n) == 0) ||
               (owner->runtime && strlen(owner->runtime) == n && strncmp(word, owner->runtime, n) == 0);
}

static bool container_named(const struct gf_owner *owner, const char *name)
{
        if (gf_streq(owner->id, name) || gf_streq(owner->name, name))
                return true;
        return owner->id && is_long_id(owner->id) && strlen(name) >= SHORTEST_PREFIX && gf_startswith(owner->id, name);
}

static bool container_is(const struct gf_owner *owner, const char *name)
{
        const char *colon = strchr(name, ':');

        if (!gf_streq(owner->kind, "container") && !gf_streq(owner->kind, "pod"))
                return false;
        return container_named(owner, name) ||
               (colon && runtime_is(owner, name, (size_t)(colon - name)) && container_named(owner, colon + 1));
}

static bool unit_is(const struct gf_owner *owner, const char *name)
{
        const char *unit = gf_owner_unit(owner);

        return unit && gf_unit_is(unit, name);
}

/* "3385" means every step of it. */
static bool job_id_is(const char *id, const char *name)
{
        size_t n = strlen(name);

        return id && strncmp(id, name, n) == 0 && (id[n] == '\0' || (id[n] == '.' && !strchr(name, '.')));
}

/* Newer Slurm has two identities for a job, the number and the SLUID: the second is kept as the name. */
static bool job_is(const struct gf_owner *owner, const char *name)
{
        return gf_streq(owner->kind, "job") &&
               (job_id_is(owner->id, name) || (gf_streq(owner->runtime, "slurm") && job_id_is(owner->name, name)));
}

static bool session_is(const struct gf_owner *owner, const char *name)
{
        return gf_streq(owner->kind, "session") && gf_streq(owner->id, name);
}

static bool owned_by(const struct gpufree_holder *holder, const gf_strv *names,
                     bool (*is)(const struct gf_owner *owner, const char *name))
{
        if (names->n == 0)
                return true;
        for (size_t i = 0; i < holder->owners.n; i++)
                for (size_t j = 0; j < names->n; j++)
                        if (is(&holder->owners.v[i], names->v[j]))
                                return true;
        return false;
}

static bool matches_session(const struct gpufree_holder *holder, const gf_strv *names)
{
        char number[16];

        if (owned_by(holder, names, session_is))
                return true;
        /* Where no manager keeps sessions in cgroups, the audit session of the login says it. */
        if (holder->owners.n > 0 || holder->facts.login_session == UINT32_MAX)
                return false;
        snprintf(number, sizeof(number), "%u", holder->facts.login_session);
        return gf_strv_has(names, number);
}

/* Arguments joined by spaces; the name where there are none. NULL: out of memory. */
static char *command_line(const struct gf_facts *facts)
{
        size_t n = facts->cmdline_length;
        char *text;

        while (facts->cmdline && n > 0 && facts->cmdline[n - 1] == '\0')
                n--;
        if (!facts->cmdline || n == 0)
                return strdup(facts->comm ? facts->comm : "");
        text = malloc(n + 1);
        if (!text)
                return NULL;
        for (size_t i = 0; i < n; i++)
                text[i] = facts->cmdline[i] ? facts->cmdline[i] : ' ';
        text[n] = '\0';
        return text;
}

static int matches_command(const struct gpufree_selection *selection, const struct gf_facts *facts)
{
        _cleanup_free_ char *text = NULL;

        if (selection->matches.n == 0)
                return 1;
        text = command_line(facts);
        if (!text)
                return -ENOMEM;
        for (size_t i = 0; i < selection->matches.n; i++) {
                int e = regexec(selection->matches.v[i], text, 0, NULL, 0);

                if (e == 0)
                        return 1;
                if (e != REG_NOMATCH)
                        return -ENOMEM;
        }
        return 0;
}

static bool is_old_enough(const struct gpufree_selection *selection, const struct gpufree_holder *holder,
                          uint64_t boot_ticks)
{
        uint64_t ticks;

        if (!selection->has_older_than)
                return true;
        ticks = boot_ticks > holder->id.start_ticks ? boot_ticks - holder->id.start_ticks : 0;
        return ticks >= selection->older_than_ms / MS_PER_TICK + (selection->older_than_ms % MS_PER_TICK != 0);
}

bool gf_is_stopped(const struct gpufree_holder *holder)
{
        /* Not 't': a process under strace is in it for a moment at every system call. */
        return holder->facts.state == 'T';
}

/*
 * Its parent is gone, so that PID 1 is its parent now. What PID 1 starts itself is no orphan: the main process of a
 * service, the first process of a container. Kept simple, and on the side of "no orphan": a process that a subreaper
 * took over (`systemd --user`, the first process of a container) is not told from one that was started by it.
 */
bool gf_is_orphan(const struct gpufree_holder *holder, bool initial_pidns)
{
        const struct gf_facts *facts = &holder->facts;
        const struct gf_owner *owner = gf_innermost_owner(holder);

        if (facts->ppid != 1 || facts->kernel_thread || holder->id.pid == 1 || facts->pidns_pid == 1)
                return false;
        if (owner && gf_streq(owner->kind, "unit"))
                return false;
        /*
         * Inside a container PID 1 is often the one that starts the workload. What leads a process group, or belongs to
         * that of PID 1, was started by it as likely as not.
         */
        if (!initial_pidns && (facts->pgrp <= 1 || facts->pgrp == holder->id.pid))
                return false;
        return true;
}

int gf_matches_process(const struct gpufree_selection *selection, const struct gpufree_holder *holder,
                       uint64_t boot_ticks, bool initial_pidns)
{
        if (!selection)
                return 1;
        if (!gf_selection_allows_pid(selection, holder->id.pid) ||
            !gf_selection_allows_uid(selection, holder->facts.uid))
                return 0;
        if (!owned_by(holder, &selection->containers, container_is) || !owned_by(holder, &selection->units, unit_is) ||
            !owned_by(holder, &selection->jobs, job_is) || !matches_session(holder, &selection->sessions))
                return 0;
        if ((selection->stopped && !gf_is_stopped(holder)) ||
            (selection->orphans && !gf_is_orphan(holder, initial_pidns)) ||
            !is_old_enough(selection, holder, boot_ticks))
                return 0;
        return matches_command(selection, &holder->facts);
}

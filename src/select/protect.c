/* SPDX-License-Identifier: MIT */
/*
 * What is left alone unless it is named, and what is left alone always. A process is judged by what it is: the
 * executable, its owner, its unit. A name that it gave itself (comm, argv) protects nobody.
 */
#include "select/criteria_match.h"
#include "select/protect_table.h"
#include "select/rules.h"
#include "select/select.h"

#define COMM_MAX 15
/* Below: accounts of the system; daemons, not people. */
#define FIRST_PERSON 1000

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

static bool name_is(const struct gf_protected_program *program, const char *name)
{
        return program->prefix ? gf_startswith(name, program->name) : strcmp(name, program->name) == 0;
}

/* The kernel cuts a comm: "nvidia-persiste". */
static bool comm_is(const struct gf_protected_program *program, const char *comm)
{
        char cut[COMM_MAX + 1];

        if (name_is(program, comm))
                return true;
        snprintf(cut, sizeof(cut), "%s", program->name);
        return strlen(comm) == COMM_MAX && strcmp(comm, cut) == 0;
}

/*
 * Monitors written in Python: the interpreter is what runs, the name is in comm or in the script. That name can be made
 * up; it buys nothing, because a process that holds memory is not taken for a monitor.
 */
static bool is_script_of(const struct gf_protected_program *program, const struct gf_facts *facts)
{
        const char *script;
        size_t first;

        if (!gf_startswith(base_name(facts->exe), "python"))
                return false;
        if (facts->comm && comm_is(program, facts->comm))
                return true;
        if (!facts->cmdline)
                return false;
        first = strnlen(facts->cmdline, facts->cmdline_length);
        if (first + 1 >= facts->cmdline_length)
                return false;
        script = facts->cmdline + first + 1;
        if (strnlen(script, facts->cmdline_length - first - 1) == facts->cmdline_length - first - 1)
                return false; /* cut short: no NUL at its end */
        return name_is(program, base_name(script));
}

static bool runs(const struct gf_protected_program *program, const struct gpufree_holder *holder)
{
        const struct gf_facts *facts = &holder->facts;

        if (program->only_while_open && gf_holds_anything(holder))
                return false;
        /* No executable to be read: only where root runs it is the name believed. */
        if (!facts->exe)
                return facts->uid == 0 && facts->comm && comm_is(program, facts->comm);
        if (!facts->exe_trusted)
                return false;
        return name_is(program, base_name(facts->exe)) || (program->only_while_open && is_script_of(program, facts));
}

static bool is_ancestor(const struct gf_self *self, const struct gf_ident *id)
{
        for (size_t i = 0; i < self->ancestors.n; i++) {
                const struct gf_ident *ancestor = &self->ancestors.v[i];

                /* A start time that is not known can't tell them apart: then the PID decides. */
                if (ancestor->pid == id->pid &&
                    (ancestor->start_ticks == id->start_ticks || ancestor->start_ticks == 0 || id->start_ticks == 0))
                        return true;
        }
        return false;
}

/* The sshd that this login came through. It is no ancestor when gpufree runs in tmux or screen. */
static bool is_own_sshd(const struct gf_self *self, const struct gpufree_holder *holder)
{
        const struct gf_facts *facts = &holder->facts;
        const char *name = facts->exe ? base_name(facts->exe) : facts->comm;

        if (self->login_session == UINT32_MAX || facts->login_session != self->login_session || !name)
                return false;
        if (facts->exe ? !facts->exe_trusted : facts->uid != 0 && facts->uid != self->uid)
                return false;
        return strcmp(name, "sshd") == 0 || strcmp(name, "sshd-session") == 0;
}

static const char *absolute_reason(const struct gf_self *self, const struct gpufree_holder *holder)
{
        if (holder->id.pid == self->pid)
                return "gpufree itself";
        if (holder->id.pid == 1)
                return "the first process; everything here ends with it";
        if (holder->facts.kernel_thread)
                return "a kernel thread; no signal ends it";
        if (is_ancestor(self, &holder->id))
                return "gpufree runs under it; this very command would end with it";
        if (self->session > 0 && holder->id.pid == self->session)
                return "leads this very session; the terminal would end with it";
        if (is_own_sshd(self, holder))
                return "the SSH server of this very login; the login would end with it";
        return NULL;
}

/* The unit where the process itself is one of a system service, not of something that the service started. */
static const char *system_service(const struct gpufree_holder *holder)
{
        const struct gf_owner *owner = gf_innermost_owner(holder);
        const char *unit;

        if (!owner || !gf_streq(owner->kind, "unit") || gf_is_contained(holder))
                return NULL;
        unit = gf_owner_unit(owner);
        return unit && gf_endswith(unit, ".service") ? unit : NULL;
}

const char gf_why_container_init[] = "first process of a container; the whole container ends with it";

static int liftable_reason(const struct gf_rules *rules, const struct gpufree_holder *holder, char **ret_why)
{
        const struct gf_rule *rule = gf_rules_find(rules, holder);
        const char *unit = system_service(holder), *why = NULL;
        char *text;

        if (rule && !rule->protect)
                return 0;
        if (rule)
                why = rule->why;
        for (size_t i = 0; i < gf_n_protected_programs && !why; i++)
                if (runs(&gf_protected_programs[i], holder))
                        why = gf_protected_programs[i].why;
        for (size_t i = 0; i < gf_n_protected_units && unit && !why; i++)
                if (strcmp(unit, gf_protected_units[i].name) == 0)
                        why = gf_protected_units[i].why;
        /* One that holds the GPU, or has the very device open that was named, is meant like any other. */
        if (!why && holder->facts.pidns_pid == 1 && !gf_holds_anything(holder) && !holder->asked)
                why = gf_why_container_init;
        if (why)
                text = strdup(why);
        else if (unit && (holder->facts.uid < FIRST_PERSON || holder->facts.uid == UINT32_MAX))
                text = gf_asprintf("system service %s; ended only when named", unit);
        else
                return 0;
        if (!text)
                return -ENOMEM;
        *ret_why = text;
        return 1;
}

int gf_protect(const struct gf_self *self, const struct gpufree_holder *holder, char **ret_why, bool *ret_absolute)
{
        const char *why = absolute_reason(self, holder);
        char *text = NULL;
        int r;

        if (why) {
                text = strdup(why);
                if (!text)
                        return -ENOMEM;
                *ret_why = text;
                *ret_absolute = true;
                return 1;
        }
        r = liftable_reason(self->rules, holder, &text);
        if (r < 0)
                return r;
        *ret_why = text;
        *ret_absolute = false;
        return r;
}

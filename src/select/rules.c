/* SPDX-License-Identifier: MIT */
#include "select/rules.h"

#include <string.h>

#include "select/criteria_match.h"

#define COMM_MAX 15

void gf_rules_done(struct gf_rules *rules)
{
        for (size_t i = 0; i < rules->v.n; i++) {
                free(rules->v.v[i].name);
                free(rules->v.v[i].why);
        }
        gf_vec_done(&rules->v);
}

static bool applies(const struct gf_rule *rule, const struct gpufree_holder *holder)
{
        const struct gf_facts *facts = &holder->facts;
        const struct gf_owner *owner = gf_innermost_owner(holder);
        const char *unit;

        switch (rule->kind) {
        case GF_RULE_EXE:
                /* A file that others may write is whatever they make of it. */
                return facts->exe && strcmp(facts->exe, rule->name) == 0 && (!rule->protect || facts->exe_trusted);
        case GF_RULE_UNIT:
                if (!owner || !gf_streq(owner->kind, "unit") || gf_is_contained(holder))
                        return false;
                unit = gf_owner_unit(owner);
                return unit && gf_unit_is(unit, rule->name);
        case GF_RULE_COMM:
                return facts->uid == 0 && facts->comm && strcmp(facts->comm, rule->name) == 0;
        default:
                return false;
        }
}

const struct gf_rule *gf_rules_find(const struct gf_rules *rules, const struct gpufree_holder *holder)
{
        const struct gf_rule *found = NULL;

        for (size_t i = 0; rules && i < rules->v.n; i++)
                if (applies(&rules->v.v[i], holder) && (!found || rules->v.v[i].protect))
                        found = &rules->v.v[i];
        return found;
}

_printf_(2, 3) static int wrong(char **ret_error, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        *ret_error = gf_vasprintf(format, ap);
        va_end(ap);
        return *ret_error ? -EINVAL : -ENOMEM;
}

/* "exe /opt/acme/agentd": kind, blanks, name. */
static int split(const char *text, enum gf_rule_kind *ret_kind, const char **ret_name, char **ret_error)
{
        static const char *const kinds[] = { "exe", "unit", "comm" };
        size_t n = strcspn(text, " \t");

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                if (strlen(kinds[i]) != n || strncmp(kinds[i], text, n) != 0)
                        continue;
                *ret_kind = i == 0 ? GF_RULE_EXE : i == 1 ? GF_RULE_UNIT : GF_RULE_COMM;
                *ret_name = text + n + strspn(text + n, " \t");
                return 0;
        }
        return wrong(ret_error, "\"%s\" does not begin with exe, unit or comm", text);
}

static int check(enum gf_rule_kind kind, const char *name, char **ret_error)
{
        if (name[0] == '\0')
                return wrong(ret_error, "the name is missing, as in \"unit acme-agent.service = why\"");
        if (kind == GF_RULE_EXE && name[0] != '/')
                return wrong(ret_error, "exe %s: the whole path is needed", name);
        if (kind == GF_RULE_COMM && strlen(name) > COMM_MAX)
                return wrong(ret_error, "comm %s: the kernel keeps %d characters of a name", name, COMM_MAX);
        if (kind != GF_RULE_EXE && strchr(name, '/'))
                return wrong(ret_error, "%s: a path is named with exe", name);
        return 0;
}

int gf_rules_add(struct gf_rules *rules, const char *section, const char *name, const char *why, char **ret_error)
{
        bool protect = strcmp(section, "protect") == 0;
        enum gf_rule_kind kind = GF_RULE_EXE;
        struct gf_rule *rule;
        int r;

        if (!protect && strcmp(section, "unprotect") != 0)
                return wrong(ret_error, "there is no section [%s] (protect, unprotect)", section);
        r = split(name, &kind, &name, ret_error);
        if (r == 0)
                r = check(kind, name, ret_error);
        if (r < 0)
                return r;
        if (!why || why[0] == '\0')
                return wrong(ret_error, "%s: the reason is missing, as in \"unit acme-agent.service = why\"", name);
        for (size_t i = 0; i < rules->v.n; i++)
                if (rules->v.v[i].kind == kind && strcmp(rules->v.v[i].name, name) == 0)
                        return wrong(ret_error, "%s is named twice", name);
        rule = gf_vec_add(&rules->v);
        if (!rule)
                return -ENOMEM;
        *rule = (struct gf_rule){ .protect = protect, .kind = kind, .name = strdup(name), .why = strdup(why) };
        return rule->name && rule->why ? 0 : -ENOMEM;
}

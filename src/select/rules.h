/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/str.h"
#include "model/holder.h"

/* What the machine's administrator adds to the tables of protection, or takes from them (/etc/gpufree.conf). */
enum gf_rule_kind {
        GF_RULE_EXE,  /* path of the executable */
        GF_RULE_UNIT, /* system unit, with or without ".service" */
        GF_RULE_COMM, /* name of a process of root's: anybody else's could be made up */
};

struct gf_rule {
        bool protect; /* else: not protected, whatever the tables say */
        enum gf_rule_kind kind;
        char *name, *why;
};

struct gf_rules {
        GF_VEC(struct gf_rule) v;
};

void gf_rules_done(struct gf_rules *rules);
/* The rule for this process, or NULL. One that protects counts more than one that does not. Pure. */
const struct gf_rule *gf_rules_find(const struct gf_rules *rules, const struct gpufree_holder *holder);
/* -EINVAL: *ret_error says what is wrong ("unit: the name is empty"); -ENOMEM. */
int gf_rules_add(struct gf_rules *rules, const char *section, const char *name, const char *why, char **ret_error);

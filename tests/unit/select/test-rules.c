/* SPDX-License-Identifier: MIT */
/* What /etc/gpufree.conf adds to protection, and takes from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "select/rules.h"
#include "select/select.h"

static void add(struct gf_rules *rules, const char *section, const char *name)
{
        char *error = NULL;

        assert_int_equal(gf_rules_add(rules, section, name, "why", &error), 0);
        assert_null(error);
}

static struct gpufree_holder process(uint32_t uid, const char *comm, const char *exe, bool trusted)
{
        struct gpufree_holder holder = { .id = { 4000, 100 } };

        holder.facts.uid = uid;
        holder.facts.comm = strdup(comm);
        holder.facts.exe = strdup(exe);
        holder.facts.exe_trusted = trusted;
        holder.facts.login_session = UINT32_MAX;
        return holder;
}

static char *protection(const struct gf_rules *rules, struct gpufree_holder *holder)
{
        struct gf_self self = { .rules = rules, .pid = 1, .login_session = UINT32_MAX };
        bool absolute;
        char *why = NULL;

        (void)gf_protect(&self, holder, &why, &absolute);
        gf_holder_done(holder);
        return why;
}

static bool is_protected(const struct gf_rules *rules, struct gpufree_holder holder)
{
        char *why = protection(rules, &holder);
        bool is = why != NULL;

        free(why);
        return is;
}

static void an_executable_protects_only_where_it_is_roots_own(void **state)
{
        struct gf_rules rules = { 0 };

        (void)state;
        add(&rules, "protect", "exe /opt/acme/agentd");
        assert_true(is_protected(&rules, process(1000, "agentd", "/opt/acme/agentd", true)));
        assert_false(is_protected(&rules, process(1000, "agentd", "/opt/acme/agentd", false)));
        assert_false(is_protected(&rules, process(1000, "agentd", "/home/a/agentd", true)));
        gf_rules_done(&rules);
}

static void a_made_up_comm_protects_nobody(void **state)
{
        struct gf_rules rules = { 0 };

        (void)state;
        add(&rules, "protect", "comm acme-agent");
        assert_true(is_protected(&rules, process(0, "acme-agent", "/usr/bin/python3.11", true)));
        assert_false(is_protected(&rules, process(1000, "acme-agent", "/usr/bin/python3.11", true)));
        assert_false(is_protected(&rules, process(UINT32_MAX, "acme-agent", "/usr/bin/python3.11", true)));
        gf_rules_done(&rules);
}

static void unprotect_takes_from_the_table(void **state)
{
        struct gf_rules rules = { 0 };

        (void)state;
        assert_true(is_protected(&rules, process(1000, "Xorg", "/usr/lib/xorg/Xorg", true)));
        add(&rules, "unprotect", "exe /usr/lib/xorg/Xorg");
        assert_false(is_protected(&rules, process(1000, "Xorg", "/usr/lib/xorg/Xorg", true)));
        /* What protects counts more. */
        add(&rules, "protect", "comm Xorg");
        assert_true(is_protected(&rules, process(0, "Xorg", "/usr/lib/xorg/Xorg", true)));
        gf_rules_done(&rules);
}

static void what_is_never_ended_stays_so(void **state)
{
        struct gf_rules rules = { 0 };
        struct gf_self self = { .rules = &rules, .pid = 4000, .login_session = UINT32_MAX };
        struct gpufree_holder holder = process(0, "gpufree", "/usr/bin/gpufree", true);
        bool absolute = false;
        char *why = NULL;

        (void)state;
        add(&rules, "unprotect", "exe /usr/bin/gpufree");
        assert_int_equal(gf_protect(&self, &holder, &why, &absolute), 1);
        assert_true(absolute);
        free(why);
        gf_holder_done(&holder);
        gf_rules_done(&rules);
}

static void mistakes_are_named(void **state)
{
        static const char *const wrong[][3] = {
                { "else", "unit a", "why" },         { "protect", "unit", "why" },
                { "protect", "a.service", "why" },   { "protect", "exe bin/x", "why" },
                { "protect", "unit a/b", "why" },    { "protect", "comm sixteen-charactr", "why" },
                { "protect", "unit a.service", "" }, { "", "unit a.service", "why" },
        };
        struct gf_rules rules = { 0 };
        char *error = NULL;

        (void)state;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                assert_int_equal(gf_rules_add(&rules, wrong[i][0], wrong[i][1], wrong[i][2], &error), -EINVAL);
                assert_non_null(error);
                assert_null(strchr(error, '\n'));
                free(error);
                error = NULL;
        }
        add(&rules, "protect", "unit a.service");
        assert_int_equal(gf_rules_add(&rules, "unprotect", "unit a.service", "why", &error), -EINVAL);
        free(error);
        assert_int_equal(rules.v.n, 1);
        gf_rules_done(&rules);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_executable_protects_only_where_it_is_roots_own),
                cmocka_unit_test(a_made_up_comm_protects_nobody),
                cmocka_unit_test(unprotect_takes_from_the_table),
                cmocka_unit_test(what_is_never_ended_stays_so),
                cmocka_unit_test(mistakes_are_named),
        };

        return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "explain/blockers.h"
#include "parse/text.h"

void gf_modules_done(gf_modules *list)
{
        for (size_t i = 0; i < list->n; i++)
                gf_strv_done(&list->v[i].users);
        gf_vec_done(list);
}

static int take_users(struct gf_text users, struct gf_module *module)
{
        struct gf_text one;

        while (gf_text_until(&users, ',', &one)) {
                size_t n = (size_t)(one.end - one.p);

                /* "-" stands for none; "[permanent]" is no module. */
                if (n == 0 || one.p[0] == '-' || one.p[0] == '[')
                        continue;
                if (gf_strv_addf(&module->users, "%.*s", (int)n, one.p) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int gf_parse_modules(const char *text, gf_modules *ret)
{
        struct gf_text all = { text, text + strlen(text) }, line;
        gf_modules list = { 0 };

        while (gf_text_line(&all, &line)) {
                struct gf_text name, users = { 0 };
                struct gf_module *module;
                uint64_t size, refs = GPUFREE_UNKNOWN;

                if (!gf_text_until(&line, ' ', &name) || name.p == name.end ||
                    (size_t)(name.end - name.p) >= sizeof(module->name) || !gf_text_u64(&line, 10, &size) ||
                    !gf_text_char(&line, ' '))
                        continue;
                if (gf_text_u64(&line, 10, &refs))
                        (void)gf_text_char(&line, ' ');
                (void)gf_text_until(&line, ' ', &users);
                module = gf_vec_add(&list);
                if (module) {
                        (void)snprintf(module->name, sizeof(module->name), "%.*s", (int)(name.end - name.p), name.p);
                        module->refs = refs;
                }
                if (!module || take_users(users, module) < 0) {
                        gf_modules_done(&list);
                        return -ENOMEM;
                }
        }
        *ret = list;
        return 0;
}

const struct gf_module *gf_module_find(const gf_modules *list, const char *name)
{
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->v[i].name, name) == 0)
                        return &list->v[i];
        return NULL;
}

#define DEEPEST 32

/* Users first, then the module itself: whoever comes later in the list is held by nobody who comes after it. */
static int visit(const gf_modules *list, const char *name, unsigned depth, gf_strv *seen, gf_strv *order)
{
        const struct gf_module *module = gf_module_find(list, name);
        int r;

        if (gf_strv_has(seen, name) || depth > DEEPEST)
                return 0;
        r = gf_strv_add(seen, name); /* a ring ends here */
        for (size_t i = 0; module && i < module->users.n && r >= 0; i++)
                r = visit(list, module->users.v[i], depth + 1, seen, order);
        return r < 0 ? r : gf_strv_add(order, name);
}

int gf_modules_before(const gf_modules *list, const char *name, gf_strv *ret_names)
{
        gf_strv seen = { 0 }, order = { 0 };
        int r = visit(list, name, 0, &seen, &order);

        for (size_t i = 0; i + 1 < order.n && r >= 0; i++)
                r = gf_strv_add(ret_names, order.v[i]);
        gf_strv_done(&seen);
        gf_strv_done(&order);
        return r;
}

/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/context.h"
#include "select/rules.h"
#include "sys/safefile.h"

#if HAVE_INIH
#include <ini.h>
#endif

#define CONFIG_FILE "/etc/gpufree.conf"
#define CONFIG_MAX (256U * 1024)

#if HAVE_INIH
struct reading {
        struct gf_rules *rules;
        char *error;
        bool out_of_memory;
};

static int on_entry(void *userdata, const char *section, const char *name, const char *value)
{
        struct reading *reading = userdata;
        int r;

        if (reading->error || reading->out_of_memory)
                return 0;
        r = gf_rules_add(reading->rules, section, name, value, &reading->error);
        reading->out_of_memory = r == -ENOMEM;
        return r == 0;
}

static int parse(struct gpufree *context, const char *path, const char *text, struct gf_rules *rules)
{
        struct reading reading = { .rules = rules };
        int line = ini_parse_string(text, on_entry, &reading), r = 0;

        if (reading.out_of_memory || line == -2)
                r = gf_fail(&context->env, -ENOMEM, "out of memory");
        else if (line != 0)
                r = gf_fail(&context->env, -EINVAL, "%s:%d: %s", path, line,
                            reading.error ? reading.error
                                          : "neither a [section] nor \"name = reason\" of at most 190 characters");
        free(reading.error);
        return r;
}
#else
static int parse(struct gpufree *context, const char *path, const char *text, struct gf_rules *rules)
{
        (void)text;
        (void)rules;
        return gf_fail(&context->env, -EOPNOTSUPP, "%s: this gpufree was built without inih and cannot read it", path);
}
#endif

int gpufree_load_config(gpufree *context, const char *path)
{
        const char *file = path ? path : CONFIG_FILE;
        _cleanup_free_ char *text = NULL;
        struct gf_rules rules = { 0 };
        int r;

        r = gf_linked_read(file, CONFIG_MAX, &text);
        if (r == -ENOENT && !path)
                return 0;
        if (r < 0)
                return gf_fail(&context->env, r == -ENOMEM ? r : -EINVAL, "%s: %s", file, strerror(-r));
        r = parse(context, file, text, &rules);
        if (r < 0) {
                gf_rules_done(&rules);
                return r;
        }
        gf_rules_done(&context->rules);
        context->rules = rules;
        return 0;
}

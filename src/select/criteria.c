/* SPDX-License-Identifier: MIT */
#include "select/criteria.h"

#include <ctype.h>
#include <strings.h>

#include "base/num.h"
#include "select/values.h"

#define REGEX_MAX 1024

int gpufree_selection_new(gpufree_selection **ret_selection)
{
        struct gpufree_selection *selection = calloc(1, sizeof(*selection));

        if (!selection)
                return -ENOMEM;
        *ret_selection = selection;
        return 0;
}

static void drop_gpus(struct gpufree_selection *selection, size_t keep)
{
        while (selection->gpus.n > keep)
                gf_gpu_term_done(&selection->gpus.v[--selection->gpus.n]);
}

static void drop_texts(gf_strv *list, size_t keep)
{
        while (list->n > keep)
                free(list->v[--list->n]);
}

gpufree_selection *gpufree_selection_unref(gpufree_selection *selection)
{
        if (!selection)
                return NULL;
        drop_gpus(selection, 0);
        gf_vec_done(&selection->gpus);
        gf_vec_done(&selection->pids);
        gf_vec_done(&selection->users);
        gf_strv_done(&selection->containers);
        gf_strv_done(&selection->units);
        gf_strv_done(&selection->jobs);
        gf_strv_done(&selection->sessions);
        for (size_t i = 0; i < selection->matches.n; i++) {
                regfree(selection->matches.v[i]);
                free(selection->matches.v[i]);
        }
        gf_vec_done(&selection->matches);
        gf_strv_done(&selection->includes);
        free(selection);
        return NULL;
}

static int add_gpu(void *userdata, const char *item, char **ret_error)
{
        struct gpufree_selection *selection = userdata;
        struct gf_gpu_term term = { 0 }, *slot;
        int r;

        r = gf_gpu_term_parse(item, &term, ret_error);
        if (r < 0)
                return r;
        slot = gf_vec_add(&selection->gpus);
        if (!slot) {
                gf_gpu_term_done(&term);
                return -ENOMEM;
        }
        *slot = term;
        return 0;
}

static int add_pid(void *userdata, const char *item, char **ret_error)
{
        struct gpufree_selection *selection = userdata;
        _cleanup_free_ char *quoted = gf_quoted(item);
        pid_t pid, *slot;

        if (!quoted)
                return -ENOMEM;
        if (gf_parse_pid(item, &pid) < 0)
                return gf_bad_value(ret_error, "%s is no process ID (like 21316, or several: 21316,524)", quoted);
        slot = gf_vec_add(&selection->pids);
        if (!slot)
                return -ENOMEM;
        *slot = pid;
        return 0;
}

static int add_user(void *userdata, const char *item, char **ret_error)
{
        struct gpufree_selection *selection = userdata;
        uint32_t uid, *slot;
        int r;

        r = gf_user_resolve(item, &uid, ret_error);
        if (r < 0)
                return r;
        slot = gf_vec_add(&selection->users);
        if (!slot)
                return -ENOMEM;
        *slot = uid;
        return 0;
}

static int add_vendor(void *userdata, const char *item, char **ret_error)
{
        struct gpufree_selection *selection = userdata;
        _cleanup_free_ char *quoted = gf_quoted(item);
        struct gf_str known = { 0 };
        _cleanup_free_ char *names = NULL;

        for (unsigned i = GPUFREE_VENDOR_NVIDIA; i <= GPUFREE_VENDOR_OTHER; i++) {
                const char *name = gpufree_vendor_name((enum gpufree_vendor)i);

                if (strcasecmp(item, name) == 0) {
                        selection->vendors |= 1U << i;
                        gf_str_done(&known);
                        return 0;
                }
                gf_str_addf(&known, "%s%s", i == GPUFREE_VENDOR_NVIDIA ? "" : ", ", name);
        }
        if (gf_str_take(&known, &names) < 0 || !quoted)
                return -ENOMEM;
        return gf_bad_value(ret_error, "%s is no vendor (%s)", quoted, names);
}

/* What a name may consist of; none of these kinds of name can contain a comma. */
struct text_kind {
        gf_strv *list;
        const char *what, *like, *more; /* `more`: allowed besides letters and digits */
};

static int add_text(void *userdata, const char *item, char **ret_error)
{
        const struct text_kind *kind = userdata;
        _cleanup_free_ char *quoted = gf_quoted(item);
        bool good = *item != '\0';

        if (!quoted)
                return -ENOMEM;
        for (const char *p = item; *p; p++)
                good = good && (isalnum((unsigned char)*p) || strchr(kind->more, *p));
        if (!good)
                return gf_bad_value(ret_error, "%s is no %s (%s)", quoted, kind->what, kind->like);
        return gf_strv_add(kind->list, item);
}

/*
 * The C library makes a copy of what is repeated for each repetition: a few of them on top of each other take all the
 * memory there is.
 */
static bool is_explosive(const char *regex)
{
        size_t groups = 0, bounds = 0;
        bool set = false;

        if (strlen(regex) > REGEX_MAX)
                return true;
        for (const char *c = regex; *c; c++) {
                if (*c == '\\' && c[1]) {
                        c++;
                        continue;
                }
                if (*c == '[' || *c == ']')
                        set = *c == '[';
                if (set || !c[1] || !strchr("*+?{", c[1]))
                        continue;
                if (strchr("*+?}", *c))
                        return true;
                groups += *c == ')';
                bounds += c[1] == '{';
        }
        return groups > 6 || bounds > 2;
}

static int add_match(struct gpufree_selection *selection, const char *value, char **ret_error)
{
        _cleanup_free_ char *quoted = gf_quoted(value);
        _cleanup_free_ regex_t *regex = calloc(1, sizeof(*regex));
        regex_t **slot;
        char why[128];
        int e;

        if (!quoted || !regex)
                return -ENOMEM;
        /* It would match every process: an empty variable of a script, not what anybody means. */
        if (*value == '\0')
                return gf_bad_value(ret_error, "\"\" matches every process (a part of the command line is wanted)");
        if (is_explosive(value))
                return gf_bad_value(ret_error, "%s repeats what is repeated; a plainer expression is needed", quoted);
        e = regcomp(regex, value, REG_EXTENDED | REG_NOSUB);
        if (e != 0) {
                (void)regerror(e, regex, why, sizeof(why));
                return gf_bad_value(ret_error, "bad regular expression %s: %s", quoted, why);
        }
        slot = gf_vec_add(&selection->matches);
        if (!slot) {
                regfree(regex);
                return -ENOMEM;
        }
        *slot = TAKE(regex);
        return 0;
}

static int add_older_than(struct gpufree_selection *selection, const char *value, char **ret_error)
{
        _cleanup_free_ char *quoted = gf_quoted(value);
        uint64_t ms;

        if (!quoted)
                return -ENOMEM;
        if (gf_parse_duration(value, &ms) < 0)
                return gf_bad_value(ret_error, "%s is no duration (like 500ms, 10s, 2m)", quoted);
        if (!selection->has_older_than || ms < selection->older_than_ms)
                selection->older_than_ms = ms;
        selection->has_older_than = true;
        return 0;
}

static int add_include(struct gpufree_selection *selection, const char *value, char **ret_error)
{
        if (*value == '\0')
                return gf_bad_value(ret_error, "\"\" names nothing (a process ID, a process name or a unit is wanted)");
        return gf_strv_add(&selection->includes, value);
}

/* A list is added whole or not at all. */
static int add_texts(gf_strv *list, const char *what, const char *like, const char *more, const char *value,
                     char **ret_error)
{
        struct text_kind kind = { list, what, like, more };
        size_t before = list->n;
        int r;

        r = gf_each_item(value, add_text, &kind, ret_error);
        if (r < 0)
                drop_texts(list, before);
        return r;
}

static int add_valued(struct gpufree_selection *selection, enum gpufree_criterion criterion, const char *value,
                      char **ret_error)
{
        size_t gpus = selection->gpus.n, pids = selection->pids.n, users = selection->users.n;
        unsigned vendors = selection->vendors;
        int r = -EINVAL;

        if (criterion == GPUFREE_BY_GPU)
                r = gf_each_item(value, add_gpu, selection, ret_error);
        else if (criterion == GPUFREE_BY_PID)
                r = gf_each_item(value, add_pid, selection, ret_error);
        else if (criterion == GPUFREE_BY_USER)
                r = gf_each_item(value, add_user, selection, ret_error);
        else if (criterion == GPUFREE_BY_VENDOR)
                r = gf_each_item(value, add_vendor, selection, ret_error);
        if (r < 0) {
                drop_gpus(selection, gpus);
                selection->pids.n = pids;
                selection->users.n = users;
                selection->vendors = vendors;
        }
        return r;
}

int gpufree_selection_add(gpufree_selection *selection, enum gpufree_criterion criterion, const char *value,
                          char **ret_error)
{
        bool *flag = NULL;

        if (!selection)
                return gf_bad_value(ret_error, "there is no selection to add to");
        if (criterion == GPUFREE_ORPHANS)
                flag = &selection->orphans;
        else if (criterion == GPUFREE_STOPPED)
                flag = &selection->stopped;
        else if (criterion == GPUFREE_ANY_OPEN)
                flag = &selection->any_open;
        if (flag) {
                *flag = true;
                return 0;
        }
        if (!value)
                return gf_bad_value(ret_error, "a value is missing");

        switch (criterion) {
        case GPUFREE_BY_GPU:
        case GPUFREE_BY_PID:
        case GPUFREE_BY_USER:
        case GPUFREE_BY_VENDOR:
                return add_valued(selection, criterion, value, ret_error);
        case GPUFREE_BY_CONTAINER:
                return add_texts(&selection->containers, "container", "an ID, the beginning of a long one, or a name",
                                 "-_.:@/+", value, ret_error);
        case GPUFREE_BY_UNIT:
                return add_texts(&selection->units, "unit", "like vllm.service, or vllm", "-_.:@\\", value, ret_error);
        case GPUFREE_BY_JOB:
                return add_texts(&selection->jobs, "job", "like 3385, or with a step: 3385.0", "-_.+", value,
                                 ret_error);
        case GPUFREE_BY_SESSION:
                return add_texts(&selection->sessions, "login session", "like 3", "", value, ret_error);
        case GPUFREE_BY_MATCH:
                return add_match(selection, value, ret_error);
        case GPUFREE_BY_OLDER_THAN:
                return add_older_than(selection, value, ret_error);
        case GPUFREE_INCLUDE:
                return add_include(selection, value, ret_error);
        case GPUFREE_ORPHANS:
        case GPUFREE_STOPPED:
        case GPUFREE_ANY_OPEN:
                return 0;
        }
        return gf_bad_value(ret_error, "%d is no criterion", (int)criterion);
}

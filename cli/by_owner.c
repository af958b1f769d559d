/* SPDX-License-Identifier: MIT */
/* list --by owner: the selected holders by whose they are, the largest first. */
#include "by_owner.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "view.h"

struct group {
        const gpufree_holder *first; /* tells whose it is */
        GF_VEC(const gpufree_holder *) holders;
        uint64_t memory, age; /* GPUFREE_UNKNOWN: of none is it known */
        bool partly;          /* of some it is not */
};
typedef GF_VEC(struct group) groups;

static bool same_text(const char *a, const char *b)
{
        return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The same owner; where none is known, the same user. */
static bool is_same(const gpufree_holder *a, const gpufree_holder *b)
{
        const char *label = gpufree_holder_owner_label(a);

        if (!same_text(label, gpufree_holder_owner_label(b)))
                return false;
        return label || gpufree_holder_uid(a) == gpufree_holder_uid(b);
}

static void add_memory(struct group *group, const gpufree_holder *holder)
{
        bool any = false;

        for (size_t i = 0; i < gpufree_holder_gpu_count(holder); i++) {
                uint64_t memory = GPUFREE_UNKNOWN;
                bool context = false;
                int gpu = -1;

                if (gpufree_holder_gpu(holder, i, &gpu, &memory, &context) < 0)
                        continue;
                if (memory == GPUFREE_UNKNOWN) {
                        group->partly |= context;
                        continue;
                }
                group->memory = group->memory == GPUFREE_UNKNOWN ? memory : group->memory + memory;
                any = true;
        }
        if (!any && cli_loose_memory(holder) != GPUFREE_UNKNOWN)
                group->memory = (group->memory == GPUFREE_UNKNOWN ? 0 : group->memory) + cli_loose_memory(holder);
}

static int add_holder(groups *all, const gpufree_holder *holder)
{
        uint64_t age = gpufree_holder_age_ms(holder);
        const gpufree_holder **slot;
        struct group *group = NULL;

        for (size_t i = 0; i < all->n && !group; i++)
                if (is_same(all->v[i].first, holder))
                        group = &all->v[i];
        if (!group) {
                group = gf_vec_add(all);
                if (!group)
                        return -ENOMEM;
                group->first = holder;
                group->memory = group->age = GPUFREE_UNKNOWN;
        }
        slot = gf_vec_add(&group->holders);
        if (!slot)
                return -ENOMEM;
        *slot = holder;
        add_memory(group, holder);
        if (age != GPUFREE_UNKNOWN && (group->age == GPUFREE_UNKNOWN || age > group->age))
                group->age = age;
        return 0;
}

static void groups_done(groups *all)
{
        for (size_t i = 0; i < all->n; i++)
                gf_vec_done(&all->v[i].holders);
        gf_vec_done(all);
}

static int compare(const void *a, const void *b)
{
        const struct group *x = a, *y = b;
        uint64_t p = x->memory == GPUFREE_UNKNOWN ? 0 : x->memory, q = y->memory == GPUFREE_UNKNOWN ? 0 : y->memory;

        if (p != q)
                return p > q ? -1 : 1;
        if (x->holders.n != y->holders.n)
                return x->holders.n > y->holders.n ? -1 : 1;
        return (gpufree_holder_pid(x->first) > gpufree_holder_pid(y->first)) -
               (gpufree_holder_pid(x->first) < gpufree_holder_pid(y->first));
}

static int gather(const gpufree_snapshot *snapshot, groups *all)
{
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);

                if (gpufree_holder_selected(holder) && add_holder(all, holder) < 0)
                        return -ENOMEM;
        }
        if (all->n > 1)
                qsort(all->v, all->n, sizeof(*all->v), compare);
        return 0;
}

/* The GPUs that it holds; where it holds none, those that it has open. */
static bool mark_gpus(const gpufree_snapshot *snapshot, const struct group *group, bool *has)
{
        bool any = false;

        for (int held = 1; held >= 0 && !any; held--)
                for (size_t i = 0; i < group->holders.n; i++)
                        for (size_t k = 0; k < gpufree_holder_gpu_count(group->holders.v[i]); k++) {
                                uint64_t memory;
                                bool context = false;
                                int gpu = -1;

                                if (gpufree_holder_gpu(group->holders.v[i], k, &gpu, &memory, &context) >= 0 &&
                                    gpu >= 0 && (size_t)gpu < gpufree_snapshot_gpu_count(snapshot) &&
                                    (context || !held))
                                        any = has[gpu] = true;
                        }
        return any;
}

static char *gpus_text(const gpufree_snapshot *snapshot, const struct group *group)
{
        _cleanup_free_ bool *has = calloc(gpufree_snapshot_gpu_count(snapshot) + 1, sizeof(bool));

        if (!has)
                return NULL;
        return mark_gpus(snapshot, group, has) ? cli_view_gpu_set(snapshot, has) : strdup("-");
}

/* "alice", "alice and 2 more" */
static char *users_text(const struct cli_term *term, const struct group *group)
{
        _cleanup_free_ char *first = cli_view_user(term, group->first);
        size_t others = 0;

        for (size_t i = 1; i < group->holders.n; i++) {
                bool seen = false;

                for (size_t k = 0; k < i && !seen; k++)
                        seen = gpufree_holder_uid(group->holders.v[i]) == gpufree_holder_uid(group->holders.v[k]);
                others += !seen;
        }
        if (!first || others == 0)
                return TAKE(first);
        return gf_asprintf("%s and %zu more", first, others);
}

static const struct cli_column columns[] = {
        { "WHOSE", false, 16, 0 }, { "GPU", false, 0, 1 },  { "MEMORY", true, 0, 2 },    { "PROCESSES", true, 0, 5 },
        { "SINCE", false, 0, 4 },  { "USER", false, 8, 3 }, { "COMMAND", false, 16, 6 },
};

void cli_view_by_owner(const struct cli_session *session, const gpufree_snapshot *snapshot, struct gf_str *out)
{
        struct cli_table table = { .columns = columns, .n_columns = ELEMENTSOF(columns) };
        const struct cli_term *term = &session->term;
        groups all = { 0 };

        if (gather(snapshot, &all) < 0)
                out->failed = true;
        for (size_t i = 0; i < all.n; i++) {
                const struct group *group = &all.v[i];
                _cleanup_free_ char *memory = cli_view_size(group->memory);
                char buf[GF_TEXT_MAX];

                cli_table_add(&table, cli_view_owner(term, group->first), CLI_BOLD);
                cli_table_add(&table, gpus_text(snapshot, group), CLI_PLAIN);
                cli_table_add(&table,
                              gf_asprintf("%s%s", group->partly && group->memory != GPUFREE_UNKNOWN ? ">" : "",
                                          memory ? memory : "?"),
                              CLI_PLAIN);
                cli_table_add(&table, gf_asprintf("%zu", group->holders.n), CLI_PLAIN);
                cli_table_add(&table, strdup(group->age == GPUFREE_UNKNOWN ? "?" : gf_format_duration(group->age, buf)),
                              CLI_PLAIN);
                cli_table_add(&table, users_text(term, group), CLI_PLAIN);
                cli_table_add(&table, cli_view_command(term, group->first), CLI_PLAIN);
        }
        if (table.cells.n > 0)
                cli_table_render(&table, term->width, term->utf8, term->color, out);
        cli_table_done(&table);
        groups_done(&all);
}

static json_t *owner_object(const gpufree_snapshot *snapshot, const struct group *group)
{
        json_t *object = json_object(), *gpus = json_array(), *pids = json_array(), *users = json_array();
        _cleanup_free_ bool *has = calloc(gpufree_snapshot_gpu_count(snapshot) + 1, sizeof(bool));

        cli_json_set(object, "label", cli_json_text_or_null(gpufree_holder_owner_label(group->first)));
        cli_json_set(object, "memory", cli_json_number(group->memory));
        cli_json_set(object, "memory_partly_unknown", json_boolean(group->partly));
        cli_json_set(object, "age_s", group->age == GPUFREE_UNKNOWN ? NULL : json_real((double)group->age / 1000));
        if (has && mark_gpus(snapshot, group, has))
                for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++)
                        if (has[i])
                                (void)json_array_append_new(
                                        gpus, cli_json_index(gpufree_gpu_index(gpufree_snapshot_gpu(snapshot, i))));
        for (size_t i = 0; i < group->holders.n; i++) {
                const gpufree_holder *holder = group->holders.v[i];
                json_t *user = cli_json_text_or_null(gpufree_holder_user(holder));
                bool seen = false;

                (void)json_array_append_new(pids, json_integer(gpufree_holder_pid(holder)));
                for (size_t k = 0; k < i && !seen; k++)
                        seen = gpufree_holder_uid(holder) == gpufree_holder_uid(group->holders.v[k]);
                if (seen)
                        json_decref(user);
                else
                        (void)json_array_append_new(users, user);
        }
        cli_json_set(object, "gpus", gpus);
        cli_json_set(object, "users", users);
        cli_json_set(object, "pids", pids);
        return object;
}

void cli_json_by_owner(json_t *document, const gpufree_snapshot *snapshot)
{
        json_t *array = json_array();
        groups all = { 0 };

        if (gather(snapshot, &all) >= 0)
                for (size_t i = 0; i < all.n; i++)
                        (void)json_array_append_new(array, owner_object(snapshot, &all.v[i]));
        cli_json_set(document, "owners", array);
        groups_done(&all);
}

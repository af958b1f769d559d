/* SPDX-License-Identifier: MIT */
/* Marks on the holders: selected, protected, lifted; and the order in which people see them. Nothing is removed. */
#include "select/select.h"

#include "base/num.h"
#include "select/criteria_match.h"

#define COMM_MAX 15

static int note(struct gpufree_holder *holder, bool applies, const char *text)
{
        if (!applies || gf_strv_has(&holder->notes, text))
                return 0;
        return gf_strv_add(&holder->notes, text);
}

static int add_notes(struct gpufree_holder *holder, bool initial_pidns)
{
        int r;

        r = note(holder, holder->facts.leader_zombie, "zombie-leader");
        if (r >= 0)
                r = note(holder, gf_is_stopped(holder), "stopped");
        if (r >= 0)
                r = note(holder, gf_is_orphan(holder, initial_pidns), "orphan");
        return r;
}

/* A program's name in full, or what the kernel keeps of it where the executable can't be read. */
static bool program_is(const struct gf_facts *facts, const char *name)
{
        const char *base = facts->exe ? strrchr(facts->exe, '/') : NULL;

        if (facts->comm && strcmp(facts->comm, name) == 0)
                return true;
        if (facts->exe)
                return strcmp(base ? base + 1 : facts->exe, name) == 0;
        return facts->comm && strlen(facts->comm) == COMM_MAX && strncmp(facts->comm, name, COMM_MAX) == 0;
}

/* Is the process itself named: by PID, by its unit, by an include? */
static bool is_named(const struct gpufree_selection *selection, const struct gpufree_holder *holder)
{
        const char *unit = gf_owner_unit(gf_innermost_owner(holder));

        if (!selection)
                return false;
        if (gf_selection_names_pid(selection, holder->id.pid))
                return true;
        for (size_t i = 0; unit && i < selection->units.n; i++)
                if (gf_unit_is(unit, selection->units.v[i]))
                        return true;
        for (size_t i = 0; i < selection->includes.n; i++) {
                const char *name = selection->includes.v[i];
                pid_t pid;

                if (gf_parse_pid(name, &pid) >= 0 && pid == holder->id.pid)
                        return true;
                if (program_is(&holder->facts, name) || (unit && gf_unit_is(unit, name)))
                        return true;
        }
        return false;
}

/* Of the GPUs that are meant, it holds each by the driver's structures alone, against the driver's lists. */
static bool is_doubted(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder)
{
        bool doubted = false;

        for (size_t i = 0; i < holder->gpus.n; i++) {
                const struct gf_gpu_use *use = &holder->gpus.v[i];

                if (use->gpu < 0 || (size_t)use->gpu >= snapshot->inventory.gpus.n ||
                    !snapshot->inventory.gpus.v[use->gpu].selected || !gf_use_holds(use))
                        continue;
                if (!use->doubted)
                        return false;
                doubted = true;
        }
        return doubted;
}

static int protect(const struct gpufree_snapshot *snapshot, const struct gpufree_selection *selection,
                   const struct gf_self *self, struct gpufree_holder *holder)
{
        _cleanup_free_ char *why = NULL;
        bool absolute = false;
        int r;

        r = gf_protect(self, holder, &why, &absolute);
        if (r < 0)
                return r;
        if (r == 0 && is_doubted(snapshot, holder)) {
                why = strdup("only the driver's own structures show a context of its on this GPU, its lists do not; "
                             "ended only when named");
                if (!why)
                        return -ENOMEM;
        }
        free(holder->protected_why);
        holder->protected_why = TAKE(why);
        holder->protected_absolute = absolute;
        holder->lifted = holder->protected_why && !absolute && is_named(selection, holder);
        return 0;
}

/* Where a holder stands in a table: its first GPU, with what it has there. */
struct place {
        size_t gpu; /* SIZE_MAX none */
        bool known;
        uint64_t memory;
};

static struct place place_of(const struct gpufree_holder *holder)
{
        struct place place = { .gpu = SIZE_MAX };
        bool holds = false;

        for (size_t i = 0; i < holder->gpus.n; i++) {
                const struct gf_gpu_use *use = &holder->gpus.v[i];

                if (use->gpu < 0 || (holds && !gf_use_holds(use)))
                        continue;
                if ((!holds && gf_use_holds(use)) || (size_t)use->gpu < place.gpu) {
                        place.gpu = (size_t)use->gpu;
                        place.known = use->memory != GPUFREE_UNKNOWN;
                        place.memory = place.known ? use->memory : 0;
                }
                holds = holds || gf_use_holds(use);
        }
        if (place.gpu != SIZE_MAX)
                return place;
        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gf_device_use *use = &holder->devices.v[i];

                if (use->device >= 0 || use->bytes == GPUFREE_UNKNOWN)
                        continue;
                place.known = true;
                if (__builtin_add_overflow(place.memory, use->bytes, &place.memory))
                        place.memory = UINT64_MAX;
        }
        return place;
}

static int compare_holders(const void *a, const void *b)
{
        const struct gpufree_holder *x = a, *y = b;
        struct place p = place_of(x), q = place_of(y);

        if (p.gpu != q.gpu)
                return p.gpu < q.gpu ? -1 : 1;
        if (p.known != q.known)
                return p.known ? -1 : 1;
        if (p.memory != q.memory)
                return p.memory > q.memory ? -1 : 1;
        return (x->id.pid > y->id.pid) - (x->id.pid < y->id.pid);
}

bool gf_selection_is_by_hand(const struct gpufree_selection *selection)
{
        return selection && (selection->pids.n > 0 || selection->any_open);
}

int gf_select_holders(const struct gpufree_selection *selection, const struct gf_self *self,
                      struct gpufree_snapshot *snapshot)
{
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                struct gpufree_holder *holder = &snapshot->holders.v[i];
                int r;

                r = add_notes(holder, snapshot->initial_pidns);
                if (r < 0)
                        return r;
                r = protect(snapshot, selection, self, holder);
                if (r < 0)
                        return r;
                holder->selected = false;
                if (!gf_matches_devices(selection, snapshot, holder))
                        continue;
                r = gf_matches_process(selection, holder, snapshot->boot_ticks, snapshot->initial_pidns);
                if (r < 0)
                        return r;
                holder->selected = r > 0;
        }
        if (snapshot->holders.n > 1)
                qsort(snapshot->holders.v, snapshot->holders.n, sizeof(struct gpufree_holder), compare_holders);
        return 0;
}

bool gf_select_concerns(const struct gpufree_selection *selection, pid_t pid, uint32_t uid)
{
        if (!gf_selection_allows_pid(selection, pid))
                return false;
        /* An unreadable process may belong to any container, unit or job: only PID and user can rule it out. */
        return uid == UINT32_MAX || gf_selection_allows_uid(selection, uid);
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <regex.h>

#include "base/str.h"
#include "base/vec.h"
#include "gpufree.h"
#include "select/gpu_terms.h"

/* What was asked for. Criteria that were given are ANDed, values of one ORed; an empty list: not given. */
struct gpufree_selection {
        GF_VEC(struct gf_gpu_term) gpus;
        GF_VEC(pid_t) pids;
        GF_VEC(uint32_t) users;
        gf_strv containers, units, jobs, sessions;
        GF_VEC(regex_t *) matches;
        bool has_older_than;
        uint64_t older_than_ms; /* the least of those given */
        unsigned vendors;       /* bits 1 << enum gpufree_vendor */
        bool orphans, stopped, any_open;
        gf_strv includes; /* protections to lift */
};

GF_DEFINE_CLEANUP(gpufree_selection *, gpufree_selection_unref)
#define _cleanup_selection_ _cleanup_(gpufree_selection_unrefp)

/* The tests below are true for a selection that is NULL or does not have the criterion, unless said otherwise. */
static inline bool gf_selection_names_pid(const struct gpufree_selection *selection, pid_t pid)
{
        for (size_t i = 0; selection && i < selection->pids.n; i++)
                if (selection->pids.v[i] == pid)
                        return true;
        return false; /* also without the criterion: being named is more than being meant */
}

static inline bool gf_selection_allows_pid(const struct gpufree_selection *selection, pid_t pid)
{
        return !selection || selection->pids.n == 0 || gf_selection_names_pid(selection, pid);
}

static inline bool gf_selection_allows_uid(const struct gpufree_selection *selection, uint32_t uid)
{
        if (!selection || selection->users.n == 0)
                return true;
        for (size_t i = 0; i < selection->users.n; i++)
                if (selection->users.v[i] == uid)
                        return true;
        return false;
}

/* Not by GPU or vendor, but by PID, user, owner, command, age: which GPUs are meant follows from who was picked. */
static inline bool gf_selection_by_process(const struct gpufree_selection *selection)
{
        if (!selection || selection->gpus.n > 0)
                return false;
        return selection->pids.n > 0 || selection->users.n > 0 || selection->containers.n > 0 ||
               selection->units.n > 0 || selection->jobs.n > 0 || selection->sessions.n > 0 ||
               selection->matches.n > 0 || selection->has_older_than || selection->orphans || selection->stopped;
}

static inline bool gf_selection_allows_vendor(const struct gpufree_selection *selection, enum gpufree_vendor vendor)
{
        return !selection || selection->vendors == 0 || (selection->vendors & (1U << (unsigned)vendor));
}

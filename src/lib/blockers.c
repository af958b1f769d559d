/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "explain/blockers.h"
#include "lib/context.h"

const char *gpufree_purpose_name(enum gpufree_purpose purpose)
{
        static const char *const names[] = { [GPUFREE_FOR_RESET] = "reset",
                                             [GPUFREE_FOR_MIG] = "mig",
                                             [GPUFREE_FOR_UNLOAD] = "unload",
                                             [GPUFREE_FOR_UNBIND] = "unbind" };

        return (size_t)purpose < ELEMENTSOF(names) ? names[purpose] : NULL;
}

int gpufree_blockers_new(gpufree *context, gpufree_snapshot *snapshot, enum gpufree_purpose purpose,
                         gpufree_blockers **ret_blockers)
{
        struct gf_ground ground = { 0 };
        int r;

        if (!snapshot || !gpufree_purpose_name(purpose))
                return gf_fail(&context->env, -EINVAL, "check: no such purpose");
        r = gf_ground_read(&context->env, snapshot, purpose, &ground);
        if (r >= 0)
                r = gf_blockers_make(snapshot, &ground, purpose, ret_blockers);
        gf_ground_done(&ground);
        if (r == -EOPNOTSUPP)
                return gf_fail(&context->env, r, "--for mig: a selected GPU is not NVIDIA's and has no MIG mode");
        return r < 0 ? gf_fail(&context->env, r, "check --for %s: %s", gpufree_purpose_name(purpose), strerror(-r)) : 0;
}

enum gpufree_outcome gpufree_blockers_outcome(const gpufree_blockers *blockers)
{
        return blockers ? blockers->outcome : GPUFREE_INCOMPLETE;
}

int gpufree_blockers_step(const gpufree_blockers *blockers, size_t index, const char **ret_kind,
                          const char **ret_sentence, const char **ret_command)
{
        if (!blockers || index >= blockers->steps.n)
                return -ERANGE;
        if (ret_kind)
                *ret_kind = blockers->steps.v[index].kind;
        if (ret_sentence)
                *ret_sentence = blockers->steps.v[index].sentence;
        if (ret_command)
                *ret_command = blockers->steps.v[index].command;
        return 0;
}

const char *gpufree_blockers_note(const gpufree_blockers *blockers, size_t index)
{
        return blockers && index < blockers->notes.n ? blockers->notes.v[index] : NULL;
}

const char *gpufree_blockers_goal(const gpufree_blockers *blockers)
{
        return blockers ? blockers->goal : NULL;
}

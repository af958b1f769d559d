/* SPDX-License-Identifier: MIT */
/* The public calls that do something: each is the pipeline and one of the rooms after it. */
#include <string.h>
#include <unistd.h>

#include "end/end.h"
#include "gpu/sample.h"
#include "lib/context.h"
#include "pipeline.h"
#include "verify/calm.h"
#include "verify/verify.h"

int gpufree_look(gpufree *context, const gpufree_selection *selection, gpufree_snapshot **ret_snapshot)
{
        return gf_look(context, selection, ret_snapshot);
}

/* Without the driver's word, evidence tells who holds a GPU; enough to show, not to end somebody on. */
static int refuse_blind(struct gpufree_plan *plan)
{
        struct gf_str text = { 0 };

        if (!plan->snapshot->blind || plan->targets.n == 0)
                return 0;
        gf_str_add(&text, "Not carried out: the driver's library gave no answer, so who holds a GPU cannot be told for "
                          "sure from who merely has it open. Name them: gpufree kill --pid ");
        for (size_t i = 0; i < plan->targets.n; i++)
                gf_str_addf(&text, "%s%d", i > 0 ? "," : "", (int)plan->targets.v[i]->id.pid);
        return gf_str_take(&text, &plan->refusal);
}

int gpufree_plan_new(gpufree *context, gpufree_snapshot *snapshot, gpufree_plan **ret_plan)
{
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        int r;

        r = gf_plan_make(snapshot, &plan);
        if (r >= 0)
                r = refuse_blind(plan);
        if (r >= 0)
                r = gf_plan_find_stops(&context->env, geteuid(), plan);
        if (r < 0)
                return gf_fail(&context->env, r, "making the plan: %s", strerror(-r));
        *ret_plan = TAKE(plan);
        return 0;
}

static int report_refusal(const struct gpufree_plan *plan, gpufree_report **ret_report)
{
        _cleanup_report_ struct gpufree_report *report = NULL;
        int r;

        r = gf_report_new(plan->snapshot, &report);
        if (r >= 0)
                r = gf_strv_add(&report->sentences, plan->refusal);
        if (r < 0)
                return r;
        report->outcome = GPUFREE_INCOMPLETE;
        *ret_report = TAKE(report);
        return 0;
}

/* Every failure leaves a sentence; the rooms below say more where they know more. */
static int explain_failure(struct gpufree *context, int r, const char *what)
{
        if (r == -ECANCELED)
                return gf_fail(&context->env, r, "interrupted");
        if (r == -ENOMEM)
                return gf_fail(&context->env, r, "out of memory");
        if (r < 0 && !context->env.error)
                return gf_fail(&context->env, r, "%s: %s", what, strerror(-r));
        return r;
}

int gpufree_sample(gpufree *context, gpufree_snapshot *snapshot, uint64_t milliseconds)
{
        int r = context->nvml ? gf_sample(&context->env, context->nvml, snapshot, milliseconds) : 0;

        return explain_failure(context, r, "sample");
}

/* A caller built against an older header has a shorter ladder: what it lacks keeps its default. */
static int ladder_read(struct gpufree *context, const struct gpufree_ladder *ladder, struct gpufree_ladder *ret_ladder)
{
        struct gpufree_ladder whole = GPUFREE_LADDER_INIT;

        if (ladder) {
                if (ladder->size < sizeof(ladder->size) || ladder->size > sizeof(whole))
                        return gf_fail(&context->env, -EINVAL, "the ladder has a size of %zu bytes, not %zu",
                                       ladder->size, sizeof(whole));
                memcpy(&whole, ladder, ladder->size);
        }
        *ret_ladder = whole;
        return 0;
}

int gpufree_kill(gpufree *context, const gpufree_selection *selection, const gpufree_plan *plan,
                 const struct gpufree_ladder *ladder, gpufree_report **ret_report)
{
        struct gf_sight sight = { .context = context, .selection = selection, .first = plan->snapshot };
        struct gf_eyes eyes = gf_eyes_of(&sight);
        struct gpufree_ladder whole;
        int r;

        r = ladder_read(context, ladder, &whole);
        if (r < 0)
                return r;
        if (plan->refusal)
                return explain_failure(context, report_refusal(plan, ret_report), "kill");
        return explain_failure(context, gf_execute(&context->env, &eyes, plan, &whole, ret_report), "kill");
}

int gpufree_wait(gpufree *context, const gpufree_selection *selection, uint64_t timeout_ms, uint64_t settle_ms,
                 gpufree_report **ret_report)
{
        struct gf_sight sight = { .context = context, .selection = selection };
        struct gf_eyes eyes = gf_eyes_of(&sight);

        return explain_failure(context, gf_wait_free(&context->env, &eyes, timeout_ms, settle_ms, ret_report), "wait");
}

int gpufree_check(gpufree *context, gpufree_snapshot *snapshot, gpufree_report **ret_report)
{
        _cleanup_report_ struct gpufree_report *report = NULL;
        int r;

        r = gf_report_new(snapshot, &report);
        if (r >= 0)
                r = gf_judge(snapshot, report);
        if (r < 0)
                return explain_failure(context, r, "check");
        *ret_report = TAKE(report);
        return 0;
}

int gpufree_wait_calm(gpufree *context, const gpufree_selection *selection, const struct gpufree_calm *calm,
                      uint64_t timeout_ms, uint64_t settle_ms, gpufree_report **ret_report)
{
        struct gf_sight sight = { .context = context, .selection = selection };
        struct gf_eyes eyes = gf_eyes_of(&sight);
        struct gpufree_calm whole = { sizeof(whole), GPUFREE_UNKNOWN, 0 };

        if (calm) {
                if (calm->size < sizeof(calm->size) || calm->size > sizeof(whole))
                        return gf_fail(&context->env, -EINVAL, "what to wait for has a size of %zu bytes, not %zu",
                                       calm->size, sizeof(whole));
                memcpy(&whole, calm, calm->size);
        }
        return explain_failure(context, gf_wait_calm(&context->env, &eyes, &whole, timeout_ms, settle_ms, ret_report),
                               "wait");
}

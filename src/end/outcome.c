/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "end/run.h"
#include "sys/clock.h"
#include "sys/pidfd.h"
#include "verify/verdict.h"

static const char *why_stopped(const struct gf_run *run)
{
        if (run->cancelled)
                return "interrupted";
        return run->timed_out ? "the time for the whole was over" : "ending was broken off";
}

/* What was sent and did not bear fruit. */
static char *survivor_detail(struct gf_run *run, const struct gf_target *target)
{
        const struct gf_ident *id = &gf_run_fate(run, target)->holder->id;
        _cleanup_free_ char *stuck = gf_stuck_sentence(run->env, id);
        char buf[GF_TEXT_MAX];

        if (target->stage == GF_STAGE_TODO)
                return gf_asprintf("not signalled: %s before its turn", why_stopped(run));
        gf_format_duration(gf_now_ms() - target->since_ms, buf);
        if (target->stage == GF_STAGE_SIGNALLED)
                return gf_asprintf("signal %d was sent %s ago, SIGKILL was not: %s", run->ladder.signal, buf,
                                   why_stopped(run));
        return gf_asprintf("%s after its first signal, SIGKILL included, %s", buf,
                           stuck ? stuck : "it could not be looked at");
}

/* Everybody gets a fate. */
static void finish_targets(struct gf_run *run)
{
        for (size_t i = 0; i < run->targets.n; i++) {
                struct gf_target *target = &run->targets.v[i];

                if (target->stage == GF_STAGE_DONE)
                        continue;
                target->cut_short = target->stage != GF_STAGE_KILLED;
                /* It may have ended since it was last asked; to know that, it is pinned once more. */
                if (gf_pin(run, target) == -ESRCH || (target->pidfd >= 0 && gf_pidfd_ended(target->pidfd) == 1))
                        gf_run_settle(run, target,
                                      target->stage == GF_STAGE_TODO        ? GPUFREE_FATE_ALREADY_GONE
                                      : target->stage == GF_STAGE_SIGNALLED ? GPUFREE_FATE_ENDED_BY_SIGNAL
                                                                            : GPUFREE_FATE_KILLED,
                                      NULL);
                else
                        gf_run_settle(run, target, GPUFREE_FATE_SURVIVED, survivor_detail(run, target));
                gf_unpin(run, target);
        }
}

static const struct gpufree_holder *find(const struct gpufree_snapshot *snapshot, const struct gf_ident *id)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (gf_ident_equal(&snapshot->holders.v[i].id, id))
                        return &snapshot->holders.v[i];
        return NULL;
}

static bool still_selected(const struct gf_run *run, const struct gf_fate_entry *entry)
{
        const struct gpufree_holder *now = find(run->report->snapshot, &entry->holder->id);

        return now && now->selected;
}

/* A complete look after the last signal that does not find it is proof that it holds nothing, dead or alive. */
static void correct_fates(struct gf_run *run)
{
        if (!run->looked_after || run->report->snapshot->gaps.n > 0)
                return;
        for (size_t i = 0; i < run->report->fates.n; i++) {
                struct gf_fate_entry *entry = &run->report->fates.v[i];

                if (entry->fate != GPUFREE_FATE_SURVIVED && entry->fate != GPUFREE_FATE_NOT_IN_PLAN &&
                    entry->fate != GPUFREE_FATE_REFUSED)
                        continue;
                if (find(run->report->snapshot, &entry->holder->id))
                        continue;
                entry->fate = GPUFREE_FATE_LET_GO;
                free(entry->detail);
                entry->detail = gf_asprintf("the last look finds it holding nothing any more");
        }
}

static void tell_survivors(const struct gf_run *run)
{
        for (size_t i = 0; i < run->report->fates.n; i++) {
                const struct gf_fate_entry *entry = &run->report->fates.v[i];

                if (entry->fate == GPUFREE_FATE_SURVIVED)
                        gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_SURVIVED,
                                                                  .pid = entry->holder->id.pid,
                                                                  .elapsed_ms = entry->elapsed_ms,
                                                                  .holder = entry->holder });
        }
}

/* ---- memory ---- */

static bool uses(const struct gpufree_holder *holder, const struct gpufree_snapshot *snapshot,
                 const struct gpufree_gpu *gpu)
{
        for (size_t k = 0; k < holder->gpus.n; k++) {
                const struct gf_gpu_use *use = &holder->gpus.v[k];

                if (use->context && use->gpu >= 0 && (size_t)use->gpu < snapshot->inventory.gpus.n &&
                    gf_same_gpu(gpu, snapshot) == use->gpu)
                        return true;
        }
        return false;
}

/* Did one that was to be ended, or was parked instead, use it? */
static bool was_touched(const struct gf_run *run, const struct gpufree_gpu *gpu)
{
        for (size_t i = 0; i < run->targets.n; i++) {
                const struct gf_fate_entry *entry = gf_run_fate(run, &run->targets.v[i]);

                if (uses(entry->holder, entry->snapshot, gpu))
                        return true;
        }
        for (size_t i = 0; i < run->plan->kept.n; i++)
                if (!run->plan->kept.v[i].why && uses(run->plan->kept.v[i].holder, run->plan->snapshot, gpu))
                        return true;
        return false;
}

/* A GPU that was in the plan and is not in the last look has not been freed: it has been lost. */
static int note_lost_gpus(struct gf_run *run, bool *ret_lost)
{
        const struct gpufree_snapshot *before = run->plan->snapshot;

        *ret_lost = false;
        for (size_t g = 0; g < before->inventory.gpus.n; g++) {
                const struct gpufree_gpu *gpu = &before->inventory.gpus.v[g];
                _cleanup_free_ char *name = NULL;
                struct gf_str text = { 0 };
                int r;

                if (!((gf_is_judged(before, g) && !before->by_process) || was_touched(run, gpu)) ||
                    gf_same_gpu(gpu, run->report->snapshot) >= 0)
                        continue;
                *ret_lost = true;
                gf_gpu_label(gpu, &text);
                r = gf_str_take(&text, &name);
                if (r == 0)
                        r = gf_strv_addf(
                                &run->report->sentences,
                                "%s is no longer there: it was when the plan was made. See what the kernel log "
                                "says about it (dmesg, Xid).",
                                name);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void clear_verdicts(struct gpufree_report *report)
{
        for (size_t i = 0; i < report->gpus.n; i++)
                free(report->gpus.v[i].sentence);
        report->gpus.n = 0;
}

static int add_verdicts(struct gf_run *run)
{
        struct gpufree_report *report = run->report;
        const struct gpufree_snapshot *now = report->snapshot, *before = run->plan->snapshot;

        clear_verdicts(report);
        for (size_t g = 0; g < now->inventory.gpus.n; g++) {
                const struct gpufree_gpu *gpu = &now->inventory.gpus.v[g];
                int at = gf_same_gpu(gpu, before), r;

                if (!(gf_is_judged(now, g) && !now->by_process) && !was_touched(run, gpu))
                        continue;
                r = gf_verdict_add(now, g, at < 0 ? GPUFREE_UNKNOWN : before->inventory.gpus.v[at].memory.used, report);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Others are on it, and nothing of it was to be ended: what it holds is not this command's business. */
static bool is_others(const struct gf_run *run, const struct gf_gpu_verdict *verdict)
{
        const struct gpufree_snapshot *now = run->report->snapshot;

        return !was_touched(run, &now->inventory.gpus.v[verdict->gpu]) && gf_has_others(now, (size_t)verdict->gpu);
}

/* What the memory says, over all GPUs: OK, INCOMPLETE or RESIDUE; -errno. Who holds is the fates' matter. With
 * `advice`, what to do about a residue is added there. */
static int weigh(const struct gf_run *run, gf_strv *advice)
{
        struct gpufree_report *report = run->report;
        int worst = GPUFREE_OK;

        for (size_t i = 0; i < report->gpus.n; i++) {
                int r = gf_verdict_judge(report->snapshot, &report->gpus.v[i]);

                if (r < 0)
                        return r;
                /* With a gap the others may be among those asked about. */
                if (is_others(run, &report->gpus.v[i]) && report->snapshot->gaps.n == 0)
                        continue;
                if (r == GPUFREE_RESIDUE && advice &&
                    gf_verdict_advise(report->snapshot, &report->gpus.v[i], advice) < 0)
                        return -ENOMEM;
                if (r == GPUFREE_RESIDUE || (r == GPUFREE_INCOMPLETE && worst == GPUFREE_OK))
                        worst = r;
        }
        /* Without a GPU to judge there is nobody to vouch for what was not seen. */
        if (report->gpus.n == 0 && report->snapshot->gaps.n > 0)
                worst = GPUFREE_INCOMPLETE;
        return worst;
}

static int settle(struct gf_run *run, uint64_t settle_ms)
{
        uint64_t left = gf_deadline_left(run->deadline);
        int r = add_verdicts(run);

        if (r == 0 && !run->cancelled)
                r = gf_settle(run->env, run->eyes, settle_ms < left ? settle_ms : left, run->report);
        if (r == -ECANCELED)
                run->cancelled = true;
        if (r < 0 && r != -ECANCELED)
                return r;
        return weigh(run, NULL);
}

static int verify(struct gf_run *run)
{
        int r = settle(run, run->ladder.settle_ms);

        if (r != GPUFREE_RESIDUE || run->cancelled || run->timed_out || run->look_error < 0)
                return r;
        if (run->broken)
                return r;
        /* Before memory is called lost: has somebody come in the meantime, does a holder that stays have more now? */
        r = gf_rounds(run);
        if (r == -ENOMEM)
                return r;
        finish_targets(run);
        return settle(run, 0);
}

/* ---- the outcome ---- */

struct tally {
        size_t ended, killed_alive, unfinished, foreign, refused, unexplained;
};

static struct tally count(const struct gf_run *run)
{
        const struct gpufree_snapshot *now = run->report->snapshot;
        struct tally t = { 0 };

        for (size_t i = 0; i < run->report->fates.n; i++) {
                const struct gf_fate_entry *entry = &run->report->fates.v[i];

                switch (entry->fate) {
                case GPUFREE_FATE_ENDED_BY_SIGNAL:
                case GPUFREE_FATE_KILLED:
                case GPUFREE_FATE_ALREADY_GONE:
                case GPUFREE_FATE_BY_OWNER:
                        t.ended++;
                        break;
                case GPUFREE_FATE_LET_GO:
                        break;
                case GPUFREE_FATE_REFUSED:
                        t.refused += !run->looked_after || still_selected(run, entry) || now->gaps.n > 0;
                        break;
                case GPUFREE_FATE_SURVIVED:
                        t.killed_alive++;
                        break;
                case GPUFREE_FATE_NOT_IN_PLAN:
                        t.foreign += still_selected(run, entry) || now->gaps.n > 0;
                        break;
                default:
                        break;
                }
        }
        /* Selected holders that the last look shows and that the fates say are no more: believe the look. */
        for (size_t i = 0; run->looked_after && i < now->holders.n; i++) {
                const struct gf_fate_entry *entry = gf_run_find(run, &now->holders.v[i].id);

                if (now->holders.v[i].selected &&
                    (!entry || (entry->fate != GPUFREE_FATE_REFUSED && entry->fate != GPUFREE_FATE_SURVIVED &&
                                entry->fate != GPUFREE_FATE_NOT_IN_PLAN)))
                        t.unexplained++;
        }
        return t;
}

static int say(struct gf_run *run, const struct tally *t)
{
        gf_strv *sentences = &run->report->sentences;
        char buf[GF_TEXT_MAX];
        int r = 0;

        if (run->cancelled)
                r = gf_strv_addf(sentences, "Interrupted: %zu ended, %zu not. The memory was not verified.", t->ended,
                                 t->killed_alive);
        else if (run->broken)
                r = gf_strv_addf(sentences,
                                 "Broken off half-way (%s): %zu ended, %zu not. Run the same command again to have the "
                                 "rest looked at.",
                                 strerror(-run->broken), t->ended, t->killed_alive);
        else if (run->timed_out)
                r = gf_strv_addf(sentences, "The time for the whole (%s) was over before everything was done.",
                                 gf_format_duration(run->ladder.timeout_ms, buf));
        if (r == 0 && run->look_error < 0)
                r = gf_strv_addf(sentences, "A look after ending failed: %s.",
                                 run->env->error ? run->env->error : strerror(-run->look_error));
        if (r == 0 && t->unexplained > 0)
                r = gf_strv_addf(sentences,
                                 "The last look shows %zu holder%s more that %s selected: run the same command "
                                 "again.",
                                 t->unexplained, t->unexplained == 1 ? "" : "s", t->unexplained == 1 ? "is" : "are");
        if (r == 0)
                r = gf_say_restarts(run);
        for (size_t i = 0; r == 0 && i < run->report->snapshot->gaps.n; i++)
                r = gf_strv_add(sentences, run->report->snapshot->gaps.v[i]);
        return r;
}

/* Survivors of SIGKILL are an answer; what was broken off by the clock is not. */
static bool is_unfinished(const struct gf_run *run)
{
        for (size_t i = 0; run->timed_out && i < run->targets.n; i++)
                if (run->targets.v[i].cut_short && gf_run_fate(run, &run->targets.v[i])->fate == GPUFREE_FATE_SURVIVED)
                        return true;
        return false;
}

static enum gpufree_outcome decide(const struct gf_run *run, const struct tally *t, int memory, bool lost)
{
        if (run->cancelled)
                return GPUFREE_HELD;
        if (is_unfinished(run))
                return GPUFREE_TIMEOUT;
        if (t->killed_alive > 0 || t->foreign > 0 || t->unexplained > 0)
                return GPUFREE_HELD;
        if (memory == GPUFREE_RESIDUE)
                return GPUFREE_RESIDUE;
        if (t->refused > 0)
                return GPUFREE_REFUSED;
        if (memory == GPUFREE_INCOMPLETE || lost || run->broken || run->look_error < 0 || !run->looked_after)
                return GPUFREE_INCOMPLETE;
        return run->timed_out ? GPUFREE_TIMEOUT : GPUFREE_OK;
}

static bool all_verified(const struct gpufree_report *report)
{
        for (size_t i = 0; i < report->gpus.n; i++)
                if (!report->gpus.v[i].verified)
                        return false;
        return report->gpus.n > 0;
}

int gf_conclude(struct gf_run *run)
{
        bool lost = false;
        struct tally t;
        int memory, r;

        finish_targets(run);
        memory = verify(run);
        if (memory >= 0)
                memory = weigh(run, &run->report->sentences);
        if (memory < 0)
                return memory;
        if (all_verified(run->report))
                gf_run_time(run, &run->report->timings.verified);
        correct_fates(run);
        /* Nothing is verified on the word of a look from before the last signal, or of half an answer. */
        for (size_t i = 0; i < run->report->gpus.n && (run->cancelled || run->broken || !run->looked_after); i++)
                run->report->gpus.v[i].verified = false;
        if (!all_verified(run->report))
                run->report->timings.verified = GPUFREE_UNKNOWN;
        for (size_t i = 0; i < run->report->gpus.n && !run->looked_after && run->look_error < 0; i++) {
                r = gf_strset(&run->report->gpus.v[i].sentence,
                              "not verified: no look could be taken after the last signal.");
                if (r < 0)
                        return r;
        }
        t = count(run);
        r = note_lost_gpus(run, &lost);
        if (r == 0)
                r = say(run, &t);
        if (r < 0)
                return r;
        tell_survivors(run);
        run->report->outcome = decide(run, &t, memory, lost);
        return 0;
}

void gf_conclude_poorly(struct gf_run *run)
{
        struct gpufree_report *report = run->report;

        finish_targets(run);
        clear_verdicts(report);
        (void)gf_strv_addf(&report->sentences,
                           "Broken off half-way (%s); nothing was verified. Run the same command again.",
                           strerror(-run->broken));
        report->outcome = GPUFREE_INCOMPLETE;
        for (size_t i = 0; i < report->fates.n; i++)
                if (report->fates.v[i].fate == GPUFREE_FATE_SURVIVED)
                        report->outcome = GPUFREE_HELD;
}

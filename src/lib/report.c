/* SPDX-License-Identifier: MIT */
#include "model/report.h"

/* A result that nobody wants is passed as NULL. */
#define GIVE(ret, value)                                                                                               \
        do {                                                                                                           \
                if (ret)                                                                                               \
                        *(ret) = (value);                                                                              \
        } while (0)

enum gpufree_outcome gpufree_report_outcome(const gpufree_report *report)
{
        /* No report is no proof of anything: least of all of "free". */
        return report ? report->outcome : GPUFREE_INCOMPLETE;
}

const char *gpufree_report_sentence(const gpufree_report *report, size_t index)
{
        return report && index < report->sentences.n ? report->sentences.v[index] : NULL;
}

uint64_t gpufree_report_elapsed_ms(const gpufree_report *report)
{
        return report ? report->elapsed_ms : GPUFREE_UNKNOWN;
}

int gpufree_report_timings(const gpufree_report *report, uint64_t *ret_planned_us, uint64_t *ret_signalled_us,
                           uint64_t *ret_last_exit_us, uint64_t *ret_quiet_us, uint64_t *ret_verified_us)
{
        if (!report)
                return -EINVAL;
        GIVE(ret_planned_us, report->timings.planned);
        GIVE(ret_signalled_us, report->timings.signalled);
        GIVE(ret_last_exit_us, report->timings.last_exit);
        GIVE(ret_quiet_us, report->timings.quiet);
        GIVE(ret_verified_us, report->timings.verified);
        return 0;
}

const gpufree_snapshot *gpufree_report_snapshot(const gpufree_report *report)
{
        return report ? report->snapshot : NULL;
}

size_t gpufree_report_fate_count(const gpufree_report *report)
{
        return report ? report->fates.n : 0;
}

int gpufree_report_fate(const gpufree_report *report, size_t position, const gpufree_holder **ret_holder,
                        enum gpufree_fate *ret_fate, uint64_t *ret_elapsed_ms, const char **ret_detail)
{
        const struct gf_fate_entry *entry;

        if (position >= gpufree_report_fate_count(report))
                return -ERANGE;
        entry = &report->fates.v[position];
        GIVE(ret_holder, entry->holder);
        GIVE(ret_fate, entry->fate);
        GIVE(ret_elapsed_ms, entry->elapsed_ms);
        GIVE(ret_detail, entry->detail);
        return 0;
}

size_t gpufree_report_gpu_count(const gpufree_report *report)
{
        return report ? report->gpus.n : 0;
}

int gpufree_report_gpu(const gpufree_report *report, size_t position, const gpufree_gpu **ret_gpu,
                       uint64_t *ret_used_before, uint64_t *ret_used_after, uint64_t *ret_elapsed_ms,
                       bool *ret_verified, const char **ret_sentence)
{
        const struct gf_gpu_verdict *verdict;
        const gpufree_gpu *gpu = NULL;

        if (position >= gpufree_report_gpu_count(report))
                return -ERANGE;
        verdict = &report->gpus.v[position];
        if (verdict->gpu >= 0)
                gpu = gpufree_snapshot_gpu(report->snapshot, (size_t)verdict->gpu);
        GIVE(ret_gpu, gpu);
        GIVE(ret_used_before, verdict->used_before);
        GIVE(ret_used_after, verdict->used_after);
        GIVE(ret_elapsed_ms, verdict->elapsed_ms);
        GIVE(ret_verified, verdict->verified);
        GIVE(ret_sentence, verdict->sentence);
        return 0;
}

int gpufree_report_gpu_busy(const gpufree_report *report, size_t position, unsigned *ret_percent, const char **ret_why)
{
        const struct gf_gpu_verdict *verdict;

        if (position >= gpufree_report_gpu_count(report))
                return -ERANGE;
        verdict = &report->gpus.v[position];
        if (!verdict->busy_asked)
                return -ENODATA;
        if (!verdict->busy_known) {
                GIVE(ret_why, verdict->busy_why);
                return -EOPNOTSUPP;
        }
        GIVE(ret_percent, verdict->busy);
        return 0;
}

size_t gpufree_report_stop_count(const gpufree_report *report)
{
        return report ? report->stops.n : 0;
}

int gpufree_report_stop(const gpufree_report *report, size_t position, const char **ret_owner, const char **ret_command,
                        enum gpufree_stop_outcome *ret_outcome, int *ret_status, const char **ret_output,
                        const char **ret_sentence, uint64_t *ret_elapsed_ms)
{
        const struct gf_stop_entry *entry;

        if (position >= gpufree_report_stop_count(report))
                return -ERANGE;
        entry = &report->stops.v[position];
        GIVE(ret_owner, entry->owner);
        GIVE(ret_command, entry->command);
        GIVE(ret_outcome, (enum gpufree_stop_outcome)entry->outcome);
        GIVE(ret_status, entry->status);
        GIVE(ret_output, entry->output);
        GIVE(ret_sentence, entry->sentence);
        GIVE(ret_elapsed_ms, entry->elapsed_ms);
        return 0;
}

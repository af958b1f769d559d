/* SPDX-License-Identifier: MIT */
/* The stand-in's accounts, stories and blockers: of hostile text, so that its escaping is tested. */
#include <errno.h>
#include <stdlib.h>

#include "fake_scenes.h"

struct gpufree_account {
        const gpufree_snapshot *snapshot;
        size_t gpu;
};
struct gpufree_story {
        const gpufree_holder *process;
};
struct gpufree_blockers {
        enum gpufree_outcome outcome;
};

const char *gpufree_entry_name(enum gpufree_entry entry)
{
        return entry == GPUFREE_ENTRY_PROCESS ? "process" : "unaccounted";
}

const char *gpufree_purpose_name(enum gpufree_purpose purpose)
{
        return purpose == GPUFREE_FOR_RESET ? "reset" : "other";
}

int gpufree_sample(gpufree *context, gpufree_snapshot *snapshot, uint64_t milliseconds)
{
        (void)context;
        (void)snapshot;
        (void)milliseconds;
        return 0;
}

int gpufree_account_new(gpufree *context, gpufree_snapshot *snapshot, size_t gpu, gpufree_account **ret_account)
{
        (void)context;
        *ret_account = calloc(1, sizeof(**ret_account));
        if (!*ret_account)
                return -ENOMEM;
        **ret_account = (struct gpufree_account){ snapshot, gpu };
        return 0;
}

gpufree_account *gpufree_account_unref(gpufree_account *account)
{
        free(account);
        return NULL;
}

const gpufree_gpu *gpufree_account_gpu(const gpufree_account *account)
{
        return &account->snapshot->gpus[account->gpu];
}

uint64_t gpufree_account_named(const gpufree_account *account)
{
        return account->snapshot->gpus[account->gpu].used;
}

uint64_t gpufree_account_unaccounted(const gpufree_account *account)
{
        (void)account;
        return GPUFREE_UNKNOWN;
}

size_t gpufree_account_entry_count(const gpufree_account *account)
{
        (void)account;
        return 2;
}

int gpufree_account_entry(const gpufree_account *account, size_t position, enum gpufree_entry *ret_kind,
                          uint64_t *ret_bytes, bool *ret_counts, pid_t *ret_pid, const char **ret_sentence)
{
        if (position >= 2)
                return -ERANGE;
        if (ret_kind)
                *ret_kind = position == 0 ? GPUFREE_ENTRY_PROCESS : GPUFREE_ENTRY_UNACCOUNTED;
        if (ret_bytes)
                *ret_bytes = position == 0 ? account->snapshot->gpus[account->gpu].used : GPUFREE_UNKNOWN;
        if (ret_counts)
                *ret_counts = position == 0;
        if (ret_pid)
                *ret_pid = 0;
        if (ret_sentence)
                *ret_sentence = position == 0 ? "process 7 (\033[31mred)" : "unaccounted";
        return 0;
}

const gpufree_holder *gpufree_account_keeper(const gpufree_account *account, size_t position, size_t index)
{
        return position == 0 && index == 0 && account->snapshot->n_holders > 0 ? &account->snapshot->holders[0] : NULL;
}

const char *gpufree_account_reason(const gpufree_account *account, size_t index)
{
        (void)account;
        return index == 0 ? "because of \033[31mthis." : NULL;
}

const char *gpufree_account_command(const gpufree_account *account, size_t index)
{
        (void)account;
        return index == 0 ? "gpufree kill --gpu 0" : NULL;
}

const char *gpufree_account_log_error(const gpufree_account *account)
{
        (void)account;
        return "The kernel log is not readable here.";
}

static int fake_xid(size_t index, unsigned *ret_number, uint64_t *ret_age_ms, pid_t *ret_pid, const char **ret_meaning,
                    const char **ret_line)
{
        if (index > 0)
                return -ERANGE;
        if (ret_number)
                *ret_number = 79;
        if (ret_age_ms)
                *ret_age_ms = 1000;
        if (ret_pid)
                *ret_pid = 0;
        if (ret_meaning)
                *ret_meaning = "the GPU is gone";
        if (ret_line)
                *ret_line = "NVRM: \033[31mXid";
        return 0;
}

int gpufree_account_xid(const gpufree_account *account, size_t index, unsigned *ret_number, uint64_t *ret_age_ms,
                        pid_t *ret_pid, const char **ret_meaning, const char **ret_line)
{
        (void)account;
        return fake_xid(index, ret_number, ret_age_ms, ret_pid, ret_meaning, ret_line);
}

int gpufree_story_new(gpufree *context, gpufree_snapshot *snapshot, pid_t pid, gpufree_story **ret_story)
{
        (void)context;
        if (pid == 404 || snapshot->n_holders == 0)
                return -ESRCH;
        *ret_story = calloc(1, sizeof(**ret_story));
        if (!*ret_story)
                return -ENOMEM;
        (*ret_story)->process = &snapshot->holders[0];
        return 0;
}

gpufree_story *gpufree_story_unref(gpufree_story *story)
{
        free(story);
        return NULL;
}

const gpufree_holder *gpufree_story_process(const gpufree_story *story)
{
        return story->process;
}

int gpufree_story_parking(const gpufree_story *story, enum gpufree_park_state *ret_state, const char **ret_why)
{
        (void)story;
        *ret_state = GPUFREE_PARK_RUNNING;
        *ret_why = NULL;
        return 1;
}

int gpufree_story_sentence(const gpufree_story *story, size_t index, const char **ret_topic, const char **ret_sentence)
{
        (void)story;
        if (index > 1)
                return -ERANGE;
        *ret_topic = index == 0 ? "holds" : "next";
        *ret_sentence = "\033[31mmuch";
        return 0;
}

size_t gpufree_story_threads(const gpufree_story *story)
{
        (void)story;
        return 1;
}

int gpufree_story_thread(const gpufree_story *story, size_t position, pid_t *ret_tid, char *ret_state,
                         const char **ret_wchan, const char **ret_stack)
{
        (void)story;
        if (position > 0)
                return -ERANGE;
        *ret_tid = 7;
        *ret_state = 'S';
        *ret_wchan = NULL;
        *ret_stack = "a < b";
        return 0;
}

uint64_t gpufree_story_pending(const gpufree_story *story)
{
        (void)story;
        return 1u << 8;
}

pid_t gpufree_story_child(const gpufree_story *story, size_t index)
{
        (void)story;
        return index == 0 ? 8 : 0;
}

int gpufree_story_xid(const gpufree_story *story, size_t index, unsigned *ret_number, uint64_t *ret_age_ms,
                      pid_t *ret_pid, const char **ret_meaning, const char **ret_line)
{
        (void)story;
        return fake_xid(index, ret_number, ret_age_ms, ret_pid, ret_meaning, ret_line);
}

int gpufree_blockers_new(gpufree *context, gpufree_snapshot *snapshot, enum gpufree_purpose purpose,
                         gpufree_blockers **ret_blockers)
{
        (void)context;
        (void)purpose;
        *ret_blockers = calloc(1, sizeof(**ret_blockers));
        if (!*ret_blockers)
                return -ENOMEM;
        (*ret_blockers)->outcome = snapshot->gaps[0]         ? GPUFREE_INCOMPLETE
                                   : snapshot->n_holders > 1 ? GPUFREE_HELD
                                                             : GPUFREE_OK;
        return 0;
}

gpufree_blockers *gpufree_blockers_unref(gpufree_blockers *blockers)
{
        free(blockers);
        return NULL;
}

enum gpufree_outcome gpufree_blockers_outcome(const gpufree_blockers *blockers)
{
        return blockers->outcome;
}

int gpufree_blockers_step(const gpufree_blockers *blockers, size_t index, const char **ret_kind,
                          const char **ret_sentence, const char **ret_command)
{
        if (blockers->outcome != GPUFREE_HELD || index > 0)
                return -ERANGE;
        if (ret_kind)
                *ret_kind = "process";
        if (ret_sentence)
                *ret_sentence = "end \033[31mit";
        if (ret_command)
                *ret_command = "gpufree kill";
        return 0;
}

const char *gpufree_blockers_note(const gpufree_blockers *blockers, size_t index)
{
        (void)blockers;
        return index == 0 ? "a note" : NULL;
}

const char *gpufree_blockers_goal(const gpufree_blockers *blockers)
{
        (void)blockers;
        return "nvidia-smi --gpu-reset -i 0";
}

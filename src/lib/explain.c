/* SPDX-License-Identifier: MIT */
/* The account of a GPU, the story of a process: made by room `explain` from a look. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "explain/account.h"
#include "explain/story.h"
#include "lib/context.h"

#define KERNEL_LOG "/dev/kmsg"

const char *gpufree_entry_name(enum gpufree_entry entry)
{
        static const char *const names[] = {
                [GPUFREE_ENTRY_RESERVED] = "reserved",
                [GPUFREE_ENTRY_PROCESS] = "process",
                [GPUFREE_ENTRY_MPS_SERVER] = "mps-server",
                [GPUFREE_ENTRY_MPS_CLIENT] = "mps-client",
                [GPUFREE_ENTRY_DEAD] = "dead",
                [GPUFREE_ENTRY_DMABUF] = "dma-buf",
                [GPUFREE_ENTRY_HANDLE] = "handle",
                [GPUFREE_ENTRY_TOGETHER] = "together",
                [GPUFREE_ENTRY_UNSEEN] = "unseen",
                [GPUFREE_ENTRY_OPEN] = "open",
                [GPUFREE_ENTRY_INSTANCE] = "mig-instance",
                [GPUFREE_ENTRY_UNACCOUNTED] = "unaccounted",
        };

        return (size_t)entry < ELEMENTSOF(names) ? names[entry] : NULL;
}

int gpufree_account_new(gpufree *context, gpufree_snapshot *snapshot, size_t gpu, gpufree_account **ret_account)
{
        _cleanup_(gf_kernel_log_done) struct gf_kernel_log log = { 0 };
        int r;

        if (!snapshot || gpu >= snapshot->inventory.gpus.n)
                return gf_fail(&context->env, -ENODEV, "there is no GPU at position %zu", gpu);
        r = gf_kernel_log_read(KERNEL_LOG, &log);
        if (r >= 0)
                r = gf_account_make(snapshot, gpu, &log, ret_account);
        return r < 0 ? gf_fail(&context->env, r, "the account of the GPU: %s", strerror(-r)) : 0;
}

const gpufree_gpu *gpufree_account_gpu(const gpufree_account *account)
{
        return account ? &account->snapshot->inventory.gpus.v[account->gpu] : NULL;
}

uint64_t gpufree_account_named(const gpufree_account *account)
{
        return account ? account->named : GPUFREE_UNKNOWN;
}

uint64_t gpufree_account_unaccounted(const gpufree_account *account)
{
        return account ? account->unaccounted : GPUFREE_UNKNOWN;
}

size_t gpufree_account_entry_count(const gpufree_account *account)
{
        return account ? account->entries.n : 0;
}

int gpufree_account_entry(const gpufree_account *account, size_t position, enum gpufree_entry *ret_kind,
                          uint64_t *ret_bytes, bool *ret_counts, pid_t *ret_pid, const char **ret_sentence)
{
        const struct gf_entry *entry;

        if (position >= gpufree_account_entry_count(account))
                return -ERANGE;
        entry = &account->entries.v[position];
        if (ret_kind)
                *ret_kind = entry->kind;
        if (ret_bytes)
                *ret_bytes = entry->bytes;
        if (ret_counts)
                *ret_counts = entry->counts;
        if (ret_pid)
                *ret_pid = entry->pid;
        if (ret_sentence)
                *ret_sentence = entry->sentence;
        return 0;
}

const gpufree_holder *gpufree_account_keeper(const gpufree_account *account, size_t position, size_t index)
{
        if (position >= gpufree_account_entry_count(account) || index >= account->entries.v[position].keepers.n)
                return NULL;
        return account->entries.v[position].keepers.v[index];
}

const char *gpufree_account_reason(const gpufree_account *account, size_t index)
{
        return account && index < account->reasons.n ? account->reasons.v[index] : NULL;
}

const char *gpufree_account_command(const gpufree_account *account, size_t index)
{
        return account && index < account->commands.n ? account->commands.v[index] : NULL;
}

const char *gpufree_account_log_error(const gpufree_account *account)
{
        return account ? account->log_error : NULL;
}

static int xid_at(const gf_xids *xids, size_t index, unsigned *ret_number, uint64_t *ret_age_ms, pid_t *ret_pid,
                  const char **ret_meaning, const char **ret_line)
{
        const struct gf_xid *xid;

        if (!xids || index >= xids->n)
                return -ERANGE;
        xid = &xids->v[index];
        if (ret_number)
                *ret_number = xid->number;
        if (ret_age_ms)
                *ret_age_ms = xid->age_ms;
        if (ret_pid)
                *ret_pid = xid->pid;
        if (ret_meaning)
                *ret_meaning = gf_xid_meaning(xid->number);
        if (ret_line)
                *ret_line = xid->line;
        return 0;
}

int gpufree_account_xid(const gpufree_account *account, size_t index, unsigned *ret_number, uint64_t *ret_age_ms,
                        pid_t *ret_pid, const char **ret_meaning, const char **ret_line)
{
        return xid_at(account ? &account->xids : NULL, index, ret_number, ret_age_ms, ret_pid, ret_meaning, ret_line);
}

/* The errors of its GPUs, each once, and those that name the process. */
static int add_log(struct gpufree_story *story)
{
        _cleanup_(gf_kernel_log_done) struct gf_kernel_log log = { 0 };
        const struct gpufree_holder *process = story->process;
        int r = gf_kernel_log_read(KERNEL_LOG, &log);

        for (size_t i = 0; i < log.xids.n && r >= 0; i++) {
                const struct gf_xid *xid = &log.xids.v[i];
                gf_xids one = { .v = &log.xids.v[i], .n = 1, .cap = 1 };
                bool of = xid->pid == process->id.pid;

                for (size_t k = 0; k < process->gpus.n; k++)
                        of = of || (process->gpus.v[k].context &&
                                    gf_xid_is_of(xid, story->snapshot->inventory.gpus.v[process->gpus.v[k].gpu].pci));
                if (of)
                        r = gf_xids_copy(&one, xid->pci[0] ? xid->pci : NULL, process->id.pid, &story->xids);
        }
        if (r >= 0)
                r = gf_strset(&story->log_error, log.error);
        return r;
}

int gpufree_story_new(gpufree *context, gpufree_snapshot *snapshot, pid_t pid, gpufree_story **ret_story)
{
        struct gpufree_story *story = NULL;
        struct gf_stop stop = { 0 };
        int r;

        if (!snapshot || pid <= 0)
                return gf_fail(&context->env, -ESRCH, "there is no process %d", (int)pid);
        r = gf_story_read(&context->env, snapshot, pid, &story);
        if (r >= 0)
                r = add_log(story);
        if (r >= 0)
                r = gf_stop_find(&context->env, geteuid(), story->process, &stop);
        if (r >= 0 && !context->park_silent)
                r = gf_may_park_ask(&context->env, snapshot, story->process, &story->parking);
        /* No answer in time: the next story does not wait for one as long again. */
        if (r >= 0 && story->parking.answer == GF_MAY_UNKNOWN && story->parking.why)
                context->park_silent = true;
        if (r >= 0)
                r = gf_story_tell(story, &stop);
        gf_stop_done(&stop);
        if (r < 0) {
                gpufree_story_unref(story);
                if (r == -ECANCELED)
                        return gf_fail(&context->env, r, "interrupted");
                if (r == -ESRCH)
                        return gf_fail(&context->env, r, "there is no process %d (any more)", (int)pid);
                return gf_fail(&context->env, r, "the story of process %d: %s", (int)pid, strerror(-r));
        }
        *ret_story = story;
        return 0;
}

const gpufree_holder *gpufree_story_process(const gpufree_story *story)
{
        return story ? story->process : NULL;
}

int gpufree_story_parking(const gpufree_story *story, enum gpufree_park_state *ret_state, const char **ret_why)
{
        if (!story || story->parking.answer == GF_MAY_UNKNOWN)
                return -ENODATA;
        if (ret_state)
                *ret_state = story->parking.state;
        if (ret_why)
                *ret_why = story->parking.why;
        return story->parking.answer == GF_MAY;
}

int gpufree_story_sentence(const gpufree_story *story, size_t index, const char **ret_topic, const char **ret_sentence)
{
        if (!story || index >= story->lines.n)
                return -ERANGE;
        if (ret_topic)
                *ret_topic = story->lines.v[index].topic;
        if (ret_sentence)
                *ret_sentence = story->lines.v[index].sentence;
        return 0;
}

size_t gpufree_story_threads(const gpufree_story *story)
{
        return story ? story->threads.n : 0;
}

int gpufree_story_thread(const gpufree_story *story, size_t position, pid_t *ret_tid, char *ret_state,
                         const char **ret_wchan, const char **ret_stack)
{
        const struct gf_story_thread *thread;

        if (!story || position >= story->threads.list.n)
                return -ERANGE;
        thread = &story->threads.list.v[position];
        if (ret_tid)
                *ret_tid = thread->tid;
        if (ret_state)
                *ret_state = thread->state;
        if (ret_wchan)
                *ret_wchan = thread->wchan[0] ? thread->wchan : NULL;
        if (ret_stack)
                *ret_stack = thread->stack && thread->stack[0] ? thread->stack : NULL;
        return 0;
}

uint64_t gpufree_story_pending(const gpufree_story *story)
{
        return story ? story->threads.pending : GPUFREE_UNKNOWN;
}

pid_t gpufree_story_child(const gpufree_story *story, size_t index)
{
        return story && index < story->children.n ? story->children.v[index] : 0;
}

int gpufree_story_xid(const gpufree_story *story, size_t index, unsigned *ret_number, uint64_t *ret_age_ms,
                      pid_t *ret_pid, const char **ret_meaning, const char **ret_line)
{
        return xid_at(story ? &story->xids : NULL, index, ret_number, ret_age_ms, ret_pid, ret_meaning, ret_line);
}

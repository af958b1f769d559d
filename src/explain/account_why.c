/* SPDX-License-Identifier: MIT */
/* Why memory is unaccounted for, the likeliest first; and what to type next. */
#include <errno.h>

#include "explain/account.h"

static const struct gpufree_gpu *gpu_of(const struct gpufree_account *account)
{
        return &account->snapshot->inventory.gpus.v[account->gpu];
}

static size_t count_kind(const struct gpufree_account *account, enum gpufree_entry kind)
{
        size_t n = 0;

        for (size_t i = 0; i < account->entries.n; i++)
                n += account->entries.v[i].kind == kind;
        return n;
}

/* Errors after which the driver was seen to keep memory: the latest that asks for a reset. */
static const struct gf_xid *broken_by(const struct gpufree_account *account)
{
        for (size_t i = 0; i < account->xids.n; i++) {
                const struct gf_xid_row *row = gf_xid_find(account->xids.v[i].number);

                if (row && (row->remedy == GF_REMEDY_RESET || row->remedy == GF_REMEDY_REBOOT))
                        return &account->xids.v[i];
        }
        return NULL;
}

/* Evidence first: what was seen to be in the way of seeing; then what would explain it; then what is left. */
int gf_account_add_reasons(struct gpufree_account *account)
{
        const struct gpufree_snapshot *snapshot = account->snapshot;
        const struct gpufree_gpu *gpu = gpu_of(account);
        const struct gf_xid *xid = broken_by(account);
        size_t openers = count_kind(account, GPUFREE_ENTRY_OPEN), before = account->reasons.n;
        gf_strv *reasons = &account->reasons;
        int r = 0;

        if (account->unaccounted == GPUFREE_UNKNOWN || account->unaccounted <= GF_ACCOUNT_NOISE)
                return 0;
        if (gpu->vendor == GPUFREE_VENDOR_NVIDIA && gpu->memory.reserved == GPUFREE_UNKNOWN &&
            account->unaccounted <= GF_ACCOUNT_RESERVED)
                r = gf_strv_add(reasons,
                                "The figure of what is used contains what the driver reserves for itself, which "
                                "this driver does not give apart (615 MiB on an idle H200).");
        if (r >= 0 && gpu->error)
                r = gf_strv_addf(reasons, "The driver has trouble with this GPU: %s", gpu->error);
        if (r >= 0 && xid)
                r = gf_strv_addf(
                        reasons,
                        "Xid %u is in the kernel log: %s. Memory can stay taken after it until the GPU is reset.",
                        xid->number, gf_xid_meaning(xid->number));
        if (r >= 0 && !snapshot->initial_pidns)
                r = gf_strv_add(reasons,
                                "It is another PID namespace's: gpufree runs in one of its own, where the driver "
                                "leaves out the processes outside. Run it on the host.");
        if (r >= 0 && snapshot->scan.refused.n > 0)
                r = gf_strv_addf(reasons,
                                 "It is held by what could not be looked at: %zu process%s. Run as root to see them.",
                                 snapshot->scan.refused.n, snapshot->scan.refused.n == 1 ? "" : "es");
        if (r >= 0 && snapshot->scan.opaque_queues > 0 && snapshot->scan.method == GPUFREE_SCAN_PROC)
                r = gf_strv_add(reasons,
                                "Its descriptor waits in a socket or an io_uring, which /proc does not show: run "
                                "as root with BPF (--scan bpf).");
        if (r >= 0 && gpu->vendor == GPUFREE_VENDOR_NVIDIA && !gpu->lists_complete)
                r = gf_strv_add(reasons,
                                "The driver's process lists of this GPU could not be read, so that nobody's share "
                                "is known.");
        if (r >= 0 && openers > 0 && account->unaccounted <= GF_ACCOUNT_NOISE + openers * GF_ACCOUNT_OPENER)
                r = gf_strv_addf(reasons, "%zu process%s the device merely open: that costs up to 3 MiB each.", openers,
                                 openers == 1 ? " has" : "es have");
        if (r >= 0 && snapshot->scan.vanished > 0)
                r = gf_strv_addf(
                        reasons,
                        "The driver is still freeing it: %llu process%s ended while gpufree looked. Look again.",
                        (unsigned long long)snapshot->scan.vanished, snapshot->scan.vanished == 1 ? "" : "es");
        if (r >= 0 && reasons->n == before)
                r = gf_strv_add(reasons,
                                "Every process was looked at and none has anything of this GPU that would keep "
                                "it: the driver did not take it back. A reset of the GPU does.");
        return r < 0 ? r : 0;
}

static int add_kill(struct gpufree_account *account)
{
        gf_holder_list pids = { 0 }, others = { 0 };
        struct gf_str text = { 0 };
        int r = 0;

        /* What keeps a dead one's or an exported part is not what one thinks of first: by PID, so that it is named. */
        for (size_t i = 0; i < account->entries.n; i++) {
                const struct gf_entry *entry = &account->entries.v[i];
                bool named = entry->kind == GPUFREE_ENTRY_DEAD || entry->kind == GPUFREE_ENTRY_DMABUF ||
                             entry->kind == GPUFREE_ENTRY_HANDLE;

                for (size_t k = 0; k < entry->keepers.n && r >= 0 && entry->kind != GPUFREE_ENTRY_OPEN; k++)
                        r = gf_holder_list_add(named ? &pids : &others, entry->keepers.v[k]);
        }
        /* A GPU without a number cannot be selected by it. */
        for (size_t i = 0; i < others.n && r >= 0 && gpu_of(account)->index < 0 && !gpu_of(account)->pci; i++)
                r = gf_holder_list_add(&pids, others.v[i]);
        if (r >= 0 && others.n > 0 && (gpu_of(account)->index >= 0 || gpu_of(account)->pci)) {
                gf_str_add(&text, "gpufree kill");
                gf_word_gpu_option(&text, gpu_of(account));
                r = gf_word_take(&text, &account->commands);
        } else if (r >= 0 && pids.n > 0) {
                gf_str_add(&text, "gpufree kill --pid ");
                gf_word_pids(&text, &pids);
                r = gf_word_take(&text, &account->commands);
        }
        for (size_t i = 0; i < others.n && r >= 0; i++)
                if (others.v[i]->facts.state == 'D' || others.v[i]->facts.state == 'Z' ||
                    others.v[i]->facts.state == 'T')
                        r = gf_strv_addf(&account->commands, "gpufree explain %d", (int)others.v[i]->id.pid);
        gf_vec_done(&pids);
        gf_vec_done(&others);
        return r;
}

static int add_with_gpu(struct gpufree_account *account, const char *command)
{
        struct gf_str text = { 0 };

        gf_str_add(&text, command);
        gf_word_gpu_option(&text, gpu_of(account));
        return gf_word_take(&text, &account->commands);
}

int gf_account_add_commands(struct gpufree_account *account)
{
        const struct gpufree_snapshot *snapshot = account->snapshot;
        bool more = account->unaccounted != GPUFREE_UNKNOWN && account->unaccounted > GF_ACCOUNT_NOISE;
        bool clear = snapshot->gaps.n == 0 && snapshot->scan.refused.n == 0;
        int r = add_kill(account);

        if (r >= 0 && !clear && (more || count_kind(account, GPUFREE_ENTRY_UNSEEN) > 0))
                r = add_with_gpu(account, "sudo gpufree explain");
        if (r >= 0 && clear && more)
                r = add_with_gpu(account, "gpufree check --for reset");
        return r < 0 ? r : 0;
}

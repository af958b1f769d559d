/* SPDX-License-Identifier: MIT */
#include "explain/account.h"

#include <errno.h>
#include <string.h>

#define MOST_XIDS 8

static struct gf_entry *add_entry(struct gpufree_account *account, enum gpufree_entry kind, uint64_t bytes, bool counts,
                                  pid_t pid)
{
        struct gf_entry *entry = gf_vec_add(&account->entries);

        if (entry)
                *entry = (struct gf_entry){ .kind = kind, .bytes = bytes, .counts = counts, .pid = pid };
        return entry;
}

static int say(struct gf_entry *entry, struct gf_str *text)
{
        return gf_str_take(text, &entry->sentence);
}

static const struct gf_driver_gpu *driver_of(const struct gpufree_account *account)
{
        return gf_driver_gpu_of(&account->snapshot->driver, &account->snapshot->inventory.gpus.v[account->gpu]);
}

/* The lists on which the driver has this PID. */
static unsigned lists_of(const struct gf_driver_gpu *driver, pid_t pid)
{
        unsigned lists = 0;

        for (size_t i = 0; driver && i < driver->processes.n; i++)
                if (driver->processes.v[i].pid == pid)
                        lists |= driver->processes.v[i].lists;
        return lists;
}

/* Control and server have the same name; the one with a context is the server. */
static enum gpufree_entry kind_of(const struct gf_driver_gpu *driver, const struct gpufree_holder *holder)
{
        if (holder->facts.comm && gf_startswith(holder->facts.comm, "nvidia-cuda-mps"))
                return GPUFREE_ENTRY_MPS_SERVER;
        if (lists_of(driver, holder->id.pid) & GF_LIST_MPS)
                return GPUFREE_ENTRY_MPS_CLIENT;
        return GPUFREE_ENTRY_PROCESS;
}

static int add_reserved(struct gpufree_account *account)
{
        uint64_t reserved = account->snapshot->inventory.gpus.v[account->gpu].memory.reserved;
        struct gf_str text = { 0 };
        struct gf_entry *entry;

        if (reserved == GPUFREE_UNKNOWN)
                return 0;
        entry = add_entry(account, GPUFREE_ENTRY_RESERVED, reserved, false, 0);
        if (!entry)
                return -ENOMEM;
        gf_str_add(&text, "reserved by the driver (not counted as used)");
        return say(entry, &text);
}

static int add_process(struct gpufree_account *account, const struct gpufree_holder *holder, uint64_t bytes)
{
        enum gpufree_entry kind = kind_of(driver_of(account), holder);
        struct gf_entry *entry = add_entry(account, kind, bytes, true, holder->id.pid);
        struct gf_str text = { 0 };

        if (!entry || gf_holder_list_add(&entry->keepers, holder) < 0)
                return -ENOMEM;
        gf_str_add(&text, kind == GPUFREE_ENTRY_MPS_SERVER   ? "MPS server "
                          : kind == GPUFREE_ENTRY_MPS_CLIENT ? "MPS client "
                                                             : "process ");
        gf_word_holder(&text, holder);
        if (kind == GPUFREE_ENTRY_MPS_SERVER)
                gf_str_add(&text, ": its clients on this GPU fail without it");
        else if (holder->facts.leader_zombie)
                gf_str_add(&text, ": its first thread has exited, the others live");
        else if (holder->facts.state == 'T')
                gf_str_add(&text, ": it is stopped");
        return say(entry, &text);
}

/* Listed processes with a figure; those that the driver has no figure for are held together. */
static int add_processes(struct gpufree_account *account, gf_holder_list *together)
{
        for (size_t i = 0; i < account->snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &account->snapshot->holders.v[i];
                const struct gf_gpu_use *use = gf_word_use(holder, account->gpu);
                int r = 0;

                if (!use || !use->context)
                        continue;
                if (use->listed && use->memory != GPUFREE_UNKNOWN)
                        r = add_process(account, holder, use->memory);
                else if (use->memory == GPUFREE_UNKNOWN && !use->inherited)
                        r = gf_holder_list_add(together, holder);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool inherits_from(const struct gpufree_holder *holder, pid_t dead)
{
        for (size_t i = 0; i < holder->notes.n; i++) {
                const char *note = holder->notes.v[i];
                char want[40];

                (void)snprintf(want, sizeof(want), "inherited-from:%d", (int)dead);
                if (strcmp(note, want) == 0)
                        return true;
        }
        return false;
}

static int add_dead(struct gpufree_account *account, const struct gf_dead *dead, gf_holder_list *together)
{
        struct gf_entry *entry = add_entry(account, GPUFREE_ENTRY_DEAD, dead->memory, dead->memory != GPUFREE_UNKNOWN,
                                           dead->pid);
        struct gf_str text = { 0 };

        if (!entry)
                return -ENOMEM;
        for (size_t i = 0; i < account->snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &account->snapshot->holders.v[i];
                const struct gf_gpu_use *use = gf_word_use(holder, account->gpu);

                if (!use || !use->inherited || !inherits_from(holder, dead->pid))
                        continue;
                if (gf_holder_list_add(&entry->keepers, holder) < 0)
                        return -ENOMEM;
                if (dead->memory == GPUFREE_UNKNOWN && gf_holder_list_add(together, holder) < 0)
                        return -ENOMEM;
        }
        gf_str_addf(&text, "booked to process %d, which is dead. ", (int)dead->pid);
        if (entry->keepers.n == 0) {
                gf_str_add(&text, "No live process was found that has what it had open");
        } else {
                gf_str_add(&text, "Its descriptors live on in ");
                gf_word_holders(&text, &entry->keepers);
                if (entry->keepers.n == 1)
                        gf_str_addf(&text, ": the memory stays until %d ends", (int)entry->keepers.v[0]->id.pid);
                else
                        gf_str_add(&text, ": the memory stays until all of them end");
        }
        return say(entry, &text);
}

static int add_dmabuf(struct gpufree_account *account, const struct gf_dmabuf *dmabuf, gf_holder_list *together)
{
        bool known = dmabuf->bytes != GPUFREE_UNKNOWN;
        struct gf_entry *entry = add_entry(account, GPUFREE_ENTRY_DMABUF, dmabuf->bytes, known, 0);
        const struct gf_scan *scan = &account->snapshot->scan;
        const struct gpufree_holder *holder = gf_word_find(account->snapshot, dmabuf->pid);
        struct gf_str text = { 0 };

        if (!entry || (holder && gf_holder_list_add(&entry->keepers, holder) < 0))
                return -ENOMEM;
        for (size_t i = 0; i < scan->hits.n && dmabuf->ino != 0; i++) {
                const struct gf_hit *hit = &scan->hits.v[i];

                if (hit->via != GPUFREE_VIA_DMABUF || hit->node_ino != dmabuf->ino || hit->node_dev != dmabuf->dev)
                        continue;
                holder = gf_word_find(account->snapshot, hit->id.pid);
                if (holder && gf_holder_list_add(&entry->keepers, holder) < 0)
                        return -ENOMEM;
        }
        for (size_t i = 0; i < entry->keepers.n && !known; i++)
                if (gf_holder_list_add(together, entry->keepers.v[i]) < 0)
                        return -ENOMEM;
        gf_str_add(&text, "exported as a dma-buf; kept open by ");
        gf_word_holders(&text, &entry->keepers);
        return say(entry, &text);
}

/* PIDs on the driver's lists that are neither holders here nor dead: others', which could not be looked at. */
static int add_unseen(struct gpufree_account *account, bool *ret_unknown)
{
        const struct gf_driver_gpu *driver = driver_of(account);

        for (size_t i = 0; driver && i < driver->processes.n; i++) {
                const struct gf_driver_process *process = &driver->processes.v[i];
                const struct gpufree_holder *holder = gf_word_find(account->snapshot, process->pid);
                const struct gf_gpu_use *use = holder ? gf_word_use(holder, account->gpu) : NULL;
                bool known = (use && use->listed) || process->pid <= 0, again = false;
                uint64_t bytes = process->memory;
                struct gf_str text = { 0 };
                struct gf_entry *entry;

                for (size_t k = 0; k < account->snapshot->dead.n; k++)
                        known = known || (account->snapshot->dead.v[k].pid == process->pid &&
                                          account->snapshot->dead.v[k].gpu == (int)account->gpu);
                for (size_t k = 0; k < driver->processes.n && !known; k++) {
                        const struct gf_driver_process *other = &driver->processes.v[k];

                        if (other->pid != process->pid || k == i)
                                continue;
                        again = again || k < i;
                        /* The same instance twice is one figure, different ones add up. */
                        if (other->gpu_instance == process->gpu_instance &&
                            other->compute_instance == process->compute_instance)
                                bytes = other->memory > bytes ? other->memory : bytes;
                        else if (bytes == GPUFREE_UNKNOWN || __builtin_add_overflow(bytes, other->memory, &bytes))
                                bytes = GPUFREE_UNKNOWN;
                }
                if (known || again)
                        continue;
                entry = add_entry(account, GPUFREE_ENTRY_UNSEEN, bytes, bytes != GPUFREE_UNKNOWN, process->pid);
                if (!entry)
                        return -ENOMEM;
                *ret_unknown = *ret_unknown || bytes == GPUFREE_UNKNOWN;
                gf_str_addf(&text, "process %d, listed by the driver; it could not be looked at", (int)process->pid);
                if (say(entry, &text) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* nvidiactl or UVM, and no node of the GPU itself: an exported memory handle looks like that. */
static bool is_handle(const struct gpufree_account *account, const struct gpufree_holder *holder)
{
        const struct gf_inventory *inventory = &account->snapshot->inventory;
        bool driver = false;

        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gf_device_use *use = &holder->devices.v[i];
                const struct gpufree_device *device = use->device < 0 ? NULL : &inventory->devices.v[use->device];

                if (!device)
                        continue;
                if (device->gpu == (int)account->gpu)
                        return false;
                driver = driver || device->cls == GF_CLASS_NVIDIA_CTL || device->cls == GF_CLASS_NVIDIA_UVM;
        }
        return driver;
}

static uint64_t sum_named(const struct gpufree_account *account)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < account->entries.n; i++)
                if (account->entries.v[i].counts && __builtin_add_overflow(sum, account->entries.v[i].bytes, &sum))
                        return GPUFREE_UNKNOWN - 1;
        return sum;
}

static uint64_t left_of(const struct gpufree_account *account)
{
        uint64_t used = account->snapshot->inventory.gpus.v[account->gpu].memory.used, named = sum_named(account);

        if (used == GPUFREE_UNKNOWN)
                return GPUFREE_UNKNOWN;
        return used > named ? used - named : 0;
}

/* What nothing else has, where there are holders whose share the driver does not say: it is theirs, together. */
static int add_together(struct gpufree_account *account, gf_holder_list *together, bool alone)
{
        uint64_t left = left_of(account);
        const struct gpufree_gpu *gpu = &account->snapshot->inventory.gpus.v[account->gpu];
        bool handles = true;
        struct gf_str text = { 0 };
        struct gf_entry *entry;

        if (together->n == 0)
                return 0;
        for (size_t i = 0; i < together->n; i++)
                handles = handles && is_handle(account, together->v[i]);
        /* Also others' are in it, of which nothing is known: then how much is theirs is not known either. */
        if (!alone)
                left = GPUFREE_UNKNOWN;
        entry = add_entry(account, handles ? GPUFREE_ENTRY_HANDLE : GPUFREE_ENTRY_TOGETHER, left,
                          left != GPUFREE_UNKNOWN, together->n == 1 ? together->v[0]->id.pid : 0);
        if (!entry)
                return -ENOMEM;
        entry->keepers = *together;
        *together = (gf_holder_list){ 0 };
        if (handles) {
                gf_str_add(&text, "exported as a memory handle; kept open by ");
                gf_word_holders(&text, &entry->keepers);
                gf_str_add(&text, entry->keepers.n == 1
                                          ? ", which has no GPU open itself, only the driver's control device"
                                          : ", which have no GPU open themselves, only the driver's control "
                                            "device; how much each has, the driver does not say");
        } else {
                gf_str_add(&text, entry->keepers.n == 1 ? "held by " : "held together by ");
                gf_word_holders(&text, &entry->keepers);
                if (gpu->vendor != GPUFREE_VENDOR_NVIDIA)
                        gf_str_add(&text, "; what they have open is the evidence, the driver gives no figure");
                else if (!gpu->lists_complete)
                        gf_str_add(&text,
                                   "; the driver's lists could not be read, what they have open is the evidence");
                else
                        gf_str_add(&text, "; the driver gives no figure for it, and nothing else explains this memory");
        }
        return say(entry, &text);
}

static int add_openers(struct gpufree_account *account)
{
        for (size_t i = 0; i < account->snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &account->snapshot->holders.v[i];
                const struct gf_gpu_use *use = gf_word_use(holder, account->gpu);
                struct gf_str text = { 0 };
                struct gf_entry *entry;

                if (!use || use->context)
                        continue;
                entry = add_entry(account, GPUFREE_ENTRY_OPEN, GPUFREE_UNKNOWN, false, holder->id.pid);
                if (!entry || gf_holder_list_add(&entry->keepers, holder) < 0)
                        return -ENOMEM;
                gf_str_add(&text, "merely open by ");
                gf_word_holder(&text, holder);
                if (say(entry, &text) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* What each MIG instance has, by the driver's lists; its processes are counted above. */
static int add_instances(struct gpufree_account *account)
{
        const struct gf_driver_gpu *driver = driver_of(account);

        for (size_t m = 0; driver && m < driver->migs.n; m++) {
                const struct gf_driver_mig *mig = &driver->migs.v[m];
                struct gf_str text = { 0 };
                struct gf_entry *entry;
                uint64_t sum = 0;
                size_t n = 0;

                for (size_t i = 0; i < driver->processes.n; i++) {
                        const struct gf_driver_process *process = &driver->processes.v[i];

                        if (process->gpu_instance != mig->gpu_instance ||
                            process->compute_instance != mig->compute_instance)
                                continue;
                        n++;
                        if (sum == GPUFREE_UNKNOWN || process->memory == GPUFREE_UNKNOWN ||
                            __builtin_add_overflow(sum, process->memory, &sum))
                                sum = GPUFREE_UNKNOWN;
                }
                entry = add_entry(account, GPUFREE_ENTRY_INSTANCE, sum, false, 0);
                if (!entry)
                        return -ENOMEM;
                gf_str_addf(&text, "of this in MIG instance %u/%u (%s), %zu process%s", mig->gpu_instance,
                            mig->compute_instance, mig->uuid, n, n == 1 ? "" : "es");
                if (say(entry, &text) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int add_unaccounted(struct gpufree_account *account, bool unknown)
{
        struct gf_entry *entry;
        struct gf_str text = { 0 };
        uint64_t used = account->snapshot->inventory.gpus.v[account->gpu].memory.used, named = sum_named(account);

        account->unaccounted = unknown ? GPUFREE_UNKNOWN : left_of(account);
        account->named = unknown || used == GPUFREE_UNKNOWN ? GPUFREE_UNKNOWN : named;
        entry = add_entry(account, GPUFREE_ENTRY_UNACCOUNTED, account->unaccounted, false, 0);
        if (!entry)
                return -ENOMEM;
        gf_str_add(&text, "unaccounted");
        if (account->unaccounted == GPUFREE_UNKNOWN)
                gf_str_add(&text, used == GPUFREE_UNKNOWN ? ": the driver gave no figure of what is used"
                                                          : ": some of the figures above are not known");
        else if (named != GPUFREE_UNKNOWN && used != GPUFREE_UNKNOWN && named > used &&
                 named - used > GF_ACCOUNT_NOISE) {
                gf_str_add(&text, "; the figures above are together ");
                gf_word_size(&text, named - used);
                gf_str_add(&text, " more than is used: memory that processes share is in the figure of each");
        }
        return say(entry, &text);
}

int gf_xids_copy(const gf_xids *from, const char *pci, pid_t pid, gf_xids *to)
{
        for (size_t i = 0; i < from->n && to->n < MOST_XIDS; i++) {
                const struct gf_xid *xid = &from->v[i];
                struct gf_xid *slot;

                if (!gf_xid_is_of(xid, pci) && (pid <= 0 || xid->pid != pid))
                        continue;
                slot = gf_vec_add(to);
                if (!slot)
                        return -ENOMEM;
                *slot = *xid;
                slot->line = strdup(xid->line);
                if (!slot->line)
                        return -ENOMEM;
        }
        return 0;
}

static int fill(struct gpufree_account *account, const struct gf_kernel_log *log, gf_holder_list *together)
{
        struct gpufree_snapshot *snapshot = account->snapshot;
        bool unseen_unknown = false, unknown;
        int r;

        r = add_reserved(account);
        if (r >= 0)
                r = add_processes(account, together);
        for (size_t i = 0; r >= 0 && i < snapshot->dead.n; i++)
                if (snapshot->dead.v[i].gpu == (int)account->gpu && snapshot->dead.v[i].memory != 0)
                        r = add_dead(account, &snapshot->dead.v[i], together);
        for (size_t i = 0; r >= 0 && i < snapshot->dmabufs.n; i++)
                if (snapshot->dmabufs.v[i].gpu == (int)account->gpu)
                        r = add_dmabuf(account, &snapshot->dmabufs.v[i], together);
        if (r >= 0)
                r = add_unseen(account, &unseen_unknown);
        /* A dead one without a figure and without heirs is as little known as what could not be looked at. */
        for (size_t i = 0; i < account->entries.n; i++)
                unseen_unknown = unseen_unknown || (account->entries.v[i].kind == GPUFREE_ENTRY_DEAD &&
                                                    account->entries.v[i].bytes == GPUFREE_UNKNOWN &&
                                                    account->entries.v[i].keepers.n == 0);
        unknown = unseen_unknown;
        if (r >= 0)
                r = add_together(account, together, !unseen_unknown);
        if (r >= 0)
                r = add_openers(account);
        if (r >= 0)
                r = add_instances(account);
        if (r >= 0)
                r = add_unaccounted(account, unknown);
        if (r >= 0 && log) {
                r = gf_xids_copy(&log->xids, snapshot->inventory.gpus.v[account->gpu].pci, 0, &account->xids);
                if (r >= 0)
                        r = gf_strset(&account->log_error, log->error);
        }
        if (r >= 0)
                r = gf_account_add_reasons(account);
        return r >= 0 ? gf_account_add_commands(account) : r;
}

int gf_account_make(struct gpufree_snapshot *snapshot, size_t gpu, const struct gf_kernel_log *log,
                    struct gpufree_account **ret_account)
{
        struct gpufree_account *account = calloc(1, sizeof(*account));
        gf_holder_list together = { 0 };
        int r;

        if (!account)
                return -ENOMEM;
        account->snapshot = gpufree_snapshot_ref(snapshot);
        account->gpu = gpu;
        r = fill(account, log, &together);
        gf_vec_done(&together);
        if (r < 0) {
                gpufree_account_unref(account);
                return r;
        }
        *ret_account = account;
        return 0;
}

gpufree_account *gpufree_account_unref(gpufree_account *account)
{
        if (!account)
                return NULL;
        for (size_t i = 0; i < account->entries.n; i++) {
                gf_vec_done(&account->entries.v[i].keepers);
                free(account->entries.v[i].sentence);
        }
        gf_vec_done(&account->entries);
        gf_strv_done(&account->reasons);
        gf_strv_done(&account->commands);
        gf_xids_done(&account->xids);
        free(account->log_error);
        gpufree_snapshot_unref(account->snapshot);
        free(account);
        return NULL;
}

/* SPDX-License-Identifier: MIT */
#include "explain/words.h"

#include <errno.h>

#include "base/num.h"

#define MOST_NAMED 4

void gf_word_holder(struct gf_str *text, const struct gpufree_holder *holder)
{
        const char *parts[] = { holder->facts.comm, holder->facts.user, holder->owner_label }, *gap = " (";
        bool any = false;

        gf_str_addf(text, "%d", (int)holder->id.pid);
        for (size_t i = 0; i < ELEMENTSOF(parts); i++) {
                if (!parts[i] || parts[i][0] == '\0')
                        continue;
                gf_str_addf(text, "%s%s", gap, parts[i]);
                gap = ", ";
                any = true;
        }
        if (any)
                gf_str_addc(text, ')');
}

void gf_word_holders(struct gf_str *text, const gf_holder_list *list)
{
        for (size_t i = 0; i < list->n && i < MOST_NAMED; i++) {
                if (i > 0)
                        gf_str_add(text, i + 1 == list->n ? " and " : ", ");
                gf_word_holder(text, list->v[i]);
        }
        if (list->n > MOST_NAMED)
                gf_str_addf(text, " and %zu more", list->n - MOST_NAMED);
}

void gf_word_size(struct gf_str *text, uint64_t bytes)
{
        char buf[GF_TEXT_MAX];

        gf_str_add(text, bytes == GPUFREE_UNKNOWN ? "?" : gf_format_size(bytes, buf));
}

void gf_word_gpu(struct gf_str *text, const struct gpufree_gpu *gpu)
{
        if (gpu->index >= 0)
                gf_str_addf(text, "GPU %d", gpu->index);
        else if (gpu->pci)
                gf_str_addf(text, "GPU %s", gpu->pci);
        else if (gpu->minor >= 0)
                gf_str_addf(text, "GPU with minor number %d", gpu->minor);
        else
                gf_str_addf(text, "GPU %s", gpu->uuid ? gpu->uuid : "without a number");
}

void gf_word_gpu_option(struct gf_str *text, const struct gpufree_gpu *gpu)
{
        if (gpu->index >= 0)
                gf_str_addf(text, " --gpu %d", gpu->index);
        else if (gpu->pci)
                gf_str_addf(text, " --gpu %s", gpu->pci);
}

void gf_word_pids(struct gf_str *text, const gf_holder_list *list)
{
        for (size_t i = 0; i < list->n; i++)
                gf_str_addf(text, "%s%d", i > 0 ? "," : "", (int)list->v[i]->id.pid);
}

const struct gf_gpu_use *gf_word_use(const struct gpufree_holder *holder, size_t gpu)
{
        for (size_t i = 0; i < holder->gpus.n; i++)
                if (holder->gpus.v[i].gpu == (int)gpu)
                        return &holder->gpus.v[i];
        return NULL;
}

const struct gpufree_holder *gf_word_find(const struct gpufree_snapshot *snapshot, pid_t pid)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (snapshot->holders.v[i].id.pid == pid)
                        return &snapshot->holders.v[i];
        return NULL;
}

int gf_holder_list_add(gf_holder_list *list, const struct gpufree_holder *holder)
{
        const struct gpufree_holder **slot;

        for (size_t i = 0; i < list->n; i++)
                if (list->v[i] == holder)
                        return 0;
        slot = gf_vec_add(list);
        if (!slot)
                return -ENOMEM;
        *slot = holder;
        return 0;
}

bool gf_word_has_class(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder, enum gf_class cls)
{
        for (size_t i = 0; i < holder->devices.n; i++) {
                int device = holder->devices.v[i].device;

                if (device >= 0 && snapshot->inventory.devices.v[device].cls == cls)
                        return true;
        }
        return false;
}

int gf_word_take(struct gf_str *text, gf_strv *list)
{
        _cleanup_free_ char *taken = NULL;
        int r = gf_str_take(text, &taken);

        return r < 0 ? r : gf_strv_add(list, taken);
}

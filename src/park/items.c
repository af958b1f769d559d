/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "park/park.h"
#include "scan/scan.h"

struct gpufree_parking *gf_parking_new(void)
{
        return calloc(1, sizeof(struct gpufree_parking));
}

struct gf_parked *gf_parking_add(struct gpufree_parking *parking, const struct gf_ident *id)
{
        struct gf_parked *item = gf_vec_add(&parking->items);

        if (!item)
                return NULL;
        item->id = *id;
        item->uid = UINT32_MAX;
        item->memory = GPUFREE_UNKNOWN;
        item->copy_ms = GPUFREE_UNKNOWN;
        item->pidfd = -1;
        item->state = GPUFREE_PARK_UNKNOWN;
        item->since = -1;
        return item;
}

static void item_done(struct gf_parked *item)
{
        gf_cuda_stop(&item->cuda);
        item->pidfd = gf_close(item->pidfd);
        free(item->comm);
        free(item->cmdline);
        free(item->user);
        free(item->sentence);
        free(item->gpu_list);
        free(item->by);
        gf_vec_done(&item->gpus);
}

gpufree_parking *gpufree_parking_unref(gpufree_parking *parking)
{
        if (!parking)
                return NULL;
        for (size_t i = 0; i < parking->items.n; i++)
                item_done(&parking->items.v[i]);
        gf_vec_done(&parking->items);
        gf_strv_done(&parking->sentences);
        free(parking);
        return NULL;
}

int gf_parked_name_gpus(struct gf_parked *item)
{
        struct gf_str text = { 0 };
        char *list = NULL;
        int r;

        for (size_t i = 0; i < item->gpus.n; i++)
                if (item->gpus.v[i].index >= 0)
                        gf_str_addf(&text, "%s%d", text.n > 0 ? "," : "", item->gpus.v[i].index);
        if (text.n == 0 && !text.failed)
                return 0;
        r = gf_str_take(&text, &list);
        if (r < 0)
                return r;
        free(item->gpu_list);
        item->gpu_list = list;
        return 0;
}

static int copy_names(struct gf_parked *item, const struct gf_facts *facts)
{
        char *cmdline = NULL;

        item->uid = facts->uid;
        if (gf_strset(&item->comm, facts->comm) < 0 || gf_strset(&item->user, facts->user) < 0)
                return -ENOMEM;
        if (facts->cmdline && facts->cmdline_length > 0) {
                cmdline = malloc(facts->cmdline_length + 1);
                if (!cmdline)
                        return -ENOMEM;
                memcpy(cmdline, facts->cmdline, facts->cmdline_length);
                cmdline[facts->cmdline_length] = '\0';
                for (size_t i = 0; i + 1 < facts->cmdline_length; i++)
                        if (cmdline[i] == '\0')
                                cmdline[i] = ' ';
        }
        free(item->cmdline);
        item->cmdline = cmdline;
        return 0;
}

int gf_parked_from_holder(struct gpufree_parking *parking, const struct gpufree_snapshot *snapshot,
                          const struct gpufree_holder *holder)
{
        struct gf_parked *item = gf_parking_add(parking, &holder->id);
        uint64_t sum = 0;
        bool known = true;

        if (!item || copy_names(item, &holder->facts) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < holder->gpus.n; i++) {
                const struct gf_gpu_use *use = &holder->gpus.v[i];
                const struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[use->gpu];
                struct gf_park_gpu *part;

                if (!use->context || gpu->vendor != GPUFREE_VENDOR_NVIDIA)
                        continue;
                part = gf_vec_add(&item->gpus);
                if (!part)
                        return -ENOMEM;
                (void)snprintf(part->uuid, sizeof(part->uuid), "%s", gpu->uuid ? gpu->uuid : "");
                part->index = gpu->index;
                part->memory = use->memory;
                known = known && use->memory != GPUFREE_UNKNOWN;
                sum += known ? use->memory : 0;
        }
        item->memory = known ? sum : GPUFREE_UNKNOWN;
        return gf_parked_name_gpus(item);
}

int gf_parked_describe(struct gf_env *env, struct gf_parked *item)
{
        struct gf_facts facts = { 0 };
        int r = gf_facts_read(env, &item->id, &facts);

        if (r >= 0)
                r = copy_names(item, &facts);
        gf_facts_done(&facts);
        return r;
}

/* Which of two outcomes says more about what is not as it was asked for. */
static int weight(enum gpufree_outcome outcome)
{
        static const int weights[] = {
                [GPUFREE_OK] = 0,      [GPUFREE_HELD] = 6,    [GPUFREE_USAGE] = 7,   [GPUFREE_INCOMPLETE] = 1,
                [GPUFREE_REFUSED] = 3, [GPUFREE_RESIDUE] = 2, [GPUFREE_TIMEOUT] = 5,
        };

        return (size_t)outcome < ELEMENTSOF(weights) ? weights[outcome] : 6;
}

int gf_parked_say(struct gf_parked *item, enum gpufree_outcome outcome, const char *format, ...)
{
        va_list ap;
        char *text;

        if (item->sentence && weight(outcome) < weight(item->outcome))
                return 0;
        va_start(ap, format);
        text = gf_vasprintf(format, ap);
        va_end(ap);
        item->outcome = outcome;
        if (!text)
                return -ENOMEM;
        free(item->sentence);
        item->sentence = text;
        return 0;
}

enum gpufree_outcome gf_parking_worst(const struct gpufree_parking *parking)
{
        enum gpufree_outcome worst = GPUFREE_OK;

        for (size_t i = 0; i < parking->items.n; i++)
                if (weight(parking->items.v[i].outcome) > weight(worst))
                        worst = parking->items.v[i].outcome;
        return worst;
}

/* SPDX-License-Identifier: MIT */
#include "guard/near.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "sys/procfs.h"
#include "sys/safefile.h"

#define NOTHING_IN_COMMON 100U
#define OTHER_NODE 1000U

unsigned gf_near_distance(const char *a, const char *b)
{
        size_t common = 0, i = 0;
        unsigned apart = 0;

        if (!a || !b)
                return NOTHING_IN_COMMON;
        for (; a[i] && a[i] == b[i]; i++)
                if (a[i] == '/')
                        common = i + 1;
        if (a[i] == '\0' && b[i] == '\0')
                return 0;
        for (const char *p = a + common; *p; p++)
                apart += *p == '/';
        for (const char *p = b + common; *p; p++)
                apart += *p == '/';
        return apart < NOTHING_IN_COMMON ? apart : NOTHING_IN_COMMON;
}

struct place {
        char *path, *node;
};

static void read_place(struct gf_env *env, const struct gpufree_gpu *gpu, struct place *place)
{
        _cleanup_free_ char *link = NULL, *node = NULL;

        if (!gpu->pci)
                return;
        link = gf_asprintf("%s/bus/pci/devices/%s", env->sys_root, gpu->pci);
        node = gf_asprintf("%s/bus/pci/devices/%s/numa_node", env->sys_root, gpu->pci);
        if (link && gf_safe_link(link, &place->path) < 0)
                place->path = NULL;
        if (node && gf_read_file(AT_FDCWD, node, 64, &place->node, NULL) < 0)
                place->node = NULL;
}

static unsigned apart(const struct place *a, const struct place *b)
{
        unsigned distance = gf_near_distance(a->path, b->path);

        return a->node && b->node && strcmp(a->node, b->node) != 0 ? distance + OTHER_NODE : distance;
}

static void swap(size_t *v, struct place *places, size_t a, size_t b)
{
        size_t index = v[a];
        struct place place = places[a];

        v[a] = v[b];
        places[a] = places[b];
        v[b] = index;
        places[b] = place;
}

/* Starting from one, always the nearest to all that were taken: the sum of distances; `order` gets the positions. */
static uint64_t gather(const struct place *places, size_t count, size_t n, size_t seed, size_t *order, bool *taken)
{
        uint64_t total = 0;

        memset(taken, 0, count * sizeof(*taken));
        order[0] = seed;
        taken[seed] = true;
        for (size_t k = 1; k < n; k++) {
                uint64_t best = UINT64_MAX;
                size_t at = 0;

                for (size_t i = 0; i < count; i++) {
                        uint64_t sum = 0;

                        if (taken[i])
                                continue;
                        for (size_t t = 0; t < k; t++)
                                sum += apart(&places[i], &places[order[t]]);
                        if (sum < best) {
                                best = sum;
                                at = i;
                        }
                }
                taken[at] = true;
                order[k] = at;
                total += best;
        }
        return total;
}

static int compare(const void *a, const void *b)
{
        size_t x = *(const size_t *)a, y = *(const size_t *)b;

        return (x > y) - (x < y);
}

int gf_near_first(struct gf_env *env, const struct gpufree_snapshot *snapshot, size_t *candidates, size_t count,
                  size_t n)
{
        _cleanup_free_ struct place *places = NULL;
        _cleanup_free_ size_t *order = NULL, *best = NULL;
        _cleanup_free_ bool *taken = NULL;
        uint64_t least = UINT64_MAX;

        if (n >= count || n < 2)
                return 0;
        places = calloc(count, sizeof(*places));
        order = calloc(n, sizeof(*order));
        best = calloc(n, sizeof(*best));
        taken = calloc(count, sizeof(*taken));
        if (!places || !order || !best || !taken)
                return -ENOMEM;
        for (size_t i = 0; i < count; i++)
                read_place(env, &snapshot->inventory.gpus.v[candidates[i]], &places[i]);
        for (size_t seed = 0; seed < count; seed++) {
                uint64_t total = gather(places, count, n, seed, order, taken);

                if (total < least) {
                        least = total;
                        memcpy(best, order, n * sizeof(*best));
                }
        }
        /* In their order, so that moving one forward never moves another that is still to come. */
        qsort(best, n, sizeof(*best), compare);
        for (size_t i = 0; i < n; i++)
                swap(candidates, places, i, best[i]);
        for (size_t i = 0; i < count; i++) {
                free(places[i].path);
                free(places[i].node);
        }
        return 0;
}

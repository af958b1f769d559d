/* SPDX-License-Identifier: MIT */
/* --to: which GPU takes the place of which. Pure. */
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "park/park.h"
#include "park/peers.h"

void gf_move_done(struct gf_move *move)
{
        gf_vec_done(&move->moves);
}

/* The GPU of the driver that this text names: an index, or a UUID or the start of one. -1: none, or several. */
static int find_gpu(const struct gpufree_snapshot *snapshot, const char *text)
{
        uint32_t index = UINT32_MAX;
        int found = -1;

        (void)gf_parse_u32(text, &index);
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++) {
                const struct gpufree_gpu *gpu = &snapshot->inventory.gpus.v[i];
                bool same = gpu->index >= 0 && (uint32_t)gpu->index == index;

                if (gpu->vendor != GPUFREE_VENDOR_NVIDIA)
                        continue;
                same = same || (gpu->uuid && gf_startswith(text, "GPU-") && gf_startswith(gpu->uuid, text));
                same = same || gf_streq(gpu->pci, text);
                if (!same)
                        continue;
                if (found >= 0)
                        return -1;
                found = (int)i;
        }
        return found;
}

static int add_move(struct gf_env *env, struct gf_move *move, const struct gpufree_snapshot *snapshot, const char *from,
                    const char *to)
{
        int a = find_gpu(snapshot, from), b = find_gpu(snapshot, to);

        if (a < 0 || b < 0)
                return gf_fail(env, -EINVAL, "--to: there is no GPU \"%s\" (nvidia-smi counts from 0)",
                               a < 0 ? from : to);
        for (size_t i = 0; i < move->moves.n; i++)
                if (move->moves.v[i].from == (size_t)a || move->moves.v[i].to == (size_t)b)
                        return gf_fail(env, -EINVAL, "--to: GPU \"%s\" is named twice",
                                       move->moves.v[i].from == (size_t)a ? from : to);
        if (!gf_vec_add(&move->moves))
                return gf_fail(env, -ENOMEM, "out of memory");
        move->moves.v[move->moves.n - 1].from = (size_t)a;
        move->moves.v[move->moves.n - 1].to = (size_t)b;
        return 0;
}

/* "1": where its only GPU's memory goes. */
static int single(struct gf_env *env, struct gf_move *move, const struct gpufree_snapshot *snapshot,
                  const struct gf_parked *item, const char *to)
{
        const char *from = item->gpus.n == 1 ? item->gpus.v[0].uuid : "";

        if (item->gpus.n > 1)
                return gf_fail(env, -EINVAL, "--to: %d used %zu GPUs: name each, like 0:2,1:3", (int)item->id.pid,
                               item->gpus.n);
        if (from[0] == '\0')
                return gf_fail(env, -EINVAL,
                               "--to: no record tells which GPU %d was on: name it, like 0:%s (from GPU 0)",
                               (int)item->id.pid, to);
        return add_move(env, move, snapshot, from, to);
}

static int parse(struct gf_env *env, struct gf_move *move, const struct gpufree_snapshot *snapshot,
                 const struct gf_parked *item, char *text)
{
        char *save = NULL;
        int r = 0;

        if (!strchr(text, ',') && (!strchr(text, ':') || find_gpu(snapshot, text) >= 0)) /* a PCI address has colons */
                return single(env, move, snapshot, item, text);
        for (char *pair = strtok_r(text, ",", &save); r >= 0 && pair; pair = strtok_r(NULL, ",", &save)) {
                char *colon = strchr(pair, ':');

                if (!colon)
                        return gf_fail(env, -EINVAL, "--to: \"%s\" is no pair of GPUs (like 0:2)", pair);
                *colon = '\0';
                r = add_move(env, move, snapshot, pair, colon + 1);
        }
        return r;
}

static bool is_from(const struct gf_move *move, size_t gpu)
{
        for (size_t i = 0; i < move->moves.n; i++)
                if (move->moves.v[i].from == gpu)
                        return true;
        return false;
}

static bool is_taken(const struct gf_move *move, const size_t *target, const struct gpufree_snapshot *snapshot,
                     size_t gpu)
{
        for (size_t i = 0; i < move->moves.n; i++)
                if (move->moves.v[i].to == gpu)
                        return true;
        for (size_t i = 0; i < snapshot->inventory.gpus.n; i++)
                if (!is_from(move, i) && target[i] == gpu)
                        return true;
        return false;
}

/* A permutation of all GPUs: who is pushed aside takes a place that became free. */
static void permute(const struct gf_move *move, const struct gpufree_snapshot *snapshot, size_t *target)
{
        size_t n = snapshot->inventory.gpus.n;

        for (size_t i = 0; i < n; i++)
                target[i] = SIZE_MAX;
        for (size_t i = 0; i < move->moves.n; i++)
                target[move->moves.v[i].from] = move->moves.v[i].to;
        for (size_t i = 0; i < n; i++)
                if (!is_from(move, i) && !is_taken(move, target, snapshot, i))
                        target[i] = i;
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < n && target[i] == SIZE_MAX; k++)
                        if (snapshot->inventory.gpus.v[k].vendor == snapshot->inventory.gpus.v[i].vendor &&
                            !is_taken(move, target, snapshot, k))
                                target[i] = k;
}

static int add_pair(struct gf_move *move, const struct gpufree_gpu *from, const struct gpufree_gpu *to)
{
        unsigned char(*pair)[16];

        if (from->vendor != GPUFREE_VENDOR_NVIDIA || move->request.n_pairs >= GF_CUDA_PAIRS)
                return from->vendor != GPUFREE_VENDOR_NVIDIA ? 0 : -E2BIG;
        pair = move->request.pairs[move->request.n_pairs];
        if (gf_cuda_uuid(from->uuid, pair[0]) < 0 || gf_cuda_uuid(to->uuid, pair[1]) < 0)
                return -EINVAL;
        move->request.n_pairs++;
        return 0;
}

int gf_move_parse(struct gf_env *env, const char *to, const struct gpufree_snapshot *snapshot,
                  const struct gf_parked *item, struct gf_move *ret_move)
{
        _cleanup_free_ char *text = to ? strdup(to) : NULL;
        _cleanup_free_ size_t *target = calloc(snapshot->inventory.gpus.n + 1, sizeof(*target));
        struct gf_move move = { 0 };
        int r = 0;

        if (!to) {
                *ret_move = move;
                return 0;
        }
        if (!text || !target)
                return gf_fail(env, -ENOMEM, "out of memory");
        move.given = true;
        r = parse(env, &move, snapshot, item, text);
        if (r >= 0 && move.moves.n == 0)
                r = gf_fail(env, -EINVAL, "--to: \"%s\" names no GPU", to);
        if (r >= 0)
                permute(&move, snapshot, target);
        for (size_t i = 0; r >= 0 && i < snapshot->inventory.gpus.n; i++) {
                r = target[i] == SIZE_MAX
                            ? 0
                            : add_pair(&move, &snapshot->inventory.gpus.v[i], &snapshot->inventory.gpus.v[target[i]]);
                if (r < 0)
                        r = gf_fail(env, -EINVAL, "--to: the driver's UUID of GPU %d is not known",
                                    snapshot->inventory.gpus.v[i].index);
        }
        if (r < 0) {
                gf_move_done(&move);
                return r;
        }
        *ret_move = move;
        return 0;
}

void gf_move_narrow(struct gf_move *move, const struct gpufree_snapshot *snapshot)
{
        move->request.n_pairs = 0;
        for (size_t i = 0; i < move->moves.n; i++)
                (void)add_pair(move, &snapshot->inventory.gpus.v[move->moves.v[i].from],
                               &snapshot->inventory.gpus.v[move->moves.v[i].to]);
}

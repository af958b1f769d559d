/* SPDX-License-Identifier: MIT */
#include "park/peers.h"

#include <errno.h>

bool gf_parking_has(const struct gpufree_parking *parking, const struct gf_ident *id)
{
        for (size_t i = 0; i < parking->items.n; i++)
                if (gf_ident_equal(&parking->items.v[i].id, id))
                        return true;
        return false;
}

bool gf_peer_keeps_handle(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder)
{
        bool handle = false;

        for (size_t i = 0; i < holder->devices.n; i++) {
                int device = holder->devices.v[i].device;

                if (device >= 0 && snapshot->inventory.devices.v[device].cls != GF_CLASS_NVIDIA_CTL)
                        return false;
                handle = true;
        }
        return handle;
}

/* A dma-buf has an inode of its own, the same in every process that has it. */
static bool shares_dmabuf(const struct gpufree_snapshot *snapshot, const struct gpufree_parking *parking, pid_t other)
{
        for (size_t i = 0; i < snapshot->scan.hits.n; i++) {
                const struct gf_hit *mine = &snapshot->scan.hits.v[i];

                if (mine->rdev != 0 || !gf_parking_has(parking, &mine->id))
                        continue;
                for (size_t k = 0; k < snapshot->scan.hits.n; k++) {
                        const struct gf_hit *theirs = &snapshot->scan.hits.v[k];

                        if (theirs->rdev == 0 && theirs->id.pid == other && theirs->node_ino == mine->node_ino)
                                return true;
                }
        }
        return false;
}

/* Of the same job: what works together shares memory more often than not (NCCL, CUDA IPC), and nothing shows it. */
static bool works_with(const struct gpufree_snapshot *snapshot, const struct gpufree_parking *parking,
                       const struct gpufree_holder *other)
{
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                const struct gpufree_holder *holder = &snapshot->holders.v[i];

                if (!gf_parking_has(parking, &holder->id) || holder->facts.uid != other->facts.uid)
                        continue;
                if (holder->facts.ppid > 1 && holder->facts.ppid == other->facts.ppid)
                        return true;
                if (holder->facts.ppid == other->id.pid || other->facts.ppid == holder->id.pid)
                        return true;
        }
        return false;
}

static bool has_context(const struct gpufree_holder *holder)
{
        for (size_t i = 0; i < holder->gpus.n; i++)
                if (holder->gpus.v[i].context)
                        return true;
        return false;
}

int gf_peers_warn(struct gpufree_parking *parking, const struct gpufree_snapshot *snapshot)
{
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                const struct gpufree_holder *other = &snapshot->holders.v[i];
                const char *comm = other->facts.comm ? other->facts.comm : "?";
                int r = 0;

                if (gf_parking_has(parking, &other->id))
                        continue;
                if (shares_dmabuf(snapshot, parking, other->id.pid))
                        r = gf_strv_addf(&parking->sentences,
                                         "%d (%s) shares a dma-buf with what is parked: that memory stays on the GPU "
                                         "while it keeps it",
                                         (int)other->id.pid, comm);
                else if (gf_peer_keeps_handle(snapshot, other))
                        r = gf_strv_addf(&parking->sentences,
                                         "%d (%s) keeps an exported memory handle, of whom is not to be seen: that "
                                         "memory stays on the GPU while it keeps it",
                                         (int)other->id.pid, comm);
                else if (has_context(other) && works_with(snapshot, parking, other))
                        r = gf_strv_addf(
                                &parking->sentences,
                                "%d (%s) is a relative and is not parked: where the two share memory (NCCL, CUDA "
                                "IPC), park them together",
                                (int)other->id.pid, comm);
                if (r < 0)
                        return r;
        }
        return 0;
}

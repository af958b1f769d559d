/* SPDX-License-Identifier: MIT */
#include "model/device.h"

void gf_inventory_done(struct gf_inventory *inventory)
{
        for (size_t i = 0; i < inventory->devices.n; i++)
                free(inventory->devices.v[i].path);
        gf_vec_done(&inventory->devices);
        for (size_t i = 0; i < inventory->gpus.n; i++) {
                struct gpufree_gpu *gpu = &inventory->gpus.v[i];

                free(gpu->uuid);
                free(gpu->pci);
                free(gpu->name);
                free(gpu->error);
        }
        gf_vec_done(&inventory->gpus);
}

const struct gpufree_device *gf_inventory_find(const struct gf_inventory *inventory, dev_t rdev, bool block)
{
        for (size_t i = 0; i < inventory->devices.n; i++)
                if (inventory->devices.v[i].rdev == rdev && inventory->devices.v[i].block == block)
                        return &inventory->devices.v[i];
        return NULL;
}

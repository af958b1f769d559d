/* SPDX-License-Identifier: MIT */
#include "gpu/inventory.h"
#include "model/device.h"

const char *gpufree_device_path(const gpufree_device *device)
{
        return device ? device->path : NULL;
}

dev_t gpufree_device_rdev(const gpufree_device *device)
{
        return device ? device->rdev : 0;
}

bool gpufree_device_is_block(const gpufree_device *device)
{
        return device && device->block;
}

const char *gpufree_device_class(const gpufree_device *device)
{
        return device ? gf_class_name(device->cls) : NULL;
}

int gpufree_device_gpu(const gpufree_device *device)
{
        return device ? device->gpu : -1;
}

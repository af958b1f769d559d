/* SPDX-License-Identifier: MIT */
#include "model/device.h"

int gpufree_gpu_index(const gpufree_gpu *gpu)
{
        return gpu ? gpu->index : -1;
}

int gpufree_gpu_minor(const gpufree_gpu *gpu)
{
        return gpu ? gpu->minor : -1;
}

const char *gpufree_gpu_uuid(const gpufree_gpu *gpu)
{
        return gpu ? gpu->uuid : NULL;
}

const char *gpufree_gpu_pci(const gpufree_gpu *gpu)
{
        return gpu ? gpu->pci : NULL;
}

const char *gpufree_gpu_name(const gpufree_gpu *gpu)
{
        return gpu ? gpu->name : NULL;
}

enum gpufree_vendor gpufree_gpu_vendor(const gpufree_gpu *gpu)
{
        return gpu ? gpu->vendor : GPUFREE_VENDOR_NONE;
}

bool gpufree_gpu_selected(const gpufree_gpu *gpu)
{
        return gpu && gpu->selected;
}

uint64_t gpufree_gpu_memory_total(const gpufree_gpu *gpu)
{
        return gpu ? gpu->memory.total : GPUFREE_UNKNOWN;
}

uint64_t gpufree_gpu_memory_used(const gpufree_gpu *gpu)
{
        return gpu ? gpu->memory.used : GPUFREE_UNKNOWN;
}

uint64_t gpufree_gpu_memory_reserved(const gpufree_gpu *gpu)
{
        return gpu ? gpu->memory.reserved : GPUFREE_UNKNOWN;
}

uint64_t gpufree_gpu_memory_accounted(const gpufree_gpu *gpu)
{
        return gpu ? gpu->accounted : GPUFREE_UNKNOWN;
}

uint64_t gpufree_gpu_memory_unaccounted(const gpufree_gpu *gpu)
{
        return gpu ? gpu->unaccounted : GPUFREE_UNKNOWN;
}

size_t gpufree_gpu_holders(const gpufree_gpu *gpu)
{
        return gpu ? gpu->holders : 0;
}

size_t gpufree_gpu_openers(const gpufree_gpu *gpu)
{
        return gpu ? gpu->openers : 0;
}

const char *gpufree_gpu_error(const gpufree_gpu *gpu)
{
        return gpu ? gpu->error : NULL;
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "model/holder.h"

enum gf_gpu_term_kind {
        GF_GPU_ALL,
        GF_GPU_INDEX, /* first to last, as nvidia-smi counts */
        GF_GPU_UUID,  /* "GPU-…", or as much of it as is unambiguous */
        GF_GPU_PCI,
        GF_GPU_MIG, /* "MIG-…", or as much of it as is unambiguous; "MIG-GPU-…/1/0" of old drivers */
};

struct gf_pci {
        bool any_domain; /* none was given */
        uint32_t domain, bus, device, function;
};

/* One way to name a GPU, as given. */
struct gf_gpu_term {
        enum gf_gpu_term_kind kind;
        char *text;
        uint32_t first, last;
        struct gf_pci pci;
        /* of the old form: the UUID of the GPU behind "MIG-", and the instances; else NULL */
        char *mig_parent;
        uint32_t gpu_instance, compute_instance;
};

int gf_gpu_term_parse(const char *text, struct gf_gpu_term *ret_term, char **ret_error);
void gf_gpu_term_done(struct gf_gpu_term *term);
/* "0000:18:00.0", "00000000:18:00.0", "18:00.0", in either case. */
bool gf_pci_parse(const char *text, struct gf_pci *ret_pci);

/* Does the term name this GPU, or an instance on it? */
bool gf_gpu_term_names(const struct gf_gpu_term *term, const struct gpufree_snapshot *snapshot,
                       const struct gpufree_gpu *gpu);
/* The same for one instance of a GPU: terms of kind GF_GPU_MIG only. */
bool gf_gpu_term_names_instance(const struct gf_gpu_term *term, const struct gf_driver_gpu *gpu, uint32_t gpu_instance,
                                uint32_t compute_instance);

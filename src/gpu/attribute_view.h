/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/holder.h"

/* What attribution knows about a GPU while it works; and small questions about a holder. Pure. */

/* An open device without a context costs up to 3 MiB a process; below this much nothing needs an explanation. */
#define GF_NOISE (32ULL << 20)
/* Descriptors on a GPU's node of a process that uses it: 20 and more seen; 4 of one that only opened it. */
#define GF_STRONG 8

struct gf_view {
        const struct gf_driver_gpu *driver; /* its entry in the report; NULL */
        bool silent;                        /* the driver's lists of it cannot be relied on */
        bool visible;                       /* its node was looked for: who is not among the holders has it not open */
        bool unknown_figure;                /* a listed process's memory is not known */
        bool explained;                     /* a handle or dma-buf explains what the lists do not */
        uint64_t accounted;
};

struct gf_pid_index {
        pid_t pid;
        size_t holder;
};

struct gf_attribution {
        struct gpufree_snapshot *snapshot;
        struct gf_pid_index *by_pid; /* the holders, sorted */
        struct gf_view *views;       /* one a GPU */
        bool uvm_visible;            /* the UVM device was looked for */
        bool all_lists_ok;           /* of every NVIDIA GPU: "not listed" means not listed anywhere */
        bool foreign_pids;           /* the lists' PIDs are those of another PID namespace: they name nobody here */
        size_t nvidia_gpus;
};

/* Does a driver of this version list PIDs as the initial PID namespace numbers them, whoever asks? */
bool gf_driver_numbers_globally(const char *version);

/* Memory of the GPU that nothing accounts for until now; GPUFREE_UNKNOWN. Never below 0. */
uint64_t gf_view_left(const struct gf_attribution *a, size_t gpu);
void gf_view_account(struct gf_view *view, uint64_t bytes);
uint64_t gf_add_memory(uint64_t a, uint64_t b); /* GPUFREE_UNKNOWN when one is, or when the sum is absurd */

struct gpufree_holder *gf_holder_of(const struct gf_attribution *a, pid_t pid); /* NULL */
/* The holder's use of the GPU, or NULL; the same, added. */
struct gf_gpu_use *gf_use_find(struct gpufree_holder *holder, size_t gpu);
struct gf_gpu_use *gf_use_get(struct gpufree_holder *holder, size_t gpu);
bool gf_listed_anywhere(const struct gpufree_holder *holder);
/* Does the driver list its parent on this GPU? A data worker has the descriptors of the process that forked it. */
bool gf_parent_listed(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu);

bool gf_has_class(const struct gf_attribution *a, const struct gpufree_holder *holder, enum gf_class cls);
bool gf_has_node(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu);
/* Descriptors and mappings on the GPU's own node. */
uint64_t gf_node_count(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu);
/* Does it use UVM, or is that not to be seen? */
bool gf_uses_uvm(const struct gf_attribution *a, const struct gpufree_holder *holder);

/* attribute_witness.c: what the driver's structures say of the holder on this GPU. */
enum gpufree_witness gf_witness_says(const struct gf_attribution *a, const struct gpufree_holder *holder, size_t gpu);
/* The GPU of a dma-buf; -1. */
int gf_witness_dmabuf(const struct gf_attribution *a, ino_t ino, uint64_t bytes);
/* Is it known of which GPU the holder's handles are? */
bool gf_witness_has_handle(const struct gf_attribution *a, const struct gpufree_holder *holder);

/* The stages, in order; -ENOMEM. */
int gf_attribute_listed(
        struct gf_attribution *a); /* attribute_listed.c: PIDs of the driver's lists, the dead among them */
int gf_attribute_heirs(struct gf_attribution *a);             /* attribute_listed.c: who keeps the memory of the dead */
int gf_attribute_dmabufs(struct gf_attribution *a);           /* attribute_handles.c */
int gf_attribute_witnessed_handles(struct gf_attribution *a); /* attribute_witness.c */
int gf_note_witnessed(struct gf_attribution *a, size_t gpu);  /* a use for each context that is witnessed */
int gf_attribute_disagreements(struct gf_attribution *a, size_t gpu); /* the last, where the lists are complete */
int gf_attribute_handles(struct gf_attribution *a); /* attribute_handles.c: nvidiactl or UVM without a GPU's node */

/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/str.h"
#include "model/holder.h"

/* Texts that the files of this room share. Pure. */

/* "524 (pt_data_worker, alice, session 3)". */
void gf_word_holder(struct gf_str *text, const struct gpufree_holder *holder);
/* The first few of them, "and 3 more". */
typedef GF_VEC(const struct gpufree_holder *) gf_holder_list;
void gf_word_holders(struct gf_str *text, const gf_holder_list *list);
/* "20.5 GiB"; "?" where it is not known. */
void gf_word_size(struct gf_str *text, uint64_t bytes);
/* "GPU 1". */
void gf_word_gpu(struct gf_str *text, const struct gpufree_gpu *gpu);
/* " --gpu 1", " --gpu 0000:18:00.0"; nothing where it has neither. */
void gf_word_gpu_option(struct gf_str *text, const struct gpufree_gpu *gpu);
/* "12,34,56": every PID. */
void gf_word_pids(struct gf_str *text, const gf_holder_list *list);
/* The use of that GPU, or NULL. */
const struct gf_gpu_use *gf_word_use(const struct gpufree_holder *holder, size_t gpu);
const struct gpufree_holder *gf_word_find(const struct gpufree_snapshot *snapshot, pid_t pid);
int gf_holder_list_add(gf_holder_list *list, const struct gpufree_holder *holder);
/* Does it have a device of this class open? */
bool gf_word_has_class(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder, enum gf_class cls);
/* The text into the list; -ENOMEM. The text is done with either way. */
int gf_word_take(struct gf_str *text, gf_strv *list);

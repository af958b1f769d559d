/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A typed growable array: `GF_VEC(struct gf_hit) hits = { 0 };`. Elements are at .v[0 … .n - 1]. */
#define GF_VEC(T)                                                                                                      \
        struct {                                                                                                       \
                T *v;                                                                                                  \
                size_t n, cap;                                                                                         \
        }

/* Room for one more of `size` bytes; the array (moved perhaps), or NULL: out of memory, the old one untouched. */
void *gf_vec_grow(void *v, size_t *cap, size_t n, size_t size);

/* A new zeroed element at the end, or NULL. */
#define gf_vec_add(vec)                                                                                                \
        __extension__({                                                                                                \
                __typeof__(vec) _vec = (vec);                                                                          \
                __typeof__(_vec->v) _new = NULL, _arr = gf_vec_grow(_vec->v, &_vec->cap, _vec->n, sizeof(*_vec->v));   \
                if (_arr) {                                                                                            \
                        _vec->v = _arr;                                                                                \
                        _new = &_arr[_vec->n++];                                                                       \
                        memset(_new, 0, sizeof(*_new));                                                                \
                }                                                                                                      \
                _new;                                                                                                  \
        })

/* Frees the array, not what its elements own. */
#define gf_vec_done(vec)                                                                                               \
        __extension__({                                                                                                \
                __typeof__(vec) _vec = (vec);                                                                          \
                free(_vec->v);                                                                                         \
                memset(_vec, 0, sizeof(*_vec));                                                                        \
        })

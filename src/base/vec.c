/* SPDX-License-Identifier: MIT */
#include "base/vec.h"

#include <stdint.h>

void *gf_vec_grow(void *v, size_t *cap, size_t n, size_t size)
{
        size_t want;
        void *grown;

        if (n < *cap)
                return v;
        if (n > SIZE_MAX / 2 - 8)
                return NULL;
        want = n ? n * 2 : 8;
        grown = reallocarray(v, want, size);
        if (grown)
                *cap = want;
        return grown;
}

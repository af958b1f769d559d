/* SPDX-License-Identifier: MIT */
/*
 * Older drivers list PIDs as the initial PID namespace numbers them, also inside another one (a container). Such a PID
 * may be that of an innocent process here: the lists are then worth nothing, and the evidence of the scan decides.
 */
#include "gpu/attribute_view.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"

/* The first of each branch that numbers as the asker's namespace does. */
static const struct {
        uint32_t branch, release;
} first_local[] = { { 535, 113 }, { 545, 23 }, { 550, 40 } };

static bool take_number(const char **text, uint32_t *ret)
{
        char digits[12];
        size_t n = strspn(*text, "0123456789");

        if (n == 0 || n >= sizeof(digits))
                return false;
        memcpy(digits, *text, n);
        digits[n] = '\0';
        *text += n;
        return gf_parse_u32(digits, ret) == 0;
}

bool gf_driver_numbers_globally(const char *version)
{
        uint32_t branch, release;

        if (!take_number(&version, &branch) || *version++ != '.' || !take_number(&version, &release))
                return false; /* not a version: taken for a new one, as unknown drivers are */
        for (size_t i = 0; i < ELEMENTSOF(first_local); i++)
                if (branch == first_local[i].branch)
                        return release < first_local[i].release;
        return branch < 550 && branch != 545;
}

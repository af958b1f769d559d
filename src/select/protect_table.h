/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Why a program is not ended unless it is named. One place to add one. */
struct gf_protected_program {
        const char *name;     /* of the executable file; the kernel's comm has 15 characters of it */
        const char *why;      /* part of a sentence: "what it is; what happens without it" */
        bool prefix;          /* the name may go on */
        bool only_while_open; /* not when it holds memory or a context: monitors */
};
extern const struct gf_protected_program gf_protected_programs[];
extern const size_t gf_n_protected_programs;

/* System units with a reason better than that they are system services. */
struct gf_protected_unit {
        const char *name, *why;
};
extern const struct gf_protected_unit gf_protected_units[];
extern const size_t gf_n_protected_units;

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/vec.h"

/* What the NVIDIA driver writes about one GPU in /proc/driver/nvidia/gpus/DDDD:BB:DD.F/information. */
struct gf_nvidia_information {
        char model[96]; /* "" unknown */
        char uuid[96];  /* "" unknown, also while the driver shows question marks */
        char pci[32];   /* as sysfs writes it: "0000:18:00.0" */
        int minor;      /* N of nvidiaN; -1 unknown */
        bool excluded;  /* by the driver's configuration: nobody can use it */
};
/* -EINVAL: there is neither a bus location nor a minor in it. */
int gf_parse_nvidia_information(const char *text, struct gf_nvidia_information *ret);

/* "00000000:3A:00.0", "0:3a:0.0" → "0000:3a:00.0". -EINVAL. */
int gf_parse_pci(const char *text, char *ret_pci, size_t size);

/* The character devices of /proc/devices. */
struct gf_major {
        unsigned major;
        char name[32];
};
struct gf_majors {
        GF_VEC(struct gf_major) list;
        bool known; /* the file could be read: what is not in it has no driver */
};
int gf_parse_char_majors(const char *text, struct gf_majors *ret); /* -ENOMEM */
/* The first driver with this number whose name begins with `prefix`; NULL none. "" is any. */
const struct gf_major *gf_majors_find(const struct gf_majors *majors, unsigned major, const char *prefix);
/* The number of the driver with exactly this name; -1 none. */
int gf_majors_of(const struct gf_majors *majors, const char *name);
void gf_majors_done(struct gf_majors *majors);

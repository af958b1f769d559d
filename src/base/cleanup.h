/* SPDX-License-Identifier: MIT */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Resources end with their scope: `_cleanup_free_ char *name = NULL;`. TAKE() hands one over. */
#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _unused_ __attribute__((unused))
#define _hidden_ __attribute__((visibility("hidden")))

#define ELEMENTSOF(a) (sizeof(a) / sizeof((a)[0]))

#define GF_DEFINE_CLEANUP(type, func)                                                                                  \
        static inline void func##p(type *p)                                                                            \
        {                                                                                                              \
                if (*p)                                                                                                \
                        (void)func(*p);                                                                                \
        }

#define TAKE(p)                                                                                                        \
        __extension__({                                                                                                \
                __typeof__(p) *_src = &(p);                                                                            \
                __typeof__(p) _taken = *_src;                                                                          \
                *_src = NULL;                                                                                          \
                _taken;                                                                                                \
        })

#define TAKE_FD(fd)                                                                                                    \
        __extension__({                                                                                                \
                int *_fdp = &(fd);                                                                                     \
                int _fdv = *_fdp;                                                                                      \
                *_fdp = -1;                                                                                            \
                _fdv;                                                                                                  \
        })

/* Closes and keeps errno: for error paths. Returns -1, so that `fd = gf_close(fd)` reads well. */
static inline int gf_close(int fd)
{
        if (fd >= 0) {
                int saved = errno;
                (void)close(fd);
                errno = saved;
        }
        return -1;
}

static inline void gf_closep(int *fd)
{
        *fd = gf_close(*fd);
}

static inline void gf_freep(void *p)
{
        free(*(void **)p);
}

static inline void gf_fclosep(FILE **f)
{
        if (*f)
                (void)fclose(*f);
}

static inline void gf_closedirp(DIR **d)
{
        if (*d)
                (void)closedir(*d);
}

#define _cleanup_free_ _cleanup_(gf_freep)
#define _cleanup_close_ _cleanup_(gf_closep)
#define _cleanup_fclose_ _cleanup_(gf_fclosep)
#define _cleanup_closedir_ _cleanup_(gf_closedirp)

/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: the ALLOC_FAIL-th allocation of each process fails, once. ALLOC_COUNT names a file that gets the
 * number of allocations of the process that was started first.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_long count, when;
static pid_t first;

__attribute__((constructor)) static void begin(void)
{
        const char *text = getenv("ALLOC_FAIL");

        first = getpid();
        atomic_store(&count, 0);
        atomic_store(&when, text ? strtol(text, NULL, 10) : 0);
}

__attribute__((destructor)) static void end(void)
{
        const char *path = getenv("ALLOC_COUNT");
        int fd;

        if (!path || getpid() != first)
                return;
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0)
                return;
        (void)dprintf(fd, "%ld\n", atomic_load(&count));
        (void)close(fd);
}

static bool fails(void)
{
        long at = atomic_fetch_add(&count, 1) + 1;

        if (atomic_load(&when) <= 0 || at != atomic_load(&when))
                return false;
        errno = ENOMEM;
        return true;
}

void *malloc(size_t size)
{
        return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
        return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
        return fails() ? NULL : __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t n, size_t size)
{
        size_t bytes;

        if (__builtin_mul_overflow(n, size, &bytes)) {
                errno = ENOMEM;
                return NULL;
        }
        return fails() ? NULL : __libc_realloc(old, bytes);
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "owner/places.h"
#include "owner/procs.h"

/* A made tree of runtimes' files, and real processes of the test's own. */

#define ID "3f2a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"
#define UID "2c9f8a79-5391-454b-88cb-86190881cb96"
#define UID_ "2c9f8a79_5391_454b_88cb_86190881cb96"

struct tree {
        char root[64];
        struct gf_env env;
        struct gf_places places;
};

static inline int tree_setup(void **state)
{
        struct tree *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        snprintf(t->root, sizeof(t->root), "/tmp/gpufree-owner-XXXXXX");
        assert_non_null(mkdtemp(t->root));
        assert_int_equal(chmod(t->root, 0755), 0);
        gf_env_init(&t->env);
        assert_int_equal(gf_env_defaults(&t->env), 0);
        t->places.root = t->root;
        *state = t;
        return 0;
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

static inline int tree_teardown(void **state)
{
        struct tree *t = *state;

        (void)nftw(t->root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
        gf_env_done(&t->env);
        free(t);
        return 0;
}

static inline void tree_mkdirs(char *path)
{
        for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
                *p = '\0';
                if (mkdir(path, 0755) < 0)
                        assert_int_equal(errno, EEXIST);
                *p = '/';
        }
}

static inline void tree_put(struct tree *t, const char *path, const char *text)
{
        _cleanup_free_ char *whole = gf_asprintf("%s%s", t->root, path);
        int fd;

        assert_non_null(whole);
        tree_mkdirs(whole);
        fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        assert_int_equal(close(fd), 0);
}

/* A holder of the cgroup `path` on a v2 machine; without processes of its own (PID 0 has no /proc entry). */
static inline void tree_holder(struct gpufree_holder *h, const char *path)
{
        *h = (struct gpufree_holder){ 0 };
        h->facts.login_session = UINT32_MAX;
        h->facts.uid = 1000;
        assert_int_equal(gf_strv_addf(&h->facts.cgroups, "0::%s", path), 0);
}

/* ---- processes ---- */

struct pair {
        pid_t parent, child;
        int pidfd; /* of the parent, which dies with the test; the child dies with the parent */
};

/*
 * A parent called `comm` in directory `cwd` (NULL: any) with a child: /bin/sleep with `environ` (NULL-terminated).
 * Returns once the child has become sleep.
 */
static inline void pair_start(struct pair *p, const char *comm, const char *cwd, char *const *environment)
{
        int fds[2];
        char byte;

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        p->parent = fork();
        assert_true(p->parent >= 0);
        if (p->parent == 0) {
                pid_t child;

                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)prctl(PR_SET_NAME, comm);
                if (cwd && chdir(cwd) < 0)
                        _exit(1);
                child = fork();
                if (child == 0) {
                        char *const argv[] = { (char[]){ "sleep" }, (char[]){ "1000" }, NULL };

                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                        (void)execve("/bin/sleep", argv, environment);
                        _exit(1);
                }
                /* the child's copy of the pipe closes in its exec; ours now, but for the PID */
                if (write(fds[1], &child, sizeof(child)) != sizeof(child))
                        _exit(1);
                (void)close(fds[1]);
                for (;;)
                        (void)pause();
        }
        (void)close(fds[1]);
        assert_int_equal(read(fds[0], &p->child, sizeof(p->child)), sizeof(p->child));
        /* end of file: every writer is gone, so the exec has happened */
        assert_int_equal(read(fds[0], &byte, 1), 0);
        (void)close(fds[0]);
}

static inline void pair_stop(struct pair *p)
{
        int status;

        assert_int_equal(kill(p->parent, SIGKILL), 0);
        assert_int_equal(waitpid(p->parent, &status, 0), p->parent);
}

static inline void pair_holder(struct tree *t, struct gpufree_holder *h, const struct pair *p, const char *path)
{
        struct gf_brief brief;

        tree_holder(h, path);
        assert_int_equal(gf_brief_read(&t->env, p->child, &brief), 0);
        assert_int_equal(brief.ppid, p->parent);
        h->id = brief.id;
        h->facts.ppid = brief.ppid;
        h->facts.uid = brief.uid;
}

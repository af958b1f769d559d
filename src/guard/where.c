/* SPDX-License-Identifier: MIT */
#include "guard/where.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/num.h"
#include "guard/own.h"
#include "sys/pidstat.h"

#define GROUPS 4
#define NAMED 3

/* What a program that hangs hangs in. Not every architecture has all of these calls. */
static const struct {
        long number;
        const char *name;
} calls[] = {
        { SYS_futex, "futex (a lock or another thread)" },
        { SYS_read, "read" },
        { SYS_write, "write" },
        { SYS_recvfrom, "recvfrom (a network or local peer)" },
        { SYS_recvmsg, "recvmsg (a network or local peer)" },
        { SYS_sendto, "sendto" },
        { SYS_accept4, "accept4" },
        { SYS_connect, "connect" },
        { SYS_ioctl, "ioctl (a driver)" },
        { SYS_ppoll, "ppoll" },
        { SYS_pselect6, "pselect6" },
        { SYS_epoll_pwait, "epoll_pwait" },
        { SYS_clock_nanosleep, "clock_nanosleep (it sleeps)" },
        { SYS_nanosleep, "nanosleep (it sleeps)" },
        { SYS_wait4, "wait4 (a child)" },
        { SYS_waitid, "waitid (a child)" },
        { SYS_rt_sigtimedwait, "rt_sigtimedwait (a signal)" },
        { SYS_rt_sigsuspend, "rt_sigsuspend (a signal)" },
        { SYS_fsync, "fsync" },
        { SYS_flock, "flock (a file lock)" },
        { SYS_fcntl, "fcntl" },
        { SYS_openat, "openat" },
#ifdef SYS_poll
        { SYS_poll, "poll" },
        { SYS_select, "select" },
        { SYS_epoll_wait, "epoll_wait" },
        { SYS_accept, "accept" },
        { SYS_pause, "pause (a signal)" },
#endif
};

char *gf_where_describe(char state, const char *syscall, const char *wchan)
{
        size_t n = syscall ? strcspn(syscall, " \n") : 0;
        _cleanup_free_ char *word = n > 0 ? strndup(syscall, n) : NULL;
        uint64_t number;

        if (state == 'T' || state == 't')
                return strdup("stopped");
        if (state == 'R' || (word && strcmp(word, "running") == 0))
                return strdup("running");
        if (word && gf_parse_u64(word, &number) == 0)
                for (size_t i = 0; i < ELEMENTSOF(calls); i++)
                        if (number == (uint64_t)calls[i].number)
                                return strdup(calls[i].name);
        n = wchan ? strcspn(wchan, "\n") : 0;
        if (n > 0 && !(n == 1 && wchan[0] == '0'))
                return gf_asprintf("%.*s", (int)n, wchan);
        if (word && gf_parse_u64(word, &number) == 0)
                return gf_asprintf("system call %s", word);
        return strdup(state == 'D' ? "the kernel, uninterruptible" : "a place that cannot be seen");
}

struct group {
        char *where;
        struct gf_str names;
        size_t n;
};
typedef GF_VEC(struct group) groups;

static int add(struct gf_env *env, const struct gf_own *own, groups *all)
{
        _cleanup_free_ char *comm = NULL, *syscall = NULL, *wchan = NULL, *where = NULL;
        struct group *group = NULL;

        if (own->state == 'Z' || own->state == 'X')
                return 0;
        (void)gf_pid_text(env, own->id.pid, "syscall", &syscall);
        (void)gf_pid_text(env, own->id.pid, "wchan", &wchan);
        (void)gf_pid_text(env, own->id.pid, "comm", &comm);
        where = gf_where_describe(own->state, syscall, wchan);
        if (!where)
                return -ENOMEM;
        if (comm)
                comm[strcspn(comm, "\n")] = '\0';
        for (size_t i = 0; i < all->n && !group; i++)
                if (strcmp(all->v[i].where, where) == 0)
                        group = &all->v[i];
        if (!group) {
                group = gf_vec_add(all);
                if (!group)
                        return -ENOMEM;
                group->where = TAKE(where);
        }
        if (group->n++ < NAMED)
                gf_str_addf(&group->names, "%s%s %d", group->names.n ? ", " : "", comm ? comm : "process",
                            (int)own->id.pid);
        else if (group->n == NAMED + 1)
                gf_str_add(&group->names, ", …");
        return 0;
}

static int compare(const void *a, const void *b)
{
        const struct group *x = a, *y = b;

        return (x->n < y->n) - (x->n > y->n);
}

static int describe(const struct group *group, gf_strv *sentences)
{
        const char *names = group->names.s ? group->names.s : "";

        if (strcmp(group->where, "running") == 0 || strcmp(group->where, "stopped") == 0)
                return gf_strv_addf(sentences, "%zu %s %s (%s)", group->n,
                                    group->n == 1 ? "process is" : "processes are", group->where, names);
        return gf_strv_addf(sentences, "%zu %s in %s: %s", group->n, group->n == 1 ? "process waits" : "processes wait",
                            group->where, names);
}

int gf_where_they_wait(struct gf_env *env, pid_t root, gf_strv *sentences)
{
        gf_owns owns = { 0 };
        groups all = { 0 };
        int r = gf_own_list(env, root, &owns);

        for (size_t i = 0; r == 0 && i < owns.n; i++)
                r = add(env, &owns.v[i], &all);
        if (all.n > 1)
                qsort(all.v, all.n, sizeof(*all.v), compare);
        for (size_t i = 0; r == 0 && i < all.n && i < GROUPS; i++)
                r = describe(&all.v[i], sentences);
        for (size_t i = 0; i < all.n; i++) {
                free(all.v[i].where);
                gf_str_done(&all.v[i].names);
        }
        gf_vec_done(&all);
        gf_owns_done(&owns);
        return r;
}

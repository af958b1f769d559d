/* SPDX-License-Identifier: MIT */
#include "select/select.h"

#include <string.h>

#include "base/num.h"
#include "parse/process.h"
#include "sys/procfs.h"

/* Deeper chains of parents than this do not occur; a loop (PIDs recycled while reading) must end. */
#define ANCESTORS_MAX 1024

void gf_self_done(struct gf_self *self)
{
        gf_vec_done(&self->ancestors);
        *self = (struct gf_self){ 0 };
}

static int read_stat(int procfd, pid_t pid, struct gf_stat *ret)
{
        char path[32], text[GF_STAT_MAX];
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%d/stat", pid);
        n = gf_read_head(procfd, path, text, sizeof(text));
        return n < 0 ? (int)n : gf_parse_stat(text, (size_t)n, ret);
}

static int read_ancestors(int procfd, struct gf_self *self)
{
        pid_t pid = self->pid;
        uint64_t younger = UINT64_MAX;

        for (unsigned i = 0; i < ANCESTORS_MAX && pid > 0; i++) {
                struct gf_ident *id;
                struct gf_stat stat;
                int r;

                r = read_stat(procfd, pid, &stat);
                if (r == -ENOENT || r == -ESRCH || r == -EACCES || r == -EPERM)
                        break; /* reparented meanwhile, or hidden from us */
                if (r < 0)
                        return r;
                /* A parent is older than its child; what is not has got a recycled PID. */
                if (stat.start_ticks > younger)
                        break;
                younger = stat.start_ticks;
                id = gf_vec_add(&self->ancestors);
                if (!id)
                        return -ENOMEM;
                *id = (struct gf_ident){ .pid = pid, .start_ticks = stat.start_ticks };
                if (i == 0)
                        self->session = stat.session;
                pid = stat.ppid;
        }
        return 0;
}

int gf_self_read(struct gf_env *env, struct gf_self *ret_self)
{
        struct gf_self self = { .uid = geteuid(), .login_session = UINT32_MAX };
        _cleanup_close_ int procfd = -1;
        char text[32];
        ssize_t n;
        int r;

        procfd = gf_open_proc(env);
        if (procfd < 0)
                return procfd;
        /* Our PID as this /proc counts: the one that scans meet. */
        n = readlinkat(procfd, "self", text, sizeof(text) - 1);
        if (n < 0)
                return gf_fail(env, -errno, "read %s/self: %s", env->proc_root, strerror(errno));
        text[n] = '\0';
        r = gf_parse_pid(text, &self.pid);
        if (r < 0)
                return gf_fail(env, r, "%s/self: \"%s\" is no PID", env->proc_root, text);
        n = gf_read_head(procfd, "self/sessionid", text, sizeof(text) - 1);
        if (n > 0) {
                text[n] = '\0';
                text[strcspn(text, "\n")] = '\0';
                (void)gf_parse_u32(text, &self.login_session);
        }
        r = read_ancestors(procfd, &self);
        if (r < 0) {
                gf_self_done(&self);
                return gf_fail(env, r, "read the parents of %s/%d: %s", env->proc_root, self.pid, strerror(-r));
        }
        *ret_self = self;
        return 0;
}

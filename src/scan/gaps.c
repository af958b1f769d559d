/* SPDX-License-Identifier: MIT */
#include "scan/scan.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/num.h"
#include "parse/maps.h"
#include "parse/process.h"
#include "parse/text.h"
#include "sys/procfs.h"

/* Inodes of the machine's first namespaces, fixed in the kernel (include/linux/proc_ns.h). */
#define FIRST_USER_NS 0xeffffffdU
#define FIRST_PID_NS 0xeffffffcU

#define MOUNTINFO_MAX (4U * 1024 * 1024)
#define CAP_PTRACE 19

static int namespace_of(int procfd, const char *path, uint64_t *ret_ino)
{
        struct statx sx;
        int r;

        r = gf_statx(procfd, path, AT_STATX_DONT_SYNC, STATX_INO, &sx);
        if (r == 0)
                *ret_ino = sx.stx_ino;
        return r;
}

int gf_initial_pidns(struct gf_env *env)
{
        _cleanup_close_ int procfd = -1;
        uint64_t ino = 0;
        int r;

        procfd = gf_open_proc(env);
        if (procfd < 0)
                return procfd;
        r = namespace_of(procfd, "self/ns/pid", &ino);
        if (r < 0)
                return gf_fail(env, r, "stat %s/self/ns/pid: %s", env->proc_root, strerror(-r));
        if (ino == FIRST_PID_NS)
                return 1;
        /* Also with the /proc of an outer namespace, which shows more: the driver answers for ours alone. */
        return 0;
}

/* May we look at everybody's processes whatever hidepid says? */
static bool sees_all(int procfd)
{
        struct gf_status status;
        char text[4096];
        uint64_t userns = 0;
        ssize_t n;

        n = gf_read_head(procfd, "self/status", text, sizeof(text));
        if (n <= 0)
                return false;
        gf_parse_status(text, (size_t)n, &status);
        return (status.cap_effective & (1ULL << CAP_PTRACE)) && namespace_of(procfd, "self/ns/user", &userns) == 0 &&
               userns == FIRST_USER_NS;
}

static bool in_group(uint32_t gid)
{
        _cleanup_free_ gid_t *groups = NULL;
        int n;

        if (getegid() == gid)
                return true;
        n = getgroups(0, NULL);
        if (n <= 0)
                return false;
        groups = calloc((size_t)n, sizeof(*groups));
        if (!groups)
                return false;
        n = getgroups(n, groups);
        for (int i = 0; i < n; i++)
                if (groups[i] == gid)
                        return true;
        return false;
}

static int find_hidepid(int procfd, enum gf_hidepid *ret_hidepid, uint32_t *ret_gid)
{
        _cleanup_free_ char *text = NULL;
        struct gf_text t, line;
        struct statx sx;
        size_t length;
        int r;

        r = gf_statx(procfd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &sx);
        if (r < 0)
                return r;
        r = gf_read_file(procfd, "self/mountinfo", MOUNTINFO_MAX, &text, &length);
        if (r < 0)
                return r;
        t = (struct gf_text){ text, text + length };
        while (gf_text_line(&t, &line)) {
                struct gf_mount mount;

                if (gf_parse_mountinfo_line(line.p, (size_t)(line.end - line.p), &mount) < 0 ||
                    mount.dev_major != sx.stx_dev_major || mount.dev_minor != sx.stx_dev_minor)
                        continue;
                *ret_hidepid = gf_parse_hidepid(mount.super_options, mount.n_super_options, ret_gid);
                return 0;
        }
        *ret_hidepid = GF_HIDEPID_OFF;
        return 0;
}

int gf_proc_gaps(struct gf_env *env, gf_strv *gaps)
{
        enum gf_hidepid hidepid = GF_HIDEPID_OFF;
        _cleanup_close_ int procfd = -1;
        uint32_t gid = 0;
        int r;

        procfd = gf_open_proc(env);
        if (procfd < 0)
                return procfd;
        r = find_hidepid(procfd, &hidepid, &gid);
        if (r < 0)
                return gf_fail(env, r, "read %s/self/mountinfo: %s", env->proc_root, strerror(-r));
        if (hidepid == GF_HIDEPID_OFF || sees_all(procfd) || (hidepid != GF_HIDEPID_PTRACEABLE && in_group(gid)))
                return 0;
        if (hidepid == GF_HIDEPID_NOACCESS)
                return gf_strv_addf(gaps,
                                    "%s is mounted with hidepid=1: what other users' processes hold is hidden; "
                                    "run as root to see it",
                                    env->proc_root);
        return gf_strv_addf(gaps,
                            "%s is mounted with hidepid=%d: other users' processes are hidden; run as root to "
                            "see them",
                            env->proc_root, hidepid == GF_HIDEPID_INVISIBLE ? 2 : 4);
}

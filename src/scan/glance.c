/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "parse/fdinfo.h"
#include "parse/process.h"
#include "scan/scan.h"
#include "sys/procfs.h"

/* More are for a real look to go through: a glance is for who is about to get away. */
#define MOST_DESCRIPTORS 4096

static bool has(const dev_t *numbers, size_t n, dev_t number)
{
        for (size_t i = 0; i < n; i++)
                if (numbers[i] == number)
                        return true;
        return false;
}

static bool wants(const struct gf_wanted *wanted, const struct statx *sx, struct gf_hit *hit)
{
        hit->rdev = makedev(sx->stx_rdev_major, sx->stx_rdev_minor);
        hit->block = S_ISBLK(sx->stx_mode);
        if (S_ISCHR(sx->stx_mode))
                return has(wanted->chr, wanted->n_chr, hit->rdev);
        return hit->block && has(wanted->blk, wanted->n_blk, hit->rdev);
}

/* Open for neither reading nor writing is O_PATH, or so rare that a real look may tell. */
static bool is_open(int dir, const char *name)
{
        struct statx sx;

        return gf_statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_MODE, &sx) == 0 &&
               (sx.stx_mode & (S_IRUSR | S_IWUSR)) != 0;
}

static int is_that(int process, const struct gf_ident *id)
{
        char text[GF_STAT_MAX];
        struct gf_stat stat;
        ssize_t n = gf_read_head(process, "stat", text, sizeof(text));
        int r;

        if (n < 0)
                return (int)n;
        r = gf_parse_stat(text, (size_t)n, &stat);
        if (r < 0)
                return r;
        return stat.start_ticks == id->start_ticks ? 0 : -ESRCH;
}

int gf_scan_glance(struct gf_env *env, const struct gf_wanted *wanted, const struct gf_ident *id,
                   bool (*counts)(const struct gf_hit *hit, void *userdata), void *userdata)
{
        _cleanup_free_ char *path = gf_asprintf("%s/%d", env->proc_root, (int)id->pid);
        _cleanup_close_ int process = -1, dir = -1;
        _Alignas(8) char buf[4096];
        struct gf_dirwalk walk;
        const char *name;
        uint32_t fd;
        int r;

        if (!path)
                return -ENOMEM;
        /* One directory for both: what is read below is read of the process whose start time was compared. */
        process = gf_open_dir(AT_FDCWD, path);
        if (process < 0)
                return process;
        r = is_that(process, id);
        if (r < 0)
                return r;
        dir = gf_open_dir(process, "fd");
        if (dir < 0)
                return dir;
        gf_dirwalk_init(&walk, dir, buf, sizeof(buf));
        for (unsigned i = 0; i < MOST_DESCRIPTORS && (r = gf_dirwalk_next_number(&walk, &fd, &name)) > 0; i++) {
                struct gf_hit hit = {
                        .id = *id, .tid = id->pid, .via = GPUFREE_VIA_FD, .fd = (int)fd, .bytes = GPUFREE_UNKNOWN
                };
                struct statx sx;

                if (gf_statx(dir, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &sx) == 0 &&
                    wants(wanted, &sx, &hit) && is_open(dir, name) && counts(&hit, userdata))
                        return 1;
        }
        return r < 0 ? r : 0;
}

/* SPDX-License-Identifier: MIT */
#include "scan/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "parse/maps.h"
#include "parse/text.h"

/* PROCMAP_QUERY of <linux/fs.h>, since kernel 6.11; older headers do not have it. */
struct map_query {
        uint64_t size, flags, address;
        uint64_t start, end, vma_flags, page_size, offset, ino;
        uint32_t dev_major, dev_minor, name_size, build_id_size;
        uint64_t name, build_id;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)
#define MAP_QUERY_OR_NEXT 0x10U
#define MAP_QUERY_FILE_BACKED 0x20U

/* One mapping of a file. */
struct map_at {
        int dirfd; /* the directory that has map_files/ */
        int maps;  /* the open maps file, for a name that is not known yet; -1 */
        pid_t tid;
        uint64_t start, end, ino;
        uint32_t dev_major, dev_minor;
        const char *name; /* escaped; NULL: not asked for */
        size_t n_name;
};

/*
 * Files that are known to be nothing wanted, by file system and inode. One slot a hash: what is pushed out is looked
 * at again, no more.
 */
static struct gf_proc_cached *cache_slot(struct gf_proc_worker *w, const struct map_at *at)
{
        uint64_t dev = (uint64_t)at->dev_major << 32 | at->dev_minor;
        uint64_t hash = dev * 0x9e3779b97f4a7c15U ^ at->ino * 0xd6e8feb86659fd93U;

        return &w->cache[(hash >> 40) & (GF_PROC_CACHE - 1)];
}

static bool cached(struct gf_proc_worker *w, const struct map_at *at)
{
        const struct gf_proc_cached *slot = cache_slot(w, at);

        return slot->valid && slot->ino == at->ino && slot->dev == ((uint64_t)at->dev_major << 32 | at->dev_minor);
}

static void cache(struct gf_proc_worker *w, const struct map_at *at)
{
        *cache_slot(w, at) = (struct gf_proc_cached){
                .dev = (uint64_t)at->dev_major << 32 | at->dev_minor,
                .ino = at->ino,
                .valid = true,
        };
}

static bool ring_known(const struct gf_proc_worker *w, uint64_t ino)
{
        for (size_t i = 0; i < w->rings.n; i++)
                if (w->rings.v[i] == ino)
                        return true;
        return false;
}

static void dmabuf(struct gf_proc_worker *w, const struct map_at *at, const struct statx *sx)
{
        struct gf_hit hit = { .tid = at->tid, .via = GPUFREE_VIA_DMABUF, .fd = -1, .bytes = GPUFREE_UNKNOWN };

        if (!w->job->dmabufs)
                return;
        hit.node_dev = makedev(at->dev_major, at->dev_minor);
        hit.node_ino = at->ino;
        if (sx) {
                hit.node_dev = makedev(sx->stx_dev_major, sx->stx_dev_minor);
                hit.node_ino = sx->stx_ino;
        }
        gf_proc_hit(w, &hit);
}

static void anonymous(struct gf_proc_worker *w, const struct map_at *at, const char *link, const struct statx *sx)
{
        char target[64];
        ssize_t n;

        n = readlinkat(at->dirfd, link, target, sizeof(target) - 1);
        if (n <= 0)
                return;
        target[n] = '\0';
        if (gf_startswith(target, "/dmabuf:") || gf_startswith(target, "anon_inode:dmabuf"))
                dmabuf(w, at, sx);
        else if (gf_startswith(target, "anon_inode:[io_uring]") && !ring_known(w, sx->stx_ino))
                gf_proc_note_opaque(w, sx->stx_ino); /* its descriptor is closed: fdinfo cannot be asked */
}

/* Without the right to follow map_files: by the mapping's name. */
static void by_name(struct gf_proc_worker *w, const struct map_at *at)
{
        struct gf_hit hit = { .tid = at->tid, .via = GPUFREE_VIA_MAP, .fd = -1, .bytes = GPUFREE_UNKNOWN };
        char name[4096], path[4096];
        const char *escaped = at->name;
        size_t n = at->n_name;
        int r;

        if (!escaped) {
                struct map_query q = {
                        .size = sizeof(q),
                        .address = at->start,
                        .name = (uintptr_t)name,
                        .name_size = sizeof(name),
                };

                if (ioctl(at->maps, MAP_QUERY, &q) < 0 || q.ino != at->ino)
                        return; /* unmapped meanwhile */
                if (q.name_size == 0)
                        return;
                name[sizeof(name) - 1] = '\0';
                escaped = name;
                n = strlen(name);
        }
        if (!gf_text_unescape(escaped, n, path, sizeof(path)))
                return;
        if (gf_startswith(path, "/dmabuf:")) {
                dmabuf(w, at, NULL);
                return;
        }
        if (gf_startswith(path, "/memfd:") || gf_startswith(path, "/SYSV") || gf_startswith(path, "/dev/shm/") ||
            gf_startswith(path, "/dev/zero (deleted)") || path[0] != '/')
                return;
        r = gf_proc_resolve(w, path, &hit);
        if (r > 0)
                gf_proc_hit(w, &hit);
        else if (r == 0)
                cache(w, at);
        else if (gf_startswith(path, "/dev/") && gf_endswith(path, " (deleted)"))
                gf_proc_note_opaque(w, at->ino);
}

/* 0, or -ENOENT: there is no such mapping any more, in this extent. */
static int mapping(struct gf_proc_worker *w, const struct map_at *at)
{
        struct gf_hit hit = { .tid = at->tid, .via = GPUFREE_VIA_MAP, .fd = -1, .bytes = GPUFREE_UNKNOWN };
        struct statx sx;
        char link[64];
        int r;

        if (cached(w, at))
                return 0;
        if (w->by_path) {
                by_name(w, at);
                return 0;
        }
        (void)snprintf(link, sizeof(link), "map_files/%llx-%llx", (unsigned long long)at->start,
                       (unsigned long long)at->end);
        r = gf_proc_statx(at->dirfd, link, &sx);
        if (r == -EPERM || r == -EACCES) {
                w->by_path = true;
                by_name(w, at);
                return 0;
        }
        if (r == -ENOENT || r == -ESRCH)
                return -ENOENT;
        if (r < 0) {
                gf_proc_refuse(w, r, "map_files");
                return 0;
        }
        if ((sx.stx_mode & S_IFMT) == 0) {
                anonymous(w, at, link, &sx);
                return 0;
        }
        if (!gf_proc_wants(w->job, &sx, &hit.rdev, &hit.block)) {
                /* On btrfs and overlays maps prints numbers that are not unique: don't rely on them there. */
                if (sx.stx_ino == at->ino && sx.stx_dev_major == at->dev_major && sx.stx_dev_minor == at->dev_minor)
                        cache(w, at);
                return 0;
        }
        hit.node_dev = makedev(sx.stx_dev_major, sx.stx_dev_minor);
        hit.node_ino = sx.stx_ino;
        hit.unlinked = sx.stx_nlink == 0 || gf_proc_link_deleted(at->dirfd, link);
        gf_proc_hit(w, &hit);
        return 0;
}

/* 1: it has a map; 0: none; -ENOTTY: this kernel cannot be asked so; -errno. */
static int query(struct gf_proc_worker *w, int dirfd, int maps, pid_t tid)
{
        uint64_t address = 0;
        unsigned again = 0;
        int any = 0;

        for (;;) {
                struct map_query q = {
                        .size = sizeof(q),
                        .flags = MAP_QUERY_OR_NEXT | MAP_QUERY_FILE_BACKED,
                        .address = address,
                };
                struct map_at at = { .dirfd = dirfd, .maps = maps, .tid = tid };

                gf_proc_beat(w);
                if (ioctl(maps, MAP_QUERY, &q) < 0) {
                        if (errno == EINTR)
                                continue;
                        if (errno == ENOENT || errno == ESRCH)
                                return any;
                        return -errno;
                }
                any = 1;
                at.start = q.start;
                at.end = q.end;
                at.ino = q.ino;
                at.dev_major = q.dev_major;
                at.dev_minor = q.dev_minor;
                /* Split or joined between the two calls: look at the same place again. */
                if (mapping(w, &at) == -ENOENT && again++ < 3)
                        continue;
                again = 0;
                if (w->error < 0 || q.end <= address)
                        return any;
                address = q.end;
        }
}

static void text_line(struct gf_proc_worker *w, int dirfd, pid_t tid, const struct gf_text *line)
{
        struct map_at at = { .dirfd = dirfd, .maps = -1, .tid = tid };
        struct gf_map map;

        if (gf_parse_maps_line(line->p, (size_t)(line->end - line->p), &map) < 0)
                return;
        if (map.ino == 0 && map.dev_major == 0 && map.dev_minor == 0)
                return;
        at.start = map.start;
        at.end = map.end;
        at.ino = map.ino;
        at.dev_major = map.dev_major;
        at.dev_minor = map.dev_minor;
        at.name = map.name;
        at.n_name = map.n_name;
        if (mapping(w, &at) == -ENOENT)
                by_name(w, &at);
}

static int text(struct gf_proc_worker *w, int dirfd, int maps, pid_t tid)
{
        size_t have = 0;
        int any = 0;

        for (;;) {
                ssize_t k = read(maps, w->text + have, GF_PROC_BUFFER - have);
                struct gf_text t, line;

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return errno == ESRCH ? any : -errno;
                if (k == 0)
                        return any;
                any = 1;
                have += (size_t)k;
                t = (struct gf_text){ w->text, w->text + have };
                while (memchr(t.p, '\n', (size_t)(t.end - t.p))) {
                        gf_proc_beat(w);
                        (void)gf_text_line(&t, &line);
                        text_line(w, dirfd, tid, &line);
                        if (w->error < 0)
                                return any;
                }
                have = (size_t)(t.end - t.p);
                if (have == GF_PROC_BUFFER)
                        return -EOVERFLOW; /* no line of maps is that long */
                memmove(w->text, t.p, have);
        }
}

int gf_proc_maps(struct gf_proc_worker *w, int dirfd, pid_t tid)
{
        _cleanup_close_ int maps = -1;
        int r = -ENOTTY;

        maps = openat(dirfd, "maps", O_RDONLY | O_CLOEXEC);
        if (maps < 0) {
                if (errno == ESRCH || errno == ENOENT)
                        return 0;
                gf_proc_refuse(w, -errno, "maps");
                return 1;
        }
        if (!atomic_load_explicit(&w->job->no_query, memory_order_relaxed)) {
                r = query(w, dirfd, maps, tid);
                if (r == -ENOTTY || r == -EINVAL || r == -EPERM)
                        atomic_store_explicit(&w->job->no_query, true, memory_order_relaxed);
        }
        if (r == -ENOTTY || r == -EINVAL || r == -EPERM)
                r = text(w, dirfd, maps, tid);
        if (r < 0) {
                gf_proc_refuse(w, r, "maps");
                return 1;
        }
        return r;
}

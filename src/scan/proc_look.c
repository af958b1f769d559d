/* SPDX-License-Identifier: MIT */
#include "scan/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "parse/process.h"

bool gf_proc_wants(const struct gf_proc_job *job, const struct statx *sx, dev_t *ret_rdev, bool *ret_block)
{
        bool block = S_ISBLK(sx->stx_mode);
        const dev_t *set = block ? job->blk : job->chr;
        size_t low = 0, high = block ? job->n_blk : job->n_chr;
        dev_t rdev;

        if (!block && !S_ISCHR(sx->stx_mode))
                return false;
        rdev = makedev(sx->stx_rdev_major, sx->stx_rdev_minor);
        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (set[mid] == rdev) {
                        *ret_rdev = rdev;
                        *ret_block = block;
                        return true;
                }
                if (set[mid] < rdev)
                        low = mid + 1;
                else
                        high = mid;
        }
        return false;
}

void gf_proc_refuse(struct gf_proc_worker *w, int error, const char *what)
{
        if (error == -ENOENT || error == -ESRCH) {
                w->gone = true; /* perhaps: gone_now() looks again */
        } else if (error == -ENOMEM) {
                w->error = error;
        } else if (!w->refused) {
                w->refused = -error;
                w->refused_what = what;
        }
}

static bool new_kind(struct gf_proc_worker *w, const struct gf_hit *hit)
{
        struct gf_proc_kind *kind;

        for (size_t i = 0; i < w->kinds.n; i++)
                if (w->kinds.v[i].via == hit->via && w->kinds.v[i].rdev == hit->rdev &&
                    w->kinds.v[i].block == hit->block)
                        return false;
        kind = gf_vec_add(&w->kinds);
        if (!kind)
                w->error = -ENOMEM;
        else
                *kind = (struct gf_proc_kind){ .via = hit->via, .rdev = hit->rdev, .block = hit->block };
        return true;
}

void gf_proc_hit(struct gf_proc_worker *w, const struct gf_hit *hit)
{
        bool fresh = new_kind(w, hit);
        struct gf_hit *slot;

        if (w->taken >= GF_PROC_HITS_MAX && !fresh)
                return;
        slot = gf_vec_add(&w->hits);
        if (!slot) {
                w->error = -ENOMEM;
                return;
        }
        *slot = *hit;
        w->taken++;
}

void gf_proc_note_opaque(struct gf_proc_worker *w, uint64_t ino)
{
        struct gf_proc_opaque *slot = gf_vec_add(&w->opaque);

        if (!slot)
                w->error = -ENOMEM;
        else
                *slot = (struct gf_proc_opaque){ .pid = w->in_hand, .ino = ino };
}

uint32_t gf_proc_uid(int dirfd, const char *path)
{
        struct gf_status status;
        char text[4096];
        ssize_t n;

        n = gf_read_head(dirfd, path, text, sizeof(text));
        if (n <= 0)
                return UINT32_MAX;
        gf_parse_status(text, (size_t)n, &status);
        return status.euid;
}

static int read_stat(const struct gf_proc_worker *w, struct gf_stat *ret)
{
        char text[GF_STAT_MAX];
        ssize_t n;

        n = gf_read_head(w->dirfd, "stat", text, sizeof(text));
        return n < 0 ? (int)n : gf_parse_stat(text, (size_t)n, ret);
}

static int compare_same(const void *a, const void *b)
{
        const struct gf_hit *x = a, *y = b;

#define BY(field)                                                                                                      \
        if (x->field != y->field)                                                                                      \
        return x->field < y->field ? -1 : 1
        BY(via);
        BY(fd);
        BY(rdev);
        BY(block);
        BY(node_dev);
        BY(node_ino);
        BY(tid);
#undef BY
        return 0;
}

/* One table seen through several threads: each descriptor once. */
static void drop_doubles(struct gf_proc_worker *w)
{
        size_t n = 0;

        if (w->hits.n > 0)
                qsort(w->hits.v, w->hits.n, sizeof(*w->hits.v), compare_same);
        for (size_t i = 0; i < w->hits.n; i++) {
                struct gf_hit *hit = &w->hits.v[i];

                if (n > 0 && hit->fd >= 0) {
                        struct gf_hit last = w->hits.v[n - 1];

                        last.tid = hit->tid;
                        if (compare_same(&last, hit) == 0)
                                continue;
                }
                w->hits.v[n++] = *hit;
        }
        w->hits.n = n;
}

/*
 * The directory descriptor pins the process: whoever gets its PID later is not seen through it. So a start time read
 * through it after the hits is that of the process they were found in.
 */
static void hand_in(struct gf_proc_worker *w)
{
        struct gf_proc_job *job = w->job;
        struct gf_stat stat;
        int r;

        if (w->hits.n == 0)
                return;
        r = read_stat(w, &stat);
        if (r < 0 || gf_stat_dead(&stat)) {
                gf_proc_refuse(w, r < 0 ? r : -ESRCH, "stat");
                w->hits.n = 0;
                return;
        }
        if (w->doubles)
                drop_doubles(w);
        pthread_mutex_lock(&job->lock);
        for (size_t i = 0; i < w->hits.n && !w->left; i++) {
                struct gf_hit *hit = gf_vec_add(&job->scan.hits);

                if (!hit) {
                        w->error = -ENOMEM;
                        break;
                }
                *hit = w->hits.v[i];
                hit->id = (struct gf_ident){ .pid = w->in_hand, .start_ticks = stat.start_ticks };
        }
        pthread_mutex_unlock(&job->lock);
        w->hits.n = 0;
}

static bool thread_lives(const struct gf_proc_worker *w, pid_t tid)
{
        struct statx sx;
        char path[32];

        (void)snprintf(path, sizeof(path), "task/%d", tid);
        return gf_statx(w->dirfd, path, AT_STATX_DONT_SYNC, STATX_TYPE, &sx) == 0;
}

/*
 * Where the table of `tid` belongs in `w->tables`, which is in the kernel's order of them. 1: it is there already, or
 * nothing is to be read; 0: *ret_at is its place; -errno: the kernel does not compare.
 */
static int find_table(struct gf_proc_worker *w, pid_t tid, size_t *ret_at)
{
        size_t low = 0, high = w->tables.n;

        while (low < high) {
                size_t mid = low + (high - low) / 2;
                long c = syscall(SYS_kcmp, tid, w->tables.v[mid], KCMP_FILES, 0UL, 0UL);

                if (c == 0)
                        return 1;
                if (c == 1) {
                        high = mid;
                } else if (c == 2) {
                        low = mid + 1;
                } else if (c < 0 && errno == ESRCH) {
                        if (!thread_lives(w, tid))
                                return 1;
                        /* The other has ended; its table may live on in others and be read again. */
                        w->doubles = true;
                        w->tables.n--;
                        memmove(&w->tables.v[mid], &w->tables.v[mid + 1], (w->tables.n - mid) * sizeof(*w->tables.v));
                        low = 0;
                        high = w->tables.n;
                } else {
                        return c < 0 ? -errno : -EOPNOTSUPP;
                }
        }
        *ret_at = low;
        return 0;
}

/* Is the table of `tid` one that was read already? */
static bool known_table(struct gf_proc_worker *w, pid_t tid)
{
        size_t at = 0;
        int r;

        if (!w->job->kcmp || w->all_tables)
                return false;
        r = find_table(w, tid, &at);
        if (r > 0)
                return true;
        if (r < 0) {
                w->all_tables = w->doubles = true;
                return false;
        }
        if (!gf_vec_add(&w->tables)) {
                w->error = -ENOMEM;
                return false;
        }
        memmove(&w->tables.v[at + 1], &w->tables.v[at], (w->tables.n - 1 - at) * sizeof(*w->tables.v));
        w->tables.v[at] = tid;
        return false;
}

static uint64_t count_threads(const struct gf_proc_worker *w)
{
        struct statx sx;

        if (!w->job->links_count || gf_statx(w->dirfd, "task", AT_STATX_DONT_SYNC, STATX_NLINK, &sx) < 0 ||
            sx.stx_nlink < 3)
                return 0;
        return sx.stx_nlink - 2;
}

/* Calls `each` for every thread until it says stop (false). */
static void walk_threads(struct gf_proc_worker *w, bool (*each)(struct gf_proc_worker *w, pid_t tid))
{
        _cleanup_close_ int dir = -1;
        struct gf_dirwalk walk;
        uint32_t tid;
        int r;

        dir = gf_open_dir(w->dirfd, "task");
        if (dir < 0) {
                gf_proc_refuse(w, dir, "task");
                return;
        }
        gf_dirwalk_init(&walk, dir, w->tasks, GF_PROC_BUFFER);
        while ((r = gf_dirwalk_next_number(&walk, &tid, NULL)) > 0) {
                gf_proc_beat(w);
                if (w->error < 0 || !each(w, (pid_t)tid))
                        return;
        }
        if (r < 0)
                gf_proc_refuse(w, r, "task");
}

static bool thread_table(struct gf_proc_worker *w, pid_t tid)
{
        char prefix[32];

        w->threads++;
        if (known_table(w, tid))
                return true;
        (void)snprintf(prefix, sizeof(prefix), "task/%d/", tid);
        gf_proc_table(w, prefix, tid);
        return true;
}

/*
 * The memory map through another thread: that of a zombie leader is empty. /proc/TID is there although /proc does not
 * list it, and has the map_files/ that task/TID has not.
 */
static bool thread_maps(struct gf_proc_worker *w, pid_t tid)
{
        _cleanup_close_ int dir = -1;
        struct statx sx;
        char path[32];

        if (tid == w->in_hand)
                return true;
        (void)snprintf(path, sizeof(path), "%d", tid);
        dir = openat(w->job->procfd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return true;
        /* Still a thread of this process: then what was opened is that thread. */
        (void)snprintf(path, sizeof(path), "task/%d", tid);
        if (gf_statx(w->dirfd, path, AT_STATX_DONT_SYNC, STATX_TYPE, &sx) < 0)
                return true;
        return gf_proc_maps(w, dir, tid) == 0;
}

static void tables(struct gf_proc_worker *w)
{
        uint64_t threads = count_threads(w);

        if (threads == 1) {
                w->threads = 1;
                gf_proc_table(w, "", w->in_hand);
                return;
        }
        walk_threads(w, thread_table);
}

static void begin(struct gf_proc_worker *w, pid_t pid)
{
        w->in_hand = pid;
        w->rootfd = -1;
        w->gone = w->by_path = w->all_tables = false;
        w->doubles = !w->job->kcmp;
        w->refused = 0;
        w->refused_what = NULL;
        w->threads = w->taken = 0;
        w->hits.n = w->kinds.n = w->rings.n = w->opaque.n = w->tables.n = 0;
        gf_proc_beat(w);
        atomic_store(&w->doing, "fd");
        atomic_store(&w->pid, pid);
}

/* Sorts out who has ended and who has nothing to look at from those that were closed to us. */
static void settle_refusal(struct gf_proc_worker *w)
{
        struct gf_stat stat;
        int r;

        if (!w->refused && !w->gone)
                return;
        r = read_stat(w, &stat);
        w->gone = r == -ENOENT || r == -ESRCH || (r == 0 && gf_stat_dead(&stat) && !gf_stat_kernel_thread(&stat));
        if (w->gone || (r == 0 && gf_stat_kernel_thread(&stat)))
                w->refused = 0;
}

static int finish_locked(struct gf_proc_worker *w, uint32_t uid)
{
        struct gf_scan *scan = &w->job->scan;

        if (w->gone) {
                scan->vanished++;
                scan->slipped += w->hits.n > 0;
                return 0;
        }
        scan->processes++;
        scan->threads += w->threads;
        if (w->refused) {
                struct gf_refused *refused = gf_vec_add(&scan->refused);

                if (!refused)
                        return -ENOMEM;
                *refused = (struct gf_refused){
                        .pid = w->in_hand,
                        .uid = uid,
                        .why = w->refused == EACCES || w->refused == EPERM ? GF_REFUSED_PERMISSION : GF_REFUSED_IO,
                        .error = w->refused,
                        .what = w->refused_what,
                };
        }
        for (size_t i = 0; i < w->opaque.n; i++) {
                struct gf_proc_opaque *opaque = gf_vec_add(&w->job->opaque);

                if (!opaque)
                        return -ENOMEM;
                *opaque = w->opaque.v[i];
        }
        return 0;
}

static void finish(struct gf_proc_worker *w)
{
        uint32_t uid = UINT32_MAX;
        int r = w->error;

        if (w->refused)
                uid = gf_proc_uid(w->dirfd, "status");
        pthread_mutex_lock(&w->job->lock);
        if (!w->left) {
                if (r == 0)
                        r = finish_locked(w, uid);
                if (r < 0 && w->job->error == 0)
                        w->job->error = r;
        }
        pthread_mutex_unlock(&w->job->lock);
}

void gf_proc_look(struct gf_proc_worker *w, pid_t pid)
{
        char name[16];

        begin(w, pid);
        (void)snprintf(name, sizeof(name), "%d", pid);
        w->dirfd = openat(w->job->procfd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (w->dirfd < 0) {
                gf_proc_refuse(w, -errno, "process");
        } else {
                tables(w);
                /* Before the map: a driver that hangs may hold its lock, and what is found must not wait for it. */
                hand_in(w);
                atomic_store(&w->doing, "maps");
                if (gf_proc_maps(w, w->dirfd, pid) == 0 && w->threads > 1)
                        walk_threads(w, thread_maps);
                hand_in(w);
                settle_refusal(w);
        }
        finish(w);
        atomic_store(&w->pid, 0);
        w->rootfd = gf_close(w->rootfd);
        w->dirfd = gf_close(w->dirfd);
}

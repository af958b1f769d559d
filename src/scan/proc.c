/* SPDX-License-Identifier: MIT */
#include "scan/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "scan/dmabuf.h"
#include "scan/proc.h"
#include "sys/aside.h"
#include "sys/clock.h"

#define PID_LIMIT (4U * 1024 * 1024) /* the kernel's */
#define ROUNDS_MAX 3U                /* looks for processes that came during the scan */
#define WORKERS_MIN 2U
#define WORKERS_MAX 8U
#define TICK_MS 250U
/* A worker that has not moved for so many ticks is left behind; each one left shortens the next wait. */
#define STILL_TICKS 12U
#define STILL_TICKS_MIN 2U

static void job_unref(struct gf_proc_job *job)
{
        bool last;

        pthread_mutex_lock(&job->lock);
        last = --job->refs == 0;
        pthread_mutex_unlock(&job->lock);
        if (!last)
                return;
        (void)gf_close(job->procfd);
        (void)gf_close(job->rootfd);
        free(job->root);
        free(job->chr);
        free(job->blk);
        free(job->only);
        free(job->skip);
        free(job->walk_buffer);
        free(job->seen);
        gf_scan_done(&job->scan);
        gf_vec_done(&job->opaque);
        (void)pthread_cond_destroy(&job->changed);
        (void)pthread_mutex_destroy(&job->lock);
        free(job);
}

/* A copy that a worker which is left behind can go on reading. An empty list that is there stays one. */
static int copy(const void *from, size_t n, size_t size, void **ret)
{
        *ret = NULL;
        if (!from)
                return 0;
        *ret = calloc(n + 1, size);
        if (!*ret)
                return -ENOMEM;
        if (n > 0)
                memcpy(*ret, from, n * size);
        return 0;
}

static int copy_wanted(struct gf_proc_job *job, const struct gf_wanted *wanted)
{
        void *chr = NULL, *blk = NULL, *only = NULL, *skip = NULL;
        int r = 0;

        r = r < 0 ? r : copy(wanted->chr, wanted->n_chr, sizeof(dev_t), &chr);
        r = r < 0 ? r : copy(wanted->blk, wanted->n_blk, sizeof(dev_t), &blk);
        r = r < 0 ? r : copy(wanted->only, wanted->n_only, sizeof(pid_t), &only);
        r = r < 0 ? r : copy(wanted->skip, wanted->n_skip, sizeof(pid_t), &skip);
        job->chr = chr;
        job->blk = blk;
        job->only = only;
        job->skip = skip;
        job->n_chr = chr ? wanted->n_chr : 0;
        job->n_blk = blk ? wanted->n_blk : 0;
        job->n_only = only ? wanted->n_only : 0;
        job->n_skip = skip ? wanted->n_skip : 0;
        job->dmabufs = wanted->dmabufs;
        return r;
}

/*
 * Most anonymous files (events, timers, epoll) share one inode. Since Linux 5.16 an io_uring has one of its own, and a
 * dma-buf a file system of its own: what has the shared inode needs no second look then.
 */
static void learn_anonymous(struct gf_proc_job *job)
{
        _cleanup_close_ int fd = -1;
        unsigned version, part;
        struct utsname u;
        struct statx sx;

        if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &version, &part) != 2 || version < 5 ||
            (version == 5 && part < 16))
                return;
        fd = eventfd(0, EFD_CLOEXEC);
        if (fd < 0 || gf_statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &sx) < 0 ||
            (sx.stx_mode & S_IFMT) != 0)
                return;
        job->anon_major = sx.stx_dev_major;
        job->anon_minor = sx.stx_dev_minor;
        job->anon_ino = sx.stx_ino;
        job->anon_known = true;
}

/* What this /proc can be trusted with, tried on ourselves. */
static void try_proc(struct gf_proc_job *job)
{
        _cleanup_close_ int task = -1;
        struct gf_dirwalk walk;
        struct statx sx;
        char self[32];
        uint32_t tid;
        ssize_t n;
        pid_t pid;
        uint64_t threads = 0;

        n = readlinkat(job->procfd, "self", self, sizeof(self) - 1);
        if (n > 0) {
                self[n] = '\0';
                job->kcmp = gf_parse_pid(self, &pid) == 0 && pid == getpid();
        }
        task = gf_open_dir(job->procfd, "self/task");
        if (task < 0)
                return;
        gf_dirwalk_init(&walk, task, job->walk_buffer, GF_PROC_BUFFER);
        while (gf_dirwalk_next_number(&walk, &tid, NULL) > 0)
                threads++;
        job->links_count = gf_statx(job->procfd, "self/task", AT_STATX_DONT_SYNC, STATX_NLINK, &sx) == 0 &&
                           sx.stx_nlink == threads + 2;
}

static int job_new(struct gf_env *env, const struct gf_wanted *wanted, struct gf_proc_job **ret_job)
{
        struct gf_proc_job *job = calloc(1, sizeof(*job));
        int r;

        if (!job)
                return -ENOMEM;
        job->procfd = job->rootfd = -1;
        job->refs = 1;
        job->cancel_fd = env->cancel_fd;
        (void)pthread_mutex_init(&job->lock, NULL);
        (void)pthread_cond_init(&job->changed, NULL);
        job->scan.method = GPUFREE_SCAN_PROC;
        job->walk_buffer = malloc(GF_PROC_BUFFER);
        job->seen = calloc(PID_LIMIT / 8, 1);
        job->root = strdup(env->proc_root);
        r = job->walk_buffer && job->seen && job->root ? copy_wanted(job, wanted) : -ENOMEM;
        if (r == 0) {
                r = gf_open_proc(env);
                job->procfd = r < 0 ? -1 : r;
        }
        if (r < 0) {
                job_unref(job);
                return r;
        }
        job->rootfd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        try_proc(job);
        learn_anonymous(job);
        gf_dirwalk_init(&job->walk, job->procfd, job->walk_buffer, GF_PROC_BUFFER);
        *ret_job = job;
        return 0;
}

static bool cancelled(const struct gf_proc_job *job)
{
        struct pollfd p = { .fd = job->cancel_fd, .events = POLLIN };

        return job->cancel_fd >= 0 && poll(&p, 1, 0) > 0;
}

static bool skipped(const struct gf_proc_job *job, pid_t pid)
{
        for (size_t i = 0; i < job->n_skip; i++)
                if (job->skip[i] == pid)
                        return true;
        return false;
}

/* The next PID of /proc that was not handed out before; 0: none. */
static pid_t next_listed(struct gf_proc_job *job)
{
        for (;;) {
                uint32_t n;
                int r = gf_dirwalk_next_number(&job->walk, &n, NULL);

                if (r < 0) {
                        job->error = r;
                        return 0;
                }
                if (r == 0) {
                        /*
                         * The last worker looks again for those that came meanwhile: the successor of a process that
                         * forked and exited may have got a PID that was passed already.
                         */
                        if (job->running > 1 || job->round >= ROUNDS_MAX || (job->round > 0 && job->round_found == 0))
                                return 0;
                        job->round++;
                        job->round_found = 0;
                        if (lseek(job->procfd, 0, SEEK_SET) < 0)
                                return 0;
                        gf_dirwalk_init(&job->walk, job->procfd, job->walk_buffer, GF_PROC_BUFFER);
                        continue;
                }
                if (n == 0 || n >= PID_LIMIT || (job->seen[n / 8] & (1U << n % 8)) || skipped(job, (pid_t)n))
                        continue;
                job->seen[n / 8] = (unsigned char)(job->seen[n / 8] | 1U << n % 8);
                job->round_found++;
                return (pid_t)n;
        }
}

/* 0: nothing is left to do; the worker is counted as finished then. */
static pid_t next_pid(struct gf_proc_worker *w)
{
        struct gf_proc_job *job = w->job;
        pid_t pid = 0;

        pthread_mutex_lock(&job->lock);
        if (!w->left) {
                if (job->error == 0 && cancelled(job))
                        job->error = -ECANCELED;
                if (job->error == 0 && !job->only)
                        pid = next_listed(job);
                while (job->error == 0 && job->only && pid == 0 && job->next_only < job->n_only) {
                        pid = job->only[job->next_only++];
                        if (skipped(job, pid))
                                pid = 0;
                }
                if (pid == 0) {
                        w->finished = true;
                        job->running--;
                        pthread_cond_signal(&job->changed);
                }
        }
        pthread_mutex_unlock(&job->lock);
        return pid;
}

static void worker_free(struct gf_proc_worker *w)
{
        if (!w)
                return;
        free(w->names);
        free(w->tasks);
        free(w->text);
        free(w->cache);
        gf_vec_done(&w->hits);
        gf_vec_done(&w->kinds);
        gf_vec_done(&w->rings);
        gf_vec_done(&w->opaque);
        gf_vec_done(&w->tables);
        free(w);
}

static void *worker_main(void *userdata)
{
        struct gf_proc_worker *w = userdata;
        struct gf_proc_job *job = w->job;
        bool left;
        pid_t pid;

        while ((pid = next_pid(w)) > 0)
                gf_proc_look(w, pid);
        pthread_mutex_lock(&job->lock);
        left = w->left;
        pthread_mutex_unlock(&job->lock);
        if (left) {
                worker_free(w);
                job_unref(job);
        }
        return NULL;
}

static struct gf_proc_worker *worker_new(struct gf_proc_job *job)
{
        struct gf_proc_worker *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        w->job = job;
        w->dirfd = w->rootfd = -1;
        w->names = malloc(GF_PROC_BUFFER);
        w->tasks = malloc(GF_PROC_BUFFER);
        w->text = malloc(GF_PROC_BUFFER);
        w->cache = calloc(GF_PROC_CACHE, sizeof(*w->cache));
        if (!w->names || !w->tasks || !w->text || !w->cache) {
                worker_free(w);
                return NULL;
        }
        return w;
}

/* The crew of one scan. */
struct crew {
        struct gf_proc_job *job;
        GF_VEC(struct gf_proc_worker *) workers;
};

/* Under the job's lock. */
static int hire(struct crew *crew)
{
        struct gf_proc_worker *w, **slot;
        int r;

        slot = gf_vec_add(&crew->workers);
        if (!slot)
                return -ENOMEM;
        w = worker_new(crew->job);
        if (!w) {
                crew->workers.n--;
                return -ENOMEM;
        }
        r = gf_thread_start(&w->thread, worker_main, w);
        if (r < 0) {
                crew->workers.n--;
                worker_free(w);
                return r;
        }
        *slot = w;
        crew->job->running++;
        return 0;
}

/* Under the job's lock: gives up on what the kernel holds up. */
static void leave(struct crew *crew, size_t i)
{
        struct gf_proc_worker *w = crew->workers.v[i];
        struct gf_proc_job *job = crew->job;
        struct gf_refused *refused;
        pid_t pid = atomic_load(&w->pid);
        char path[32];

        w->left = true;
        crew->workers.v[i] = NULL;
        job->refs++; /* the worker's own */
        job->running--;
        job->left++;
        (void)pthread_detach(w->thread);
        if (pid > 0) {
                (void)snprintf(path, sizeof(path), "%d/status", pid);
                refused = gf_vec_add(&job->scan.refused);
                if (!refused) {
                        job->error = -ENOMEM;
                        return;
                }
                *refused = (struct gf_refused){
                        .pid = pid,
                        .uid = gf_proc_uid(job->procfd, path),
                        .why = GF_REFUSED_IO,
                        .error = ETIMEDOUT,
                        .what = atomic_load(&w->doing),
                };
                job->scan.processes++;
        }
        if (job->error == 0) {
                int r = hire(crew);

                if (r < 0 && job->running == 0)
                        job->error = r; /* nobody is left to finish the work */
        }
}

/*
 * Under the job's lock: waits for the workers. Time is counted in ticks, so that a program that was stopped for a while
 * does not take its own absence for theirs.
 */
static void watch(struct crew *crew)
{
        struct gf_proc_job *job = crew->job;

        while (job->running > 0) {
                struct timespec until;
                unsigned limit;

                (void)clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_nsec += (long)TICK_MS * 1000000;
                if (until.tv_nsec >= 1000000000) {
                        until.tv_sec++;
                        until.tv_nsec -= 1000000000;
                }
                if (pthread_cond_clockwait(&job->changed, &job->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
                        continue;
                if (job->error == 0 && cancelled(job))
                        job->error = -ECANCELED;
                limit = job->error < 0 || job->left > 2 ? STILL_TICKS_MIN : STILL_TICKS >> job->left;
                for (size_t i = 0; i < crew->workers.n; i++) {
                        struct gf_proc_worker *w = crew->workers.v[i];
                        uint64_t beats;

                        if (!w || w->finished)
                                continue;
                        beats = atomic_load(&w->beats);
                        w->still = beats == w->seen_beats ? w->still + 1 : 0;
                        w->seen_beats = beats;
                        if (w->still >= limit)
                                leave(crew, i);
                }
        }
}

static unsigned crew_size(void)
{
        cpu_set_t set;
        int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

        if (n < (int)WORKERS_MIN)
                return WORKERS_MIN;
        return n > (int)WORKERS_MAX ? WORKERS_MAX : (unsigned)n;
}

static int work(struct gf_proc_job *job)
{
        struct crew crew = { .job = job };
        struct gf_proc_worker *alone = NULL;
        int r = 0;

        pthread_mutex_lock(&job->lock);
        for (unsigned i = 0, n = crew_size(); i < n && r == 0; i++)
                r = hire(&crew);
        if (job->running > 0) {
                watch(&crew);
        } else {
                /* No thread may be started (a limit on processes, full): do it ourselves. */
                alone = worker_new(job);
                job->running = alone ? 1 : 0;
        }
        pthread_mutex_unlock(&job->lock);
        if (alone)
                (void)worker_main(alone);
        else if (crew.workers.n == 0)
                job->error = -ENOMEM;
        worker_free(alone);
        for (size_t i = 0; i < crew.workers.n; i++) {
                if (!crew.workers.v[i])
                        continue;
                (void)pthread_join(crew.workers.v[i]->thread, NULL);
                worker_free(crew.workers.v[i]);
        }
        gf_vec_done(&crew.workers);
        pthread_mutex_lock(&job->lock);
        r = job->error;
        pthread_mutex_unlock(&job->lock);
        return r;
}

int gf_scan_proc(struct gf_env *env, const struct gf_wanted *wanted, struct gf_scan *ret_scan)
{
        uint64_t began = gf_now_us();
        struct gf_proc_job *job = NULL;
        int r;

        r = job_new(env, wanted, &job);
        if (r == 0)
                r = work(job);
        if (r == 0)
                r = gf_proc_sort(job);
        if (r == 0) {
                *ret_scan = job->scan;
                job->scan = (struct gf_scan){ 0 };
                ret_scan->elapsed_us = gf_now_us() - began;
        }
        if (job)
                job_unref(job);
        if (r == -ECANCELED)
                return gf_fail(env, r, "the scan of %s was cancelled", env->proc_root);
        if (r == -ENOMEM)
                return gf_fail(env, r, "scan %s: not enough memory", env->proc_root);
        if (r < 0 && job)
                return gf_fail(env, r, "scan %s: %s", env->proc_root, strerror(-r));
        return r;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "explain/story.h"
#include "owner/owner.h"
#include "parse/process.h"
#include "scan/scan.h"
#include "sys/aside.h"
#include "sys/pidstat.h"
#include "sys/procfs.h"

#define READ_MS 3000
#define MOST_THREADS 20000
#define STACK_MAX 4096

/* Belongs to the reading thread once that is late. */
struct box {
        char *path; /* /proc/PID/task */
        int error;
        struct gf_story_threads threads;
};

void gf_story_threads_done(struct gf_story_threads *threads)
{
        for (size_t i = 0; i < threads->list.n; i++)
                free(threads->list.v[i].stack);
        gf_vec_done(&threads->list);
        *threads = (struct gf_story_threads){ 0 };
}

static void box_free(void *userdata)
{
        struct box *box = userdata;

        free(box->path);
        gf_story_threads_done(&box->threads);
        free(box);
}

/* Signals of the thread, and those of the process, which every thread shows. */
static void read_pending(int dirfd, const char *tid, uint64_t *pending)
{
        char path[64], text[8192];
        struct gf_status status;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%s/status", tid);
        n = gf_read_head(dirfd, path, text, sizeof(text));
        if (n <= 0)
                return;
        gf_parse_status(text, (size_t)n, &status);
        *pending = (*pending == GPUFREE_UNKNOWN ? 0 : *pending) | status.sig_pending | status.shared_pending;
}

static void read_wchan(int dirfd, const char *tid, char *buf, size_t size)
{
        char path[64];
        ssize_t n;

        buf[0] = '\0';
        (void)snprintf(path, sizeof(path), "%s/wchan", tid);
        n = gf_read_head(dirfd, path, buf, size - 1);
        buf[n > 0 ? n : 0] = '\0';
        buf[strcspn(buf, "\n")] = '\0';
        if (strcmp(buf, "0") == 0)
                buf[0] = '\0';
}

/* "[<0>] futex_wait_queue+0x60/0x90": the functions alone, innermost first, with " < " between. */
static char *read_stack(int dirfd, const char *tid, bool *ret_refused)
{
        char path[64], text[STACK_MAX];
        struct gf_str out = { 0 };
        char *taken = NULL;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%s/stack", tid);
        n = gf_read_head(dirfd, path, text, sizeof(text) - 1);
        if (n == -EACCES || n == -EPERM)
                *ret_refused = true;
        if (n <= 0)
                return NULL;
        text[n] = '\0';
        for (char *at = text, *save = NULL, *line; (line = strtok_r(at, "\n", &save)) != NULL; at = NULL) {
                const char *name = strchr(line, ' ');

                name = name ? name + 1 : line;
                gf_str_addf(&out, "%s%.*s", out.n > 0 ? " < " : "", (int)strcspn(name, "+ "), name);
        }
        return gf_str_take(&out, &taken) < 0 ? NULL : taken;
}

static int read_thread(struct gf_story_threads *threads, int dirfd, const char *name, pid_t tid, bool leader)
{
        struct gf_story_thread *thread;
        char path[64], text[GF_STAT_MAX];
        struct gf_stat stat;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%s/stat", name);
        n = gf_read_head(dirfd, path, text, sizeof(text));
        if (n < 0 || gf_parse_stat(text, (size_t)n, &stat) < 0)
                return 0; /* it has ended */
        threads->n++;
        threads->states[(unsigned char)stat.state & 127]++;
        read_pending(dirfd, name, &threads->pending);
        /* Those stuck in the kernel are wanted above all. */
        if (threads->list.n >= GF_STORY_THREADS / 2 && stat.state != 'D')
                return 0;
        if (threads->list.n >= GF_STORY_THREADS)
                return 0;
        thread = gf_vec_add(&threads->list);
        if (!thread)
                return -ENOMEM;
        thread->tid = tid;
        thread->state = stat.state;
        read_wchan(dirfd, name, thread->wchan, sizeof(thread->wchan));
        if (leader || stat.state == 'D')
                thread->stack = read_stack(dirfd, name, &threads->stacks_refused);
        return 0;
}

static void read_threads(void *userdata)
{
        struct box *box = userdata;
        _cleanup_close_ int dirfd = gf_open_dir(AT_FDCWD, box->path);
        struct gf_dirwalk walk;
        char buf[4096];
        const char *name;
        uint32_t tid;
        int r;

        box->threads.pending = GPUFREE_UNKNOWN;
        if (dirfd < 0) {
                box->error = dirfd;
                return;
        }
        gf_dirwalk_init(&walk, dirfd, buf, sizeof(buf));
        while ((r = gf_dirwalk_next_number(&walk, &tid, &name)) == 1) {
                char own[16];

                (void)snprintf(own, sizeof(own), "%u", tid); /* the name is the walk's */
                r = read_thread(&box->threads, dirfd, own, (pid_t)tid, box->threads.n == 0);
                if (r < 0 || box->threads.n >= MOST_THREADS)
                        break;
        }
        box->error = r < 0 ? r : 0;
}

int gf_story_threads_read(struct gf_env *env, pid_t pid, struct gf_story_threads *ret_threads)
{
        struct box *box = calloc(1, sizeof(*box));
        int r;

        if (!box)
                return -ENOMEM;
        box->path = gf_asprintf("%s/%d/task", env->proc_root, (int)pid);
        if (!box->path) {
                box_free(box);
                return -ENOMEM;
        }
        r = gf_aside(read_threads, box_free, box, READ_MS);
        if (r == -ETIMEDOUT) {
                *ret_threads = (struct gf_story_threads){ .pending = GPUFREE_UNKNOWN, .incomplete = true };
                return 0;
        }
        if (r >= 0)
                r = box->error == -ENOENT ? -ESRCH : box->error;
        if (r >= 0) {
                *ret_threads = box->threads;
                box->threads = (struct gf_story_threads){ 0 };
        }
        box_free(box);
        return r;
}

struct children {
        struct gf_env *env;
        struct gpufree_story *story;
        pid_t parent;
};

static int add_child(pid_t pid, void *userdata)
{
        struct children *c = userdata;
        struct gf_pidstat stat;
        pid_t *slot;

        if (gf_pidstat_read(c->env, pid, &stat) < 0 || stat.ppid != c->parent)
                return 0;
        c->story->n_children++;
        if (c->story->children.n >= GF_STORY_CHILDREN)
                return 0;
        slot = gf_vec_add(&c->story->children);
        if (!slot)
                return -ENOMEM;
        *slot = pid;
        return 0;
}

static const struct gpufree_holder *holder_of(const struct gpufree_snapshot *snapshot, const struct gf_ident *id)
{
        for (size_t i = 0; i < snapshot->holders.n; i++)
                if (gf_ident_equal(&snapshot->holders.v[i].id, id))
                        return &snapshot->holders.v[i];
        return NULL;
}

/* It holds nothing: who it is, all the same. */
static int describe(struct gf_env *env, const struct gf_ident *id, struct gpufree_story *story)
{
        int r;

        story->own = calloc(1, sizeof(*story->own));
        if (!story->own)
                return -ENOMEM;
        story->own->id = *id;
        story->process = story->own;
        r = gf_facts_read(env, id, &story->own->facts);
        if (r >= 0)
                r = gf_owner_read(env, story->own);
        return r;
}

static int read_all(struct gf_env *env, pid_t pid, struct gpufree_story *story)
{
        struct children children = { env, story, pid };
        struct gf_pidstat stat;
        struct gf_ident id;
        int r;

        r = gf_pidstat_read(env, pid, &stat);
        if (r < 0)
                return r == -ENOENT ? -ESRCH : r;
        id = (struct gf_ident){ pid, stat.start_ticks };
        story->process = holder_of(story->snapshot, &id);
        if (!story->process)
                r = describe(env, &id, story);
        if (r >= 0)
                r = gf_story_threads_read(env, pid, &story->threads);
        if (r >= 0)
                r = gf_pid_walk(env, add_child, &children);
        if (r < 0)
                return r;
        if (stat.ppid > 0)
                (void)gf_pid_text(env, stat.ppid, "comm", &story->parent);
        if (story->parent)
                story->parent[strcspn(story->parent, "\n")] = '\0';
        /* Read by PID: only if it is still the same process is all this about it. */
        return gf_pidstat_of(env, &id, &stat);
}

int gf_story_read(struct gf_env *env, struct gpufree_snapshot *snapshot, pid_t pid, struct gpufree_story **ret_story)
{
        struct gpufree_story *story = calloc(1, sizeof(*story));
        int r;

        if (!story)
                return -ENOMEM;
        story->snapshot = gpufree_snapshot_ref(snapshot);
        r = read_all(env, pid, story);
        if (r < 0) {
                gpufree_story_unref(story);
                return r;
        }
        *ret_story = story;
        return 0;
}

gpufree_story *gpufree_story_unref(gpufree_story *story)
{
        if (!story)
                return NULL;
        if (story->own)
                gf_holder_done(story->own);
        free(story->own);
        gf_story_threads_done(&story->threads);
        gf_vec_done(&story->children);
        free(story->parent);
        gf_xids_done(&story->xids);
        free(story->log_error);
        gf_may_park_done(&story->parking);
        for (size_t i = 0; i < story->lines.n; i++)
                free(story->lines.v[i].sentence);
        gf_vec_done(&story->lines);
        gpufree_snapshot_unref(story->snapshot);
        free(story);
        return NULL;
}

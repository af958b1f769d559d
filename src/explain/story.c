/* SPDX-License-Identifier: MIT */
/* The sentences of a process's story, from what was read. Pure. */
#include "explain/story.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "explain/words.h"

#define MOST_NAMED 6
#define MOST_XIDS 4
#define SIGKILL_BIT (1ULL << 8)
#define SIGTERM_BIT (1ULL << 14)

static int add_line(struct gpufree_story *story, const char *topic, struct gf_str *text)
{
        struct gf_story_line *line = gf_vec_add(&story->lines);

        if (!line) {
                gf_str_done(text);
                return -ENOMEM;
        }
        line->topic = topic;
        return gf_str_take(text, &line->sentence);
}

static void add_devices(const struct gpufree_snapshot *snapshot, const struct gpufree_holder *holder, int gpu,
                        struct gf_str *text)
{
        uint64_t fds = 0, maps = 0;
        const char *path = NULL;

        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gf_device_use *use = &holder->devices.v[i];
                const struct gpufree_device *device = use->device < 0 ? NULL
                                                                      : &snapshot->inventory.devices.v[use->device];

                if (!device || device->gpu != gpu)
                        continue;
                path = path ? path : device->path;
                fds += use->fds;
                maps += use->maps;
        }
        if (path)
                gf_str_addf(text, " through %s (%" PRIu64 " descriptor%s, %" PRIu64 " mapping%s)", path, fds,
                            fds == 1 ? "" : "s", maps, maps == 1 ? "" : "s");
}

static int tell_gpu(struct gpufree_story *story, const struct gf_gpu_use *use)
{
        struct gf_str text = { 0 };

        if (use->context && use->memory != GPUFREE_UNKNOWN) {
                gf_word_size(&text, use->memory);
                gf_str_add(&text, " on ");
        } else {
                gf_str_add(&text, use->context ? "" : "merely open: ");
        }
        gf_word_gpu(&text, &story->snapshot->inventory.gpus.v[use->gpu]);
        add_devices(story->snapshot, story->process, use->gpu, &text);
        if (use->doubted)
                gf_str_add(&text,
                           "; the driver does not list it, but the driver's own structures show a context of its");
        else if (use->listed && use->witness == GPUFREE_WITNESS_OPEN)
                gf_str_add(&text,
                           "; the driver lists it there, but the driver's own structures show no context of its");
        else if (use->context)
                gf_str_add(&text, use->listed      ? "; the driver lists it there"
                                  : use->inherited ? "; the driver books it to a dead process whose descriptors it has"
                                  : use->witness == GPUFREE_WITNESS_CONTEXT
                                          ? "; the driver's own structures show a context of its there"
                                  : use->witness == GPUFREE_WITNESS_HANDLE
                                          ? "; by the driver's own structures it has exported memory handles of it"
                                          : "; the driver does not list it, what it has open is the evidence");
        return add_line(story, "holds", &text);
}

/* Devices that are no GPU's in particular, and dma-bufs. */
static int tell_others(struct gpufree_story *story)
{
        const struct gpufree_holder *holder = story->process;
        struct gf_str text = { 0 };

        for (size_t i = 0; i < holder->devices.n; i++) {
                const struct gf_device_use *use = &holder->devices.v[i];
                const struct gpufree_device *device = use->device < 0
                                                              ? NULL
                                                              : &story->snapshot->inventory.devices.v[use->device];

                if (device && device->gpu >= 0)
                        continue;
                gf_str_add(&text, text.n ? ", " : "also open: ");
                if (device) {
                        gf_str_addf(&text, "%s", device->path);
                } else {
                        gf_str_add(&text, "a dma-buf of ");
                        gf_word_size(&text, use->bytes);
                        gf_str_addf(&text, " (%s)", use->exporter);
                }
                if (use->via & GPUFREE_VIA_SCM)
                        gf_str_add(&text, " (waiting in a socket)");
                if (use->via & GPUFREE_VIA_IO_URING)
                        gf_str_add(&text, " (registered with io_uring)");
        }
        return text.n ? add_line(story, "holds", &text) : 0;
}

static int tell_holds(struct gpufree_story *story)
{
        struct gf_str text = { 0 };
        int r = 0;

        if (story->process->devices.n == 0 && story->process->gpus.n == 0) {
                gf_str_add(&text, "no GPU device was seen to be held by it");
                return add_line(story, "holds", &text);
        }
        for (size_t i = 0; i < story->process->gpus.n && r >= 0; i++)
                r = tell_gpu(story, &story->process->gpus.v[i]);
        return r < 0 ? r : tell_others(story);
}

static const char *state_words(char state)
{
        switch (state) {
        case 'R':
                return "runs";
        case 'S':
                return "sleeps until something happens";
        case 'D':
                return "sleeps in the kernel and takes no signal until that call returns";
        case 'T':
                return "is stopped (Ctrl-Z, SIGSTOP): SIGTERM waits until it is continued (kill -CONT), SIGKILL does "
                       "not";
        case 't':
                return "is stopped by a debugger: end the debugger (TracerPid in /proc/PID/status)";
        case 'Z':
                return "has exited and is not reaped by its parent";
        case 'X':
                return "is gone but for its entry";
        case 'I':
                return "is an idle kernel thread";
        default:
                return "is in a state that could not be read";
        }
}

/* The first thread's state, and how many threads are in which. */
static int tell_state(struct gpufree_story *story)
{
        const struct gf_story_threads *threads = &story->threads;
        char age[GF_TEXT_MAX], state = threads->list.n > 0 ? threads->list.v[0].state : story->process->facts.state;
        struct gf_str text = { 0 };

        gf_str_addf(&text, "%s (state %c)", state_words(state), state ? state : '?');
        if (state == 'Z' && threads->n > 1)
                gf_str_addf(&text, "; %zu of its threads live on and keep what it holds", threads->n - 1);
        if (story->process->facts.age_ms != GPUFREE_UNKNOWN)
                gf_str_addf(&text, "; started %s ago", gf_format_duration(story->process->facts.age_ms, age));
        return add_line(story, "state", &text);
}

struct wait {
        const char *where;
        size_t n, blocked;
};

/* Where its threads wait, the most first. */
static size_t count_waits(const struct gf_story_threads *threads, struct wait *waits, size_t size)
{
        size_t n = 0;

        for (size_t i = 0; i < threads->list.n; i++) {
                const struct gf_story_thread *thread = &threads->list.v[i];
                size_t k = 0;

                if (!thread->wchan[0])
                        continue;
                while (k < n && strcmp(waits[k].where, thread->wchan) != 0)
                        k++;
                if (k == size)
                        continue;
                if (k == n)
                        waits[n++] = (struct wait){ .where = thread->wchan };
                waits[k].n++;
                waits[k].blocked += thread->state == 'D';
        }
        for (size_t i = 1; i < n; i++)
                for (size_t k = i; k > 0 && waits[k].n > waits[k - 1].n; k--) {
                        struct wait other = waits[k];

                        waits[k] = waits[k - 1];
                        waits[k - 1] = other;
                }
        return n;
}

static int tell_threads(struct gpufree_story *story)
{
        static const char order[] = "RSDTtZ";
        static const char *const words[] = {
                "run", "sleep", "are stuck in the kernel (D)", "are stopped", "are stopped by a debugger", "have exited"
        };
        const struct gf_story_threads *threads = &story->threads;
        struct wait waits[MOST_NAMED];
        struct gf_str text = { 0 };
        const char *gap = ": ";
        size_t n;

        if (threads->incomplete) {
                gf_str_add(&text, "reading about its threads did not come back within 3 s: the kernel holds a lock of "
                                  "this process, as it does while a driver hangs");
                return add_line(story, "threads", &text);
        }
        gf_str_addf(&text, "%zu thread%s", threads->n, threads->n == 1 ? "" : "s");
        for (size_t i = 0; i < sizeof(order) - 1; i++) {
                if (threads->states[(unsigned char)order[i]] == 0)
                        continue;
                gf_str_addf(&text, "%s%zu %s", gap, threads->states[(unsigned char)order[i]], words[i]);
                gap = ", ";
        }
        n = count_waits(threads, waits, ELEMENTSOF(waits));
        for (size_t i = 0; i < n; i++)
                gf_str_addf(&text, "%s%s ×%zu", i == 0 ? "; waiting in " : ", ", waits[i].where, waits[i].n);
        return add_line(story, "threads", &text);
}

/* Kernel stacks: of the first thread, and of those that are stuck. */
static int tell_stacks(struct gpufree_story *story)
{
        const struct gf_story_threads *threads = &story->threads;
        size_t shown = 0;

        for (size_t i = 0; i < threads->list.n && shown < MOST_NAMED; i++) {
                const struct gf_story_thread *thread = &threads->list.v[i];
                struct gf_str text = { 0 };

                if (!thread->stack || !thread->stack[0])
                        continue;
                gf_str_addf(&text, "kernel stack of thread %d (%c): %s", (int)thread->tid, thread->state,
                            thread->stack);
                if (add_line(story, "threads", &text) < 0)
                        return -ENOMEM;
                shown++;
        }
        if (threads->stacks_refused) {
                struct gf_str text = { 0 };

                gf_str_add(&text, "kernel stacks are not readable: run as root to see them");
                return add_line(story, "threads", &text);
        }
        return 0;
}

static const char *signal_name(unsigned number, char buf[static 16])
{
        const char *name = sigabbrev_np((int)number);

        if (name)
                snprintf(buf, 16, "SIG%s", name);
        else
                snprintf(buf, 16, "signal %u", number);
        return buf;
}

static int tell_signals(struct gpufree_story *story)
{
        uint64_t pending = story->threads.pending;
        struct gf_str text = { 0 };
        char buf[16];

        if (pending == GPUFREE_UNKNOWN) {
                gf_str_add(&text, "which signals wait for it could not be read");
        } else if (pending == 0) {
                gf_str_add(&text, "none waits to be taken");
        } else {
                for (unsigned i = 1; i <= 64; i++)
                        if (pending & (1ULL << (i - 1)))
                                gf_str_addf(&text, "%s%s", text.n ? ", " : "", signal_name(i, buf));
                gf_str_add(&text, " sent and not yet taken");
                if ((pending & SIGKILL_BIT) && story->threads.states['D'] > 0)
                        gf_str_add(&text,
                                   ": it ends when the call into the kernel returns. If the driver hangs, only a "
                                   "reset of the GPU or a reboot makes it return; if its cgroup is frozen (docker "
                                   "pause), thawing it does");
                else if (pending & SIGKILL_BIT)
                        gf_str_add(&text, ": it is ending, the kernel still frees what it had");
                else if ((pending & SIGTERM_BIT) && story->threads.states['T'] > 0)
                        gf_str_add(&text, ": it takes them once it is continued (gpufree kill does that)");
        }
        return add_line(story, "signals", &text);
}

static int tell_family(struct gpufree_story *story)
{
        const struct gf_facts *facts = &story->process->facts;
        struct gf_str text = { 0 };

        if (facts->ppid == 1)
                gf_str_addf(&text, "its parent is PID 1%s%s%s: the one that started it has ended, or PID 1 did",
                            story->parent ? " (" : "", story->parent ? story->parent : "", story->parent ? ")" : "");
        else if (facts->ppid > 0)
                gf_str_addf(&text, "its parent is %d%s%s%s", (int)facts->ppid, story->parent ? " (" : "",
                            story->parent ? story->parent : "", story->parent ? ")" : "");
        else
                gf_str_add(&text, "its parent is outside of this PID namespace, or the kernel");
        if (story->process->owner_label)
                gf_str_addf(&text, "; it belongs to %s", story->process->owner_label);
        if (story->n_children == 0)
                gf_str_add(&text, "; it has no children");
        else
                gf_str_addf(&text, "; %zu child%s:", story->n_children, story->n_children == 1 ? "" : "ren");
        for (size_t i = 0; i < story->children.n && i < MOST_NAMED; i++) {
                const struct gpufree_holder *child = gf_word_find(story->snapshot, story->children.v[i]);

                gf_str_addf(&text, "%s %d%s", i > 0 ? "," : "", (int)story->children.v[i],
                            child && child->gpus.n > 0 ? " (holds a GPU too)" : "");
        }
        if (story->n_children > MOST_NAMED)
                gf_str_add(&text, ", …");
        return add_line(story, "family", &text);
}

static int tell_restart(struct gpufree_story *story, const struct gf_stop *stop)
{
        struct gf_str text = { 0 };

        switch (stop->again) {
        case GF_AGAIN_NO:
                gf_str_add(&text, "nothing is known that would start it again");
                break;
        case GF_AGAIN_ON_KILL:
                gf_str_add(&text, "it is started again after SIGKILL, not after SIGTERM");
                break;
        case GF_AGAIN_YES:
                gf_str_add(&text, "it is started again when it ends");
                break;
        case GF_AGAIN_UNKNOWN:
        default:
                gf_str_add(&text, "whether something starts it again is not known");
                break;
        }
        if (stop->why)
                gf_str_addf(&text, ": %s", stop->why);
        if (stop->again != GF_AGAIN_NO && stop->text)
                gf_str_addf(&text, ". What stops it for good: %s", stop->text);
        if (stop->warning)
                gf_str_addf(&text, " (%s)", stop->warning);
        return add_line(story, "restart", &text);
}

static int tell_log(struct gpufree_story *story)
{
        char age[GF_TEXT_MAX];

        for (size_t i = 0; i < story->xids.n && i < MOST_XIDS; i++) {
                const struct gf_xid *xid = &story->xids.v[i];
                struct gf_str text = { 0 };

                if (xid->number > 0)
                        gf_str_addf(&text, "Xid %u, ", xid->number);
                gf_str_addf(&text, "%s ago: %s. The line: %s", gf_format_duration(xid->age_ms, age),
                            gf_xid_meaning(xid->number), xid->line);
                if (add_line(story, "log", &text) < 0)
                        return -ENOMEM;
        }
        if (story->log_error) {
                struct gf_str text = { 0 };

                gf_str_add(&text, story->log_error);
                return add_line(story, "log", &text);
        }
        if (story->xids.n == 0) {
                struct gf_str text = { 0 };

                gf_str_add(&text, "no error of its GPUs, and no blocked thread of it, in the kernel log");
                return add_line(story, "log", &text);
        }
        return 0;
}

static int tell_next(struct gpufree_story *story, const struct gf_stop *stop)
{
        const struct gpufree_holder *process = story->process;
        struct gf_str text = { 0 };

        if (process->gpus.n == 0)
                return 0;
        if (process->protected_absolute)
                gf_str_addf(&text, "gpufree does not end it: %s", process->protected_why);
        else if (stop->again == GF_AGAIN_YES && stop->text)
                gf_str_addf(&text, "%s", stop->text);
        else if (story->threads.states['D'] > 0 && story->threads.pending != GPUFREE_UNKNOWN &&
                 (story->threads.pending & SIGKILL_BIT)) {
                gf_str_add(&text, "gpufree check --for reset");
                gf_word_gpu_option(&text, &story->snapshot->inventory.gpus.v[process->gpus.v[0].gpu]);
        } else
                gf_str_addf(&text, "gpufree kill --pid %d", (int)process->id.pid);
        if (process->protected_why && !process->protected_absolute)
                gf_str_addf(&text, "   (it is protected: %s)", process->protected_why);
        return add_line(story, "next", &text);
}

/* How busy it kept each GPU, where that was sampled. */
static int tell_use(struct gpufree_story *story)
{
        for (size_t i = 0; i < story->process->gpus.n; i++) {
                const struct gf_gpu_use *use = &story->process->gpus.v[i];
                struct gf_str text = { 0 };

                if (!use->sampled)
                        continue;
                if (use->busy > 0)
                        gf_str_addf(&text, "kept %u%% of ", use->busy);
                else
                        gf_str_add(&text, "idle on ");
                gf_word_gpu(&text, &story->snapshot->inventory.gpus.v[use->gpu]);
                gf_str_add(&text, use->busy > 0 ? " busy while it was watched"
                                                : ": the driver had no sample of its work while it was watched");
                if (add_line(story, "use", &text) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int tell_parking(struct gpufree_story *story)
{
        const struct gf_may_park *may = &story->parking;
        int pid = (int)story->process->id.pid;
        struct gf_str text = { 0 };

        /* Of who holds no GPU, only that it is parked (it holds none then) is worth a word. */
        if (may->answer == GF_MAY_UNKNOWN && !may->why)
                return 0;
        if (story->process->gpus.n == 0 && may->state != GPUFREE_PARK_PARKED && may->state != GPUFREE_PARK_LOCKED)
                return 0;
        if (may->why)
                gf_str_addf(&text, "%s: %s",
                            may->answer == GF_MAY_UNKNOWN ? "whether it can be parked is not known"
                                                          : "it cannot be parked now",
                            may->why);
        else if (may->state == GPUFREE_PARK_PARKED)
                gf_str_addf(&text, "it is parked, its GPU memory lies in host memory: gpufree unpark %d", pid);
        else if (may->state == GPUFREE_PARK_LOCKED)
                gf_str_addf(&text, "it is locked by an attempt to park it and stands still: gpufree unpark %d", pid);
        else
                gf_str_addf(&text, "it can be parked: gpufree park --pid %d", pid);
        if (add_line(story, "parking", &text) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < may->warnings.n; i++) {
                struct gf_str warning = { 0 };

                gf_str_add(&warning, may->warnings.v[i]);
                if (add_line(story, "parking", &warning) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int gf_story_tell(struct gpufree_story *story, const struct gf_stop *stop)
{
        int r = tell_holds(story);

        if (r >= 0)
                r = tell_state(story);
        if (r >= 0)
                r = tell_threads(story);
        if (r >= 0)
                r = tell_stacks(story);
        if (r >= 0)
                r = tell_signals(story);
        if (r >= 0)
                r = tell_family(story);
        if (r >= 0)
                r = tell_restart(story, stop);
        if (r >= 0)
                r = tell_use(story);
        if (r >= 0)
                r = tell_parking(story);
        if (r >= 0)
                r = tell_log(story);
        return r < 0 ? r : tell_next(story, stop);
}

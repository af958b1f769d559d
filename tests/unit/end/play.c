/* SPDX-License-Identifier: MIT */
#include "play.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/pidfd.h"
#include "sys/pidstat.h"
#include "sys/procfs.h"

static struct slot *own_slot; /* in a child: for its handler */

size_t count_fds(void)
{
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        assert_non_null(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

uint64_t start_ticks_of(pid_t pid)
{
        struct gf_env env = { .proc_root = (char *)(uintptr_t) "/proc", .cancel_fd = -1 };
        struct gf_pidstat stat;

        return gf_pidstat_read(&env, pid, &stat) < 0 ? 0 : stat.start_ticks;
}

static int pin(pid_t pid, uint64_t start_ticks)
{
        struct gf_env env = { .proc_root = (char *)(uintptr_t) "/proc", .cancel_fd = -1 };

        return gf_pidfd_pin(&env, &(struct gf_ident){ pid, start_ticks });
}

bool is_alive(const struct slot *slot)
{
        _cleanup_close_ int fd = pin(slot->pid, slot->start_ticks);

        return fd >= 0 && gf_pidfd_ended(fd) == 0;
}

void await_death(const struct slot *slot)
{
        _cleanup_close_ int fd = pin(slot->pid, slot->start_ticks);
        struct pollfd p = { .fd = fd, .events = POLLIN };

        if (fd >= 0)
                assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
}

struct slot *slot_new(struct stage *stage, const char *program, int gpu, uint64_t memory)
{
        struct slot *slot;
        int at = atomic_fetch_add(&stage->used, 1);

        if (at >= PLAY_SLOTS)
                abort();
        slot = &stage->slots[at];
        snprintf(slot->program, sizeof(slot->program), "%s", program);
        slot->gpu = gpu;
        slot->memory = memory;
        atomic_store(&slot->holds, true);
        return slot;
}

void slot_open(struct slot *slot)
{
        slot->start_ticks = start_ticks_of(getpid());
        atomic_store(&slot->pid, getpid());
}

void play_rest(void)
{
        for (;;)
                pause();
}

static void let_go(int sig)
{
        (void)sig;
        atomic_fetch_add(&own_slot->terms, 1);
        atomic_store(&own_slot->holds, false);
}

void part_plain(struct play *play, struct slot *slot)
{
        (void)play;
        slot_open(slot);
        play_rest();
}

void part_deaf(struct play *play, struct slot *slot)
{
        signal(SIGTERM, SIG_IGN);
        part_plain(play, slot);
}

void part_stopped(struct play *play, struct slot *slot)
{
        (void)play;
        slot_open(slot);
        raise(SIGSTOP);
        play_rest();
}

static void *thread_rest(void *arg)
{
        slot_open(arg);
        play_rest();
}

void part_headless(struct play *play, struct slot *slot)
{
        pthread_t thread;

        (void)play;
        if (pthread_create(&thread, NULL, thread_rest, slot) != 0)
                _exit(1);
        pthread_exit(NULL);
}

void part_generous(struct play *play, struct slot *slot)
{
        own_slot = slot;
        signal(SIGTERM, let_go);
        part_plain(play, slot);
}

void part_bystander(struct play *play, struct slot *slot)
{
        atomic_store(&slot->holds, false);
        part_plain(play, slot);
}

/* Waits for what has no event of its own; the time between two questions is no part of what is tested. */
static void await(bool (*is_so)(const struct slot *slot), const struct slot *slot)
{
        uint64_t deadline = gf_deadline_in(PATIENCE_MS);

        while (!is_so(slot)) {
                assert_true(gf_deadline_left(deadline) > 0);
                (void)poll(NULL, 0, 1);
        }
}

static bool has_opened(const struct slot *slot)
{
        return atomic_load(&slot->pid) != 0;
}

static char state_of(const struct slot *slot)
{
        struct gf_env env = { .proc_root = (char *)(uintptr_t) "/proc", .cancel_fd = -1 };
        struct gf_pidstat stat;

        return gf_pidstat_read(&env, slot->pid, &stat) < 0 ? '?' : stat.state;
}

static bool is_stopped(const struct slot *slot)
{
        return state_of(slot) == 'T';
}

static bool is_headless(const struct slot *slot)
{
        return state_of(slot) == 'Z';
}

struct slot *play_start(struct play *play, const char *program, uint64_t memory, play_part part)
{
        struct slot *slot = slot_new(play->stage, program, 0, memory);
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)setpgid(0, 0);
                alarm(120);
                part(play, slot);
                _exit(0);
        }
        assert_true(play->n_children < PLAY_SLOTS);
        play->children[play->n_children++] = pid;
        await(has_opened, slot);
        if (part == part_stopped)
                await(is_stopped, slot);
        if (part == part_headless)
                await(is_headless, slot);
        return slot;
}

/* ---- eyes ---- */

static void add_gpus(struct play *play, struct gpufree_snapshot *snapshot)
{
        for (size_t i = 0; i < play->n_gpus; i++) {
                struct gpufree_gpu *gpu = must_add(&snapshot->inventory.gpus);

                gpu->index = gpu->minor = (int)i;
                gpu->uuid = gf_asprintf("GPU-%zu", i);
                gpu->vendor = play->vendor;
                gpu->selected = true;
                gpu->memory = (struct gf_memory){ 80 * GIB, 0, 615 * MIB };
                gpu->lists_complete = play->lists_complete;
                gpu->listed = play->listed;
        }
}

static uint64_t residue_now(struct play *play)
{
        if (play->residue == 0)
                return 0;
        if (play->residue_seen == 0)
                play->residue_seen = gf_now_ms();
        return play->residue_ms != GPUFREE_UNKNOWN && gf_now_ms() - play->residue_seen >= play->residue_ms
                       ? 0
                       : play->residue;
}

static uint64_t used_now(struct play *play, size_t gpu)
{
        uint64_t used = 0;

        if (play->memory_unknown)
                return GPUFREE_UNKNOWN;
        for (int i = 0; i < play->stage->used; i++) {
                const struct slot *slot = &play->stage->slots[i];

                if (slot->pid && atomic_load(&slot->holds) && slot->gpu == (int)gpu &&
                    slot->memory != GPUFREE_UNKNOWN && is_alive(slot))
                        used += slot->memory;
        }
        return used + (gpu == 0 ? residue_now(play) : 0);
}

static void fill_facts(const struct play *play, const struct slot *slot, struct gf_facts *facts)
{
        struct gf_env env = { .proc_root = (char *)(uintptr_t) "/proc", .cancel_fd = -1 };
        struct gf_pidstat stat = { .state = '?' };

        (void)gf_pidstat_read(&env, slot->pid, &stat);
        facts->comm = strdup(slot->program);
        facts->cmdline = strdup(slot->program);
        facts->cmdline_length = strlen(slot->program) + 1;
        facts->exe = gf_asprintf("/bin/%s", slot->program);
        if (play->real_exe) {
                _cleanup_free_ char *path = gf_asprintf("/proc/%d/cmdline", (int)slot->pid);
                char *real = NULL;

                (void)gf_pid_exe(&env, slot->pid, &facts->exe_dev, &facts->exe_ino);
                if (path && gf_read_file(AT_FDCWD, path, 4096, &real, &facts->cmdline_length) == 0) {
                        free(facts->cmdline);
                        facts->cmdline = real;
                }
        }
        facts->uid = UINT32_MAX;
        (void)gf_pid_uid(&env, slot->pid, &facts->uid);
        facts->user = strdup(facts->uid == 0 ? "root" : "somebody");
        facts->state = stat.state;
        facts->ppid = stat.ppid;
        facts->pgrp = stat.pgrp;
        facts->session = stat.session;
        facts->login_session = UINT32_MAX;
}

static void add_holder(const struct play *play, const struct slot *slot, struct gpufree_snapshot *snapshot)
{
        struct gpufree_holder *holder = must_add(&snapshot->holders);
        struct gf_gpu_use *use;

        holder->id = (struct gf_ident){ slot->pid, slot->start_ticks };
        fill_facts(play, slot, &holder->facts);
        holder->selected = !atomic_load(&slot->unselected);
        holder->protected_why = slot->protected_why ? strdup(slot->protected_why) : NULL;
        holder->protected_absolute = slot->absolute;
        if (slot->owner_kind)
                ((struct gf_owner *)must_add(&holder->owners))->kind = strdup(slot->owner_kind);
        if (slot->gpu < 0)
                return;
        use = must_add(&holder->gpus);
        *use = (struct gf_gpu_use){ .gpu = slot->gpu, .memory = slot->memory, .context = !slot->open_only };
        if (slot->memory != GPUFREE_UNKNOWN)
                snapshot->inventory.gpus.v[slot->gpu].accounted += slot->memory;
}

struct gpufree_snapshot *play_look(struct play *play)
{
        struct gpufree_snapshot *snapshot = calloc(1, sizeof(*snapshot));
        uint64_t started = gf_now_us();

        if (!snapshot)
                abort();
        snapshot->refs = 1;
        snapshot->initial_pidns = !play->outside_init;
        if (!(play->lose_gpus && play->looks > 1))
                add_gpus(play, snapshot);
        for (int i = 0; i < play->stage->used && snapshot->inventory.gpus.n > 0; i++) {
                const struct slot *slot = &play->stage->slots[i];

                if (slot->pid && atomic_load(&slot->holds) && is_alive(slot))
                        add_holder(play, slot, snapshot);
        }
        for (size_t g = 0; g < snapshot->inventory.gpus.n; g++)
                snapshot->inventory.gpus.v[g].memory.used = used_now(play, g);
        if (play->gap) {
                assert_int_equal(gf_strv_add(&snapshot->gaps, "3 processes could not be looked at: run as root."), 0);
                snapshot->unreadable = 3;
        }
        snapshot->elapsed_us = gf_now_us() - started;
        snapshot->boot_ticks = gf_boottime_ticks();
        return snapshot;
}

static int eyes_look(void *userdata, struct gpufree_snapshot **ret)
{
        struct play *play = userdata;

        play->looks++;
        if (play->reap)
                while (waitpid(-1, NULL, WNOHANG) > 0)
                        continue;
        if (play->on_look)
                play->on_look(play, play->looks);
        if (play->look_error)
                return gf_fail(&play->env, play->look_error, "the play has no look");
        *ret = play_look(play);
        if (play->after_look)
                play->after_look(play, play->looks);
        return 0;
}

static int eyes_still_holds(void *userdata, const struct gpufree_holder *holder)
{
        struct play *play = userdata;

        for (int i = 0; i < play->stage->used; i++) {
                const struct slot *slot = &play->stage->slots[i];

                if (slot->pid != holder->id.pid)
                        continue;
                if (!is_alive(slot))
                        return -ESRCH;
                return atomic_load(&slot->holds) ? 1 : 0;
        }
        return 0;
}

static int eyes_memory(void *userdata, struct gf_driver_report *ret)
{
        struct play *play = userdata;

        play->memories++;
        if (play->memory_error)
                return play->memory_error;
        *ret = (struct gf_driver_report){ .asked = true };
        for (size_t g = 0; g < play->n_gpus; g++) {
                struct gf_driver_gpu *gpu = must_add(&ret->gpus);

                gpu->index = gpu->minor = (int)g;
                snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%zu", g);
                gpu->memory.used = used_now(play, g);
        }
        return 0;
}

static void eyes_event(void *userdata, const struct gpufree_event *event)
{
        struct play *play = userdata;

        play->events[event->type]++;
        play->sigkills += event->type == GPUFREE_EVENT_SIGNALLED && event->signal == SIGKILL;
        if (play->on_event)
                play->on_event(play, event);
}

/* ---- set-up ---- */

int play_setup(void **state)
{
        struct play *play = calloc(1, sizeof(*play));

        if (!play)
                return -1;
        /* What a child leaves behind comes to us, so that it can be ended and reaped. */
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        play->fds = count_fds();
        play->stage = mmap(NULL, sizeof(*play->stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(play->stage != MAP_FAILED);
        play->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        assert_true(play->cancel >= 0);
        gf_env_init(&play->env);
        assert_int_equal(gf_env_defaults(&play->env), 0);
        play->env.cancel_fd = play->cancel;
        play->n_gpus = 1;
        play->vendor = GPUFREE_VENDOR_NVIDIA;
        play->lists_complete = true;
        play->ladder = (struct gpufree_ladder)GPUFREE_LADDER_INIT;
        play->ladder.grace_ms = PATIENCE_MS;
        play->ladder.timeout_ms = 2 * PATIENCE_MS;
        play->eyes = (struct gf_eyes){ .look = eyes_look,
                                       .still_holds = eyes_still_holds,
                                       .memory = eyes_memory,
                                       .userdata = play,
                                       .on_event = eyes_event,
                                       .event_userdata = play };
        *state = play;
        return 0;
}

/* Forks may still be made while others are ended: again until nobody is left. */
static void end_everybody(struct play *play)
{
        for (size_t i = 0; i < play->n_children; i++)
                (void)waitid(P_PID, (id_t)play->children[i], NULL, WEXITED | WNOHANG | WNOWAIT);
        for (;;) {
                bool any = false;

                for (int i = 0; i < play->stage->used && i < PLAY_SLOTS; i++) {
                        const struct slot *slot = &play->stage->slots[i];
                        _cleanup_close_ int fd = slot->pid ? pin(slot->pid, slot->start_ticks) : -1;

                        if (fd >= 0 && gf_pidfd_ended(fd) == 0) {
                                (void)gf_pidfd_signal(fd, SIGKILL);
                                any = true;
                        }
                }
                while (waitpid(-1, NULL, WNOHANG) > 0)
                        continue;
                if (!any)
                        break;
                (void)poll(NULL, 0, 1);
        }
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
                continue;
}

int play_teardown(void **state)
{
        struct play *play = *state;
        size_t fds;

        end_everybody(play);
        gf_env_done(&play->env);
        munmap(play->stage, sizeof(*play->stage));
        close(play->cancel);
        fds = play->fds;
        free(play);
        assert_int_equal(count_fds(), fds);
        return 0;
}

struct gpufree_report *play_kill(struct play *play)
{
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = play_look(play);
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        struct gpufree_report *report = NULL;

        assert_int_equal(gf_plan_make(snapshot, &plan), 0);
        assert_int_equal(gf_execute(&play->env, &play->eyes, plan, &play->ladder, &report), 0);
        assert_non_null(report);
        return report;
}

const struct gf_fate_entry *fate_of(const struct gpufree_report *report, const struct slot *slot)
{
        for (size_t i = 0; i < report->fates.n; i++)
                if (report->fates.v[i].holder->id.pid == slot->pid &&
                    report->fates.v[i].holder->id.start_ticks == slot->start_ticks)
                        return &report->fates.v[i];
        return NULL;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "end/owner_stop.h"
#include "end/run.h"
#include "owner/procs.h"
#include "sys/clock.h"
#include "sys/command.h"
#include "sys/pidfd.h"
#include "sys/pidwait.h"

#define CONTROL "nvidia-cuda-mps-control"
#define SERVER "nvidia-cuda-mps-server"
#define DEFAULT_DIRECTORY "/tmp/nvidia-mps"
/* For one question to the daemon: a server that hangs in the driver does not answer. */
#define ANSWER_MS 5000
#define MOST_SERVERS 16

struct mps {
        struct gf_run *run;
        char *control;       /* its program */
        gf_strv directories; /* of the pipes of each daemon that may be asked */
        bool looked;
};

static void mps_done(struct mps *mps)
{
        free(mps->control);
        gf_strv_done(&mps->directories);
}

static bool is_called(const struct gpufree_holder *holder, const char *name)
{
        const char *slash = holder->facts.exe ? strrchr(holder->facts.exe, '/') : NULL;

        return slash && gf_streq(slash + 1, name);
}

static bool is_service(const struct gpufree_holder *holder)
{
        return is_called(holder, CONTROL) || is_called(holder, SERVER);
}

static bool is_client(const struct gf_fate_entry *entry)
{
        const struct gf_driver_report *driver = &entry->snapshot->driver;

        for (size_t g = 0; g < driver->gpus.n; g++)
                for (size_t i = 0; i < driver->gpus.v[g].processes.n; i++) {
                        const struct gf_driver_process *process = &driver->gpus.v[g].processes.v[i];

                        if (process->pid == entry->holder->id.pid && (process->lists & GF_LIST_MPS))
                                return !is_service(entry->holder);
                }
        return false;
}

/* PIDs mean the same to it as to us only in the same PID namespace. */
static bool is_in_our_namespace(const struct gf_env *env, const struct gpufree_holder *holder)
{
        _cleanup_free_ char *path = gf_asprintf("%s/self/ns/pid", env->proc_root);
        struct stat st;

        return path && holder->facts.pidns != 0 && stat(path, &st) == 0 && st.st_ino == holder->facts.pidns;
}

/* A directory that the daemon's own user made; only ours and root's are asked: who answers is believed. */
static bool is_its_directory(const char *directory, uint32_t uid)
{
        struct stat st;

        return directory[0] == '/' && !strchr(directory, '\n') && lstat(directory, &st) == 0 && S_ISDIR(st.st_mode) &&
               st.st_uid == uid;
}

static int add_daemon(struct mps *mps, const struct gpufree_holder *holder)
{
        static const char *const keys[] = { "CUDA_MPS_PIPE_DIRECTORY" };
        char *values[ELEMENTSOF(keys)] = { NULL };
        _cleanup_free_ char *directory = NULL;
        const char *name;
        int r;

        if (!is_service(holder) || (holder->facts.uid != 0 && holder->facts.uid != geteuid()) ||
            !is_in_our_namespace(mps->run->env, holder))
                return 0;
        r = gf_environ_read(mps->run->env, &holder->id, keys, values, ELEMENTSOF(keys));
        directory = values[0];
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        name = directory && directory[0] ? directory : DEFAULT_DIRECTORY;
        if (!is_its_directory(name, holder->facts.uid) || gf_strv_has(&mps->directories, name))
                return 0;
        return gf_strv_add(&mps->directories, name);
}

static int find_daemons(struct mps *mps)
{
        const struct gpufree_snapshot *snapshot = mps->run->plan->snapshot;
        int r;

        if (mps->looked)
                return 0;
        mps->looked = true;
        for (size_t i = 0; i < snapshot->holders.n; i++) {
                r = add_daemon(mps, &snapshot->holders.v[i]);
                if (r < 0)
                        return r;
        }
        r = gf_command_find(CONTROL, mps->run->eyes->program_dirs, &mps->control);
        if (r < 0) {
                free(mps->control);
                mps->control = NULL;
        }
        return r == -ENOMEM ? r : 0;
}

/* At most half of what is left of the time for the whole. */
static uint64_t time_for(const struct gf_run *run)
{
        uint64_t left = gf_deadline_left(run->deadline) / 2;

        return left < ANSWER_MS ? left : ANSWER_MS;
}

/* 0; -ECANCELED, -ENOMEM; any other: no answer. */
static int tell(const struct mps *mps, const char *directory, const char *words, struct gf_command_result *ret)
{
        _cleanup_free_ char *variable = gf_asprintf("CUDA_MPS_PIPE_DIRECTORY=%s", directory),
                            *line = gf_asprintf("%s\n", words);
        _cleanup_(gf_strv_done) gf_strv argv = { 0 };
        int r;

        if (!variable || !line || gf_strv_add(&argv, CONTROL) < 0)
                return -ENOMEM;
        r = gf_command_talk(mps->control, &argv, line, variable, time_for(mps->run), mps->run->env->cancel_fd, ret);
        return r == 0 && ret->cancelled ? -ECANCELED : r;
}

/* Asks for a list of numbers, one a line. How many; what does not read so is no list. */
static int ask_pids(const struct mps *mps, const char *directory, const char *words, pid_t *pids, size_t room)
{
        _cleanup_(gf_command_result_done) struct gf_command_result result = { 0 };
        char *save = NULL;
        size_t n = 0;
        int r = tell(mps, directory, words, &result);

        if (r < 0)
                return r;
        if (!result.ended || result.status != 0 || result.output_cut)
                return -EIO;
        for (char *at = strtok_r(result.output, " \t\r\n", &save); at && n < room;
             at = strtok_r(NULL, " \t\r\n", &save))
                if (gf_parse_pid(at, &pids[n++]) < 0)
                        return -EBADMSG;
        return (int)n;
}

static int has_client(const struct mps *mps, const char *directory, pid_t server, pid_t client)
{
        _cleanup_free_ char *words = gf_asprintf("get_client_list %d", (int)server);
        pid_t clients[512];
        int n = words ? ask_pids(mps, directory, words, clients, ELEMENTSOF(clients)) : -ENOMEM;

        for (int i = 0; i < n; i++)
                if (clients[i] == client)
                        return 1;
        return n < 0 ? n : 0;
}

static int note(struct gf_run *run, pid_t server, const char *words, struct gf_command_result *result, int error)
{
        struct gf_stop_entry *entry = gf_vec_add(&run->report->stops);
        bool done = error == 0 && result->ended && result->status == 0;

        if (!entry)
                return -ENOMEM;
        entry->outcome = (int)(done                ? GF_STOP_DONE
                               : result->timed_out ? GF_STOP_TIMED_OUT
                               : result->cancelled ? GF_STOP_CANCELLED
                                                   : GF_STOP_FAILED);
        entry->status = error == 0 && result->ended ? result->status : -1;
        entry->elapsed_ms = result->elapsed_ms;
        entry->owner = gf_asprintf("MPS server %d", (int)server);
        entry->command = gf_asprintf("echo %s | " CONTROL, words);
        entry->output = TAKE(result->output);
        entry->sentence = gf_asprintf("%s: %s", entry->command ? entry->command : words,
                                      done                ? "done"
                                      : result->timed_out ? "no answer in time; its server's other clients may fail"
                                      : result->cancelled ? "interrupted"
                                                          : "failed; its server's other clients may fail");
        if (!entry->owner || !entry->command || !entry->sentence)
                return -ENOMEM;
        gf_run_event(run, (struct gpufree_event){ .type = GPUFREE_EVENT_STOPPED,
                                                  .elapsed_ms = entry->elapsed_ms,
                                                  .text = entry->sentence });
        return done ? 0 : gf_strv_addf(&run->report->sentences, "%s.", entry->sentence);
}

static int terminate(const struct mps *mps, const char *directory, pid_t server, pid_t client)
{
        _cleanup_(gf_command_result_done) struct gf_command_result result = { 0 };
        _cleanup_free_ char *words = gf_asprintf("terminate_client %d %d", (int)server, (int)client);
        int r, k;

        if (!words)
                return -ENOMEM;
        gf_run_event(mps->run, (struct gpufree_event){ .type = GPUFREE_EVENT_STOPPING, .text = words });
        r = tell(mps, directory, words, &result);
        if (r == -ENOMEM)
                return r;
        k = note(mps->run, server, words, &result, r);
        return r == -ECANCELED ? r : k;
}

/* 1: its server was told; 0: no daemon that may be asked has it. */
static int release(const struct mps *mps, pid_t client)
{
        for (size_t i = 0; mps->control && i < mps->directories.n; i++) {
                const char *directory = mps->directories.v[i];
                pid_t servers[MOST_SERVERS];
                int n = ask_pids(mps, directory, "get_server_list", servers, ELEMENTSOF(servers));

                if (n == -ECANCELED || n == -ENOMEM)
                        return n;
                for (int k = 0; k < n; k++) {
                        int r = has_client(mps, directory, servers[k], client);

                        if (r == -ECANCELED || r == -ENOMEM)
                                return r;
                        if (r <= 0)
                                continue;
                        r = terminate(mps, directory, servers[k], client);
                        return r < 0 ? r : 1;
                }
        }
        return 0;
}

/* As before a signal: pinned, and seen to hold. */
static int is_due(struct gf_run *run, struct gf_target *target)
{
        const struct gf_fate_entry *entry = gf_run_fate(run, target);
        int r;

        if (target->stage != GF_STAGE_TODO || !is_client(entry))
                return 0;
        r = gf_pin(run, target);
        if (r == -ENOMEM)
                return r;
        if (r < 0 || gf_pidfd_ended(target->pidfd) == 1)
                return 0;
        r = run->eyes->still_holds(run->eyes->userdata, entry->holder);
        if (r == -ECANCELED || r == -ENOMEM)
                return r;
        return r > 0 && gf_pidfd_ended(target->pidfd) == 0;
}

int gf_mps_release(struct gf_run *run)
{
        _cleanup_(mps_done) struct mps mps = { .run = run };
        int r = 0;

        /* The driver's PIDs, and the daemon's, are ours only here. */
        for (size_t i = 0; run->plan->snapshot->initial_pidns && i < run->targets.n && r >= 0; i++) {
                if (gf_deadline_left(run->deadline) == 0)
                        return 0;
                r = is_due(run, &run->targets.v[i]);
                if (r <= 0)
                        continue;
                r = find_daemons(&mps);
                if (r == 0)
                        r = release(&mps, gf_run_fate(run, &run->targets.v[i])->holder->id.pid);
                if (r == 0)
                        r = gf_strv_addf(&run->report->sentences,
                                         "%d is a client of the Multi-Process Service and was signalled without its "
                                         "control daemon, which could not be asked: the server's other clients may "
                                         "fail.",
                                         (int)gf_run_fate(run, &run->targets.v[i])->holder->id.pid);
                gf_pins_trim(run);
        }
        if (r == -ECANCELED)
                run->cancelled = true;
        return r < 0 ? r : 0;
}

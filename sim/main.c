/* SPDX-License-Identifier: MIT */
/* gpufree-sim: a machine with GPUs, simulated by real processes that hold stand-in device nodes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"
#include "base/num.h"
#include "files.h"
#include "keeper.h"
#include "up.h"

static int usage(FILE *f)
{
        (void)fprintf(f, "Usage: gpufree-sim COMMAND …\n\n"
                         "  up DIR [--gpus N] [--shapes LIST|story] [--shuffle] [--ptys] [--mappable]\n"
                         "          make a simulated node in DIR; prints what points gpufree at it, for eval\n"
                         "  add DIR SHAPE [OPTIONS]   start a holder, print its PIDs (add --help)\n"
                         "  busy DIR GPU PERCENT      that GPU computes from now on, whoever does it\n"
                         "  status DIR                GPUs, memory, processes\n"
                         "  down DIR                  end its processes, remove its files\n\n"
                         "  --shapes LIST   holders to start: SHAPE[:GPU],… (else on the next GPU each), or `story`:\n"
                         "                  a stuck server with all it takes, on 8 GPUs\n"
                         "  --shuffle       device minors count the other way than indices\n"
                         "  --ptys          pseudo-terminals even as root\n"
                         "  --mappable      nvidia-uvm can be mapped if possible, for shape map after others\n\n"
                         "GPUFREE_SIM_FAULT makes the stand-in driver library misbehave, a list of: dead-pids,\n"
                         "hide-pids, late=MS, never, no-v2, no-v3, stride32, full-list, busy=PERCENT,\n"
                         "hang[=CALL], crash[=CALL], "
                         "error=CODE[:GPU[:CALL]]; CALL is init, handle, list, memory or utilization.\n");
        return f == stdout ? 0 : 2;
}

static int open_node_dir(const char *path, struct sim_state *ret_state)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat st;
        int r;

        if (fd < 0)
                return -errno;
        /* Its files name processes to be ended: they must be ours. */
        if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & S_IWOTH) != 0)
                return -EPERM;
        r = sim_state_read(fd, ret_state);
        return r < 0 ? r : TAKE_FD(fd);
}

static int failed(const char *path, int error)
{
        const char *text = error == -EBADMSG || error == -ENOENT ? "no simulated node is there"
                           : error == -EPERM                     ? "is not yours, or others may write to it"
                                                                 : strerror(-error);

        (void)fprintf(stderr, "gpufree-sim: %s: %s\n", path, text);
        return 1;
}

static int cmd_add(int argc, char **argv)
{
        _cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
        struct sim_report report;
        struct sim_args args;
        _cleanup_close_ int dir = -1;
        int r = sim_args_parse(argc, argv, "gpufree-sim add", true, &args);

        if (r != 0)
                return r < 0 ? 2 : 0;
        dir = state ? open_node_dir(args.dir, state) : -ENOMEM;
        if (dir < 0)
                return failed(args.dir, dir);
        r = sim_keeper_add(dir, &args.params, &report);
        if (r < 0)
                (void)fprintf(stderr, "gpufree-sim: %s\n", report.error);
        for (size_t i = 0; r >= 0 && i < report.processes.n; i++) {
                const struct sim_process *p = &report.processes.v[i];

                if (args.detailed)
                        (void)printf("%d %s %d\n", (int)p->id.pid, p->role, p->gpu);
                else if (!gf_streq(p->role, "dead"))
                        (void)printf("%d\n", (int)p->id.pid);
        }
        sim_report_done(&report);
        return r < 0;
}

/* Renamed into place: the library never reads half of it. */
static int write_busy(int dir, uint32_t gpu, uint32_t percent)
{
        char text[16], name[16];
        _cleanup_close_ int busy = -1, fd = -1;
        int n = snprintf(text, sizeof(text), "%u", (unsigned)percent);

        (void)snprintf(name, sizeof(name), "%u", (unsigned)gpu);
        if (mkdirat(dir, "busy", 0755) < 0 && errno != EEXIST)
                return -errno;
        busy = openat(dir, "busy", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (busy < 0)
                return -errno;
        fd = openat(busy, "new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;
        if (write(fd, text, (size_t)n) != n)
                return -EIO;
        return renameat(busy, "new", busy, name) < 0 ? -errno : 0;
}

static int cmd_busy(int argc, char **argv)
{
        _cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
        _cleanup_close_ int dir = -1;
        uint32_t gpu, percent;
        int r;

        if (argc != 4)
                return usage(stderr);
        dir = state ? open_node_dir(argv[1], state) : -ENOMEM;
        if (dir < 0)
                return failed(argv[1], dir);
        if (gf_parse_u32(argv[2], &gpu) < 0 || gpu >= state->n_gpus || gf_parse_u32(argv[3], &percent) < 0 ||
            percent > 100) {
                (void)fprintf(stderr, "gpufree-sim busy: a GPU of the node and 0 to 100, like 0 37\n");
                return 2;
        }
        r = write_busy(dir, gpu, percent);
        return r < 0 ? failed(argv[1], r) : 0;
}

static void print_record(const struct sim_record *record)
{
        char size[GF_TEXT_MAX], gpu[16] = "-";
        const char *state = sim_record_held(record) ? "holds" : sim_alive(&record->id) ? "runs" : "gone";

        if (record->gpu >= 0)
                (void)snprintf(gpu, sizeof(gpu), "%d", record->gpu);
        (void)printf("%8d  %-8s  %-13s  %3s  %10s  %s\n", (int)record->id.pid, record->role, record->shape, gpu,
                     gf_format_size(record->memory, size), state);
}

static int cmd_status(int argc, char **argv)
{
        _cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
        sim_records records = { 0 };
        _cleanup_close_ int dir = -1;
        bool up;

        if (argc != 2)
                return usage(stderr);
        dir = state ? open_node_dir(argv[1], state) : -ENOMEM;
        if (dir < 0)
                return failed(argv[1], dir);
        up = sim_alive(&state->keeper);
        (void)printf("%s: %zu GPUs, %s%s, %s\n", state->dir, state->n_gpus,
                     state->ttys ? "unused ttys" : "pseudo-terminals",
                     state->mappable ? ", nvidia-uvm can be mapped" : "", up ? "up" : "its keeper has ended");
        (void)printf("%8s  %-8s  %-13s  %3s  %10s  %s\n", "PID", "ROLE", "SHAPE", "GPU", "MEMORY", "STATE");
        if (sim_records_read(dir, &records) == 0)
                for (size_t i = 0; i < records.n; i++)
                        print_record(&records.v[i]);
        gf_vec_done(&records);
        return up ? 0 : 1;
}

static int cmd_down(int argc, char **argv)
{
        _cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
        _cleanup_close_ int dir = -1;
        int r;

        if (argc != 2)
                return usage(stderr);
        dir = state ? open_node_dir(argv[1], state) : -ENOMEM;
        if (dir == -ENOENT)
                return 0; /* down already */
        if (dir < 0)
                return failed(argv[1], dir);
        r = sim_end_all(dir, state);
        if (r < 0) {
                (void)fprintf(stderr, "gpufree-sim: %s: a process does not end; its files are kept\n", argv[1]);
                return 1;
        }
        r = sim_remove_all(dir);
        if (r < 0)
                return failed(argv[1], r);
        (void)rmdir(argv[1]); /* stays when something else is in it */
        return 0;
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                int (*run)(int argc, char **argv);
        } commands[] = { { "up", sim_cmd_up },
                         { "add", cmd_add },
                         { "busy", cmd_busy },
                         { "status", cmd_status },
                         { "down", cmd_down } };

        if (argc < 2)
                return usage(stderr);
        if (gf_streq(argv[1], "--help") || gf_streq(argv[1], "-h"))
                return usage(stdout);
        if (gf_streq(argv[1], "--version")) {
                (void)printf("gpufree-sim %s\n", GPUFREE_VERSION);
                return 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                if (gf_streq(argv[1], commands[i].name))
                        return commands[i].run(argc - 1, argv + 1);
        (void)fprintf(stderr, "gpufree-sim: \"%s\" is no command (up, add, busy, status, down)\n", argv[1]);
        return 2;
}

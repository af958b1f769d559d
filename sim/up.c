/* SPDX-License-Identifier: MIT */
#include "up.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "files.h"
#include "keeper.h"

#define MIB (1ull << 20)
/* What may be in a path that a shell splits and LD_LIBRARY_PATH carries. */
#define PLAIN_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%=,"

struct up {
        char path[PATH_MAX]; /* absolute */
        int dir;
        uint32_t n_gpus;
        bool shuffle, made;
        char *shapes;
        struct sim_keeper_options options;
        struct sim_state state;
};

_printf_(1, 2) static int say(const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        (void)fputs("gpufree-sim: ", stderr);
        (void)vfprintf(stderr, format, ap);
        (void)fputc('\n', stderr);
        va_end(ap);
        return -1;
}

/* As on an 8-GPU H200 machine; the UUIDs differ from node to node. */
static void describe(struct up *u)
{
        static const unsigned buses[] = { 0x18, 0x3a, 0x4c, 0x5d, 0x9a, 0xba, 0xcb, 0xdb };
        uint64_t hash = 0xcbf29ce484222325;
        struct sim_state *s = &u->state;

        for (const char *c = u->path; *c; c++)
                hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
        (void)snprintf(s->driver, sizeof(s->driver), "580.159.04");
        (void)snprintf(s->dir, sizeof(s->dir), "%s", u->path);
        s->n_gpus = u->n_gpus;
        for (uint32_t i = 0; i < u->n_gpus; i++) {
                struct sim_gpu *g = &s->gpus[i];

                g->index = (int)i;
                g->minor = (int)(u->shuffle ? u->n_gpus - 1 - i : i);
                g->total = 143771 * MIB;
                g->reserved = 615 * MIB;
                (void)snprintf(g->name, sizeof(g->name), "NVIDIA H200");
                (void)snprintf(g->pci, sizeof(g->pci), "%04x:%02x:00.0", i / 8, buses[i % 8]);
                (void)snprintf(g->uuid, sizeof(g->uuid), "GPU-%08x-%04x-4%03x-8%03x-%08x%04x",
                               (unsigned)(hash >> 32) ^ (i * 0x9e3779b1u), (unsigned)(hash & 0xffff),
                               (unsigned)(hash >> 16 & 0xfff), i, (unsigned)hash, i);
        }
}

static bool is_empty(int dir)
{
        _cleanup_closedir_ DIR *d = NULL;
        int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        d = fd >= 0 ? fdopendir(fd) : NULL;
        if (!d)
                return false;
        for (const struct dirent *e; (e = readdir(d));)
                if (!gf_streq(e->d_name, ".") && !gf_streq(e->d_name, ".."))
                        return false;
        return true;
}

static int prepare_directory(struct up *u, const char *given)
{
        struct stat st;

        u->made = mkdir(given, 0755) == 0;
        if (!u->made && errno != EEXIST)
                return say("%s: %s", given, strerror(errno));
        if (!realpath(given, u->path))
                return say("%s: %s", given, strerror(errno));
        u->dir = open(u->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (u->dir < 0 || fstat(u->dir, &st) < 0)
                return say("%s: %s", u->path, strerror(errno));
        if (st.st_uid != geteuid() || (st.st_mode & S_IWOTH) != 0)
                return say("%s: is not yours, or others may write to it", u->path);
        if (faccessat(u->dir, "state", F_OK, 0) == 0)
                return say("%s: a simulated node is there already; end it with: gpufree-sim down %s", given, given);
        if (!is_empty(u->dir))
                return say("%s: is not empty", given);
        if (u->path[strspn(u->path, PLAIN_CHARACTERS)] != '\0')
                return say("%s: the path goes through a shell and LD_LIBRARY_PATH: no spaces, colons or signs",
                           u->path);
        return 0;
}

static int install_parts(const struct up *u)
{
        static const struct {
                const char *name, *to;
                mode_t mode;
        } parts[] = {
                { "gpufree-sim-holder", "bin/gpufree-sim-holder", 0755 },
                { "libnvidia-ml.so.1", "lib/libnvidia-ml.so.1", 0755 },
                { "libcuda.so.1", "lib/libcuda.so.1", 0755 },
        };
        static const char *const directories[] = { "bin", "lib", "holders", "gone", "control" };

        for (size_t i = 0; i < ELEMENTSOF(directories); i++)
                if (mkdirat(u->dir, directories[i], 0755) < 0)
                        return say("%s/%s: %s", u->path, directories[i], strerror(errno));
        /* Whoever asks the stand-in library notes there when memory was first missed; numbers, nothing else. */
        if (fchmodat(u->dir, "gone", 01777, 0) < 0)
                return say("%s/gone: %s", u->path, strerror(errno));
        /* Holders of other users put their sockets there. */
        if (fchmodat(u->dir, "control", 01777, 0) < 0)
                return say("%s/control: %s", u->path, strerror(errno));
        for (size_t i = 0; i < ELEMENTSOF(parts); i++) {
                _cleanup_free_ char *from = sim_find_part(parts[i].name);
                int r = from ? sim_copy(AT_FDCWD, from, u->dir, parts[i].to, parts[i].mode) : -ENOENT;

                if (r < 0)
                        return say("%s, which belongs to gpufree-sim: %s", parts[i].name, strerror(-r));
        }
        return 0;
}

static int add(const struct up *u, const struct sim_params *params)
{
        struct sim_report report;
        int r = sim_keeper_add(u->dir, params, &report);

        if (r < 0)
                (void)say("%s", report.error);
        sim_report_done(&report);
        return r;
}

/* A stuck server, and everything that a list by name or by NVML alone gets wrong. */
static int add_story(const struct up *u)
{
        static const struct {
                const char *shape;
                int gpu;
                uint64_t memory;
                const char *name;
        } story[] = {
                { "workers", 0, 76083 * MIB, "sglang::scheduler_TP" },
                { "fork-heir", 4, 20998 * MIB, "python3 train.py --workers 1" },
                { "own-node", 5, 63386 * MIB, "python3 -m vllm.entrypoints.api_server" },
                { "own-table", 6, 31744 * MIB, "python3 embed.py" },
                { "service", 0, 0, "nvidia-persistenced --verbose" },
        };

        if (u->n_gpus < 8)
                return say("the story takes 8 GPUs");
        for (size_t i = 0; i < ELEMENTSOF(story); i++) {
                struct sim_params p;

                sim_params_init(&p, sim_shape_find(story[i].shape));
                (void)snprintf(p.name, sizeof(p.name), "%s", story[i].name);
                p.gpu = story[i].gpu;
                p.memory = story[i].memory;
                p.count = 4;
                p.zombie = 1;
                p.orphaned = true;
                if (add(u, &p) >= 0)
                        continue;
                if (!gf_streq(p.shape, "own-node"))
                        return -1;
                (void)say("the story goes on with plain in place of %s on GPU %d", p.shape, p.gpu);
                (void)snprintf(p.shape, sizeof(p.shape), "plain");
                if (add(u, &p) < 0)
                        return -1;
        }
        return 0;
}

static int add_shapes(const struct up *u)
{
        char *save = NULL;
        uint32_t next = 0;

        if (!u->shapes)
                return 0;
        if (gf_streq(u->shapes, "story"))
                return add_story(u);
        for (char *item = strtok_r(u->shapes, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
                char *colon = strchr(item, ':');
                const struct sim_shape *shape;
                struct sim_params p;
                uint32_t gpu = next;

                if (colon)
                        *colon++ = '\0';
                shape = sim_shape_find(item);
                if (!shape)
                        return say("--shapes: \"%s\" is no shape (see gpufree-sim add --help)", item);
                if (colon && gf_parse_u32(colon, &gpu) < 0)
                        return say("--shapes: \"%s\" is no GPU", colon);
                sim_params_init(&p, shape);
                p.gpu = gpu > INT_MAX ? INT_MAX : (int)gpu;
                if (add(u, &p) < 0)
                        return -1;
                next = (gpu + 1) % u->n_gpus;
        }
        return 0;
}

static void print_settings(const struct up *u)
{
        (void)printf("export GPUFREE_SIM_DIR='%s' LD_LIBRARY_PATH='%s/lib'\"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\" "
                     "GPUFREE_OPTS='--dev-root %s/dev'\n",
                     u->path, u->path, u->path);
}

static int bring_up(struct up *u, const char *given)
{
        char error[256];
        int r;

        if (prepare_directory(u, given) < 0)
                return 1;
        describe(u);
        if (u->shapes && strstr(u->shapes, "map"))
                u->options.mappable = true;
        if (install_parts(u) < 0)
                goto undo;
        r = sim_keeper_start(u->dir, &u->options, &u->state, error, sizeof(error));
        if (r < 0) {
                (void)say("%s: %s", u->path, error);
                goto undo;
        }
        if (add_shapes(u) < 0) {
                if (sim_end_all(u->dir, &u->state) < 0)
                        return 1;
                goto undo;
        }
        print_settings(u);
        return 0;
undo:
        (void)sim_remove_all(u->dir);
        if (u->made)
                (void)rmdir(u->path);
        return 1;
}

static int parse(int argc, char **argv, struct up *u)
{
        static const struct option options[] = {
                { "gpus", required_argument, NULL, 'g' }, { "shapes", required_argument, NULL, 's' },
                { "shuffle", no_argument, NULL, 'x' },    { "ptys", no_argument, NULL, 'p' },
                { "mappable", no_argument, NULL, 'm' },   { 0 },
        };
        int c;

        optind = 0;
        opterr = 0;
        while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
                switch (c) {
                case 'g':
                        if (gf_parse_u32(optarg, &u->n_gpus) < 0 || u->n_gpus == 0 || u->n_gpus > SIM_MAX_GPUS)
                                return say("--gpus: \"%s\" is no number of GPUs (1 to %d)", optarg, SIM_MAX_GPUS);
                        break;
                case 's':
                        free(u->shapes);
                        u->shapes = strdup(optarg);
                        if (!u->shapes)
                                return say("out of memory");
                        break;
                case 'x':
                        u->shuffle = true;
                        break;
                case 'm':
                        u->options.mappable = true;
                        break;
                case 'p':
                        u->options.ptys = true;
                        break;
                default:
                        return say("%s: no such option, or its value is missing (see --help)", argv[optind - 1]);
                }
        if (optind != argc - 1)
                return say("up: one directory, please");
        return 0;
}

int sim_cmd_up(int argc, char **argv)
{
        struct up *u = calloc(1, sizeof(*u));
        int r = 2;

        if (!u)
                return 1;
        u->dir = -1;
        u->n_gpus = 8;
        if (parse(argc, argv, u) == 0)
                r = bring_up(u, argv[optind]);
        (void)gf_close(u->dir);
        free(u->shapes);
        free(u);
        return r;
}

/* SPDX-License-Identifier: MIT */
#include "args.h"

#include <errno.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

void sim_args_print_shapes(void)
{
        (void)printf("Shapes:\n");
        for (size_t i = 0; i < sim_n_shapes; i++)
                (void)printf("  %-14s %s\n", sim_shapes[i].name, sim_shapes[i].help);
}

static void print_help(const char *program, bool dir_first)
{
        (void)printf("Usage: %s %s [OPTIONS]\n"
                     "Starts a process that really holds a stand-in device, and prints the PIDs.\n\n"
                     "  --gpu N         the GPU to hold (0)\n"
                     "  --memory SIZE   memory booked to it, like 20GiB\n"
                     "  --name TEXT     its command line; the first word is its comm\n"
                     "  --user USER     run as this user (name or number)\n"
                     "  --all-gpus      has the other GPUs open as well\n"
                     "  --count N       workers: how many\n"
                     "  --zombie N      workers: the leader of worker N exits\n"
                     "  --orphaned      workers: the launcher ends\n"
                     "  -l, --long      print PID, role and GPU, the dead too\n",
                     program, dir_first ? "DIR SHAPE" : "SHAPE [--dir DIR]");
        sim_args_print_shapes();
}

_printf_(2, 3) static int wrong(const char *program, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        (void)fprintf(stderr, "%s: ", program);
        (void)vfprintf(stderr, format, ap);
        (void)fputc('\n', stderr);
        va_end(ap);
        return -EINVAL;
}

static int parse_user(const char *text, uint32_t *ret)
{
        const struct passwd *pw;

        if (gf_parse_u32(text, ret) == 0)
                return *ret == SIM_NO_USER ? -EINVAL : 0;
        pw = getpwnam(text);
        if (!pw)
                return -EINVAL;
        *ret = pw->pw_uid;
        return 0;
}

enum {
        OPT_GPU = 256,
        OPT_MEMORY,
        OPT_NAME,
        OPT_USER,
        OPT_ALL_GPUS,
        OPT_COUNT,
        OPT_ZOMBIE,
        OPT_ORPHANED,
        OPT_DIR,
};

static const struct option options[] = {
        { "gpu", required_argument, NULL, OPT_GPU },
        { "memory", required_argument, NULL, OPT_MEMORY },
        { "name", required_argument, NULL, OPT_NAME },
        { "user", required_argument, NULL, OPT_USER },
        { "all-gpus", no_argument, NULL, OPT_ALL_GPUS },
        { "count", required_argument, NULL, OPT_COUNT },
        { "zombie", required_argument, NULL, OPT_ZOMBIE },
        { "orphaned", no_argument, NULL, OPT_ORPHANED },
        { "dir", required_argument, NULL, OPT_DIR },
        { "long", no_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
};

/* What was given, before the shape's own defaults are known. */
struct given {
        const char *dir, *memory, *name, *user, *gpu, *count, *zombie;
        bool all_gpus, orphaned;
};

static int collect(int argc, char **argv, const char *program, struct given *g, struct sim_args *args)
{
        int c;

        optind = 0; /* also resets GNU getopt */
        opterr = 0;
        while ((c = getopt_long(argc, argv, "lh", options, NULL)) != -1)
                switch (c) {
                case OPT_GPU:
                        g->gpu = optarg;
                        break;
                case OPT_MEMORY:
                        g->memory = optarg;
                        break;
                case OPT_NAME:
                        g->name = optarg;
                        break;
                case OPT_USER:
                        g->user = optarg;
                        break;
                case OPT_COUNT:
                        g->count = optarg;
                        break;
                case OPT_ZOMBIE:
                        g->zombie = optarg;
                        break;
                case OPT_DIR:
                        g->dir = optarg;
                        break;
                case OPT_ALL_GPUS:
                        g->all_gpus = true;
                        break;
                case OPT_ORPHANED:
                        g->orphaned = true;
                        break;
                case 'l':
                        args->detailed = true;
                        break;
                case 'h':
                        return 1;
                default:
                        return wrong(program, "%s: no such option, or its value is missing (see --help)",
                                     argv[optind - 1]);
                }
        return 0;
}

static int apply(const char *program, const struct given *g, struct sim_params *p)
{
        uint32_t number;

        p->all_gpus = g->all_gpus;
        p->orphaned = g->orphaned;
        if (g->gpu && (gf_parse_u32(g->gpu, &number) < 0 || number >= SIM_MAX_GPUS))
                return wrong(program, "--gpu: \"%s\" is no GPU (like 0)", g->gpu);
        if (g->gpu)
                p->gpu = (int)number;
        if (g->memory && gf_parse_size(g->memory, &p->memory) < 0)
                return wrong(program, "--memory: \"%s\" is no size (like 512MiB, 20GiB)", g->memory);
        if (g->user && parse_user(g->user, &p->user) < 0)
                return wrong(program, "--user: \"%s\" is no user here", g->user);
        if (g->user && (gf_streq(p->shape, "workers") || gf_streq(p->shape, "respawner")))
                return wrong(program, "--user: shape %s cannot run as another user", p->shape);
        if (g->count && (gf_parse_u32(g->count, &p->count) < 0 || p->count == 0 || p->count > SIM_MAX_GPUS))
                return wrong(program, "--count: \"%s\" is no number of workers (1 to %d)", g->count, SIM_MAX_GPUS);
        if (g->zombie && (gf_parse_u32(g->zombie, &number) < 0 || number >= SIM_MAX_GPUS))
                return wrong(program, "--zombie: \"%s\" is no worker's number (like 1)", g->zombie);
        if (g->zombie)
                p->zombie = (int)number;
        if (g->name && (strlen(g->name) >= sizeof(p->name) || strspn(g->name, " ") == strlen(g->name)))
                return wrong(program, "--name: 1 to %zu characters", sizeof(p->name) - 1);
        if (g->name)
                (void)snprintf(p->name, sizeof(p->name), "%s", g->name);
        if (gf_streq(p->shape, "service") && memchr(p->name, '/', strcspn(p->name, " ")))
                return wrong(program, "--name: the name of a service has no slash");
        return 0;
}

int sim_args_parse(int argc, char **argv, const char *program, bool dir_first, struct sim_args *ret_args)
{
        struct given g = { 0 };
        const struct sim_shape *shape;
        int r;

        memset(ret_args, 0, sizeof(*ret_args));
        r = collect(argc, argv, program, &g, ret_args);
        if (r > 0)
                print_help(program, dir_first);
        if (r != 0)
                return r;
        if (dir_first && optind < argc)
                g.dir = argv[optind++];
        else if (!dir_first && !g.dir)
                g.dir = getenv("GPUFREE_SIM_DIR");
        if (!g.dir)
                return wrong(program, "which node? Name its directory%s",
                             dir_first ? "" : ": --dir DIR, or GPUFREE_SIM_DIR");
        if (optind != argc - 1)
                return wrong(program, "%s", optind < argc ? "one shape at a time" : "which shape? (see --help)");
        shape = sim_shape_find(argv[optind]);
        if (!shape)
                return wrong(program, "\"%s\" is no shape (see --help)", argv[optind]);
        (void)snprintf(ret_args->dir, sizeof(ret_args->dir), "%s", g.dir);
        sim_params_init(&ret_args->params, shape);
        return apply(program, &g, &ret_args->params);
}

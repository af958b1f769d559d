/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"

static int by_value(const void *a, const void *b)
{
        const double *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

/* The value below which `share` of the sorted values lie. */
static double quantile(const double *sorted, size_t n, double share)
{
        double at = share * (double)(n - 1);
        size_t i = (size_t)at;

        if (i + 1 >= n)
                return sorted[n - 1];
        return sorted[i] + (sorted[i + 1] - sorted[i]) * (at - (double)i);
}

struct figures {
        double wall, cpu;        /* medians, ms */
        double ratio, low, high; /* to the first command, within a round: median, 10 % and 90 % */
};

static struct figures figures_of(const struct bench *b, size_t i)
{
        double wall[ROUNDS_MAX], cpu[ROUNDS_MAX], ratio[ROUNDS_MAX];
        size_t n = b->rounds;

        for (size_t r = 0; r < n; r++) {
                wall[r] = b->commands[i].samples[r].wall;
                cpu[r] = b->commands[i].samples[r].cpu;
                ratio[r] = wall[r] / b->commands[0].samples[r].wall;
        }
        qsort(wall, n, sizeof(*wall), by_value);
        qsort(cpu, n, sizeof(*cpu), by_value);
        qsort(ratio, n, sizeof(*ratio), by_value);
        return (struct figures){ .wall = quantile(wall, n, 0.5),
                                 .cpu = quantile(cpu, n, 0.5),
                                 .ratio = quantile(ratio, n, 0.5),
                                 .low = quantile(ratio, n, 0.1),
                                 .high = quantile(ratio, n, 0.9) };
}

static void about(const struct bench *b, FILE *out)
{
        struct utsname u;

        fprintf(out, "%u processes, %u descriptors and %u mappings each", b->processes, b->descriptors, b->mappings);
        if (b->giants > 0)
                fprintf(out, ", %u giants", b->giants);
        fprintf(out, "; medians of %u interleaved rounds", b->rounds);
        if (uname(&u) == 0)
                fprintf(out, "; Linux %s, %ld processors", u.release, sysconf(_SC_NPROCESSORS_ONLN));
}

void bench_table(const struct bench *b, FILE *out)
{
        about(b, out);
        fprintf(out, "\n%-22s %9s %9s %8s %16s %9s %10s\n", "command", "wall ms", "cpu ms", "ratio", "10 % to 90 %",
                "RSS KiB", "slab KiB");
        for (size_t i = 0; i < b->n; i++) {
                const struct command *c = &b->commands[i];
                struct figures f = figures_of(b, i);

                fprintf(out, "%-22s %9.1f %9.1f %8.3f %7.3f to %.3f %9ld ", c->name, f.wall, f.cpu, f.ratio, f.low,
                        f.high, c->rss_kib);
                if (c->slab_kib != LONG_MIN)
                        fprintf(out, "%10ld\n", c->slab_kib);
                else
                        fprintf(out, "%10s\n", "-");
        }
}

int bench_write(const struct bench *b, const char *path)
{
        _cleanup_fclose_ FILE *out = fopen(path, "we");

        if (!out)
                return -1;
        about(b, out);
        fprintf(out, "\n");
        for (size_t i = 0; i < b->n; i++) {
                struct figures f = figures_of(b, i);

                fprintf(out, "%s\t%.1f\t%.1f\t%.4f\t%.4f\t%.4f\t%ld\t%ld\n", b->commands[i].name, f.wall, f.cpu,
                        f.ratio, f.low, f.high, b->commands[i].rss_kib, b->commands[i].slab_kib);
        }
        return fflush(out) == 0 ? 0 : -1;
}

/* SPDX-License-Identifier: MIT */
/* The scan alone, without the rest of gpufree: `bench-scan bpf|proc NODE…` prints PIDs, as fuser does. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "scan/scan.h"

#define NODES_MAX 64

static int by_number(const void *a, const void *b)
{
        const dev_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

int main(int argc, char **argv)
{
        _cleanup_(gf_scan_done) struct gf_scan scan = { 0 };
        dev_t chr[NODES_MAX];
        struct gf_wanted wanted = { .chr = chr, .dmabufs = true };
        struct gf_env env;
        pid_t last = 0;
        int r;

        gf_env_init(&env);
        if (argc < 3 || argc > 2 + NODES_MAX || gf_env_defaults(&env) < 0)
                return 2;
        env.scan_method = gf_streq(argv[1], "proc") ? GPUFREE_SCAN_PROC : GPUFREE_SCAN_BPF;
        for (int i = 2; i < argc; i++) {
                struct stat st;

                if (stat(argv[i], &st) < 0 || !S_ISCHR(st.st_mode)) {
                        fprintf(stderr, "bench-scan: %s: no character device\n", argv[i]);
                        return 2;
                }
                chr[wanted.n_chr++] = st.st_rdev;
        }
        qsort(chr, wanted.n_chr, sizeof(*chr), by_number);
        r = gf_scan_run(&env, &wanted, &scan);
        if (r < 0) {
                fprintf(stderr, "bench-scan: %s\n", env.error ? env.error : strerror(-r));
                gf_env_done(&env);
                return 1;
        }
        for (size_t i = 0; i < scan.hits.n; i++)
                if (scan.hits.v[i].id.pid != last)
                        printf("%d\n", last = scan.hits.v[i].id.pid);
        gf_env_done(&env);
        return 0;
}

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A fuzz target: libFuzzer calls LLVMFuzzerTestOneInput(). Built without libFuzzer (GPUFREE_REPLAY), the same file is
 * a test that feeds it every file of the directories given, whole and cut short at each length.
 */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef GPUFREE_REPLAY
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLAY_MAX (64U * 1024)

static int replay_file(const char *dir, const char *name)
{
        char path[4096];
        uint8_t *data = malloc(REPLAY_MAX);
        size_t n;
        FILE *f;

        (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
        f = fopen(path, "re");
        if (!f || !data) {
                perror(path);
                exit(1);
        }
        n = fread(data, 1, REPLAY_MAX, f);
        (void)fclose(f);
        for (size_t k = 0; k <= n; k++) {
                uint8_t *exact = malloc(k ? k : 1); /* of that length, so that a read beyond it is seen */

                if (!exact)
                        exit(1);
                memcpy(exact, data, k);
                (void)LLVMFuzzerTestOneInput(exact, k);
                free(exact);
        }
        free(data);
        return 1;
}

int main(int argc, char **argv)
{
        int files = 0;

        for (int i = 1; i < argc; i++) {
                DIR *d = opendir(argv[i]);
                struct dirent *e;

                if (!d) {
                        perror(argv[i]);
                        return 1;
                }
                while ((e = readdir(d)))
                        if (e->d_name[0] != '.')
                                files += replay_file(argv[i], e->d_name);
                (void)closedir(d);
        }
        (void)printf("%d files\n", files);
        return files > 0 ? 0 : 1; /* an empty corpus proves nothing */
}
#endif

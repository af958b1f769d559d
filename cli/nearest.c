/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "options.h"

#define WORD_MAX 24

/* How many letters to change, add, leave out or swap. */
static size_t distance(const char *a, const char *b)
{
        size_t rows[3][WORD_MAX + 1], n = strlen(a), m = strlen(b);

        if (n > WORD_MAX || m > WORD_MAX)
                return WORD_MAX;
        for (size_t j = 0; j <= m; j++)
                rows[0][j] = j;
        for (size_t i = 1; i <= n; i++) {
                size_t *now = rows[i % 3], *before = rows[(i - 1) % 3], *two = rows[(i + 1) % 3];

                now[0] = i;
                for (size_t j = 1; j <= m; j++) {
                        size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);

                        if (before[j] + 1 < best)
                                best = before[j] + 1;
                        if (now[j - 1] + 1 < best)
                                best = now[j - 1] + 1;
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two[j - 2] + 1 < best)
                                best = two[j - 2] + 1;
                        now[j] = best;
                }
        }
        return rows[n % 3][m];
}

const char *cli_nearest(const char *word, const char *const *candidates, size_t n)
{
        const char *nearest = NULL;
        size_t best = strlen(word) > 4 ? 3 : 2; /* not near enough from here on */

        for (size_t i = 0; i < n; i++) {
                size_t d = distance(word, candidates[i]);

                if (strlen(word) >= 2 && gf_startswith(candidates[i], word))
                        d = 1;
                if (d < best) {
                        best = d;
                        nearest = candidates[i];
                }
        }
        return nearest;
}

/* SPDX-License-Identifier: MIT */
/* Draws what bench-run measured: `bench-picture FIGURES > picture.svg`. Bars are wall time as a share of the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define LEFT 190
#define WIDTH 420
#define ROW 30
#define TOP 58

struct bar {
        char name[64];
        double wall, ratio;
        long rss;
};

static void text(const char *s)
{
        for (; *s; s++)
                if (*s == '&')
                        fputs("&amp;", stdout);
                else if (*s == '<')
                        fputs("&lt;", stdout);
                else
                        putchar(*s);
}

static size_t read_bars(FILE *in, char *title, size_t size, struct bar *bars, size_t max)
{
        char line[512];
        size_t n = 0;

        if (!fgets(title, (int)size, in))
                return 0;
        title[strcspn(title, "\n")] = '\0';
        while (n < max && fgets(line, sizeof(line), in))
                if (sscanf(line, "%63[^\t]\t%lf\t%*f\t%lf\t%*f\t%*f\t%ld", bars[n].name, &bars[n].wall, &bars[n].ratio,
                           &bars[n].rss) == 4)
                        n++;
        return n;
}

static void draw_bar(const struct bar *bar, size_t row, double most)
{
        double width = bar->ratio / most * WIDTH;
        int y = TOP + (int)row * ROW;

        printf("  <text class=\"n\" x=\"%d\" y=\"%d\">", LEFT - 10, y + 15);
        text(bar->name);
        printf("</text>\n  <rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"20\" rx=\"3\"/>\n",
               strncmp(bar->name, "gpufree", 7) == 0 ? "g" : "o", LEFT, y, width < 2 ? 2 : width);
        printf("  <text class=\"v\" x=\"%.1f\" y=\"%d\">%.*f × &#183; %.0f ms</text>\n", LEFT + width + 8, y + 15,
               bar->ratio < 0.2 ? 3 : 2, bar->ratio, bar->wall);
}

int main(int argc, char **argv)
{
        _cleanup_fclose_ FILE *in = argc == 2 ? fopen(argv[1], "re") : NULL;
        struct bar bars[COMMANDS_MAX];
        char title[512];
        double most = 0;
        size_t n;
        int height;

        if (!in) {
                fprintf(stderr, "usage: bench-picture FIGURES > picture.svg\n");
                return 2;
        }
        n = read_bars(in, title, sizeof(title), bars, ELEMENTSOF(bars));
        if (n == 0) {
                fprintf(stderr, "bench-picture: %s: no figures in it\n", argv[1]);
                return 1;
        }
        for (size_t i = 0; i < n; i++)
                most = bars[i].ratio > most ? bars[i].ratio : most;
        height = TOP + (int)n * ROW + 10;
        printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 %d\" width=\"760\" height=\"%d\" "
               "role=\"img\" aria-label=\"Time to find who holds the GPUs\">\n",
               height, height);
        printf("  <style>text{font:13px system-ui,sans-serif;fill:#1f2328}.n{text-anchor:end}.t{font-size:16px;"
               "font-weight:600}.s,.v{fill:#59636e}.s{font-size:11px}.g{fill:#2da44e}.o{fill:#8c959f}"
               "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s,.v{fill:#9198a1}.g{fill:#3fb950}"
               ".o{fill:#656c76}}</style>\n");
        printf("  <text class=\"t\" x=\"10\" y=\"22\">Time to find who holds the GPUs, as a share of ");
        text(bars[0].name);
        printf("</text>\n  <text class=\"s\" x=\"10\" y=\"42\">");
        text(title);
        printf("</text>\n");
        for (size_t i = 0; i < n; i++)
                draw_bar(&bars[i], i, most);
        printf("</svg>\n");
        return 0;
}

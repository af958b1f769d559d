/* SPDX-License-Identifier: MIT */
#include "parse/drm.h"

#include <string.h>

#include "gpufree.h"
#include "parse/text.h"

/* How good a figure is: what is resident, what older drivers call memory, what is allocated in all. */
enum { TOTAL, MEMORY, RESIDENT, KINDS };

static void skip_blanks(struct gf_text *t)
{
        while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
                t->p++;
}

static void copy_value(struct gf_text line, char *buf, size_t size)
{
        size_t n;

        skip_blanks(&line);
        n = (size_t)(line.end - line.p);
        if (n >= size)
                n = 0; /* no such name: better none than half */
        memcpy(buf, line.p, n);
        buf[n] = '\0';
}

/* "vram0: 123 KiB": the device's own memory, in bytes. */
static bool take_local(struct gf_text line, uint64_t *ret_bytes)
{
        static const struct {
                const char *name;
                unsigned shift;
        } units[] = { { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 }, { "", 0 } };
        struct gf_text region;
        uint64_t number;

        if (!gf_text_until(&line, ':', &region) || (!gf_text_word(&region, "vram") && !gf_text_word(&region, "local")))
                return false;
        for (; region.p < region.end; region.p++)
                if (*region.p < '0' || *region.p > '9')
                        return false;
        skip_blanks(&line);
        if (!gf_text_u64(&line, 10, &number))
                return false;
        skip_blanks(&line);
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (gf_text_word(&line, units[i].name)) {
                        *ret_bytes = number > UINT64_MAX >> (units[i].shift + 1) ? GPUFREE_UNKNOWN
                                                                                 : number << units[i].shift;
                        return true;
                }
        return false;
}

static void add(uint64_t *sum, uint64_t bytes)
{
        if (*sum == GPUFREE_UNKNOWN)
                *sum = bytes; /* the first region */
        else if (bytes == GPUFREE_UNKNOWN || __builtin_add_overflow(*sum, bytes, sum))
                *sum = GPUFREE_UNKNOWN;
}

bool gf_parse_drm_fdinfo(const char *text, size_t length, struct gf_drm_fdinfo *ret)
{
        static const char *const words[KINDS] = { "drm-total-", "drm-memory-", "drm-resident-" };
        struct gf_drm_fdinfo info = { .local = GPUFREE_UNKNOWN };
        uint64_t sums[KINDS] = { GPUFREE_UNKNOWN, GPUFREE_UNKNOWN, GPUFREE_UNKNOWN };
        struct gf_text t = { text, text + length }, line;

        while (gf_text_line(&t, &line)) {
                if (gf_text_word(&line, "drm-driver:"))
                        copy_value(line, info.driver, sizeof(info.driver));
                else if (gf_text_word(&line, "drm-pdev:"))
                        copy_value(line, info.pdev, sizeof(info.pdev));
                else if (gf_text_word(&line, "drm-client-id:")) {
                        skip_blanks(&line);
                        info.has_client = gf_text_u64(&line, 10, &info.client);
                }
                for (size_t i = 0; i < KINDS; i++) {
                        struct gf_text rest = line;
                        uint64_t bytes;

                        if (gf_text_word(&rest, words[i]) && take_local(rest, &bytes))
                                add(&sums[i], bytes);
                }
        }
        for (size_t i = KINDS; i-- > 0 && info.local == GPUFREE_UNKNOWN;)
                info.local = sums[i];
        if (!info.driver[0])
                return false;
        *ret = info;
        return true;
}

/* SPDX-License-Identifier: MIT */
#include "parse/fdinfo.h"

#include <string.h>

#include "gpufree.h"
#include "parse/text.h"

static void skip_blanks(struct gf_text *t)
{
        while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
                t->p++;
}

void gf_parse_fdinfo(const char *text, size_t length, struct gf_fdinfo *ret)
{
        struct gf_text t = { text, text + length }, line;
        struct gf_fdinfo info = { .size = GPUFREE_UNKNOWN };

        while (gf_text_line(&t, &line)) {
                if (!info.has_flags && gf_text_word(&line, "flags:")) {
                        skip_blanks(&line);
                        info.has_flags = gf_text_u64(&line, 8, &info.flags);
                } else if (!info.exporter[0] && gf_text_word(&line, "exp_name:")) {
                        size_t n;

                        skip_blanks(&line);
                        n = (size_t)(line.end - line.p);
                        if (n >= sizeof(info.exporter))
                                n = sizeof(info.exporter) - 1;
                        memcpy(info.exporter, line.p, n);
                } else if (info.size == GPUFREE_UNKNOWN && gf_text_word(&line, "size:")) {
                        skip_blanks(&line);
                        (void)gf_text_u64(&line, 10, &info.size);
                } else if (gf_text_word(&line, "scm_fds:")) {
                        skip_blanks(&line);
                        (void)gf_text_u64(&line, 10, &info.scm_fds);
                }
        }
        *ret = info;
}

bool gf_ring_line(struct gf_ring_text *ring, const char *line, size_t length, const char **ret_name, size_t *ret_length)
{
        struct gf_text t = { line, line + length };
        uint64_t slot;

        if (!ring->in_files) {
                if (!ring->seen && gf_text_word(&t, "UserFiles:")) {
                        skip_blanks(&t);
                        (void)gf_text_u64(&t, 10, &ring->slots);
                        ring->seen = ring->in_files = true;
                }
                return false;
        }
        skip_blanks(&t);
        if (!gf_text_u64(&t, 10, &slot) || !gf_text_word(&t, ": ")) {
                ring->in_files = false;
                return false;
        }
        ring->lines++;
        if (t.p >= t.end || (t.end - t.p == 6 && memcmp(t.p, "<none>", 6) == 0))
                return false;
        *ret_name = t.p;
        *ret_length = (size_t)(t.end - t.p);
        return true;
}

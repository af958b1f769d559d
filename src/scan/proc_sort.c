/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "scan/dmabuf.h"
#include "scan/proc.h"

#define BY(field)                                                                                                      \
        if (x->field != y->field)                                                                                      \
        return x->field < y->field ? -1 : 1

static int compare_hits(const void *a, const void *b)
{
        const struct gf_hit *x = a, *y = b;

        BY(id.pid);
        BY(tid);
        BY(via);
        BY(fd);
        BY(rdev);
        BY(node_ino);
        return 0;
}

static int compare_refused(const void *a, const void *b)
{
        const struct gf_refused *x = a, *y = b;

        BY(pid);
        return 0;
}

static int compare_opaque(const void *a, const void *b)
{
        const struct gf_proc_opaque *x = a, *y = b;

        BY(ino);
        BY(pid);
        return 0;
}

static int compare_pids(const void *a, const void *b)
{
        const pid_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static void sort(void *v, size_t n, size_t size, int (*compare)(const void *, const void *))
{
        if (n > 1)
                qsort(v, n, size, compare);
}

/* A mapping does not say who exported its dma-buf; a descriptor of the same buffer, in any process, does. */
static int compare_dmabufs(const void *a, const void *b)
{
        const struct gf_hit *x = a, *y = b;

        BY(node_ino);
        return strcmp(y->exporter, x->exporter); /* those with a name first */
}

static void name_dmabufs(struct gf_scan *scan)
{
        size_t n = 0, first;

        /* To the front, by buffer. */
        for (size_t i = 0; i < scan->hits.n; i++)
                if (scan->hits.v[i].via == GPUFREE_VIA_DMABUF) {
                        struct gf_hit hit = scan->hits.v[i];

                        scan->hits.v[i] = scan->hits.v[n];
                        scan->hits.v[n++] = hit;
                }
        sort(scan->hits.v, n, sizeof(*scan->hits.v), compare_dmabufs);
        first = 0;
        for (size_t i = 1; i < n; i++) {
                if (scan->hits.v[i].node_ino != scan->hits.v[first].node_ino) {
                        first = i;
                } else if (!scan->hits.v[i].exporter[0]) {
                        memcpy(scan->hits.v[i].exporter, scan->hits.v[first].exporter,
                               sizeof(scan->hits.v[i].exporter));
                        scan->hits.v[i].bytes = scan->hits.v[first].bytes;
                }
        }
        /* Out with those of cameras and plain memory. */
        for (size_t i = first = 0; i < scan->hits.n; i++)
                if (i >= n || gf_dmabuf_is_gpu(scan->hits.v[i].exporter))
                        scan->hits.v[first++] = scan->hits.v[i];
        scan->hits.n = first;
}

static int gather_opaque(struct gf_proc_job *job)
{
        struct gf_scan *scan = &job->scan;
        size_t n = 0;

        sort(job->opaque.v, job->opaque.n, sizeof(*job->opaque.v), compare_opaque);
        for (size_t i = 0; i < job->opaque.n; i++) {
                pid_t *slot = gf_vec_add(&scan->opaque);

                if (!slot)
                        return -ENOMEM;
                *slot = job->opaque.v[i].pid;
                if (i == 0 || job->opaque.v[i].ino != job->opaque.v[i - 1].ino)
                        scan->opaque_queues++;
        }
        sort(scan->opaque.v, scan->opaque.n, sizeof(*scan->opaque.v), compare_pids);
        for (size_t i = 0; i < scan->opaque.n; i++)
                if (i == 0 || scan->opaque.v[i] != scan->opaque.v[n - 1])
                        scan->opaque.v[n++] = scan->opaque.v[i];
        scan->opaque.n = n;
        return 0;
}

int gf_proc_sort(struct gf_proc_job *job)
{
        struct gf_scan *scan = &job->scan;

        name_dmabufs(scan);
        sort(scan->hits.v, scan->hits.n, sizeof(*scan->hits.v), compare_hits);
        sort(scan->refused.v, scan->refused.n, sizeof(*scan->refused.v), compare_refused);
        return gather_opaque(job);
}

/* SPDX-License-Identifier: MIT */
/*
 * What the stand-in libcuda.so.1 (cuda.c) asks a holder: a line a connection, on a socket of the node's control/.
 *
 *     state | lock | checkpoint MS KEEP | restore MS [OLD NEW]… | unlock
 *
 * and the answer "CODE STATE". The holder really closes and opens its devices. What it began it ends, whether or not
 * the one who asked is still there; a holder that is stopped answers nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "holder.h"
#include "sim_cuda.h"

#define FDS_MAX 1024
#define GROWTH (64U << 20) /* of the resident memory while it is copied, for all to see */
#define STEPS 16

void holder_control(struct holder *h)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        h->control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/control/%d", h->dir,
                       (int)getpid());
        if (h->control < 0 || bind(h->control, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
            listen(h->control, 16) < 0)
                holder_fail(h, "control socket: %s", strerror(errno));
}

struct patient {
        struct holder *h;
        int state;
        char *copy; /* what was on the GPU */
};

static void pass(uint64_t ms)
{
        struct timespec t = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };

        while (nanosleep(&t, &t) < 0 && errno == EINTR)
                ;
}

/* Takes `ms`; resident memory grows with it. */
static void grow(struct patient *p, uint64_t ms)
{
        p->copy = mmap(NULL, GROWTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p->copy == MAP_FAILED)
                p->copy = NULL;
        for (unsigned i = 0; i < STEPS; i++) {
                if (p->copy)
                        memset(p->copy + (size_t)i * (GROWTH / STEPS), 1, GROWTH / STEPS);
                pass(ms / STEPS);
        }
}

static void shrink(struct patient *p, uint64_t ms)
{
        for (unsigned i = 0; i < STEPS; i++) {
                if (p->copy)
                        (void)madvise(p->copy + (size_t)i * (GROWTH / STEPS), GROWTH / STEPS, MADV_DONTNEED);
                pass(ms / STEPS);
        }
        if (p->copy)
                (void)munmap(p->copy, GROWTH);
        p->copy = NULL;
}

/* Every device of the node that is open, but one where `keep` says so. */
static void close_devices(const struct patient *p, bool keep)
{
        for (int fd = 3; fd < FDS_MAX; fd++) {
                struct stat st;

                if (fd == p->h->control || fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode))
                        continue;
                if (keep)
                        keep = false;
                else
                        (void)close(fd);
        }
}

static int take_gpu(struct holder *h, const char *old, const char *new)
{
        if (!gf_streq(h->state.gpus[h->params.gpu].uuid, old))
                return 0;
        for (size_t i = 0; i < h->state.n_gpus; i++)
                if (gf_streq(h->state.gpus[i].uuid, new)) {
                        h->params.gpu = (int)i;
                        h->minor = h->state.gpus[i].minor;
                        (void)snprintf(h->gpu, sizeof(h->gpu), "nvidia%d", h->minor);
                        return 0;
                }
        return SIM_CUDA_INVALID_DEVICE;
}

/* The booking follows the process to another GPU. */
static int move_record(const struct holder *h)
{
        _cleanup_close_ int dir = open(h->state.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        sim_records records = { 0 };
        struct sim_id self;
        int r;

        if (dir < 0 || sim_identify(getpid(), &self) < 0)
                return -EIO;
        r = sim_records_read(dir, &records);
        for (size_t i = 0; r >= 0 && i < records.n; i++)
                if (records.v[i].id.pid == self.pid && records.v[i].id.start == self.start) {
                        records.v[i].gpu = h->params.gpu;
                        for (size_t k = 0; k < records.v[i].n_keepers; k++)
                                if (records.v[i].keepers[k].id.pid == self.pid)
                                        (void)holder_check_gpu(h, records.v[i].keepers[k].check);
                        r = sim_record_write(dir, &records.v[i]);
                }
        gf_vec_done(&records);
        return r;
}

static int restore(struct patient *p, char *pairs)
{
        struct holder *h = p->h;
        char *save = NULL;
        const char *ms = strtok_r(pairs, " ", &save), *old;
        int before = h->params.gpu, r = 0;
        bool known = false, given = false;
        uint64_t time_ms = 0;

        if (p->state != SIM_CUDA_CHECKPOINTED)
                return SIM_CUDA_ILLEGAL_STATE;
        if (!ms || gf_parse_u64(ms, &time_ms) < 0)
                return SIM_CUDA_INVALID_VALUE;
        while (r == 0 && (old = strtok_r(NULL, " ", &save))) {
                const char *new = strtok_r(NULL, " ", &save);

                if (!new)
                        return SIM_CUDA_INVALID_VALUE;
                given = true;
                if (known || !gf_streq(h->state.gpus[before].uuid, old))
                        continue;
                known = true;
                r = take_gpu(h, old, new);
        }
        if (r != 0 || (given && !known)) /* the pairs must name every GPU that was checkpointed */
                return r != 0 ? r : SIM_CUDA_INVALID_VALUE;
        h->dev = -1;
        {
                _cleanup_free_ char *path = gf_asprintf("%s/dev", h->state.dir);

                h->dev = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        }
        if (h->dev < 0)
                return SIM_CUDA_UNKNOWN;
        shrink(p, time_ms);
        holder_open_all(h);
        if (h->params.gpu != before && move_record(h) < 0)
                r = SIM_CUDA_UNKNOWN;
        h->dev = gf_close(h->dev);
        p->state = SIM_CUDA_LOCKED;
        return r;
}

static int checkpoint(struct patient *p, char *arguments)
{
        char *save = NULL;
        const char *ms = strtok_r(arguments, " ", &save), *keep = strtok_r(NULL, " ", &save);
        uint64_t time_ms;

        if (p->state != SIM_CUDA_LOCKED)
                return SIM_CUDA_ILLEGAL_STATE;
        if (!ms || !keep || gf_parse_u64(ms, &time_ms) < 0)
                return SIM_CUDA_INVALID_VALUE;
        grow(p, time_ms);
        close_devices(p, gf_streq(keep, "1"));
        p->state = SIM_CUDA_CHECKPOINTED;
        return SIM_CUDA_SUCCESS;
}

static int change(struct patient *p, int from, int to)
{
        if (p->state != from)
                return SIM_CUDA_ILLEGAL_STATE;
        p->state = to;
        return SIM_CUDA_SUCCESS;
}

static int obey(struct patient *p, char *line)
{
        if (gf_streq(line, "state"))
                return SIM_CUDA_SUCCESS;
        if (gf_streq(line, "lock"))
                return change(p, SIM_CUDA_RUNNING, SIM_CUDA_LOCKED);
        if (gf_streq(line, "unlock"))
                return change(p, SIM_CUDA_LOCKED, SIM_CUDA_RUNNING);
        if (gf_startswith(line, "checkpoint "))
                return checkpoint(p, line + strlen("checkpoint "));
        if (gf_startswith(line, "restore "))
                return restore(p, line + strlen("restore "));
        return SIM_CUDA_INVALID_VALUE;
}

static void serve_one(struct patient *p, int client)
{
        char line[4096], answer[64];
        size_t fill = 0;
        int code;

        while (fill < sizeof(line) - 1) {
                ssize_t n = read(client, line + fill, sizeof(line) - 1 - fill);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return;
                fill += (size_t)n;
                if (line[fill - 1] == '\n')
                        break;
        }
        line[fill] = '\0';
        line[strcspn(line, "\n")] = '\0';
        code = obey(p, line);
        fill = (size_t)snprintf(answer, sizeof(answer), "%d %d\n", code, p->state);
        (void)send(client, answer, fill, MSG_NOSIGNAL);
}

void holder_serve(struct holder *h)
{
        struct patient p = { .h = h, .state = SIM_CUDA_RUNNING };

        for (;;) {
                int client = accept4(h->control, NULL, NULL, SOCK_CLOEXEC);

                if (client < 0)
                        continue;
                serve_one(&p, client);
                (void)close(client);
        }
}

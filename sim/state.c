/* SPDX-License-Identifier: MIT */
#include "state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/str.h"

#define STATE_MAGIC "gpufree-sim 1"

/* The next word of a line, or "" at its end. */
static char *word(char **line)
{
        char *w = *line + strspn(*line, " ");

        *line = w + strcspn(w, " ");
        if (**line != '\0')
                *(*line)++ = '\0';
        return w;
}

static void copy(char *dst, size_t size, const char *src)
{
        (void)snprintf(dst, size, "%s", src);
}

static int parse_int(const char *text, int *ret)
{
        uint32_t value;

        if (gf_streq(text, "-")) {
                *ret = -1;
                return 0;
        }
        if (gf_parse_u32(text, &value) < 0 || value > INT32_MAX)
                return -EBADMSG;
        *ret = (int)value;
        return 0;
}

static int parse_id(char **line, struct sim_id *ret)
{
        if (gf_parse_pid(word(line), &ret->pid) < 0 || gf_parse_u64(word(line), &ret->start) < 0)
                return -EBADMSG;
        return 0;
}

static int parse_gpu(char *line, struct sim_state *state)
{
        struct sim_gpu *gpu = &state->gpus[state->n_gpus];

        if (state->n_gpus == SIM_MAX_GPUS || parse_int(word(&line), &gpu->index) < 0 ||
            parse_int(word(&line), &gpu->minor) < 0 || gf_parse_u64(word(&line), &gpu->total) < 0 ||
            gf_parse_u64(word(&line), &gpu->reserved) < 0)
                return -EBADMSG;
        copy(gpu->uuid, sizeof(gpu->uuid), word(&line));
        copy(gpu->pci, sizeof(gpu->pci), word(&line));
        copy(gpu->name, sizeof(gpu->name), line);
        state->n_gpus++;
        return 0;
}

int sim_state_read(int at, struct sim_state *ret_state)
{
        _cleanup_free_ char *text = malloc(SIM_TEXT_MAX);
        _cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
        char *save = NULL, *line;
        ssize_t n;
        int r = 0;

        if (!text || !state)
                return -ENOMEM;
        n = sim_read(at, "state", text, SIM_TEXT_MAX);
        if (n < 0)
                return (int)n;
        line = strtok_r(text, "\n", &save);
        if (!gf_streq(line, STATE_MAGIC))
                return -EBADMSG;
        while (r >= 0 && (line = strtok_r(NULL, "\n", &save))) {
                const char *key = word(&line);

                if (gf_streq(key, "dir"))
                        copy(state->dir, sizeof(state->dir), line);
                else if (gf_streq(key, "driver"))
                        copy(state->driver, sizeof(state->driver), line);
                else if (gf_streq(key, "nodes"))
                        state->ttys = gf_streq(line, "tty");
                else if (gf_streq(key, "mappable"))
                        state->mappable = gf_streq(line, "1");
                else if (gf_streq(key, "keeper"))
                        r = parse_id(&line, &state->keeper);
                else if (gf_streq(key, "gpu"))
                        r = parse_gpu(line, state);
        }
        if (r < 0)
                return r;
        *ret_state = *state;
        return 0;
}

int sim_state_write(int at, const struct sim_state *state)
{
        struct gf_str s = { 0 };
        _cleanup_free_ char *text = NULL;
        int r;

        gf_str_addf(&s, "%s\ndir %s\ndriver %s\nnodes %s\nmappable %d\nkeeper %d %llu\n", STATE_MAGIC, state->dir,
                    state->driver, state->ttys ? "tty" : "pty", state->mappable, (int)state->keeper.pid,
                    (unsigned long long)state->keeper.start);
        for (size_t i = 0; i < state->n_gpus; i++) {
                const struct sim_gpu *g = &state->gpus[i];

                gf_str_addf(&s, "gpu %d %d %llu %llu %s %s %s\n", g->index, g->minor, (unsigned long long)g->total,
                            (unsigned long long)g->reserved, g->uuid, g->pci, g->name);
        }
        r = gf_str_take(&s, &text);
        if (r < 0)
                return r;
        return sim_write(at, "state", text, strlen(text));
}

int sim_record_write(int at, const struct sim_record *record)
{
        struct gf_str s = { 0 };
        _cleanup_free_ char *text = NULL, *path = NULL;
        int r;

        gf_str_addf(&s, "shape %s\nrole %s\n", record->shape, record->role);
        if (record->gpu >= 0)
                gf_str_addf(&s, "gpu %d\n", record->gpu);
        gf_str_addf(&s, "memory %llu\nlisted %d\n", (unsigned long long)record->memory, record->listed);
        for (size_t i = 0; i < record->n_keepers; i++)
                gf_str_addf(&s, "keeper %d %llu %s\n", (int)record->keepers[i].id.pid,
                            (unsigned long long)record->keepers[i].id.start, record->keepers[i].check);
        r = gf_str_take(&s, &text);
        if (r < 0)
                return r;
        path = gf_asprintf("holders/%d.%llu", (int)record->id.pid, (unsigned long long)record->id.start);
        if (!path)
                return -ENOMEM;
        return sim_write(at, path, text, strlen(text));
}

static int parse_record(char *text, struct sim_record *record)
{
        char *save = NULL, *line;
        int r = 0;

        record->gpu = -1;
        for (line = strtok_r(text, "\n", &save); r >= 0 && line; line = strtok_r(NULL, "\n", &save)) {
                const char *key = word(&line);

                if (gf_streq(key, "shape"))
                        copy(record->shape, sizeof(record->shape), line);
                else if (gf_streq(key, "role"))
                        copy(record->role, sizeof(record->role), line);
                else if (gf_streq(key, "gpu"))
                        r = parse_int(line, &record->gpu);
                else if (gf_streq(key, "memory"))
                        r = gf_parse_u64(line, &record->memory);
                else if (gf_streq(key, "listed"))
                        record->listed = gf_streq(line, "1");
                else if (gf_streq(key, "keeper") && record->n_keepers < SIM_MAX_KEEPERS) {
                        struct sim_keeper *k = &record->keepers[record->n_keepers++];

                        r = parse_id(&line, &k->id);
                        copy(k->check, sizeof(k->check), word(&line));
                }
        }
        return r;
}

/* "PID.START" */
static int parse_name(const char *name, struct sim_id *ret)
{
        char buf[64], *dot;

        if (strlen(name) >= sizeof(buf))
                return -EINVAL;
        copy(buf, sizeof(buf), name);
        dot = strchr(buf, '.');
        if (!dot)
                return -EINVAL;
        *dot = '\0';
        if (gf_parse_pid(buf, &ret->pid) < 0 || gf_parse_u64(dot + 1, &ret->start) < 0)
                return -EINVAL;
        return 0;
}

static int compare(const void *a, const void *b)
{
        const struct sim_record *x = a, *y = b;

        if (x->id.start != y->id.start)
                return x->id.start < y->id.start ? -1 : 1;
        return (x->id.pid > y->id.pid) - (x->id.pid < y->id.pid);
}

int sim_records_read(int at, sim_records *ret_records)
{
        sim_records records = { 0 };
        _cleanup_closedir_ DIR *dir = NULL;
        _cleanup_close_ int fd = openat(at, "holders", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        dir = fdopendir(fd);
        if (!dir)
                return -errno;
        fd = -1;
        for (const struct dirent *e; (e = readdir(dir));) {
                char text[2048];
                struct sim_record record = { 0 }, *slot;

                if (parse_name(e->d_name, &record.id) < 0 || sim_read(dirfd(dir), e->d_name, text, sizeof(text)) < 0 ||
                    parse_record(text, &record) < 0)
                        continue;
                slot = gf_vec_add(&records);
                if (!slot) {
                        gf_vec_done(&records);
                        return -ENOMEM;
                }
                *slot = record;
        }
        if (records.n > 1)
                qsort(records.v, records.n, sizeof(*records.v), compare);
        ret_records->v = records.v;
        ret_records->n = records.n;
        ret_records->cap = records.cap;
        return 0;
}

bool sim_record_alive(const struct sim_record *record)
{
        if (sim_alive(&record->id))
                return true;
        for (size_t i = 0; i < record->n_keepers; i++)
                if (sim_alive(&record->keepers[i].id))
                        return true;
        return false;
}

bool sim_record_held(const struct sim_record *record)
{
        for (size_t i = 0; i < record->n_keepers; i++)
                if (sim_holds(&record->keepers[i].id, record->keepers[i].check))
                        return true;
        return false;
}

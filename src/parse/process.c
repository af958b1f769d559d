/* SPDX-License-Identifier: MIT */
#include "parse/process.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "parse/text.h"

/* " 12": one blank, one number. */
static bool next_number(struct gf_text *t, int64_t *ret)
{
        return gf_text_char(t, ' ') && gf_text_i64(t, ret);
}

static bool next_unsigned(struct gf_text *t, uint64_t *ret)
{
        return gf_text_char(t, ' ') && gf_text_u64(t, 10, ret);
}

static bool next_int(struct gf_text *t, int *ret)
{
        int64_t value;

        if (!next_number(t, &value) || value < INT_MIN || value > INT_MAX)
                return false;
        *ret = (int)value;
        return true;
}

static bool skip_numbers(struct gf_text *t, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                struct gf_text word;

                /* Some of them are unsigned and fill all 64 bits: any word will do. */
                if (!gf_text_char(t, ' ') || t->p >= t->end || *t->p == ' ')
                        return false;
                (void)gf_text_until(t, ' ', &word);
                t->p = word.end;
        }
        return true;
}

int gf_parse_stat(const char *text, size_t length, struct gf_stat *ret)
{
        struct gf_text t = { text, text + length };
        struct gf_stat stat = { 0 };
        const char *close;
        uint64_t pid, flags;
        size_t n;

        if (!gf_text_u64(&t, 10, &pid) || pid > INT_MAX || !gf_text_word(&t, " ("))
                return -EINVAL;
        /* The last bracket ends the name: behind it come a letter and numbers only. */
        close = memrchr(t.p, ')', (size_t)(t.end - t.p));
        if (!close)
                return -EINVAL;
        n = (size_t)(close - t.p);
        if (n >= sizeof(stat.comm) || memchr(t.p, '\0', n))
                return -EINVAL;
        memcpy(stat.comm, t.p, n);
        stat.pid = (pid_t)pid;
        t.p = close + 1;
        if (!gf_text_char(&t, ' ') || t.p >= t.end)
                return -EINVAL;
        stat.state = *t.p++;
        if (!next_int(&t, &stat.ppid) || !next_int(&t, &stat.pgrp) || !next_int(&t, &stat.session) ||
            !next_int(&t, &stat.tty) || !skip_numbers(&t, 1) || !next_unsigned(&t, &flags) || !skip_numbers(&t, 10) ||
            !next_unsigned(&t, &stat.threads) || !skip_numbers(&t, 1) || !next_unsigned(&t, &stat.start_ticks))
                return -EINVAL;
        stat.flags = (uint32_t)flags;
        *ret = stat;
        return 0;
}

static void take_pid(struct gf_text *t, pid_t *ret)
{
        uint64_t value;

        if (gf_text_u64(t, 10, &value) && value <= INT_MAX)
                *ret = (pid_t)value;
}

static void take_uids(struct gf_text *t, struct gf_status *status)
{
        uint64_t real, effective;

        if (gf_text_u64(t, 10, &real) && gf_text_char(t, '\t') && gf_text_u64(t, 10, &effective) &&
            real <= UINT32_MAX && effective <= UINT32_MAX) {
                status->ruid = (uint32_t)real;
                status->euid = (uint32_t)effective;
        }
}

static void take_nspid(struct gf_text *t, struct gf_status *status)
{
        pid_t pid = 0;
        size_t levels = 0;

        do {
                uint64_t value;

                if (!gf_text_u64(t, 10, &value) || value > INT_MAX)
                        return;
                pid = (pid_t)value;
                levels++;
        } while (gf_text_char(t, '\t'));
        status->nspid = pid;
        status->nspid_levels = levels;
}

void gf_parse_status(const char *text, size_t length, struct gf_status *ret)
{
        struct gf_text t = { text, text + length }, line;
        struct gf_status status = { .ruid = UINT32_MAX, .euid = UINT32_MAX };

        while (gf_text_line(&t, &line)) {
                if (gf_text_word(&line, "Uid:\t"))
                        take_uids(&line, &status);
                else if (gf_text_word(&line, "Tgid:\t"))
                        take_pid(&line, &status.tgid);
                else if (gf_text_word(&line, "PPid:\t"))
                        take_pid(&line, &status.ppid);
                else if (gf_text_word(&line, "NSpid:\t"))
                        take_nspid(&line, &status);
                else if (gf_text_word(&line, "Threads:\t"))
                        (void)gf_text_u64(&line, 10, &status.threads);
                else if (gf_text_word(&line, "SigPnd:\t"))
                        (void)gf_text_u64(&line, 16, &status.sig_pending);
                else if (gf_text_word(&line, "ShdPnd:\t"))
                        (void)gf_text_u64(&line, 16, &status.shared_pending);
                else if (gf_text_word(&line, "SigBlk:\t"))
                        (void)gf_text_u64(&line, 16, &status.sig_blocked);
                else if (gf_text_word(&line, "SigIgn:\t"))
                        (void)gf_text_u64(&line, 16, &status.sig_ignored);
                else if (gf_text_word(&line, "CapEff:\t"))
                        (void)gf_text_u64(&line, 16, &status.cap_effective);
        }
        *ret = status;
}

int gf_parse_cgroup_line(const char *line, size_t length, struct gf_cgroup_line *ret)
{
        struct gf_text t = { line, line + length };
        const char *colon;
        uint64_t id;

        if (!gf_text_u64(&t, 10, &id) || !gf_text_char(&t, ':'))
                return -EINVAL;
        colon = memchr(t.p, ':', (size_t)(t.end - t.p));
        if (!colon || colon + 1 >= t.end || colon[1] != '/')
                return -EINVAL;
        *ret = (struct gf_cgroup_line){
                .id = id,
                .controllers = t.p,
                .n_controllers = (size_t)(colon - t.p),
                .path = colon + 1,
                .n_path = (size_t)(t.end - colon - 1),
        };
        return 0;
}

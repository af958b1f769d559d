/* SPDX-License-Identifier: MIT */
/* The parent's side of NVML's door: asks, waits no longer than the deadline, believes nothing without a check. */
#include "gpu/nvml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "gpu/nvml_child.h"
#include "gpu/nvml_wire.h"
#include "gpu/nvml_words.h"
#include "parse/nvidia.h"
#include "sys/clock.h"

/* More records than any answer has, those to questions that nobody waits for included. */
#define RECORDS_MAX 65536

struct gf_nvml {
        struct gf_env *env; /* borrowed */
        struct gf_child child;
        uint64_t sequence; /* of the last question */
        bool asked;
        bool gone;      /* no child any more: `error` says why, and stays */
        bool timed_out; /* that is why */
        char error[256];
};

/* An answer being received. */
struct intake {
        struct gf_driver_report report;
        bool status_seen;
        uint32_t gpus;      /* announced */
        int current;        /* the GPU that the child is at; -1 none yet */
        size_t n_processes; /* of that GPU */
};

struct gf_ident gf_nvml_child(const struct gf_nvml *nvml)
{
        if (!nvml)
                return (struct gf_ident){ 0 };
        return (struct gf_ident){ .pid = nvml->child.pid, .start_ticks = nvml->child.start_ticks };
}

/* Ends the child; `text` is what every later answer says. */
static void give_up(struct gf_nvml *nvml, const char *text)
{
        gf_child_stop(&nvml->child);
        nvml->gone = true;
        snprintf(nvml->error, sizeof(nvml->error), "%s", text);
}

int gf_nvml_start(struct gf_env *env, struct gf_nvml **ret_nvml)
{
        struct gf_nvml *nvml = calloc(1, sizeof(*nvml));
        int r;

        if (!nvml)
                return -ENOMEM;
        nvml->env = env;
        nvml->child = (struct gf_child){ .pidfd = -1, .socket = -1 };
        r = gf_child_start(gf_nvml_child_main, NULL, &nvml->child);
        if (r < 0) {
                char text[160];

                /* The look goes on without the driver's word. */
                snprintf(text, sizeof(text), "no process could be started to ask NVML (%s); memory figures are unknown",
                         strerror(-r));
                give_up(nvml, text);
        }
        *ret_nvml = nvml;
        return 0;
}

struct gf_nvml *gf_nvml_stop(struct gf_nvml *nvml)
{
        if (nvml) {
                gf_child_stop(&nvml->child);
                free(nvml);
        }
        return NULL;
}

int gf_nvml_ask(struct gf_nvml *nvml, enum gf_nvml_question question)
{
        struct gf_wire_ask ask = {
                .head = { .magic = GF_WIRE_MAGIC, .type = GF_WIRE_ASK, .sequence = ++nvml->sequence },
                .question = question,
        };

        nvml->asked = true;
        if (nvml->gone)
                return 0;
        /* A child that ended while nobody looked is met when the answer is fetched. */
        if (gf_child_send(&nvml->child, &ask, sizeof(ask)) == -EAGAIN)
                give_up(nvml,
                        "NVML's process takes no more questions: it hangs in the driver; memory figures are unknown");
        return 0;
}

static bool take_text(char *dst, size_t size, const char *src, size_t src_size)
{
        if (!memchr(src, '\0', src_size) || strlen(src) >= size)
                return false;
        memcpy(dst, src, strlen(src) + 1);
        return true;
}

static bool take_status(struct intake *in, const struct gf_wire_status *status)
{
        char detail[sizeof(status->detail)];

        if (in->status_seen || status->gpus > GF_WIRE_GPUS_MAX ||
            !take_text(detail, sizeof(detail), status->detail, sizeof(status->detail)) ||
            !take_text(in->report.version, sizeof(in->report.version), status->version, sizeof(status->version)))
                return false;
        in->status_seen = true;
        in->gpus = status->gpus;
        in->report.asked = status->code == 0;
        if (status->code != 0)
                gf_nvml_sentence(status->call, status->code, -1, detail, in->report.error, sizeof(in->report.error));
        return status->code == 0 || status->gpus == 0;
}

static bool take_begin(struct intake *in, const struct gf_wire_mark *mark)
{
        /* One after the other: this bounds the answer. */
        if (!in->status_seen || mark->index >= in->gpus || (int)mark->index != in->current + 1)
                return false;
        in->current = (int)mark->index;
        in->n_processes = 0;
        return true;
}

static int take_gpu(struct intake *in, const struct gf_wire_gpu *wire)
{
        struct gf_driver_gpu gpu = {
                .index = in->current,
                .minor = wire->minor < 0 ? -1 : wire->minor,
                .memory = { .total = wire->total, .used = wire->used, .reserved = wire->reserved },
                .lists_ok = wire->lists_ok != 0,
                .mig = wire->mig != 0,
                .busy_known = wire->busy != GF_WIRE_NO_BUSY,
                .busy = wire->busy != GF_WIRE_NO_BUSY ? wire->busy : 0,
        };
        struct gf_driver_gpu *slot;
        char pci[sizeof(wire->pci)];

        if (in->current < 0 || (int)wire->index != in->current || in->report.gpus.n != (size_t)in->current ||
            !take_text(gpu.uuid, sizeof(gpu.uuid), wire->uuid, sizeof(wire->uuid)) ||
            !take_text(pci, sizeof(pci), wire->pci, sizeof(wire->pci)) ||
            !take_text(gpu.name, sizeof(gpu.name), wire->name, sizeof(wire->name)))
                return -EBADMSG;
        if (gpu.busy > 100)
                return -EBADMSG;
        if (pci[0] && gf_parse_pci(pci, gpu.pci, sizeof(gpu.pci)) < 0)
                return -EBADMSG;
        gpu.lost = wire->code == NVML_GPU_IS_LOST || wire->code == NVML_RESET_REQUIRED;
        if (wire->code != 0)
                gf_nvml_sentence(wire->call, wire->code, gpu.index, NULL, gpu.error, sizeof(gpu.error));
        slot = gf_vec_add(&in->report.gpus);
        if (!slot)
                return -ENOMEM;
        *slot = gpu;
        return 0;
}

static int take_processes(struct intake *in, const struct gf_wire_processes *wire)
{
        struct gf_driver_gpu *gpu;

        if (in->current < 0 || (int)wire->index != in->current || in->report.gpus.n != (size_t)in->current + 1 ||
            wire->n == 0 || wire->n > GF_WIRE_BATCH || in->n_processes + wire->n > GF_WIRE_PROCESSES_MAX)
                return -EBADMSG;
        gpu = &in->report.gpus.v[in->current];
        in->n_processes += wire->n;
        for (uint32_t i = 0; i < wire->n; i++) {
                const struct gf_wire_process *from = &wire->v[i];
                struct gf_driver_process *process;

                if (from->pid == 0 || from->pid > INT32_MAX)
                        return -EBADMSG;
                process = gf_vec_add(&gpu->processes);
                if (!process)
                        return -ENOMEM;
                process->pid = (pid_t)from->pid;
                process->lists = from->lists & (GF_LIST_COMPUTE | GF_LIST_GRAPHICS | GF_LIST_MPS);
                process->memory = from->memory;
                process->gpu_instance = from->gpu_instance;
                process->compute_instance = from->compute_instance;
        }
        return 0;
}

static int take_samples(struct intake *in, const struct gf_wire_samples *wire)
{
        struct gf_driver_gpu *gpu;

        if (in->current < 0 || (int)wire->index != in->current || in->report.gpus.n != (size_t)in->current + 1 ||
            wire->n == 0 || wire->n > GF_WIRE_BATCH || in->n_processes + wire->n > GF_WIRE_PROCESSES_MAX)
                return -EBADMSG;
        gpu = &in->report.gpus.v[in->current];
        in->n_processes += wire->n;
        for (uint32_t i = 0; i < wire->n; i++) {
                struct gf_driver_sample *sample;

                if (wire->v[i].pid == 0 || wire->v[i].pid > INT32_MAX || wire->v[i].sm > 100)
                        return -EBADMSG;
                sample = gf_vec_add(&gpu->samples);
                if (!sample)
                        return -ENOMEM;
                *sample = (struct gf_driver_sample){ (pid_t)wire->v[i].pid, wire->v[i].sm };
        }
        return 0;
}

/* One record: 1 the answer is whole, 0 go on, -EBADMSG, -ENOMEM. */
static int take_record(struct gf_nvml *nvml, struct intake *in, const union gf_wire *wire, size_t length)
{
        if (length < sizeof(wire->head) || wire->head.magic != GF_WIRE_MAGIC)
                return -EBADMSG;
        if (wire->head.sequence != nvml->sequence)
                return wire->head.sequence < nvml->sequence ? 0 : -EBADMSG; /* of a question that nobody waits for */
        switch (wire->head.type) {
        case GF_WIRE_STATUS:
                return length == sizeof(wire->status) && take_status(in, &wire->status) ? 0 : -EBADMSG;
        case GF_WIRE_BEGIN:
                return length == sizeof(wire->mark) && take_begin(in, &wire->mark) ? 0 : -EBADMSG;
        case GF_WIRE_GPU:
                return length == sizeof(wire->gpu) ? take_gpu(in, &wire->gpu) : -EBADMSG;
        case GF_WIRE_PROCESSES:
                return length == sizeof(wire->processes) ? take_processes(in, &wire->processes) : -EBADMSG;
        case GF_WIRE_SAMPLES:
                return length == sizeof(wire->samples) ? take_samples(in, &wire->samples) : -EBADMSG;
        case GF_WIRE_END:
                return length == sizeof(wire->mark) && in->status_seen && in->report.gpus.n == in->gpus ? 1 : -EBADMSG;
        default:
                return -EBADMSG;
        }
}

/* "GPU 3" or "the driver's library", for who did not answer. */
static const char *who(const struct intake *in, char *buf, size_t size)
{
        if (in->current < 0)
                return in->status_seen ? "the NVIDIA driver" : "the NVIDIA driver's library (NVML)";
        snprintf(buf, size, "GPU %d", in->current);
        return buf;
}

static void explain_silence(struct gf_nvml *nvml, const struct intake *in, ssize_t r)
{
        char duration[GF_TEXT_MAX], name[32], text[256];

        if (r == -ETIMEDOUT) {
                nvml->timed_out = true;
                snprintf(text, sizeof(text),
                         "%s did not answer within %s and is not asked again; look for Xid messages with dmesg: a GPU "
                         "that hangs needs a reset or a reboot",
                         who(in, name, sizeof(name)), gf_format_duration(nvml->env->driver_deadline_ms, duration));
        } else if (r == 0)
                snprintf(text, sizeof(text),
                         "NVML crashed while asked about %s; install the driver's user-space package again, and look "
                         "at dmesg",
                         who(in, name, sizeof(name)));
        else
                snprintf(text, sizeof(text), "NVML's process answered nonsense about %s and was ended",
                         who(in, name, sizeof(name)));
        give_up(nvml, text);
}

/*
 * Receives until the answer is whole. 0, also when it ended early (then the report has what came, and says so).
 * The deadline is for each record: without persistence the driver takes seconds to wake each GPU, one after the other.
 */
static int receive_answer(struct gf_nvml *nvml, struct intake *in)
{
        union gf_wire wire;

        for (size_t records = 0;; records++) {
                uint64_t deadline = gf_deadline_in(nvml->env->driver_deadline_ms);
                ssize_t n = gf_child_receive(&nvml->child, &wire, sizeof(wire), deadline, nvml->env->cancel_fd);
                int r;

                if (n == -ECANCELED || n == -ENOMEM || n == -EBADF)
                        return (int)n;
                r = n > 0 ? take_record(nvml, in, &wire, (size_t)n) : 0;
                if (records >= RECORDS_MAX)
                        r = -EBADMSG;
                if (r > 0)
                        return 0;
                if (r == -ENOMEM)
                        return r;
                if (n > 0 && r == 0)
                        continue;
                explain_silence(nvml, in, r < 0 ? r : n);
                return 0;
        }
}

/* An answer that broke off: what it has stays, but the lists of the GPU that it broke off at are not whole. */
static void mark_broken(struct gf_nvml *nvml, struct intake *in)
{
        struct gf_driver_report *report = &in->report;

        if (in->current >= 0 && report->gpus.n == (size_t)in->current + 1)
                report->gpus.v[in->current].lists_ok = false;
        report->timed_out = nvml->timed_out;
        snprintf(report->error, sizeof(report->error), "%s", nvml->error);
}

int gf_nvml_answer(struct gf_nvml *nvml, struct gf_driver_report *ret_report)
{
        struct intake in = { .current = -1 };
        int r;

        if (!nvml->asked)
                return -EINVAL;
        if (!nvml->gone) {
                r = receive_answer(nvml, &in);
                if (r < 0) {
                        gf_driver_report_done(&in.report);
                        return r;
                }
        }
        nvml->asked = false;
        if (nvml->gone)
                mark_broken(nvml, &in);
        *ret_report = in.report;
        return 0;
}

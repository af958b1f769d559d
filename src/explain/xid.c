/* SPDX-License-Identifier: MIT */
#include "explain/xid.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gpufree.h"
#include "parse/text.h"

#define LINE_MAX_BYTES 400

/* From NVIDIA's published list, in our words. */
static const struct gf_xid_row rows[] = {
        { 8, GF_REMEDY_APPLICATION, "the GPU stopped processing a program's work" },
        { 13, GF_REMEDY_APPLICATION, "a program's kernel made an illegal access or instruction; its context is lost" },
        { 31, GF_REMEDY_APPLICATION, "a program read or wrote GPU memory that is not mapped; its context is lost" },
        { 32, GF_REMEDY_APPLICATION, "a corrupted command stream; the driver or the bus, seldom the program" },
        { 38, GF_REMEDY_RESET, "a driver firmware error" },
        { 43, GF_REMEDY_APPLICATION, "a program's channel was reset after its own error; other programs go on" },
        { 44, GF_REMEDY_RESET, "a graphics fault during a context switch" },
        { 45, GF_REMEDY_NONE,
          "channels were cleaned up early: a program was ended, or an earlier error took them down" },
        { 46, GF_REMEDY_RESET, "the GPU stopped processing" },
        { 48, GF_REMEDY_RESET, "a double-bit memory error; the GPU wants a reset before new work" },
        { 56, GF_REMEDY_RESET, "a display engine error" },
        { 57, GF_REMEDY_RESET, "memory training failed" },
        { 61, GF_REMEDY_RESET, "a breakpoint or warning of the GPU's own microcontroller" },
        { 62, GF_REMEDY_RESET, "the GPU's own microcontroller halted" },
        { 63, GF_REMEDY_NONE, "a memory row was noted for remapping; it takes effect at the next reset" },
        { 64, GF_REMEDY_RESET, "remapping a memory row failed; the memory may be worn out" },
        { 66, GF_REMEDY_APPLICATION, "an illegal access by the driver" },
        { 68, GF_REMEDY_APPLICATION, "a video engine error" },
        { 69, GF_REMEDY_APPLICATION, "a program's graphics engine error; its context is lost" },
        { 74, GF_REMEDY_RESET, "an NVLink error; look at the link's other end too" },
        { 78, GF_REMEDY_NONE, "a virtual GPU could not be started" },
        { 79, GF_REMEDY_REBOOT, "the GPU has fallen off the bus: the machine can no longer reach it" },
        { 92, GF_REMEDY_NONE, "many single-bit memory errors: watch this GPU" },
        { 94, GF_REMEDY_APPLICATION, "a memory error that was contained: only the program that met it is lost" },
        { 95, GF_REMEDY_RESET, "a memory error that was not contained: every program on the GPU is affected" },
        { 109, GF_REMEDY_RESET, "a context switch took too long" },
        { 110, GF_REMEDY_REBOOT, "a security fault" },
        { 119, GF_REMEDY_RESET,
          "the GPU's system processor (GSP) did not answer in time; calls to the driver can hang" },
        { 120, GF_REMEDY_RESET, "the GPU's system processor (GSP) failed" },
        { 121, GF_REMEDY_RESET, "an error of the chip-to-chip link" },
        { 122, GF_REMEDY_NONE, "the GPU's flash memory could not be read" },
        { 123, GF_REMEDY_RESET, "the power unit of the GPU failed to answer" },
        { 136, GF_REMEDY_RESET, "a link training error" },
        { 137, GF_REMEDY_APPLICATION, "a program's access over NVLink was refused or failed" },
        { 140, GF_REMEDY_RESET, "a memory error that could not be recovered" },
        { 143, GF_REMEDY_REBOOT, "the GPU could not be initialised" },
        { 144, GF_REMEDY_RESET, "an NVLink error" },
        { 145, GF_REMEDY_RESET, "an NVLink error" },
        { 149, GF_REMEDY_RESET, "an NVLink error" },
        { 150, GF_REMEDY_RESET, "an NVLink error" },
        { 154, GF_REMEDY_RESET, "the driver says which recovery this GPU needs; the line names it" },
};

const struct gf_xid_row *gf_xid_find(unsigned number)
{
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (rows[i].number == number)
                        return &rows[i];
        return NULL;
}

const char *gf_xid_meaning(unsigned number)
{
        const struct gf_xid_row *row = gf_xid_find(number);

        if (number == 0)
                return "a process is blocked in the kernel and takes no signal";
        return row ? row->meaning : "not in gpufree's table; NVIDIA's list of Xid errors explains it";
}

void gf_xids_done(gf_xids *list)
{
        for (size_t i = 0; i < list->n; i++)
                free(list->v[i].line);
        gf_vec_done(list);
}

void gf_kernel_log_done(struct gf_kernel_log *log)
{
        gf_xids_done(&log->xids);
        free(log->error);
        *log = (struct gf_kernel_log){ 0 };
}

/* "PCI:0000:18:00" or, of old drivers, "0000:18:00": the address without its function. */
static bool take_pci(struct gf_text *text, char *buf, size_t size)
{
        struct gf_text inside;
        size_t n;

        if (!gf_text_until(text, ')', &inside))
                return false;
        (void)gf_text_word(&inside, "PCI:");
        n = (size_t)(inside.end - inside.p);
        if (n == 0 || n >= size)
                return false;
        for (size_t i = 0; i < n; i++)
                buf[i] = (char)(inside.p[i] >= 'A' && inside.p[i] <= 'F' ? inside.p[i] - 'A' + 'a' : inside.p[i]);
        buf[n] = '\0';
        return true;
}

static const char *find(const struct gf_text *text, const char *word)
{
        return memmem(text->p, (size_t)(text->end - text->p), word, strlen(word));
}

static bool parse_xid(struct gf_text line, struct gf_xid *xid)
{
        const char *at = find(&line, "NVRM: Xid (");
        uint64_t number, pid;

        if (!at)
                return false;
        line.p = at + strlen("NVRM: Xid (");
        if (!take_pci(&line, xid->pci, sizeof(xid->pci)) || !gf_text_word(&line, ": ") ||
            !gf_text_u64(&line, 10, &number) || number == 0 || number > UINT16_MAX)
                return false;
        xid->number = (unsigned)number;
        at = find(&line, "pid=");
        if (at) {
                line.p = at + strlen("pid=");
                (void)gf_text_char(&line, '\'');
                if (gf_text_u64(&line, 10, &pid) && pid <= INT32_MAX)
                        xid->pid = (pid_t)pid;
        }
        return true;
}

/* "INFO: task python:1234 blocked for more than 120 seconds." The name may hold colons. */
static bool parse_blocked(struct gf_text line, struct gf_xid *xid)
{
        const char *task = find(&line, "INFO: task "), *blocked = find(&line, " blocked for more than ");
        struct gf_text number;
        uint64_t pid;

        if (!task || !blocked || blocked < task)
                return false;
        number.p = number.end = blocked;
        while (number.p > task && number.p[-1] >= '0' && number.p[-1] <= '9')
                number.p--;
        if (number.p == task || number.p[-1] != ':' || !gf_text_u64(&number, 10, &pid) || pid == 0 || pid > INT32_MAX)
                return false;
        xid->pid = (pid_t)pid;
        return true;
}

int gf_xid_parse(const char *record, size_t length, struct gf_xid *ret)
{
        struct gf_text text = { record, record + length }, line, head;
        struct gf_xid xid = { .age_ms = GPUFREE_UNKNOWN };
        uint64_t number;

        if (!gf_text_line(&text, &line) || !gf_text_until(&line, ';', &head))
                return 0;
        if (!gf_text_u64(&head, 10, &number) || !gf_text_char(&head, ',') || !gf_text_u64(&head, 10, &number) ||
            !gf_text_char(&head, ',') || !gf_text_u64(&head, 10, &xid.time_us))
                return 0;
        /* A user may write to the kernel log where it is writable; the kernel's own records have facility 0. */
        if (record[0] < '0' || record[0] > '7' || record[1] != ',')
                return 0;
        if (!parse_xid(line, &xid) && !parse_blocked(line, &xid))
                return 0;
        length = (size_t)(line.end - line.p);
        xid.line = strndup(line.p, length < LINE_MAX_BYTES ? length : LINE_MAX_BYTES);
        if (!xid.line)
                return -ENOMEM;
        *ret = xid;
        return 1;
}

bool gf_xid_is_of(const struct gf_xid *xid, const char *pci)
{
        size_t n = strlen(xid->pci);

        return pci && n > 0 && strncmp(pci, xid->pci, n) == 0 && (pci[n] == '.' || pci[n] == '\0');
}

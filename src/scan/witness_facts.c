/* SPDX-License-Identifier: MIT */
/* From what the program read in the driver to facts. A record that makes no sense is left out: unknown. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "gpufree.h"
#include "parse/nvidia.h"
#include "scan/witness.h"

#define NS_PER_S 1000000000ULL
#define NVIDIA_CTL 255 /* minor of nvidiactl */

/* "0000:3a:00.0" from the driver's number of a GPU. */
static void pci_of_id(uint32_t id, char *ret_pci, size_t size)
{
        char text[32];

        (void)snprintf(text, sizeof(text), "%04x:%02x:%02x.0", id >> 16, id >> 8 & 0xff, id & 0xff);
        if (gf_parse_pci(text, ret_pci, size) < 0)
                ret_pci[0] = '\0';
}

/* The name of the PCI device and the driver's number must say the same, where both are there. */
static bool set_pci(const struct gf_witness_record *record, struct gf_fact *fact)
{
        char name[GF_WITNESS_PCI_MAX + 1], by_id[sizeof(fact->pci)] = "";

        memcpy(name, record->pci, GF_WITNESS_PCI_MAX);
        name[GF_WITNESS_PCI_MAX] = '\0';
        if ((record->flags & GF_WITNESS_GPU_KNOWN) && record->gpu_id != 0)
                pci_of_id(record->gpu_id, by_id, sizeof(by_id));
        if (name[0] && gf_parse_pci(name, fact->pci, sizeof(fact->pci)) < 0)
                return false;
        if (!name[0])
                memcpy(fact->pci, by_id, sizeof(by_id));
        return fact->pci[0] && (!by_id[0] || strcmp(fact->pci, by_id) == 0);
}

static void set_uuid(const struct gf_witness_record *record, struct gf_fact *fact)
{
        const __u8 *u = record->uuid;
        bool any = false;

        for (size_t i = 0; i < sizeof(record->uuid); i++)
                any = any || u[i];
        if (any)
                (void)snprintf(fact->uuid, sizeof(fact->uuid),
                               "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
                               u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
                               u[15]);
}

/* 1: a fact; 0: nothing to be said. */
static int node_fact(const struct gf_witness_record *record, struct gf_fact *fact)
{
        fact->kind = GF_FACT_NODE;
        if (set_pci(record, fact))
                return 1;
        /* The control device is no GPU; one that carries handles names the GPU that is attached, if it is one. */
        if ((record->rdev & 0xfffff) != NVIDIA_CTL || !(record->flags & GF_WITNESS_GPU_KNOWN) || record->gpu_id != 0 ||
            !(record->flags & GF_WITNESS_HANDLES) || record->attached != 1 || record->attached_first == 0)
                return 0;
        fact->kind = GF_FACT_HANDLE;
        fact->instance = record->instance;
        pci_of_id(record->attached_first, fact->pci, sizeof(fact->pci));
        return fact->pci[0] != '\0';
}

static int make_fact(const struct gf_witness_record *record, struct gf_fact *fact)
{
        switch (record->kind) {
        case GF_WITNESS_NODE:
                return node_fact(record, fact);
        case GF_WITNESS_DMABUF:
                fact->kind = GF_FACT_DMABUF;
                fact->ino = (ino_t)record->ino;
                fact->bytes = record->bytes;
                return set_pci(record, fact);
        case GF_WITNESS_SPACE:
                fact->kind = record->flags & GF_WITNESS_WHOLE ? GF_FACT_SPACE : GF_FACT_BLUR;
                fact->space = record->space;
                return 1;
        case GF_WITNESS_PART:
                fact->kind = GF_FACT_CONTEXT;
                fact->space = record->space;
                if (!set_pci(record, fact))
                        fact->pci[0] = '\0';
                set_uuid(record, fact);
                if (!fact->pci[0] && !fact->uuid[0])
                        fact->kind = GF_FACT_BLUR;
                return (record->flags & GF_WITNESS_USED) != 0;
        default:
                return 0;
        }
}

/* Two GPUs are said to have this number of the driver's. */
static bool is_odd(const struct gf_witness *witness, const struct gf_fact *fact)
{
        for (size_t i = 0; fact->kind == GF_FACT_HANDLE && i < witness->facts.n; i++) {
                const struct gf_fact *other = &witness->facts.v[i];

                if (other->kind == GF_FACT_HANDLE && fact->instance == other->instance &&
                    strcmp(fact->pci, other->pci) != 0)
                        return true;
        }
        return false;
}

/* Which GPU is attached, a process says of itself; the number is the driver's. Where they do not fit, neither counts.
 */
static int distrust(struct gf_witness *witness)
{
        _cleanup_free_ bool *odd = calloc(witness->facts.n + 1, sizeof(*odd));
        size_t kept = 0;

        if (!odd)
                return -ENOMEM;
        for (size_t i = 0; i < witness->facts.n; i++)
                odd[i] = is_odd(witness, &witness->facts.v[i]);
        for (size_t i = 0; i < witness->facts.n; i++)
                if (!odd[i])
                        witness->facts.v[kept++] = witness->facts.v[i];
        witness->facts.n = kept;
        return 0;
}

static int compare_facts(const void *a, const void *b)
{
        const struct gf_fact *x = a, *y = b;

        if (x->id.pid != y->id.pid)
                return x->id.pid < y->id.pid ? -1 : 1;
        if (x->kind != y->kind)
                return x->kind < y->kind ? -1 : 1;
        return (x->fd > y->fd) - (x->fd < y->fd);
}

int gf_witness_facts(const gf_witness_records *records, const struct gf_witness_clock *clock,
                     struct gf_witness *witness)
{
        for (size_t i = 0; i < records->n; i++) {
                const struct gf_witness_record *record = &records->v[i];
                struct gf_fact fact = { .fd = record->fd, .instance = GPUFREE_UNKNOWN, .bytes = GPUFREE_UNKNOWN }, *new;

                if (record->tgid == 0 || record->tgid > INT32_MAX || record->fd < 0 || !make_fact(record, &fact))
                        continue;
                fact.id.pid = (pid_t)record->tgid;
                fact.id.start_ticks = (record->start_ns + (uint64_t)clock->boot_offset_ns) /
                                      (NS_PER_S / clock->ticks_per_s);
                new = gf_vec_add(&witness->facts);
                if (!new)
                        return -ENOMEM;
                *new = fact;
        }
        if (distrust(witness) < 0)
                return -ENOMEM;
        if (witness->facts.n > 1)
                qsort(witness->facts.v, witness->facts.n, sizeof(witness->facts.v[0]), compare_facts);
        return 0;
}

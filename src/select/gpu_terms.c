/* SPDX-License-Identifier: MIT */
#include "select/gpu_terms.h"

#include <limits.h>
#include <strings.h>

#include "base/num.h"
#include "select/values.h"

#define GPU_FORMS "like 0, 0-3, GPU-1a2b3c4d, 0000:18:00.0, MIG-1a2b3c4d, all"

static bool starts_with_nocase(const char *text, const char *prefix)
{
        return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

void gf_gpu_term_done(struct gf_gpu_term *term)
{
        free(term->text);
        free(term->mig_parent);
        *term = (struct gf_gpu_term){ 0 };
}

/* At most `longest` hexadecimal digits from *p on. */
static bool eat_hex(const char **p, size_t longest, uint32_t *ret)
{
        char digits[9] = "";
        size_t n = strspn(*p, "0123456789abcdefABCDEF");
        uint64_t value;

        if (n == 0 || n > longest || n >= sizeof(digits))
                return false;
        memcpy(digits, *p, n);
        if (gf_parse_hex64(digits, &value) < 0)
                return false;
        *p += n;
        *ret = (uint32_t)value;
        return true;
}

static bool eat_char(const char **p, char c)
{
        if (**p != c)
                return false;
        (*p)++;
        return true;
}

bool gf_pci_parse(const char *text, struct gf_pci *ret_pci)
{
        struct gf_pci pci = { 0 };
        const char *first = strchr(text, ':'), *p = text;

        if (!first)
                return false;
        pci.any_domain = !strchr(first + 1, ':');
        if (!pci.any_domain && (!eat_hex(&p, 8, &pci.domain) || !eat_char(&p, ':')))
                return false;
        if (!eat_hex(&p, 2, &pci.bus) || !eat_char(&p, ':') || !eat_hex(&p, 2, &pci.device) || pci.device > 31)
                return false;
        if (eat_char(&p, '.') && (!eat_hex(&p, 1, &pci.function) || pci.function > 7))
                return false;
        if (*p != '\0')
                return false;
        *ret_pci = pci;
        return true;
}

static bool pci_equal(const struct gf_pci *asked, const char *text)
{
        struct gf_pci pci;

        return text && gf_pci_parse(text, &pci) && (asked->any_domain || asked->domain == pci.domain) &&
               asked->bus == pci.bus && asked->device == pci.device && asked->function == pci.function;
}

/* "3" or "0-3", digits and hyphens having been checked. */
static int parse_range(const char *text, struct gf_gpu_term *term, const char *quoted, char **ret_error)
{
        const char *hyphen = strchr(text, '-');
        _cleanup_free_ char *left = strndup(text, hyphen ? (size_t)(hyphen - text) : strlen(text));

        if (!left)
                return -ENOMEM;
        term->kind = GF_GPU_INDEX;
        if (gf_parse_u32(left, &term->first) < 0 || gf_parse_u32(hyphen ? hyphen + 1 : left, &term->last) < 0 ||
            term->first > INT_MAX || term->last > INT_MAX)
                return gf_bad_value(ret_error, "%s is no GPU (" GPU_FORMS ")", quoted);
        if (term->first > term->last)
                return gf_bad_value(ret_error, "%s is no range of GPUs (like %u-%u)", quoted, term->last, term->first);
        return 0;
}

/* The old drivers' "MIG-GPU-UUID/gpu instance/compute instance". False: it is not of that form. */
static bool parse_old_mig(const char *text, struct gf_gpu_term *term)
{
        const char *uuid = text + strlen("MIG-");
        _cleanup_free_ char *copy = strdup(uuid);
        char *slash, *second;

        if (!copy)
                return false;
        slash = strchr(copy, '/');
        second = slash ? strchr(slash + 1, '/') : NULL;
        if (!second)
                return false;
        *slash = *second = '\0';
        if (gf_parse_u32(slash + 1, &term->gpu_instance) < 0 || gf_parse_u32(second + 1, &term->compute_instance) < 0)
                return false;
        term->mig_parent = TAKE(copy);
        return true;
}

/* Hexadecimal with hyphens, in truth; other letters are let through to be looked for and not found. */
static bool is_uuid_text(const char *text)
{
        size_t n = strspn(text, "0123456789-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

        return n > 0 && text[n] == '\0';
}

static int parse_term(const char *text, struct gf_gpu_term *term, const char *quoted, char **ret_error)
{
        bool good = false;

        if (strcasecmp(text, "all") == 0) {
                term->kind = GF_GPU_ALL;
                return 0;
        }
        if (*text != '\0' && strspn(text, "0123456789-") == strlen(text))
                return parse_range(text, term, quoted, ret_error);
        if (starts_with_nocase(text, "GPU-")) {
                term->kind = GF_GPU_UUID;
                good = is_uuid_text(text + 4);
        } else if (starts_with_nocase(text, "MIG-")) {
                term->kind = GF_GPU_MIG;
                good = starts_with_nocase(text, "MIG-GPU-") ? parse_old_mig(text, term) : is_uuid_text(text + 4);
        } else if (strchr(text, ':')) {
                term->kind = GF_GPU_PCI;
                good = gf_pci_parse(text, &term->pci);
                if (!good)
                        return gf_bad_value(ret_error, "%s is no PCI address (like 0000:18:00.0)", quoted);
        }
        return good ? 0 : gf_bad_value(ret_error, "%s is no GPU (" GPU_FORMS ")", quoted);
}

int gf_gpu_term_parse(const char *text, struct gf_gpu_term *ret_term, char **ret_error)
{
        _cleanup_(gf_gpu_term_done) struct gf_gpu_term term = { 0 };
        _cleanup_free_ char *quoted = gf_quoted(text);
        int r;

        if (!quoted)
                return -ENOMEM;
        r = parse_term(text, &term, quoted, ret_error);
        if (r < 0)
                return r;
        r = gf_strset(&term.text, text);
        if (r < 0)
                return r;
        *ret_term = term;
        term = (struct gf_gpu_term){ 0 };
        return 0;
}

bool gf_gpu_term_names_instance(const struct gf_gpu_term *term, const struct gf_driver_gpu *gpu, uint32_t gpu_instance,
                                uint32_t compute_instance)
{
        if (term->kind != GF_GPU_MIG)
                return false;
        if (term->mig_parent)
                return strcasecmp(term->mig_parent, gpu->uuid) == 0 && term->gpu_instance == gpu_instance &&
                       term->compute_instance == compute_instance;
        for (size_t i = 0; i < gpu->migs.n; i++) {
                const struct gf_driver_mig *mig = &gpu->migs.v[i];

                if (mig->gpu_instance == gpu_instance && mig->compute_instance == compute_instance)
                        return starts_with_nocase(mig->uuid, term->text);
        }
        return false;
}

static bool names_instance_on(const struct gf_gpu_term *term, const struct gf_driver_gpu *gpu)
{
        /* The old form says which instance it is, so that the driver's list of them is not needed. */
        if (term->mig_parent && gpu->migs.n == 0)
                return gpu->mig && strcasecmp(term->mig_parent, gpu->uuid) == 0;
        for (size_t i = 0; i < gpu->migs.n; i++)
                if (gf_gpu_term_names_instance(term, gpu, gpu->migs.v[i].gpu_instance, gpu->migs.v[i].compute_instance))
                        return true;
        return false;
}

bool gf_gpu_term_names(const struct gf_gpu_term *term, const struct gpufree_snapshot *snapshot,
                       const struct gpufree_gpu *gpu)
{
        const struct gf_driver_gpu *known;

        switch (term->kind) {
        case GF_GPU_ALL:
                return true;
        case GF_GPU_INDEX:
                return gpu->index >= 0 && (uint32_t)gpu->index >= term->first && (uint32_t)gpu->index <= term->last;
        case GF_GPU_UUID:
                return gpu->uuid && starts_with_nocase(gpu->uuid, term->text);
        case GF_GPU_PCI:
                return pci_equal(&term->pci, gpu->pci);
        case GF_GPU_MIG:
                known = gf_driver_gpu_of(&snapshot->driver, gpu);
                return known && names_instance_on(term, known);
        }
        return false;
}

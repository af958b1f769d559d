/* SPDX-License-Identifier: MIT */
#include "fleet/target.h"

#include <errno.h>
#include <string.h>

/* What goes before the name, and between the name and the command; each takes standard input through. */
static const struct {
        const char *word;
        const char *before[6];
        const char *glued; /* the name is part of this word */
        const char *after[5];
} kinds[] = {
        [FLEET_HOP_PCT] = { "pct", { "pct", "exec" }, NULL, { "--" } },
        [FLEET_HOP_LXC] = { "lxc", { "lxc-attach", "-n" }, NULL, { "--" } },
        [FLEET_HOP_DOCKER] = { "docker", { "docker", "exec", "-i" }, NULL, { NULL } },
        [FLEET_HOP_PODMAN] = { "podman", { "podman", "exec", "-i" }, NULL, { NULL } },
        [FLEET_HOP_NSPAWN] = { "nspawn",
                               { "systemd-run", "--quiet", "--pipe", "--wait", "--collect" },
                               "--machine=",
                               { "--" } },
};

_printf_(2, 3) static int wrong(char **ret_error, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        *ret_error = gf_vasprintf(format, ap);
        va_end(ap);
        return *ret_error ? -EINVAL : -ENOMEM;
}

/* ssh puts the host into the user's own ProxyCommand: no character that means something to a shell. */
static bool host_is_plain(const char *host)
{
        for (const char *c = host; *c; c++) {
                unsigned char b = (unsigned char)*c;

                if (!((b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') || b >= 0x80 ||
                      strchr("._-@:%+", *c)))
                        return false;
        }
        return true;
}

static int take_host(struct fleet_target *target, const char *text, size_t n, char **ret_error)
{
        target->host = strndup(text, n);
        if (!target->host)
                return -ENOMEM;
        if (n == 0)
                return wrong(ret_error, "\"%s\": no host before the \"/\"", target->text);
        if (!host_is_plain(target->host))
                return wrong(ret_error, "\"%s\": a host is letters, digits and . _ - @ : %% + alone", target->text);
        if (text[0] == '-' || strstr(target->host, "@-"))
                return wrong(ret_error, "\"%s\": a host does not begin with \"-\"", target->text);
        return 0;
}

static int take_hop(struct fleet_target *target, const char *text, size_t n, char **ret_error)
{
        const char *colon = memchr(text, ':', n), *name = colon ? colon + 1 : NULL;
        size_t n_kind = colon ? (size_t)(colon - text) : n, n_name = colon ? n - n_kind - 1 : 0, kind = 0;
        struct fleet_hop *hop;

        while (kind < ELEMENTSOF(kinds) &&
               (strlen(kinds[kind].word) != n_kind || strncmp(kinds[kind].word, text, n_kind) != 0))
                kind++;
        if (!colon || kind == ELEMENTSOF(kinds))
                return wrong(ret_error,
                             "\"%s\": \"%.*s\" is none of pct:ID, lxc:NAME, docker:NAME, podman:NAME, nspawn:NAME",
                             target->text, (int)n, text);
        if (n_name == 0 || name[0] == '-')
                return wrong(ret_error, "\"%s\": %s: needs a name that does not begin with \"-\"", target->text,
                             kinds[kind].word);
        if (kind == FLEET_HOP_PCT && strspn(name, "0123456789") < n_name)
                return wrong(ret_error, "\"%s\": pct: takes a number, like pct:129", target->text);
        if (target->hops.n >= 8)
                return wrong(ret_error, "\"%s\": more than 8 hops", target->text);
        hop = gf_vec_add(&target->hops);
        if (!hop)
                return -ENOMEM;
        hop->kind = (enum fleet_hop_kind)kind;
        hop->name = strndup(name, n_name);
        return hop->name ? 0 : -ENOMEM;
}

int fleet_target_parse(const char *text, struct fleet_target *ret_target, char **ret_error)
{
        struct fleet_target target = { 0 };
        size_t n = strcspn(text, "/");
        int r;

        target.text = strdup(text);
        r = target.text ? take_host(&target, text, n, ret_error) : -ENOMEM;
        for (text += n; r >= 0 && *text == '/'; text += n + 1) {
                n = strcspn(text + 1, "/");
                r = take_hop(&target, text + 1, n, ret_error);
        }
        if (r < 0) {
                fleet_target_done(&target);
                return r;
        }
        *ret_target = target;
        return 0;
}

void fleet_target_done(struct fleet_target *target)
{
        for (size_t i = 0; i < target->hops.n; i++)
                free(target->hops.v[i].name);
        gf_vec_done(&target->hops);
        free(target->text);
        free(target->host);
        *target = (struct fleet_target){ 0 };
}

static bool is_plain_word(const char *word)
{
        return word[0] != '\0' && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                                    "_@+:,./-")] == '\0';
}

void fleet_quote(struct gf_str *out, const char *word)
{
        if (is_plain_word(word)) {
                gf_str_add(out, word);
                return;
        }
        gf_str_addc(out, '\'');
        for (; *word; word++) {
                /* Not inside of the quotes: ' nowhere, \ in fish, ! in csh. */
                if (*word == '\'' || *word == '\\' || *word == '!')
                        gf_str_addf(out, "'\\%c'", *word);
                else
                        gf_str_addc(out, *word);
        }
        gf_str_addc(out, '\'');
}

static void add_word(struct gf_str *line, const char *word)
{
        if (line->n > 0)
                gf_str_addc(line, ' ');
        fleet_quote(line, word);
}

int fleet_target_line(const struct fleet_target *target, const gf_strv *argv, char **ret_line)
{
        struct gf_str line = { 0 };

        for (size_t i = 0; i < target->hops.n; i++) {
                const struct fleet_hop *hop = &target->hops.v[i];
                _cleanup_free_ char *name = gf_asprintf("%s%s", kinds[hop->kind].glued ? kinds[hop->kind].glued : "",
                                                        hop->name);

                for (size_t k = 0; k < ELEMENTSOF(kinds[0].before) && kinds[hop->kind].before[k]; k++)
                        add_word(&line, kinds[hop->kind].before[k]);
                if (name)
                        add_word(&line, name);
                else
                        line.failed = true;
                for (size_t k = 0; k < ELEMENTSOF(kinds[0].after) && kinds[hop->kind].after[k]; k++)
                        add_word(&line, kinds[hop->kind].after[k]);
        }
        for (size_t i = 0; i < argv->n; i++)
                add_word(&line, argv->v[i]);
        return gf_str_take(&line, ret_line);
}

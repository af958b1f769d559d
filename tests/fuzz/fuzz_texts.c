/* SPDX-License-Identifier: MIT */
/* Parsers of what others write: unit files, JSON, cgroup paths, the driver's files, numbers; and what is shown of it.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "fleet/hosts.h"
#include "fleet/target.h"
#include "parse/cgroup.h"
#include "parse/json.h"
#include "parse/nvidia.h"
#include "parse/unitfile.h"
#include "select/rules.h"

static void check_terminated(const char *buf, size_t size)
{
        if (!memchr(buf, '\0', size))
                abort();
}

static void try_cgroup(const char *text)
{
        struct gf_cgroup_chain chain;
        const char *controllers;
        size_t length;

        gf_cgroup_parse(text, &chain);
        if (chain.n > GF_CGROUP_OWNERS)
                abort();
        for (size_t i = 0; i < chain.n; i++) {
                check_terminated(chain.v[i].id, sizeof(chain.v[i].id));
                check_terminated(chain.v[i].name, sizeof(chain.v[i].name));
        }
        (void)gf_cgroup_split(text, &controllers, &length);
        (void)gf_unit_name_valid(text);
}

static void try_json(const char *text, size_t size)
{
        struct gf_json value, item, whole = { text, size };
        size_t cursor = 0;
        char buf[32];

        if (gf_json_member(whole, "hostname", &value) == 0 && gf_json_string(value, buf, sizeof(buf)) == 0)
                check_terminated(buf, sizeof(buf));
        for (int i = 0; i < 1000 && gf_json_item(whole, &cursor, &item) == 1; i++)
                (void)gf_json_string(item, buf, sizeof(buf));
}

static void try_driver(const char *text)
{
        struct gf_nvidia_information information;
        struct gf_majors majors = { 0 };
        char pci[32];

        if (gf_parse_nvidia_information(text, &information) == 0) {
                check_terminated(information.uuid, sizeof(information.uuid));
                check_terminated(information.pci, sizeof(information.pci));
        }
        if (gf_parse_pci(text, pci, sizeof(pci)) == 0)
                check_terminated(pci, sizeof(pci));
        if (gf_parse_char_majors(text, &majors) == 0)
                (void)gf_majors_find(&majors, 195, "nvidia");
        gf_majors_done(&majors);
}

static void try_numbers(const char *text)
{
        uint64_t number;
        pid_t pid;

        if (gf_parse_pid(text, &pid) == 0 && pid < 1)
                abort();
        (void)gf_parse_duration(text, &number);
        (void)gf_parse_size(text, &number);
        (void)gf_parse_hex64(text, &number);
}

static void try_rules(const char *text)
{
        struct gf_rules rules = { 0 };
        char *error = NULL;

        if (gf_rules_add(&rules, "protect", text, "why", &error) == -EINVAL && (!error || !error[0]))
                abort();
        free(error);
        gf_rules_done(&rules);
}

/* A list of hosts: what it gives is a target that ssh takes for a host, or none. */
static void try_hosts(const char *text)
{
        gf_strv hosts = { 0 };
        char *error = NULL;

        if (fleet_hosts_add(&hosts, text, &error) == -EINVAL && (!error || !error[0]))
                abort();
        free(error);
        for (size_t i = 0; i < hosts.n && i < 100; i++) {
                struct fleet_target target;
                gf_strv argv = { 0 };
                char *line = NULL;

                error = NULL;
                if (fleet_target_parse(hosts.v[i], &target, &error) >= 0) {
                        if (target.host[0] == '-' || strpbrk(target.host, " \t\n'\"$`;&|<>()\\"))
                                abort();
                        if (gf_strv_add(&argv, text) == 0 && fleet_target_line(&target, &argv, &line) == 0)
                                free(line);
                        gf_strv_done(&argv);
                        fleet_target_done(&target);
                }
                free(error);
        }
        gf_strv_done(&hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1), buf[64];

        if (!text)
                return 0;
        memcpy(text, data, size);
        text[size] = '\0';
        try_cgroup(text);
        try_json((const char *)data, size);
        try_driver(text);
        try_numbers(text);
        try_rules(text);
        try_hosts(text);
        if (gf_unitfile_get(text, "Service", "Restart", buf, sizeof(buf)))
                check_terminated(buf, sizeof(buf));
        if (gf_unitfile_get(text, NULL, "hostname", buf, sizeof(buf)))
                check_terminated(buf, sizeof(buf));
        free(text);
        return 0;
}

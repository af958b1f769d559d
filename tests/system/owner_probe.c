/* SPDX-License-Identifier: MIT */
/*
 * owner_probe PID: whose process is it, in lines that a test can read:
 *   label, chain (outermost first), again, why, stop, refusal, warning
 * owner_probe --stop PID: runs the owner's command too, and prints its outcome (0 done) and sentence.
 */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "end/owner_stop.h"
#include "owner/owner.h"
#include "owner/procs.h"

static void line(const char *key, const char *value)
{
        printf("%s=%s\n", key, value ? value : "");
}

static int stop_it(struct gf_env *env, const struct gf_stop *stop)
{
        struct gf_stopped stopped;
        int r;

        r = gf_owner_stop(env, stop, 30000, &stopped);
        if (r < 0)
                return r;
        printf("outcome=%d\n", stopped.outcome);
        line("sentence", stopped.sentence);
        line("output", stopped.output);
        gf_stopped_done(&stopped);
        return 0;
}

int main(int argc, char **argv)
{
        static const char *const again[] = { "unknown", "no", "on-kill", "yes" };
        bool stop_too = argc == 3 && strcmp(argv[1], "--stop") == 0;
        struct gpufree_holder holder = { 0 };
        struct gf_brief brief;
        struct gf_stop stop;
        struct gf_env env;
        pid_t pid;
        int r;

        if ((argc != 2 && !stop_too) || gf_parse_pid(argv[argc - 1], &pid) < 0)
                return 2;
        gf_env_init(&env);
        r = gf_env_defaults(&env);
        if (r == 0)
                r = gf_brief_read(&env, pid, &brief);
        if (r < 0) {
                fprintf(stderr, "owner_probe: process %d: %s\n", pid, strerror(-r));
                return 1;
        }
        holder.id = brief.id;
        holder.facts.ppid = brief.ppid;
        holder.facts.uid = brief.uid;
        holder.facts.login_session = UINT32_MAX;
        r = gf_cgroup_lines_read(&env, pid, &holder.facts.cgroups);
        if (r == 0)
                r = gf_owner_read(&env, &holder);
        if (r == 0)
                r = gf_stop_find(&env, (uint32_t)geteuid(), &holder, &stop);
        if (r < 0) {
                fprintf(stderr, "owner_probe: %s\n", strerror(-r));
                return 1;
        }
        line("label", holder.owner_label);
        for (size_t i = 0; i < holder.owners.n; i++)
                printf("chain=%s %s %s %s\n", holder.owners.v[i].kind,
                       holder.owners.v[i].runtime ? holder.owners.v[i].runtime : "-", holder.owners.v[i].id,
                       holder.owners.v[i].name ? holder.owners.v[i].name : "-");
        line("again", again[stop.again]);
        line("why", stop.why);
        line("stop", stop.text);
        line("refusal", stop.refusal);
        line("warning", stop.warning);
        if (stop_too)
                r = stop_it(&env, &stop);
        gf_stop_done(&stop);
        gf_holder_done(&holder);
        gf_env_done(&env);
        return r < 0;
}

/* SPDX-License-Identifier: MIT */
#include "owner/stop.h"

#include <string.h>

#include "base/num.h"
#include "owner/names.h"

struct row {
        const char *kind, *runtime;
        enum gf_again again;
        const char *why;     /* "%s": the id */
        const char *argv[6]; /* "%": the id */
        const char *text;    /* where there is no command; "%s": the id */
};

static const struct row rows[] = {
        { "container", "docker", GF_AGAIN_UNKNOWN, NULL, { "docker", "stop", "%" }, NULL },
        { "container",
          "podman",
          GF_AGAIN_UNKNOWN,
          "whether Podman starts it again is known to Podman alone",
          { "podman", "stop", "%" },
          NULL },
        { "container",
          "nerdctl",
          GF_AGAIN_UNKNOWN,
          "whether containerd starts it again is known to containerd alone",
          { "nerdctl", "stop", "%" },
          NULL },
        { "container",
          "containerd",
          GF_AGAIN_UNKNOWN,
          "containerd does not tell what started it",
          { NULL },
          "find what started it: ctr -n default containers info %s" },
        { "container",
          "cri-o",
          GF_AGAIN_YES,
          "kubelet starts it again unless its restartPolicy is Never",
          { "crictl", "stop", "%" },
          NULL },
        { "container",
          "cri",
          GF_AGAIN_YES,
          "kubelet starts it again unless its restartPolicy is Never",
          { "crictl", "stop", "%" },
          NULL },
        { "container", "runc", GF_AGAIN_NO, "runc starts nothing again", { "runc", "kill", "%", "TERM" }, NULL },
        { "container", "crun", GF_AGAIN_NO, "crun starts nothing again", { "crun", "kill", "%", "TERM" }, NULL },
        { "container", "lxc", GF_AGAIN_NO, "LXC starts a container at boot only", { "lxc-stop", "-n", "%" }, NULL },
        { "container",
          "incus",
          GF_AGAIN_UNKNOWN,
          "boot.autorestart decides whether Incus starts it again",
          { "incus", "stop", "--", "%" },
          NULL },
        { "container",
          "lxd",
          GF_AGAIN_UNKNOWN,
          "boot.autorestart decides whether LXD starts it again",
          { "lxc", "stop", "--", "%" },
          NULL },
        { "container",
          "proxmox",
          GF_AGAIN_UNKNOWN,
          "Proxmox starts it again only where HA manages it",
          { "pct", "shutdown", "%" },
          NULL },
        { "container",
          "nspawn",
          GF_AGAIN_NO,
          "systemd-nspawn starts nothing again",
          { "machinectl", "poweroff", "--", "%" },
          NULL },
        { "container",
          "libvirt-lxc",
          GF_AGAIN_UNKNOWN,
          "libvirt's on_crash decides whether it is started again",
          { "virsh", "-c", "lxc:///", "shutdown", "%" },
          NULL },
        { "vm",
          "proxmox",
          GF_AGAIN_UNKNOWN,
          "Proxmox starts it again only where HA manages it",
          { "qm", "shutdown", "%" },
          NULL },
        { "vm",
          "libvirt",
          GF_AGAIN_UNKNOWN,
          "libvirt's on_crash decides whether it is started again",
          { "virsh", "-c", "qemu:///system", "shutdown", "%" },
          NULL },
        { "job",
          "nomad",
          GF_AGAIN_YES,
          "Nomad places the allocation again; nomad job stop JOB ends it for good",
          { "nomad", "alloc", "stop", "%" },
          NULL },
        { "job",
          "htcondor",
          GF_AGAIN_YES,
          "HTCondor queues the job again",
          { NULL },
          "find the job of this slot with condor_q -run, then condor_rm it" },
        { "job",
          "ray",
          GF_AGAIN_UNKNOWN,
          "Ray may start its worker again",
          { NULL },
          "ray job list, then ray job stop for job %s" },
        { "container", "apptainer", GF_AGAIN_NO, "Apptainer starts nothing again", { NULL }, NULL },
};

static const struct row *row_of(const struct gf_cgroup_owner *owner, const char *runtime)
{
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (strcmp(rows[i].kind, owner->kind) == 0 && gf_streq(rows[i].runtime, runtime))
                        return &rows[i];
        return NULL;
}

/* The file must have been written for this container by its own Docker; what cannot be read stays unknown. */
static void docker_again(struct gf_search *s, const struct gf_cgroup_owner *owner)
{
        char policy[64];

        if (gf_docker_policy(s->places, owner, policy, sizeof(policy)) < 0) {
                gf_search_say(s, &s->stop->why, "its restart policy could not be read (Docker's files are for root)");
        } else if (policy[0] == '\0' || strcmp(policy, "no") == 0) {
                s->stop->again = GF_AGAIN_NO;
                gf_search_say(s, &s->stop->why, "Docker does not start it again (no restart policy)");
        } else {
                s->stop->again = GF_AGAIN_YES;
                gf_search_say(s, &s->stop->why, "Docker starts it again (restart policy %s)", policy);
        }
}

/*
 * A container made with -P is only found by its tools when they are told the same; its monitor, the parent of its init,
 * has it in its title: "[lxc monitor] PATH NAME".
 */
void gf_stop_lxc_path(struct gf_search *s, const char *id)
{
        static const char title[] = "[lxc monitor] ";
        struct gf_brief chain[GF_ANCESTORS_MAX];
        size_t n = gf_ancestors(s->env, &s->holder->id, s->holder->facts.ppid, chain, ELEMENTSOF(chain));

        for (size_t i = 0; i < n; i++) {
                _cleanup_(gf_strv_done) gf_strv words = { 0 };
                char *path, *end;

                if (strcmp(chain[i].comm, "lxc-start") != 0 || gf_brief_uid(s->env, &chain[i]) < 0 ||
                    chain[i].uid != s->me)
                        continue;
                if (gf_words_read(s->env, &chain[i].id, &words) < 0 || words.n == 0 ||
                    !gf_startswith(words.v[0], title))
                        continue;
                path = words.v[0] + sizeof(title) - 1;
                end = strrchr(path, ' ');
                if (!end || strcmp(end + 1, id) != 0 || path[0] != '/')
                        continue;
                *end = '\0';
                if (strcmp(path, "/var/lib/lxc") != 0)
                        GF_COMMAND(s, path, "-P", "%");
                return;
        }
}

void gf_stop_by_row(struct gf_search *s, const struct gf_cgroup_owner *owner, const char *runtime)
{
        const struct row *row = row_of(owner, runtime);
        _cleanup_free_ char *variable = NULL;
        bool rootless = owner->manager != UINT32_MAX && !owner->nested;

        if (!row)
                return;
        s->stop->again = row->again;
        if (row->why)
                gf_search_say(s, &s->stop->why, "%s", row->why);
        if (strcmp(row->runtime, "docker") == 0)
                docker_again(s, owner);
        if (!gf_plain_id(owner->id)) {
                gf_search_say(s, &s->stop->refusal, "its name is none that can be given to a command");
                return;
        }
        if (!row->argv[0]) {
                if (row->text) {
                        free(s->stop->text);
                        s->stop->text = NULL;
                        gf_search_say(s, &s->stop->text, "%.*s%s%s", (int)strcspn(row->text, "%"), row->text,
                                      strchr(row->text, '%') ? owner->id : "",
                                      strchr(row->text, '%') ? strchr(row->text, '%') + 2 : "");
                }
                return;
        }
        if (rootless) {
                variable = strcmp(row->runtime, "docker") == 0
                                   ? gf_asprintf("DOCKER_HOST=unix:///run/user/%u/docker.sock", owner->manager)
                                   : gf_asprintf("XDG_RUNTIME_DIR=/run/user/%u", owner->manager);
                s->failed |= variable == NULL;
                if (s->failed || !gf_search_as(s, owner->manager, variable))
                        return;
        }
        gf_search_command(s, row->argv, owner->id);
        if (strcmp(row->runtime, "lxc") == 0)
                gf_stop_lxc_path(s, owner->id);
        if (strcmp(owner->kind, "container") == 0 || strcmp(owner->kind, "vm") == 0)
                gf_search_say(s, &s->stop->warning, "stops the whole %s with everything in it", owner->kind);
}

void gf_stop_pod(struct gf_search *s, const struct gf_cgroup_owner *owner)
{
        _cleanup_free_ char *name = NULL;
        const char *runtime = NULL;
        char *slash;

        s->stop->again = GF_AGAIN_YES;
        gf_search_say(s, &s->stop->why, "kubelet starts its containers again, and a controller a deleted pod");
        if (gf_name_find(s->places, owner, s->holder, &runtime, &name) < 0)
                s->failed = true;
        slash = name ? strchr(name, '/') : NULL;
        if (!slash) {
                gf_search_say(s, &s->stop->text,
                              "find the pod with kubectl get pods -A -o wide (uid %s), then delete it or scale "
                              "its controller down",
                              owner->id);
                return;
        }
        *slash = '\0';
        if (!gf_plain_id(name) || !gf_plain_id(slash + 1)) {
                gf_search_say(s, &s->stop->refusal, "its name is none that can be given to a command");
                return;
        }
        GF_COMMAND(s, name, "kubectl", "-n", "%", "delete", "pod");
        gf_search_word(s, slash + 1);
        gf_search_say(s, &s->stop->warning,
                      "a controller (Deployment, Job, …) makes a new pod: scale that down instead");
}

/* "77", "77.0", "77.batch": steps that Slurm numbers can be cancelled alone. A job known from the process's own
 * environment may be made up: then only if it is that user's own. */
void gf_stop_slurm(struct gf_search *s, const char *id, bool claimed)
{
        const char *dot = strchr(id, '.');
        _cleanup_free_ char *job = strndup(id, dot ? (size_t)(dot - id) : strlen(id)), *user = NULL;
        uint32_t step;

        s->failed |= job == NULL;
        if (s->failed)
                return;
        s->stop->again = GF_AGAIN_NO;
        gf_search_say(s, &s->stop->why, "Slurm does not start it again; the job's own script may");
        if (strspn(job, "0123456789") != strlen(job) || job[0] == '\0') {
                s->stop->again = GF_AGAIN_UNKNOWN;
                gf_search_say(s, &s->stop->text, "find the job with squeue -w this node, then scancel it");
                return;
        }
        gf_search_word(s, "scancel");
        if (claimed) {
                if (gf_passwd_find(s->places, s->holder->facts.uid, &user, NULL) < 0 || user[0] == '-') {
                        gf_strv_done(&s->stop->argv);
                        gf_search_say(s, &s->stop->refusal, "only the process itself says that it is of job %s", job);
                        return;
                }
                s->failed |= gf_strv_addf(&s->stop->argv, "--user=%s", user) < 0;
        }
        if (dot && gf_parse_u32(dot + 1, &step) == 0) {
                gf_search_word(s, id);
        } else {
                gf_search_word(s, job);
                gf_search_say(s, &s->stop->warning, "cancels the whole job %s", job);
        }
}

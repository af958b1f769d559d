/* SPDX-License-Identifier: MIT */
#include "owner/restart.h"

#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "owner/label.h"
#include "owner/launcher.h"
#include "owner/names.h"
#include "owner/unitrestart.h"

void gf_stop_done(struct gf_stop *stop)
{
        free(stop->owner);
        free(stop->why);
        gf_strv_done(&stop->argv);
        free(stop->text);
        free(stop->warning);
        free(stop->refusal);
        gf_strv_done(&stop->ask);
        *stop = (struct gf_stop){ 0 };
}

bool gf_stop_same(const struct gf_stop *a, const struct gf_stop *b)
{
        if (a->argv.n == 0 || a->argv.n != b->argv.n)
                return false;
        for (size_t i = 0; i < a->argv.n; i++)
                if (strcmp(a->argv.v[i], b->argv.v[i]) != 0)
                        return false;
        return true;
}

char *gf_shell_quote(const gf_strv *argv)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
        struct gf_str s = { 0 };
        char *text = NULL;

        for (size_t i = 0; i < argv->n; i++) {
                const char *word = argv->v[i];

                if (i > 0)
                        gf_str_addc(&s, ' ');
                if (*word != '\0' && strspn(word, plain) == strlen(word)) {
                        gf_str_add(&s, word);
                        continue;
                }
                gf_str_addc(&s, '\'');
                for (; *word; word++)
                        if (*word == '\'')
                                gf_str_add(&s, "'\\''");
                        else
                                gf_str_addc(&s, *word);
                gf_str_addc(&s, '\'');
        }
        return gf_str_take(&s, &text) < 0 ? NULL : text;
}

/* What a search for the stop works with. `failed` is looked at once, at the end. */
struct search {
        struct gf_env *env;
        const struct gf_places *places;
        const struct gpufree_holder *holder;
        uint32_t me;
        struct gf_stop *stop;
        bool failed;
};

_printf_(3, 4) static void say(struct search *s, char **dst, const char *format, ...)
{
        va_list ap;

        free(*dst);
        va_start(ap, format);
        *dst = gf_vasprintf(format, ap);
        va_end(ap);
        s->failed |= *dst == NULL;
}

static void word(struct search *s, const char *text)
{
        s->failed |= gf_strv_add(&s->stop->argv, text) < 0;
}

/* argv from words, "%" standing for `arg`. */
static void command(struct search *s, const char *const *words, const char *arg)
{
        for (; *words; words++)
                word(s, strcmp(*words, "%") == 0 ? arg : *words);
}
#define COMMAND(s, arg, ...) command(s, (const char *const[]){ __VA_ARGS__, NULL }, arg)

/*
 * What follows runs as user `uid`: with that user's rights alone, so that a name which the user made up can do no harm
 * to others. false: we are neither that user nor root.
 */
static bool as_user(struct search *s, uint32_t uid, const char *variable)
{
        _cleanup_free_ char *name = NULL;

        if (uid == s->me)
                return true;
        if (s->me != 0 || gf_passwd_find(s->places, uid, &name, NULL) < 0 || name[0] == '-') {
                say(s, &s->stop->refusal, "it belongs to uid %u, as whom it would have to be run", uid);
                return false;
        }
        COMMAND(s, name, "runuser", "-u", "%", "--");
        if (variable)
                COMMAND(s, variable, "env", "%");
        return true;
}

/* ---- containers, VMs, pods, jobs: one row each ---- */

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
static void docker_again(struct search *s, const struct gf_cgroup_owner *owner)
{
        char policy[64];

        if (gf_docker_policy(s->places, owner, policy, sizeof(policy)) < 0) {
                say(s, &s->stop->why, "its restart policy could not be read (Docker's files are for root)");
        } else if (policy[0] == '\0' || strcmp(policy, "no") == 0) {
                s->stop->again = GF_AGAIN_NO;
                say(s, &s->stop->why, "Docker does not start it again (no restart policy)");
        } else {
                s->stop->again = GF_AGAIN_YES;
                say(s, &s->stop->why, "Docker starts it again (restart policy %s)", policy);
        }
}

/* A name as an argument: nothing that reads as an option, nothing that cannot be a name. */
static bool plain_id(const char *id)
{
        return id[0] != '-' && id[0] != '.' &&
               id[strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789+_.-")] == '\0' &&
               id[0] != '\0';
}

static void stop_by_row(struct search *s, const struct gf_cgroup_owner *owner, const char *runtime)
{
        const struct row *row = row_of(owner, runtime);
        _cleanup_free_ char *variable = NULL;
        bool rootless = owner->manager != UINT32_MAX && !owner->nested;

        if (!row)
                return;
        s->stop->again = row->again;
        if (row->why)
                say(s, &s->stop->why, "%s", row->why);
        if (strcmp(row->runtime, "docker") == 0)
                docker_again(s, owner);
        if (!plain_id(owner->id)) {
                say(s, &s->stop->refusal, "its name is none that can be given to a command");
                return;
        }
        if (!row->argv[0]) {
                if (row->text) {
                        free(s->stop->text);
                        s->stop->text = NULL;
                        say(s, &s->stop->text, "%.*s%s%s", (int)strcspn(row->text, "%"), row->text,
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
                if (s->failed || !as_user(s, owner->manager, variable))
                        return;
        }
        command(s, row->argv, owner->id);
        if (strcmp(owner->kind, "container") == 0 || strcmp(owner->kind, "vm") == 0)
                say(s, &s->stop->warning, "stops the whole %s with everything in it", owner->kind);
}

static void stop_pod(struct search *s, const struct gf_cgroup_owner *owner)
{
        _cleanup_free_ char *name = NULL;
        const char *runtime = NULL;
        char *slash;

        s->stop->again = GF_AGAIN_YES;
        say(s, &s->stop->why, "kubelet starts its containers again, and a controller a deleted pod");
        if (gf_name_find(s->places, owner, s->holder, &runtime, &name) < 0)
                s->failed = true;
        slash = name ? strchr(name, '/') : NULL;
        if (!slash) {
                say(s, &s->stop->text,
                    "find the pod with kubectl get pods -A -o wide (uid %s), then delete it or scale "
                    "its controller down",
                    owner->id);
                return;
        }
        *slash = '\0';
        if (!plain_id(name) || !plain_id(slash + 1)) {
                say(s, &s->stop->refusal, "its name is none that can be given to a command");
                return;
        }
        COMMAND(s, name, "kubectl", "-n", "%", "delete", "pod");
        word(s, slash + 1);
        say(s, &s->stop->warning, "a controller (Deployment, Job, …) makes a new pod: scale that down instead");
}

/* "77", "77.0", "77.batch": steps that Slurm numbers can be cancelled alone. A job known from the process's own
 * environment may be made up: then only if it is that user's own. */
static void stop_slurm(struct search *s, const char *id, bool claimed)
{
        const char *dot = strchr(id, '.');
        _cleanup_free_ char *job = strndup(id, dot ? (size_t)(dot - id) : strlen(id)), *user = NULL;
        uint32_t step;

        s->failed |= job == NULL;
        if (s->failed)
                return;
        s->stop->again = GF_AGAIN_NO;
        say(s, &s->stop->why, "Slurm does not start it again; the job's own script may");
        if (strspn(job, "0123456789") != strlen(job) || job[0] == '\0') {
                s->stop->again = GF_AGAIN_UNKNOWN;
                say(s, &s->stop->text, "find the job with squeue -w this node, then scancel it");
                return;
        }
        word(s, "scancel");
        if (claimed) {
                if (gf_passwd_find(s->places, s->holder->facts.uid, &user, NULL) < 0 || user[0] == '-') {
                        gf_strv_done(&s->stop->argv);
                        say(s, &s->stop->refusal, "only the process itself says that it is of job %s", job);
                        return;
                }
                s->failed |= gf_strv_addf(&s->stop->argv, "--user=%s", user) < 0;
        }
        if (dot && gf_parse_u32(dot + 1, &step) == 0) {
                word(s, id);
        } else {
                word(s, job);
                say(s, &s->stop->warning, "cancels the whole job %s", job);
        }
}

/* ---- systemd ---- */

/* Units that are more than the one process: stopping them would end what nobody asked about. */
static bool is_foundation(const char *id)
{
        static const char *const units[] = {
                "ssh.service",
                "sshd.service",
                "cron.service",
                "crond.service",
                "atd.service",
                "dbus.service",
                "dbus-broker.service",
                "docker.service",
                "containerd.service",
                "crio.service",
                "kubelet.service",
                "k3s.service",
                "slurmd.service",
                "nomad.service",
                "condor.service",
                "libvirtd.service",
                "lxd.service",
                "incus.service",
                "supervisor.service",
                "runit.service",
                "gdm.service",
                "gdm3.service",
                "sddm.service",
                "lightdm.service",
                "init.scope",
                "NetworkManager.service",
                "nvidia-fabricmanager.service",
                "nvidia-persistenced.service",
        };
        static const char *const prefixes[] = { "systemd-", "user@", "getty@", "serial-getty@", "ssh@", "sshd@" };

        for (size_t i = 0; i < ELEMENTSOF(units); i++)
                if (strcmp(id, units[i]) == 0)
                        return true;
        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++)
                if (gf_startswith(id, prefixes[i]) && !gf_startswith(id, "systemd-nspawn@"))
                        return true;
        return gf_endswith(id, "slurmstepd.scope");
}

static void unit_again(struct search *s, const struct gf_cgroup_owner *owner)
{
        enum gf_again again = GF_AGAIN_UNKNOWN;
        char value[64];
        int r;

        if (gf_endswith(owner->id, ".scope")) {
                s->stop->again = GF_AGAIN_NO;
                say(s, &s->stop->why, "systemd starts no scope again");
                return;
        }
        r = gf_unit_restart(s->places, owner->id, owner->manager, owner->manager == s->me, &again, value,
                            sizeof(value));
        if (r < 0) {
                say(s, &s->stop->why, "whether systemd starts %s again is not known: its unit file was not found",
                    owner->id);
                return;
        }
        s->stop->again = again;
        if (again == GF_AGAIN_NO)
                say(s, &s->stop->why, "systemd does not start %s again (Restart=%s)", owner->id, value);
        else if (again == GF_AGAIN_ON_KILL)
                say(s, &s->stop->why, "systemd starts %s again after SIGKILL, not after SIGTERM (Restart=%s)",
                    owner->id, value);
        else
                say(s, &s->stop->why, "systemd starts %s again (Restart=%s)", owner->id, value);
}

static void stop_unit(struct search *s, const struct gf_cgroup_owner *owner)
{
        _cleanup_free_ char *trigger = NULL, *name = NULL, *machine = NULL;

        if (!gf_unit_name_valid(owner->id) || strcmp(owner->id, "init.scope") == 0) {
                say(s, &s->stop->refusal, "it is no unit that can be stopped by name");
                return;
        }
        if (!owner->nested && strcmp(owner->kind, "user-unit") != 0 && is_foundation(owner->id)) {
                say(s, &s->stop->refusal, "stopping %s would end far more than this", owner->id);
                return;
        }
        if (!owner->nested)
                unit_again(s, owner);
        if (strcmp(owner->kind, "user-unit") != 0 || owner->nested) {
                if (!owner->nested && gf_unit_trigger(s->places, owner->id, &trigger) < 0)
                        s->failed = true;
                if (trigger)
                        say(s, &s->stop->warning, "%s starts it again while that is active: stop that as well",
                            trigger);
                COMMAND(s, owner->id, "systemctl", "stop", "--", "%");
                return;
        }
        if (s->me == owner->manager) {
                COMMAND(s, owner->id, "systemctl", "--user", "stop", "--", "%");
                return;
        }
        if (s->me != 0 || gf_passwd_find(s->places, owner->manager, &name, NULL) < 0) {
                say(s, &s->stop->refusal, "it belongs to the manager of uid %u", owner->manager);
                return;
        }
        machine = gf_asprintf("%s@.host", name);
        s->failed |= machine == NULL;
        if (machine)
                COMMAND(s, machine, "systemctl", "--user", "-M", "%", "stop", "--");
        word(s, owner->id);
}

static void stop_session(struct search *s, const struct gf_cgroup_owner *owner)
{
        s->stop->again = GF_AGAIN_NO;
        say(s, &s->stop->why, "nothing starts the processes of a login session again");
        if (!plain_id(owner->id))
                return;
        COMMAND(s, owner->id, "loginctl", "terminate-session", "%");
        say(s, &s->stop->warning, "ends the whole login session %s with everything in it", owner->id);
}

/* ---- supervisors and loops, found among the ancestors ---- */

static void stop_supervisord(struct search *s, const struct gf_launcher *l)
{
        static const char *const verbs[] = { "pid", "stop" };

        if (!l->what) {
                say(s, &s->stop->text, "supervisorctl status shows which program PID %d is; then supervisorctl stop it",
                    l->child.pid);
                return;
        }
        if (l->what[0] == '-' || strspn(l->what, " \t\n") > 0)
                return;
        /* the name is from the child's environment: supervisord must say that it is this very child */
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++) {
                if (!as_user(s, l->process.uid, NULL))
                        return;
                word(s, "supervisorctl");
                if (l->conf)
                        COMMAND(s, l->conf, "-c", "%");
                word(s, verbs[i]);
                word(s, l->what);
                if (i == 0) {
                        s->stop->ask = s->stop->argv;
                        s->stop->argv = (gf_strv){ 0 };
                }
        }
        s->stop->ask_pid = l->child.pid;
}

static void stop_by_directory(struct search *s, const struct gf_launcher *l)
{
        static const struct {
                const char *name, *argv[4];
        } table[] = {
                { "runit", { "sv", "down", "%" } },
                { "s6", { "s6-svc", "-d", "%" } },
                { "daemontools", { "svc", "-d", "%" } },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (strcmp(l->name, table[i].name) == 0 && l->what && l->what[0] == '/' &&
                    as_user(s, l->process.uid, NULL))
                        command(s, table[i].argv, l->what);
}

static void stop_launcher(struct search *s, const struct gf_launcher *l)
{
        if (l->kind == GF_LAUNCHER_SHELL) {
                say(s, &s->stop->why, "its parent is a shell script (PID %d, %s), which may start it again",
                    l->process.id.pid, l->what);
                say(s, &s->stop->text, "end PID %d (%s) first, if it is a loop", l->process.id.pid, l->what);
                return;
        }
        s->stop->again = GF_AGAIN_YES;
        say(s, &s->stop->why, "%s (PID %d) starts it again", l->name, l->process.id.pid);
        say(s, &s->stop->owner, "%s (%s)", l->what ? l->what : l->process.comm, l->name);
        if (strcmp(l->name, "supervisord") == 0)
                stop_supervisord(s, l);
        else
                stop_by_directory(s, l);
        if (s->stop->argv.n == 0 && !s->stop->text)
                say(s, &s->stop->text, "stop it through %s (PID %d), which started it", l->name, l->process.id.pid);
}

/* ---- which owner ---- */

static const char *enter_command(const char *runtime, const char **ret_verb)
{
        static const struct {
                const char *runtime, *argv[2];
        } table[] = {
                { "lxc", { "lxc-attach", "-n" } },
                { "incus", { "incus", "exec" } },
                { "lxd", { "lxc", "exec" } },
                { "proxmox", { "pct", "exec" } },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (gf_streq(runtime, table[i].runtime)) {
                        *ret_verb = table[i].argv[1];
                        return table[i].argv[0];
                }
        return NULL;
}

/*
 * A system container has a manager of its own: stopping the unit or container inside leaves the rest of it alone. The
 * command runs inside, so that names made up there stay there.
 */
static bool stop_inside(struct search *s, const struct gf_cgroup_owner *outer, const char *runtime,
                        const struct gf_cgroup_owner *inner)
{
        const char *verb, *enter = enter_command(runtime, &verb);
        bool unit = strcmp(inner->kind, "unit") == 0, container = strcmp(inner->kind, "container") == 0;

        if (!enter || outer->manager != UINT32_MAX || !plain_id(outer->id) || inner->manager != UINT32_MAX)
                return false;
        if (!(unit && gf_unit_name_valid(inner->id)) &&
            !(container && (gf_streq(inner->runtime, "docker") || gf_streq(inner->runtime, "podman"))))
                return false;
        COMMAND(s, verb, enter, "%");
        COMMAND(s, outer->id, "%", "--");
        if (unit)
                stop_unit(s, inner);
        else
                COMMAND(s, inner->id, inner->runtime, "stop", "%");
        s->stop->again = GF_AGAIN_UNKNOWN;
        say(s, &s->stop->why, "whether %s starts it again is known inside %s alone", unit ? "systemd" : inner->runtime,
            outer->id);
        return true;
}

static bool is_kind(const struct gf_cgroup_owner *owner, const char *kind)
{
        return strcmp(owner->kind, kind) == 0;
}

/* The outermost owner that can be stopped: what is inside it is its own affair. */
static const struct gf_cgroup_owner *outermost(const struct gf_cgroup_chain *chain)
{
        const struct gf_cgroup_owner *found = NULL;

        for (size_t i = 0; i < chain->n; i++) {
                const struct gf_cgroup_owner *o = &chain->v[i];

                if (o->nested)
                        break;
                if (is_kind(o, "cgroup") || is_kind(o, "monitor"))
                        continue;
                /* a user's manager is no owner of what runs in a unit below it */
                if (is_kind(o, "unit") && gf_startswith(o->id, "user@") && i + 1 < chain->n)
                        continue;
                found = o;
                break;
        }
        return found;
}

static void stop_owner(struct search *s, const struct gf_cgroup_chain *chain, const struct gf_cgroup_owner *owner)
{
        _cleanup_free_ char *name = NULL;
        const char *runtime = owner->runtime;
        const struct gf_cgroup_owner *inner = NULL;

        if (gf_name_find(s->places, owner, s->holder, &runtime, &name) < 0)
                s->failed = true;
        if (is_kind(owner, "cgroup"))
                runtime = gf_name_oci(s->places, owner->id);
        for (const struct gf_cgroup_owner *o = owner + 1; o < chain->v + chain->n && !inner; o++)
                if (o->nested)
                        inner = o;
        free(s->stop->owner);
        s->stop->owner = gf_label_of(owner->kind, runtime, owner->id, name);
        s->failed |= s->stop->owner == NULL;
        if (inner && stop_inside(s, owner, runtime, inner))
                return;
        if (is_kind(owner, "pod"))
                stop_pod(s, owner);
        else if (is_kind(owner, "session"))
                stop_session(s, owner);
        else if (is_kind(owner, "unit") || is_kind(owner, "user-unit") || is_kind(owner, "scope"))
                stop_unit(s, owner);
        else if (is_kind(owner, "job") && gf_streq(runtime, "slurm"))
                stop_slurm(s, owner->id, false);
        else
                stop_by_row(s, owner, runtime);
}

/* Owners that are known from the environment alone. */
static bool stop_claimed(struct search *s)
{
        for (size_t i = 0; i < s->holder->owners.n; i++) {
                const struct gf_owner *o = &s->holder->owners.v[i];

                if (!gf_streq(o->kind, "job"))
                        continue;
                say(s, &s->stop->owner, "%s", s->holder->owner_label ? s->holder->owner_label : o->id);
                if (gf_streq(o->runtime, "slurm")) {
                        stop_slurm(s, o->id, true);
                } else {
                        struct gf_cgroup_owner claimed = { .kind = "job", .runtime = "ray", .manager = UINT32_MAX };

                        snprintf(claimed.id, sizeof(claimed.id), "%s", o->id);
                        if (gf_streq(o->runtime, "ray"))
                                stop_by_row(s, &claimed, "ray");
                }
                return true;
        }
        return false;
}

/* Is there a container, VM, pod or job? Then what started the process inside it is not the host's affair. */
static bool is_contained(const struct gf_cgroup_owner *owner)
{
        return owner && !is_kind(owner, "unit") && !is_kind(owner, "user-unit") && !is_kind(owner, "scope") &&
               !is_kind(owner, "session");
}

/* Are we inside what would be stopped? Then the command would end us, and perhaps this very login. */
static bool holds_ourselves(struct search *s, const struct gf_cgroup_owner *owner, const struct gf_launcher *l)
{
        struct gf_brief chain[GF_ANCESTORS_MAX];
        struct gf_cgroup_chain own;
        _cleanup_(gf_strv_done) gf_strv lines = { 0 };

        if (l->kind == GF_LAUNCHER_SUPERVISOR) {
                size_t n = gf_ancestors(s->env, getppid(), chain, ELEMENTSOF(chain));

                for (size_t i = 0; i < n; i++)
                        if (gf_ident_equal(&chain[i].id, &l->child))
                                return true;
                return false;
        }
        if (gf_cgroup_lines_read(s->env, getpid(), &lines) < 0)
                return false;
        gf_cgroup_parse_lines(&lines, &own, NULL);
        for (size_t i = 0; owner && i < own.n; i++)
                if (strcmp(own.v[i].kind, owner->kind) == 0 && strcmp(own.v[i].id, owner->id) == 0 &&
                    own.v[i].nested == owner->nested)
                        return true;
        return false;
}

static int finish(struct search *s)
{
        if (s->failed)
                return -ENOMEM;
        if (s->stop->refusal)
                gf_strv_done(&s->stop->ask);
        if (s->stop->argv.n > 0 && !s->stop->text) {
                s->stop->text = gf_shell_quote(&s->stop->argv);
                if (!s->stop->text)
                        return -ENOMEM;
        }
        return 0;
}

int gf_stop_find_in(struct gf_env *env, const struct gf_places *places, uint32_t me,
                    const struct gpufree_holder *holder, struct gf_stop *ret_stop)
{
        _cleanup_(gf_stop_done) struct gf_stop stop = { 0 };
        _cleanup_(gf_launcher_done) struct gf_launcher launcher = { 0 };
        struct search s = { env, places, holder, me, &stop, false };
        struct gf_cgroup_chain chain;
        struct gf_cgroup_owner bare;
        const struct gf_cgroup_owner *owner;
        int r;

        gf_cgroup_parse_lines(&holder->facts.cgroups, &chain, NULL);
        owner = outermost(&chain);
        if (!owner && chain.n > 0 && is_kind(&chain.v[0], "cgroup") && gf_name_oci(places, chain.v[0].id)) {
                bare = chain.v[0];
                bare.kind = "container";
                bare.runtime = gf_name_oci(places, bare.id);
                owner = &bare;
                chain.n = 0;
        }
        r = is_contained(owner) ? 0 : gf_launcher_find(env, holder, &launcher);
        if (r < 0)
                return r;
        if (launcher.kind == GF_LAUNCHER_SUPERVISOR)
                stop_launcher(&s, &launcher);
        else if (owner == &bare)
                stop_by_row(&s, &bare, bare.runtime);
        else if (owner && (is_contained(owner) || !stop_claimed(&s)))
                stop_owner(&s, &chain, owner);
        else if (!owner && !stop_claimed(&s) && launcher.kind == GF_LAUNCHER_SHELL)
                stop_launcher(&s, &launcher);
        /* a loop in a session or scope starts its child again, whatever systemd does */
        if (launcher.kind == GF_LAUNCHER_SHELL && owner && !is_contained(owner) && stop.again == GF_AGAIN_NO) {
                stop.again = GF_AGAIN_UNKNOWN;
                say(&s, &stop.why, "its parent is a shell script (PID %d, %s), which may start it again",
                    launcher.process.id.pid, launcher.what);
        }
        if (stop.argv.n > 0 && !stop.refusal && holds_ourselves(&s, owner, &launcher))
                say(&s, &stop.refusal, "gpufree itself runs in it");
        r = finish(&s);
        if (r < 0)
                return r;
        *ret_stop = stop;
        stop = (struct gf_stop){ 0 };
        return 0;
}

int gf_stop_find(struct gf_env *env, uint32_t me, const struct gpufree_holder *holder, struct gf_stop *ret_stop)
{
        return gf_stop_find_in(env, &(struct gf_places){ "" }, me, holder, ret_stop);
}

/* SPDX-License-Identifier: MIT */
#include "owner/stop.h"

#include <string.h>

#include "owner/names.h"
#include "owner/unitrestart.h"

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

static void unit_again(struct gf_search *s, const struct gf_cgroup_owner *owner)
{
        enum gf_again again = GF_AGAIN_UNKNOWN;
        char value[64];
        int r;

        if (gf_endswith(owner->id, ".scope")) {
                s->stop->again = GF_AGAIN_NO;
                s->stop->plain = true;
                gf_search_say(s, &s->stop->why, "systemd starts no scope again");
                return;
        }
        r = gf_unit_restart(s->places, owner->id, owner->manager, owner->manager == s->me, &again, value,
                            sizeof(value));
        if (r < 0) {
                gf_search_say(s, &s->stop->why,
                              "whether systemd starts %s again is not known: its unit file was not found", owner->id);
                return;
        }
        s->stop->again = again;
        if (again == GF_AGAIN_NO)
                gf_search_say(s, &s->stop->why, "systemd does not start %s again (Restart=%s)", owner->id, value);
        else if (again == GF_AGAIN_ON_KILL)
                gf_search_say(s, &s->stop->why, "systemd starts %s again after SIGKILL, not after SIGTERM (Restart=%s)",
                              owner->id, value);
        else
                gf_search_say(s, &s->stop->why, "systemd starts %s again (Restart=%s)", owner->id, value);
}

void gf_stop_unit(struct gf_search *s, const struct gf_cgroup_owner *owner)
{
        _cleanup_free_ char *trigger = NULL, *name = NULL, *machine = NULL;

        if (!gf_unit_name_valid(owner->id) || strcmp(owner->id, "init.scope") == 0) {
                gf_search_say(s, &s->stop->refusal, "it is no unit that can be stopped by name");
                return;
        }
        if (!owner->nested && strcmp(owner->kind, "user-unit") != 0 && is_foundation(owner->id)) {
                gf_search_say(s, &s->stop->refusal, "stopping %s would end far more than this", owner->id);
                return;
        }
        if (!owner->nested)
                unit_again(s, owner);
        if (strcmp(owner->kind, "user-unit") != 0 || owner->nested) {
                if (!owner->nested && gf_unit_trigger(s->places, owner->id, &trigger) < 0)
                        s->failed = true;
                if (trigger)
                        gf_search_say(s, &s->stop->warning,
                                      "%s starts it again while that is active: stop that as well", trigger);
                GF_COMMAND(s, owner->id, "systemctl", "stop", "--", "%");
                return;
        }
        if (s->me == owner->manager) {
                GF_COMMAND(s, owner->id, "systemctl", "--user", "stop", "--", "%");
                return;
        }
        if (s->me != 0 || gf_passwd_find(s->places, owner->manager, &name, NULL) < 0) {
                gf_search_say(s, &s->stop->refusal, "it belongs to the manager of uid %u", owner->manager);
                return;
        }
        machine = gf_asprintf("%s@.host", name);
        s->failed |= machine == NULL;
        if (machine)
                GF_COMMAND(s, machine, "systemctl", "--user", "-M", "%", "stop", "--");
        gf_search_word(s, owner->id);
}

void gf_stop_session(struct gf_search *s, const struct gf_cgroup_owner *owner)
{
        s->stop->again = GF_AGAIN_NO;
        s->stop->plain = true;
        gf_search_say(s, &s->stop->why, "nothing starts the processes of a login session again");
        if (!gf_plain_id(owner->id))
                return;
        GF_COMMAND(s, owner->id, "loginctl", "terminate-session", "%");
        gf_search_say(s, &s->stop->warning, "ends the whole login session %s with everything in it", owner->id);
}

/* ---- supervisors and loops, found among the ancestors ---- */

static void stop_supervisord(struct gf_search *s, const struct gf_launcher *l)
{
        static const char *const verbs[] = { "pid", "stop" };

        if (!l->what) {
                gf_search_say(s, &s->stop->text,
                              "supervisorctl status shows which program PID %d is; then supervisorctl stop it",
                              l->child.pid);
                return;
        }
        if (l->what[0] == '-' || strspn(l->what, " \t\n") > 0)
                return;
        /* the name is from the child's environment: supervisord must say that it is this very child */
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++) {
                if (!gf_search_as(s, l->process.uid, NULL))
                        return;
                gf_search_word(s, "supervisorctl");
                if (l->conf)
                        GF_COMMAND(s, l->conf, "-c", "%");
                gf_search_word(s, verbs[i]);
                gf_search_word(s, l->what);
                if (i == 0) {
                        s->stop->ask = s->stop->argv;
                        s->stop->argv = (gf_strv){ 0 };
                }
        }
        s->stop->ask_pid = l->child.pid;
}

static void stop_by_directory(struct gf_search *s, const struct gf_launcher *l)
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
                    gf_search_as(s, l->process.uid, NULL))
                        gf_search_command(s, table[i].argv, l->what);
}

void gf_stop_launcher(struct gf_search *s, const struct gf_launcher *l)
{
        if (l->kind == GF_LAUNCHER_SHELL) {
                gf_search_say(s, &s->stop->why, "its parent is a shell script (PID %d, %s), which may start it again",
                              l->process.id.pid, l->what);
                gf_search_say(s, &s->stop->text, "end PID %d (%s) first, if it is a loop", l->process.id.pid, l->what);
                return;
        }
        s->stop->again = GF_AGAIN_YES;
        gf_search_say(s, &s->stop->why, "%s (PID %d) starts it again", l->name, l->process.id.pid);
        gf_search_say(s, &s->stop->owner, "%s (%s)", l->what ? l->what : l->process.comm, l->name);
        if (strcmp(l->name, "supervisord") == 0)
                stop_supervisord(s, l);
        else
                stop_by_directory(s, l);
        if (s->stop->argv.n == 0 && !s->stop->text)
                gf_search_say(s, &s->stop->text, "stop it through %s (PID %d), which started it", l->name,
                              l->process.id.pid);
}

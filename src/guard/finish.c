/* SPDX-License-Identifier: MIT */
/* The end: nothing of the command is left, and its GPUs are free. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/run.h"
#include "pipeline.h"
#include "sys/clock.h"
#include "sys/pidwait.h"
#include "verify/verdict.h"
#include "verify/verify.h"

static void say_verdicts(struct gpufree_guard *guard, const struct gpufree_report *report)
{
        for (size_t i = 0; i < report->gpus.n; i++) {
                const struct gf_gpu_verdict *verdict = &report->gpus.v[i];
                struct gf_str label = { 0 };

                gf_gpu_label(&report->snapshot->inventory.gpus.v[verdict->gpu], &label);
                if (!verdict->verified)
                        gf_guard_warn(guard, "%s did not come back: %s", label.s ? label.s : "GPU",
                                      verdict->sentence ? verdict->sentence : "not known");
                gf_str_done(&label);
        }
        for (size_t i = 0; i < report->sentences.n; i++)
                gf_guard_warn(guard, "%s", report->sentences.v[i]);
}

bool gf_finish_verify(struct gpufree_guard *guard)
{
        struct gf_sight sight = { .context = guard->context, .selection = guard->selection };
        struct gf_eyes eyes = gf_eyes_of(&sight);
        struct gpufree_report *report = NULL;
        struct gf_env *env = &guard->context->env;
        uint64_t settle = guard->options.ladder.settle_ms;
        int r;

        if (!guard->selection)
                return true;
        eyes.on_event = NULL;
        guard->report = gpufree_report_unref(guard->report);
        r = gf_wait_free(env, &eyes, settle, settle, &report);
        guard->result.verified = r >= 0 && report->outcome == GPUFREE_OK;
        if (r < 0) {
                gf_guard_warn(guard, "whether %s came back could not be seen: %s", guard->label,
                              env->error ? env->error : "not known");
                return false;
        }
        guard->report = report;
        if (report->outcome != GPUFREE_OK) {
                say_verdicts(guard, report);
                return false;
        }
        return true;
}

/* The command's processes are this process's children by now: it adopts orphans, too. */
void gf_finish_alone(struct gf_life *life)
{
        struct gf_cgroup none = GF_CGROUP_NONE;
        struct gf_ending ending = {
                .cgroup = &none,
                .env = &life->guard->context->env,
                .root = getpid(),
                .spare = gf_nvml_child(life->guard->context->nvml).pid,
        };
        uint64_t deadline = gf_deadline_in(30000);
        const struct gpufree_ladder *ladder = &life->guard->options.ladder;
        int left = 1;

        gf_ending_begin(&ending, ladder->signal, ladder->force, ladder->grace_ms);
        while (left > 0 && gf_deadline_left(deadline) > 0) {
                siginfo_t info = { 0 };

                left = gf_ending_step(&ending);
                while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid > 0) {
                        if (info.si_pid == life->command) {
                                life->status = info.si_code == CLD_EXITED ? info.si_status : 0;
                                life->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
                                life->exited = true;
                        }
                        info.si_pid = 0;
                }
                if (left > 0)
                        (void)gf_pidfds_wait(NULL, 0, gf_deadline_in(ending.killing ? 5 : 50), -1);
        }
        life->stuck = left > 0 ? left : 0;
        life->signalled = ending.signalled;
        life->killed = ending.killed;
}

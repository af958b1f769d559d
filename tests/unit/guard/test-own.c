/* SPDX-License-Identifier: MIT */
/* Claims, and finding a process's descendants, on real processes. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "guard/lock.h"
#include "guard/own.h"
#include "sys/pidfd.h"

static struct gf_env env;

static int set_up(void **state)
{
        (void)state;
        gf_env_init(&env);
        return gf_env_defaults(&env);
}

static int tear_down(void **state)
{
        (void)state;
        gf_env_done(&env);
        return 0;
}

static void a_claim_is_had_once_and_names_its_owner(void **state)
{
        char name[64], directory[] = "/tmp/gpufree-claim.XXXXXX", file[128];
        gf_locks ours = { 0 }, theirs = { 0 };
        pid_t pid = 0;

        (void)state;
        (void)snprintf(name, sizeof(name), "gpufree-claim:test-%d", (int)getpid());
        assert_non_null(mkdtemp(directory));
        assert_int_equal(gf_lock_take(&env, directory, name, &ours, &pid), 0);
        assert_int_equal(gf_lock_take(&env, directory, name, &ours, &pid), 0); /* it is ours already */
        assert_int_equal(ours.n, 1);
        assert_int_equal(gf_lock_take(&env, NULL, name, &theirs, &pid), -EBUSY);
        assert_int_equal(pid, getpid());
        /* The file alone keeps out those who do not see the socket, as in another container. */
        gf_close(ours.v[0].socket);
        ours.v[0].socket = -1;
        assert_int_equal(gf_lock_take(&env, directory, name, &theirs, &pid), -EBUSY);
        gf_lock_drop(&ours, name);
        assert_int_equal(gf_lock_take(&env, directory, name, &theirs, &pid), 0);
        gf_locks_done(&theirs);
        gf_locks_done(&ours);
        (void)snprintf(file, sizeof(file), "%s/%s", directory, name);
        assert_int_equal(unlink(file), 0);
        assert_int_equal(rmdir(directory), 0);
}

static void descendants_are_found_with_their_sessions_and_orphans(void **state)
{
        gf_owns owns = { 0 };
        int told[2];
        pid_t child, grand = 0;
        bool found = false;

        (void)state;
        assert_int_equal(pipe(told), 0);
        assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                pid_t pid = fork();

                if (pid == 0) {
                        (void)prctl(PR_SET_PDEATHSIG, 0);
                        (void)setsid();
                        (void)alarm(60);
                        for (;;)
                                (void)pause();
                }
                (void)!write(told[1], &pid, sizeof(pid));
                _exit(0);
        }
        assert_int_equal(read(told[0], &grand, sizeof(grand)), sizeof(grand));
        assert_int_equal(waitpid(child, NULL, 0), child); /* now it is an orphan, and ours */
        assert_int_equal(gf_own_list(&env, getpid(), &owns), 0);
        for (size_t i = 0; i < owns.n; i++) {
                int fd;

                if (owns.v[i].id.pid != grand)
                        continue;
                found = true;
                fd = gf_own_pin(&env, getpid(), &owns, i);
                assert_true(fd >= 0);
                assert_int_equal(gf_pidfd_signal(fd, SIGKILL), 0);
                gf_close(fd);
        }
        assert_true(found);
        assert_int_equal(waitpid(grand, NULL, 0), grand);
        gf_owns_done(&owns);
        gf_close(told[0]);
        gf_close(told[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_claim_is_had_once_and_names_its_owner),
                cmocka_unit_test(descendants_are_found_with_their_sessions_and_orphans),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* SPDX-License-Identifier: MIT */
/* The two scanners against each other, and the way from the one to the other where BPF cannot be used. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "bpf_shapes.h"
#include "scan/scan.h"

static struct holder holders[SHAPES];
static dev_t block_dev;

struct look {
        struct gf_env env;
        struct gf_wanted wanted;
        struct gf_scan scan;
        dev_t chr[2], blk[1];
        char *reason;
};

static int look_setup(void **state)
{
        struct look *look = calloc(1, sizeof(*look));

        assert_non_null(look);
        gf_env_init(&look->env);
        assert_return_code(gf_env_defaults(&look->env), 0);
        look->chr[0] = makedev(1, 5);
        look->chr[1] = makedev(1, 7);
        look->blk[0] = block_dev;
        look->wanted = (struct gf_wanted){
                .chr = look->chr, .n_chr = 2, .blk = look->blk, .n_blk = block_dev ? 1 : 0, .dmabufs = true
        };
        *state = look;
        return 0;
}

static int look_teardown(void **state)
{
        struct look *look = *state;

        gf_scan_done(&look->scan);
        gf_env_done(&look->env);
        free(look->reason);
        free(look);
        return 0;
}

/* CAP_SYS_ADMIN, CAP_PERFMON and CAP_BPF given up; all the others stay. */
static bool without_capabilities(void)
{
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[2];

        if (syscall(SYS_capget, &header, data) < 0)
                return false;
        data[0].effective &= ~(1U << 21);
        data[0].permitted &= ~(1U << 21);
        data[0].inheritable &= ~(1U << 21);
        data[1].effective &= ~(3U << 6);
        data[1].permitted &= ~(3U << 6);
        data[1].inheritable &= ~(3U << 6);
        return syscall(SYS_capset, &header, data) == 0;
}

/* What a kernel does that has no BPF, or where it is turned off. */
static bool bpf_answers(int error)
{
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = ELEMENTSOF(code), .filter = code };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool to_user_namespace(void)
{
        return unshare(CLONE_NEWUSER) == 0;
}

static bool kernel_without_bpf(void)
{
        return bpf_answers(ENOSYS);
}

static bool bpf_forbidden(void)
{
        return bpf_answers(EPERM);
}

static bool kernel_without_btf(void)
{
        return bpf_answers(EOPNOTSUPP);
}

/* /sys/kernel/btf hidden is no reason: the kernel's own loader does the relocation. */
static void test_hidden_btf_does_not_matter(void **state)
{
        struct look *look = *state;
        pid_t pid = fork();
        int status;

        assert_return_code(pid, errno);
        if (pid == 0) {
                int r;

                if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                    mount("none", "/sys/kernel/btf", "tmpfs", 0, NULL) < 0)
                        _exit(77);
                r = gf_scan_bpf(&look->env, &look->wanted, &look->scan, &look->reason);
                if (r < 0)
                        fprintf(stderr, "# %s\n", look->reason ? look->reason : strerror(-r));
                _exit(r < 0 ? 1 : look->scan.hits.n == 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
}

/* In a child that gave something up: BPF says why not, and a scan left to itself goes on with /proc. 0 as it is to be.
 */
static int fall_back(struct look *look, bool (*give_up)(void), const char *word)
{
        size_t n = 0;

        look->wanted.only = &holders[SHAPE_FD].pid;
        look->wanted.n_only = 1;
        if (!give_up())
                return 77;
        if (gf_scan_run(&look->env, &look->wanted, &look->scan) < 0)
                return 1;
        for (size_t k = 0; k < look->scan.hits.n; k++)
                n += look->scan.hits.v[k].id.pid == holders[SHAPE_FD].pid;
        /* In a user namespace of its own it may not look at others: that is said as well. */
        if (look->scan.method != GPUFREE_SCAN_PROC || (n == 0 && look->scan.refused.n == 0))
                return 2;
        if (!look->scan.method_reason || !strstr(look->scan.method_reason, word)) {
                fprintf(stderr, "# %s\n", look->scan.method_reason ? look->scan.method_reason : "no reason");
                return 3;
        }
        look->env.scan_method = GPUFREE_SCAN_BPF;
        gf_scan_done(&look->scan);
        return gf_scan_run(&look->env, &look->wanted, &look->scan) == -EOPNOTSUPP && look->env.error &&
                               strstr(look->env.error, word)
                       ? 0
                       : 4;
}

static void test_each_fallback_is_said(void **state)
{
        static const struct {
                bool (*give_up)(void);
                const char *word;
        } ways[] = {
                { without_capabilities, "CAP_BPF" },
                { to_user_namespace, "CAP_BPF" },
                { bpf_forbidden, "CAP_BPF" },
                { kernel_without_bpf, "built without BPF" },
                { kernel_without_btf, "CONFIG_DEBUG_INFO_BTF" },
        };

        for (size_t i = 0; i < ELEMENTSOF(ways); i++) {
                pid_t pid = fork();
                int status;

                assert_return_code(pid, errno);
                if (pid == 0) {
                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                        _exit(fall_back(*state, ways[i].give_up, ways[i].word));
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFEXITED(status));
                if (WEXITSTATUS(status) == 77)
                        print_message("# way %zu cannot be tried here\n", i);
                else if (WEXITSTATUS(status) != 0)
                        fail_msg("way %zu: %d", i, WEXITSTATUS(status));
        }
}

static int by_everything(const void *a, const void *b)
{
        const struct gf_hit *x = a, *y = b;

#define BY(member)                                                                                                     \
        if (x->member != y->member)                                                                                    \
                return x->member < y->member ? -1 : 1;
        BY(id.pid)
        BY(via)
        BY(rdev)
        BY(fd)
        BY(node_ino)
        BY(tid)
#undef BY
        return 0;
}

/* Every shape by the one scanner and by the other: the same hits, but for what only BPF can see, which /proc says. */
static void test_both_scanners_agree(void **state)
{
        struct look *look = *state;

        for (enum shape s = 0; s < SHAPES; s++) {
                _cleanup_(gf_scan_done) struct gf_scan by_bpf = { 0 }, by_proc = { 0 };
                pid_t pid = holders[s].pid;
                size_t same = 0;

                if (holders[s].skipped)
                        continue;
                look->wanted.only = &pid;
                look->wanted.n_only = 1;
                assert_int_equal(gf_scan_bpf(&look->env, &look->wanted, &by_bpf, &look->reason), 0);
                assert_int_equal(gf_scan_proc(&look->env, &look->wanted, &by_proc), 0);
                qsort(by_bpf.hits.v, by_bpf.hits.n, sizeof(struct gf_hit), by_everything);
                qsort(by_proc.hits.v, by_proc.hits.n, sizeof(struct gf_hit), by_everything);
                assert_int_equal(by_bpf.processes, by_proc.processes);
                assert_int_equal(by_bpf.threads, by_proc.threads);
                assert_int_equal(by_proc.refused.n, 0);
                for (size_t i = 0; i < by_bpf.hits.n; i++) {
                        const struct gf_hit *a = &by_bpf.hits.v[i], *b = &by_proc.hits.v[same];

                        if (a->via == GPUFREE_VIA_SCM || (a->via == GPUFREE_VIA_IO_URING && a->fd < 0)) {
                                if (by_proc.opaque_queues == 0)
                                        fail_msg("%s: /proc is silent", shape_name(s));
                                continue;
                        }
                        if (same == by_proc.hits.n || a->via != b->via || a->rdev != b->rdev ||
                            a->id.start_ticks != b->id.start_ticks || a->unlinked != b->unlinked ||
                            a->node_ino != b->node_ino || (a->via == GPUFREE_VIA_FD && a->fd != b->fd))
                                fail_msg("%s: hit %zu of BPF (via %u, fd %d) is not that of /proc (%zu hits)",
                                         shape_name(s), i, a->via, a->fd, by_proc.hits.n);
                        same++;
                }
                if (same != by_proc.hits.n)
                        fail_msg("%s: BPF %zu, /proc %zu hits", shape_name(s), by_bpf.hits.n, by_proc.hits.n);
        }
}

static int start_all(_unused_ void **state)
{
        struct stat st;
        char path[64];

        for (enum shape s = 0; s < SHAPES; s++)
                holder_start(&holders[s], s);
        for (int fd = 0; !holders[SHAPE_BLOCK].skipped && fd < 64; fd++) {
                (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", holders[SHAPE_BLOCK].pid, fd);
                if (stat(path, &st) == 0 && S_ISBLK(st.st_mode))
                        block_dev = st.st_rdev;
        }
        return 0;
}

static int stop_all(_unused_ void **state)
{
        for (enum shape s = 0; s < SHAPES; s++)
                holder_stop(&holders[s]);
        return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, look_setup, look_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_both_scanners_agree),
                TEST(test_each_fallback_is_said),
                TEST(test_hidden_btf_does_not_matter),
        };

        if (!bpf_works())
                return 0;
        return cmocka_run_group_tests(tests, start_all, stop_all);
}

/* SPDX-License-Identifier: MIT */
#include "help.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parse/process.h"

#include "scan/scan.h"
#include "sys/procfs.h"

#ifndef SYS_getxattrat
#define SYS_getxattrat 464
#endif
#define MAP_QUERY_NUMBER 0xc0686611U /* PROCMAP_QUERY */

#define FIRST_CONSOLE 52U /* the last of them: nobody logs in there */

static int old_kernel(void)
{
#define FAIL(nr, e) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (e))
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                FAIL(SYS_kcmp, ENOSYS),
                FAIL(SYS_getxattrat, ENOSYS),
                FAIL(SYS_openat2, ENOSYS),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                FAIL(MAP_QUERY_NUMBER, ENOTTY),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0
                       ? errno
                       : 0;
}

int become_nobody(void)
{
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
                               setresuid(65534, 65534, 65534) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0))
                return errno;
        return 0;
}

bool take_roles(int argc, char **argv)
{
        for (int i = 1; i < argc; i++) {
                int r = EINVAL;

                if (strcmp(argv[i], "old-kernel") == 0)
                        r = old_kernel();
                else if (strcmp(argv[i], "nobody") == 0)
                        r = become_nobody();
                if (r != 0) {
                        (void)printf("1..0 # SKIP %s: %s\n", argv[i], strerror(r));
                        return false;
                }
        }
        return true;
}

int stage_open(const char *path)
{
        int fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

static bool make_node(const char *path, dev_t rdev)
{
        int fd;

        if (mknod(path, S_IFCHR | 0600, rdev) < 0)
                return false;
        (void)chmod(path, 0666);
        fd = stage_open(path);
        if (fd < 0) {
                (void)unlink(path);
                return false;
        }
        (void)close(fd);
        return true;
}

static int make_pty(struct stand *stand)
{
        char name[64] = "";
        struct stat st;

        stand->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (stand->master < 0 || grantpt(stand->master) < 0 || unlockpt(stand->master) < 0 ||
            ptsname_r(stand->master, name, sizeof(name)) != 0 || stat(name, &st) < 0)
                return -1;
        (void)chmod(name, 0666);
        (void)snprintf(stand->path, sizeof(stand->path), "%s", name);
        stand->rdev = st.st_rdev;
        return 0;
}

int stage_setup(void **state)
{
        struct stage *stage = calloc(1, sizeof(*stage));

        if (!stage)
                return -1;
        (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what was done is seen even if the rest hangs */
        (void)snprintf(stage->dir, sizeof(stage->dir), "/tmp/gpufree-scan-XXXXXX");
        if (!mkdtemp(stage->dir) || chmod(stage->dir, 0755) < 0)
                return -1;
        stage->zero_rdev = makedev(1, 5);
        (void)snprintf(stage->zero, sizeof(stage->zero), "%s/zero", stage->dir);
        stage->mknod = geteuid() == 0 && make_node(stage->zero, stage->zero_rdev);
        if (!stage->mknod)
                (void)snprintf(stage->zero, sizeof(stage->zero), "/dev/zero");
        for (unsigned i = 0; i < STANDS; i++) {
                struct stand *stand = &stage->dev[i];

                stand->master = -1;
                stand->rdev = makedev(4, FIRST_CONSOLE + i);
                (void)snprintf(stand->path, sizeof(stand->path), "%s/dev%u", stage->dir, i);
                if (stage->mknod && make_node(stand->path, stand->rdev))
                        continue;
                if (make_pty(stand) < 0)
                        return -1;
        }
        *state = stage;
        return 0;
}

static void empty_dir(const char *dir)
{
        DIR *d = opendir(dir);
        struct dirent *e;

        while (d && (e = readdir(d)))
                if (unlinkat(dirfd(d), e->d_name, 0) < 0) /* a mount point of a kid that has ended */
                        (void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
        if (d)
                (void)closedir(d);
        (void)rmdir(dir);
}

int stage_teardown(void **state)
{
        struct stage *stage = *state;

        for (unsigned i = 0; i < STANDS; i++)
                if (stage->dev[i].master >= 0)
                        (void)close(stage->dev[i].master);
        empty_dir(stage->dir);
        free(stage);
        return 0;
}

bool stage_node(const struct stage *stage, unsigned i, const char *name, char path[static 128])
{
        (void)snprintf(path, 128, "%s/%s", stage->dir, name);
        return stage->mknod && make_node(path, stage->dev[i].rdev);
}

#define KIDS_MAX 16
static pid_t kids[KIDS_MAX]; /* not ended yet; 0: free */

static void kids_replace(pid_t old, pid_t new)
{
        for (unsigned i = 0; i < KIDS_MAX; i++)
                if (kids[i] == old) {
                        kids[i] = new;
                        return;
                }
}

static int words = -1; /* in a kid: where it speaks */

void kid_say(int word)
{
        unsigned char byte = (unsigned char)word;

        if (write(words, &byte, 1) != 1)
                _exit(99);
}

void kid_sleep(void)
{
        for (;;)
                (void)pause();
}

int kid_hear(const struct kid *kid)
{
        struct pollfd p = { .fd = kid->words, .events = POLLIN };
        unsigned char byte = 0;
        int r;

        do
                r = poll(&p, 1, KID_DEADLINE_MS);
        while (r < 0 && errno == EINTR);
        if (r <= 0 || read(kid->words, &byte, 1) != 1)
                fail_msg("kid %d says nothing", kid->pid);
        return byte;
}

int kid_start(struct kid *ret_kid, int (*hold)(void *arg), void *arg)
{
        pid_t parent = getpid();
        int p[2], word;

        if (pipe2(p, O_CLOEXEC) < 0)
                fail_msg("pipe: %s", strerror(errno));
        (void)fflush(NULL);
        ret_kid->pid = fork();
        if (ret_kid->pid < 0)
                fail_msg("fork: %s", strerror(errno));
        if (ret_kid->pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(98);
                (void)close(p[0]);
                words = p[1];
                kid_say(hold(arg));
                kid_sleep();
        }
        (void)close(p[1]);
        kids_replace(0, ret_kid->pid);
        ret_kid->words = p[0];
        word = kid_hear(ret_kid);
        if (word != 0)
                kid_end(ret_kid);
        return word;
}

void kid_end(struct kid *kid)
{
        if (kid->pid <= 0)
                return;
        (void)kill(kid->pid, SIGKILL);
        while (waitpid(kid->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        (void)close(kid->words);
        kids_replace(kid->pid, 0);
        *kid = (struct kid){ 0 };
}

int kids_end(void **state)
{
        (void)state;
        for (unsigned i = 0; i < KIDS_MAX; i++) {
                if (kids[i] <= 0)
                        continue;
                (void)kill(kids[i], SIGKILL);
                while (waitpid(kids[i], NULL, 0) < 0 && errno == EINTR)
                        ;
                kids[i] = 0;
        }
        return 0;
}

static int compare_numbers(const void *a, const void *b)
{
        const dev_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

void scan_for(const dev_t *chr, size_t n, pid_t only, struct gf_scan *ret_scan)
{
        dev_t sorted[16];
        struct gf_wanted wanted = { .chr = sorted, .n_chr = n, .dmabufs = true };
        struct gf_env env;
        int r;

        assert_true(n <= 16);
        memcpy(sorted, chr, n * sizeof(*chr));
        qsort(sorted, n, sizeof(*sorted), compare_numbers);
        if (only > 0) {
                wanted.only = &only;
                wanted.n_only = 1;
        }
        gf_env_init(&env);
        assert_int_equal(gf_env_defaults(&env), 0);
        r = gf_scan_proc(&env, &wanted, ret_scan);
        if (r < 0)
                fail_msg("scan: %d, %s", r, env.error ? env.error : "");
        gf_env_done(&env);
}

size_t count_hits(const struct gf_scan *scan, pid_t pid, unsigned via)
{
        size_t n = 0;

        for (size_t i = 0; i < scan->hits.n; i++)
                if (scan->hits.v[i].id.pid == pid && (scan->hits.v[i].via & via))
                        n++;
        return n;
}

const struct gf_hit *find_hit(const struct gf_scan *scan, pid_t pid, unsigned via)
{
        static const struct gf_hit none = { .fd = -2 };

        for (size_t i = 0; i < scan->hits.n; i++)
                if (scan->hits.v[i].id.pid == pid && (scan->hits.v[i].via & via))
                        return &scan->hits.v[i];
        fail_msg("no hit of %d by %u among %zu", pid, via, scan->hits.n);
        return &none;
}

bool is_opaque(const struct gf_scan *scan, pid_t pid)
{
        for (size_t i = 0; i < scan->opaque.n; i++)
                if (scan->opaque.v[i] == pid)
                        return true;
        return false;
}

const struct gf_refused *find_refused(const struct gf_scan *scan, pid_t pid)
{
        for (size_t i = 0; i < scan->refused.n; i++)
                if (scan->refused.v[i].pid == pid)
                        return &scan->refused.v[i];
        return NULL;
}

size_t count_entries(const char *dir)
{
        DIR *d = opendir(dir);
        size_t n = 0;

        while (d && readdir(d))
                n++;
        if (d)
                (void)closedir(d);
        return n;
}

uint64_t start_ticks_of(pid_t pid)
{
        char path[64], text[GF_STAT_MAX];
        struct gf_stat stat;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        n = gf_read_head(AT_FDCWD, path, text, sizeof(text));
        if (n <= 0 || gf_parse_stat(text, (size_t)n, &stat) < 0)
                return 0;
        return stat.start_ticks;
}

/* SPDX-License-Identifier: MIT */
/*
 * Holders by BPF. Two passes that must agree: the first over every thread, the second over the processes in which the
 * first found something; then /proc is asked about those few. A process that changes too fast for that, or that could
 * not be walked to the end, is looked at by the /proc scanner. So nothing is reported on the word of a lockless read,
 * and nothing that was found is dropped.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/num.h"
#include "parse/process.h"
#include "scan/bpf_scan.h"
#include "scan/dmabuf.h"
#include "scan/scan.h"
#include "sys/clock.h"
#include "sys/procfs.h"

/* The number of the first PID namespace's inode: fixed by the kernel (PROC_PID_INIT_INO). */
#define FIRST_PIDNS_INO 0xEFFFFFFCU

typedef GF_VEC(pid_t) pid_list;

static int unusable(char **ret_reason, const char *text)
{
        char *reason = gf_asprintf("%s", text);

        if (!reason)
                return -ENOMEM;
        *ret_reason = reason;
        return -EOPNOTSUPP;
}

/* An iterator shows the processes of the opener's PID namespace. Where /proc shows more, or others, /proc is right. */
int gf_bpf_check_place(struct gf_env *env, char **ret_reason)
{
        _cleanup_free_ char *self = NULL;
        _cleanup_close_ int fd = -1;
        struct stat st;
        pid_t pid;

        fd = gf_open_dir(AT_FDCWD, env->proc_root);
        if (fd < 0)
                return unusable(ret_reason, "/proc is needed next to BPF and cannot be opened");
        if (fstatat(fd, "self/ns/pid", &st, 0) < 0)
                return unusable(ret_reason, "the PID namespace cannot be told");
        if (st.st_ino != FIRST_PIDNS_INO)
                return unusable(ret_reason, "this is not the machine's first PID namespace: BPF would see only the "
                                            "processes of this one");
        if (gf_read_link(fd, "self", &self) < 0 || gf_parse_pid(self, &pid) < 0 || pid != getpid())
                return unusable(ret_reason, "the /proc given is that of another PID namespace");
        return 0;
}

static bool locked_down(struct gf_env *env)
{
        _cleanup_free_ char *path = gf_asprintf("%s/kernel/security/lockdown", env->sys_root);
        _cleanup_free_ char *text = NULL;

        return path && gf_read_file(AT_FDCWD, path, 256, &text, NULL) >= 0 && strstr(text, "[confidentiality]");
}

/* Without CAP_PERFMON the verifier's answer is "invalid argument", which says nothing. */
static bool may_load(struct gf_env *env)
{
        _cleanup_free_ char *path = gf_asprintf("%s/self/status", env->proc_root);
        const uint64_t admin = 1ULL << 21, perfmon = 1ULL << 38, bpf = 1ULL << 39; /* CAP_… */
        struct gf_status status;
        char text[4096];
        ssize_t n;

        n = path ? gf_read_head(AT_FDCWD, path, text, sizeof(text)) : -ENOMEM;
        if (n < 0)
                return true;
        gf_parse_status(text, (size_t)n, &status);
        return (status.cap_effective & admin) || ((status.cap_effective & perfmon) && (status.cap_effective & bpf));
}

static int not_loaded(struct gf_env *env, int error, char **ret_reason)
{
        char *reason;

        if (error == -ENOMEM)
                return error;
        if (locked_down(env))
                return unusable(ret_reason, "kernel lockdown (confidentiality) forbids BPF to read kernel memory");
        if (error == -EPERM || !may_load(env))
                return unusable(ret_reason, "the kernel does not let this process load BPF programs: that takes root, "
                                            "or CAP_BPF and CAP_PERFMON, outside of user namespaces");
        if (error == -ENOSYS)
                return unusable(ret_reason, "this kernel is built without BPF");
        reason = gf_asprintf("this kernel does not take the BPF programs (%s): they need Linux 5.17 with type "
                             "information (CONFIG_DEBUG_INFO_BTF)",
                             strerror(-error));
        if (!reason)
                return -ENOMEM;
        *ret_reason = reason;
        return -EOPNOTSUPP;
}

int gf_bpf_pid_compare(const void *a, const void *b)
{
        pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

        return x < y ? -1 : x > y;
}

int gf_bpf_compare(const struct gf_bpf_record *a, const struct gf_bpf_record *b)
{
#define BY(member)                                                                                                     \
        if (a->member != b->member)                                                                                    \
                return a->member < b->member ? -1 : 1;
        BY(tgid)
        BY(start_ns)
        BY(tid)
        BY(kind)
        BY(fd)
        BY(slot)
        BY(addr)
        BY(rdev)
        BY(sdev)
        BY(ino)
        BY(flags)
#undef BY
        return 0;
}

static int compare_records(const void *a, const void *b)
{
        return gf_bpf_compare(a, b);
}

void gf_bpf_sort(gf_bpf_records *records)
{
        size_t n = 0;

        if (records->n == 0)
                return;
        qsort(records->v, records->n, sizeof(*records->v), compare_records);
        for (size_t i = 1; i < records->n; i++)
                if (gf_bpf_compare(&records->v[n], &records->v[i]) != 0)
                        records->v[++n] = records->v[i];
        records->n = n + 1;
}

/* How many records from `i` on are of one process. */
static size_t run_of(const gf_bpf_records *records, size_t i)
{
        size_t n = 1;

        while (i + n < records->n && records->v[i + n].tgid == records->v[i].tgid)
                n++;
        return n;
}

static int add_pid(pid_list *list, __u32 tgid)
{
        pid_t *new;

        if (list->n > 0 && list->v[list->n - 1] == (pid_t)tgid)
                return 0;
        new = gf_vec_add(list);
        if (!new)
                return -ENOMEM;
        *new = (pid_t)tgid;
        return 0;
}

static int processes_of(const gf_bpf_records *records, pid_list *list)
{
        for (size_t i = 0; i < records->n; i += run_of(records, i)) {
                int r = add_pid(list, records->v[i].tgid);

                if (r < 0)
                        return r;
        }
        return 0;
}

/*
 * What both passes saw, kept in `later`. A process that could not be walked to the end, or with nothing in common
 * though both passes found something, is `unsure`; of it only what waits in sockets is kept, for /proc does not say
 * that.
 */
static int agree(const gf_bpf_records *earlier, gf_bpf_records *later, pid_list *unsure)
{
        size_t e = 0, kept = 0;

        for (size_t i = 0, n; i < later->n; i += n) {
                size_t from = kept;
                __u32 tgid = later->v[i].tgid;
                bool look = false;

                n = run_of(later, i);
                while (e < earlier->n && earlier->v[e].tgid < tgid)
                        e++;
                for (size_t k = e; k < earlier->n && earlier->v[k].tgid == tgid; k++)
                        look |= earlier->v[k].kind == GF_BPF_LOOK;
                for (size_t k = i; k < i + n; k++)
                        look |= later->v[k].kind == GF_BPF_LOOK;
                for (size_t k = i; k < i + n; k++) {
                        while (e < earlier->n && gf_bpf_compare(&earlier->v[e], &later->v[k]) < 0)
                                e++;
                        if (look && later->v[k].kind != GF_BPF_SCM)
                                continue;
                        if (e < earlier->n && gf_bpf_compare(&earlier->v[e], &later->v[k]) == 0)
                                later->v[kept++] = later->v[k];
                }
                if ((look || kept == from) && add_pid(unsure, tgid) < 0)
                        return -ENOMEM;
        }
        later->n = kept;
        return 0;
}

/* Another driver's buffers (cameras, display, plain memory) are none of our business, nor is what we have ourselves. */
static bool wanted_record(const struct gf_bpf_record *record)
{
        if (record->flags & GF_BPF_OWN)
                return false;
        return !(record->flags & GF_BPF_DMABUF) || gf_dmabuf_is_gpu(record->exporter);
}

static void drop_unwanted(gf_bpf_records *records)
{
        size_t n = 0;

        for (size_t i = 0; i < records->n; i++)
                if (wanted_record(&records->v[i]))
                        records->v[n++] = records->v[i];
        records->n = n;
}

/* The /proc scanner's answer about a few processes, added to ours. */
static int look_in_proc(struct gf_env *env, const struct gf_wanted *wanted, pid_list *pids, struct gf_scan *scan)
{
        _cleanup_(gf_scan_done) struct gf_scan more = { 0 };
        struct gf_wanted few = *wanted;
        int r;

        if (pids->n == 0)
                return 0;
        qsort(pids->v, pids->n, sizeof(*pids->v), gf_bpf_pid_compare);
        few.only = pids->v;
        few.n_only = pids->n;
        r = gf_scan_proc(env, &few, &more);
        if (r < 0)
                return r;
        for (size_t i = 0; i < more.hits.n; i++) {
                struct gf_hit *hit = gf_vec_add(&scan->hits);

                if (!hit)
                        return -ENOMEM;
                *hit = more.hits.v[i];
        }
        for (size_t i = 0; i < more.refused.n; i++) {
                struct gf_refused *refused = gf_vec_add(&scan->refused);

                if (!refused)
                        return -ENOMEM;
                *refused = more.refused.v[i];
        }
        for (size_t i = 0; i < more.opaque.n; i++) {
                pid_t *pid = gf_vec_add(&scan->opaque);

                if (!pid)
                        return -ENOMEM;
                *pid = more.opaque.v[i];
        }
        scan->opaque_queues += more.opaque_queues;
        scan->vanished += more.vanished;
        scan->slipped += more.slipped;
        return 0;
}

static int compare_hits(const void *a, const void *b)
{
        const struct gf_hit *x = a, *y = b;

#define BY(member)                                                                                                     \
        if (x->member != y->member)                                                                                    \
                return x->member < y->member ? -1 : 1;
        BY(id.pid)
        BY(tid)
        BY(via)
        BY(fd)
        BY(rdev)
        BY(node_ino)
#undef BY
        return 0;
}

static int confirm_all(struct gf_env *env, const gf_bpf_records *records, pid_list *unsure, struct gf_scan *scan)
{
        struct gf_bpf_confirm confirm;
        int r;

        r = gf_bpf_confirm_init(&confirm, env);
        if (r < 0)
                return r;
        for (size_t i = 0, n; i < records->n; i += n) {
                n = run_of(records, i);
                r = gf_bpf_confirm_process(&confirm, &records->v[i], n, scan);
                if (r < 0)
                        break;
                if (r == GF_BPF_GONE) {
                        scan->vanished++;
                        scan->slipped++;
                } else if (r == GF_BPF_UNSURE) {
                        r = add_pid(unsure, records->v[i].tgid);
                }
                if (r < 0)
                        break;
        }
        gf_bpf_confirm_done(&confirm);
        return r < 0 ? r : 0;
}

static int look(struct gf_env *env, const struct gf_wanted *wanted, struct gf_bpf *bpf, struct gf_scan *scan)
{
        gf_bpf_records first = { 0 }, second = { 0 };
        _cleanup_(gf_bpf_watch_freep) struct gf_bpf_watch *watch = NULL;
        pid_list seen = { 0 }, unsure = { 0 };
        int r;

        r = gf_bpf_watch_open(wanted, bpf, &watch);
        if (r >= 0)
                r = gf_bpf_pass(bpf, env->cancel_fd, NULL, 0, &first);
        if (r < 0)
                goto out;
        gf_bpf_counts(bpf, &scan->processes, &scan->threads);
        r = gf_bpf_watch_judge(watch, bpf, env->cancel_fd, &first, scan);
        if (r < 0)
                goto out;
        drop_unwanted(&first);
        gf_bpf_sort(&first);
        r = processes_of(&first, &seen);
        if (r < 0 || seen.n == 0)
                goto out;
        r = gf_bpf_pass(bpf, env->cancel_fd, seen.v, seen.n, &second);
        if (r < 0)
                goto out;
        drop_unwanted(&second);
        gf_bpf_sort(&second);
        r = agree(&first, &second, &unsure);
        if (r >= 0)
                r = confirm_all(env, &second, &unsure, scan);
        if (r >= 0)
                r = look_in_proc(env, wanted, &unsure, scan);
        if (r >= 0 && scan->hits.n > 1)
                qsort(scan->hits.v, scan->hits.n, sizeof(*scan->hits.v), compare_hits);
out:
        gf_vec_done(&first);
        gf_vec_done(&second);
        gf_vec_done(&seen);
        gf_vec_done(&unsure);
        return r;
}

static void free_kept(void *kept)
{
        (void)gf_bpf_free(kept);
}

static struct gf_bpf *take_kept(struct gf_env *env, const struct gf_wanted *wanted)
{
        struct gf_bpf *bpf = env->kept;

        env->kept = NULL;
        if (bpf && !gf_bpf_reuse(bpf, wanted))
                bpf = gf_bpf_free(bpf);
        return bpf;
}

static void keep(struct gf_env *env, struct gf_bpf *bpf)
{
        env->kept = bpf;
        env->kept_free = free_kept;
}

/* With the programs of the look before. -EOPNOTSUPP: there are none that serve, or they served no more. */
static int look_again(struct gf_env *env, const struct gf_wanted *wanted, struct gf_scan *scan)
{
        _cleanup_(gf_bpf_freep) struct gf_bpf *bpf = take_kept(env, wanted);
        int r;

        if (!bpf)
                return -EOPNOTSUPP;
        r = look(env, wanted, bpf, scan);
        if (r >= 0)
                keep(env, TAKE(bpf));
        return r < 0 && r != -ECANCELED && r != -ENOMEM ? -EOPNOTSUPP : r;
}

static int answer(struct gf_scan *scan, uint64_t begin, struct gf_scan *ret_scan)
{
        scan->elapsed_us = gf_now_us() - begin;
        *ret_scan = *scan;
        *scan = (struct gf_scan){ 0 };
        return 0;
}

int gf_scan_bpf(struct gf_env *env, const struct gf_wanted *wanted, struct gf_scan *ret_scan, char **ret_reason)
{
        _cleanup_(gf_scan_done) struct gf_scan again = { .method = GPUFREE_SCAN_BPF };
        uint64_t begin = gf_now_us();
        int r;

        r = gf_bpf_check_place(env, ret_reason);
        if (r < 0)
                return r;
        r = look_again(env, wanted, &again);
        if (r >= 0)
                return answer(&again, begin, ret_scan);
        if (r == -ECANCELED || r == -ENOMEM)
                return r;
        for (enum gf_bpf_variant variant = GF_BPF_VARIANT_FAST;; variant++) {
                _cleanup_(gf_scan_done) struct gf_scan scan = { .method = GPUFREE_SCAN_BPF };
                _cleanup_(gf_bpf_freep) struct gf_bpf *bpf = NULL;

                r = gf_bpf_open(variant, wanted, &bpf);
                if (r >= 0)
                        r = look(env, wanted, bpf, &scan);
                if (r >= 0) {
                        if (env->keeps)
                                keep(env, TAKE(bpf));
                        return answer(&scan, begin, ret_scan);
                }
                if (r == -ECANCELED || r == -ENOMEM)
                        return r;
                if (r == -EPERM || variant == GF_BPF_VARIANT_VMA)
                        return not_loaded(env, r, ret_reason);
        }
}

/* SPDX-License-Identifier: MIT */
/*
 * From records to hits. The BPF programs take no references, so a record counts only when a second pass saw the same
 * and, for a descriptor, when /proc shows that descriptor with that number. The process is the one that was seen when
 * its start time still is, before and after.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/num.h"
#include "parse/process.h"
#include "scan/bpf_scan.h"
#include "sys/procfs.h"

#define NS_PER_S 1000000000LL

/* "boottime  86400 0": what our time namespace adds to the start times that /proc shows. No file: no namespaces. */
static int64_t read_boot_offset(int proc_fd)
{
        char text[256], *line;
        ssize_t n = gf_read_head(proc_fd, "self/timens_offsets", text, sizeof(text) - 1);
        long long s, ns;

        if (n <= 0)
                return 0;
        text[n] = '\0';
        line = strstr(text, "boottime");
        if (!line || sscanf(line, "boottime %lld %lld", &s, &ns) != 2 || s > INT32_MAX || s < INT32_MIN)
                return 0;
        return (int64_t)s * NS_PER_S + (int64_t)ns;
}

int gf_bpf_confirm_init(struct gf_bpf_confirm *confirm, struct gf_env *env)
{
        long hz = sysconf(_SC_CLK_TCK);
        int fd = gf_open_proc(env);

        if (fd < 0)
                return fd;
        *confirm = (struct gf_bpf_confirm){ .proc_fd = fd, .ticks_per_s = hz > 0 ? (uint64_t)hz : 100 };
        confirm->boot_offset_ns = read_boot_offset(fd);
        return 0;
}

void gf_bpf_confirm_done(struct gf_bpf_confirm *confirm)
{
        confirm->proc_fd = gf_close(confirm->proc_fd);
}

/* As the kernel does for field 22 of stat. */
static uint64_t start_ticks(const struct gf_bpf_confirm *confirm, uint64_t start_ns)
{
        return (start_ns + (uint64_t)confirm->boot_offset_ns) / ((uint64_t)NS_PER_S / confirm->ticks_per_s);
}

static bool alive(pid_t pid)
{
        _cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);

        return fd >= 0 || errno != ESRCH;
}

/*
 * Is PID still the process that was seen? 1; 0: gone or replaced. A process that /proc hides from us (hidepid) is
 * there all the same: the iterator saw it twice.
 */
static int still_there(const struct gf_bpf_confirm *confirm, pid_t pid, uint64_t ticks)
{
        char path[32], text[GF_STAT_MAX];
        struct gf_stat stat;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%d/stat", pid);
        n = gf_read_head(confirm->proc_fd, path, text, sizeof(text));
        if (n < 0 || gf_parse_stat(text, (size_t)n, &stat) < 0)
                return alive(pid);
        return stat.start_ticks == ticks && !gf_stat_dead(&stat);
}

/* Asks /proc about a descriptor: 1 it is that device, with its node in *hit; 0 it is not any more; -errno not told. */
static int check_fd(const struct gf_bpf_confirm *confirm, const struct gf_bpf_record *record, struct gf_hit *hit)
{
        struct statx st;
        char path[80];
        int r;

        (void)snprintf(path, sizeof(path), "%u/task/%u/fd/%d", record->tgid, record->tid, record->fd);
        r = gf_statx(confirm->proc_fd, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_INO | STATX_NLINK,
                     &st);
        if (r == -ENOENT || r == -ESRCH || r == -ENXIO)
                return 0;
        if (r < 0)
                return r;
        if (record->flags & GF_BPF_DMABUF)
                return st.stx_ino == record->ino;
        if ((st.stx_mode & S_IFMT) != (hit->block ? S_IFBLK : S_IFCHR))
                return 0;
        if (makedev(st.stx_rdev_major, st.stx_rdev_minor) != hit->rdev)
                return 0;
        hit->node_dev = makedev(st.stx_dev_major, st.stx_dev_minor);
        hit->node_ino = st.stx_ino;
        hit->unlinked = st.stx_nlink == 0;
        return 1;
}

static enum gpufree_via via_of(const struct gf_bpf_record *record)
{
        if (record->flags & GF_BPF_DMABUF)
                return GPUFREE_VIA_DMABUF;
        switch (record->kind) {
        case GF_BPF_MAP:
                return GPUFREE_VIA_MAP;
        case GF_BPF_SCM:
                return GPUFREE_VIA_SCM;
        case GF_BPF_URING:
                return GPUFREE_VIA_IO_URING;
        default:
                return GPUFREE_VIA_FD;
        }
}

static void to_hit(const struct gf_bpf_record *record, uint64_t ticks, struct gf_hit *hit)
{
        bool dmabuf = record->flags & GF_BPF_DMABUF, sure = !(record->flags & GF_BPF_NODE_UNSURE);

        *hit = (struct gf_hit){
                .id = { .pid = (pid_t)record->tgid, .start_ticks = ticks },
                .tid = (pid_t)record->tid,
                .via = via_of(record),
                .rdev = dmabuf ? 0 : makedev(record->rdev >> 20, record->rdev & 0xfffff),
                .block = record->flags & GF_BPF_BLOCK,
                .fd = record->fd,
                .unlinked = record->flags & GF_BPF_UNLINKED,
                .node_dev = sure ? makedev(record->sdev >> 20, record->sdev & 0xfffff) : 0,
                .node_ino = sure ? (ino_t)record->ino : 0,
                .bytes = dmabuf ? record->bytes : GPUFREE_UNKNOWN,
        };
        memcpy(hit->exporter, record->exporter, sizeof(hit->exporter));
        hit->exporter[sizeof(hit->exporter) - 1] = '\0';
}

int gf_bpf_confirm_process(struct gf_bpf_confirm *confirm, const struct gf_bpf_record *records, size_t n,
                           struct gf_scan *scan)
{
        uint64_t ticks = start_ticks(confirm, records->start_ns);
        pid_t pid = (pid_t)records->tgid;
        size_t before = scan->hits.n;

        if (!still_there(confirm, pid, ticks))
                return GF_BPF_GONE;
        for (size_t i = 0; i < n; i++) {
                struct gf_hit hit, *new;

                to_hit(&records[i], ticks, &hit);
                if (records[i].kind == GF_BPF_FD && check_fd(confirm, &records[i], &hit) == 0)
                        continue;
                new = gf_vec_add(&scan->hits);
                if (!new)
                        return -ENOMEM;
                *new = hit;
        }
        if (!still_there(confirm, pid, ticks)) {
                scan->hits.n = before;
                return GF_BPF_GONE;
        }
        return scan->hits.n > before ? GF_BPF_HELD : GF_BPF_UNSURE;
}

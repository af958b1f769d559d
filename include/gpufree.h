/* SPDX-License-Identifier: MIT */
/*
 * gpufree: find who holds a GPU, end just those, prove that the memory came back.
 *
 * Rules that hold for every function here:
 * - A function that can fail returns 0 or a positive count, or a negative errno. Its `ret_…` arguments
 *   are written on success only. The sentence for people is gpufree_error() of the context used.
 * - `…_new` hands over a reference, dropped with `…_unref` (NULL is fine, NULL comes back).
 * - Pointers returned by accessors belong to the object asked and live as long as it does.
 * - Memory is in bytes, durations in milliseconds. A figure that is not known is GPUFREE_UNKNOWN, never 0;
 *   text that is not known is NULL.
 * - The library prints nothing, installs no signal handler, never exits, keeps no global state. A context
 *   and what was made from it belong to one thread at a time.
 * - Text taken from processes (comm, command line, container names) is raw: escape it before a terminal.
 */
#ifndef GPUFREE_H
#define GPUFREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define GPUFREE_UNKNOWN UINT64_MAX

typedef struct gpufree gpufree;
typedef struct gpufree_selection gpufree_selection;
typedef struct gpufree_snapshot gpufree_snapshot;
typedef struct gpufree_gpu gpufree_gpu;
typedef struct gpufree_device gpufree_device;
typedef struct gpufree_holder gpufree_holder;
typedef struct gpufree_plan gpufree_plan;
typedef struct gpufree_report gpufree_report;

/* Exit codes of the command, and the outcome of a report. */
enum gpufree_outcome {
        GPUFREE_OK = 0,         /* free; or the scan was complete */
        GPUFREE_HELD = 1,       /* held; or holders survived */
        GPUFREE_USAGE = 2,      /* bad usage */
        GPUFREE_INCOMPLETE = 3, /* found nothing, but could not see everything */
        GPUFREE_REFUSED = 4,    /* protected, no permission, not confirmed */
        GPUFREE_RESIDUE = 5,    /* memory held with no holder to be found; or memory did not come back */
        GPUFREE_TIMEOUT = 6,
};

/* "ok", "held", "usage", "incomplete", "refused", "residue", "timeout": the `outcome` of the JSON documents. */
const char *gpufree_outcome_name(enum gpufree_outcome outcome);

enum gpufree_vendor {
        GPUFREE_VENDOR_NONE,
        GPUFREE_VENDOR_NVIDIA,
        GPUFREE_VENDOR_AMD,
        GPUFREE_VENDOR_INTEL,
        GPUFREE_VENDOR_HABANA,
        GPUFREE_VENDOR_GOOGLE,
        GPUFREE_VENDOR_AWS,
        GPUFREE_VENDOR_HUAWEI,
        GPUFREE_VENDOR_MICROSOFT,
        GPUFREE_VENDOR_OTHER,
};
const char *gpufree_vendor_name(enum gpufree_vendor vendor); /* "nvidia", "amd", … */

enum gpufree_scan_method {
        GPUFREE_SCAN_AUTO, /* BPF where it can be loaded, else /proc */
        GPUFREE_SCAN_BPF,
        GPUFREE_SCAN_PROC,
};

enum gpufree_scope {
        GPUFREE_SCOPE_MACHINE,   /* free means: nobody on this machine holds it */
        GPUFREE_SCOPE_NAMESPACE, /* free means: nobody in this PID namespace holds it */
};

/* How a process holds a device: bits of gpufree_holder_via(). */
enum gpufree_via {
        GPUFREE_VIA_FD = 1 << 0,
        GPUFREE_VIA_MAP = 1 << 1,
        GPUFREE_VIA_SCM = 1 << 2,      /* a descriptor waiting in a UNIX socket of this process */
        GPUFREE_VIA_IO_URING = 1 << 3, /* a registered file of an io_uring of this process */
        GPUFREE_VIA_DMABUF = 1 << 4,   /* a dma-buf exported by a GPU driver */
        GPUFREE_VIA_DRIVER = 1 << 5,   /* the driver lists the process, no open file is seen (KFD) */
};

/* ---- context ---- */

int gpufree_new(gpufree **ret_context);
gpufree *gpufree_ref(gpufree *context);
gpufree *gpufree_unref(gpufree *context);

/* The sentence about the last failure on this context: what was tried, on what, why. Never NULL. */
const char *gpufree_error(const gpufree *context);

/* Looks for device nodes under `directory` instead of /dev. -ENOTDIR, -ENOENT. */
int gpufree_set_dev_root(gpufree *context, const char *directory);
int gpufree_set_scan_method(gpufree *context, enum gpufree_scan_method method);
int gpufree_set_scope(gpufree *context, enum gpufree_scope scope);
/* Longest wait for one answer of a GPU driver; 10,000 ms unless set. */
int gpufree_set_driver_deadline(gpufree *context, uint64_t milliseconds);
/* While `fd` is readable, every long call ends early with -ECANCELED. Not owned. -1: none. */
int gpufree_set_cancel_fd(gpufree *context, int fd);
/*
 * Adds a device by path, as fuser takes them: symlinks are followed, the number counts, character or block,
 * GPU or not. Limits what is looked at to the paths added. -ENOENT, -ENOTBLK (no device), …
 */
int gpufree_add_device(gpufree *context, const char *path);

/*
 * Reads what the administrator protects besides, or does not want protected. NULL: /etc/gpufree.conf, which need not be
 * there. -EINVAL with the file, the line and what is wrong; -EOPNOTSUPP: built without inih.
 */
int gpufree_load_config(gpufree *context, const char *path);

/* Something a long call did or waits for, for progress. Valid during the callback only. */
enum gpufree_event_type {
        GPUFREE_EVENT_SIGNALLED, /* pid, signal */
        GPUFREE_EVENT_GONE,      /* pid, elapsed since its first signal */
        GPUFREE_EVENT_REFUSED,   /* pid, error (negative errno) */
        GPUFREE_EVENT_SURVIVED,  /* pid */
        GPUFREE_EVENT_WAITING,   /* count processes still there */
        GPUFREE_EVENT_RESCAN,    /* count: number of the scan, from 1 */
        GPUFREE_EVENT_NEWCOMER,  /* pid: holder that was not in the plan */
        GPUFREE_EVENT_MEMORY,    /* gpu, bytes still held, elapsed: waiting for it to come back */
        GPUFREE_EVENT_PARK_STEP, /* pid; count: enum gpufree_park_step, begun */
        GPUFREE_EVENT_COPIED,    /* pid, bytes copied so far, count: bytes in all, elapsed */
        GPUFREE_EVENT_STOPPING,  /* text: the owner's command that now runs (gpufree_ladder.stop_owner) */
        GPUFREE_EVENT_STOPPED,   /* text: what became of it; elapsed */
};
struct gpufree_event {
        enum gpufree_event_type type;
        pid_t pid;
        int signal;
        int error;
        uint64_t elapsed_ms;
        uint64_t count;
        uint64_t bytes;
        const gpufree_gpu *gpu;
        const gpufree_holder *holder; /* may be NULL */
        const char *text;             /* raw; may be NULL */
};
typedef void (*gpufree_event_handler)(void *userdata, const struct gpufree_event *event);
void gpufree_set_event_handler(gpufree *context, gpufree_event_handler handler, void *userdata);

/* ---- selection: several criteria are ANDed, several values of one ORed ---- */

enum gpufree_criterion {
        GPUFREE_BY_GPU,        /* "0", "0-3", "GPU-1a2b", "0000:18:00.0", "MIG-…", "all"; comma separated */
        GPUFREE_BY_PID,        /* "21316,524" */
        GPUFREE_BY_USER,       /* name, number or "me"; comma separated */
        GPUFREE_BY_CONTAINER,  /* id, id prefix or name; "lxc:129": of this runtime */
        GPUFREE_BY_UNIT,       /* "vllm.service", "vllm" */
        GPUFREE_BY_JOB,        /* "3385", "3385.0" */
        GPUFREE_BY_SESSION,    /* login session: "3" */
        GPUFREE_BY_MATCH,      /* POSIX extended regular expression, on the command line */
        GPUFREE_BY_OLDER_THAN, /* "500ms", "10s", "2m", "8h", "3d" */
        GPUFREE_BY_VENDOR,     /* "nvidia", "amd", … */
        GPUFREE_ORPHANS,       /* flags: value NULL */
        GPUFREE_STOPPED,
        GPUFREE_ANY_OPEN,
        GPUFREE_INCLUDE, /* lifts one protection: a PID, a comm, a unit */
};

int gpufree_selection_new(gpufree_selection **ret_selection);
gpufree_selection *gpufree_selection_unref(gpufree_selection *selection);
/* -EINVAL: *ret_error (may be NULL to ignore; freed with free()) is one line: what is wrong, what would be right. */
int gpufree_selection_add(gpufree_selection *selection, enum gpufree_criterion criterion, const char *value,
                          char **ret_error);

/* ---- look: who holds what ---- */

/*
 * One look at the machine. `selection` may be NULL (everything). -ENODEV: a GPU was selected that is not there,
 * -ECANCELED, -ENOENT (no /proc), -ENOMEM. A look that could not see everything succeeds and says so.
 */
int gpufree_look(gpufree *context, const gpufree_selection *selection, gpufree_snapshot **ret_snapshot);
/* Watches the GPUs of a look for a while: what each holder uses of them. Where the driver cannot say, nothing is
 * known; that is no error. -ECANCELED */
int gpufree_sample(gpufree *context, gpufree_snapshot *snapshot, uint64_t milliseconds);
gpufree_snapshot *gpufree_snapshot_ref(gpufree_snapshot *snapshot);
gpufree_snapshot *gpufree_snapshot_unref(gpufree_snapshot *snapshot);

/* Could everything that was asked about be seen? */
bool gpufree_snapshot_complete(const gpufree_snapshot *snapshot);
/* Reasons for an incomplete look, one sentence each with what to do: index from 0, NULL after the last. */
const char *gpufree_snapshot_gap(const gpufree_snapshot *snapshot, size_t index);
enum gpufree_scan_method gpufree_snapshot_method(const gpufree_snapshot *snapshot);
/* Why BPF was not used, or NULL. */
const char *gpufree_snapshot_method_reason(const gpufree_snapshot *snapshot);
uint64_t gpufree_snapshot_elapsed_us(const gpufree_snapshot *snapshot);
uint64_t gpufree_snapshot_processes(const gpufree_snapshot *snapshot);
/* Processes that should have been looked at and could not be. */
uint64_t gpufree_snapshot_unreadable(const gpufree_snapshot *snapshot);
/*
 * The look as numbers: threads looked at; threads that the kernel counts on the whole machine (UNKNOWN where it does
 * not say); processes that ended while being looked at; processes refused for want of permission, and for any other
 * reason, whoever was asked about; sockets and rings whose content could not be seen.
 */
struct gpufree_look_count {
        uint64_t threads, threads_existing, vanished, refused_permission, refused_other, opaque;
};
int gpufree_snapshot_count(const gpufree_snapshot *snapshot, struct gpufree_look_count *ret_count, size_t size);
/* What the driver library said, one sentence, when it could not be asked or failed; else NULL. */
const char *gpufree_snapshot_driver_error(const gpufree_snapshot *snapshot);
const char *gpufree_snapshot_driver_version(const gpufree_snapshot *snapshot);

size_t gpufree_snapshot_gpu_count(const gpufree_snapshot *snapshot);
const gpufree_gpu *gpufree_snapshot_gpu(const gpufree_snapshot *snapshot, size_t position);
size_t gpufree_snapshot_device_count(const gpufree_snapshot *snapshot);
const gpufree_device *gpufree_snapshot_device(const gpufree_snapshot *snapshot, size_t position);
/* All holders found, selected or not, sorted by GPU, memory, PID. */
size_t gpufree_snapshot_holder_count(const gpufree_snapshot *snapshot);
const gpufree_holder *gpufree_snapshot_holder(const gpufree_snapshot *snapshot, size_t position);

/* ---- a GPU ---- */

int gpufree_gpu_index(const gpufree_gpu *gpu); /* as nvidia-smi counts; -1 unknown */
int gpufree_gpu_minor(const gpufree_gpu *gpu); /* N of /dev/nvidiaN; -1 unknown */
const char *gpufree_gpu_uuid(const gpufree_gpu *gpu);
const char *gpufree_gpu_pci(const gpufree_gpu *gpu); /* "0000:18:00.0" */
const char *gpufree_gpu_name(const gpufree_gpu *gpu);
enum gpufree_vendor gpufree_gpu_vendor(const gpufree_gpu *gpu);
bool gpufree_gpu_selected(const gpufree_gpu *gpu);
uint64_t gpufree_gpu_memory_total(const gpufree_gpu *gpu);
uint64_t gpufree_gpu_memory_used(const gpufree_gpu *gpu);      /* without reserved */
uint64_t gpufree_gpu_memory_reserved(const gpufree_gpu *gpu);  /* by the driver */
uint64_t gpufree_gpu_memory_accounted(const gpufree_gpu *gpu); /* sum of what holders are known to have */
uint64_t gpufree_gpu_memory_unaccounted(const gpufree_gpu *gpu);
/* Processes that hold it (context or memory); those that merely have it open. */
size_t gpufree_gpu_holders(const gpufree_gpu *gpu);
size_t gpufree_gpu_openers(const gpufree_gpu *gpu);
/* What the driver said about this GPU alone, a sentence with the next step; NULL when all is well. */
const char *gpufree_gpu_error(const gpufree_gpu *gpu);

/* ---- a device node ---- */

const char *gpufree_device_path(const gpufree_device *device);
dev_t gpufree_device_rdev(const gpufree_device *device);
bool gpufree_device_is_block(const gpufree_device *device);
const char *gpufree_device_class(const gpufree_device *device); /* "nvidia-gpu", "nvidia-uvm", "drm-render", … */
int gpufree_device_gpu(const gpufree_device *device);           /* position in the snapshot; -1 none in particular */

/* ---- a holder ---- */

pid_t gpufree_holder_pid(const gpufree_holder *holder);
uint64_t gpufree_holder_start_ticks(const gpufree_holder *holder); /* clock ticks after boot: with the PID, who it is */
const char *gpufree_holder_comm(const gpufree_holder *holder);
/* Arguments joined by NUL bytes, *ret_length with the last NUL; NULL unknown; length 0: none (kernel, zombie leader).
 */
const char *gpufree_holder_cmdline(const gpufree_holder *holder, size_t *ret_length);
uint32_t gpufree_holder_uid(const gpufree_holder *holder);
const char *gpufree_holder_user(const gpufree_holder *holder);
char gpufree_holder_state(const gpufree_holder *holder); /* R S D T t Z X I; '?' unknown */
pid_t gpufree_holder_ppid(const gpufree_holder *holder);
pid_t gpufree_holder_pidns_pid(const gpufree_holder *holder); /* PID inside its own namespace; 0 unknown */
uint64_t gpufree_holder_age_ms(const gpufree_holder *holder);
bool gpufree_holder_selected(const gpufree_holder *holder);
/* NULL, or why it is never ended unless named, as part of a sentence: "fabric manager; NVLink jobs fail without it". */
const char *gpufree_holder_protected(const gpufree_holder *holder);
bool gpufree_holder_protection_absolute(const gpufree_holder *holder); /* cannot be lifted at all */

/* Owners, outermost first. `kind`: "session", "unit", "user-unit", "container", "pod", "job", "vm", … `runtime`:
 * "docker", … or NULL */
size_t gpufree_holder_owner_count(const gpufree_holder *holder);
int gpufree_holder_owner(const gpufree_holder *holder, size_t position, const char **ret_kind, const char **ret_runtime,
                         const char **ret_id, const char **ret_name);
/* One short text for a table, "lxc:129 (ml)", "vllm.service", "session 3 (tmux)"; NULL nothing known. */
const char *gpufree_holder_owner_label(const gpufree_holder *holder);

/* Devices it holds: position of the device in the snapshot (-1: a dma-buf), bits of gpufree_via, how many. */
size_t gpufree_holder_device_count(const gpufree_holder *holder);
int gpufree_holder_device(const gpufree_holder *holder, size_t position, int *ret_device, unsigned *ret_via,
                          uint64_t *ret_count, uint64_t *ret_bytes);

/* GPUs: memory it has there (GPUFREE_UNKNOWN), whether it holds it (context, memory) or merely has it open. */
size_t gpufree_holder_gpu_count(const gpufree_holder *holder);
int gpufree_holder_gpu(const gpufree_holder *holder, size_t position, int *ret_gpu, uint64_t *ret_memory,
                       bool *ret_context);
/*
 * Percent of its GPU that the holder used while gpufree_sample() watched; GPUFREE_UNKNOWN: not sampled, or not to be
 * told. 0 is only said after at least 4 answers without a sample, over a second or more.
 */
uint64_t gpufree_holder_gpu_busy(const gpufree_holder *holder, size_t position);
/*
 * What the NVIDIA driver's own structures say of the holder on that GPU, apart from its library. Read by BPF, as root,
 * where the driver has type information; otherwise, and wherever something in them is not understood, NONE.
 */
enum gpufree_witness {
        GPUFREE_WITNESS_NONE,    /* nothing is known */
        GPUFREE_WITNESS_OPEN,    /* merely open: no address space of its is on the GPU */
        GPUFREE_WITNESS_CONTEXT, /* address space on the GPU */
        GPUFREE_WITNESS_SHARED,  /* the address space of a process that the library lists (a fork has its parent's) */
        GPUFREE_WITNESS_HANDLE,  /* exported memory handles of the GPU */
        GPUFREE_WITNESS_DMABUF,  /* a dma-buf of the GPU's memory */
};
enum gpufree_witness gpufree_holder_gpu_witness(const gpufree_holder *holder, size_t position);
/* Whether the driver's structures were read for the snapshot, how long loading and the pass took; or why not (NULL). */
bool gpufree_snapshot_witness(const gpufree_snapshot *snapshot, const char **ret_reason, uint64_t *ret_load_us,
                              uint64_t *ret_pass_us);
/*
 * "zombie-leader", "stopped", "orphan", "inherited-from:511", "own-device-node", "witness-context:0000:3a:00.0" (the
 * driver's structures show a context there that its lists do not have), "witness-open:0000:3a:00.0" (its lists have the
 * process there, its structures show no context), …; NULL after the last.
 */
const char *gpufree_holder_note(const gpufree_holder *holder, size_t index);

/* ---- plan and kill ---- */

struct gpufree_ladder {
        size_t size;         /* sizeof(struct gpufree_ladder) */
        int signal;          /* the first one; SIGTERM */
        bool force;          /* SIGKILL at once */
        uint64_t grace_ms;   /* from the first signal to SIGKILL; 10,000 */
        uint64_t timeout_ms; /* for the whole; 60,000 */
        uint64_t settle_ms;  /* how long memory may take to come back; 5,000 */
        bool stop_owner;     /* first the owner's own command (gpufree_plan_owner), then the rest for what is left */
};
#define GPUFREE_LADDER_INIT                                                                                            \
        {                                                                                                              \
                sizeof(struct gpufree_ladder), 15, false, 10000, 60000, 5000, false                                    \
        }

/* The selected holders of the snapshot, sorted into to be ended and left alone. Keeps the snapshot alive. */
int gpufree_plan_new(gpufree *context, gpufree_snapshot *snapshot, gpufree_plan **ret_plan);
gpufree_plan *gpufree_plan_unref(gpufree_plan *plan);
size_t gpufree_plan_target_count(const gpufree_plan *plan);
const gpufree_holder *gpufree_plan_target(const gpufree_plan *plan, size_t position);
/* Selected, but protected: left alone. */
size_t gpufree_plan_spared_count(const gpufree_plan *plan);
const gpufree_holder *gpufree_plan_spared(const gpufree_plan *plan, size_t position);
/*
 * NULL, or why gpufree_kill() does not carry the plan out, a sentence with what to do: processes were selected by GPU
 * and the driver's library gave no answer, so who holds it cannot be told from who merely has it open.
 */
const char *gpufree_plan_refusal(const gpufree_plan *plan);
/* Memory that would come back on the GPU at `gpu` (position in the snapshot); GPUFREE_UNKNOWN. */
uint64_t gpufree_plan_memory(const gpufree_plan *plan, size_t gpu);

/* Would the end of a target be undone? Known before anything is signalled. */
enum gpufree_restart {
        GPUFREE_RESTART_UNKNOWN,
        GPUFREE_RESTART_NO,
        GPUFREE_RESTART_AFTER_KILL, /* after SIGKILL, not after SIGTERM */
        GPUFREE_RESTART_YES,
};
const char *gpufree_restart_name(enum gpufree_restart restart); /* "unknown", "no", "after-kill", "yes" */
/*
 * Who would start a target again, and what stops that for good. `ret_owner`: "docker:3f2a1b2c3d4e (vllm)"; `ret_why`:
 * "Docker starts it again (restart policy always)"; `ret_command`: quoted for a shell; `ret_advice`: what to do where
 * no command is known; `ret_warning`: what else the command ends; `ret_refusal`: why gpufree does not run it itself.
 * Each may be NULL to ignore, and is NULL where there is nothing to say. Targets with one owner share one `ret_stop`
 * (from 0; -1: none): it is run once. `ret_run`: it is what stop_owner runs. -ERANGE.
 */
int gpufree_plan_owner(const gpufree_plan *plan, size_t position, enum gpufree_restart *ret_restart,
                       const char **ret_owner, const char **ret_why, const char **ret_command, const char **ret_advice,
                       const char **ret_warning, const char **ret_refusal, int *ret_stop, bool *ret_run);

/*
 * Carries the plan out: pin, check, signal, wait, rescan until quiet, verify memory. Only processes of the plan, and
 * what they forked or what replaced them since, are signalled. Fails only where nothing could be begun; what happened
 * is in the report.
 */
int gpufree_kill(gpufree *context, const gpufree_selection *selection, const gpufree_plan *plan,
                 const struct gpufree_ladder *ladder, gpufree_report **ret_report);
/* Blocks until the selected GPUs are free. timeout_ms GPUFREE_UNKNOWN: for ever. */
int gpufree_wait(gpufree *context, const gpufree_selection *selection, uint64_t timeout_ms, uint64_t settle_ms,
                 gpufree_report **ret_report);
/* Are the selected GPUs free? Judges the snapshot, signals nothing. */
int gpufree_check(gpufree *context, gpufree_snapshot *snapshot, gpufree_report **ret_report);

gpufree_report *gpufree_report_unref(gpufree_report *report);
enum gpufree_outcome gpufree_report_outcome(const gpufree_report *report);
/* What is, on what evidence, what to do next: sentences, NULL after the last. */
const char *gpufree_report_sentence(const gpufree_report *report, size_t index);
uint64_t gpufree_report_elapsed_ms(const gpufree_report *report);
/*
 * Of a kill, in microseconds: how long the look took that its plan was made from; then, since the plan began to be
 * carried out: when the last process got its first signal, when the last one was seen to have ended, when looks found
 * nothing more to do, when all memory was verified. Each GPUFREE_UNKNOWN where it did not come to that. Pointers may be
 * NULL. 0; -EINVAL: no report.
 */
int gpufree_report_timings(const gpufree_report *report, uint64_t *ret_planned_us, uint64_t *ret_signalled_us,
                           uint64_t *ret_last_exit_us, uint64_t *ret_quiet_us, uint64_t *ret_verified_us);
/* The last look that the report rests on. */
const gpufree_snapshot *gpufree_report_snapshot(const gpufree_report *report);

enum gpufree_fate {
        GPUFREE_FATE_ENDED_BY_SIGNAL, /* by the ladder's first signal */
        GPUFREE_FATE_KILLED,          /* by SIGKILL */
        GPUFREE_FATE_ALREADY_GONE,
        GPUFREE_FATE_LET_GO,  /* lives, but no longer holds */
        GPUFREE_FATE_REFUSED, /* protected, or no permission */
        GPUFREE_FATE_SURVIVED,
        GPUFREE_FATE_NOT_IN_PLAN, /* came later, is no kin of what was shown: not signalled */
        GPUFREE_FATE_BY_OWNER,    /* its owner's own command ended it */
};
const char *gpufree_fate_name(enum gpufree_fate fate); /* "ended", "killed", "already-gone", "let-go", "refused",
                                                          "survived", "not-in-plan", "ended-by-owner" */
size_t gpufree_report_fate_count(const gpufree_report *report);
int gpufree_report_fate(const gpufree_report *report, size_t position, const gpufree_holder **ret_holder,
                        enum gpufree_fate *ret_fate, uint64_t *ret_elapsed_ms, const char **ret_detail);
/* Per GPU judged: position in the report's snapshot, memory used before and after, how long it took, verified or not.
 */
size_t gpufree_report_gpu_count(const gpufree_report *report);
int gpufree_report_gpu(const gpufree_report *report, size_t position, const gpufree_gpu **ret_gpu,
                       uint64_t *ret_used_before, uint64_t *ret_used_after, uint64_t *ret_elapsed_ms,
                       bool *ret_verified, const char **ret_sentence);

/* ---- park: take a CUDA process's memory off the GPU without ending it, and put it back ---- */

/* What the driver says of a process. */
enum gpufree_park_state {
        GPUFREE_PARK_UNKNOWN = -1, /* it does not answer */
        GPUFREE_PARK_RUNNING = 0,
        GPUFREE_PARK_LOCKED = 1, /* stands still, its memory is on the GPU */
        GPUFREE_PARK_PARKED = 2, /* its memory is in host memory, it holds no device */
        GPUFREE_PARK_FAILED = 3, /* the driver gave it up: it can only be ended */
        GPUFREE_PARK_PARKING = 4,
        GPUFREE_PARK_RESTORING = 5,
        GPUFREE_PARK_NOT_CUDA = 6, /* the driver knows no CUDA process by this PID */
};
/* "unknown", "running", "locked", "parked", "failed", "parking", "restoring", "not-cuda" */
const char *gpufree_park_state_name(enum gpufree_park_state state);

enum gpufree_park_step {
        GPUFREE_PARK_CHECK,
        GPUFREE_PARK_LOCK,
        GPUFREE_PARK_COPY, /* to host memory */
        GPUFREE_PARK_RESTORE,
        GPUFREE_PARK_UNLOCK,
        GPUFREE_PARK_VERIFY,
};
const char *gpufree_park_step_name(enum gpufree_park_step step); /* "check", "lock", "copy", … */

struct gpufree_park_options {
        size_t size;         /* sizeof(struct gpufree_park_options) */
        bool resume_stopped; /* continue (SIGCONT) a target that is stopped, which could not be parked otherwise */
        uint64_t lock_ms;    /* how long its work on the GPU may take to come to a pause; 10,000 */
        uint64_t timeout_ms; /* for the copying; 600,000 */
        uint64_t settle_ms;  /* how long memory may take to come back; 5,000 */
        const char *to;      /* unpark: "1", or pairs "0:2,1:3" of GPUs, as --gpu names them; NULL: where it was */
        bool each;           /* park: each for itself; one that cannot be parked keeps no other from it */
};
#define GPUFREE_PARK_OPTIONS_INIT                                                                                      \
        {                                                                                                              \
                sizeof(struct gpufree_park_options), false, 10000, 600000, 5000, NULL, false                           \
        }

typedef struct gpufree_parking gpufree_parking;

/*
 * Parks the targets of the plan, or none of them when a check refuses one (but see `each`). Fails only where nothing
 * could be begun; what happened is in the result. Without `each`, a PID that `selection` names and that holds nothing
 * is asked about, too.
 */
int gpufree_park(gpufree *context, const gpufree_selection *selection, const gpufree_plan *plan,
                 const struct gpufree_park_options *options, gpufree_parking **ret_parking);
/*
 * Takes out of the plan what need not, or must not, be ended after a parking: what is parked, and what the driver may
 * still be copying. gpufree_kill() of this plan then ends the rest: what could not be parked runs on, stands still
 * (locked) or was given up by the driver. Returns how many are taken out without being parked, -ENOMEM; *ret_outcome,
 * where it is more than 0: the worst of theirs.
 */
int gpufree_plan_without_parked(gpufree_plan *plan, const gpufree_parking *parking, enum gpufree_outcome *ret_outcome);
/* Brings these processes back; n 0: every one that a record tells of and that the driver calls parked or locked. */
int gpufree_unpark(gpufree *context, const pid_t *pids, size_t n, const struct gpufree_park_options *options,
                   gpufree_parking **ret_parking);
/* The parked (and locked) processes that a record tells of: who and when by the record, the state by the driver. */
int gpufree_parked(gpufree *context, gpufree_parking **ret_parking);
gpufree_parking *gpufree_parking_unref(gpufree_parking *parking);
enum gpufree_outcome gpufree_parking_outcome(const gpufree_parking *parking);
/* What is said about the whole: warnings, reasons; NULL after the last. */
const char *gpufree_parking_sentence(const gpufree_parking *parking, size_t index);
uint64_t gpufree_parking_elapsed_ms(const gpufree_parking *parking);

struct gpufree_parked_process {
        pid_t pid;
        uint64_t start_ticks;
        const char *comm, *cmdline, *user; /* of the process; raw */
        enum gpufree_park_state state;
        enum gpufree_park_step step; /* the last one begun */
        uint64_t memory;             /* GPU memory parked or brought back */
        uint64_t copy_ms;            /* how long the copying took */
        enum gpufree_outcome outcome;
        const char *sentence; /* what is, and what to do next */
        const char *gpus;     /* indices where its memory was or is: "0,1" */
        int64_t since;        /* parked: seconds since 1970; -1 unknown */
        const char *by;       /* who parked it */
};
size_t gpufree_parking_count(const gpufree_parking *parking);
/* `size`: sizeof(struct gpufree_parked_process) of the caller. */
int gpufree_parking_process(const gpufree_parking *parking, size_t position, size_t size,
                            struct gpufree_parked_process *ret_process);

enum gpufree_stop_outcome {
        GPUFREE_STOP_DONE,      /* the command ended with 0 */
        GPUFREE_STOP_FAILED,    /* it ended otherwise */
        GPUFREE_STOP_REFUSED,   /* it was not run */
        GPUFREE_STOP_TIMED_OUT, /* it was given up; the owner may still be at it */
        GPUFREE_STOP_CANCELLED,
};
const char *gpufree_stop_outcome_name(enum gpufree_stop_outcome outcome); /* "done", "failed", "refused", … */
/* The owners' commands that were to be run (stop_owner). `ret_status`: its exit status, -1 none; `ret_output`: what it
 * printed, raw, NULL when it was not run; `ret_sentence`: what happened, and the next step. -ERANGE. */
size_t gpufree_report_stop_count(const gpufree_report *report);
int gpufree_report_stop(const gpufree_report *report, size_t position, const char **ret_owner, const char **ret_command,
                        enum gpufree_stop_outcome *ret_outcome, int *ret_status, const char **ret_output,
                        const char **ret_sentence, uint64_t *ret_elapsed_ms);

/* ---- explain: every MiB of a GPU, why a process does not let go, what stands in the way ---- */

/* What a part of a GPU's memory is. */
enum gpufree_entry {
        GPUFREE_ENTRY_RESERVED,   /* by the driver; no part of "used" */
        GPUFREE_ENTRY_PROCESS,    /* a process that the driver lists and that was seen to hold the GPU */
        GPUFREE_ENTRY_MPS_SERVER, /* the same: the server of the Multi-Process Service */
        GPUFREE_ENTRY_MPS_CLIENT, /* the same: one of its clients */
        GPUFREE_ENTRY_DEAD,       /* booked to a PID that has ended; the keepers have what it had open */
        GPUFREE_ENTRY_DMABUF,     /* a dma-buf exported by the driver, and who has it */
        GPUFREE_ENTRY_HANDLE,     /* exported memory handles: how much is in each the driver does not say */
        GPUFREE_ENTRY_TOGETHER,   /* what several hold together: the driver gives no figure for each */
        GPUFREE_ENTRY_UNSEEN,     /* listed by the driver, could not be looked at */
        GPUFREE_ENTRY_OPEN,       /* merely open: no memory of its own, bytes are GPUFREE_UNKNOWN */
        GPUFREE_ENTRY_INSTANCE,   /* sum of a MIG instance; its processes are counted above */
        GPUFREE_ENTRY_UNACCOUNTED,
};
/* "reserved", "process", "mps-server", "mps-client", "dead", "dma-buf", "handle", "together", "unseen", "open",
 * "mig-instance", "unaccounted" */
const char *gpufree_entry_name(enum gpufree_entry entry);

typedef struct gpufree_account gpufree_account;
/* The account of the GPU at `gpu` (position in the snapshot); reads the kernel log. Keeps the snapshot alive. -ENODEV
 */
int gpufree_account_new(gpufree *context, gpufree_snapshot *snapshot, size_t gpu, gpufree_account **ret_account);
gpufree_account *gpufree_account_unref(gpufree_account *account);
const gpufree_gpu *gpufree_account_gpu(const gpufree_account *account);
/* What of "used" has a name: the sum of the entries that count. GPUFREE_UNKNOWN when one of them is not known. */
uint64_t gpufree_account_named(const gpufree_account *account);
uint64_t gpufree_account_unaccounted(const gpufree_account *account);
size_t gpufree_account_entry_count(const gpufree_account *account);
/* One part: its size, whether it counts (a part of "used"), the PID it is booked to (0 none), a sentence. -ERANGE */
int gpufree_account_entry(const gpufree_account *account, size_t position, enum gpufree_entry *ret_kind,
                          uint64_t *ret_bytes, bool *ret_counts, pid_t *ret_pid, const char **ret_sentence);
/* Who keeps that part; NULL after the last. */
const gpufree_holder *gpufree_account_keeper(const gpufree_account *account, size_t position, size_t index);
/* Why memory is unaccounted for, the likeliest first; NULL after the last. */
const char *gpufree_account_reason(const gpufree_account *account, size_t index);
/* What to type next; NULL after the last. */
const char *gpufree_account_command(const gpufree_account *account, size_t index);
/* Why the kernel log could not be read, a sentence; NULL: it could. */
const char *gpufree_account_log_error(const gpufree_account *account);
/* Errors of this GPU in the kernel log, the latest first: Xid number, age, PID it names (0 none), what the number means
 * and the line itself. -ERANGE after the last. */
int gpufree_account_xid(const gpufree_account *account, size_t index, unsigned *ret_number, uint64_t *ret_age_ms,
                        pid_t *ret_pid, const char **ret_meaning, const char **ret_line);

typedef struct gpufree_story gpufree_story;
/* What this process holds, what it waits for, who would start it again. It need not hold anything. Keeps the snapshot
 * alive. -ESRCH: there is no such process. */
int gpufree_story_new(gpufree *context, gpufree_snapshot *snapshot, pid_t pid, gpufree_story **ret_story);
gpufree_story *gpufree_story_unref(gpufree_story *story);
/* Who it is; without devices and GPUs when it holds none. */
const gpufree_holder *gpufree_story_process(const gpufree_story *story);
/* In order; the topic is "holds", "state", "threads", "signals", "family", "restart", "use", "parking", "log",
 * "next". -ERANGE */
int gpufree_story_sentence(const gpufree_story *story, size_t index, const char **ret_topic, const char **ret_sentence);
/*
 * Could it be parked now? 1; 0: no, for the reason in *ret_why (a sentence) or because of its state (NULL then);
 * -ENODATA: not known. The driver is asked; nothing is changed.
 */
int gpufree_story_parking(const gpufree_story *story, enum gpufree_park_state *ret_state, const char **ret_why);
/* Its threads (the first 64 of them): state, where in the kernel it waits and its kernel stack, or NULL. -ERANGE */
size_t gpufree_story_threads(const gpufree_story *story); /* how many there are in all */
int gpufree_story_thread(const gpufree_story *story, size_t position, pid_t *ret_tid, char *ret_state,
                         const char **ret_wchan, const char **ret_stack);
/* Signals sent and not yet taken, of the process and of its threads: bit N-1 is signal N. GPUFREE_UNKNOWN */
uint64_t gpufree_story_pending(const gpufree_story *story);
pid_t gpufree_story_child(const gpufree_story *story, size_t index); /* 0 after the last */
int gpufree_story_xid(const gpufree_story *story, size_t index, unsigned *ret_number, uint64_t *ret_age_ms,
                      pid_t *ret_pid, const char **ret_meaning, const char **ret_line);

enum gpufree_purpose {
        GPUFREE_FOR_RESET,  /* of the selected GPUs */
        GPUFREE_FOR_MIG,    /* turning MIG mode on or off */
        GPUFREE_FOR_UNLOAD, /* of the driver's kernel module */
        GPUFREE_FOR_UNBIND, /* of the selected GPUs from their driver */
};
const char *gpufree_purpose_name(enum gpufree_purpose purpose); /* "reset", "mig", "unload", "unbind" */

typedef struct gpufree_blockers gpufree_blockers;
/* What stands in the way of that on the selected GPUs, in the order to clear it. Nothing is done. */
int gpufree_blockers_new(gpufree *context, gpufree_snapshot *snapshot, enum gpufree_purpose purpose,
                         gpufree_blockers **ret_blockers);
gpufree_blockers *gpufree_blockers_unref(gpufree_blockers *blockers);
/* OK: nothing; HELD; INCOMPLETE: nothing was found, but not everything could be seen. */
enum gpufree_outcome gpufree_blockers_outcome(const gpufree_blockers *blockers);
/* A step: "process", "service", "vm", "console", "module", "vfio", "reference"; what it is; the command that clears it,
 * or NULL. -ERANGE after the last. */
int gpufree_blockers_step(const gpufree_blockers *blockers, size_t index, const char **ret_kind,
                          const char **ret_sentence, const char **ret_command);
/* What else is to be known, sentences; NULL after the last. */
const char *gpufree_blockers_note(const gpufree_blockers *blockers, size_t index);
/* The command that is in the way of nothing then ("nvidia-smi --gpu-reset -i 0"), or NULL. */
const char *gpufree_blockers_goal(const gpufree_blockers *blockers);

/* ---- guard: a command that runs on GPUs of its own, and leaves them free however it ends ---- */

typedef struct gpufree_guard gpufree_guard;

/* Exit codes of a guard's own failures; everything else is the command's status (128 + n: ended by signal n). */
enum gpufree_guard_code {
        GPUFREE_GUARD_NOT_FREE = 121,  /* GPUs not free, or claimed by another guard: the command was not started */
        GPUFREE_GUARD_NOT_READY = 122, /* not ready in time, or stalled */
        GPUFREE_GUARD_NOT_BACK = 123,  /* it ended, the GPUs did not come back */
        GPUFREE_GUARD_NO_EXEC = 126,
        GPUFREE_GUARD_NO_FILE = 127,
};

struct gpufree_guard_options {
        size_t size;                  /* sizeof(struct gpufree_guard_options) */
        unsigned gpus;                /* how many of the selected GPUs, free ones; 0: all selected */
        bool clean;                   /* first end what the same user left on them */
        const char *claim_dir;        /* lock files there, besides the machine-wide claim; NULL */
        const char *ready_url;        /* one of these at most; all NULL: nothing to wait for */
        const char *ready_tcp;        /* "HOST:PORT" */
        const char *ready_log;        /* POSIX extended regular expression, on a line of `log` */
        bool ready_fd;                /* a byte on the descriptor that $GPUFREE_READY_FD names */
        uint64_t ready_timeout_ms;    /* GPUFREE_UNKNOWN: none */
        uint64_t stall_timeout_ms;    /* nothing moved for so long; GPUFREE_UNKNOWN: none */
        const char *on_ready;         /* for /bin/sh -c; NULL */
        const char *log;              /* standard output and error of the command are added to it; NULL */
        unsigned restarts;            /* how often a failed command is started again */
        bool default_pipe;            /* the command starts with SIGPIPE at its default */
        struct gpufree_ladder ladder; /* for whatever remains of the command */
        int park_on;   /* SIGUSR1 or SIGUSR2, which the command does not get: parks its own CUDA processes; 0: none */
        int unpark_on; /* brings them back; 0: the other of the two */
        bool preempt;  /* has same-user guards of a lower priority, that were started with park_on, park meanwhile */
        int priority;  /* higher is more */
};
#define GPUFREE_GUARD_OPTIONS_INIT                                                                                     \
        {                                                                                                              \
                sizeof(struct gpufree_guard_options), 0, false, 0, 0, 0, 0, false, GPUFREE_UNKNOWN, GPUFREE_UNKNOWN,   \
                        0, 0, 0, false, GPUFREE_LADDER_INIT, 0, 0, false, 0                                            \
        }

enum gpufree_guard_event_type {
        GPUFREE_GUARD_SAID,     /* text: a sentence about what was done */
        GPUFREE_GUARD_WARNED,   /* text: a sentence about what went wrong, and why */
        GPUFREE_GUARD_PROGRESS, /* text: where it stands, to be replaced by the next; NULL: nothing to show any more */
};
typedef void (*gpufree_guard_handler)(void *userdata, enum gpufree_guard_event_type type, const char *text);

/*
 * Texts of the options are copied. The command later gets the signal mask that the caller has now. -EINVAL: the
 * sentence says which option.
 */
int gpufree_guard_new(gpufree *context, const struct gpufree_guard_options *options, gpufree_guard **ret_guard);
gpufree_guard *gpufree_guard_unref(gpufree_guard *guard); /* gives the GPUs up */
void gpufree_guard_set_handler(gpufree_guard *guard, gpufree_guard_handler handler, void *userdata);
/*
 * A signalfd(2) of signals that the caller has blocked: what comes there is passed on to the command, once. SIGCHLD and
 * SIGCONT are to be among them. Not owned. Without one, signals do to this process what they do.
 */
int gpufree_guard_set_signal_fd(gpufree_guard *guard, int fd);
/*
 * Chooses GPUs of the selection that are free and claims them: no other guard gets them until this one is gone, by
 * whatever death. 0; -EBUSY: not free, the reasons were handed to the handler; errors of gpufree_look(). A selection
 * names GPUs alone.
 */
int gpufree_guard_claim(gpufree_guard *guard, const gpufree_selection *selection);
/*
 * Starts the command, watches it, ends what remains of it, verifies the GPUs. *ret_code: what the guard should exit
 * with. From the first call on, this process adopts the orphans of its descendants.
 */
int gpufree_guard_run(gpufree_guard *guard, char *const argv[], int *ret_code);

enum gpufree_guard_readiness {
        GPUFREE_READY_NOT_ASKED, /* no way to be ready was given */
        GPUFREE_READY_YES,
        GPUFREE_READY_LATE,    /* not by the deadline */
        GPUFREE_READY_STALLED, /* nothing moved for too long */
        GPUFREE_READY_ENDED,   /* the command ended before it was ready */
};
const char *gpufree_guard_readiness_name(enum gpufree_guard_readiness readiness); /* "not-asked"; NULL: none */

/* What became of the command; of its last start where it was started again. */
struct gpufree_guard_result {
        size_t size;        /* sizeof(struct gpufree_guard_result), set by the caller */
        unsigned starts;    /* how often it was started; 0: never, nothing below is known but `verified` */
        int pid;            /* 0: it could not be executed */
        int error;          /* errno of that; 0 */
        int status, signal; /* exit status, -1: a signal ended it; that signal, or 0 */
        enum gpufree_guard_readiness readiness;
        uint64_t ready_ms;   /* from its start; GPUFREE_UNKNOWN */
        int signalled;       /* what it left: how many processes got the first signal */
        int killed;          /* how many SIGKILL */
        int stuck;           /* how many are still there */
        int verified;        /* are the claimed GPUs free? 1, 0; -1: none were claimed, or it was not looked */
        uint64_t elapsed_ms; /* of gpufree_guard_run() */
};
/* Copies what is known by now. -EINVAL: a size that is not known. */
int gpufree_guard_result(const gpufree_guard *guard, struct gpufree_guard_result *ret_result);
/* The claimed GPUs, in the order of their indices; NULL after the last. The guard's. */
size_t gpufree_guard_gpu_count(const gpufree_guard *guard);
const gpufree_gpu *gpufree_guard_gpu(const gpufree_guard *guard, size_t position);
/* The look that the claim, or its refusal, rests on; NULL. The guard's. */
const gpufree_snapshot *gpufree_guard_snapshot(const gpufree_guard *guard);
/* The verdicts on the GPUs after the command's end; NULL: none were claimed, or they could not be looked at. The
 * guard's. */
const gpufree_report *gpufree_guard_report(const gpufree_guard *guard);

/* What gpufree_wait_calm() waits for besides "free". */
struct gpufree_calm {
        size_t size;          /* sizeof(struct gpufree_calm) */
        uint64_t free_memory; /* so much is free on each GPU, whoever holds the rest; GPUFREE_UNKNOWN: wait for free */
        uint64_t quiet_ms;    /* and it stays so, with nothing computing, for this long, without a break */
};
/* As gpufree_wait(); timeout_ms 0 judges what is now, -EINVAL with a quiet time that cannot be over by then. */
int gpufree_wait_calm(gpufree *context, const gpufree_selection *selection, const struct gpufree_calm *calm,
                      uint64_t timeout_ms, uint64_t settle_ms, gpufree_report **ret_report);
/*
 * How busy the GPU at this position was, percent, when the driver was last asked: with a quiet time only. -ENODATA: it
 * was not asked; -EOPNOTSUPP: it cannot be read, *ret_why (the report's) says why, and the quiet time rests on holders
 * and memory alone. -ERANGE. Results may be NULL. Since: 0.1.
 */
int gpufree_report_gpu_busy(const gpufree_report *report, size_t position, unsigned *ret_percent, const char **ret_why);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT */
/* Who holds what, by the shapes seen on real machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/attribute.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define NONE GPUFREE_UNKNOWN

/* A machine: GPUs 0 … n-1 with nodes at the same positions, then nvidiactl, nvidia-uvm. */
struct machine {
        struct gpufree_snapshot *s;
        size_t gpus;
        int ctl, uvm;
};

static int add_device(struct machine *m, enum gf_class cls, int gpu)
{
        struct gpufree_device *device = gf_vec_add(&m->s->inventory.devices);

        if (!device)
                abort();
        *device = (struct gpufree_device){
                .path = strdup("/dev/x"),
                .rdev = m->s->inventory.devices.n,
                .cls = cls,
                .vendor = gpu >= 0 ? m->s->inventory.gpus.v[gpu].vendor : GPUFREE_VENDOR_NVIDIA,
                .minor = gpu,
                .gpu = gpu,
        };
        return (int)m->s->inventory.devices.n - 1;
}

static int add_gpu(struct machine *m, enum gpufree_vendor vendor, uint64_t used)
{
        struct gpufree_gpu *gpu = gf_vec_add(&m->s->inventory.gpus);
        struct gf_driver_gpu *driver;

        if (!gpu)
                abort();
        *gpu = (struct gpufree_gpu){ .index = -1, .minor = -1, .vendor = vendor, .memory = { 140 * GIB, used, 0 } };
        if (vendor == GPUFREE_VENDOR_NVIDIA) {
                driver = gf_vec_add(&m->s->driver.gpus);
                if (!driver)
                        abort();
                m->s->driver.asked = true;
                gpu->index = gpu->minor = (int)m->s->inventory.gpus.n - 1;
                *driver = (struct gf_driver_gpu){ .index = gpu->index, .minor = gpu->minor, .lists_ok = true };
                driver->memory = gpu->memory;
        }
        return (int)m->s->inventory.gpus.n - 1;
}

/* NVIDIA GPUs with this much in use each. */
static struct machine machine(size_t n, const uint64_t *used)
{
        struct machine m = { .s = calloc(1, sizeof(*m.s)), .gpus = n };

        if (!m.s)
                abort();
        m.s->refs = 1;
        for (size_t i = 0; i < n; i++)
                add_gpu(&m, GPUFREE_VENDOR_NVIDIA, used[i]);
        for (size_t i = 0; i < n; i++)
                add_device(&m, GF_CLASS_NVIDIA_GPU, (int)i);
        m.ctl = add_device(&m, GF_CLASS_NVIDIA_CTL, -1);
        m.uvm = add_device(&m, GF_CLASS_NVIDIA_UVM, -1);
        return m;
}

static void end(struct machine *m)
{
        gpufree_snapshot_unref(m->s);
}

static void add_holder(struct machine *m, pid_t pid)
{
        struct gpufree_holder *holder = gf_vec_add(&m->s->holders);

        if (!holder)
                abort();
        holder->id = (struct gf_ident){ pid, 1000 + (uint64_t)pid };
        holder->facts.ppid = 1;
        holder->facts.pgrp = holder->facts.session = pid;
}

static struct gpufree_holder *get(const struct machine *m, pid_t pid)
{
        for (size_t i = 0; i < m->s->holders.n; i++)
                if (m->s->holders.v[i].id.pid == pid)
                        return &m->s->holders.v[i];
        abort();
}

static void hold(struct machine *m, pid_t pid, int device, uint64_t fds, uint64_t maps)
{
        struct gf_device_use *use = gf_vec_add(&get(m, pid)->devices);

        if (!use)
                abort();
        *use = (struct gf_device_use){ .device = device, .fds = fds, .maps = maps, .bytes = NONE };
        use->via = (fds ? (unsigned)GPUFREE_VIA_FD : 0u) | (maps ? (unsigned)GPUFREE_VIA_MAP : 0u);
}

/* A CUDA process with its context on `gpu` (-1 none), and the rest of the `visible` GPUs merely open. */
static void cuda(struct machine *m, pid_t pid, int gpu, unsigned visible)
{
        add_holder(m, pid);
        for (int i = 0; i < (int)m->gpus; i++) {
                if (i == gpu)
                        hold(m, pid, i, 20, 31);
                else if (visible & 1u << i)
                        hold(m, pid, i, 4, 0);
        }
        hold(m, pid, m->ctl, 1, 0);
        hold(m, pid, m->uvm, 2, 0);
}

static void list(struct machine *m, int gpu, pid_t pid, uint64_t memory)
{
        struct gf_driver_process *process = gf_vec_add(&m->s->driver.gpus.v[gpu].processes);

        if (!process)
                abort();
        *process = (struct gf_driver_process){ pid, memory, GF_LIST_COMPUTE, UINT32_MAX, UINT32_MAX };
}

static void dmabuf(struct machine *m, pid_t pid, ino_t ino, uint64_t bytes, const char *exporter)
{
        struct gf_hit *hit = gf_vec_add(&m->s->scan.hits);
        struct gf_device_use *use = gf_vec_add(&get(m, pid)->devices);

        if (!hit || !use)
                abort();
        *hit = (struct gf_hit){ .id = get(m, pid)->id, .via = GPUFREE_VIA_DMABUF, .node_dev = 9, .node_ino = ino };
        hit->bytes = bytes;
        snprintf(hit->exporter, sizeof(hit->exporter), "%s", exporter);
        *use = (struct gf_device_use){ .device = -1, .via = GPUFREE_VIA_DMABUF, .fds = 1, .bytes = bytes };
        snprintf(use->exporter, sizeof(use->exporter), "%s", exporter);
}

static void refuse(struct machine *m, pid_t pid)
{
        struct gf_refused *refused = gf_vec_add(&m->s->scan.refused);

        if (!refused)
                abort();
        *refused = (struct gf_refused){ .pid = pid, .uid = 1000, .why = GF_REFUSED_PERMISSION, .what = "fd" };
}

static void attribute(struct machine *m)
{
        assert_int_equal(gf_attribute(m->s), 0);
        assert_int_equal(gf_attribute(m->s), 0); /* twice is the same as once */
}

static const struct gf_gpu_use *use_of(const struct machine *m, pid_t pid, int gpu)
{
        const struct gpufree_holder *holder = get(m, pid);

        for (size_t i = 0; i < holder->gpus.n; i++)
                if (holder->gpus.v[i].gpu == gpu)
                        return &holder->gpus.v[i];
        return NULL;
}

__attribute__((noreturn)) static const struct gf_gpu_use *abort_null(void)
{
        abort();
}

static const struct gf_gpu_use *must_use(const struct machine *m, pid_t pid, int gpu)
{
        const struct gf_gpu_use *use = use_of(m, pid, gpu);

        if (!use)
                fail_msg("%d has no use of GPU %d", (int)pid, gpu);
        return use ? use : abort_null();
}

static void assert_holds(const struct machine *m, pid_t pid, int gpu, uint64_t memory)
{
        const struct gf_gpu_use *use = must_use(m, pid, gpu);

        assert_true(use->context);
        assert_true(use->memory == memory);
}

static void assert_open(const struct machine *m, pid_t pid, int gpu)
{
        const struct gf_gpu_use *use = must_use(m, pid, gpu);

        assert_false(use->context);
        assert_true(use->memory == NONE);
}

static void assert_gpu(const struct machine *m, size_t gpu, uint64_t accounted, uint64_t unaccounted, size_t holders,
                       size_t openers)
{
        assert_true(m->s->inventory.gpus.v[gpu].accounted == accounted);
        assert_true(m->s->inventory.gpus.v[gpu].unaccounted == unaccounted);
        assert_int_equal(m->s->inventory.gpus.v[gpu].holders, holders);
        assert_int_equal(m->s->inventory.gpus.v[gpu].openers, openers);
}

static void an_idle_machine(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 0, 0 });

        (void)state;
        attribute(&m);
        assert_gpu(&m, 0, 0, 0, 0, 0);
        assert_true(m.s->inventory.gpus.v[0].lists_complete);
        assert_int_equal(m.s->dead.n, 0);
        end(&m);
}

static void a_plain_cuda_process(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 41478 * MIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        list(&m, 0, 100, 41478 * MIB);
        attribute(&m);
        assert_holds(&m, 100, 0, 41478 * MIB);
        assert_true(must_use(&m, 100, 0)->listed);
        assert_gpu(&m, 0, 41478 * MIB, 0, 1, 0);
        assert_int_equal(m.s->inventory.gpus.v[0].listed, 1);
        assert_int_equal(m.s->dead.n, 0);
        end(&m);
}

/* A context on GPU 1 only, with all GPUs visible: on GPU 0 it is merely open, 3 MiB there notwithstanding. */
static void other_gpus_are_merely_open(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 3 * MIB, 20 * GIB });

        (void)state;
        cuda(&m, 100, 1, 3);
        list(&m, 1, 100, 20 * GIB);
        attribute(&m);
        assert_holds(&m, 100, 1, 20 * GIB);
        assert_open(&m, 100, 0);
        assert_gpu(&m, 0, 0, 3 * MIB, 0, 1);
        assert_gpu(&m, 1, 20 * GIB, 0, 1, 0);
        end(&m);
}

static void only_the_visible_gpu_is_open(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 0, 20 * GIB });

        (void)state;
        cuda(&m, 100, 1, 2);
        list(&m, 1, 100, 20 * GIB);
        attribute(&m);
        assert_null(use_of(&m, 100, 0));
        assert_gpu(&m, 0, 0, 0, 0, 0);
        end(&m);
}

/* A zombie leader is listed by its PID and found by its threads: a holder like others. */
static void a_zombie_leader(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 74 * GIB });

        (void)state;
        cuda(&m, 21316, 0, 1);
        get(&m, 21316)->facts.leader_zombie = true;
        list(&m, 0, 21316, 74 * GIB);
        attribute(&m);
        assert_holds(&m, 21316, 0, 74 * GIB);
        assert_int_equal(m.s->dead.n, 0);
        end(&m);
}

static void a_dead_process_and_its_fork(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 20998 * MIB, 30 * GIB });

        (void)state;
        cuda(&m, 524, 0, 1);
        cuda(&m, 600, 1, 3); /* innocent: has GPU 0 open, works on GPU 1 */
        list(&m, 0, 511, 20998 * MIB);
        list(&m, 1, 600, 30 * GIB);
        attribute(&m);
        assert_int_equal(m.s->dead.n, 1);
        assert_int_equal(m.s->dead.v[0].pid, 511);
        assert_int_equal(m.s->dead.v[0].gpu, 0);
        assert_true(m.s->dead.v[0].memory == 20998 * MIB);
        assert_holds(&m, 524, 0, 20998 * MIB);
        assert_true(must_use(&m, 524, 0)->inherited);
        assert_false(must_use(&m, 524, 0)->listed);
        assert_int_equal(get(&m, 524)->notes.n, 1);
        assert_string_equal(get(&m, 524)->notes.v[0], "inherited-from:511");
        assert_open(&m, 600, 0);
        assert_int_equal(get(&m, 600)->notes.n, 0);
        assert_gpu(&m, 0, 20998 * MIB, 0, 1, 1); /* counted once, though dead and heir have it */
        end(&m);
}

/* Many data workers keep it: each may be the last, none has a figure of its own. */
static void a_dead_process_and_its_many_forks(void **state)
{
        struct machine m = machine(8, (uint64_t[]){ 90 * GIB, 0, 0, 0, 0, 0, 0, 0 });

        (void)state;
        for (pid_t pid = 1000; pid < 1126; pid++)
                cuda(&m, pid, 0, 0xff);
        list(&m, 0, 511, 90 * GIB);
        attribute(&m);
        for (pid_t pid = 1000; pid < 1126; pid++) {
                assert_holds(&m, pid, 0, NONE);
                assert_true(gf_strv_has(&get(&m, pid)->notes, "inherited-from:511"));
                assert_open(&m, pid, 1);
        }
        assert_gpu(&m, 0, 90 * GIB, 0, 126, 0);
        assert_gpu(&m, 1, 0, 0, 0, 126);
        end(&m);
}

/* Ranks of a dead job: each worker kept what its own rank had, by the descriptors that only a user has. */
static void forks_of_several_dead_go_to_their_own(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 10 * GIB, 20 * GIB });

        (void)state;
        cuda(&m, 1000, 0, 3);
        cuda(&m, 1001, 1, 3);
        list(&m, 0, 500, 10 * GIB);
        list(&m, 1, 501, 20 * GIB);
        attribute(&m);
        assert_holds(&m, 1000, 0, 10 * GIB);
        assert_holds(&m, 1001, 1, 20 * GIB);
        assert_open(&m, 1000, 1);
        assert_open(&m, 1001, 0);
        end(&m);
}

static void kin_of_the_dead_comes_first(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 10 * GIB });

        (void)state;
        cuda(&m, 1000, 0, 1);
        cuda(&m, 1001, 0, 1);
        get(&m, 1001)->facts.pgrp = 500;
        list(&m, 0, 500, 10 * GIB);
        attribute(&m);
        assert_open(&m, 1000, 0);
        assert_holds(&m, 1001, 0, 10 * GIB);
        end(&m);
}

static void a_living_parents_worker_is_no_heir(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 30 * GIB });

        (void)state;
        cuda(&m, 700, 0, 1);
        cuda(&m, 701, 0, 1); /* 700's data worker */
        get(&m, 701)->facts.ppid = 700;
        list(&m, 0, 700, 10 * GIB);
        list(&m, 0, 500, 20 * GIB);
        attribute(&m);
        assert_open(&m, 701, 0);
        assert_int_equal(m.s->dead.n, 1);
        assert_gpu(&m, 0, 30 * GIB, 0, 1, 1);
        end(&m);
}

static void one_heir_of_two_dead_has_both(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 30 * GIB });

        (void)state;
        cuda(&m, 1000, 0, 1);
        list(&m, 0, 500, 10 * GIB);
        list(&m, 0, 501, 20 * GIB);
        attribute(&m);
        assert_holds(&m, 1000, 0, 30 * GIB);
        assert_int_equal(get(&m, 1000)->notes.n, 2);
        assert_gpu(&m, 0, 30 * GIB, 0, 1, 0);
        end(&m);
}

/* It died and left nothing: a process that works on another GPU, and has this one open, must not be taken for its fork.
 */
static void who_is_listed_elsewhere_is_no_heir(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 10 * GIB, 30 * GIB });

        (void)state;
        cuda(&m, 600, 1, 3);
        list(&m, 0, 500, 10 * GIB);
        list(&m, 1, 600, 30 * GIB);
        attribute(&m);
        assert_open(&m, 600, 0);
        assert_int_equal(get(&m, 600)->notes.n, 0);
        assert_int_equal(m.s->dead.n, 1);
        assert_gpu(&m, 0, 10 * GIB, 0, 0, 1);
        end(&m);
}

/* Where another GPU's list cannot be read, it could be listed there: only what a user alone has open counts. */
static void with_a_list_unread_an_heir_needs_evidence(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 10 * GIB, 30 * GIB });

        (void)state;
        m.s->driver.gpus.v[1].lists_ok = false;
        cuda(&m, 600, 1, 3);
        list(&m, 0, 500, 10 * GIB);
        attribute(&m);
        assert_open(&m, 600, 0);
        assert_holds(&m, 600, 1, NONE);
        end(&m);
}

/* Without UVM a process keeps no CUDA memory: monitoring is no heir. */
static void a_monitor_is_no_heir(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 10 * GIB });

        (void)state;
        add_holder(&m, 800);
        hold(&m, 800, 0, 4, 0);
        hold(&m, 800, m.ctl, 1, 0);
        list(&m, 0, 500, 10 * GIB);
        attribute(&m);
        assert_open(&m, 800, 0);
        assert_int_equal(m.s->dead.n, 1);
        assert_gpu(&m, 0, 10 * GIB, 0, 0, 1);
        end(&m);
}

/* CUDA IPC: the importer is listed with all of it. */
static void an_ipc_importer_has_what_is_booked_to_it(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 20998 * MIB });

        (void)state;
        cuda(&m, 900, 0, 1);
        list(&m, 0, 900, 20998 * MIB);
        attribute(&m);
        assert_holds(&m, 900, 0, 20998 * MIB);
        end(&m);
}

static void a_dmabuf_of_a_dead_exporter(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 0, 2048 * MIB });

        (void)state;
        add_holder(&m, 716);
        dmabuf(&m, 716, 77, 2048 * MIB, "nv_dmabuf");
        attribute(&m);
        assert_holds(&m, 716, 1, 2048 * MIB);
        assert_null(use_of(&m, 716, 0));
        assert_gpu(&m, 1, 2048 * MIB, 0, 1, 0);
        end(&m);
}

static void a_shared_dmabuf_is_accounted_once(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 2048 * MIB });

        (void)state;
        add_holder(&m, 716);
        add_holder(&m, 717);
        dmabuf(&m, 716, 77, 2048 * MIB, "nv_dmabuf");
        dmabuf(&m, 717, 77, 2048 * MIB, "nv_dmabuf");
        attribute(&m);
        assert_holds(&m, 716, 0, 2048 * MIB);
        assert_holds(&m, 717, 0, 2048 * MIB);
        assert_gpu(&m, 0, 2048 * MIB, 0, 2, 0);
        end(&m);
}

static void a_dmabuf_that_fits_two_gpus_is_on_neither(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 4 * GIB, 3 * GIB });

        (void)state;
        add_holder(&m, 716);
        dmabuf(&m, 716, 77, 2 * GIB, "nv_dmabuf");
        attribute(&m);
        assert_int_equal(get(&m, 716)->gpus.n, 0);
        assert_int_equal(get(&m, 716)->devices.n, 1); /* still a device use */
        assert_gpu(&m, 0, 0, 4 * GIB, 0, 0);
        end(&m);
}

static void a_dmabuf_of_a_living_exporter_is_in_its_figure(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 12 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        list(&m, 0, 100, 10 * GIB);
        dmabuf(&m, 100, 77, 2 * GIB, "nv_dmabuf");
        add_holder(&m, 716);
        dmabuf(&m, 716, 77, 2 * GIB, "nv_dmabuf");
        attribute(&m);
        assert_holds(&m, 100, 0, 10 * GIB);
        assert_int_equal(get(&m, 716)->gpus.n, 0);
        assert_gpu(&m, 0, 10 * GIB, 2 * GIB, 1, 0);
        end(&m);
}

static void a_dmabuf_on_the_only_gpu_needs_no_figures(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ NONE });

        (void)state;
        m.s->driver.gpus.v[0].lists_ok = false;
        add_holder(&m, 716);
        dmabuf(&m, 716, 77, 2 * GIB, "nv_dmabuf");
        attribute(&m);
        assert_holds(&m, 716, 0, 2 * GIB);
        end(&m);
}

static void a_vmm_handle_of_a_dead_exporter(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 0, 2048 * MIB });

        (void)state;
        add_holder(&m, 750);
        hold(&m, 750, m.ctl, 1, 0);
        cuda(&m, 760, -1, 3); /* has both open, and no better claim than the handle */
        attribute(&m);
        assert_holds(&m, 750, 1, NONE);
        assert_open(&m, 760, 1);
        assert_gpu(&m, 1, 0, 2048 * MIB, 1, 1);
        end(&m);
}

static void a_vmm_handle_with_two_gpus_in_question_is_on_neither(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 2 * GIB, 2 * GIB });

        (void)state;
        add_holder(&m, 750);
        hold(&m, 750, m.ctl, 1, 0);
        attribute(&m);
        assert_int_equal(get(&m, 750)->gpus.n, 0);
        assert_int_equal(get(&m, 750)->devices.n, 1);
        end(&m);
}

/* Up to 32 MiB need no explanation: a control descriptor on an idle machine holds nothing. */
static void noise_needs_no_explanation(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 32 * MIB });

        (void)state;
        add_holder(&m, 750);
        hold(&m, 750, m.ctl, 1, 0);
        cuda(&m, 760, -1, 1);
        attribute(&m);
        assert_int_equal(get(&m, 750)->gpus.n, 0);
        assert_open(&m, 760, 0);
        end(&m);
}

/* The driver hides who has the memory (another namespace, a bug): the opener that explains it best. */
static void an_unlisted_user_explains_the_memory(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 30 * GIB, 10 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);  /* not listed, as many descriptors as a user has */
        cuda(&m, 101, -1, 1); /* not listed, a few */
        cuda(&m, 102, 1, 3);  /* listed on GPU 1 */
        add_holder(&m, 103);  /* a monitor */
        hold(&m, 103, 0, 1, 0);
        list(&m, 1, 102, 10 * GIB);
        attribute(&m);
        assert_holds(&m, 100, 0, NONE);
        assert_open(&m, 101, 0);
        assert_open(&m, 102, 0);
        assert_open(&m, 103, 0);
        assert_gpu(&m, 0, 0, 30 * GIB, 1, 3);
        end(&m);
}

static void a_few_descriptors_explain_it_when_nothing_better_does(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 30 * GIB });

        (void)state;
        cuda(&m, 101, -1, 1);
        attribute(&m);
        assert_holds(&m, 101, 0, NONE);
        end(&m);
}

/* Memory on GPU 0 that nobody visible has: a process that works on GPU 1 must not be blamed for it. */
static void who_is_listed_elsewhere_is_not_blamed(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 30 * GIB, 10 * GIB });

        (void)state;
        cuda(&m, 102, 1, 3);
        list(&m, 1, 102, 10 * GIB);
        attribute(&m);
        assert_open(&m, 102, 0);
        assert_gpu(&m, 0, 0, 30 * GIB, 0, 1);
        end(&m);
}

static void a_silent_driver_leaves_it_to_the_evidence(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ NONE, NONE });

        (void)state;
        m.s->driver.gpus.n = 0; /* NVML is missing */
        m.s->driver.asked = false;
        cuda(&m, 100, 0, 3);
        add_holder(&m, 103);
        hold(&m, 103, 0, 30, 0); /* no UVM */
        attribute(&m);
        assert_holds(&m, 100, 0, NONE);
        assert_open(&m, 103, 0);
        /* What it has open of GPU 1 says nothing, as on a real machine with two: its use is GPU 0. */
        assert_open(&m, 100, 1);
        assert_gpu(&m, 0, NONE, NONE, 1, 1);
        assert_gpu(&m, 1, NONE, NONE, 0, 1);
        assert_false(m.s->inventory.gpus.v[0].lists_complete);
        end(&m);
}

static void without_the_driver_and_better_evidence_whoever_may_counts(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ NONE });

        (void)state;
        m.s->driver.gpus.n = 0;
        m.s->driver.asked = false;
        cuda(&m, 100, -1, 1); /* four descriptors, and UVM */
        add_holder(&m, 103);
        hold(&m, 103, 0, 4, 0); /* no UVM: a daemon */
        attribute(&m);
        assert_holds(&m, 100, 0, NONE);
        assert_open(&m, 103, 0);
        end(&m);
}

/* A list that was cut short: who is on it counts, and who has as much open. */
static void a_cut_list_and_the_evidence(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 30 * GIB });

        (void)state;
        m.s->driver.gpus.v[0].lists_ok = false;
        cuda(&m, 100, -1, 1);
        cuda(&m, 101, 0, 1);
        cuda(&m, 102, -1, 1);
        list(&m, 0, 100, 10 * GIB);
        attribute(&m);
        assert_holds(&m, 100, 0, 10 * GIB);
        assert_holds(&m, 101, 0, NONE);
        assert_open(&m, 102, 0);
        assert_gpu(&m, 0, 10 * GIB, NONE, 2, 1);
        end(&m);
}

static void a_refused_process_is_not_dead(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 10 * GIB });

        (void)state;
        refuse(&m, 511);
        cuda(&m, 524, 0, 1);
        list(&m, 0, 511, 10 * GIB);
        attribute(&m);
        assert_int_equal(m.s->dead.n, 0);
        assert_open(&m, 524, 0);
        assert_gpu(&m, 0, 10 * GIB, 0, 0, 1);
        end(&m);
}

/* What it has may wait in a queue of its own, which /proc does not show: its neighbour is no heir of it. */
static void one_with_an_unseen_queue_is_not_dead(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 10 * GIB });
        pid_t *opaque = gf_vec_add(&m.s->scan.opaque);

        (void)state;
        if (!opaque)
                abort();
        *opaque = 511;
        cuda(&m, 524, 0, 1);
        list(&m, 0, 511, 10 * GIB);
        attribute(&m);
        assert_int_equal(m.s->dead.n, 0);
        assert_open(&m, 524, 0);
        end(&m);
}

/* Only another device was looked at: who is listed here may well live. */
static void who_was_not_looked_for_is_not_dead(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 0, 10 * GIB });

        (void)state;
        for (size_t i = 1; i < m.s->inventory.devices.n; i++)
                free(m.s->inventory.devices.v[i].path);
        m.s->inventory.devices.n = 1;
        list(&m, 1, 511, 10 * GIB);
        attribute(&m);
        assert_int_equal(m.s->dead.n, 0);
        assert_gpu(&m, 1, 10 * GIB, 0, 0, 0);
        end(&m);
}

/* A PID of another namespace, or a recycled one: what has nothing of NVIDIA's open is not it. */
static void a_listed_pid_without_a_device_is_not_believed(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 10 * GIB });
        int other = add_device(&m, GF_CLASS_OTHER, -1);

        (void)state;
        add_holder(&m, 42);
        hold(&m, 42, other, 1, 0);
        list(&m, 0, 42, 10 * GIB);
        attribute(&m);
        assert_int_equal(get(&m, 42)->gpus.n, 0);
        assert_int_equal(m.s->dead.n, 1);
        end(&m);
}

static void a_pid_listed_twice_is_one(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 10 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        list(&m, 0, 100, 10 * GIB);
        list(&m, 0, 100, NONE);
        list(&m, 0, 100, 10 * GIB);
        attribute(&m);
        assert_holds(&m, 100, 0, 10 * GIB);
        assert_int_equal(m.s->inventory.gpus.v[0].listed, 1);
        assert_gpu(&m, 0, 10 * GIB, 0, 1, 0);
        end(&m);
}

static void instances_add_up(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 3 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        list(&m, 0, 100, 1 * GIB);
        list(&m, 0, 100, 2 * GIB);
        m.s->driver.gpus.v[0].processes.v[0].gpu_instance = 7;
        m.s->driver.gpus.v[0].processes.v[1].gpu_instance = 8;
        attribute(&m);
        assert_holds(&m, 100, 0, 3 * GIB);
        assert_gpu(&m, 0, 3 * GIB, 0, 1, 0);
        end(&m);
}

/* All ones: the driver has no figure. What is not known is not subtracted, and blames nobody. */
static void an_unknown_figure_is_never_summed(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 30 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        cuda(&m, 101, 0, 1);
        cuda(&m, 102, -1, 1);
        list(&m, 0, 100, NONE);
        list(&m, 0, 101, 10 * GIB);
        attribute(&m);
        assert_holds(&m, 100, 0, NONE);
        assert_holds(&m, 101, 0, 10 * GIB);
        assert_open(&m, 102, 0);
        assert_gpu(&m, 0, 10 * GIB, NONE, 2, 1);
        end(&m);
}

static void figures_beyond_the_gpu_are_unknown(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 30 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        list(&m, 0, 100, UINT64_MAX - 1);
        attribute(&m);
        assert_holds(&m, 100, 0, NONE);
        assert_gpu(&m, 0, NONE, NONE, 1, 0);
        end(&m);
}

static void more_accounted_than_used_leaves_nothing(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 5 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        list(&m, 0, 100, 6 * GIB);
        attribute(&m);
        assert_gpu(&m, 0, 6 * GIB, 0, 1, 0);
        end(&m);
}

static void mps_server_and_client(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 66 * MIB + 8 * GIB });

        (void)state;
        cuda(&m, 300, 0, 1); /* server */
        cuda(&m, 301, 0, 1); /* client */
        list(&m, 0, 300, 66 * MIB);
        list(&m, 0, 301, 8 * GIB);
        m.s->driver.gpus.v[0].processes.v[1].lists = GF_LIST_COMPUTE | GF_LIST_MPS;
        attribute(&m);
        assert_holds(&m, 300, 0, 66 * MIB);
        assert_holds(&m, 301, 0, 8 * GIB);
        assert_gpu(&m, 0, 66 * MIB + 8 * GIB, 0, 2, 0);
        end(&m);
}

static void other_vendors_openers_hold(void **state)
{
        struct machine m = machine(0, NULL);
        int amd = add_gpu(&m, GPUFREE_VENDOR_AMD, NONE), render, kfd;

        (void)state;
        render = add_device(&m, GF_CLASS_DRM_RENDER, amd);
        kfd = add_device(&m, GF_CLASS_KFD, -1);
        add_holder(&m, 100);
        hold(&m, 100, render, 1, 2);
        add_holder(&m, 101);
        hold(&m, 101, kfd, 1, 0);
        attribute(&m);
        assert_holds(&m, 100, amd, NONE);
        assert_holds(&m, 101, amd, NONE); /* there is no other it could be */
        assert_gpu(&m, 0, NONE, NONE, 2, 0);
        end(&m);
}

static void kfd_alone_among_several_gpus_is_a_device_use(void **state)
{
        struct machine m = machine(0, NULL);
        int kfd;

        (void)state;
        add_gpu(&m, GPUFREE_VENDOR_AMD, NONE);
        add_gpu(&m, GPUFREE_VENDOR_AMD, NONE);
        kfd = add_device(&m, GF_CLASS_KFD, -1);
        add_holder(&m, 101);
        hold(&m, 101, kfd, 1, 0);
        attribute(&m);
        assert_int_equal(get(&m, 101)->gpus.n, 0);
        end(&m);
}

static void a_vfio_group_is_held_by_its_opener(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ NONE });
        int vfio;

        (void)state;
        m.s->driver.gpus.n = 0;
        vfio = add_device(&m, GF_CLASS_VFIO_GROUP, 0);
        add_holder(&m, 400);
        hold(&m, 400, vfio, 1, 0);
        attribute(&m);
        assert_holds(&m, 400, 0, NONE);
        end(&m);
}

static void uses_are_in_the_order_of_the_gpus(void **state)
{
        struct machine m = machine(3, (uint64_t[]){ 0, 0, 5 * GIB });

        (void)state;
        cuda(&m, 100, 2, 7);
        list(&m, 2, 100, 5 * GIB);
        attribute(&m);
        assert_int_equal(get(&m, 100)->gpus.n, 3);
        for (int i = 0; i < 3; i++)
                assert_int_equal(get(&m, 100)->gpus.v[i].gpu, i);
        end(&m);
}

/* ---- the second witness ---- */

static struct gf_fact *add_fact(struct machine *m, pid_t pid, enum gf_fact_kind kind, int gpu)
{
        struct gf_fact *fact = gf_vec_add(&m->s->witness.facts);

        if (!fact)
                abort();
        m->s->witness.asked = true;
        *fact = (struct gf_fact){ .id = get(m, pid)->id, .kind = kind, .fd = 9, .instance = NONE, .bytes = NONE };
        if (gpu >= 0) {
                struct gpufree_gpu *g = &m->s->inventory.gpus.v[gpu];

                (void)snprintf(fact->pci, sizeof(fact->pci), "0000:00:%02x.0", 6 + gpu);
                free(g->pci);
                g->pci = strdup(fact->pci);
        }
        return fact;
}

/* A VA space, the same for who shares it, with a context on `gpu` (-1 none). Facts of a PID stand together. */
static void space(struct machine *m, pid_t pid, uint64_t id, int gpu)
{
        add_fact(m, pid, GF_FACT_SPACE, -1)->space = id;
        if (gpu >= 0)
                add_fact(m, pid, GF_FACT_CONTEXT, gpu)->space = id;
}

static void silence(struct machine *m)
{
        for (size_t i = 0; i < m->s->driver.gpus.n; i++) {
                m->s->driver.gpus.v[i].lists_ok = false;
                m->s->inventory.gpus.v[i].memory.used = NONE;
        }
}

static bool has_note(const struct machine *m, pid_t pid, const char *note)
{
        return gf_strv_has(&get(m, pid)->notes, note);
}

static void where_both_agree_nothing_changes(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 3 * MIB, 20 * GIB });

        (void)state;
        cuda(&m, 100, 1, 3);
        list(&m, 1, 100, 20 * GIB);
        space(&m, 100, 1, 1);
        attribute(&m);
        assert_holds(&m, 100, 1, 20 * GIB);
        assert_open(&m, 100, 0);
        assert_int_equal(must_use(&m, 100, 1)->witness, GPUFREE_WITNESS_CONTEXT);
        assert_int_equal(must_use(&m, 100, 0)->witness, GPUFREE_WITNESS_OPEN);
        assert_int_equal(get(&m, 100)->notes.n, 0);
        assert_false(must_use(&m, 100, 1)->doubted);
        assert_gpu(&m, 0, 0, 3 * MIB, 0, 1);
        assert_gpu(&m, 1, 20 * GIB, 0, 1, 0);
        end(&m);
}

/* What descriptors would say is overruled: twenty on a GPU without a context, four on the one that has it. */
static void without_the_library_the_witness_decides(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 0, 0 });

        (void)state;
        cuda(&m, 100, 0, 3);
        space(&m, 100, 1, 1);
        silence(&m);
        attribute(&m);
        assert_open(&m, 100, 0);
        assert_true(must_use(&m, 100, 1)->context);
        assert_false(must_use(&m, 100, 1)->doubted);
        assert_int_equal(get(&m, 100)->notes.n, 0);
        end(&m);
}

/* Nothing understood in the driver: as without it. */
static void a_blurred_witness_decides_nothing(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 0, 0 });

        (void)state;
        cuda(&m, 100, 0, 3);
        space(&m, 100, 1, -1);
        add_fact(&m, 100, GF_FACT_BLUR, -1);
        silence(&m);
        attribute(&m);
        assert_true(must_use(&m, 100, 0)->context);
        assert_int_equal(must_use(&m, 100, 0)->witness, GPUFREE_WITNESS_NONE);
        assert_open(&m, 100, 1);
        end(&m);
}

/* The facts of a process that had this PID before are not its. */
static void another_process_of_that_pid(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 0, 0 });

        (void)state;
        cuda(&m, 100, 0, 3);
        space(&m, 100, 1, 1);
        for (size_t i = 0; i < m.s->witness.facts.n; i++)
                m.s->witness.facts.v[i].id.start_ticks = 1;
        silence(&m);
        attribute(&m);
        assert_true(must_use(&m, 100, 0)->context);
        assert_open(&m, 100, 1);
        end(&m);
}

/* The lists are complete and do not have it: it counts as a holder, in doubt, and both are shown. */
static void a_context_that_the_lists_do_not_have(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 3 * MIB, 0 });

        (void)state;
        cuda(&m, 100, -1, 3);
        space(&m, 100, 1, 0);
        attribute(&m);
        assert_true(must_use(&m, 100, 0)->context);
        assert_true(must_use(&m, 100, 0)->doubted);
        assert_true(has_note(&m, 100, "witness-context:0000:00:06.0"));
        assert_int_equal(get(&m, 100)->notes.n, 1);
        assert_open(&m, 100, 1);
        assert_gpu(&m, 0, 0, 3 * MIB, 1, 0);
        end(&m);
}

/* The other way round the lists stay right, and both are shown. */
static void a_listed_process_without_a_context(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 20 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        list(&m, 0, 100, 20 * GIB);
        space(&m, 100, 1, -1);
        m.s->inventory.gpus.v[0].pci = strdup("0000:00:06.0");
        attribute(&m);
        assert_holds(&m, 100, 0, 20 * GIB);
        assert_false(must_use(&m, 100, 0)->doubted);
        assert_true(has_note(&m, 100, "witness-open:0000:00:06.0"));
        end(&m);
}

/* A data worker has its living parent's VA space: no context of its own, and nothing to be doubted. */
static void a_fork_shares_its_parents_space(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 20 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        cuda(&m, 101, 0, 1);
        get(&m, 101)->facts.ppid = 100;
        list(&m, 0, 100, 20 * GIB);
        space(&m, 100, 1, 0);
        space(&m, 101, 1, 0);
        attribute(&m);
        assert_open(&m, 101, 0);
        assert_int_equal(must_use(&m, 101, 0)->witness, GPUFREE_WITNESS_SHARED);
        assert_int_equal(get(&m, 101)->notes.n, 0);
        assert_gpu(&m, 0, 20 * GIB, 0, 1, 1);
        end(&m);
}

/* Of two with the dead one's descriptors, the one whose VA space is on the GPU is its heir: no guess by kinship. */
static void the_witness_names_the_heir(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 20 * GIB });

        (void)state;
        cuda(&m, 600, 0, 1);
        cuda(&m, 601, 0, 1);
        get(&m, 600)->facts.pgrp = 511;
        list(&m, 0, 511, 20 * GIB);
        space(&m, 600, 1, -1);
        space(&m, 601, 2, 0);
        attribute(&m);
        assert_holds(&m, 601, 0, 20 * GIB);
        assert_true(has_note(&m, 601, "inherited-from:511"));
        assert_false(must_use(&m, 601, 0)->doubted);
        assert_open(&m, 600, 0);
        end(&m);
}

/* Memory without a name goes to the one with a context, not to who has more descriptors. */
static void unlisted_memory_is_the_contexts(void **state)
{
        struct machine m = machine(1, (uint64_t[]){ 20 * GIB });

        (void)state;
        cuda(&m, 100, 0, 1);
        cuda(&m, 101, -1, 1);
        space(&m, 100, 1, -1);
        space(&m, 101, 2, 0);
        attribute(&m);
        assert_open(&m, 100, 0);
        assert_true(must_use(&m, 101, 0)->context);
        assert_false(must_use(&m, 101, 0)->doubted);
        end(&m);
}

static void handle_peer(struct machine *m, pid_t pid, int gpu)
{
        add_holder(m, pid);
        hold(m, pid, m->ctl, 1, 0);
        if (gpu >= 0)
                add_fact(m, pid, GF_FACT_HANDLE, gpu)->instance = (uint64_t)gpu;
}

/* Two GPUs have memory without a name: only the witness tells which is whose. */
static void handles_of_two_gpus(void **state)
{
        for (int blind = 0; blind < 2; blind++) {
                struct machine m = machine(2, (uint64_t[]){ 2 * GIB, 256 * MIB });

                (void)state;
                handle_peer(&m, 100, 1);
                handle_peer(&m, 101, 0);
                handle_peer(&m, 102, -1); /* of this one nothing is known */
                if (blind)
                        silence(&m);
                attribute(&m);
                assert_true(must_use(&m, 100, 1)->context);
                assert_null(use_of(&m, 100, 0));
                assert_true(must_use(&m, 101, 0)->context);
                assert_null(use_of(&m, 101, 1));
                assert_null(use_of(&m, 102, 0));
                assert_int_equal(must_use(&m, 100, 1)->witness, GPUFREE_WITNESS_HANDLE);
                end(&m);
        }
}

/* The exporter lives, the memory is in its figure: its peer is not made a holder. And GPU 0's memory is not the peer's.
 */
static void the_handle_of_a_living_exporter(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 5 * GIB, 2 * GIB });

        (void)state;
        cuda(&m, 100, 1, 2);
        list(&m, 1, 100, 2 * GIB);
        space(&m, 100, 1, 1);
        handle_peer(&m, 101, 1);
        attribute(&m);
        assert_null(use_of(&m, 101, 1));
        assert_null(use_of(&m, 101, 0));
        assert_true(m.s->inventory.gpus.v[0].unaccounted == 5 * GIB);
        end(&m);
}

static void a_witnessed_dmabuf(struct machine *m, pid_t pid, ino_t ino, uint64_t bytes, int gpu)
{
        struct gf_fact *fact;

        add_holder(m, pid);
        dmabuf(m, pid, ino, bytes, "nv_dmabuf");
        fact = add_fact(m, pid, GF_FACT_DMABUF, gpu);
        fact->ino = ino;
        fact->bytes = bytes;
}

/* Both GPUs have room for it; the driver's structures say whose it is, also without figures. */
static void dmabufs_of_two_gpus(void **state)
{
        for (int blind = 0; blind < 2; blind++) {
                struct machine m = machine(2, (uint64_t[]){ 4 * GIB, 4 * GIB });

                (void)state;
                a_witnessed_dmabuf(&m, 100, 50, 2 * GIB, 1);
                if (blind)
                        silence(&m);
                attribute(&m);
                assert_holds(&m, 100, 1, 2 * GIB);
                assert_null(use_of(&m, 100, 0));
                end(&m);
        }
}

/* No room for it: it is in a figure, whatever the witness says of its GPU. */
static void a_dmabuf_is_not_counted_twice(void **state)
{
        struct machine m = machine(2, (uint64_t[]){ 4 * GIB, 1 * GIB });

        (void)state;
        a_witnessed_dmabuf(&m, 100, 50, 2 * GIB, 1);
        attribute(&m);
        assert_null(use_of(&m, 100, 0));
        assert_null(use_of(&m, 100, 1));
        end(&m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_idle_machine),
                cmocka_unit_test(a_plain_cuda_process),
                cmocka_unit_test(other_gpus_are_merely_open),
                cmocka_unit_test(only_the_visible_gpu_is_open),
                cmocka_unit_test(a_zombie_leader),
                cmocka_unit_test(a_dead_process_and_its_fork),
                cmocka_unit_test(a_dead_process_and_its_many_forks),
                cmocka_unit_test(forks_of_several_dead_go_to_their_own),
                cmocka_unit_test(kin_of_the_dead_comes_first),
                cmocka_unit_test(a_living_parents_worker_is_no_heir),
                cmocka_unit_test(one_heir_of_two_dead_has_both),
                cmocka_unit_test(who_is_listed_elsewhere_is_no_heir),
                cmocka_unit_test(with_a_list_unread_an_heir_needs_evidence),
                cmocka_unit_test(a_monitor_is_no_heir),
                cmocka_unit_test(an_ipc_importer_has_what_is_booked_to_it),
                cmocka_unit_test(a_dmabuf_of_a_dead_exporter),
                cmocka_unit_test(a_shared_dmabuf_is_accounted_once),
                cmocka_unit_test(a_dmabuf_that_fits_two_gpus_is_on_neither),
                cmocka_unit_test(a_dmabuf_of_a_living_exporter_is_in_its_figure),
                cmocka_unit_test(a_dmabuf_on_the_only_gpu_needs_no_figures),
                cmocka_unit_test(a_vmm_handle_of_a_dead_exporter),
                cmocka_unit_test(a_vmm_handle_with_two_gpus_in_question_is_on_neither),
                cmocka_unit_test(noise_needs_no_explanation),
                cmocka_unit_test(an_unlisted_user_explains_the_memory),
                cmocka_unit_test(a_few_descriptors_explain_it_when_nothing_better_does),
                cmocka_unit_test(who_is_listed_elsewhere_is_not_blamed),
                cmocka_unit_test(a_silent_driver_leaves_it_to_the_evidence),
                cmocka_unit_test(without_the_driver_and_better_evidence_whoever_may_counts),
                cmocka_unit_test(a_cut_list_and_the_evidence),
                cmocka_unit_test(a_refused_process_is_not_dead),
                cmocka_unit_test(one_with_an_unseen_queue_is_not_dead),
                cmocka_unit_test(who_was_not_looked_for_is_not_dead),
                cmocka_unit_test(a_listed_pid_without_a_device_is_not_believed),
                cmocka_unit_test(a_pid_listed_twice_is_one),
                cmocka_unit_test(instances_add_up),
                cmocka_unit_test(an_unknown_figure_is_never_summed),
                cmocka_unit_test(figures_beyond_the_gpu_are_unknown),
                cmocka_unit_test(more_accounted_than_used_leaves_nothing),
                cmocka_unit_test(mps_server_and_client),
                cmocka_unit_test(other_vendors_openers_hold),
                cmocka_unit_test(kfd_alone_among_several_gpus_is_a_device_use),
                cmocka_unit_test(a_vfio_group_is_held_by_its_opener),
                cmocka_unit_test(uses_are_in_the_order_of_the_gpus),
                cmocka_unit_test(where_both_agree_nothing_changes),
                cmocka_unit_test(without_the_library_the_witness_decides),
                cmocka_unit_test(a_blurred_witness_decides_nothing),
                cmocka_unit_test(another_process_of_that_pid),
                cmocka_unit_test(a_context_that_the_lists_do_not_have),
                cmocka_unit_test(a_listed_process_without_a_context),
                cmocka_unit_test(a_fork_shares_its_parents_space),
                cmocka_unit_test(the_witness_names_the_heir),
                cmocka_unit_test(unlisted_memory_is_the_contexts),
                cmocka_unit_test(handles_of_two_gpus),
                cmocka_unit_test(the_handle_of_a_living_exporter),
                cmocka_unit_test(dmabufs_of_two_gpus),
                cmocka_unit_test(a_dmabuf_is_not_counted_twice),
        };

        return cmocka_run_group_tests_name("attribute", tests, NULL, NULL);
}

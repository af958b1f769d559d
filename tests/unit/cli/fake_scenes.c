/* SPDX-License-Identifier: MIT */
#include "fake_scenes.h"

#include <string.h>
#include <sys/sysmacros.h>

#define GIB (1ULL << 30)
#define TENTH_GIB (GIB / 10)
#define HOURS 3600000ULL

static void add_gpus(gpufree_snapshot *s)
{
        static const char *const pci[FAKE_GPUS] = { "0000:18:00.0", "0000:3a:00.0", "0000:4c:00.0", "0000:5d:00.0",
                                                    "0000:9a:00.0", "0000:ba:00.0", "0000:ca:00.0", "0000:da:00.0" };
        static const char *const paths[FAKE_GPUS] = { "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3",
                                                      "/dev/nvidia4", "/dev/nvidia5", "/dev/nvidia6", "/dev/nvidia7" };

        for (int i = 0; i < FAKE_GPUS; i++) {
                s->gpus[i] = (struct gpufree_gpu){ .index = i,
                                                   .minor = i,
                                                   .uuid = "GPU-1a2b3c4d-0000-0000-0000-000000000000",
                                                   .pci = pci[i],
                                                   .name = "NVIDIA H200",
                                                   .vendor = GPUFREE_VENDOR_NVIDIA,
                                                   .total = 1398 * TENTH_GIB,
                                                   .reserved = 615ULL << 20 };
                s->devices[i] = (struct gpufree_device){ paths[i], "nvidia-gpu", makedev(195, (unsigned)i), i };
        }
        s->devices[8] = (struct gpufree_device){ "/dev/nvidiactl", "nvidia-ctl", makedev(195, 255), -1 };
        s->devices[9] = (struct gpufree_device){ "/dev/nvidia-uvm", "nvidia-uvm", makedev(235, 0), -1 };
        s->n_gpus = FAKE_GPUS;
        s->n_devices = 10;
}

static gpufree_holder *add_holder(gpufree_snapshot *s, pid_t pid, const char *comm, const char *cmdline, size_t length)
{
        gpufree_holder *h = &s->holders[s->n_holders++];

        *h = (gpufree_holder){ .pid = pid,
                               .ppid = 1,
                               .comm = comm,
                               .cmdline = cmdline,
                               .cmdline_length = length,
                               .user = "alice",
                               .uid = 1000,
                               .state = 'S',
                               .age_ms = 3 * HOURS + 40 * 60000,
                               .label = "session 3 (tmux)" };
        return h;
}

static void holds(gpufree_snapshot *s, gpufree_holder *h, int gpu, uint64_t memory)
{
        h->gpus[h->n_gpus++] = (struct fake_gpu_use){ gpu, memory, true };
        h->devices[h->n_devices++] = (struct fake_use){ gpu, GPUFREE_VIA_FD | GPUFREE_VIA_MAP, 20, GPUFREE_UNKNOWN };
        s->gpus[gpu].holders++;
        if (memory != GPUFREE_UNKNOWN)
                s->gpus[gpu].used += memory;
}

static void opens_all(gpufree_snapshot *s, gpufree_holder *h)
{
        h->open_only = true;
        for (int i = 0; i < FAKE_GPUS; i++) {
                h->gpus[h->n_gpus++] = (struct fake_gpu_use){ i, GPUFREE_UNKNOWN, false };
                h->devices[h->n_devices++] = (struct fake_use){ i, GPUFREE_VIA_FD, 4, GPUFREE_UNKNOWN };
                s->gpus[i].openers++;
        }
}

#define ARGV(text) text, sizeof(text)

static void add_bystander(gpufree_snapshot *s)
{
        gpufree_holder *h = add_holder(s, 512, "nvidia-persiste", ARGV("/usr/bin/nvidia-persistenced\0--verbose"));

        h->user = "nvpd";
        h->uid = 112;
        h->label = "nvidia-persistenced.service";
        h->protected_why = "keeps the driver loaded; jobs start slower without it";
        opens_all(s, h);
}

static void story(gpufree_snapshot *s)
{
        gpufree_holder *h;

        h = add_holder(s, 21316, "sglang::schedul", "", 0);
        h->user = "serve";
        h->label = "lxc:129 (ml)";
        h->age_ms = 8 * HOURS + 2 * 60000;
        h->state = 'Z';
        h->notes[0] = "zombie-leader";
        holds(s, h, 1, 743 * TENTH_GIB);
        h = add_holder(s, 524, "pt_data_worker",
                       ARGV("python\0train.py\0--epochs\0"
                            "90"));
        h->notes[0] = "inherited-from:511";
        holds(s, h, 2, 205 * TENTH_GIB);
        h = add_holder(s, 902, "nv-hostengine", ARGV("/usr/bin/nv-hostengine\0-n"));
        h->user = "root";
        h->uid = 0;
        h->label = "nvidia-dcgm.service";
        h->protected_why = "a system service";
        holds(s, h, 4, 2 * GIB);
        h = add_holder(s, 31001, "python3", ARGV("python3\0-m\0torch.distributed.run\0serve.py"));
        h->state = 'T';
        h->notes[0] = "stopped";
        h->notes[1] = "orphan";
        holds(s, h, 5, 100 * TENTH_GIB);
        holds(s, h, 6, 101 * TENTH_GIB);
        h = add_holder(s, 716, "rdma-relay", ARGV("rdma-relay"));
        h->devices[h->n_devices++] = (struct fake_use){ -1, GPUFREE_VIA_DMABUF, 1, 2 * GIB };
        add_bystander(s);
}

static void hostile(gpufree_snapshot *s)
{
        gpufree_holder *h;

        h = add_holder(s, 4194303, "ev\033[2Jil\n",
                       ARGV("\033]0;owned\007\0\xff\xfe\0\xe2\x80\xaegpj.exe\0"
                            "e\xcc\x81t\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"));
        h->label = "docker:a\tb\r\x1b[31m";
        holds(s, h, 0, 512ULL << 20);
        h = add_holder(s, 77, "long",
                       ARGV("/very/long/path/to/a/program/that/never/ends/and/goes/on --and "
                            "--on --with=arguments,many,of,them,all,without,a,single,blank,in,between"));
        h->user = "a-user-with-a-long-name";
        h->label = "kubernetes:team-inference-production/llama-70b-worker-0 (container server)";
        holds(s, h, 0, 74 * GIB);
}

gpufree_snapshot *fake_scene(const char *name)
{
        gpufree_snapshot *s = calloc(1, sizeof(*s));

        if (!s)
                abort();
        s->refs = 1;
        if (strcmp(name, "none") == 0)
                return s;
        add_gpus(s);
        if (strcmp(name, "story") == 0) {
                story(s);
        } else if (strcmp(name, "hostile") == 0) {
                hostile(s);
        } else if (strcmp(name, "free") == 0) {
                add_bystander(s);
        } else if (strcmp(name, "incomplete") == 0) {
                s->gaps[0] = "3 processes of other users could not be looked at: run as root to see them.";
                s->unreadable = 3;
        } else if (strcmp(name, "residue") == 0) {
                s->gpus[3].used = 2 * GIB;
        } else if (strcmp(name, "protected") == 0) {
                story(s);
                s->holders[0] = s->holders[2];
                s->n_holders = 1;
        } else if (strcmp(name, "unknown") == 0) {
                for (int i = 0; i < FAKE_GPUS; i++)
                        s->gpus[i].total = s->gpus[i].used = s->gpus[i].reserved = GPUFREE_UNKNOWN;
                holds(s, add_holder(s, 99, "python", NULL, 0), 0, GPUFREE_UNKNOWN);
                s->gpus[0].used = GPUFREE_UNKNOWN;
                s->driver_error = "NVML: Driver/library version mismatch: the driver was updated; reboot or reload it.";
        } else if (strcmp(name, "error") == 0) {
                story(s);
                s->gpus[0].error = "GPU is lost; reboot the system to recover this GPU.";
        } else {
                free(s);
                return NULL;
        }
        return s;
}

gpufree_snapshot *gpufree_snapshot_ref(gpufree_snapshot *snapshot)
{
        snapshot->refs++;
        return snapshot;
}

gpufree_snapshot *gpufree_snapshot_unref(gpufree_snapshot *snapshot)
{
        if (snapshot && --snapshot->refs == 0)
                free(snapshot);
        return NULL;
}

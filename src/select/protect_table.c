/* SPDX-License-Identifier: MIT */
#include "select/protect_table.h"

#include "base/cleanup.h"

#define PERSISTENCE "persistence daemon; jobs start slower without it"
#define FABRIC "fabric manager; NVLink jobs fail without it"
#define IMEX "NVIDIA IMEX; jobs across NVLink nodes fail without it"
#define DCGM "DCGM host engine; GPU health checks stop without it"
#define EXPORTER "DCGM exporter; GPU metrics stop without it"
#define VGPU "vGPU manager; virtual machines lose their GPU without it"
/* Control and server have the same comm, so that they have the same reason. */
#define MPS "Multi-Process Service; its clients on the GPU fail without it"
#define POWER "NVIDIA power daemon; dynamic boost stops without it"
#define KUBELET "kubelet; the node drops out of its cluster without it"
#define CONTAINERD "container runtime; containers are unmanaged without it"
#define DOCKER "Docker daemon; containers are unmanaged without it"
#define SLURM "Slurm node daemon; the node drops out of its cluster without it"
#define DISPLAY "display server; the desktop session ends with it"
#define COMPOSITOR "desktop compositor; the desktop session ends with it"
#define DISPLAY_MANAGER "display manager; graphical sessions end with it"
#define LOGIND "login manager; sessions lose their devices without it"
#define SOUND "media server of a desktop; sound and video stop without it"
#define MONITOR "monitor; it only looks and holds no GPU memory"

const struct gf_protected_program gf_protected_programs[] = {
        { .name = "nvidia-persistenced", .why = PERSISTENCE },
        { .name = "nv-fabricmanager", .why = FABRIC },
        { .name = "nvlsm", .why = "NVLink subnet manager; NVLink jobs fail without it" },
        { .name = "nv-hostengine", .why = DCGM },
        { .name = "dcgm-exporter", .why = EXPORTER },
        { .name = "nvidia-imex", .why = IMEX },
        { .name = "nvidia-vgpu-mgr", .why = VGPU },
        { .name = "nvidia-vgpud", .why = VGPU },
        { .name = "nvidia-powerd", .why = POWER },
        { .name = "nvidia-cuda-mps-control", .why = MPS },
        { .name = "nvidia-cuda-mps-server", .why = MPS },
        { .name = "kubelet", .why = KUBELET },
        { .name = "nvidia-device-plugin", .why = "Kubernetes device plugin; pods get no GPU without it" },
        { .name = "gpu-feature-discovery", .why = "GPU feature discovery; node labels go stale without it" },
        { .name = "nvidia-mig-manager", .why = "MIG manager; MIG changes stop half-way without it" },
        { .name = "containerd", .why = CONTAINERD },
        { .name = "dockerd", .why = DOCKER },
        { .name = "slurmd", .why = SLURM },
        { .name = "slurmstepd", .why = "Slurm step manager; its job is lost without it" },
        { .name = "Xorg", .why = DISPLAY },
        { .name = "X", .why = DISPLAY },
        { .name = "Xwayland", .why = DISPLAY },
        { .name = "gnome-shell", .why = COMPOSITOR },
        { .name = "kwin_wayland", .why = COMPOSITOR },
        { .name = "kwin_x11", .why = COMPOSITOR },
        { .name = "sway", .why = COMPOSITOR },
        { .name = "weston", .why = COMPOSITOR },
        { .name = "plasmashell", .why = "desktop shell; panels and windows' controls go with it" },
        { .name = "sddm", .why = DISPLAY_MANAGER },
        { .name = "gdm3", .why = DISPLAY_MANAGER },
        { .name = "gdm", .why = DISPLAY_MANAGER },
        { .name = "lightdm", .why = DISPLAY_MANAGER },
        { .name = "systemd", .why = "service manager; everything it started ends with it" },
        { .name = "systemd-logind", .why = LOGIND },
        { .name = "pipewire", .why = SOUND },
        { .name = "wireplumber", .why = SOUND },
        { .name = "qemu-system-", .why = "virtual machine; its guest loses power when it ends", .prefix = true },
        { .name = "sshd", .why = "SSH server; a login ends with it" },
        { .name = "sshd-session", .why = "SSH server; a login ends with it" },
        { .name = "nvidia-smi", .why = MONITOR, .only_while_open = true },
        { .name = "nvtop", .why = MONITOR, .only_while_open = true },
        { .name = "nvitop", .why = MONITOR, .only_while_open = true },
        { .name = "gpustat", .why = MONITOR, .only_while_open = true },
        { .name = "btop", .why = MONITOR, .only_while_open = true },
        { .name = "rocm-smi", .why = MONITOR, .only_while_open = true },
        { .name = "amd-smi", .why = MONITOR, .only_while_open = true },
        { .name = "radeontop", .why = MONITOR, .only_while_open = true },
        { .name = "intel_gpu_top", .why = MONITOR, .only_while_open = true },
};
const size_t gf_n_protected_programs = ELEMENTSOF(gf_protected_programs);

const struct gf_protected_unit gf_protected_units[] = {
        { "nvidia-persistenced.service", PERSISTENCE },
        { "nvidia-fabricmanager.service", FABRIC },
        { "nvidia-imex.service", IMEX },
        { "nvidia-dcgm.service", DCGM },
        { "dcgm.service", DCGM },
        { "dcgm-exporter.service", EXPORTER },
        { "nvidia-vgpu-mgr.service", VGPU },
        { "nvidia-vgpud.service", VGPU },
        { "nvidia-powerd.service", POWER },
        { "kubelet.service", KUBELET },
        { "k3s.service", KUBELET },
        { "containerd.service", CONTAINERD },
        { "crio.service", CONTAINERD },
        { "docker.service", DOCKER },
        { "slurmd.service", SLURM },
        { "display-manager.service", DISPLAY_MANAGER },
        { "gdm.service", DISPLAY_MANAGER },
        { "gdm3.service", DISPLAY_MANAGER },
        { "sddm.service", DISPLAY_MANAGER },
        { "lightdm.service", DISPLAY_MANAGER },
        { "systemd-logind.service", LOGIND },
};
const size_t gf_n_protected_units = ELEMENTSOF(gf_protected_units);

/* SPDX-License-Identifier: MIT */
#include "gpu/classes.h"

#include <limits.h>
#include <string.h>

#include "base/num.h"
#include "base/str.h"
#include "gpu/inventory.h"

#define N GPUFREE_VENDOR_NVIDIA
/* clang-format off */
static const struct gf_class_row rows[] = {
        /* class                  name                 dir             prefix              rest            vendor                     GPU            driver */
        { GF_CLASS_NVIDIA_GPU,       "nvidia-gpu",       "",             "nvidia",           GF_NAME_NUMBER, N,                         GF_GPU_MINOR,  "nvidia" },
        { GF_CLASS_NVIDIA_CTL,       "nvidia-ctl",       "",             "nvidiactl",        GF_NAME_EXACT,  N,                         GF_GPU_NONE,   "nvidia" },
        { GF_CLASS_NVIDIA_UVM,       "nvidia-uvm",       "",             "nvidia-uvm",       GF_NAME_EXACT,  N,                         GF_GPU_NONE,   "nvidia-uvm" },
        { GF_CLASS_NVIDIA_UVM_TOOLS, "nvidia-uvm-tools", "",             "nvidia-uvm-tools", GF_NAME_EXACT,  N,                         GF_GPU_NONE,   "nvidia-uvm" },
        { GF_CLASS_NVIDIA_MODESET,   "nvidia-modeset",   "",             "nvidia-modeset",   GF_NAME_EXACT,  N,                         GF_GPU_NONE,   "nvidia" },
        { GF_CLASS_NVIDIA_CAP,       "nvidia-cap",       "nvidia-caps",  "nvidia-cap",       GF_NAME_NUMBER, N,                         GF_GPU_NONE,   "nvidia-caps" },
        { GF_CLASS_NVIDIA_NVSWITCH,  "nvidia-nvswitch",  "",             "nvidia-nvswitch",  GF_NAME_ANY,    N,                         GF_GPU_NONE,   "nvidia-nvswitch" },
        { GF_CLASS_DRM_CARD,         "drm-card",         "dri",          "card",             GF_NAME_NUMBER, GPUFREE_VENDOR_NONE,       GF_GPU_SYSFS,  "drm" },
        { GF_CLASS_DRM_RENDER,       "drm-render",       "dri",          "renderD",          GF_NAME_NUMBER, GPUFREE_VENDOR_NONE,       GF_GPU_SYSFS,  "drm" },
        { GF_CLASS_KFD,              "kfd",              "",             "kfd",              GF_NAME_EXACT,  GPUFREE_VENDOR_AMD,        GF_GPU_NONE,   "kfd" },
        { GF_CLASS_ACCEL,            "accel",            "accel",        "accel",            GF_NAME_NUMBER, GPUFREE_VENDOR_NONE,       GF_GPU_MINOR,  "accel" },
        { GF_CLASS_VFIO_GROUP,       "vfio-group",       "vfio",         "",                 GF_NAME_NUMBER, GPUFREE_VENDOR_NONE,       GF_GPU_SYSFS,  "vfio" },
        { GF_CLASS_VFIO_CDEV,        "vfio-cdev",        "vfio/devices", "vfio",             GF_NAME_NUMBER, GPUFREE_VENDOR_NONE,       GF_GPU_SYSFS,  "vfio" },
        { GF_CLASS_NEURON,           "neuron",           "",             "neuron",           GF_NAME_NUMBER, GPUFREE_VENDOR_AWS,        GF_GPU_MINOR,  "neuron" },
        { GF_CLASS_ASCEND,           "ascend",           "",             "davinci",          GF_NAME_NUMBER, GPUFREE_VENDOR_HUAWEI,     GF_GPU_MINOR,  NULL },
        { GF_CLASS_ASCEND,           "ascend",           "",             "davinci_manager",  GF_NAME_EXACT,  GPUFREE_VENDOR_HUAWEI,     GF_GPU_NONE,   NULL },
        { GF_CLASS_ASCEND,           "ascend",           "",             "devmm_svm",        GF_NAME_EXACT,  GPUFREE_VENDOR_HUAWEI,     GF_GPU_NONE,   NULL },
        { GF_CLASS_ASCEND,           "ascend",           "",             "hisi_hdc",         GF_NAME_EXACT,  GPUFREE_VENDOR_HUAWEI,     GF_GPU_NONE,   NULL },
        { GF_CLASS_JETSON,           "jetson",           "",             "nvhost-",          GF_NAME_ANY,    N,                         GF_GPU_SINGLE, NULL },
        { GF_CLASS_JETSON,           "jetson",           "",             "nvmap",            GF_NAME_EXACT,  N,                         GF_GPU_SINGLE, NULL },
        { GF_CLASS_WSL,              "wsl",              "",             "dxg",              GF_NAME_EXACT,  GPUFREE_VENDOR_MICROSOFT,  GF_GPU_SINGLE, NULL },
};

static const struct gf_driver_row drivers[] = {
        { "nvidia",         N,                       true },
        { "nouveau",        N,                       true },
        { "nova",           N,                       true },
        { "tegra-drm",      N,                       true },
        { "amdgpu",         GPUFREE_VENDOR_AMD,      true },
        { "radeon",         GPUFREE_VENDOR_AMD,      true },
        { "amdxdna",        GPUFREE_VENDOR_AMD,      true },
        { "i915",           GPUFREE_VENDOR_INTEL,    true },
        { "xe",             GPUFREE_VENDOR_INTEL,    true },
        { "intel_vpu",      GPUFREE_VENDOR_INTEL,    true },
        { "habanalabs",     GPUFREE_VENDOR_HABANA,   true },
        { "gasket",         GPUFREE_VENDOR_GOOGLE,   true },
        { "apex",           GPUFREE_VENDOR_GOOGLE,   true },
        { "qaic",           GPUFREE_VENDOR_OTHER,    true },
        /* A management controller's, a hypervisor's or a firmware's picture: nothing to free. */
        { "ast",            GPUFREE_VENDOR_NONE,     false },
        { "bochs",          GPUFREE_VENDOR_NONE,     false },
        { "bochs-drm",      GPUFREE_VENDOR_NONE,     false },
        { "cirrus",         GPUFREE_VENDOR_NONE,     false },
        { "cirrus-qemu",    GPUFREE_VENDOR_NONE,     false },
        { "efi-framebuffer", GPUFREE_VENDOR_NONE,    false },
        { "efidrm",         GPUFREE_VENDOR_NONE,     false },
        { "evdi",           GPUFREE_VENDOR_NONE,     false },
        { "gud",            GPUFREE_VENDOR_NONE,     false },
        { "hibmc-drm",      GPUFREE_VENDOR_NONE,     false },
        { "hyperv_drm",     GPUFREE_VENDOR_NONE,     false },
        { "mgag200",        GPUFREE_VENDOR_NONE,     false },
        { "ofdrm",          GPUFREE_VENDOR_NONE,     false },
        { "qxl",            GPUFREE_VENDOR_NONE,     false },
        { "simple-framebuffer", GPUFREE_VENDOR_NONE, false },
        { "simpledrm",      GPUFREE_VENDOR_NONE,     false },
        { "udl",            GPUFREE_VENDOR_NONE,     false },
        { "vboxvideo",      GPUFREE_VENDOR_NONE,     false },
        { "vesa-framebuffer", GPUFREE_VENDOR_NONE,   false },
        { "vesadrm",        GPUFREE_VENDOR_NONE,     false },
        { "vgem",           GPUFREE_VENDOR_NONE,     false },
        { "virtio-pci",     GPUFREE_VENDOR_NONE,     false },
        { "virtio_gpu",     GPUFREE_VENDOR_NONE,     false },
        { "virtio-mmio",    GPUFREE_VENDOR_NONE,     false },
        { "vkms",           GPUFREE_VENDOR_NONE,     false },
        { "vmwgfx",         GPUFREE_VENDOR_NONE,     false },
        { "xengfx",         GPUFREE_VENDOR_NONE,     false },
        { "faux_driver",    GPUFREE_VENDOR_NONE,     false },
};
/* clang-format on */
#undef N

const struct gf_class_row *gf_class_rows(size_t *ret_n)
{
        *ret_n = ELEMENTSOF(rows);
        return rows;
}

const struct gf_class_row *gf_class_match(const char *dir, const char *name, int *ret_number)
{
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                const char *rest;
                uint32_t number;

                if (!gf_streq(rows[i].dir, dir) || !gf_startswith(name, rows[i].prefix))
                        continue;
                rest = name + strlen(rows[i].prefix);
                if (rows[i].rest == GF_NAME_EXACT && *rest)
                        continue;
                if (rows[i].rest == GF_NAME_NUMBER && (gf_parse_u32(rest, &number) < 0 || number >= 1u << 20))
                        continue;
                *ret_number = rows[i].rest == GF_NAME_NUMBER ? (int)number : -1;
                return &rows[i];
        }
        return NULL;
}

const char *gf_class_name(enum gf_class cls)
{
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (rows[i].cls == cls)
                        return rows[i].name;
        return "other";
}

const struct gf_driver_row *gf_driver_match(const char *driver)
{
        for (size_t i = 0; i < ELEMENTSOF(drivers); i++)
                if (gf_streq(drivers[i].driver, driver))
                        return &drivers[i];
        return NULL;
}

enum gpufree_vendor gf_pci_vendor(uint32_t vendor)
{
        switch (vendor) {
        case 0x10de:
                return GPUFREE_VENDOR_NVIDIA;
        case 0x1002:
        case 0x1022:
                return GPUFREE_VENDOR_AMD;
        case 0x8086:
                return GPUFREE_VENDOR_INTEL;
        case 0x1da3:
                return GPUFREE_VENDOR_HABANA;
        case 0x1ae0:
                return GPUFREE_VENDOR_GOOGLE;
        case 0x1d0f:
                return GPUFREE_VENDOR_AWS;
        case 0x19e5:
                return GPUFREE_VENDOR_HUAWEI;
        case 0x1414:
                return GPUFREE_VENDOR_MICROSOFT;
        default:
                return GPUFREE_VENDOR_OTHER;
        }
}

bool gf_pci_class_is_gpu(uint32_t pci_class)
{
        return pci_class >> 16 == 0x03 || pci_class >> 16 == 0x12;
}

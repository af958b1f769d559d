/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/str.h"
#include "gpu/classes.h"
#include "gpu/inventory.h"

static void nodes_have_their_class(void **state)
{
        static const struct {
                const char *dir, *name;
                enum gf_class cls;
                int number;
                const char *text;
        } cases[] = {
                { "", "nvidia0", GF_CLASS_NVIDIA_GPU, 0, "nvidia-gpu" },
                { "", "nvidia15", GF_CLASS_NVIDIA_GPU, 15, "nvidia-gpu" },
                { "", "nvidiactl", GF_CLASS_NVIDIA_CTL, -1, "nvidia-ctl" },
                { "", "nvidia-uvm", GF_CLASS_NVIDIA_UVM, -1, "nvidia-uvm" },
                { "", "nvidia-uvm-tools", GF_CLASS_NVIDIA_UVM_TOOLS, -1, "nvidia-uvm-tools" },
                { "", "nvidia-modeset", GF_CLASS_NVIDIA_MODESET, -1, "nvidia-modeset" },
                { "nvidia-caps", "nvidia-cap21", GF_CLASS_NVIDIA_CAP, 21, "nvidia-cap" },
                { "", "nvidia-nvswitch3", GF_CLASS_NVIDIA_NVSWITCH, -1, "nvidia-nvswitch" },
                { "", "nvidia-nvswitchctl", GF_CLASS_NVIDIA_NVSWITCH, -1, "nvidia-nvswitch" },
                { "dri", "card0", GF_CLASS_DRM_CARD, 0, "drm-card" },
                { "dri", "renderD128", GF_CLASS_DRM_RENDER, 128, "drm-render" },
                { "", "kfd", GF_CLASS_KFD, -1, "kfd" },
                { "accel", "accel7", GF_CLASS_ACCEL, 7, "accel" },
                { "vfio", "12", GF_CLASS_VFIO_GROUP, 12, "vfio-group" },
                { "vfio/devices", "vfio0", GF_CLASS_VFIO_CDEV, 0, "vfio-cdev" },
                { "", "neuron4", GF_CLASS_NEURON, 4, "neuron" },
                { "", "davinci6", GF_CLASS_ASCEND, 6, "ascend" },
                { "", "davinci_manager", GF_CLASS_ASCEND, -1, "ascend" },
                { "", "devmm_svm", GF_CLASS_ASCEND, -1, "ascend" },
                { "", "hisi_hdc", GF_CLASS_ASCEND, -1, "ascend" },
                { "", "nvhost-gpu", GF_CLASS_JETSON, -1, "jetson" },
                { "", "nvmap", GF_CLASS_JETSON, -1, "jetson" },
                { "", "dxg", GF_CLASS_WSL, -1, "wsl" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                int number = -2;
                const struct gf_class_row *row = gf_class_match(cases[i].dir, cases[i].name, &number);

                assert_non_null(row);
                assert_int_equal(row->cls, cases[i].cls);
                assert_int_equal(number, cases[i].number);
                assert_string_equal(gf_class_name(row->cls), cases[i].text);
        }
        assert_string_equal(gf_class_name(GF_CLASS_OTHER), "other");
}

static void other_names_have_none(void **state)
{
        static const char *const cases[][2] = {
                { "", "null" },       { "", "nvidia" },     { "", "nvidia0x" },
                { "", "nvidia-fs0" }, { "", "nvidia-1" },   { "", "nvidia99999999999999999999" },
                { "vfio", "vfio" },   { "dri", "by-path" }, { "", "card0" },
                { "", "kfd0" },       { "accel", "accel" }, { "", "neuron" },
                { "", "davinci" },    { "", "" },           { "nvidia-caps", "nvidia0" },
        };
        int number;

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_null(gf_class_match(cases[i][0], cases[i][1], &number));
}

static void virtual_displays_are_no_gpus(void **state)
{
        static const char *const virtual_ones[] = { "bochs-drm", "virtio_gpu", "virtio-pci", "ast",  "mgag200",
                                                    "vmwgfx",    "simpledrm",  "vgem",       "vkms", "cirrus",
                                                    "qxl",       "hyperv_drm", "vboxvideo",  "udl" };
        static const char *const real_ones[] = { "nvidia", "nouveau", "amdgpu", "i915", "xe", "habanalabs" };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(virtual_ones); i++) {
                assert_non_null(gf_driver_match(virtual_ones[i]));
                assert_false(gf_driver_match(virtual_ones[i])->gpu);
        }
        for (size_t i = 0; i < ELEMENTSOF(real_ones); i++) {
                assert_non_null(gf_driver_match(real_ones[i]));
                assert_true(gf_driver_match(real_ones[i])->gpu);
        }
        assert_null(gf_driver_match("vfio-pci"));
        assert_null(gf_driver_match(""));
}

static void pci_classes(void **state)
{
        (void)state;
        assert_true(gf_pci_class_is_gpu(0x030000));
        assert_true(gf_pci_class_is_gpu(0x030200));
        assert_true(gf_pci_class_is_gpu(0x120000));
        assert_false(gf_pci_class_is_gpu(0x040300)); /* its audio function */
        assert_false(gf_pci_class_is_gpu(0x020000));
        assert_false(gf_pci_class_is_gpu(0));
        assert_int_equal(gf_pci_vendor(0x10de), GPUFREE_VENDOR_NVIDIA);
        assert_int_equal(gf_pci_vendor(0x1234), GPUFREE_VENDOR_OTHER);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nodes_have_their_class),
                cmocka_unit_test(other_names_have_none),
                cmocka_unit_test(virtual_displays_are_no_gpus),
                cmocka_unit_test(pci_classes),
        };

        return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}

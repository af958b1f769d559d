/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "parse/nvidia.h"

static void a_whole_information_file(void **state)
{
        static const char text[] = "Model: \t\t NVIDIA H200\n"
                                   "IRQ:   \t\t 318\n"
                                   "GPU UUID: \t GPU-1c5a1a24-7c9b-3c3e-8a3a-0123456789ab\n"
                                   "Video BIOS: \t 96.00.bc.00.01\n"
                                   "Bus Type: \t PCIe\n"
                                   "DMA Size: \t 52 bits\n"
                                   "DMA Mask: \t 0xfffffffffffff\n"
                                   "Bus Location: \t 0000:3a:00.0\n"
                                   "Device Minor: \t 1\n"
                                   "GPU Firmware: \t 580.159.04\n"
                                   "GPU Excluded:\t No\n";
        struct gf_nvidia_information info;

        (void)state;
        assert_int_equal(gf_parse_nvidia_information(text, &info), 0);
        assert_string_equal(info.model, "NVIDIA H200");
        assert_string_equal(info.uuid, "GPU-1c5a1a24-7c9b-3c3e-8a3a-0123456789ab");
        assert_string_equal(info.pci, "0000:3a:00.0");
        assert_int_equal(info.minor, 1);
        assert_false(info.excluded);
}

static void odd_information_files(void **state)
{
        struct gf_nvidia_information info = { .minor = 77 };

        (void)state;
        /* Before the GPU was first used the driver does not know its UUID. */
        assert_int_equal(gf_parse_nvidia_information("GPU UUID: \t GPU-????????"
                                                     "-????"
                                                     "-????"
                                                     "-????"
                                                     "-????????????\n"
                                                     "Device Minor: \t 0",
                                                     &info),
                         0);
        assert_string_equal(info.uuid, "");
        assert_string_equal(info.pci, "");
        assert_int_equal(info.minor, 0);
        assert_int_equal(gf_parse_nvidia_information("Bus Location: 0000:18:00.0\r\nGPU Excluded: Yes\r\n", &info), 0);
        assert_int_equal(info.minor, -1);
        assert_true(info.excluded);
        info.minor = 77;
        assert_int_equal(gf_parse_nvidia_information("", &info), -EINVAL);
        assert_int_equal(gf_parse_nvidia_information("Model: x\nDevice Minor: -1\n", &info), -EINVAL);
        assert_int_equal(gf_parse_nvidia_information("Device Minor: 99999999999999999999\n", &info), -EINVAL);
        assert_int_equal(gf_parse_nvidia_information("Device Minor\n:::\n\n\n:", &info), -EINVAL);
        assert_int_equal(info.minor, 77); /* untouched on failure */
}

static void a_value_too_long_is_none(void **state)
{
        struct gf_nvidia_information info;
        char text[512];

        (void)state;
        snprintf(text, sizeof(text), "Model: %0200d\nDevice Minor: 3\n", 0);
        assert_int_equal(gf_parse_nvidia_information(text, &info), 0);
        assert_string_equal(info.model, "");
        assert_int_equal(info.minor, 3);
}

static void pci_addresses_are_folded(void **state)
{
        static const char *const good[][2] = {
                { "00000000:3A:00.0", "0000:3a:00.0" },
                { "0000:18:00.0", "0000:18:00.0" },
                { "0:1:2.3", "0000:01:02.3" },
                { "00010000:0B:1F.7", "10000:0b:1f.7" },
        };
        static const char *const bad[] = { "",
                                           "0000:18:00",
                                           "18:00.0",
                                           "0000:18:00.0 ",
                                           "0000:18:20.0",
                                           "0000:18:00.8",
                                           "0000:188:00.0",
                                           "000000000:18:00.0",
                                           " 0000:18:00.0",
                                           "0000-18-00.0",
                                           "0000:18:00.00",
                                           "x000:18:00.0" };
        char pci[32] = "untouched";

        (void)state;
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                assert_int_equal(gf_parse_pci(good[i][0], pci, sizeof(pci)), 0);
                assert_string_equal(pci, good[i][1]);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(gf_parse_pci(bad[i], pci, sizeof(pci)), -EINVAL);
        assert_int_equal(gf_parse_pci("0000:18:00.0", pci, 8), -EINVAL);
}

static void majors_of_character_devices(void **state)
{
        static const char text[] = "Character devices:\n"
                                   "  1 mem\n"
                                   "195 nvidia\n"
                                   "195 nvidia-modeset\n"
                                   "195 nvidiactl\n"
                                   "226 drm\n"
                                   "511 nvidia-uvm\n"
                                   "rubbish\n"
                                   "12\n"
                                   "-3 minus\n"
                                   "99999999999 big\n"
                                   "\n"
                                   "Block devices:\n"
                                   "  7 loop\n"
                                   "195 nvidia-block\n";
        struct gf_majors majors = { 0 };

        (void)state;
        assert_int_equal(gf_parse_char_majors(text, &majors), 0);
        assert_true(majors.known);
        assert_int_equal(majors.list.n, 6);
        assert_int_equal(gf_majors_of(&majors, "nvidia"), 195);
        assert_int_equal(gf_majors_of(&majors, "nvidia-uvm"), 511);
        assert_int_equal(gf_majors_of(&majors, "loop"), -1);
        assert_string_equal(gf_majors_find(&majors, 195, "nvidia-m")->name, "nvidia-modeset");
        assert_null(gf_majors_find(&majors, 226, "nvidia"));
        assert_null(gf_majors_find(&majors, 7, ""));
        gf_majors_done(&majors);
        assert_false(majors.known);
        assert_int_equal(gf_parse_char_majors("", &majors), 0);
        assert_int_equal(majors.list.n, 0);
        gf_majors_done(&majors);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_whole_information_file),    cmocka_unit_test(odd_information_files),
                cmocka_unit_test(a_value_too_long_is_none),    cmocka_unit_test(pci_addresses_are_folded),
                cmocka_unit_test(majors_of_character_devices),
        };

        return cmocka_run_group_tests_name("parse-nvidia", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "gpu/nvml_words.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "gpu/nvml_abi.h"

struct words {
        uint32_t code;
        const char *name; /* as NVML writes it behind NVML_ERROR_; NULL: none of NVML's */
        const char *text; /* what is, and what to do next */
};

static const struct words table[] = {
        { NVML_NOT_SUPPORTED, "NOT_SUPPORTED",
          "the driver does not offer this here; its holders are found by their open devices all the same" },
        { NVML_NO_PERMISSION, "NO_PERMISSION",
          "the driver refuses this user; run as root, or let the container or cgroup use the device" },
        { NVML_NOT_FOUND, "NOT_FOUND", "the driver does not know it any more; look again" },
        { NVML_INSUFFICIENT_SIZE, "INSUFFICIENT_SIZE",
          "the list grew faster than it could be read; look again when fewer processes start" },
        { NVML_DRIVER_NOT_LOADED, "DRIVER_NOT_LOADED",
          "the NVIDIA kernel driver is not loaded; load it with modprobe nvidia, and look at dmesg if it refuses" },
        { NVML_TIMEOUT, "TIMEOUT",
          "the driver gave up waiting for the GPU; look for Xid messages with dmesg, then reset the GPU or reboot" },
        { NVML_LIBRARY_NOT_FOUND, "LIBRARY_NOT_FOUND",
          "a library that libnvidia-ml.so.1 needs is missing; install the driver's user-space package again" },
        { NVML_FUNCTION_NOT_FOUND, "FUNCTION_NOT_FOUND",
          "libnvidia-ml.so.1 lacks a function that gpufree needs; install the one of the loaded driver's version" },
        { NVML_GPU_IS_LOST, "GPU_IS_LOST",
          "the GPU has fallen off the bus; look for Xid 79 with dmesg, then reboot (a reset seldom helps)" },
        { NVML_RESET_REQUIRED, "RESET_REQUIRED",
          "the GPU must be reset before it can be used; end its holders, then nvidia-smi --gpu-reset" },
        { NVML_OPERATING_SYSTEM, "OPERATING_SYSTEM",
          "a cgroup or container keeps /dev/nvidiactl from this process; allow the device, or run outside of it" },
        { NVML_LIB_RM_VERSION_MISMATCH, "LIB_RM_VERSION_MISMATCH",
          "Driver/library version mismatch: the driver was updated and the old module is still loaded; reload it "
          "(gpufree check --for unload says what is in the way) or reboot" },
        { NVML_ARGUMENT_VERSION_MISMATCH, "ARGUMENT_VERSION_MISMATCH",
          "the driver knows another version of this structure; update the driver or gpufree" },
        { NVML_GPU_NOT_FOUND, "GPU_NOT_FOUND",
          "the driver finds no GPU; look at lspci and dmesg whether it is there and was initialised" },
        { NVML_UNKNOWN, "UNKNOWN", "the driver gives no reason; look for NVRM and Xid messages with dmesg" },
        { GF_CODE_NO_LIBRARY, NULL,
          "libnvidia-ml.so.1 is not installed: holders are found by their open devices, memory figures are unknown" },
        { GF_CODE_BAD_LIBRARY, NULL,
          "libnvidia-ml.so.1 cannot be loaded; install the driver's user-space package for this machine again" },
        { GF_CODE_ODD_LIST, NULL,
          "the driver's process list has a layout that gpufree does not know; holders are found by their open "
          "devices" },
        { GF_CODE_CUT_LIST, NULL,
          "the driver lists 950 processes at most, and that many are listed; the others are found by their open "
          "devices" },
};

static const char *const calls[] = {
        [GF_CALL_LOAD] = "loading NVML",
        [GF_CALL_INIT] = "initialising NVML",
        [GF_CALL_COUNT] = "counting the GPUs",
        [GF_CALL_HANDLE] = "opening the GPU",
        [GF_CALL_MEMORY] = "reading its memory",
        [GF_CALL_LISTS] = "reading its process lists",
        [GF_CALL_SAMPLES] = "reading its utilisation",
};

void gf_nvml_sentence(uint32_t call, uint32_t code, int gpu, const char *detail, char *buf, size_t size)
{
        const char *what = call < ELEMENTSOF(calls) ? calls[call] : "asking NVML";
        const struct words *words = NULL;
        char where[32] = "";

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (table[i].code == code)
                        words = &table[i];
        if (gpu >= 0)
                snprintf(where, sizeof(where), "GPU %d: ", gpu);
        if (!words)
                snprintf(buf, size, "%s%s: NVML's error %u; look for NVRM and Xid messages with dmesg", where, what,
                         (unsigned)code);
        else if (words->name)
                snprintf(buf, size, "%s%s: %s (%s)", where, what, words->text, words->name);
        else if (detail && detail[0])
                snprintf(buf, size, "%s%s (%s)", where, words->text, detail);
        else
                snprintf(buf, size, "%s%s", where, words->text);
}

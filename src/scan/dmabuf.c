/* SPDX-License-Identifier: MIT */
#include "scan/dmabuf.h"

#include "base/str.h"

bool gf_dmabuf_is_gpu(const char *exporter)
{
        static const char *const others[] = {
                "udmabuf", "system", "system_heap",   "system-uncached", "cma_heap", "reserved", "linux,cma",
                "ion",     "gntdev", "gntdev_dmabuf", "fastrpc",         "vgem",     "kvmfr",    "dmabuf_sysfs",
        };

        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (gf_streq(exporter, others[i]))
                        return false;
        return !gf_startswith(exporter, "videobuf2") && !gf_startswith(exporter, "vb2");
}

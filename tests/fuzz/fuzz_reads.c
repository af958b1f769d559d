/* SPDX-License-Identifier: MIT */
/* What is read besides /proc: the configuration file, records of the kernel log, a readiness URL. */
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "explain/xid.h"
#include "gpufree.h"
#include "guard/http.h"

static void try_config(const uint8_t *data, size_t size)
{
        gpufree *context = NULL;
        char path[64];
        int fd = memfd_create("gpufree.conf", MFD_CLOEXEC), r;

        if (fd < 0 || gpufree_new(&context) < 0)
                abort();
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (write(fd, data, size) != (ssize_t)size)
                abort();
        r = gpufree_load_config(context, path);
        /* A file that is refused says where and why, in one line. */
        if (r < 0 && (!gpufree_error(context)[0] || strchr(gpufree_error(context), '\n')))
                abort();
        gpufree_unref(context);
        (void)close(fd);
}

static void try_record(const char *text, size_t size)
{
        struct gf_xid xid = { 0 };

        if (gf_xid_parse(text, size, &xid) != 1)
                return;
        if (!memchr(xid.pci, '\0', sizeof(xid.pci)) || !xid.line || xid.pid < 0)
                abort();
        (void)gf_xid_is_of(&xid, "0000:18:00.0");
        (void)gf_xid_meaning(xid.number);
        free(xid.line);
}

static void try_url(const char *text)
{
        char *host = NULL, *port = NULL, *path = NULL;

        if (gf_http_split(text, &host, &port, &path) == 0 && (!host[0] || !port[0] || path[0] != '/'))
                abort();
        free(host);
        free(port);
        free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1);

        if (!text)
                return 0;
        memcpy(text, data, size);
        text[size] = '\0';
        try_record((const char *)data, size);
        try_url(text);
        try_config(data, size);
        free(text);
        return 0;
}

/* SPDX-License-Identifier: MIT */
/* A guard that starts nothing: it says that it would, and ends with 7. */
#include <errno.h>
#include <stdlib.h>

#include "gpufree.h"

struct gpufree_guard {
        gpufree_guard_handler handler;
        void *userdata;
};

int gpufree_guard_new(gpufree *context, const struct gpufree_guard_options *options, gpufree_guard **ret_guard)
{
        (void)context;
        if (options->ready_url && options->ready_tcp)
                return -EINVAL;
        *ret_guard = calloc(1, sizeof(**ret_guard));
        return *ret_guard ? 0 : -ENOMEM;
}

gpufree_guard *gpufree_guard_unref(gpufree_guard *guard)
{
        free(guard);
        return NULL;
}

void gpufree_guard_set_handler(gpufree_guard *guard, gpufree_guard_handler handler, void *userdata)
{
        guard->handler = handler;
        guard->userdata = userdata;
}

int gpufree_guard_set_signal_fd(gpufree_guard *guard, int fd)
{
        (void)guard;
        (void)fd;
        return 0;
}

int gpufree_guard_claim(gpufree_guard *guard, const gpufree_selection *selection)
{
        (void)selection;
        guard->handler(guard->userdata, GPUFREE_GUARD_SAID, "claimed GPU 0-7, all free");
        return 0;
}

int gpufree_guard_run(gpufree_guard *guard, char *const argv[], int *ret_code)
{
        guard->handler(guard->userdata, GPUFREE_GUARD_WARNED, argv[0]);
        *ret_code = 7;
        return 0;
}

int gpufree_wait_calm(gpufree *context, const gpufree_selection *selection, const struct gpufree_calm *calm,
                      uint64_t timeout_ms, uint64_t settle_ms, gpufree_report **ret_report)
{
        (void)calm;
        return gpufree_wait(context, selection, timeout_ms, settle_ms, ret_report);
}

int gpufree_report_gpu_busy(const gpufree_report *report, size_t position, unsigned *ret_percent, const char **ret_why)
{
        (void)report;
        (void)position;
        (void)ret_percent;
        (void)ret_why;
        return -ENODATA;
}

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

int gpufree_guard_result(const gpufree_guard *guard, struct gpufree_guard_result *ret_result)
{
        (void)guard;
        *ret_result = (struct gpufree_guard_result){ .size = sizeof(*ret_result),
                                                     .starts = 1,
                                                     .pid = 21290,
                                                     .status = 7,
                                                     .readiness = GPUFREE_READY_YES,
                                                     .ready_ms = 1500,
                                                     .signalled = 2,
                                                     .verified = 1,
                                                     .elapsed_ms = 61000 };
        return 0;
}

const char *gpufree_guard_readiness_name(enum gpufree_guard_readiness readiness)
{
        return readiness == GPUFREE_READY_YES ? "ready" : NULL;
}

size_t gpufree_guard_gpu_count(const gpufree_guard *guard)
{
        (void)guard;
        return 0;
}

const gpufree_gpu *gpufree_guard_gpu(const gpufree_guard *guard, size_t position)
{
        (void)guard;
        (void)position;
        return NULL;
}

const gpufree_snapshot *gpufree_guard_snapshot(const gpufree_guard *guard)
{
        (void)guard;
        return NULL;
}

const gpufree_report *gpufree_guard_report(const gpufree_guard *guard)
{
        (void)guard;
        return NULL;
}

/* SPDX-License-Identifier: MIT */
#include "lib/context.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu/inventory.h"

int gpufree_new(gpufree **ret_context)
{
        struct gpufree *context = calloc(1, sizeof(*context));

        if (!context)
                return -ENOMEM;
        context->refs = 1;
        gf_env_init(&context->env);
        context->env.keeps = true;
        if (gf_env_defaults(&context->env) < 0) {
                gpufree_unref(context);
                return -ENOMEM;
        }
        *ret_context = context;
        return 0;
}

gpufree *gpufree_ref(gpufree *context)
{
        if (context)
                context->refs++;
        return context;
}

gpufree *gpufree_unref(gpufree *context)
{
        if (!context || --context->refs > 0)
                return NULL;
        gf_nvml_stop(context->nvml);
        gf_env_done(&context->env);
        gf_rules_done(&context->rules);
        free(context);
        return NULL;
}

const char *gpufree_error(const gpufree *context)
{
        return context && context->env.error ? context->env.error : "no error";
}

int gpufree_set_dev_root(gpufree *context, const char *directory)
{
        struct stat st;

        if (!directory || !directory[0])
                return gf_fail(&context->env, -EINVAL, "the directory of the device nodes has an empty name");
        if (stat(directory, &st) < 0)
                return gf_fail(&context->env, -errno, "%s: %s", directory, strerror(errno));
        if (!S_ISDIR(st.st_mode))
                return gf_fail(&context->env, -ENOTDIR, "%s is no directory", directory);
        if (gf_strset(&context->env.dev_root, directory) < 0)
                return gf_fail(&context->env, -ENOMEM, "out of memory");
        context->env.dev_root_set = true;
        return 0;
}

int gpufree_set_scan_method(gpufree *context, enum gpufree_scan_method method)
{
        if ((int)method < GPUFREE_SCAN_AUTO || method > GPUFREE_SCAN_PROC)
                return gf_fail(&context->env, -EINVAL, "%d is no way to scan", (int)method);
        context->env.scan_method = method;
        return 0;
}

int gpufree_set_scope(gpufree *context, enum gpufree_scope scope)
{
        if ((int)scope < GPUFREE_SCOPE_MACHINE || scope > GPUFREE_SCOPE_NAMESPACE)
                return gf_fail(&context->env, -EINVAL, "%d is no scope", (int)scope);
        context->env.scope = scope;
        return 0;
}

int gpufree_set_driver_deadline(gpufree *context, uint64_t milliseconds)
{
        if (milliseconds == 0)
                return gf_fail(&context->env, -EINVAL, "a driver cannot answer within 0 ms");
        context->env.driver_deadline_ms = milliseconds;
        return 0;
}

int gpufree_set_cancel_fd(gpufree *context, int fd)
{
        if (fd >= 0 && fcntl(fd, F_GETFD) < 0)
                return gf_fail(&context->env, -errno, "descriptor %d: %s", fd, strerror(errno));
        context->env.cancel_fd = fd < 0 ? -1 : fd;
        return 0;
}

int gpufree_add_device(gpufree *context, const char *path)
{
        int r;

        if (!path || !path[0])
                return gf_fail(&context->env, -EINVAL, "a device has an empty path");
        r = gf_device_check_path(&context->env, path);
        if (r < 0)
                return r;
        if (gf_strv_has(&context->env.paths, path))
                return 0;
        if (gf_strv_add(&context->env.paths, path) < 0)
                return gf_fail(&context->env, -ENOMEM, "out of memory");
        return 0;
}

void gpufree_set_event_handler(gpufree *context, gpufree_event_handler handler, void *userdata)
{
        context->on_event = handler;
        context->event_userdata = userdata;
}

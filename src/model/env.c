/* SPDX-License-Identifier: MIT */
#include "model/env.h"

void gf_env_init(struct gf_env *env)
{
        *env = (struct gf_env){ .driver_deadline_ms = 10000, .cancel_fd = -1 };
}

int gf_env_defaults(struct gf_env *env)
{
        if (!env->dev_root && gf_strset(&env->dev_root, "/dev") < 0)
                return -ENOMEM;
        if (!env->proc_root && gf_strset(&env->proc_root, "/proc") < 0)
                return -ENOMEM;
        if (!env->sys_root && gf_strset(&env->sys_root, "/sys") < 0)
                return -ENOMEM;
        return 0;
}

void gf_env_done(struct gf_env *env)
{
        if (env->kept)
                env->kept_free(env->kept);
        free(env->dev_root);
        free(env->proc_root);
        free(env->sys_root);
        free(env->error);
        gf_strv_done(&env->paths);
        gf_env_init(env);
}

int gf_fail(struct gf_env *env, int error, const char *format, ...)
{
        va_list ap;
        char *text;

        va_start(ap, format);
        text = gf_vasprintf(format, ap);
        va_end(ap);
        if (text) {
                free(env->error);
                env->error = text;
        }
        return error;
}

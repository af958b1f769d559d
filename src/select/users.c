/* SPDX-License-Identifier: MIT */
#include <pwd.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/num.h"
#include "select/values.h"

/* The name services may need a large buffer (LDAP groups of descriptions); this is where they stop being believed. */
#define PASSWD_MAX (1024U * 1024)

/* 1: found, 0: there is none, -errno: could not be asked. */
static int lookup(const char *name, uint32_t *ret_uid)
{
        for (size_t size = 1024; size <= PASSWD_MAX; size *= 4) {
                _cleanup_free_ char *buf = malloc(size);
                struct passwd pw, *found = NULL;
                int e;

                if (!buf)
                        return -ENOMEM;
                e = getpwnam_r(name, &pw, buf, size, &found);
                if (e == ERANGE)
                        continue;
                if (found) {
                        *ret_uid = pw.pw_uid;
                        return 1;
                }
                /* getpwnam_r(3): these too mean that the name was not found. */
                if (e == 0 || e == ENOENT || e == ESRCH || e == EBADF || e == EPERM)
                        return 0;
                return -e;
        }
        return -ERANGE;
}

int gf_user_resolve(const char *text, uint32_t *ret_uid, char **ret_error)
{
        _cleanup_free_ char *quoted = gf_quoted(text);
        uint32_t uid;
        int r;

        if (!quoted)
                return -ENOMEM;
        if (*text == '\0')
                return gf_bad_value(ret_error, "\"\" is no user (a name, a number or \"me\")");
        if (strcmp(text, "me") == 0) {
                *ret_uid = getuid();
                return 0;
        }
        if (strspn(text, "0123456789") == strlen(text)) {
                if (gf_parse_u32(text, &uid) < 0 || uid == UINT32_MAX)
                        return gf_bad_value(ret_error, "%s is no user number (0 to 4294967294)", quoted);
                *ret_uid = uid;
                return 0;
        }
        r = lookup(text, &uid);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return gf_bad_value(ret_error, "user %s cannot be looked up: %s (a number does without)", quoted,
                                    strerror(-r));
        if (r == 0)
                return gf_bad_value(ret_error, "there is no user %s", quoted);
        *ret_uid = uid;
        return 0;
}

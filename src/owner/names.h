/* SPDX-License-Identifier: MIT */
#pragma once

#include "owner/places.h"

/*
 * Names of containers, pods, VMs from the files of their runtimes, no daemon asked. Only the one value that is wanted
 * is taken out of a file; nothing found is no error.
 */

/* The name of `owner`, in a fresh buffer, or NULL; *ret_runtime: the runtime, where the files tell it better than the
 * path did (static; else untouched). `holder`: the process (a VM's name is on its command line). -ENOMEM. */
int gf_name_find(const struct gf_places *places, const struct gf_cgroup_owner *owner,
                 const struct gpufree_holder *holder, const char **ret_runtime, char **ret_name);
/* The runtime whose state directory knows a container of this name (runc, crun), static, or NULL. */
const char *gf_name_oci(const struct gf_places *places, const char *id);
/* RestartPolicy.Name of a Docker container: "no", "always", … -ENOENT: not known. */
int gf_docker_policy(const struct gf_places *places, const struct gf_cgroup_owner *owner, char *buf, size_t size);
/* Is this path there, below the root? */
bool gf_place_has(const struct gf_places *places, const char *path);
/* The home directory and name of a user from /etc/passwd; either may be NULL to ignore. -ENOENT. */
int gf_passwd_find(const struct gf_places *places, uint32_t uid, char **ret_name, char **ret_home);

#!/bin/bash
# SPDX-License-Identifier: MIT
# Tries quickstart where nothing is installed: makes a minimal Debian in a temporary directory, copies this source
# tree into it, and runs `./quickstart` and `./quickstart test` there. By hand, as root; takes debootstrap, 10 to 30
# minutes, 2 GB of disk. Not part of the suite.
#
#   sudo tests/system/debootstrap.sh
#
# MIRROR  where packages come from; default: the first of this machine's own apt sources
# SUITE   bookworm
# KEEP=1  leave the directory behind
set -eu

src="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
SUITE="${SUITE:-bookworm}"

fail() {
        echo "debootstrap.sh: $*" >&2
        exit 1
}

# Second half: inside a mount and PID namespace of its own, so that every mount and process ends with it.
if [ "${1-}" = --inside ]; then
        root="$2"
        mount -t proc -o nosuid,noexec,nodev proc "$root/proc"
        mount -t sysfs -o ro,nosuid,noexec,nodev sysfs "$root/sys"
        # A /dev of its own: nothing of the host's is mounted, so nothing of the host's can be removed.
        mount -t tmpfs -o mode=755,nosuid dev "$root/dev"
        while read -r name minor; do
                mknod -m 666 "$root/dev/$name" c "${minor%:*}" "${minor#*:}"
        done <<'END'
null 1:3
zero 1:5
full 1:7
random 1:8
urandom 1:9
tty 5:0
END
        mkdir "$root/dev/pts" "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
        mount -t tmpfs -o mode=1777,nosuid,nodev shm "$root/dev/shm"
        ln -s pts/ptmx "$root/dev/ptmx"
        ln -s /proc/self/fd "$root/dev/fd"
        ln -s fd/0 "$root/dev/stdin"
        ln -s fd/1 "$root/dev/stdout"
        ln -s fd/2 "$root/dev/stderr"
        run() {
                echo "debootstrap.sh: in the new root: $*"
                chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
                        ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
                        "$@" </dev/null
        }
        run /bin/sh -c 'cd /src && ./quickstart'
        run /bin/sh -c 'cd /src && ./quickstart' # twice
        run /src/quickstart test                 # from elsewhere
        exit 0
fi

[ "$(id -u)" -eq 0 ] || fail "takes root: sudo $0"
command -v debootstrap >/dev/null || fail "debootstrap is not installed"
if [ -z "${MIRROR-}" ]; then
        MIRROR="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)"
        [ -n "$MIRROR" ] || fail "this machine has no apt sources; say where from: MIRROR=URL $0"
fi

root="$(mktemp -d "${TMPDIR:-/var/tmp}/gpufree-root.XXXXXX")"
chmod 755 "$root" # the tests run programs as other users, too
clean_up() {
        status=$?
        trap - EXIT
        if [ -n "${KEEP-}" ]; then
                echo "debootstrap.sh: left behind: $root"
        elif grep -qF " $root/" /proc/self/mountinfo; then
                echo "debootstrap.sh: something is mounted below $root: not removed" >&2
                status=1
        else
                rm -rf --one-file-system "$root"
        fi
        if [ "$status" -eq 0 ]; then
                echo "debootstrap.sh: quickstart and its tests passed"
        else
                echo "debootstrap.sh: FAILED (exit $status)" >&2
        fi
        exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Debian's own name for each step is in its output; what it mounts itself goes with the namespace.
unshare --mount --propagation private debootstrap --variant=minbase "$SUITE" "$root" "$MIRROR"
[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$root/etc/resolv.conf"
apt-config dump | grep -iE '^Acquire::(https?|ftp)::Proxy' >"$root/etc/apt/apt.conf.d/90host-proxy" || :
mkdir "$root/src"
if git -C "$src" rev-parse >/dev/null 2>&1; then
        git -C "$src" ls-files -z --cached --others --exclude-standard
else
        (cd "$src" && find . -path './build*' -prune -o -type f -print0)
fi | tar -C "$src" --null --ignore-failed-read -T - -cf - | tar -C "$root/src" --no-same-owner -xf -
unshare --mount --pid --fork --propagation private "${BASH_SOURCE[0]}" --inside "$root"

# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Helpers of the owner_*.bats tests: real containers, jobs and supervisors that hold a stand-in device.
#
# GPUFREE: the program (default: the build's cli/gpufree); OWNER_PROBE: the helper of this folder. A test skips with the
# reason when what it needs is not there. Everything lives below $T and ends in teardown; only processes started here
# are ended, by number.

# A tty that nobody uses stands in for the GPU's device node.
STANDIN_MAJOR=4

owner_setup() {
	T=$(mktemp -d /tmp/gpufree-owner.XXXXXX)
	chmod 0755 "$T"
	GPUFREE=${GPUFREE:-${BUILD_DIR:-$BATS_TEST_DIRNAME/../../build}/cli/gpufree}
	OWNER_PROBE=${OWNER_PROBE:-${BUILD_DIR:-$BATS_TEST_DIRNAME/../../build}/tests/system/owner_probe}
	# The test may itself run in a PID namespace: what is asked is about it.
	if [ -x "$GPUFREE" ] && [ "$(readlink /proc/self/ns/pid)" != 'pid:[4026531836]' ]; then
		printf '#!/bin/sh\nexec "%s" --scope namespace "$@"\n' "$(realpath "$GPUFREE")" >"$T/gpufree-here"
		chmod 0755 "$T/gpufree-here"
		GPUFREE=$T/gpufree-here
	fi
	export T GPUFREE OWNER_PROBE
	mkdir "$T/dev"
}

need_root() {
	[ "$(id -u)" -eq 0 ] || skip "needs root: containers and device nodes"
}

need() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

need_gpufree() {
	[ -x "$GPUFREE" ] || skip "gpufree is not built"
}

need_probe() {
	[ -x "$OWNER_PROBE" ] || skip "owner_probe is not built"
}

# make_node NAME: a device node below $T/dev, or skip; MINOR is its number. It is a tty that nobody has open, of those
# that no simulated node takes (they count down to 20): nobody else's process can hold it by chance.
make_node() {
	local minor
	for minor in $(shuf -i 8-19); do
		rm -f "$T/dev/$1"
		mknod -m 0666 "$T/dev/$1" c "$STANDIN_MAJOR" "$minor" 2>/dev/null || skip "mknod is not permitted here"
		(exec 9<>"$T/dev/$1") 2>/dev/null || continue
		[ -z "$("$GPUFREE" list -q --any-open "$T/dev/$1" 2>/dev/null)" ] || continue
		# shellcheck disable=SC2034 # the tests read it
		MINOR=$minor
		return 0
	done
	skip "no stand-in device (4:8 to 4:19) is free to be opened here"
}

# until_true SECONDS COMMAND…: tries until it is true; fails after SECONDS.
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

# holds PID MINOR: has process PID the stand-in device open?
holds() {
	local fd want
	want=$(printf '%x:%x' "$STANDIN_MAJOR" "$2")
	for fd in "/proc/$1/fd"/*; do
		[ "$(stat -L -c %t:%T "$fd" 2>/dev/null)" = "$want" ] && return 0
	done
	return 1
}

gone() {
	[ ! -e "/proc/$1" ] || [ "$(awk '/^State:/ { print $2 }' "/proc/$1/status" 2>/dev/null)" = Z ]
}

# ("! gone" would not fail a test: bats looks past what is negated.)
lives() {
	if gone "$1"; then return 1; fi
}

# The value of one line of owner_probe's answer.
# shellcheck disable=SC2154 # "output" is set by run
probe_value() {
	printf '%s\n' "$output" | sed -n "s/^$1=//p" | head -n 1
}

# start_holder VARIABLE COMMAND…: a background process of this test; its PID into VARIABLE, ended in teardown.
owner_pids=()
start_holder() {
	local -n into=$1
	shift
	"$@" >/dev/null 2>&1 3>&- &
	into=$!
	owner_pids+=("$into")
}

# in_cgroup PATH: moves $PID into a cgroup of this path, in whichever hierarchy lets us. Not below a running systemd's.
CGROUP_ROOT=
in_cgroup() {
	local root roots="/sys/fs/cgroup/freezer /sys/fs/cgroup/pids"
	[ -d /run/systemd/system ] || roots+=" /sys/fs/cgroup/unified /sys/fs/cgroup"
	for root in $roots; do
		[ -w "$root/cgroup.procs" ] && mkdir -p "$root/$1" 2>/dev/null || continue
		CGROUP_ROOT=$root CGROUP=$1
		echo "$PID" >"$root/$1/cgroup.procs" 2>/dev/null && return 0
		leave_cgroup
	done
	skip "no cgroup can be made here"
}

# Once its processes have ended: a cgroup takes a moment to be empty.
leave_cgroup() {
	[ -n "$CGROUP_ROOT" ] || return 0
	until_true 20 rmdir "$CGROUP_ROOT/$CGROUP" 2>/dev/null || :
	while [[ $CGROUP == */* ]]; do
		CGROUP=${CGROUP%/*}
		rmdir "$CGROUP_ROOT/$CGROUP" 2>/dev/null || break
	done
	CGROUP_ROOT=
}

owner_teardown() {
	local pid
	for pid in "${owner_pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null || :
	done
	leave_cgroup
	[ -z "${T:-}" ] || rm -rf "$T"
}

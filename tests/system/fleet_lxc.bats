#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A real LXC container behind a real sshd: a holder inside is found and ended by the hop, and from the outside.

load owner

setup() {
	owner_setup
	need_root
	need lxc-start lxc-attach lxc-info lxc-stop ssh ssh-keygen python3
	[ -x /usr/sbin/sshd ] || skip "no sshd here (openssh-server)"
	NAME=gpufree-fleet-$$-$BATS_TEST_NUMBER
	SSHD=
	started=
	REAL_GPUFREE=$(realpath "${BUILD_DIR:-$BATS_TEST_DIRNAME/../../build}/cli/gpufree")
}

teardown() {
	[ -z "$started" ] || lxc-stop -k -P "$T/lxc" -n "$NAME" >/dev/null 2>&1 || :
	[ -z "$SSHD" ] || kill "$SSHD" || :
	owner_teardown
}

# The "hypervisor" hv: its logins find gpufree, and an lxc-attach that knows where the containers of this test are.
start_sshd() {
	local port
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	mkdir -p /run/sshd "$T/hv" "$T/bin"
	ssh-keygen -q -t ed25519 -N '' -f "$T/host"
	ssh-keygen -q -t ed25519 -N '' -f "$T/user"
	printf 'hv %s\n' "$(cut -d' ' -f1,2 "$T/host.pub")" >"$T/known"
	printf 'Host hv\n HostName 127.0.0.1\n Port %d\n User root\n HostKeyAlias hv\n IdentityFile %s\n IdentitiesOnly yes\n UserKnownHostsFile %s\n' \
		"$port" "$T/user" "$T/known" >"$T/config"
	printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$T/config" >"$T/bin/ssh"
	printf '#!/bin/sh\nexec %s --scope namespace "$@"\n' "$REAL_GPUFREE" >"$T/hv/gpufree"
	printf '#!/bin/sh\nexec %s -P %s "$@"\n' "$(command -v lxc-attach)" "$T/lxc" >"$T/hv/lxc-attach"
	chmod 0755 "$T"/bin/* "$T"/hv/*
	cat >"$T/sshd.conf" <<-END
		ListenAddress 127.0.0.1:$port
		HostKey $T/host
		AuthorizedKeysFile $T/user.pub
		PermitRootLogin yes
		StrictModes no
		UsePAM no
		PasswordAuthentication no
		PidFile none
		SetEnv PATH=$T/hv:/usr/bin:/bin:/gf
	END
	/usr/sbin/sshd -D -f "$T/sshd.conf" -E "$T/sshd.log" 3>&- &
	SSHD=$!
	disown
	PATH=$T/bin:$PATH
	until_true 20 ssh -oBatchMode=yes hv true || skip "root cannot log in over a loopback sshd here"
}

# A container with two holders of the node; its own PID 1 holds nothing.
start_container() {
	local dir=$T/lxc/$NAME source
	make_node nvidia0
	mkdir -p "$dir/rootfs"/{usr,lib,lib64,bin,proc,sys,dev,tmp,etc,run,gf,gfb}
	cat >"$dir/rootfs/init" <<-'END'
		#!/bin/sh
		trap 'exit 0' TERM PWR
		[ -e /dev/nvidia0 ] || mknod /dev/nvidia0 c "$1" "$2"
		(exec 9<>/dev/nvidia0; exec sleep 1001) &
		(exec 9<>/dev/nvidia0; exec sleep 1002) &
		while :; do sleep 1000 & wait $!; done
	END
	printf '#!/bin/sh\nexec /gfb/gpufree --scope namespace "$@"\n' >"$dir/rootfs/gf/gpufree"
	chmod 0755 "$dir/rootfs/init" "$dir/rootfs/gf/gpufree"
	{
		[ ! -e /usr/share/lxc/config/common.conf ] || echo "lxc.include = /usr/share/lxc/config/common.conf"
		echo "lxc.uts.name = $NAME"
		echo "lxc.rootfs.path = dir:$dir/rootfs"
		echo "lxc.net.0.type = none"
		echo "lxc.apparmor.profile = unconfined"
		echo "lxc.autodev = 1"
		echo "lxc.cgroup.devices.allow = c 4:$MINOR rwm"
		echo "lxc.cgroup2.devices.allow = c 4:$MINOR rwm"
		echo "lxc.init.cmd = /init 4 $MINOR"
		echo "lxc.mount.entry = $(dirname "$REAL_GPUFREE") gfb none bind,ro 0 0"
		for source in usr lib lib64 bin; do
			[ ! -e "/$source" ] || echo "lxc.mount.entry = /$source $source none bind,ro 0 0"
		done
	} >"$dir/config"
	timeout 60 lxc-start -P "$T/lxc" -n "$NAME" -d -l ERROR -o "$T/log" 3>&- ||
		skip "LXC cannot start a container here: $(tail -n 1 "$T/log")"
	started=1
}

away() {
	status=0
	timeout 60 "$REAL_GPUFREE" "$@" >"$T/out" 2>"$T/err" || status=$?
	cat "$T/out" "$T/err"
}

# The PIDs of the holders that the answer of the one host lists, in order.
holders_of_answer() {
	python3 -c 'import json, sys; print(*[h["pid"] for h in json.load(open(sys.argv[1]))["hosts"][0]["result"]["holders"]])' "$T/out"
}

two_inside() {
	away list --json -H "hv/lxc:$NAME" /dev/nvidia0 >/dev/null
	read -r -a inside < <(holders_of_answer)
	[ "${#inside[@]}" -eq 2 ]
}

@test "fleet: a holder in LXC behind sshd is ended by the hop, another from the outside" {
	start_sshd
	start_container
	until_true 20 two_inside
	away list --json -H hv --container "$NAME" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	read -r -a outside < <(holders_of_answer)
	[ "${#outside[@]}" -eq 2 ]
	lives "${outside[0]}"
	lives "${outside[1]}"
	# By the hop: a PID of the container.
	away kill -y -H "hv/lxc:$NAME" --pid "${inside[0]}" /dev/nvidia0
	[ "$status" -eq 0 ]
	away list --json -H hv --container "$NAME" "$T/dev/nvidia0"
	read -r left more < <(holders_of_answer)
	[ -n "$left" ]
	[ -z "$more" ]
	lives "$left"
	# From the outside: what is left.
	away kill -y -H hv --container "$NAME" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	until_true 20 gone "$left"
	away check -H hv "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	away check -H "hv/lxc:$NAME" /dev/nvidia0
	[ "$status" -eq 0 ]
	[ "$(lxc-info -P "$T/lxc" -n "$NAME" -s -H)" = RUNNING ]
}

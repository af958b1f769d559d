#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Real containers whose process holds a stand-in device through a device file of its own.

load owner
load sshd

setup() {
	owner_setup
	need_root
	NAME=gpufree-test-$$-$BATS_TEST_NUMBER
	kind=
}

teardown() {
	sshd_down
	if [ "$kind" = runc ]; then
		runc delete -f "$NAME" >/dev/null 2>&1 || :
	elif [ "$kind" = lxc ]; then
		lxc-stop -k -P "$T/lxc" -n "$NAME" >/dev/null 2>&1 || :
	fi
	owner_teardown
}

# The host's programs, read-only, and what a holder does: TERM ends it, even as PID 1.
make_rootfs() {
	mkdir -p "$1"/{usr,lib,lib64,bin,proc,sys,dev,tmp,etc,run}
	cat >"$1/hold" <<-'END'
		#!/bin/sh
		trap 'exit 0' TERM PWR
		[ -e /dev/nvidia0 ] || mknod /dev/nvidia0 c "$1" "$2"
		exec 9<>/dev/nvidia0
		while :; do sleep 1000 & wait $!; done
	END
	chmod 0755 "$1/hold"
}

start_runc() {
	need runc
	make_node nvidia0
	kind=runc
	local bundle=$T/bundle source mounts=
	make_rootfs "$bundle/rootfs"
	for source in /usr /lib /lib64 /bin; do
		[ -e "$source" ] || continue
		mounts+=",{\"destination\":\"$source\",\"type\":\"bind\",\"source\":\"$source\",\"options\":[\"rbind\",\"ro\"]}"
	done
	cat >"$bundle/config.json" <<-END
		{"ociVersion":"1.0.2","process":{"user":{"uid":0,"gid":0},"args":["/hold","4","$MINOR"],
		"env":["PATH=/usr/bin:/bin"],"cwd":"/","capabilities":{}},
		"root":{"path":"rootfs"},"mounts":[{"destination":"/proc","type":"proc","source":"proc"},
		{"destination":"/dev","type":"tmpfs","source":"tmpfs","options":["mode=755"]}$mounts],
		"linux":{"namespaces":[{"type":"pid"},{"type":"mount"},{"type":"ipc"},{"type":"uts"}],
		"devices":[{"path":"/dev/nvidia0","type":"c","major":4,"minor":$MINOR,"fileMode":438,"uid":0,"gid":0}],
		"resources":{"devices":[{"allow":false,"access":"rwm"},
		{"allow":true,"type":"c","major":4,"minor":$MINOR,"access":"rwm"}]}}}
	END
	(cd "$bundle" && runc run -d --pid-file "$T/pid" "$NAME" >"$T/log" 2>&1 </dev/null 3>&-) ||
		skip "runc cannot run a container here: $(tail -n 1 "$T/log")"
	PID=$(cat "$T/pid")
	until_true 20 holds "$PID" "$MINOR"
}

start_lxc() {
	need lxc-start lxc-info lxc-stop
	make_node nvidia0
	kind=lxc
	local dir=$T/lxc/$NAME source
	make_rootfs "$dir/rootfs"
	{
		[ ! -e /usr/share/lxc/config/common.conf ] || echo "lxc.include = /usr/share/lxc/config/common.conf"
		echo "lxc.uts.name = $NAME"
		echo "lxc.rootfs.path = dir:$dir/rootfs"
		echo "lxc.net.0.type = none"
		echo "lxc.apparmor.profile = unconfined"
		echo "lxc.autodev = 1"
		echo "lxc.cgroup.devices.allow = c 4:$MINOR rwm"
		echo "lxc.cgroup2.devices.allow = c 4:$MINOR rwm"
		echo "lxc.init.cmd = /hold 4 $MINOR"
		for source in usr lib lib64 bin; do
			[ ! -e "/$source" ] || echo "lxc.mount.entry = /$source $source none bind,ro 0 0"
		done
	} >"$dir/config"
	timeout 60 lxc-start -P "$T/lxc" -n "$NAME" -d -l ERROR -o "$T/log" 3>&- || {
		kind=
		skip "LXC cannot start a container here: $(tail -n 1 "$T/log")"
	}
	PID=$(lxc-info -P "$T/lxc" -n "$NAME" -p -H)
	[ -n "$PID" ]
	until_true 20 holds "$PID" "$MINOR"
}

# A process of the host that holds the same device: it must live on.
start_bystander() {
	start_holder BYSTANDER bash -c 'exec 9<>"$1"; exec sleep 1000' x "$T/dev/nvidia0"
	until_true 20 holds "$BYSTANDER" "$MINOR"
}

listed_selected_ended_verified() {
	start_bystander
	run "$GPUFREE" list --json --container "$NAME" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[ "$(jq -r '[.holders[] | select(.selected != false) | .pid] | index('"$PID"') != null' <<<"$output")" = true ]
	[ "$(jq -r ".holders[] | select(.pid == $PID) | .pidns_pid" <<<"$output")" = 1 ]
	[ "$(jq -r ".holders[] | select(.pid == $PID) | .owner.chain[0].id" <<<"$output")" = "$NAME" ]
	[ "$(jq -r ".holders[] | select(.pid == $PID) | .owner.chain[0].kind" <<<"$output")" = container ]
	run "$GPUFREE" kill --yes --container "$NAME" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	gone "$PID"
	lives "$BYSTANDER"
	holds "$BYSTANDER" "$MINOR"
	run "$GPUFREE" check --container "$NAME" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
}

@test "runc: a real container is named by its cgroup and stopped by its runtime" {
	need_probe
	need_gpufree
	start_runc
	run "$OWNER_PROBE" "$PID"
	[ "$status" -eq 0 ]
	[ "$(probe_value label)" = "runc:$NAME" ]
	[ "$(probe_value chain)" = "container runc $NAME -" ]
	[ "$(probe_value stop)" = "runc kill $NAME TERM" ]
	run "$OWNER_PROBE" --stop "$PID"
	[ "$(probe_value outcome)" = 0 ]
	until_true 20 gone "$PID"
}

@test "LXC: a real container is named by its cgroup and stopped by its runtime, wherever it lies" {
	need_probe
	need_gpufree
	start_lxc
	run "$OWNER_PROBE" "$PID"
	[ "$status" -eq 0 ]
	[ "$(probe_value label)" = "lxc:$NAME" ]
	[ "$(probe_value chain)" = "container lxc $NAME -" ]
	[ "$(probe_value stop)" = "lxc-stop -n $NAME -P $T/lxc" ]
	run "$OWNER_PROBE" --stop "$PID"
	[ "$(probe_value outcome)" = 0 ]
	until_true 20 gone "$PID"
}

@test "runc: the holder is listed with name and inner PID, selected by container, ended; the host's holder lives" {
	need_gpufree
	need jq
	start_runc
	listed_selected_ended_verified
}

@test "LXC: the holder is listed with name and inner PID, selected by container, ended; the host's holder lives" {
	need_gpufree
	need jq
	start_lxc
	listed_selected_ended_verified
}

@test "LXC: found and ended from outside, over ssh to its host, by runtime and name; another runtime's name means nobody" {
	need_gpufree
	need jq
	start_lxc
	start_bystander
	sshd_up "$T/sshd"
	run ssh -F "$SSH_CONFIG" node1 "'$GPUFREE' list -q --container 'docker:$NAME' '$T/dev/nvidia0'"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	run ssh -F "$SSH_CONFIG" node1 "'$GPUFREE' list -q --container 'pct:$NAME' '$T/dev/nvidia0'"
	[ -z "$output" ]
	run ssh -F "$SSH_CONFIG" node1 "'$GPUFREE' list -q --container 'lxc:$NAME' '$T/dev/nvidia0'"
	grep -qx "$PID" <<<"$output"
	[ -z "$(grep -x "$BYSTANDER" <<<"$output")" ]
	# As the table writes it.
	[[ $(ssh -F "$SSH_CONFIG" node1 "COLUMNS=300 '$GPUFREE' '$T/dev/nvidia0'") == *" lxc:$NAME "* ]]
	run ssh -F "$SSH_CONFIG" node1 "'$GPUFREE' kill --yes --container 'lxc:$NAME' '$T/dev/nvidia0' </dev/null"
	[ "$status" -eq 0 ]
	gone "$PID"
	lives "$BYSTANDER"
	run ssh -F "$SSH_CONFIG" node1 "'$GPUFREE' check --container 'lxc:$NAME' '$T/dev/nvidia0'"
	[ "$status" -eq 0 ]
}

@test "LXC: --stop-owner stops the container with its own command" {
	need_gpufree
	start_lxc
	run "$GPUFREE" kill --yes --stop-owner --container "$NAME" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[[ $output == *lxc-stop* ]]
	gone "$PID"
	[ "$(lxc-info -P "$T/lxc" -n "$NAME" -s -H)" = STOPPED ]
}

@test "the OCI hook passes the container's id on and never fails" {
	local hook=$BATS_TEST_DIRNAME/../../contrib/oci/gpufree-poststop
	printf '#!/bin/sh\necho "$@" >"%s/asked"\nexit 5\n' "$T" >"$T/gpufree"
	chmod 0755 "$T/gpufree"
	GPUFREE=$T/gpufree run "$hook" <<<'{"ociVersion":"1.0.2","id":"a.b-1","status":"stopped","annotations":{"id":"no"}}'
	[ "$status" -eq 0 ]
	[ "$(cat "$T/asked")" = "kill --yes --container a.b-1 --grace 5s --timeout 60s" ]
	rm "$T/asked"
	GPUFREE=$T/gpufree run "$hook" <<<'{"id":"--bad id;x"}'
	[ "$status" -eq 0 ]
	[ ! -e "$T/asked" ]
}

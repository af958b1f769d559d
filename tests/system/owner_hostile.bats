#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Names that processes and containers choose: whatever bytes are in them, none reaches a terminal or breaks a document.

load owner

ESC=$'\e'

setup() {
	owner_setup
	need_gpufree
	need python3
	need_root
}

teardown() {
	owner_teardown
}

# No byte of the output but printable ones, newlines and (in table marks) UTF-8: no ESC, no other control.
clean() {
	LC_ALL=C
	[[ $1 != *[$'\x01'-$'\x09'$'\x0b'-$'\x1f'$'\x7f']* ]]
}

hold_as() { # COMM PATH
	start_holder PID python3 -c 'import os, signal, sys
fd = os.open(os.fsencode(sys.argv[2]), os.O_RDWR)
with open("/proc/self/comm", "wb", 0) as comm:
    comm.write(os.fsencode(sys.argv[1]))
signal.pause()' "$1" "$2"
	until_true 20 holds "$PID" "$MINOR"
	until_true 20 renamed
}

renamed() {
	[ "$(head -c 4 "/proc/$PID/comm")" != pyth ]
}

every_view_is_clean() {
	local view
	for view in list "list --by owner" "list --json" "list --by owner --json" "kill -n" "kill -n --json" \
		"kill -n --stop-owner" check "check --json"; do
		# shellcheck disable=SC2086
		run "$GPUFREE" $view --color always --pid "$PID" "$1"
		[ "$status" -le 1 ]
		clean "$(sed "s/$ESC\[[0-9;]*m//g" <<<"$output")" || { echo "$view"; false; }
		[[ $output != *"${ESC}]0;"* ]]
		[[ $output != *"${ESC}[2J"* ]]
		if [[ $view == *--json* ]]; then
			python3 -c 'import json,sys; json.load(sys.stdin)' <<<"$output"
		fi
	done
}

@test "a comm and a path with newline, escape codes and quotes come out escaped" {
	make_node node
	local path=$T/dev/$'nv\n'"$ESC[2J\"'\\"$'\x9b'"0"
	mv "$T/dev/node" "$path"
	hold_as $'a\n'"$ESC[2J\"{" "$path"
	every_view_is_clean "$path"
	run "$GPUFREE" list --json --pid "$PID" "$path"
	[ "$(python3 -c 'import json,sys; print(json.load(sys.stdin)["holders"][0]["comm"] == "a\n\x1b[2J\"{")' <<<"$output")" = True ]
	run "$GPUFREE" kill --yes --pid "$PID" "$path"
	[ "$status" -eq 0 ]
	clean "$output"
	gone "$PID"
}

@test "a container whose id is made of escape codes and quotes: listed, ended by PID, its name never given to a command" {
	make_node nvidia0
	hold_as plain "$T/dev/nvidia0"
	local id="a$ESC]0;x\"'\$(touch $T.ran)"
	id=${id//\//_}
	in_cgroup "lxc.payload.$id"
	every_view_is_clean "$T/dev/nvidia0"
	run "$GPUFREE" list --json --pid "$PID" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[ "$(ID=$id python3 -c 'import json,os,sys; print(json.load(sys.stdin)["holders"][0]["owner"]["chain"][0]["id"] == os.environ["ID"])' <<<"$output")" = True ]
	# no name that a runtime would give: said, escaped, and nothing done
	run "$GPUFREE" kill --yes --container "$id" "$T/dev/nvidia0"
	[ "$status" -eq 2 ]
	clean "$output"
	lives "$PID"
	run "$GPUFREE" kill --yes --stop-owner --pid "$PID" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[[ $output == *"not stopped"* ]]
	[[ $output != *"stopping:"* ]]
	clean "$output"
	gone "$PID"
	[ ! -e "$T.ran" ]
}

@test "a container id of 255 bytes is kept whole" {
	make_node nvidia0
	hold_as plain "$T/dev/nvidia0"
	local id
	id=$(printf 'x%.0s' {1..243})
	in_cgroup "lxc.payload.$id"
	every_view_is_clean "$T/dev/nvidia0"
	run "$GPUFREE" list -q --container "$id" "$T/dev/nvidia0"
	[ "$output" = "$PID" ]
	run "$GPUFREE" list -q --container "${id%x}" "$T/dev/nvidia0"
	[ -z "$output" ]
}

@test "a service directory of a supervisor with escape codes in its name is quoted for a shell and escaped for a terminal" {
	need runsv
	make_node nvidia0
	local dir="$T/a $ESC[2J'b"
	mkdir "$dir"
	printf '#!/bin/sh\nexec 9<>%s\nexec sleep 1000\n' "$T/dev/nvidia0" >"$dir/run"
	chmod 0755 "$dir/run"
	start_holder RUNSV runsv "$dir"
	until_true 20 test -s "$dir/supervise/pid"
	PID=$(cat "$dir/supervise/pid")
	until_true 20 holds "$PID" "$MINOR"
	every_view_is_clean "$T/dev/nvidia0"
	run "$GPUFREE" kill --yes --stop-owner --pid "$PID" "$T/dev/nvidia0"
	kill -TERM "$RUNSV"
	until_true 20 gone "$RUNSV"
	[ "$status" -eq 0 ]
	clean "$output"
	gone "$PID"
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --unit, --session and list --by owner, on holders in cgroups of the names that systemd gives.

load owner

setup() {
	owner_setup
	need_root
	need_gpufree
	need jq
	make_node nvidia0
	start_holder PID bash -c 'exec 9<>"$1"; exec sleep 1000' x "$T/dev/nvidia0"
	start_holder OTHER bash -c 'exec 9<>"$1"; exec sleep 1000' x "$T/dev/nvidia0"
	until_true 20 holds "$PID" "$MINOR"
	until_true 20 holds "$OTHER" "$MINOR"
	UNIT=gpufree-test-$$.service
}

teardown() {
	owner_teardown
}

@test "--unit selects a unit's processes, with or without .service, and lifts its protection; others live" {
	in_cgroup "system.slice/$UNIT"
	for name in "$UNIT" "${UNIT%.service}"; do
		run "$GPUFREE" list -q --unit "$name" "$T/dev/nvidia0"
		[ "$status" -eq 0 ]
		[ "$output" = "$PID" ]
	done
	run "$GPUFREE" list -q --unit "gpufree-test" "$T/dev/nvidia0"
	[ -z "$output" ]
	# a service of the system's is left alone unless it is named
	run "$GPUFREE" kill -n --json --user root "$T/dev/nvidia0"
	[ "$(jq -r ".plan.spared[].pid" <<<"$output")" = "$PID" ]
	run "$GPUFREE" kill --yes --unit "$UNIT" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	gone "$PID"
	lives "$OTHER"
}

@test "--session selects a login session's processes" {
	in_cgroup "user.slice/user-1234.slice/session-c99.scope"
	run "$GPUFREE" list -q --session c99 "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[ "$output" = "$PID" ]
	run "$GPUFREE" list -q --session c9 "$T/dev/nvidia0"
	[ -z "$output" ]
	# a session is never ended whole for one process in it, whatever is asked
	run "$GPUFREE" kill -n --json --stop-owner --session c99 "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[ "$(jq -r '.plan.targets[0].stop.runs' <<<"$output")" = false ]
	run "$GPUFREE" kill --yes --stop-owner --session c99 "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	gone "$PID"
	lives "$OTHER"
}

@test "list --by owner has a line for each owner" {
	in_cgroup "system.slice/$UNIT"
	run "$GPUFREE" list --json --by owner "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[ "$(jq -c ".owners | map(select(.label == \"$UNIT\")) | .[].pids" <<<"$output")" = "[$PID]" ]
	[ "$(jq -r '[.owners[].pids[]] | length' <<<"$output")" = 2 ]
	run "$GPUFREE" list --by owner "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[[ $output == *"$UNIT"* ]]
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Real supervisors that start their child again: named, and stopped by their own command.

load owner

setup() {
	owner_setup
	need_root
	need_gpufree
	make_node nvidia0
	cat >"$T/hold" <<-END
		#!/bin/sh
		exec 9<>$T/dev/nvidia0
		exec sleep 1000
	END
	chmod 0755 "$T/hold"
	supervisord_pid=
}

teardown() {
	# they end their child on TERM; KILL would leave it
	local pid
	for pid in "${owner_pids[@]}" $supervisord_pid; do
		kill -TERM "$pid" 2>/dev/null || continue
		until_true 15 gone "$pid" || kill -KILL "$pid" 2>/dev/null || :
	done
	owner_teardown
}

start_runit() {
	need runsv sv
	mkdir "$T/hold.sv"
	cp "$T/hold" "$T/hold.sv/run"
	start_holder RUNSV runsv "$T/hold.sv"
	until_true 20 runit_child
	PID=$(cat "$T/hold.sv/supervise/pid")
}

runit_child() {
	local pid
	pid=$(cat "$T/hold.sv/supervise/pid" 2>/dev/null)
	[ -n "$pid" ] && holds "$pid" "$MINOR"
}

start_supervisord() {
	need supervisord supervisorctl
	cat >"$T/sup.conf" <<-END
		[unix_http_server]
		file=$T/sup.sock
		[rpcinterface:supervisor]
		supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
		[supervisord]
		logfile=$T/sup.log
		pidfile=$T/sup.pid
		[supervisorctl]
		serverurl=unix://$T/sup.sock
		[program:hold]
		command=$T/hold
		startsecs=0
	END
	supervisord -c "$T/sup.conf" 3>&- || skip "supervisord does not start here"
	until_true 20 test -s "$T/sup.pid"
	supervisord_pid=$(cat "$T/sup.pid")
	until_true 30 supervisord_child
	PID=$(supervisorctl -c "$T/sup.conf" pid hold)
}

supervisord_child() {
	local pid
	pid=$(supervisorctl -c "$T/sup.conf" pid hold 2>/dev/null)
	[[ $pid =~ ^[1-9][0-9]*$ ]] && holds "$pid" "$MINOR"
}

@test "runit: the supervisor is named and its own command stops the service for good" {
	need_probe
	start_runit
	run "$OWNER_PROBE" --stop "$PID"
	[ "$status" -eq 0 ]
	[ "$(probe_value again)" = yes ]
	[ "$(probe_value label)" = "$T/hold.sv (runit)" ]
	[ "$(probe_value stop)" = "sv down $T/hold.sv" ]
	[ "$(probe_value outcome)" = 0 ]
	until_true 20 gone "$PID"
	[[ "$(sv status "$T/hold.sv")" == down:* ]]
}

@test "supervisord: it confirms which program the process is, then stops it" {
	need_probe
	start_supervisord
	run "$OWNER_PROBE" --stop "$PID"
	[ "$status" -eq 0 ]
	[ "$(probe_value again)" = yes ]
	[ "$(probe_value label)" = "hold:hold (supervisord)" ]
	[ "$(probe_value stop)" = "supervisorctl -c $T/sup.conf stop hold:hold" ]
	[ "$(probe_value outcome)" = 0 ]
	gone "$PID"
	[[ "$(supervisorctl -c "$T/sup.conf" status)" == *STOPPED* ]]
}

@test "without --stop-owner the respawner is named, with the command that stops it, exit 1" {
	need_gpufree
	start_runit
	run "$GPUFREE" kill --yes --pid "$PID" "$T/dev/nvidia0"
	[ "$status" -eq 1 ]
	[[ $output == *runit* ]]
	[[ $output == *"sv down $T/hold.sv"* ]]
	# and it is true: the service runs again
	until_true 20 runit_child
}

@test "runit: --stop-owner stops the service, and it stays stopped" {
	need_gpufree
	start_runit
	run "$GPUFREE" kill --yes --stop-owner --pid "$PID" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[[ $output == *"sv down $T/hold.sv"* ]]
	gone "$PID"
	[[ "$(sv status "$T/hold.sv")" == down:* ]]
}

@test "supervisord: --stop-owner stops the program, and it stays stopped" {
	need_gpufree
	start_supervisord
	run "$GPUFREE" kill --yes --stop-owner --pid "$PID" "$T/dev/nvidia0"
	[ "$status" -eq 0 ]
	[[ $output == *supervisorctl* ]]
	gone "$PID"
	[[ "$(supervisorctl -c "$T/sup.conf" status)" == *STOPPED* ]]
}

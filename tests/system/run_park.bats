#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpufree run --park-on`: on a signal the command's CUDA processes leave the GPU, on another one they come back.

load helpers

setup() {
        cli_setup
        export BATS_TEST_TIMEOUT=120
        export GPUFREE_RUNTIME_DIR="$BATS_TEST_TMPDIR/run"
        mkdir -m 755 "$GPUFREE_RUNTIME_DIR"
        unset GPUFREE_SIM_FAULT
        started=()
}

teardown() {
        local pid
        unset GPUFREE_SIM_FAULT
        for pid in "${started[@]}"; do
                kill -KILL "$pid" 2>/dev/null || :
        done
        cli_teardown
}

guard() {
        # shellcheck disable=SC2086
        timeout -k 5 60 "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace "$@" 3>&-
}

said() {
        grep -qs -- "$1" "$BATS_TEST_TMPDIR/err"
}

on_gpu() {
        [ "$(sim_used 0)" -eq "$1" ]
}

# job ARGS…: a guard ($pid) on GPU 0 whose command is a CUDA process ($cuda) with 1 GiB, behind a shell.
job() {
        # shellcheck disable=SC2086
        "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace --gpu 0 "$@" -- \
                sh -c 'trap "exit 0" TERM; "$1" plain --gpu 0 --memory 1GiB & wait' sh "$HOLDER" \
                >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
        pid=$!
        started+=("$pid")
        sim_wait_for on_gpu $((1 << 30))
        sim_wait_for test -s "$BATS_TEST_TMPDIR/out"
        cuda="$(head -1 "$BATS_TEST_TMPDIR/out")"
}

ends() {
        status=0
        wait "$pid" || status=$?
}

@test "run --park-on: parked on USR1, the GPU goes to others, back on USR2, verified free at the end" {
        sim_up --gpus 1
        job --park-on USR1
        kill -USR1 "$pid"
        sim_wait_for said "GPU 0 given up while it is parked: SIGUSR2 brings it back"
        said "$cuda is parked"
        on_gpu 0
        alive "$cuda"
        run gpufree list
        [[ "$output" == *"Parked: $cuda"* ]]
        run guard -q -- sh -c 'exit 7'
        echo "$output"
        [ "$status" -eq 7 ]
        kill -USR2 "$pid"
        sim_wait_for said "$cuda runs again"
        on_gpu $((1 << 30))
        run guard -q --gpu 0 -- true
        echo "$output"
        [ "$status" -eq 121 ]
        kill -TERM "$pid"
        ends
        cat "$BATS_TEST_TMPDIR/err"
        [ "$status" -eq 0 ]
        said "GPU 0 verified free"
        sim_wait_gone "$cuda"
}

@test "run --park-on: five times; a second USR1 and an early USR2 change nothing" {
        sim_up --gpus 1
        job --park-on USR2 --unpark-on USR1
        kill -USR1 "$pid"
        sim_wait_for said "it is not parked"
        for n in 1 2 3 4 5; do
                kill -USR2 "$pid"
                sim_wait_for on_gpu 0
                kill -USR1 "$pid"
                sim_wait_for on_gpu $((1 << 30))
        done
        alive "$cuda"
        kill -TERM "$pid"
        ends
        [ "$status" -eq 0 ]
}

@test "run --park-on: while another guard has the GPU it stays parked, and says who has it" {
        sim_up --gpus 1
        job --park-on USR1
        kill -USR1 "$pid"
        sim_wait_for said "given up"
        # shellcheck disable=SC2086
        "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace --gpu 0 -- sh -c 'echo on; exec sleep 1000' \
                >"$BATS_TEST_TMPDIR/other" 2>/dev/null 3>&- &
        other=$!
        started+=("$other")
        sim_wait_for test -s "$BATS_TEST_TMPDIR/other"
        kill -USR2 "$pid"
        sim_wait_for said "it stays parked: GPU 0 is claimed by another guard, process $other"
        on_gpu 0
        kill -TERM "$other"
        wait "$other" || true
        kill -USR2 "$pid"
        sim_wait_for said "$cuda runs again"
        on_gpu $((1 << 30))
        kill -TERM "$pid"
        ends
        [ "$status" -eq 0 ]
}

@test "run --park-on: it ends while parked: its status, and the GPU that others may have is not judged" {
        sim_up --gpus 1
        job --park-on USR1
        kill -USR1 "$pid"
        sim_wait_for said "given up"
        add plain --gpu 0 --memory 2GiB
        kill -TERM "${started[0]}"
        status=0
        wait "${started[0]}" || status=$?
        cat "$BATS_TEST_TMPDIR/err"
        [ "$status" -eq 0 ]
        said "it ended while it was parked: GPU 0 had been given up"
        sim_wait_gone "$cuda"
        alive "$pid"
        on_gpu $((2 << 30))
}

@test "run --park-on: SIGKILL of the guard while parked leaves nothing behind" {
        sim_up --gpus 1
        job --park-on USR1
        kill -USR1 "$pid"
        sim_wait_for said "given up"
        kill -KILL "$pid"
        sim_wait_gone "$cuda"
        run gpufree list
        [[ "$output" != *"Parked: $cuda"* ]]
        run guard -q -- true
        [ "$status" -eq 0 ]
}

@test "run --park-on: what cannot be parked runs on, and the claim is kept" {
        sim_up --gpus 1
        GPUFREE_SIM_FAULT=cuda-error=801:checkpoint job --park-on USR1
        kill -USR1 "$pid"
        sim_wait_for said "it was not parked, and runs on"
        said "$cuda was not parked and runs on"
        on_gpu $((1 << 30))
        run guard -q --gpu 0 -- true
        [ "$status" -eq 121 ]
        kill -TERM "$pid"
        ends
        [ "$status" -eq 0 ]
}

@test "run --park-on: USR2 while it is being parked brings it back afterwards; TERM is passed on meanwhile" {
        sim_up --gpus 1
        GPUFREE_SIM_FAULT=cuda-slow=1500 job --park-on USR1
        kill -USR1 "$pid"
        sim_wait_for said "parking what it has on GPU 0"
        kill -USR2 "$pid"
        sim_wait_for said "$cuda is parked"
        sim_wait_for said "$cuda runs again"
        kill -USR1 "$pid"
        kill -TERM "$pid"
        ends
        [ "$status" -eq 0 ]
        sim_wait_gone "$cuda"
}

@test "run --park-on: a command without a CUDA process has nothing to park; bad usage" {
        sim_up --gpus 1
        # shellcheck disable=SC2086
        "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace --park-on USR1 -- sh -c 'echo on; exec sleep 1000' \
                >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
        pid=$!
        started+=("$pid")
        sim_wait_for test -s "$BATS_TEST_TMPDIR/out"
        kill -USR1 "$pid"
        sim_wait_for said "none of its processes holds GPU 0: nothing was parked"
        kill -TERM "$pid"
        ends
        [ "$status" -eq 143 ]
        for wrong in "--park-on TERM" "--unpark-on USR1" "--park-on USR1 --unpark-on USR1" "--park-on nonsense"; do
                # shellcheck disable=SC2086
                run guard $wrong -- true
                echo "$output"
                [ "$status" -eq 2 ]
                [ "${#lines[@]}" -eq 1 ]
        done
}

@test "run --preempt: a job of lower priority is parked meanwhile, and comes back by itself" {
        sim_up --gpus 1
        job --park-on USR1
        run guard --gpu 0 --preempt --priority 1 -- sh -c "grep -c . '$NODE/state' >/dev/null; exit 7"
        echo "$output"
        [ "$status" -eq 7 ]
        [[ "$output" == *"asking process $pid to park what it has on GPU 0"* ]]
        [[ "$output" == *"claimed GPU 0, free"* ]]
        said "needs GPU 0 and has the higher priority (1)"
        sim_wait_for said "$cuda runs again"
        on_gpu $((1 << 30))
        kill -TERM "$pid"
        ends
        cat "$BATS_TEST_TMPDIR/err"
        [ "$status" -eq 0 ]
}

@test "run --preempt: killed with its command running, the parked job still comes back once that has ended" {
        sim_up --gpus 1
        job --park-on USR1
        # shellcheck disable=SC2086
        "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace --gpu 0 --preempt --priority 1 -- sh -c 'echo on; exec sleep 1000' \
                >"$BATS_TEST_TMPDIR/other" 2>/dev/null 3>&- &
        other=$!
        started+=("$other")
        sim_wait_for test -s "$BATS_TEST_TMPDIR/other"
        on_gpu 0
        alive "$cuda"
        kill -KILL "$other"
        sim_wait_for said "$cuda runs again"
        on_gpu $((1 << 30))
        kill -TERM "$pid"
        ends
        [ "$status" -eq 0 ]
}

@test "run --preempt: not without a higher priority, not one without --park-on; a parking that fails is no claim" {
        sim_up --gpus 1
        job --park-on USR1 --priority 5
        run guard --gpu 0 --preempt --priority 5 -- true
        echo "$output"
        [ "$status" -eq 121 ]
        [[ "$output" == *"process $pid, which was not preempted: its priority is not lower"* ]]
        run guard --gpu 0 --priority 9 -- true
        [ "$status" -eq 121 ]
        [[ "$output" != *"asking"* ]]
        on_gpu $((1 << 30))
        kill -TERM "$pid"
        ends
        rm "$BATS_TEST_TMPDIR/out"
        job
        run guard --gpu 0 --preempt --priority 9 --grace 1s -- true
        echo "$output"
        [ "$status" -eq 121 ]
        [[ "$output" == *"not started with --park-on"* ]]
        kill -TERM "$pid"
        ends
        rm "$BATS_TEST_TMPDIR/out"
        GPUFREE_SIM_FAULT=cuda-error=801:checkpoint job --park-on USR1
        run guard --gpu 0 --preempt --priority 1 -- true
        echo "$output"
        [ "$status" -eq 121 ]
        [[ "$output" == *"it could not be parked"* ]]
        on_gpu $((1 << 30))
        alive "$cuda"
        kill -TERM "$pid"
        ends
        [ "$status" -eq 0 ]
}

@test "run --preempt: a guard never parks for another user" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to be somebody else"
        sim_up --gpus 1
        job --park-on USR1
        as_nobody /usr/bin/python3 -c 1 || skip "no python3 for other users"
        # The claim's socket, as another user's guard would ask there.
        run as_nobody /usr/bin/python3 -c '
import socket, struct
name = next(l.split()[-1][1:] for l in open("/proc/net/unix") if "@gpufree-claim:" in l and ":pci-" in l)
s = socket.socket(socket.AF_UNIX)
s.connect("\0" + name)
s.settimeout(20)
try:
    s.send(struct.pack("=IIi240s", 0x67667031, 0, 100, b""))
    got = s.recv(1000)
except (ConnectionResetError, BrokenPipeError):
    got = b""
print("answer", len(got))'
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == "answer 0" ]]
        on_gpu $((1 << 30))
        ! said "higher priority"
        kill -TERM "$pid"
        ends
        [ "$status" -eq 0 ]
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpufree kill --park-first` on a simulated node: who can be parked lives on, the rest is ended, the memory is back.

load helpers

setup() {
        cli_setup
        export GPUFREE_RUNTIME_DIR="$BATS_TEST_TMPDIR/run"
        mkdir -m 755 "$GPUFREE_RUNTIME_DIR"
        unset GPUFREE_SIM_FAULT
}

teardown() {
        unset GPUFREE_SIM_FAULT
        cli_teardown
}

in_state() {
        run gpufree list --json
        [ "$(json "['parked']" | python3 -c "import json,sys; print([p['state'] for p in json.load(sys.stdin) if p['pid'] == $1])")" = "['$2']" ]
}

# two: a CUDA process ($cuda) and one that is none ($other), both on GPU 0; a bystander on GPU 1.
two() {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB
        cuda=$pid
        add zombie-leader --gpu 0 --memory 2GiB
        other=$pid
        add plain --gpu 1 --memory 1GiB
        bystander=$pid
}

@test "kill --park-first: who can be parked is, the rest is ended, GPU verified, exit 0; the parked one comes back" {
        two
        run gpufree kill -y --gpu 0 --park-first
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"Will park or else end 2 processes, to free 3.0 GiB on GPU 0"* ]]
        [[ "$output" == *"park, else TERM"* ]]
        [[ "$output" == *"$cuda is parked"* ]]
        [[ "$output" == *"$other is no CUDA process"* ]]
        [[ "$output" == *"verified free"* ]]
        sim_wait_gone "$other"
        alive "$cuda"
        alive "$bystander"
        [ "$(sim_used 0)" -eq 0 ]
        in_state "$cuda" parked
        gpufree unpark "$cuda"
        [ "$(sim_used 0)" -eq $((1 << 30)) ]
}

@test "kill --park-first: the dry run shows it and does nothing; JSON says park_first" {
        two
        run gpufree kill -n --gpu 0 --park-first
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"Will park or else end 2 processes"* ]]
        [[ "$output" == *"Each is parked if the driver can"* ]]
        run_apart gpufree kill -n --gpu 0 --park-first --json
        output=$out
        [ "$(json '["park_first"]')" = true ]
        [ "$(sim_used 0)" -eq $((3 << 30)) ]
        run gpufree kill -n --gpu 0 --json
        [ "$(json '["park_first"]')" = false ]
}

@test "kill --park-first: one JSON document: who was parked, who was ended, why" {
        two
        run_apart gpufree kill -y --gpu 0 --park-first --json
        output=$out
        [ "$status" -eq 0 ]
        [ "$(json '["outcome"]')" = '"ok"' ]
        [ "$(json "['parked']" | python3 -c 'import json,sys; print(sorted((p["pid"], p["state"]) for p in json.load(sys.stdin)))')" = \
                "$(python3 -c "print(sorted([($cuda, 'parked'), ($other, 'not-cuda')]))")" ]
        [ "$(json '["fates"]' | python3 -c 'import json,sys; print([f["pid"] for f in json.load(sys.stdin)])')" = "[$other]" ]
        [ "$(json '["plan"]["targets"]' | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))')" -eq 2 ]
}

@test "kill --park-first: what cannot be locked or copied is ended, the other is parked" {
        for fault in cuda-error=801:lock cuda-error=801:checkpoint; do
                sim_up --gpus 1
                add plain --gpu 0 --memory 1GiB
                first=$pid
                add plain --gpu 0 --memory 1GiB
                GPUFREE_SIM_FAULT=$fault:$pid run gpufree kill -y --gpu 0 --park-first
                echo "$output"
                [ "$status" -eq 0 ]
                [[ "$output" == *"$first is parked"* ]]
                sim_wait_gone "$pid"
                in_state "$first" parked
                cli_teardown
        done
}

@test "kill --park-first: a copy that hangs is given up after --timeout, and the process ended" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        GPUFREE_SIM_FAULT=cuda-hang=checkpoint run gpufree kill -y --gpu 0 --park-first --timeout 2s
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"runs on"* ]]
        sim_wait_gone "$pid"
}

@test "kill --park-first: what the driver may still be copying is neither ended nor called free" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        GPUFREE_SIM_FAULT=cuda-slow=60000 run gpufree kill -y --gpu 0 --park-first --timeout 1s
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"$pid: the driver did not come to an end in time, and its state is"*"gpufree unpark $pid"* ]]
        [[ "$output" != *"verified free"* ]]
        alive "$pid"
}

@test "kill --park-first: without the driver's calls all are ended, as the plan said" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        cp "$NODE/lib/libnvidia-ml.so.1" "$NODE/lib/libcuda.so.1"
        run gpufree kill -y --gpu 0 --park-first
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"driver 570"* ]]
        sim_wait_gone "$pid"
}

@test "kill --park-first: a peer that is not selected keeps the memory: parked, exit 5; selected, it is ended: exit 0" {
        sim_up --gpus 1
        add exporter --gpu 0 --memory 1GiB
        peer="$(sed -n 2p <<<"$added")"
        run gpufree kill -y --pid "$pid" --park-first --settle 300ms
        echo "$status $output"
        [ "$status" -eq 5 ]
        alive "$pid"
        alive "$peer"
        gpufree unpark "$pid"
        run gpufree kill -y --pid "$pid,$peer" --park-first --settle 1s
        echo "$output"
        [ "$status" -eq 0 ]
        sim_wait_gone "$peer"
        in_state "$pid" parked
}

@test "kill --park-first: not confirmed, or with --stop-owner, nothing is done; -q" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        run gpufree kill --gpu 0 --park-first </dev/null
        [ "$status" -eq 4 ]
        alive "$pid"
        [ "$(sim_used 0)" -eq $((1 << 30)) ]
        run gpufree kill -y --gpu 0 --park-first --stop-owner
        [ "$status" -eq 2 ]
        [ "${#lines[@]}" -eq 1 ]
        [[ "$output" == *"exclude each other"* ]]
        run gpufree kill -y --gpu 0 --park-first -q
        echo "$output"
        [ "$status" -eq 0 ]
        has_pid "$pid"
        in_state "$pid" parked
}

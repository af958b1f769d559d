#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpufree check` and `gpufree wait`: free or not, on what evidence.

load helpers

setup() {
        cli_setup
}

teardown() {
        cli_teardown
}

@test "check: free is 0, held is 1, GPU by GPU" {
        sim_up --gpus 2
        run gpufree check
        [ "$status" -eq 0 ]
        add plain --gpu 1
        run gpufree check
        [ "$status" -eq 1 ]
        run gpufree check --gpu 0
        [ "$status" -eq 0 ]
        run gpufree check --for run --gpu 1
        [ "$status" -eq 1 ]
        run gpufree check -q --gpu 1
        [ "$output" = "$pid" ]
}

@test "check: memory with no holder to be found is 5" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 20GiB
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        GPUFREE_SIM_FAULT=never run gpufree check
        echo "$output"
        [ "$status" -eq 5 ]
        [[ "$output" != *"  free  "* ]]
}

@test "check: other purposes and options of other commands are bad usage" {
        sim_up --gpus 1
        for wrong in "--for tea" "--grace 5s" "--yes"; do
                # shellcheck disable=SC2086
                run_apart gpufree check $wrong
                [ "$status" -eq 2 ]
                [ "$out" = "" ]
                [ "$(wc -l <"$BATS_TEST_TMPDIR/err")" -eq 1 ]
        done
}

@test "check: a driver that fails is never taken for free memory" {
        sim_up --gpus 1
        add plain --gpu 0
        GPUFREE_SIM_FAULT=error=15 run gpufree check
        [ "$status" -ne 0 ]
        GPUFREE_SIM_FAULT=hang run timeout 60 "$GPUFREE" $GPUFREE_OPTS --scope namespace check
        [ "$status" -ne 0 ]
        [ "$status" -ne 124 ]
}

@test "wait: free already, it returns at once" {
        sim_up --gpus 1
        run timeout 30 "$GPUFREE" $GPUFREE_OPTS --scope namespace wait
        [ "$status" -eq 0 ]
}

@test "wait: returns when the holder has ended" {
        sim_up --gpus 1
        add plain --gpu 0
        "$GPUFREE" $GPUFREE_OPTS --scope namespace wait --timeout 60s >"$BATS_TEST_TMPDIR/o" 2>&1 3>&- &
        waiting=$!
        kill -KILL "$pid"
        status=0
        wait "$waiting" || status=$?
        cat "$BATS_TEST_TMPDIR/o"
        [ "$status" -eq 0 ]
}

@test "wait: the time given is over, exit 6" {
        sim_up --gpus 1
        add plain --gpu 0
        run gpufree wait --timeout 300ms
        [ "$status" -eq 6 ]
        alive "$pid"
        run gpufree wait --timeout 0
        [ "$status" -eq 6 ]
}

@test "wait: interrupted, exit 128 and the signal" {
        sim_up --gpus 1
        add plain --gpu 0
        "$GPUFREE" $GPUFREE_OPTS --scope namespace wait >/dev/null 2>"$BATS_TEST_TMPDIR/e" 3>&- &
        waiting=$!
        # Its handlers are in place once it looks into the driver; the caught-signals mask says so.
        caught() {
                mask=$(awk '/^SigCgt/ { print $2 }' "/proc/$1/status")
                [ $((0x$mask >> 14 & 1)) -eq 1 ]
        }
        sim_wait_for caught "$waiting"
        kill -TERM "$waiting"
        status=0
        wait "$waiting" || status=$?
        [ "$status" -eq 143 ]
        grep -q "interrupted by SIGTERM" "$BATS_TEST_TMPDIR/e"
}

@test "wait: a bystander that merely has the device open is not waited for" {
        sim_up --gpus 1
        add open --gpu 0
        run timeout 30 "$GPUFREE" $GPUFREE_OPTS --scope namespace wait --timeout 20s
        [ "$status" -eq 0 ]
        alive "$pid"
}

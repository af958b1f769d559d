#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A driver library that fails in every way it can: each with its sentence and exit status, and never "free" on its word.

bats_require_minimum_version 1.5.0
load helpers

setup() { cli_setup; }
teardown() { cli_teardown; }

# NVML's returns, and what is said of each.
returns() {
        cat <<'END'
3 NOT_SUPPORTED the driver does not offer this here
4 NO_PERMISSION the driver refuses this user
6 NOT_FOUND the driver does not know it any more
9 DRIVER_NOT_LOADED modprobe nvidia
10 TIMEOUT gave up waiting
12 LIBRARY_NOT_FOUND a library that libnvidia-ml.so.1 needs is missing
13 FUNCTION_NOT_FOUND lacks a function
15 GPU_IS_LOST fallen off the bus
16 RESET_REQUIRED must be reset
17 OPERATING_SYSTEM a cgroup or container
18 LIB_RM_VERSION_MISMATCH Driver/library version mismatch
25 ARGUMENT_VERSION_MISMATCH another version
28 GPU_NOT_FOUND finds no GPU
999 UNKNOWN gives no reason
END
}

# try FAULT COMMAND EXPECTED [TEXT]: its exit status, and its text in what it says.
try() {
        GPUFREE_SIM_FAULT=$1 run timeout 60 "$GPUFREE" $GPUFREE_OPTS --scope namespace $2
        if [ "$status" -ne "$3" ] || [[ "$(tr -s '[:space:]' ' ' <<<"$output")" != *"${4-}"* ]]; then
                echo "GPUFREE_SIM_FAULT=$1 gpufree $2: exit $status, not $3, or not \"${4-}\" in:"
                echo "$output"
                return 1
        fi
}

@test "faults: every return of initialising NVML: the holder is found, an idle GPU is not called free" {
        sim_up --gpus 2
        while read -r code name text; do
                try "error=$code" "check" 3 "$text"
                try "error=$code" "list" 3 "($name)"
                try "error=$code" "explain" 3 "($name)"
        done < <(returns)
        add plain --gpu 0
        while read -r code name text; do
                try "error=$code" "check" 1 "held by $pid"
                try "error=$code" "explain" 3 "held by $pid"
        done < <(returns)
}

@test "faults: every return about one GPU concerns that GPU alone" {
        sim_up --gpus 2
        while read -r code name text; do
                try "error=$code:0" "check --gpu 0" 3 "$text"
                try "error=$code:0" "check --gpu 1" 0 "0 B held"
                try "error=$code:0" "list" 0 "($name)"
        done < <(returns)
        add plain --gpu 0
        while read -r code name text; do
                try "error=$code:0" "check --gpu 0" 1 "held by $pid"
        done < <(returns)
}

@test "faults: every return of the process lists: memory and the look are the evidence" {
        sim_up --gpus 1
        add plain --gpu 0
        while read -r code name text; do
                try "error=$code:0:list" "check" 1 "held by $pid"
                try "error=$code:0:list" "explain" 0 "held by $pid"
                try "error=$code:0:list" "list" 0 "($name)"
        done < <(returns)
}

@test "faults: every return of the memory figure: unknown is not free" {
        sim_up --gpus 1
        while read -r code name text; do
                case $code in
                15 | 16) try "error=$code:0:memory" "check" 3 "cannot be used" ;;
                *) try "error=$code:0:memory" "check" 3 "gave no memory figure" ;;
                esac
                try "error=$code:0:memory" "explain" 0 "gave no figure of what is used"
        done < <(returns)
}

@test "faults: a number that is in no table is said as it is" {
        sim_up --gpus 1
        try error=77 check 3 "NVML's error 77"
}

@test "faults: a hang costs its deadline, then the list comes all the same" {
        sim_up --gpus 1
        add plain --gpu 0
        for call in init handle list memory; do
                begin=$SECONDS
                try "hang=$call" list 3 "did not answer within"
                [ $((SECONDS - begin)) -lt 40 ]
                GPUFREE_SIM_FAULT=hang=$call run timeout 60 "$GPUFREE" $GPUFREE_OPTS --scope namespace list -q
                has_pid "$pid"
        done
}

@test "faults: a crash is said, and the list comes all the same" {
        sim_up --gpus 1
        add plain --gpu 0
        for call in init handle list memory; do
                try "crash=$call" list 3 "NVML crashed"
                try "crash=$call" check 1 "held by $pid"
                try "crash=$call" explain 3 "held by $pid"
        done
}

@test "faults: 16, 24 and 32 bytes a process are told apart" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 4GiB
        for fault in no-v2 no-v3 stride32 ""; do
                GPUFREE_SIM_FAULT=$fault run --separate-stderr gpufree list --json
                [ "$(json '["holders"][0]["gpus"][0]["memory"]')" = "$((4 << 30))" ]
                [ "$(json '["holders"][0]["pid"]')" = "$pid" ]
        done
}

@test "faults: a driver that does not give apart what it reserves is not blamed for a leak" {
        sim_up --gpus 1
        try no-v2 explain 0 "1. The figure of what is used contains what the driver reserves"
}

@test "faults: a list of 950 PIDs is full, said so, and not believed to be whole" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 4GiB
        try full-list list 0 "lists 950 processes at most"
        try full-list check 1 "$pid"
        try full-list explain 0
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        # 950 PIDs that do not run, no memory, no holder: what the look says.
        GPUFREE_SIM_FAULT=full-list run gpufree check
        echo "$output"
        [ "$status" -eq 0 ]
}

@test "faults: PIDs of another namespace are not taken for ours" {
        sim_up --gpus 1
        add_or_skip pidns --gpu 0 --memory 4GiB
        run --separate-stderr gpufree explain --json
        [ "$status" -eq 0 ]
        [ "$(json '["accounts"][0]["unaccounted"]')" = 0 ]
        # What is hidden from us is in the hands of the one that has the GPU open.
        GPUFREE_SIM_FAULT=hide-pids run --separate-stderr gpufree explain --json
        [ "$(json '["accounts"][0]["entries"][1]["kind"]')" = '"together"' ]
}

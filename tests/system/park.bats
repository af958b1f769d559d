#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpufree park` and `unpark`, on a simulated node with a stand-in libcuda.so.1 whose holders really close and open their
# devices.

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

# devices PID: how many descriptors of the node's GPUs it has.
devices() {
        local gpu n=0
        for gpu in "$NODE"/dev/nvidia[0-9]*; do
                n=$((n + $(sim_fds "$1" "$(basename "$gpu")")))
        done
        echo "$n"
}

# in_state PID STATE: what the driver says, as gpufree shows it.
in_state() {
        run gpufree list --json
        [ "$(json "['parked']" | python3 -c "import json,sys; print([p['state'] for p in json.load(sys.stdin) if p['pid'] == $1])")" = "['$2']" ]
}

# resident PID: its resident memory in KiB. grown PID BEFORE: has that grown by 8 MiB?
resident() {
        awk '$1 == "VmRSS:" { print $2 }' "/proc/$1/status"
}

grown() {
        [ "$(resident "$1")" -gt $(($2 + 8192)) ]
}

records() {
        find "$GPUFREE_RUNTIME_DIR" -type f | wc -l
}

@test "park: the memory is back, no device is open, the process lives; unpark brings it back" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB
        target=$pid
        add plain --gpu 1 --memory 1GiB
        neighbour=$pid
        run gpufree park --pid "$target"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"$target is parked: GPU 0 has 1.0 GiB more"* ]]
        alive "$target"
        [ "$(devices "$target")" -eq 0 ]
        [ "$(sim_used 0)" -eq 0 ]
        [ "$(devices "$neighbour")" -gt 0 ]
        run gpufree check --gpu 0
        [ "$status" -eq 0 ]
        run gpufree unpark "$target"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"$target runs again: 1.0 GiB on GPU 0"* ]]
        [ "$(sim_used 0)" -eq $((1 << 30)) ]
        [ "$(records)" -eq 0 ]
}

@test "park: ten times in a row" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        for n in $(seq 10); do
                gpufree park --gpu 0
                [ "$(devices "$pid")" -eq 0 ]
                gpufree unpark --all
                [ "$(devices "$pid")" -gt 0 ]
        done
}

@test "park: list shows who is parked, since when, by whom; JSON too" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        gpufree park --pid "$pid"
        run gpufree list
        echo "$output"
        [[ "$output" == *"Parked: $pid (python3)"*"by $(id -un)"*"1.0 GiB of GPU 0"* ]]
        run gpufree list --json
        [ "$(json '["parked"][0]["state"]')" = '"parked"' ]
        [ "$(json '["parked"][0]["memory"]')" -eq $((1 << 30)) ]
        [ "$(json '["holders"]')" = "[]" ]
}

@test "park: a second time it is parked already, exit 0" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        gpufree park --pid "$pid"
        run gpufree park --pid "$pid"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"parked already"* ]]
        run gpufree unpark "$pid"
        [ "$status" -eq 0 ]
        run gpufree unpark "$pid"
        [ "$status" -eq 0 ]
        [[ "$output" == *"nothing to do"* ]]
}

@test "park: all of a GPU together; each comes back" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 100MiB
        first=$pid
        add plain --gpu 0 --memory 200MiB
        run gpufree park --gpu 0 -q
        [ "$status" -eq 0 ]
        has_pid "$first"
        has_pid "$pid"
        [ "$(sim_used 0)" -eq 0 ]
        run gpufree unpark --all
        [ "$status" -eq 0 ]
        [ "$(sim_used 0)" -eq $((300 << 20)) ]
}

@test "park: moved to another GPU, the booking follows" {
        sim_up --gpus 3
        add plain --gpu 0 --memory 1GiB
        gpufree park --pid "$pid"
        run gpufree unpark "$pid" --to 2
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"runs again: 1.0 GiB on GPU 2"* ]]
        [ "$(sim_used 0)" -eq 0 ]
        [ "$(sim_used 2)" -eq $((1 << 30)) ]
        gpufree park --pid "$pid"
        run gpufree unpark "$pid" --to 2:1
        [ "$status" -eq 0 ]
        [ "$(sim_used 1)" -eq $((1 << 30)) ]
}

@test "park: --to a GPU that is not there, or without one known: exit 2, it stays parked" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB
        gpufree park --pid "$pid"
        run gpufree unpark "$pid" --to 7
        [ "$status" -eq 2 ]
        rm -r "$GPUFREE_RUNTIME_DIR"/parked
        run gpufree unpark "$pid" --to 1
        echo "$output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"no record tells"* ]]
        run gpufree unpark "$pid" --to 0:1
        [ "$status" -eq 0 ]
}

@test "park: a driver before 580 cannot restore elsewhere; it stays parked and goes back" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB
        export GPUFREE_SIM_FAULT=cuda-old
        gpufree park --pid "$pid"
        run gpufree unpark "$pid" --to 1
        echo "$output"
        [ "$status" -eq 4 ]
        [[ "$output" == *"driver 580"* ]]
        in_state "$pid" parked
        run gpufree unpark "$pid"
        [ "$status" -eq 0 ]
}

@test "park: no room on the GPU: refused, stays parked" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        target=$pid
        gpufree park --pid "$target"
        add plain --gpu 0 --memory 140GiB
        run gpufree unpark "$target"
        echo "$output"
        [ "$status" -eq 4 ]
        [[ "$output" == *"stays parked"*"1.0 GiB are needed"* ]]
        in_state "$target" parked
}

@test "park: not enough host memory: refused, nothing was done" {
        sim_up --gpus 16
        add plain --gpu 0 --memory 138GiB
        [ "$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)" -lt $((138 << 20)) ] || skip "this machine has that much"
        run gpufree park --pid "$pid"
        echo "$output"
        [ "$status" -eq 4 ]
        [[ "$output" == *"of host memory"* ]]
        [ "$(devices "$pid")" -gt 0 ]
        [ "$(records)" -eq 0 ]
}

@test "park: a stopped process is refused; --continue lets it go on and parks it" {
        sim_up --gpus 1
        add stopped --gpu 0 --memory 1GiB
        run gpufree park --pid "$pid"
        echo "$output"
        [ "$status" -eq 4 ]
        [[ "$output" == *"--continue"* ]]
        [ "$(devices "$pid")" -gt 0 ]
        run gpufree park --pid "$pid" --continue
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(devices "$pid")" -eq 0 ]
}

@test "park: a process that is not CUDA is refused, and nobody beside it is parked" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        cuda=$pid
        add zombie-leader --gpu 0 --memory 1GiB
        run gpufree park --gpu 0
        echo "$output"
        [ "$status" -eq 4 ]
        [[ "$output" == *"$pid is no CUDA process"* ]]
        [[ "$output" == *"$cuda was not parked: another of them is refused"* ]]
        [ "$(devices "$cuda")" -gt 0 ]
        run gpufree park --pid $$
        [ "$status" -eq 4 ]
        run gpufree unpark $$
        [ "$status" -eq 4 ]
}

@test "park: another user's process is refused" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to be somebody else"
        command -v setpriv >/dev/null || skip "no setpriv"
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        # Named by PID and not to be seen by others: asked about all the same. No device needs to be found for that.
        as_nobody "$GPUFREE" --version >/dev/null || skip "the command cannot be run by others here"
        mkdir -m 755 "$BATS_TEST_TMPDIR/nothing"
        for command in "unpark $pid" "park --pid $pid"; do
                # shellcheck disable=SC2086
                run as_nobody env -u GPUFREE_RUNTIME_DIR -u GPUFREE_SIM_DIR "$GPUFREE" $command --scope namespace
                echo "$output"
                [ "$status" -eq 4 ]
                [[ "$output" == *"$pid belongs to root"* ]]
        done
        [ "$(devices "$pid")" -gt 0 ]
}

@test "park: a peer keeps exported memory: exit 5, and it is named" {
        sim_up --gpus 1
        add exporter --gpu 0 --memory 1GiB
        peer="$(sed -n 2p <<<"$added")"
        run gpufree park --pid "$pid" --settle 300ms
        echo "$output"
        [ "$status" -eq 5 ]
        [[ "$output" == *"1.0 GiB of GPU 0 did not come back"*"$peer (rdma-relay)"* ]]
        [ "$(devices "$pid")" -eq 0 ]
        run gpufree unpark "$pid"
        [ "$status" -eq 0 ]
}

@test "park: memory that never comes back with nobody behind it: exit 5" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        GPUFREE_SIM_FAULT=never run gpufree park --pid "$pid" --settle 300ms
        echo "$output"
        [ "$status" -eq 5 ]
        [[ "$output" == *"did not come back"* ]]
}

@test "park: memory that comes back late is waited for" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        GPUFREE_SIM_FAULT=late=400 run gpufree park --pid "$pid"
        echo "$output"
        [ "$status" -eq 0 ]
}

@test "park: a device that stays open: exit 1" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        GPUFREE_SIM_FAULT=cuda-keep run gpufree park --pid "$pid" --settle 300ms
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"still has"*"open"* ]]
}

@test "park: no libcuda, or one without the calls: exit 4, one sentence, nothing done" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        mv "$NODE/lib/libcuda.so.1" "$BATS_TEST_TMPDIR/libcuda"
        if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
                run gpufree park --pid "$pid"
                echo "$output"
                [ "$status" -eq 4 ]
                [[ "$output" == *"libcuda.so.1"* ]]
        fi
        cp "$NODE/lib/libnvidia-ml.so.1" "$NODE/lib/libcuda.so.1"
        run gpufree park --pid "$pid"
        rm "$NODE/lib/libcuda.so.1"
        mv "$BATS_TEST_TMPDIR/libcuda" "$NODE/lib/libcuda.so.1"
        echo "$output"
        [ "$status" -eq 4 ]
        [[ "$output" == *"driver 570"* ]]
        [ "$(devices "$pid")" -gt 0 ]
}

@test "park: a lock that fails or crashes: exit 1, runs on" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        for fault in cuda-error=801:lock cuda-crash=lock; do
                GPUFREE_SIM_FAULT=$fault run gpufree park --pid "$pid"
                echo "$output"
                [ "$status" -eq 1 ]
                [[ "$output" == *"$pid could not be locked"* ]]
                [ "$(devices "$pid")" -gt 0 ]
                [ "$(records)" -eq 0 ]
        done
        GPUFREE_SIM_FAULT=cuda-error=600:lock run gpufree park --pid "$pid"
        [ "$status" -eq 6 ]
        gpufree park --pid "$pid"
}

@test "park: one of two cannot be locked: the other is unlocked again" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB
        first=$pid
        add plain --gpu 1 --memory 1GiB
        GPUFREE_SIM_FAULT=cuda-error=801:lock:$pid run gpufree park --gpu 0,1
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"$pid could not be locked"* ]]
        [[ "$output" == *"$first was not parked: another of them could not be locked"* ]]
        run gpufree unpark "$first" "$pid"
        [[ "$output" == *"$first runs, it is not parked"* ]]
        [[ "$output" == *"$pid runs, it is not parked"* ]]
}

@test "park: one of two cannot be copied: it runs on, the other is parked, exit 1" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB
        first=$pid
        add plain --gpu 1 --memory 1GiB
        GPUFREE_SIM_FAULT=cuda-error=801:checkpoint:$pid run gpufree park --gpu 0,1
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"$pid was not parked and runs on"* ]]
        [[ "$output" == *"$first is parked"* ]]
        in_state "$first" parked
        run gpufree unpark --all
        [ "$status" -eq 0 ]
}

@test "park: a checkpoint that crashes leaves it running" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        GPUFREE_SIM_FAULT=cuda-crash=checkpoint run gpufree park --pid "$pid"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"runs on"* ]]
        [ "$(devices "$pid")" -gt 0 ]
}

@test "park: a checkpoint that hangs: exit 6 after --timeout, unlocked again" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        GPUFREE_SIM_FAULT=cuda-hang=checkpoint run gpufree park --pid "$pid" --timeout 300ms
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"runs on"* ]]
        run gpufree unpark "$pid"
        [[ "$output" == *"it is not parked"* ]]
}

@test "park: done, but the answer is lost: the driver's word counts, exit 0" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        GPUFREE_SIM_FAULT=cuda-lost=checkpoint run gpufree park --pid "$pid" --timeout 300ms
        echo "$output"
        [ "$status" -eq 0 ]
        GPUFREE_SIM_FAULT=cuda-lost=restore run gpufree unpark "$pid" --timeout 300ms
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(devices "$pid")" -gt 0 ]
}

@test "unpark: a restore that fails leaves it parked, with the way back; then it works" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        gpufree park --pid "$pid"
        GPUFREE_SIM_FAULT=cuda-error=2:restore run gpufree unpark "$pid"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"stays parked"*"gpufree unpark $pid"* ]]
        in_state "$pid" parked
        run gpufree unpark --all
        [ "$status" -eq 0 ]
        [ "$(devices "$pid")" -gt 0 ]
}

@test "unpark: an unlock that fails says that it stands still; the next run unlocks it" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        gpufree park --pid "$pid"
        GPUFREE_SIM_FAULT=cuda-error=999:unlock run gpufree unpark "$pid"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"could not be unlocked"* ]]
        in_state "$pid" locked
        run gpufree unpark --all
        [ "$status" -eq 0 ]
}

@test "park: gpufree killed while it copies: the next run asks the driver and goes on" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        before="$(resident "$pid")"
        # shellcheck disable=SC2086
        GPUFREE_SIM_FAULT=cuda-slow=3000 "$GPUFREE" park --pid "$pid" $GPUFREE_OPTS --scope namespace 3>&- &
        run_pid=$!
        sim_wait_for grown "$pid" "$before"
        kill -KILL "$run_pid"
        wait "$run_pid" || true
        [ "$(devices "$pid")" -gt 0 ]
        sim_wait_for in_state "$pid" parked
        alive "$pid"
        run gpufree unpark --all
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(devices "$pid")" -gt 0 ]
}

@test "park: gpufree killed between lock and copy: list says locked, park goes on, unpark lets it go" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        for way in "park --pid $pid" "unpark $pid"; do
                # shellcheck disable=SC2086
                GPUFREE_SIM_FAULT=cuda-lost=lock "$GPUFREE" park --pid "$pid" $GPUFREE_OPTS --scope namespace 3>&- &
                run_pid=$!
                sim_wait_for in_state "$pid" locked
                kill -KILL "$run_pid"
                wait "$run_pid" || true
                run gpufree list
                [[ "$output" == *"Locked: $pid"* ]]
                # shellcheck disable=SC2086
                run gpufree $way
                echo "$output"
                [ "$status" -eq 0 ]
                gpufree unpark "$pid"
                [ "$(devices "$pid")" -gt 0 ]
        done
}

@test "unpark: gpufree killed between restore and unlock: the next run unlocks" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        gpufree park --pid "$pid"
        # shellcheck disable=SC2086
        GPUFREE_SIM_FAULT=cuda-lost=restore "$GPUFREE" unpark "$pid" $GPUFREE_OPTS --scope namespace 3>&- &
        run_pid=$!
        sim_wait_for in_state "$pid" locked
        kill -KILL "$run_pid"
        wait "$run_pid" || true
        run gpufree unpark --all
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(records)" -eq 0 ]
}

@test "park: a parked process that is ended is no longer listed, its record goes" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        gpufree park --pid "$pid"
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        run gpufree list
        [[ "$output" != *"$pid"* ]]
        [ "$(records)" -eq 0 ]
        run gpufree unpark --all
        [ "$status" -eq 0 ]
        run gpufree unpark "$pid"
        [ "$status" -eq 1 ]
}

@test "park: a record that anybody may write is not believed, a mad one does no harm" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        gpufree park --pid "$pid"
        record="$(find "$GPUFREE_RUNTIME_DIR" -type f)"
        printf 'gpu 99999999999 x\nby a\033[31mb\nsince 99999999999999999999\ngpu 0 18446744073709551615 %s\n' \
                "$(printf 'x%.0s' $(seq 3000))" >"$record"
        run gpufree list
        [ "$status" -eq 0 ]
        [[ "$output" != *$'\033'* ]]
        [[ "$output" == *"Parked: $pid"* ]]
        run gpufree unpark "$pid"
        echo "$output"
        [ "$status" -eq 0 ]
        gpufree park --pid "$pid"
        chmod 777 "$GPUFREE_RUNTIME_DIR/parked"
        run gpufree unpark "$pid"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"No record"* ]]
}

@test "park: without a place for records it parks, and says so" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        rmdir "$GPUFREE_RUNTIME_DIR"
        : >"$GPUFREE_RUNTIME_DIR"
        run gpufree park --pid "$pid"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"No record of $pid could be written"* ]]
        run gpufree unpark "$pid"
        [ "$status" -eq 0 ]
}

@test "park: without a selection, unpark without a PID: bad usage" {
        sim_up --gpus 1
        run gpufree park
        [ "$status" -eq 2 ]
        run gpufree unpark
        [ "$status" -eq 2 ]
        run gpufree unpark 12 --all
        [ "$status" -eq 2 ]
        run gpufree unpark nobody
        [ "$status" -eq 2 ]
        run gpufree list --to 1
        [ "$status" -eq 2 ]
}

@test "park: --dry-run parks nothing; nothing selected is exit 0" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB
        run gpufree park --gpu 0 -n
        [ "$status" -eq 0 ]
        [[ "$output" == *"Would park $pid: 1.0 GiB"* ]]
        [ "$(devices "$pid")" -gt 0 ]
        run gpufree park --gpu 1
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"Nothing to park"* ]]
}

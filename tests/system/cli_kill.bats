#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpufree kill`: only what was shown, proven.

load helpers

setup() {
        cli_setup
}

teardown() {
        cli_teardown
}

@test "kill: ends the holder of the selected GPU, the neighbour and the bystander live, memory verified" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 20GiB
        target=$pid
        add plain --gpu 1
        neighbour=$pid
        add open --gpu 0
        bystander=$pid
        run gpufree kill --yes --gpu 0
        echo "$output"
        [ "$status" -eq 0 ]
        sim_wait_gone "$target"
        alive "$neighbour"
        alive "$bystander"
        [[ "$output" == *"Will end 1 process, to free 20.0 GiB on GPU 0:"* ]]
        [[ "$output" == *"verified"* ]]
}

@test "kill: a second time there is nothing to do, exit 0" {
        sim_up --gpus 1
        add plain --gpu 0
        run gpufree kill -y
        [ "$status" -eq 0 ]
        run gpufree kill -y
        [ "$status" -eq 0 ]
        [[ "$output" == *"Nothing to end"* ]]
}

@test "kill: without a terminal and without --yes nothing is ended, exit 4" {
        sim_up --gpus 1
        add plain --gpu 0
        run_apart gpufree kill </dev/null
        [ "$status" -eq 4 ]
        [[ "$out" == *"Will end 1 process"* ]]
        [[ "$err" == *"--yes"* ]]
        alive "$pid"
}

@test "kill: --dry-run shows the plan and ends nothing" {
        sim_up --gpus 1
        add plain --gpu 0
        run gpufree kill --dry-run
        [ "$status" -eq 0 ]
        grep -qw "$pid" <<<"$output"
        run gpufree kill -n -q
        [ "$output" = "$pid" ]
        run gpufree kill -n -y
        [ "$status" -eq 0 ]
        alive "$pid"
}

@test "kill: what ignores TERM is killed after the grace, not before" {
        sim_up --gpus 1
        add ignore-term --gpu 0
        before=$(date +%s%N)
        run gpufree kill -y --grace 1s
        [ "$status" -eq 0 ]
        sim_wait_gone "$pid"
        [ $((($(date +%s%N) - before) / 1000000)) -ge 1000 ]
        [[ "$output" == *KILL* ]]
}

@test "kill: --force does not wait for the grace" {
        sim_up --gpus 1
        add ignore-term --gpu 0
        run timeout 20 "$GPUFREE" $GPUFREE_OPTS --scope namespace kill -y -9 --grace 5m
        [ "$status" -eq 0 ]
        sim_wait_gone "$pid"
}

@test "kill: a stopped holder is continued, so that TERM reaches it" {
        sim_up --gpus 1
        add stopped --gpu 0
        run gpufree kill -y --grace 30s --timeout 50s
        [ "$status" -eq 0 ]
        [[ "$output" != *KILL,* ]]
        sim_wait_gone "$pid"
}

@test "kill: a fork of a dead process lets go of its memory" {
        sim_up --gpus 1
        add fork-heir --gpu 0 --memory 20GiB
        run gpufree kill -y --gpu 0
        [ "$status" -eq 0 ]
        [ "$(sim_used 0)" -eq 0 ]
}

# every_shape_is_ended SCAN: each shape alone is listed with the way it holds, ended, and its memory is back.
every_shape_is_ended() {
        local scan="$1" shape how
        sim_up --gpus 1 --mappable
        for shape in map own-table zombie-leader io_uring unlinked own-node pidns ctl-only; do
                add "$shape" --gpu 0 2>/dev/null || { echo "# $shape cannot be made here" >&3; continue; }
                run gpufree list --scan "$scan" --json
                how="$(json '["holders"] and [v for h in d["holders"] if h["pid"] == '"$pid"' for u in h["devices"] for v in u["via"]]')"
                echo "$shape: held by $how"
                case "$shape" in
                map) [[ "$how" == *'"map"'* ]] ;;
                scm) [[ "$how" == *'"scm"'* ]] ;;
                io_uring) [[ "$how" == *'"io_uring"'* ]] ;;
                *) [[ "$how" == *'"fd"'* ]] ;;
                esac
                run gpufree kill -y --gpu 0 --scan "$scan"
                echo "$shape: $output"
                # Without BPF what waits in a socket cannot be seen: then nothing is called free.
                if [ "$shape" = scm ] && [ "$status" -eq 3 ] && [[ "$output" == *"--scan bpf sees them"* ]]; then
                        kill -KILL "$pid"
                        continue
                fi
                [ "$status" -eq 0 ]
                sim_wait_gone "$pid"
                [ "$(sim_used 0)" -eq 0 ]
        done
}

@test "kill: every shape of holding is ended, and its memory is back" {
        every_shape_is_ended auto
}

@test "kill: the same by /proc" {
        every_shape_is_ended proc
}

@test "kill: descriptors that wait in a socket are ended by BPF; /proc says that it cannot see them and ends nobody" {
        sim_up --gpus 1
        add scm --gpu 0
        run gpufree kill -y --gpu 0 --scan proc
        echo "$output"
        [ "$status" -eq 3 ]
        [[ "$output" == *"descriptors on the way that /proc cannot show"*"$pid"* ]]
        alive "$pid"
        "$GPUFREE" list --scan bpf --dev-root "$BATS_TEST_TMPDIR" >/dev/null 2>&1 || [ $? -ne 2 ] || skip "no BPF here"
        run gpufree kill -y --gpu 0 --scan bpf
        echo "$output"
        [ "$status" -eq 0 ]
        sim_wait_gone "$pid"
        [ "$(sim_used 0)" -eq 0 ]
}

@test "kill: one that lies in a neighbour's queue unseen makes no heir of a bystander" {
        sim_up --gpus 1
        add scm --gpu 0
        scm="$pid"
        add open --gpu 0
        run gpufree kill -y --gpu 0 --scan proc
        echo "$output"
        [ "$status" -eq 3 ]
        alive "$scm"
        alive "$pid"
}

@test "kill: a respawning holder is named with what starts it, exit 1" {
        sim_up --gpus 1
        add respawner --gpu 0
        run gpufree kill -y --gpu 0
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"starts it again"* ]]
}

@test "kill: memory that comes back late is waited for" {
        sim_up --gpus 1
        add plain --gpu 0
        GPUFREE_SIM_FAULT=late=700 run gpufree kill -y --settle 20s
        [ "$status" -eq 0 ]
}

@test "kill: memory that does not come back is exit 5, never \"verified free\"" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 20GiB
        GPUFREE_SIM_FAULT=never run gpufree kill -y --settle 1s
        echo "$output"
        [ "$status" -eq 5 ]
        [[ "$output" != *"verified free"* ]]
        sim_wait_gone "$pid"
}

@test "kill: without the right to end it the process lives, and that is said: exit 4, or 3 where it cannot even be seen" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
        command -v setpriv >/dev/null || skip "no setpriv"
        sim_up --gpus 1
        add plain --gpu 0
        as_nobody test -x "$NODE/dev" || skip "the node's directory is closed to others"
        # shellcheck disable=SC2086
        run as_nobody "$GPUFREE" $GPUFREE_OPTS --scope namespace kill -y --pid "$pid"
        echo "$output"
        [ "$status" -eq 4 ] || [ "$status" -eq 3 ]
        [ "$output" != "" ]
        alive "$pid"
}

@test "kill: ourselves and our parents are never ended, whatever is asked" {
        sim_up --gpus 1
        exec 9<>"$NODE/dev/nvidia0"
        run gpufree kill -y -9 --any-open --include "$$" --pid "$$"
        exec 9>&-
        [ "$status" -eq 4 ]
        [[ "$output" == *"$$"* ]]
}

@test "kill: output that cannot be written ends nothing, exit 2" {
        sim_up --gpus 1
        add plain --gpu 0
        run_apart sh -c "\"$GPUFREE\" $GPUFREE_OPTS --scope namespace kill -y >/dev/full"
        [ "$status" -eq 2 ]
        alive "$pid"
        run_apart sh -c "\"$GPUFREE\" $GPUFREE_OPTS --scope namespace kill -y --json >&-"
        [ "$status" -eq 2 ]
        alive "$pid"
}

@test "kill: interrupted while it waits, it says what was and was not done, exit 1" {
        sim_up --gpus 1
        add ignore-term --gpu 0
        "$GPUFREE" $GPUFREE_OPTS --scope namespace kill -y --grace 5m >"$BATS_TEST_TMPDIR/o" 2>&1 3>&- &
        command_pid=$!
        sim_wait_for grep -q "Will end" "$BATS_TEST_TMPDIR/o"
        kill -TERM "$command_pid"
        status=0
        wait "$command_pid" || status=$?
        cat "$BATS_TEST_TMPDIR/o"
        [ "$status" -eq 1 ]
        grep -q "interrupted by SIGTERM" "$BATS_TEST_TMPDIR/o"
        alive "$pid"
}

@test "kill: --json is one document with plan, fates and verdicts" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 20GiB
        run_apart gpufree kill -y --json
        [ "$status" -eq 0 ]
        output=$out
        [ "$(json '["outcome"]')" = '"ok"' ]
        [ "$(json '["plan"]["targets"][0]["pid"]')" = "$pid" ]
        [ "$(json '["fates"][0]["pid"]')" = "$pid" ]
        [ "$(json '["gpus"][0]["verdict"]["verified"]')" = true ]
}

@test "kill: with no GPU there is nothing to do, exit 0 with a note" {
        mkdir "$BATS_TEST_TMPDIR/empty"
        run_apart "$GPUFREE" kill -y --dev-root "$BATS_TEST_TMPDIR/empty" --scope namespace
        [ "$status" -eq 0 ]
        [ "$out" = "" ]
        [[ "$err" == *"no GPU"* ]]
}

@test "kill: without the driver's word nobody is ended by GPU, exit 3; named by PID they are" {
        sim_up --gpus 2
        add plain --gpu 0
        mkdir -p "$BATS_TEST_TMPDIR/lib"
        echo "no library" >"$BATS_TEST_TMPDIR/lib/libnvidia-ml.so.1"
        export LD_LIBRARY_PATH="$BATS_TEST_TMPDIR/lib"
        run gpufree kill -y --grace 1s
        [ "$status" -eq 3 ]
        [[ "$output" == *"gpufree kill --pid $pid"* ]]
        alive "$pid"
        run gpufree kill -y --grace 1s --pid "$pid"
        [ "$status" -eq 3 ] # ended, and no memory figure to verify it by
        ! alive "$pid"
}

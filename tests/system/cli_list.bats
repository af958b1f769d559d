#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpufree` = `gpufree list`: who holds each GPU, in whatever form.

load helpers

setup() {
        cli_setup
}

teardown() {
        cli_teardown
}

@test "list: without a command, all is free on a fresh node, exit 0" {
        sim_up --gpus 2
        run gpufree
        [ "$status" -eq 0 ]
        [[ "$output" == *"GPU 0 "*"free"* ]]
        [[ "$output" == *"GPU 1 "*"free"* ]]
        [[ "$output" == *"No process holds a GPU"* ]]
}

@test "list: a holder is shown with its memory, GPU, user and command" {
        sim_up --gpus 2
        add plain --gpu 1 --memory 20GiB --name "python3 train.py"
        run gpufree list
        [ "$status" -eq 0 ]
        [[ "$output" == *"GPU 1 "*"held"*"20.0 of "* ]]
        row="$(grep -w "$pid" <<<"$output")"
        [[ "$row" == *"20.0 GiB"*"$(id -un)"*"python3 train.py"* ]]
        [[ "$output" == *"1 GPU held by 1 process."* ]]
}

@test "list: every shape of holding is found, each PID once" {
        sim_up --gpus 1 --mappable
        for method in proc bpf; do
                run gpufree list --scan $method
                [ "$status" -ne 2 ] || { echo "# --scan $method: $output" >&3; continue; }
                for shape in plain map own-table zombie-leader io_uring unlinked own-node pidns stopped ctl-only scm; do
                        add "$shape" --gpu 0 --memory 1GiB 2>/dev/null || { echo "# $shape cannot be made here" >&3; continue; }
                        run gpufree list -q --scan $method
                        echo "$method, $shape: $added / $output"
                        if [ $shape = scm ] && [ $method = proc ]; then
                                # /proc says that something waits in a socket, not what: never passed over.
                                [ "$status" -eq 3 ]
                                [[ "$output" == *"--scan bpf sees them"* ]]
                        else
                                [ "$(grep -cx "$pid" <<<"$output")" -eq 1 ]
                        fi
                done
        done
}

@test "list: without BPF it goes on with /proc and says why" {
        sim_up --gpus 1
        add plain --gpu 0
        [ "$(id -u)" -eq 0 ] || skip "needs root"
        [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ] || skip "in a PID namespace that is the reason"
        for without in "setpriv --bounding-set=-sys_admin,-perfmon,-bpf" "unshare --user --map-root-user"; do
                # shellcheck disable=SC2086
                run $without "$GPUFREE" $GPUFREE_OPTS list --json
                echo "$without: $output"
                [ "$(json '["scan"]["method"]')" = '"proc"' ]
                [[ "$(json '["scan"]["method_reason"]')" == *CAP_BPF* ]]
                # shellcheck disable=SC2086
                run $without "$GPUFREE" $GPUFREE_OPTS list --scan bpf
                [ "$status" -eq 2 ] || [ "$status" -eq 3 ]
                [[ "$output" == *CAP_BPF* ]]
        done
}

@test "list: on a machine without a GPU no process is looked at, and it takes next to no time" {
        mkdir "$BATS_TEST_TMPDIR/empty"
        run gpufree list --dev-root "$BATS_TEST_TMPDIR/empty" --json
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(json '["scan"]["method"]')" = null ]
        [ "$(json '["scan"]["processes"]')" = 0 ]
        [[ "$(json '["scan"]["method_reason"]')" == *"no GPU"* ]]
        # Processor time of ten runs; one may take 15 ms.
        ms="$(python3 - "$GPUFREE" "$BATS_TEST_TMPDIR/empty" <<'PY'
import resource, subprocess, sys
for _ in range(10):
    subprocess.run([sys.argv[1], "list", "--dev-root", sys.argv[2]], capture_output=True, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(round((used.ru_utime + used.ru_stime) * 1000))
PY
)"
        echo "$ms ms"
        [ "$ms" -lt 150 ] || [[ "$(ldd "$GPUFREE")" == *asan* ]]
}

@test "list: a fork that keeps a dead parent's memory is shown as such" {
        sim_up --gpus 1
        add fork-heir --gpu 0 --memory 20GiB
        run gpufree list
        [[ "$output" == *"from dead "* ]]
        grep -w "$pid" <<<"$output" | grep -q "20.0 GiB"
}

@test "list: a leader that has exited is a zombie whose threads hold" {
        sim_up --gpus 1
        add_or_skip zombie-leader --gpu 0
        run gpufree list
        grep -w "$pid" <<<"$output" | grep -q "leader zombie"
}

@test "list: an O_PATH descriptor does not hold" {
        sim_up --gpus 1
        add opath --gpu 0
        run gpufree list -q --any-open
        [ "$status" -eq 0 ]
        ! has_pid "$pid"
}

@test "list: what merely has the device open is counted, and shown with --any-open" {
        sim_up --gpus 1
        add open --gpu 0
        run gpufree list -q
        ! has_pid "$pid"
        run gpufree list
        [[ "$output" == *"--any-open"* ]]
        run gpufree list -q --any-open
        has_pid "$pid"
}

@test "list: --gpu, --pid, --match, --user, --stopped select; several are ANDed" {
        sim_up --gpus 2
        add plain --gpu 0 --name "python3 first.py"
        first=$pid
        add stopped --gpu 1 --name "python3 second.py"
        second=$pid
        run gpufree list -q --gpu 0
        [ "$output" = "$first" ]
        run gpufree list -q --pid "$second"
        [ "$output" = "$second" ]
        run gpufree list -q --match 'second\.py'
        [ "$output" = "$second" ]
        run gpufree list -q --stopped
        [ "$output" = "$second" ]
        run gpufree list -q --user me
        has_pid "$first" && has_pid "$second"
        run gpufree list -q --gpu 0 --match second
        [ "$status" -eq 0 ]
        [ "$output" = "" ]
        run gpufree list -q --gpu 0,1
        has_pid "$first" && has_pid "$second"
}

@test "list: a path is taken by its number, through a symbolic link" {
        sim_up --gpus 2
        add plain --gpu 1
        ln -s "$NODE/dev/nvidia1" "$BATS_TEST_TMPDIR/link"
        run gpufree list -q "$BATS_TEST_TMPDIR/link"
        [ "$output" = "$pid" ]
        run gpufree list -q "$NODE/dev/nvidia0"
        [ "$output" = "" ]
}

@test "list: a path that is no GPU works too, as with fuser" {
        sim_up --gpus 1
        exec 9<>/dev/null
        run gpufree list -q /dev/null
        has_pid "$$"
        exec 9>&-
}

@test "list: a GPU, a path, a directory that is not there: exit 2, one line, no output" {
        sim_up --gpus 2
        for wrong in "--gpu 7" "/nonexistent" "/etc" "--dev-root /nonexistent"; do
                # shellcheck disable=SC2086
                run_apart gpufree list $wrong
                echo "$wrong: $status $out $err"
                [ "$status" -eq 2 ]
                [ "$out" = "" ]
                [ "$(wc -l <"$BATS_TEST_TMPDIR/err")" -eq 1 ]
        done
}

@test "list: without GPUs it says so, exit 0" {
        mkdir "$BATS_TEST_TMPDIR/empty"
        run "$GPUFREE" list --dev-root "$BATS_TEST_TMPDIR/empty" --scope namespace
        [ "$status" -eq 0 ]
        [[ "$output" == "No GPU found"* ]]
}

@test "list: an unprivileged look at others' processes is incomplete, exit 3, and says so" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
        command -v setpriv >/dev/null || skip "no setpriv"
        sim_up --gpus 1
        add plain --gpu 0
        as_nobody test -x "$NODE/dev" || skip "the node's directory is closed to others"
        # shellcheck disable=SC2086
        run as_nobody "$GPUFREE" $GPUFREE_OPTS --scope namespace --scan proc list
        echo "$output"
        [ "$status" -eq 3 ]
        [[ "$output" != *"  free  "* ]]
}

@test "list: a driver that hangs does not hang us" {
        sim_up --gpus 1
        add plain --gpu 0
        GPUFREE_SIM_FAULT=hang run timeout 60 "$GPUFREE" $GPUFREE_OPTS --scope namespace list -q
        [ "$status" -ne 124 ]
        has_pid "$pid"
}

@test "list: PIDs that the driver lists and that do not live are never shown as holders" {
        sim_up --gpus 1
        add plain --gpu 0
        GPUFREE_SIM_FAULT=dead-pids run gpufree list -q
        [ "$output" = "$pid" ]
}

@test "list: a holder that the driver hides is found all the same" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 20GiB
        GPUFREE_SIM_FAULT=hide-pids run gpufree list -q
        [ "$output" = "$pid" ]
}

@test "list --sample: busy is said, idle only after a second of answers, unknown otherwise" {
        sim_up --gpus 1
        add plain --gpu 0
        GPUFREE_SIM_FAULT=busy=87 run gpufree list --sample 600ms
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"87 % busy"* ]]
        GPUFREE_SIM_FAULT=busy=87 run gpufree list --sample 600ms --json
        [ "$(json '["holders"][0]["gpus"][0]["busy"]')" = 87 ]
        run gpufree list --sample 500ms
        [[ "$output" != *idle* ]]
        [[ "$output" != *busy* ]]
        run gpufree list --sample 1300ms
        echo "$output"
        [[ "$output" == *"; idle"* ]]
        run gpufree list
        [[ "$output" != *idle* ]]
}

@test "list --sample: a driver that fails says nothing of anybody" {
        sim_up --gpus 1
        add plain --gpu 0
        for fault in error=15 error=15:0 crash=handle; do
                GPUFREE_SIM_FAULT=$fault run gpufree list --sample 1300ms --json
                [ "$(json '["holders"][0]["gpus"][0]["busy"]')" = null ]
        done
}

@test "list: an open file that no process shows makes the look incomplete, exit 3" {
        sim_up --gpus 4
        sim_ttys
        "$GPUFREE" list --scan bpf --dev-root "$BATS_TEST_TMPDIR" >/dev/null 2>&1 || [ $? -ne 2 ] || skip "no BPF here"
        # A read under way keeps the file open after its descriptor was closed.
        python3 - "$NODE/dev/nvidia3" >"$BATS_TEST_TMPDIR/ready" 3>&- <<'PY' &
import os, sys, threading, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
thread = threading.Thread(target=os.read, args=(fd, 1), daemon=True)
thread.start()
while not open(f"/proc/self/task/{thread.native_id}/syscall").read().startswith("0 "):
    time.sleep(0.01)
os.close(fd)
print("ready", flush=True)
threading.Event().wait(60)
os._exit(0)
PY
        pid=$!
        sim_wait_for grep -q ready "$BATS_TEST_TMPDIR/ready"
        run gpufree list --scan bpf
        kill -9 "$pid"
        [ "$status" -eq 3 ]
        [[ "$output" == *"/dev/nvidia3 has 1 open file that no process shows"* ]]
        sim_wait_gone "$pid"
        run gpufree list --scan bpf
        [ "$status" -eq 0 ]
}

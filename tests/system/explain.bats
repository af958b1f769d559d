#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpufree explain and check --for, on a simulated node.

bats_require_minimum_version 1.5.0
load helpers

setup() { cli_setup; }
teardown() { cli_teardown; }

# named GPU: what the account of that GPU names and leaves, and whether it adds up to what is used.
adds_up() {
        python3 - "$1" "$output" <<'PY'
import json, sys
document = json.loads(sys.argv[2])
account = [a for a in document["accounts"] if a["index"] == int(sys.argv[1])][0]
named = sum(e["bytes"] for e in account["entries"] if e["counts"])
assert named == account["named"], account
assert named + account["unaccounted"] == account["used"], account
print(account["used"], account["unaccounted"])
PY
}

# entry GPU KIND FIELD: of the first entry of that kind.
entry() {
        python3 - "$@" "$output" <<'PY'
import json, sys
gpu, kind, field, text = sys.argv[1:]
account = [a for a in json.loads(text)["accounts"] if a["index"] == int(gpu)][0]
print(json.dumps([e for e in account["entries"] if e["kind"] == kind][0][field]))
PY
}

@test "explain: every shape adds up, and nothing is unaccounted for" {
        sim_up --gpus 4
        for shape in plain fork-heir zombie-leader scm io_uring own-table unlinked stopped; do
                "$SIM" add "$NODE" "$shape" --gpu 1 --memory 4GiB >/dev/null 2>&1 || continue
        done
        run --separate-stderr gpufree explain --json
        echo "$output"
        [ "$status" -eq 0 ] || [ "$status" -eq 3 ]
        adds_up 1
        adds_up 0
}

@test "explain: a dead process, its heir, and what to type" {
        sim_up --gpus 2
        "$SIM" add "$NODE" fork-heir --gpu 1 --memory 20GiB >/dev/null
        run --separate-stderr gpufree explain --gpu 1 --json
        [ "$status" -eq 0 ]
        [ "$(entry 1 dead bytes)" = "$((20 << 30))" ]
        heir="$(entry 1 dead keepers | tr -d '[]')"
        alive "$heir"
        [ "$(adds_up 1)" = "$((20 << 30)) 0" ]
        run gpufree explain --gpu 1
        [[ "$output" == *"which is dead. Its descriptors live on in $heir"* ]]
        [[ "$output" == *"What you can do:  gpufree kill --pid $heir"* ]]
}

@test "explain: an exported handle has what nothing else has" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 4GiB
        add ctl-only --gpu 0 --memory 2GiB
        run --separate-stderr gpufree explain --json
        [ "$status" -eq 0 ]
        [ "$(entry 0 handle bytes)" = "$((2 << 30))" ]
        [ "$(entry 0 handle pid)" = "$pid" ]
}

@test "explain: memory that nobody has asks for a reset" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 4GiB
        export GPUFREE_SIM_FAULT=never
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        run gpufree explain
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"4.0 GiB  unaccounted"* ]]
        [[ "$output" == *"likeliest first"* ]]
        [[ "$output" == *"gpufree check --for reset --gpu 0"* ]]
}

@test "explain: a hidden process's memory is not called nobody's" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 4GiB
        GPUFREE_SIM_FAULT=hide-pids run --separate-stderr gpufree explain --json
        [ "$(entry 0 together bytes)" = "$((4 << 30))" ]
        [ "$(entry 0 together pid)" = "$pid" ]
}

@test "explain PID: what it holds, a stopped one with a signal waiting" {
        sim_up --gpus 1
        add stopped --gpu 0 --memory 4GiB
        kill -TERM "$pid"
        run gpufree explain "$pid"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"4.0 GiB on GPU 0"* ]]
        [[ "$output" == *"is stopped"* ]]
        [[ "$output" == *"SIGTERM sent and not yet taken"* ]]
        run --separate-stderr gpufree explain "$pid" --json
        [ "$(json '["processes"][0]["pending_signals"]')" = "[15]" ]
        [ "$(json '["processes"][0]["pid"]')" = "$pid" ]
}

@test "explain PID: a zombie leader with a living thread" {
        sim_up --gpus 1
        add_or_skip zombie-leader --gpu 0
        run gpufree explain "$pid"
        [ "$status" -eq 0 ]
        [[ "$output" == *"threads live on and keep what it holds"* ]]
}

@test "explain PID: how busy it is, and that it can be parked" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 4GiB
        run gpufree explain "$pid"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *" of GPU 0 busy while it was watched"* || "$output" == *"idle on GPU 0"* ]]
        [[ "$output" == *"it can be parked: gpufree park --pid $pid"* ]]
        run --separate-stderr gpufree explain "$pid" --json
        [ "$(json '["processes"][0]["parking"]["possible"]')" = true ]
        [ "$(json '["processes"][0]["parking"]["state"]')" = '"running"' ]
        [ "$(json '["processes"][0]["parking"]["why_not"]')" = null ]
        [ "$(json '["processes"][0]["gpus"][0]["busy"] is not None')" = true ]
        # Asking changed nothing: it holds what it held.
        run --separate-stderr gpufree list --json
        [ "$(json '["holders"][0]["pid"]')" = "$pid" ]
}

@test "explain PID: why it cannot be parked" {
        sim_up --gpus 1
        add stopped --gpu 0 --memory 4GiB
        run --separate-stderr gpufree explain "$pid" --json
        [ "$(json '["processes"][0]["parking"]["possible"]')" = false ]
        [[ "$(json '["processes"][0]["parking"]["why_not"]')" == *"is stopped"* ]]
        mkdir "$BATS_TEST_TMPDIR/none"
        echo "no library" >"$BATS_TEST_TMPDIR/none/libcuda.so.1"
        add plain --gpu 0 --memory 1GiB
        LD_LIBRARY_PATH="$BATS_TEST_TMPDIR/none:$LD_LIBRARY_PATH" run gpufree explain "$pid"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$(tr -s ' \n' ' ' <<<"$output")" == *"it cannot be parked now: $pid: nothing can be parked without the driver's library"* ]]
}

@test "explain PID: one that holds nothing, and one that is not there" {
        sim_up --gpus 1
        run gpufree explain $$
        [ "$status" -eq 0 ]
        [[ "$output" == *"no GPU device was seen to be held"* ]]
        run_apart gpufree explain 4194303
        [ "$status" -eq 2 ]
        [ "$out" = "" ]
        [ "$err" = "gpufree: there is no process 4194303 (any more)" ]
        run_apart gpufree explain 0
        [ "$status" -eq 2 ]
}

@test "explain: another user is told what is not readable, and exits 3" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to be another user"
        sim_up --gpus 1
        chmod -R a+rX "$BATS_TEST_TMPDIR" "$NODE"
        add plain --gpu 0
        run as_nobody env LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$GPUFREE" explain $GPUFREE_OPTS --scope namespace
        echo "$output"
        [ "$status" -eq 3 ] || skip "another user cannot reach the node here"
        [[ "$output" == *"could not be looked at"* ]]
}

@test "explain: in a PID namespace the machine cannot be seen, exit 3" {
        [ "$(id -u)" -eq 0 ] || skip "needs root"
        unshare --pid --fork --mount-proc true 2>/dev/null || skip "no PID namespaces here"
        sim_up --gpus 1
        # shellcheck disable=SC2086
        run timeout 60 unshare --pid --fork --mount-proc "$GPUFREE" explain $GPUFREE_OPTS --scope machine
        echo "$output"
        [ "$status" -eq 3 ]
        [[ "$output" == *"namespace"* ]]
}

@test "check --for: holders, then the daemon, in that order; nothing is done" {
        sim_up --gpus 2
        add plain --gpu 0
        holder="$pid"
        add service
        for purpose in reset mig unbind; do
                run gpufree check --for $purpose --gpu 0
                echo "$output"
                [ "$status" -eq 1 ]
                [[ "$output" == *"1. end 1 process"*"gpufree kill --gpu 0"*"2. stop "* ]]
        done
        run gpufree check --for unload
        [ "$status" -eq 1 ]
        [[ "$output" == *"gpufree kill --pid $holder"* ]]
        alive "$holder"
        alive "$pid"
}

@test "check --for reset: another GPU's holder is not in the way; nothing in the way exits 0" {
        sim_up --gpus 2
        add plain --gpu 0
        run gpufree check --for reset --gpu 1
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"can be reset"* ]]
        [[ "$output" == *"nvidia-smi --gpu-reset -i 1"* ]]
        run --separate-stderr gpufree check --for reset --gpu 0 --json
        [ "$status" -eq 1 ]
        [ "$(json '["steps"][0]["kind"]')" = '"process"' ]
        [ "$(json '["outcome"]')" = '"held"' ]
}

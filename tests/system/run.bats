#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The guard: claims, readiness, signals, the end, and its own death.

load helpers
bats_require_minimum_version 1.5.0

setup() {
        cli_setup
        export BATS_TEST_TIMEOUT=120
        SERVER="$SOURCE_DIR/tests/system/run_server.py"
        LOG="$BATS_TEST_TMPDIR/log"
        started=()
}

teardown() {
        local pid
        for pid in "${started[@]}"; do
                kill -KILL "$pid" 2>/dev/null || :
        done
        cli_teardown
}

# guard ARGS…: gpufree run on the node, no longer than 60 s.
guard() {
        # shellcheck disable=SC2086
        timeout -k 5 60 "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace "$@" 3>&-
}

# guard_in_background ARGS…: its PID is $pid (no timeout(1) in between).
guard_in_background() {
        # shellcheck disable=SC2086
        "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
        pid=$!
        started+=("$pid")
}

need_python() {
        command -v python3 >/dev/null || skip "no python3"
}

loaded() {
        grep -qs loaded "$LOG"
}

# Everything that has this node's devices open, but for its keeper and drivers' libraries.
holders() {
        gpufree list -q --any-open
}

none_hold() {
        [ -z "$(holders)" ]
}

free() {
        gpufree check >/dev/null 2>&1
}

@test "run: the command's status is the guard's" {
        sim_up --gpus 2
        for code in 0 1 7 255; do
                run guard -q -- sh -c "exit $code"
                [ "$status" -eq "$code" ]
                [ -z "$output" ]
        done
        run guard -q -- sh -c 'kill -SEGV $$'
        [ "$status" -eq 139 ]
        run guard -q -- sh -c 'kill -TERM $$'
        [ "$status" -eq 143 ]
}

@test "run: 126 and 127 as in a shell, and says why" {
        sim_up --gpus 1
        run guard -- /nonexistent/program
        [ "$status" -eq 127 ]
        [[ "$output" == *"/nonexistent/program: No such file or directory"* ]]
        run guard -- /etc/passwd
        [ "$status" -eq 126 ]
}

@test "run: sets CUDA_VISIBLE_DEVICES by UUID, and stays within it" {
        sim_up --gpus 4
        run guard -q --gpus 2 -- sh -c 'echo $CUDA_VISIBLE_DEVICES'
        [ "$status" -eq 0 ]
        [[ "$output" =~ ^GPU-[0-9a-f-]{36},GPU-[0-9a-f-]{36}$ ]]
        CUDA_VISIBLE_DEVICES=3 run guard -- true
        [[ "$output" == *"claimed GPU 3, free"* ]]
        CUDA_VISIBLE_DEVICES=3 run guard --gpus 2 -- true
        [ "$status" -eq 121 ]
}

@test "run: what is held is refused with who holds it, and passed over in a choice" {
        sim_up --gpus 2
        add plain --gpu 0
        run guard --gpu 0 -- touch "$BATS_TEST_TMPDIR/started"
        [ "$status" -eq 121 ]
        [[ "$output" == *"GPU 0 is not free"*"$pid"* ]]
        [ ! -e "$BATS_TEST_TMPDIR/started" ]
        run guard --gpus 1 -- true
        [ "$status" -eq 0 ]
        [[ "$output" == *"claimed GPU 1, free"* ]]
        run guard --gpus 2 -- true
        [ "$status" -eq 121 ]
        alive "$pid"
}

@test "run: --clean ends what this user left, and nothing of another user" {
        sim_up --gpus 2
        add plain --gpu 0
        run guard --gpu 0 --clean --grace 2s -- true
        [ "$status" -eq 0 ]
        sim_wait_gone "$pid"
        [ "$(id -u)" -eq 0 ] || skip "another user's holder needs root"
        add plain --gpu 1 --user 65534
        run guard --gpu 1 --clean -- true
        [ "$status" -eq 121 ]
        [[ "$output" == *"GPU 1 is not free"*"$pid"* ]]
        alive "$pid"
}

@test "run: --clean ends nobody on evidence alone, without the driver's word" {
        sim_up --gpus 1
        add plain --gpu 0
        GPUFREE_SIM_FAULT=error=15 run guard --clean --grace 2s -- true
        echo "$output"
        [ "$status" -eq 121 ]
        [[ "$output" == *"nothing was cleaned"* ]]
        alive "$pid"
}

@test "run: a GPU of another guard is refused, also with --clean" {
        need_python
        sim_up --gpus 1
        guard_in_background --log "$LOG" -- python3 "$SERVER" stall
        first=$pid
        sim_wait_for loaded
        run guard --gpu 0 --clean -- true
        [ "$status" -eq 121 ]
        [[ "$output" == *"claimed by another guard, process $first"* ]]
        kill -TERM "$first"
        wait "$first" || status=$?
        [ "$status" -eq 143 ]
        free
}

@test "run: workers that took sessions of their own end with the command" {
        need_python
        sim_up --gpus 2
        run guard --log "$LOG" --grace 5s -- python3 "$SERVER" leave 3
        [ "$status" -eq 3 ]
        [[ "$output" == *"GPU 0-1 verified free"* ]]
        none_hold
}

@test "run: a server that never becomes ready is noticed, explained, ended; the next start succeeds" {
        need_python
        sim_up --gpus 4
        port=$((20000 + RANDOM % 20000))
        run guard --ready-url "http://127.0.0.1:$port/health" --ready-timeout 6s --grace 3s --log "$LOG" -- python3 "$SERVER" stall
        echo "$output"
        [ "$status" -eq 122 ]
        [[ "$output" == *"not ready after 6.0 s, and nothing has moved for"*"it hangs"* ]]
        [[ "$output" == *"80.0 GiB used, unchanged"* ]]
        [[ "$output" == *"processes wait in"* ]]
        [[ "$output" == *"ended 9 processes"* ]]
        [[ "$output" == *"GPU 0-3 verified free"* ]]
        none_hold
        run guard --ready-url "http://127.0.0.1:$port/health" --ready-timeout 30s --grace 3s --log "$LOG" \
                --on-ready 'kill -TERM $(cat "$GPUFREE_SIM_DIR/launcher")' -- \
                sh -c 'echo $$ >"$GPUFREE_SIM_DIR/launcher"; exec python3 "$0" serve "$1"' "$SERVER" "$port"
        echo "$output"
        [[ "$output" == *"ready after"*"GPU 0-3 verified free"* ]]
        [ "$status" -eq 143 ]
        rm -f "$GPUFREE_SIM_DIR/launcher"
}

@test "run: the same server bare, its launcher killed by name: gpufree kill cleans it" {
        need_python
        sim_up --gpus 2
        uuids="$(guard -q -- sh -c 'echo $CUDA_VISIBLE_DEVICES')"
        CUDA_VISIBLE_DEVICES=$uuids python3 "$SERVER" stall >"$LOG" 2>&1 3>&- &
        launcher=$!
        started+=("$launcher")
        sim_wait_for loaded
        kill -KILL "$launcher"
        ! free
        run gpufree kill --gpu all -y --grace 3s
        [ "$status" -eq 0 ]
        free
}

@test "run: SIGKILL of the guard leaves nothing behind" {
        need_python
        sim_up --gpus 2
        guard_in_background --log "$LOG" -- python3 "$SERVER" stall
        sim_wait_for loaded
        [ "$(holders | wc -l)" -ge 4 ] # and the driver's child of the guard
        kill -KILL "$pid"
        sim_wait_for none_hold
        sim_wait_for free
        run guard -- true
        [ "$status" -eq 0 ]
}

@test "run: SIGKILL of the keeper is noticed, and leaves nothing behind" {
        need_python
        sim_up --gpus 1
        guard_in_background --log "$LOG" --grace 2s -- python3 "$SERVER" stall
        sim_wait_for loaded
        keeper="$(cat /proc/"$pid"/task/*/children | tr ' ' '\n' | while read -r p; do [ -n "$p" ] && [ "$(cat "/proc/$p/comm")" = gpu-keeper ] && echo "$p"; done)"
        [ -n "$keeper" ]
        kill -KILL "$keeper"
        status=0
        wait "$pid" || status=$?
        [ "$status" -eq 137 ]
        grep -q 'was ended from outside' "$BATS_TEST_TMPDIR/err"
        none_hold
}

@test "run: a signal to the guard reaches the command once, one to the group is not doubled" {
        command -v python3 >/dev/null || skip "no python3"
        sim_up --gpus 1
        cat >"$BATS_TEST_TMPDIR/count.py" <<'PY'
import signal, sys, time
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
signal.signal(signal.SIGTERM, lambda *_: (print(len(got), flush=True), sys.exit(0)))
print("loaded", flush=True)
while True:
    time.sleep(0.05)
PY
        set -m
        guard_in_background --log "$LOG" -- python3 "$BATS_TEST_TMPDIR/count.py"
        set +m
        sim_wait_for loaded
        kill -USR1 "$pid"
        sleep 0.5
        kill -USR1 -- "-$pid"
        sleep 0.5
        kill -TERM "$pid"
        wait "$pid"
        [ "$(tail -n 1 "$LOG")" = 2 ]
}

@test "run: --ready-fd, --ready-log, --ready-tcp" {
        need_python
        sim_up --gpus 1
        run guard --ready-fd --ready-timeout 20s -- sh -c 'eval "echo >&$GPUFREE_READY_FD"; sleep 1'
        [ "$status" -eq 0 ]
        [[ "$output" == *"ready after"* ]]
        run guard --ready-log '^up [0-9]+$' --log "$LOG" --ready-timeout 20s -- sh -c 'echo up 42; sleep 1'
        [ "$status" -eq 0 ]
        [[ "$output" == *"ready after"* ]]
        run guard --ready-tcp 127.0.0.1:1 --ready-timeout 1s --grace 1s -- sleep 100
        [ "$status" -eq 122 ]
        run guard --ready-log x -- true
        [ "$status" -eq 2 ]
}

@test "run: not ready in time: whether it was working, idle, or too short to see" {
        sim_up --gpus 1
        run guard --ready-tcp 127.0.0.1:1 --ready-timeout 2500ms --grace 1s -- sh -c 'while :; do :; done'
        echo "$output"
        [ "$status" -eq 122 ]
        [[ "$output" =~ "not ready after 2.5 s; it was working ("[0-9]+" % processor)" ]]
        run guard --ready-tcp 127.0.0.1:1 --ready-timeout 2500ms --grace 1s -- sleep 100
        echo "$output"
        [ "$status" -eq 122 ]
        [[ "$output" =~ "not ready after 2.5 s; it was idle (0 % processor), nothing had moved for "[12] ]]
        run guard --ready-tcp 127.0.0.1:1 --ready-timeout 2500ms --grace 1s --log "$LOG" -- \
                sh -c 'while :; do echo line; sleep 0.2; done'
        echo "$output"
        [ "$status" -eq 122 ]
        [[ "$output" == *"not ready after 2.5 s; its processors were idle ("*"but memory, log or processes still moved"* ]]
        run guard --ready-tcp 127.0.0.1:1 --ready-timeout 300ms --grace 1s -- sleep 100
        echo "$output"
        [ "$status" -eq 122 ]
        [[ "$output" == *"not ready after 300 ms: too short a time to see whether it works or hangs"* ]]
        [[ "$output" != *"it hangs"* ]]
}

# notified NAME COMMAND…: what was sent to a NOTIFY_SOCKET of that name ("@" first: abstract) while the command ran: a line
# for each message, `TEXT by guard`, `by command` or `by other`, then its exit status.
notified() {
        python3 - "$@" <<'PY'
import os, socket, struct, subprocess, sys
name, command = sys.argv[1], sys.argv[2:]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.bind("\0" + name[1:] if name[0] == "@" else name)
p = subprocess.Popen(command, env=dict(os.environ, NOTIFY_SOCKET=name))
status = p.wait(60)
s.setblocking(False)
while True:
    try:
        text, control, _, _ = s.recvmsg(4096, socket.CMSG_SPACE(12))
    except BlockingIOError:
        break
    pid = struct.unpack("3i", control[0][2])[0]
    print(text.decode().strip(), "by", "guard" if pid == p.pid else "another")
print("status", status)
PY
}

@test "run: readiness is passed on to systemd by the guard, once, and only when it is ready" {
        need_python
        sim_up --gpus 1
        for name in "$BATS_TEST_TMPDIR/notify" "@gpufree-test-$$"; do
                # shellcheck disable=SC2086
                run notified "$name" "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace -q --ready-fd --ready-timeout 20s -- \
                        sh -c '[ -z "${NOTIFY_SOCKET-}" ] || exit 9; eval "echo >&$GPUFREE_READY_FD"; sleep 1'
                echo "$output"
                [ "$output" = "READY=1 by guard"$'\n'"status 0" ]
                rm -f "$BATS_TEST_TMPDIR/notify"
        done
        # shellcheck disable=SC2086
        run notified "$BATS_TEST_TMPDIR/notify" "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace -q --ready-fd --ready-timeout 500ms --grace 1s -- \
                sleep 100
        echo "$output"
        [ "${lines[-1]}" = "status 122" ]
        [[ "$output" != *READY* ]]
}

@test "run: without a way to be ready the command tells systemd itself" {
        need_python
        sim_up --gpus 1
        # shellcheck disable=SC2086
        run notified "$BATS_TEST_TMPDIR/notify" "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace -q -- python3 -c '
import os, socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])'
        echo "$output"
        [ "$output" = "READY=1 by another"$'\n'"status 0" ]
}

@test "run: systemd understands the units that are shipped" {
        command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
        for unit in guarded.service gpufree-wait@.service; do
                copy="$BATS_TEST_TMPDIR/${unit/@/@0}"
                sed "s|/usr/bin/gpufree|$GPUFREE|" "$SOURCE_DIR/contrib/systemd/$unit" >"$copy"
                run systemd-analyze verify --man=no "$copy"
                echo "$output"
                [ "$status" -eq 0 ]
                [[ "$output" != *"${copy##*/}"* ]]
        done
}

# as_pid_1 COMMAND…: the guard as the first process of a PID namespace, a container's entry point. Its PID out here is $pid.
as_pid_1() {
        # shellcheck disable=SC2086
        unshare --pid --fork --kill-child --mount-proc "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace -q "$@" \
                >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
        outer=$!
        started+=("$outer")
}

@test "run: as PID 1 of a container it reaps, passes TERM on, and ends with the command's status" {
        [ "$(id -u)" -eq 0 ] || skip "a PID namespace needs root"
        unshare --pid --fork --mount-proc true 2>/dev/null || skip "no PID namespace can be made here"
        sim_up --gpus 1
        # Orphans of orphans end; nobody of them stays a zombie.
        as_pid_1 -- sh -c '
                [ "$(cat /proc/1/comm)" = gpufree ] || exit 8
                for i in 1 2 3 4 5; do (sh -c "sleep 0.1 & sleep 0.1 &" &); done
                for try in $(seq 100); do
                        sleep 0.1
                        left=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") Z ")
                        sleeping=$(grep -lx sleep /proc/[0-9]*/comm 2>/dev/null | wc -l)
                        [ "$left$sleeping" = 00 ] && exit 5
                done
                exit 7'
        status=0
        wait "$outer" || status=$?
        cat "$BATS_TEST_TMPDIR/err"
        [ "$status" -eq 5 ]
        as_pid_1 --log "$LOG" -- sh -c 'trap "echo told; exit 9" TERM; echo up; while :; do sleep 0.1; done'
        up() { grep -qs up "$LOG"; }
        sim_wait_for up
        kill -TERM "$(cat /proc/"$outer"/task/*/children)"
        status=0
        wait "$outer" || status=$?
        [ "$status" -eq 9 ]
        grep -qx told "$LOG"
        free
}

@test "run: --restart starts a failed command again, not one that was asked to end" {
        sim_up --gpus 1
        run guard --restart on-failure:1 -- sh -c "echo >>'$BATS_TEST_TMPDIR/lives'; exit 3"
        [ "$status" -eq 3 ]
        [ "$(wc -l <"$BATS_TEST_TMPDIR/lives")" -eq 2 ]
}

@test "run: 123 when the memory does not come back" {
        need_python
        sim_up --gpus 1
        GPUFREE_SIM_FAULT=never run guard --log "$LOG" --settle 1s --grace 1s -- python3 "$SERVER" exit 0
        echo "$output"
        [ "$status" -eq 123 ]
        [[ "$output" == *"GPU 0 did not come back"* ]]
}

@test "run: an interactive shell, job control and the terminal as without a guard" {
        need_python
        sim_up --gpus 1
        # shellcheck disable=SC2086
        run timeout -k 5 100 python3 "$SOURCE_DIR/tests/system/run_pty.py" "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace -q
        echo "$output"
        [ "$status" -eq 0 ]
}

# as_bare PROGRAM: typed at, it shows the same behind the guard as without.
as_bare() {
        # shellcheck disable=SC2086
        run timeout -k 5 100 python3 "$SOURCE_DIR/tests/system/run_interactive.py" "$1" "$GPUFREE" run ${GPUFREE_OPTS-} --scope namespace -q
        echo "$output"
        [ "$status" -eq 0 ]
}

@test "run: an interactive python behaves as without a guard" {
        need_python
        sim_up --gpus 1
        as_bare python
}

@test "run: a full-screen editor behaves as without a guard" {
        need_python
        local editor
        editor="$(command -v vim.tiny || command -v vim)" || skip "no vim.tiny and no vim"
        sim_up --gpus 1
        as_bare "$editor"
}

@test "run: 100 pairs of guards started together never share a GPU, and leave nothing" {
        sim_up --gpus 2
        run "$SOURCE_DIR/tests/system/run_pairs.sh" 100 "$GPUFREE" "$BATS_TEST_TMPDIR"
        echo "$output"
        [ "$status" -eq 0 ]
        none_hold
}

@test "wait, check: --free-memory and --quiet-for" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 100GiB
        run gpufree check --free-memory 20GiB
        [ "$status" -eq 0 ]
        run gpufree check --free-memory 60GiB
        [ "$status" -eq 1 ]
        run gpufree wait --free-memory 60GiB --timeout 1s
        [ "$status" -eq 6 ]
        run gpufree wait --quiet-for 1s --timeout 1s
        [ "$status" -eq 6 ]
        (sleep 1; kill -KILL "$pid") 3>&- &
        run gpufree wait --free-memory 60GiB --quiet-for 1s --timeout 30s
        [ "$status" -eq 0 ]
        [[ "$output" == *"Quiet for 1.0 s"* ]]
}

# busy_of: `busy` of GPU 0's verdict in the document $output.
busy_of() {
        python3 -c 'import json, sys; v = json.load(sys.stdin)["gpus"][0]["verdict"]; print(v["busy"], v["verified"])' <<<"$output"
}

@test "wait: a GPU that computes is not quiet, whoever does it; quiet begins when it stops" {
        need_python
        sim_up --gpus 2
        gpufree-sim busy "$GPUFREE_SIM_DIR" 0 37
        run gpufree wait --gpu 0 --quiet-for 600ms --timeout 2s
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"It did not stay so for 600 ms"*"GPU 0 was computing"* ]]
        run --separate-stderr gpufree wait --gpu 0 --quiet-for 600ms --timeout 1s --json
        [ "$status" -eq 6 ]
        [ "$(busy_of)" = "37 True" ]
        run gpufree wait --gpu 1 --quiet-for 600ms --timeout 30s # another GPU's work is none of its
        [ "$status" -eq 0 ]
        run gpufree wait --gpu 0 --timeout 30s # free it is
        [ "$status" -eq 0 ]
        gpufree wait --gpu 0 --quiet-for 600ms --timeout 60s >"$BATS_TEST_TMPDIR/out" 3>&- &
        waiter=$!
        started+=("$waiter")
        sleep 2
        kill -0 "$waiter"
        gpufree-sim busy "$GPUFREE_SIM_DIR" 0 0
        wait "$waiter"
        grep -q "Quiet for 600 ms: nothing computed" "$BATS_TEST_TMPDIR/out"
        run --separate-stderr gpufree wait --gpu 0 --quiet-for 300ms --timeout 30s --json
        [ "$status" -eq 0 ]
        [ "$(busy_of)" = "0 True" ]
}

@test "wait: work of a holder that may stay is no quiet either" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 20GiB
        GPUFREE_SIM_FAULT=busy=50 run gpufree wait --free-memory 60GiB --quiet-for 500ms --timeout 2s
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"GPU 0 was computing"* ]]
        run gpufree wait --free-memory 60GiB --quiet-for 500ms --timeout 30s
        [ "$status" -eq 0 ]
}

@test "wait: utilisation that cannot be read is said, not taken for busy nor for quiet" {
        need_python
        sim_up --gpus 2
        GPUFREE_SIM_FAULT=error=3:0:utilization run --separate-stderr gpufree wait --quiet-for 300ms --timeout 30s
        echo "$output" "$stderr"
        [ "$status" -eq 0 ]
        [[ "$stderr" == *"GPU 0: reading its utilisation: "*"its quiet rests on holders and memory alone"* ]]
        [[ "$stderr" != *"GPU 1"* ]]
        [[ "$output" == *"Quiet for 300 ms by holders and memory; whether GPU 0 computed cannot be read."* ]]
        GPUFREE_SIM_FAULT=error=3:0:utilization run --separate-stderr gpufree wait --quiet-for 300ms --timeout 30s --json
        [ "$status" -eq 0 ]
        [ "$(busy_of)" = "None True" ]
        # Nor does it hide that another GPU computes.
        gpufree-sim busy "$GPUFREE_SIM_DIR" 1 5
        GPUFREE_SIM_FAULT=error=3:0:utilization run gpufree wait --quiet-for 300ms --timeout 1s
        [ "$status" -eq 6 ]
}

# told EXPRESSION: of the document in $1, as Python sees it in `d`.
told() {
        python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$BATS_TEST_TMPDIR/doc" "$1"
}

@test "run: --json-file tells what became of the command, and leaves standard output to it" {
        need_python
        sim_up --gpus 2
        doc="$BATS_TEST_TMPDIR/doc"
        run --separate-stderr guard --gpu 1 --json-file "$doc" -- sh -c 'echo mine; exit 121'
        [ "$status" -eq 121 ]
        [ "$output" = mine ]
        [ "$(told '(d["schema"], d["command"], d["outcome"], d["exit"], d["run"]["status"], d["run"]["signal"])')" = \
                "(1, 'run', 'command-failed', {'code': 121, 'name': 'command-failed'}, 121, None)" ]
        [ "$(told '[g["index"] for g in d["run"]["claimed"]], d["run"]["claimed"][0]["uuid"] == d["gpus"][1]["uuid"]')" = "([1], True)" ]
        [ "$(told 'd["gpus"][0]["verdict"], d["gpus"][1]["verdict"]["verified"], d["run"]["verified"]')" = "(None, True, True)" ]
        [ "$(told 'd["run"]["ready"], d["run"]["ended"], d["run"]["argv"][0]')" = \
                "({'state': 'not-asked', 'after_ms': None}, {'signalled': 0, 'killed': 0, 'stuck': 0}, 'sh')" ]
        # A descriptor of the caller's, that the command does not get.
        guard -q --json-file /dev/fd/7 -- sh -c 'kill -SEGV $$' 7>"$doc" || [ $? -eq 139 ]
        [ "$(told 'd["outcome"], d["run"]["signal"], d["run"]["status"]')" = "('command-failed', 11, None)" ]
        run guard -q --json-file "$doc" -- /nonexistent/program
        [ "$status" -eq 127 ]
        [ "$(told 'd["outcome"], d["run"]["pid"], d["run"]["error"], d["run"]["verified"]')" = \
                "('not-started', None, 'No such file or directory', True)" ]
        run guard -q --json-file "$doc" -- sh -c 'exit 2' # a status of 2 is the command's, not bad usage
        [ "$status" -eq 2 ]
        [ "$(told 'd["outcome"], d["exit"]["code"]')" = "('command-failed', 2)" ]
}

@test "run: --json with --log, and what it refuses" {
        need_python
        sim_up --gpus 1
        guard -q --json --log "$LOG" --ready-log '^up$' --ready-timeout 20s -- sh -c 'echo up; sleep 1' >"$BATS_TEST_TMPDIR/doc"
        [ "$(told 'd["outcome"], d["run"]["ready"]["state"], d["run"]["ready"]["after_ms"] >= 0, d["elapsed_ms"] >= 1000')" = "('ok', 'ready', True, True)" ]
        grep -q '^up$' "$LOG"
        run guard --json -- true
        [ "$status" -eq 2 ]
        [[ "$output" == *"standard output is the command's"* ]]
        run guard --json --json-file "$BATS_TEST_TMPDIR/doc" --log "$LOG" -- true
        [ "$status" -eq 2 ]
        run guard --json-file /nonexistent/doc -- touch "$BATS_TEST_TMPDIR/started"
        [ "$status" -eq 2 ]
        [ "${#lines[@]}" -eq 1 ]
        mkfifo "$BATS_TEST_TMPDIR/fifo"
        run guard --json-file "$BATS_TEST_TMPDIR/fifo" -- touch "$BATS_TEST_TMPDIR/started"
        [ "$status" -eq 2 ]
        [[ "$output" == *"nobody reads it"* ]]
        [ ! -e "$BATS_TEST_TMPDIR/started" ]
}

@test "run: the document of a refusal says who holds it; of a hang what was ended; of memory that stays, what stays" {
        need_python
        sim_up --gpus 3
        doc="$BATS_TEST_TMPDIR/doc"
        add plain --gpu 0
        run guard --gpu 0 --json-file "$doc" -- true
        [ "$status" -eq 121 ]
        [ "$(told 'd["outcome"], d["exit"]["code"], d["run"]["starts"], d["run"]["claimed"], d["run"]["verified"]')" = "('not-free', 121, 0, [], None)" ]
        [ "$(told '[h["pid"] for h in d["holders"]]')" = "[$pid]" ]
        [ "$(told 'any("GPU 0 is not free" in s for s in d["sentences"])')" = True ]
        run guard --gpu 1 --ready-tcp 127.0.0.1:1 --ready-timeout 2s --grace 1s --log "$LOG" --json-file "$doc" -- python3 "$SERVER" stall
        [ "$status" -eq 122 ]
        [ "$(told 'd["outcome"], d["run"]["ready"]["state"], d["run"]["ended"]["signalled"] > 0, d["run"]["ended"]["stuck"], d["run"]["verified"]')" = \
                "('not-ready', 'late', True, 0, True)" ]
        GPUFREE_SIM_FAULT=never run guard --gpu 2 --log "$LOG" --settle 1s --grace 1s --json-file "$doc" -- python3 "$SERVER" exit 0
        [ "$status" -eq 123 ]
        [ "$(told 'd["outcome"], d["run"]["status"], d["run"]["verified"], d["gpus"][2]["verdict"]["verified"], d["gpus"][2]["verdict"]["used_after"] > 0')" = \
                "('not-back', 0, False, False, True)" ]
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpufree kill`: protection as data, the audit, processes that are hard to end, being interrupted.

load helpers

setup() {
        cli_setup
        frozen=
}

teardown() {
        # Nothing stays frozen, whatever a test came to.
        if [ -n "$frozen" ]; then
                thaw "$frozen" || true
        fi
        cli_teardown
        if [ -n "$frozen" ]; then
                sim_wait_for rmdir "$frozen" 2>/dev/null || true
        fi
        for child in ${children-}; do
                kill -KILL "$child" 2>/dev/null || true
        done
}

config() {
        printf '%s\n' "$@" >"$BATS_TEST_TMPDIR/conf"
}

exe_of() {
        readlink "/proc/$1/exe"
}

# ---- /etc/gpufree.conf ----

@test "config: a protected executable is left alone with its reason; --include lifts it" {
        sim_up --gpus 1
        add plain --gpu 0
        [ "$(stat -c '%u' "$(exe_of "$pid")")" = 0 ] || skip "the holder's executable is not root's"
        [ "$(($(stat -c '0%a' "$(exe_of "$pid")") & 022))" = 0 ] || skip "the holder's executable can be written by others"
        config '[protect]' "exe $(exe_of "$pid") = billing agent; nodes drain without it"
        run gpufree kill -y --config "$BATS_TEST_TMPDIR/conf"
        echo "$output"
        [ "$status" -eq 4 ]
        [[ "$output" == *"billing agent; nodes drain without it"* ]]
        alive "$pid"
        run gpufree kill -y --config "$BATS_TEST_TMPDIR/conf" --include "$pid"
        [ "$status" -eq 0 ]
        sim_wait_gone "$pid"
}

@test "config: each mistake is one line with file and line, exit 2, nothing done" {
        sim_up --gpus 1
        add plain --gpu 0
        while IFS='|' read -r line text; do
                config '[protect]' "$line"
                run_apart gpufree kill -y --config "$BATS_TEST_TMPDIR/conf"
                echo "$line: $err"
                [ "$status" -eq 2 ]
                [ "$(wc -l <<<"$err")" -eq 1 ]
                [[ "$err" == *"$BATS_TEST_TMPDIR/conf:2: "*"$text"* ]]
                [ "$out" = "" ]
        done <<'END'
exe relative/path = why|whole path
name x = why|exe, unit or comm
unit = why|name is missing
unit a.service =|reason
comm much-too-long-for-a-comm = why|15
nonsense|[section]
END
        config '[else]' 'unit a.service = why'
        run_apart gpufree kill -y --config "$BATS_TEST_TMPDIR/conf"
        [ "$status" -eq 2 ]
        [[ "$err" == *"[else]"* ]]
        run_apart gpufree list --config "$BATS_TEST_TMPDIR/not-there"
        [ "$status" -eq 2 ]
        run_apart gpufree list --config "$BATS_TEST_TMPDIR"
        [ "$status" -eq 2 ]
        alive "$pid"
}

# ---- the audit ----

# A /dev of our own with a log in it, for one command.
with_log() {
        unshare --mount sh -c '
                set -e
                rm -f "$1/log"
                mkdir -p "$1/dev"
                mount -t tmpfs none "$1/dev"
                mkdir "$1/dev/upper" "$1/dev/work"
                mount -t overlay -o "lowerdir=/dev,upperdir=$1/dev/upper,workdir=$1/dev/work" none /dev
                python3 - "$1/log" <<"PY" &
import socket, sys, os
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("/dev/log")
out = open(sys.argv[1], "w", buffering=1)
out.write("ready\n")
s.settimeout(60)
while True:
    text = s.recv(4096).decode(errors="replace")
    if text == "end":
        break
    out.write(text + "\n")
PY
                logger=$!
                n=0
                until grep -qs ready "$1/log" || [ $n -ge 200 ]; do sleep 0.05; n=$((n + 1)); done
                directory=$1
                shift
                status=0
                "$@" || status=$?
                python3 -c "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect(\"/dev/log\"); s.send(b\"end\")"
                wait $logger
                exit $status
        ' sh "$BATS_TEST_TMPDIR" "$@"
}

@test "audit: each signal and each fate is a line in the system's log; a dry run leaves none" {
        [ "$(id -u)" -eq 0 ] || skip "needs root for a mount namespace"
        unshare --mount true 2>/dev/null || skip "no mount namespaces here"
        command -v python3 >/dev/null || skip "no python3"
        sim_up --gpus 1
        add plain --gpu 0
        # shellcheck disable=SC2086
        run with_log "$GPUFREE" $GPUFREE_OPTS --scope namespace kill -n --gpu 0
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(cat "$BATS_TEST_TMPDIR/log")" = ready ]
        # shellcheck disable=SC2086
        run with_log "$GPUFREE" $GPUFREE_OPTS --scope namespace kill -y -q --gpu 0
        echo "$output"
        cat "$BATS_TEST_TMPDIR/log"
        [ "$status" -eq 0 ]
        grep -qE "^<85>.* gpufree\[[0-9]+\]: sent SIGTERM to $pid \(.* for holding GPU 0, by uid 0.*: gpufree kill --gpu 0" "$BATS_TEST_TMPDIR/log"
        grep -qE "gpufree\[[0-9]+\]: $pid \(.*: ended" "$BATS_TEST_TMPDIR/log"
        grep -qE "gpufree\[[0-9]+\]: outcome ok" "$BATS_TEST_TMPDIR/log"
}

@test "audit: what run --clean signals is a line in the system's log" {
        [ "$(id -u)" -eq 0 ] || skip "needs root for a mount namespace"
        unshare --mount true 2>/dev/null || skip "no mount namespaces here"
        command -v python3 >/dev/null || skip "no python3"
        sim_up --gpus 1
        add plain --gpu 0
        # shellcheck disable=SC2086
        run with_log timeout -k 5 60 "$GPUFREE" run $GPUFREE_OPTS --scope namespace --gpu 0 --clean -- true
        echo "$output"
        cat "$BATS_TEST_TMPDIR/log"
        [ "$status" -eq 0 ]
        grep -qE "gpufree\[[0-9]+\]: sent SIGTERM to $pid \(.* for holding GPU 0, by uid 0.*: gpufree run --clean --gpu 0" "$BATS_TEST_TMPDIR/log"
}

# ---- processes that are hard to end ----

cgroup_dir() {
        local dir
        for dir in /sys/fs/cgroup/freezer /sys/fs/cgroup /sys/fs/cgroup/unified; do
                [ -e "$dir/cgroup.procs" ] || continue
                if [ "$dir" = /sys/fs/cgroup/freezer ] || grep -qs . "$dir/cgroup.controllers"; then
                        mkdir "$dir/gpufree-test-$$" 2>/dev/null || continue
                        frozen="$dir/gpufree-test-$$"
                        return 0
                fi
        done
        return 1
}

freeze() {
        if [ -e "$1/freezer.state" ]; then
                echo FROZEN >"$1/freezer.state"
                sim_wait_for grep -qx FROZEN "$1/freezer.state"
        else
                echo 1 >"$1/cgroup.freeze"
                sim_wait_for grep -qx 'frozen 1' "$1/cgroup.events"
        fi
}

thaw() {
        if [ -e "$1/freezer.state" ]; then echo THAWED >"$1/freezer.state"; else echo 0 >"$1/cgroup.freeze"; fi
}

@test "hard to end: in a frozen cgroup; never a false \"free\", and what keeps it is said" {
        [ "$(id -u)" -eq 0 ] || skip "needs root for a cgroup"
        sim_up --gpus 1
        add plain --gpu 0
        cgroup_dir || skip "no cgroup to freeze here"
        echo "$pid" >"$frozen/cgroup.procs" || skip "the process cannot be moved to a cgroup"
        freeze "$frozen"
        run gpufree kill -y -9 --gpu 0 --timeout 5s
        echo "$output"
        if alive "$pid"; then
                [ "$status" -eq 1 ] || [ "$status" -eq 6 ]
                [[ "$output" == *frozen* ]]
                [[ "$output" != *"verified free"* ]]
                thaw "$frozen"
                sim_wait_gone "$pid"
        else
                [ "$status" -eq 0 ] # the v2 freezer lets a fatal signal through
        fi
}

@test "hard to end: traced by a debugger that has stopped it" {
        command -v cc >/dev/null || skip "no compiler"
        sim_up --gpus 1
        add plain --gpu 0
        cat >"$BATS_TEST_TMPDIR/t.c" <<'END'
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <signal.h>
#include <unistd.h>
int main(int c, char **v) {
        (void)c;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ptrace(PTRACE_SEIZE, atoi(v[1]), 0, 0) < 0 || ptrace(PTRACE_INTERRUPT, atoi(v[1]), 0, 0) < 0) return 1;
        for (;;) pause();
}
END
        cc -w -o "$BATS_TEST_TMPDIR/t" "$BATS_TEST_TMPDIR/t.c"
        "$BATS_TEST_TMPDIR/t" "$pid" >/dev/null 2>&1 3>&- &
        children="$!"
        sim_wait_for grep -qE '^State:[[:space:]]*t' "/proc/$pid/status" || skip "nothing can be traced here"
        run gpufree kill -y --grace 1s --gpu 0
        echo "$output"
        [ "$status" -eq 0 ]
        sim_wait_gone "$pid"
}

@test "hard to end: a parent that waits for its vfork child in state D is killed all the same, or it is said why not" {
        command -v cc >/dev/null || skip "no compiler"
        sim_up --gpus 1
        cat >"$BATS_TEST_TMPDIR/v.c" <<'END'
#include <fcntl.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
int main(int c, char **v) {
        (void)c;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (open(v[1], O_RDONLY | O_NOCTTY | O_NONBLOCK) < 0) return 1;
        if (vfork() == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); close(3); for (;;) pause(); }
        return 0;
}
END
        cc -w -o "$BATS_TEST_TMPDIR/v" "$BATS_TEST_TMPDIR/v.c"
        "$BATS_TEST_TMPDIR/v" "$NODE/dev/nvidia0" >/dev/null 2>&1 3>&- &
        child=$!
        children="$child"
        sim_wait_for grep -qE '^State:[[:space:]]*D' "/proc/$child/status"
        run gpufree kill -y --grace 1s --timeout 20s "$NODE/dev/nvidia0"
        echo "$output"
        [ "$status" -eq 0 ]
        sim_wait_gone "$child"
}

# ---- interrupted ----

@test "interrupted at any moment: the exit code is right, what was done is told, nothing is left stopped" {
        sim_up --gpus 2
        add plain --gpu 1
        neighbour=$pid
        for n in $(seq "${INTERRUPTIONS-30}"); do
                signal=$(printf 'INT\nTERM\nKILL\n' | sed -n "$((n % 3 + 1))p")
                add ignore-term --gpu 0
                # shellcheck disable=SC2086
                "$GPUFREE" $GPUFREE_OPTS --scope namespace kill -y --gpu 0 --grace 100ms >"$BATS_TEST_TMPDIR/o" 2>&1 3>&- &
                command_pid=$!
                sleep "0.$(printf %03d $((n * 37 % 400)))"
                kill "-$signal" "$command_pid" 2>/dev/null || true
                status=0
                wait "$command_pid" || status=$?
                echo "$n SIG$signal: exit $status: $(cat "$BATS_TEST_TMPDIR/o")"
                case $signal in
                KILL) [ "$status" -eq 137 ] || [ "$status" -eq 0 ] ;;
                *) [ "$status" -eq 1 ] || [ "$status" -eq 0 ] || [ "$status" -eq $((128 + $(kill -l $signal))) ] ;;
                esac
                if [ "$status" -eq 1 ]; then grep -q "interrupted by SIG$signal" "$BATS_TEST_TMPDIR/o"; fi
                if [ "$status" -eq 0 ]; then ! alive "$pid"; fi
                if alive "$pid"; then
                        ! grep -q "verified free" "$BATS_TEST_TMPDIR/o"
                        grep -qE '^State:[[:space:]]*[SR]' "/proc/$pid/status"
                        kill -KILL "$pid"
                        sim_wait_gone "$pid"
                fi
                alive "$neighbour"
        done
}

@test "interrupted: standard output fills up after the plan was shown: what was ended is told on standard error, not exit 2" {
        command -v python3 >/dev/null || skip "no python3"
        sim_up --gpus 1
        add plain --gpu 0
        # A pipe whose reader goes away after the first line.
        # shellcheck disable=SC2086
        run_apart python3 - "$GPUFREE" $GPUFREE_OPTS --scope namespace kill -y --gpu 0 <<'PY'
import os, subprocess, sys
r, w = os.pipe()
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=w)
os.close(w)
os.read(r, 1)
os.close(r)
sys.exit(child.wait())
PY
        echo "$status: $err"
        if alive "$pid"; then
                [ "$status" -eq 2 ]
        else
                [ "$status" -eq 3 ]
                [[ "$err" == *"1 of 1 processes were ended"* ]]
        fi
}

@test "look: a GPU that the driver knows and that has no device node is said, incomplete, no crash" {
        sim_up --gpus 2
        rm "$NODE/dev/nvidia1"
        run gpufree check
        echo "$output"
        # In the initial PID namespace the driver vouches for what cannot be looked at.
        [ "$status" -eq 3 ] || { [ "$status" -eq 0 ] && [[ "$output" == *"the driver lists no process there"* ]]; }
        [[ "$output" == *"GPU 1 has no device node"* ]]
}

# Shows the plan, lets the holder close what it is told to while the question waits, and then says yes.
confirm_late() {
        python3 - "$NODE/dev" "$@" <<'PY'
import os, pty, subprocess, sys, select, time
dev, close, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
holder = subprocess.Popen([sys.executable, "-c", f"""
import os, sys
fds = [os.open({dev!r} + n, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK) for n in ("/nvidia0", "/nvidia1")]
print("ready", flush=True)
sys.stdin.readline()
for fd in fds[:{close}]:
    os.close(fd)
print("closed", flush=True)
sys.stdin.readline()
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert holder.stdout.readline() == "ready\n"
pid, fd = pty.fork()
if pid == 0:
    words = [w.replace("HOLDER", str(holder.pid)) for w in words]
    os.execvp(words[0], words)
text, end = b"", time.monotonic() + 30
while b"Go on?" not in text and time.monotonic() < end:
    if select.select([fd], [], [], 1)[0]:
        text += os.read(fd, 4096)
assert b"Go on?" in text, text
holder.stdin.write("\n")
holder.stdin.flush()
assert holder.stdout.readline() == "closed\n"
os.write(fd, b"y\n")
while True:
    try:
        more = os.read(fd, 4096)
    except OSError:
        break
    if not more:
        break
    text += more
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(text.decode(errors="replace"))
print("status", status, "holder", "lives" if holder.poll() is None else "ended")
holder.kill()
PY
}

@test "confirmed late: who has let go in the meantime is not signalled" {
        command -v python3 >/dev/null || skip "no python3"
        sim_up --gpus 2
        # shellcheck disable=SC2086
        run confirm_late 2 "$GPUFREE" $GPUFREE_OPTS --scope namespace kill --pid HOLDER --grace 5s
        echo "$output"
        [[ "$output" == *"status 0 holder lives"* ]]
}

@test "confirmed late: who has only another GPU by now is not signalled" {
        command -v python3 >/dev/null || skip "no python3"
        sim_up --gpus 2
        # shellcheck disable=SC2086
        run confirm_late 1 "$GPUFREE" $GPUFREE_OPTS --scope namespace kill --gpu 0 --any-open --grace 5s
        echo "$output"
        [[ "$output" == *"status 0 holder lives"* ]]
}

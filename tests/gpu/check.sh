#!/bin/bash
# SPDX-License-Identifier: MIT
# What a simulated node cannot show: gpufree on a real NVIDIA GPU. Run by hand, as root, on a machine whose GPU 0 nobody
# uses:  tests/gpu/check.sh GPUFREE CUDA_HOLDER [RUNS]
#
# Each shape is held, listed, killed and verified; then SIGKILL-to-verified is timed against the usual recipe
# (fuser -k; sleep 1; fuser -k; nvidia-smi), in turns. Ends with "N passed, N failed".
set -u
gpufree=$1 holder=$2 runs=${3:-5}
work=$(mktemp -d) passed=0 failed=0 helper=
trap 'for p in $(cat "$work"/pids 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done; rm -rf "$work"' EXIT

ok() { passed=$((passed + 1)); echo "ok - $*"; }
bad() { failed=$((failed + 1)); echo "NOT OK - $*"; }
check() { # check WHAT EXPECTED GOT
    if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: expected $2, got $3"; fi
}
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0; }
now_ms() { date +%s%3N; }

# start SHAPE MIB: sets $keeper, once the memory is held
start() {
    rm -f "$work/out"
    mkfifo "$work/out"
    setsid "$holder" "$1" "$2" >"$work/out" 2>"$work/err" &
    echo $! >>"$work/pids"
    keeper=
    read -r -t 60 word keeper _ <"$work/out" && [ "$word" = ready ] || { bad "$1 did not start: $(cat "$work/err")"; return 1; }
    echo "$keeper" >>"$work/pids"
}

baseline=$(used)
echo "driver's figure with nothing held: $baseline MiB"
"$gpufree" check >"$work/check" 2>&1
check "check with nothing held" 0 $?
cat "$work/check"

sleep 100000 </dev/null &
bystander=$!
echo $bystander >>"$work/pids"
exec 7</dev # a process that only has the directory of the devices open: this shell

for shape in plain fork zombie-leader own-node ipc; do
    start $shape 4096 || continue
    echo "--- $shape: held by $keeper, driver says $(used) MiB; fuser: $(fuser /dev/nvidia0 2>/dev/null)"
    "$gpufree" list
    "$gpufree" list --json >"$work/list.json"
    check "$shape: list exits 0" 0 $?
    python3 - "$work/list.json" "$keeper" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
h = [x for x in d["holders"] if x["pid"] == int(sys.argv[2])]
mem = [g["memory"] for x in h for g in x["gpus"] if g["index"] == 0 and g["context"]]
sys.exit(0 if h and mem and mem[0] and mem[0] >= 4096 << 20 else 1)
PY
    check "$shape: listed with its memory" 0 $?
    "$gpufree" check >/dev/null 2>&1
    check "$shape: check says held" 1 $?
    "$gpufree" kill --gpu 0 --yes -9
    check "$shape: kill exits 0" 0 $?
    [ -e "/proc/$keeper" ] && ! grep -q 'State:.*Z' "/proc/$keeper/status" && bad "$shape: $keeper lives"
    check "$shape: memory back at the idle figure" "$baseline" "$(used)"
done
if kill -0 $bystander; then ok "bystanders live"; else bad "a bystander died"; fi
"$gpufree" check >/dev/null 2>&1
check "check after all of it" 0 $?

start plain 1024
"$gpufree" kill --gpu 0 --yes --grace 3s
check "TERM suffices for a plain holder" 0 $?

echo "--- another user without rights"
start plain 1024
for command in "list" "check" "kill --gpu 0 --yes"; do
    setpriv --reuid 65534 --regid 65534 --clear-groups "$gpufree" $command >"$work/user" 2>&1
    code=$?
    cat "$work/user"
    # An unprivileged check may say "held" from the driver's word; it never says free.
    if [ $code = 3 ] || { [ "$command" = check ] && [ $code = 1 ]; }; then ok "other user: $command exits $code"; else bad "other user: $command exits $code"; fi
    if grep -q 'could not be looked at' "$work/user"; then ok "other user: $command says what it could not see"; else bad "other user: $command is silent"; fi
done
[ -e "/proc/$keeper" ] && ok "other user: nothing was signalled"
kill -KILL "$keeper"
"$gpufree" wait --timeout 20s >/dev/null 2>&1
check "wait after the end" 0 $?

echo "--- SIGKILL to verified, 40 GiB, in turns"
if command -v fuser >/dev/null; then
    for run in $(seq "$runs"); do
        start plain 40960 || break
        a=$(now_ms)
        "$gpufree" kill --gpu 0 --yes -9 >/dev/null 2>"$work/err"
        code=$?
        b=$(now_ms)
        [ $code = 0 ] || bad "timed kill exits $code: $(cat "$work/err")"
        start plain 40960 || break
        c=$(now_ms)
        fuser -k /dev/nvidia0 >/dev/null 2>&1
        sleep 1
        fuser -k /dev/nvidia0 >/dev/null 2>&1
        nvidia-smi >/dev/null
        d=$(now_ms)
        echo "run $run: gpufree $((b - a)) ms, recipe $((d - c)) ms"
        echo "$((b - a)) $((d - c))" >>"$work/times"
    done
    python3 - "$work/times" <<'PY'
import statistics, sys
pairs = [list(map(int, line.split())) for line in open(sys.argv[1])]
ratio = statistics.median(r / g for g, r in pairs)
print(f"median ratio recipe / gpufree: {ratio:.1f}")
sys.exit(0 if ratio >= 4 else 1)
PY
    check "at least 4 times faster than the recipe" 0 $?
fi
echo "--- from the moment the last pidfd is readable to the verified answer, 40 GiB, $((runs * 2)) times"
for run in $(seq $((runs * 2))); do
    start plain 40960 || break
    python3 - "$gpufree" "$keeper" "$work/overheads" <<'PY'
# Watches the holder's pidfd besides gpufree: when it is readable here, and when gpufree has said so and ended.
import json, os, select, subprocess, sys, time
gpufree, keeper, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
pidfd = os.pidfd_open(keeper)
kill = subprocess.Popen([gpufree, "kill", "--gpu", "0", "--yes", "-9", "--json"], stdout=subprocess.PIPE, text=True)
poll = select.poll()
poll.register(pidfd, select.POLLIN)
poll.poll(60000)
gone = time.monotonic()
text, _ = kill.communicate(timeout=60)
end = time.monotonic()
t = json.loads(text)["timings"]
own = t["verified_ms"] - t["last_exit_ms"] if t["verified_ms"] is not None else float("nan")
print(f"signalled {t['signalled_ms']:.1f}, last exit {t['last_exit_ms']:.1f}, quiet {t['quiet_ms']:.1f}, "
      f"verified {t['verified_ms']} ms; exit to verified {own:.1f} ms; pidfd readable to gpufree's own end "
      f"{(end - gone) * 1000:.1f} ms")
with open(path, "a") as f:
    f.write(f"{own} {(end - gone) * 1000}\n")
sys.exit(kill.returncode)
PY
    check "measured kill exits 0" 0 $?
done
python3 - "$work/overheads" <<'PY'
import statistics, sys
rows = [list(map(float, line.split())) for line in open(sys.argv[1])]
own, seen = ([row[i] for row in rows] for i in (0, 1))
print(f"exit to verified: median {statistics.median(own):.1f} ms, most {max(own):.1f} ms; "
      f"pidfd readable to the end of the command: median {statistics.median(seen):.1f} ms, most {max(seen):.1f} ms")
sys.exit(0 if statistics.median(own) <= 20 else 1)
PY
check "gpufree adds at most 20 ms (median) to what the kernel takes" 0 $?
echo "$passed passed, $failed failed"
[ $failed = 0 ]

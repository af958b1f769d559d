#!/bin/bash
# SPDX-License-Identifier: MIT
# The guard on a real NVIDIA GPU, with PyTorch. Run by hand, as root, on a machine whose GPUs nobody uses:
#   tests/gpu/run.sh GPUFREE
# The story of a server that hangs (bare and under the guard), torchrun whose agent is killed (on two GPUs where there
# are two), SIGKILL of the guard, a wait for quiet while it computes, and what `run -- true` costs. Ends with "N passed, N failed".
set -u
gpufree=$1
work=$(mktemp -d) passed=0 failed=0
trap 'for p in $(cat "$work"/pids 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done; rm -rf "$work"' EXIT

ok() { passed=$((passed + 1)); echo "ok - $*"; }
bad() { failed=$((failed + 1)); echo "NOT OK - $*"; }
check() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: expected $2, got $3"; fi; }
until_true() { # until_true SECONDS COMMAND…
    local end=$((SECONDS + $1))
    shift
    until "$@"; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.2; done
}
gpus=$(nvidia-smi -L | wc -l)
two=$((gpus < 2 ? gpus : 2))

cat >"$work/server.py" <<'PY'
"""A launcher, one worker a GPU, forked data workers; loads "weights" and stalls without opening its port."""
import os, signal, subprocess, sys
if len(sys.argv) > 1:
    import torch
    torch.cuda.set_device(int(sys.argv[1]))
    weights = torch.zeros(4 << 30, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    if os.fork() == 0:
        while True:
            signal.pause()
    print("loaded", flush=True)
    while True:
        signal.pause()
n = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
for i in range(n):
    subprocess.Popen([sys.executable, __file__, str(i)], start_new_session=True)
while True:
    signal.pause()
PY
cat >"$work/train.py" <<'PY'
import os, signal, torch
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
weights = torch.zeros(4 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("loaded", os.getppid(), flush=True)
while True:
    signal.pause()
PY
loaded() { [ "$(grep -c loaded "$work/log" 2>/dev/null)" -ge "$1" ]; }
is_free() { "$gpufree" check >/dev/null 2>&1; }

"$gpufree" check || { echo "the GPUs are not free: nothing to show here"; exit 1; }

echo "--- bare: the launcher killed by name's recipe leaves the workers"
list=$(seq -s, 0 $((two - 1)))
CUDA_VISIBLE_DEVICES=$list setsid python3 "$work/server.py" >"$work/log" 2>&1 &
launcher=$!
echo $launcher >>"$work/pids"
until_true 120 loaded "$two" || bad "the bare server does not load: $(tail -n 3 "$work/log")"
kill -KILL $launcher
if is_free; then bad "bare: check says free"; else ok "bare: memory stays after the launcher's end"; fi
"$gpufree" kill --gpu all --yes --grace 2s
check "bare: kill cleans it" 0 $?
is_free && ok "bare: verified free"

echo "--- guarded: not ready in time"
: >"$work/log"
"$gpufree" run --gpus "$two" --ready-tcp 127.0.0.1:29999 --ready-timeout 40s --grace 3s --log "$work/log" -- python3 "$work/server.py" 2>"$work/err"
check "guarded: exit 122" 122 $?
cat "$work/err"
grep -q 'it hangs' "$work/err" && ok "guarded: named as a stall" || bad "guarded: not named as a stall"
grep -q 'verified free' "$work/err" && ok "guarded: verified free" || bad "guarded: not verified"
"$gpufree" run --gpus "$two" -- python3 -c 'import torch; print(torch.zeros(1 << 30, device="cuda").sum().item())'
check "guarded: a second start right after succeeds" 0 $?

echo "--- SIGKILL of the guard"
: >"$work/log"
"$gpufree" run --gpus "$two" --log "$work/log" -- python3 "$work/server.py" 2>/dev/null &
guard=$!
echo $guard >>"$work/pids"
until_true 120 loaded "$two" || bad "the server does not load"
kill -KILL $guard
until_true 20 is_free && ok "SIGKILL of the guard: nothing stays" || bad "SIGKILL of the guard: $("$gpufree" list)"

echo "--- torchrun, its agent killed"
: >"$work/log"
"$gpufree" run --gpus "$two" --grace 3s --log "$work/log" -- python3 -m torch.distributed.run --nproc-per-node "$two" "$work/train.py" 2>"$work/err" &
guard=$!
echo $guard >>"$work/pids"
if until_true 180 loaded "$two"; then
    kill -KILL "$(sed -n 's/^.*loaded \([0-9]*\).*$/\1/p' "$work/log" | head -n 1)"
    wait $guard
    check "torchrun: the guard says 137" 137 $?
    is_free && ok "torchrun: no worker survives" || bad "torchrun: $("$gpufree" list)"
else
    bad "torchrun does not load: $(tail -n 3 "$work/log")"
fi
cat "$work/err"

echo "--- a benchmark waits: work on the GPU is no quiet"
: >"$work/log"
"$gpufree" run -q --gpu 0 --json-file "$work/doc" --grace 3s --log "$work/log" -- python3 -c '
import os, torch
a = torch.randn(8192, 8192, device="cuda")
(a @ a).sum().item()
print("loaded", os.getpid(), flush=True)
while True:
    (a @ a).sum().item()' &
guard=$!
echo $guard >>"$work/pids"
if until_true 120 loaded 1; then
    "$gpufree" wait --gpu 0 --free-memory 1GiB --quiet-for 2s --timeout 8s --json >"$work/quiet"
    check "quiet: a GPU that computes is not quiet" 6 $?
    busy=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["gpus"][0]["verdict"]["busy"])' "$work/quiet")
    [ "$busy" -gt 0 ] 2>/dev/null && ok "quiet: it computes $busy % of the time" || bad "quiet: busy is $busy"
else
    bad "quiet: nothing computes: $(tail -n 3 "$work/log")"
fi
kill -TERM $guard
wait $guard
check "quiet: the guard says 143" 143 $?
"$gpufree" wait --gpu 0 --quiet-for 2s --timeout 30s | tee "$work/quiet"
check "quiet: it is, once the work has ended" 0 "${PIPESTATUS[0]}"
grep -q 'nothing computed' "$work/quiet" && ok "quiet: by the driver's word" || bad "quiet: utilisation was not read"
python3 - "$work/doc" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
print(d["outcome"], d["run"]["signal"], d["run"]["claimed"], d["run"]["verified"])
sys.exit(not (d["outcome"] == "command-failed" and d["run"]["signal"] == 15 and d["run"]["verified"] and
              d["run"]["claimed"][0]["uuid"].startswith("GPU-")))
PY
check "quiet: the document of the run says so" 0 $?

echo "--- what run -- true costs, against two looks (one before, one after)"
now() { date +%s%N; }
for _ in $(seq 10); do
    a=$(now); "$gpufree" run -q -- true; b=$(now); "$gpufree" check >/dev/null; c=$(now)
    echo $(((b - a) / 1000)) $(((c - b) / 1000)) >>"$work/times"
done
python3 - "$work/times" <<'PY'
import statistics, sys
pairs = [list(map(int, line.split())) for line in open(sys.argv[1])]
run, one = (statistics.median(column) / 1000 for column in zip(*pairs))
print(f"run -- true {run:.1f} ms, one check {one:.1f} ms: {run - one:.1f} ms beyond it")
sys.exit(0 if run - one < 30 else 1)
PY
check "run -- true costs under 30 ms beyond a check" 0 $?

echo "--- 50 pairs of guards"
cat >"$work/one.sh" <<'END'
mkdir "$1/$CUDA_VISIBLE_DEVICES" || exit 99
rmdir "$1/$CUDA_VISIBLE_DEVICES"
END
refused=0 double=0
for _ in $(seq 50); do
    "$gpufree" run -q --gpus 1 -- sh "$work/one.sh" "$work" 2>/dev/null & a=$!
    "$gpufree" run -q --gpus 1 -- sh "$work/one.sh" "$work" 2>/dev/null & b=$!
    for p in $a $b; do
        wait $p
        case $? in 0) ;; 121) refused=$((refused + 1)) ;; *) double=$((double + 1)) ;; esac
    done
done
echo "$refused of 100 refused (with one GPU one of a pair may be)"
check "pairs: no double claim" 0 $double
echo "$passed passed, $failed failed"
[ $failed = 0 ]

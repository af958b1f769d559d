#!/bin/bash
# SPDX-License-Identifier: MIT
# Two real NVIDIA GPUs: a process with a context on GPU 1 has GPU 0 open as well. Run by hand, as root, on a machine whose
# first two GPUs nobody uses (python3 with torch):  tests/gpu/two.sh GPUFREE
# It holds GPU 1 and merely has GPU 0 open, with NVML and without; only --gpu 1 ends it. Ends with "N passed, N failed".
set -u
gpufree=$1
work=$(mktemp -d) passed=0 failed=0
trap 'for p in $(cat "$work"/pids 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done; rm -rf "$work"' EXIT
ok() { passed=$((passed + 1)); echo "ok - $*"; }
bad() { failed=$((failed + 1)); echo "NOT OK - $*"; }
check() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: expected $2, got $3"; fi; }

cat >"$work/hold.py" <<'PY'
import os, signal, torch
torch.cuda.set_device(1)
x = torch.zeros(4 << 30, dtype=torch.uint8, device="cuda:1")
torch.cuda.synchronize()
print("ready", os.getpid(), flush=True)
signal.pause()
PY
# on GPU: context and memory of the holder there, from list.json
on() {
    python3 - "$work/list.json" "$holder" "$1" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
for h in d["holders"]:
    if h["pid"] == int(sys.argv[2]):
        for g in h["gpus"]:
            if g["pci"] == d["gpus"][int(sys.argv[3])]["pci"]:
                print("context" if g["context"] else "open")
                sys.exit()
print("nothing")
PY
}

mkfifo "$work/out"
python3 "$work/hold.py" >"$work/out" 2>"$work/err" &
echo $! >>"$work/pids"
read -r -t 120 word holder <"$work/out"
[ "${word-}" = ready ] || { bad "the holder did not start: $(cat "$work/err")"; exit 1; }
for scan in bpf proc; do
    "$gpufree" list --any-open --scan $scan
    "$gpufree" list --any-open --scan $scan --json >"$work/list.json"
    check "$scan: it holds GPU 1" context "$(on 1)"
    check "$scan: it merely has GPU 0 open" open "$(on 0)"
done
"$gpufree" check --gpu 0
check "GPU 0 is free" 0 $?
"$gpufree" check --gpu 1
check "GPU 1 is held" 1 $?
"$gpufree" kill --gpu 0 --yes -9
check "kill --gpu 0 has nothing to do" 0 $?
if kill -0 "$holder"; then ok "it lives on"; else bad "kill --gpu 0 ended the user of GPU 1"; fi
mkdir "$work/none"
echo "no library" >"$work/none/libnvidia-ml.so.1"
LD_LIBRARY_PATH="$work/none:${LD_LIBRARY_PATH-}" "$gpufree" list
LD_LIBRARY_PATH="$work/none:${LD_LIBRARY_PATH-}" "$gpufree" list --any-open --json >"$work/list.json"
check "without NVML: it holds GPU 1" context "$(on 1)"
check "without NVML: it merely has GPU 0 open" open "$(on 0)"
LD_LIBRARY_PATH="$work/none:${LD_LIBRARY_PATH-}" "$gpufree" kill --yes
check "without the driver's word nobody is ended by GPU" 3 $?
if kill -0 "$holder"; then ok "it lives on, again"; else bad "it was ended without the driver's word"; fi
"$gpufree" explain
"$gpufree" kill --gpu 1 --yes -9
check "kill --gpu 1 ends it" 0 $?
"$gpufree" check
check "both are free" 0 $?
echo "$passed passed, $failed failed"
[ $failed = 0 ]

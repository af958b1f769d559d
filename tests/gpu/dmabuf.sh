#!/bin/bash
# SPDX-License-Identifier: MIT
# Memory of a real NVIDIA GPU that a dead process exported: a dma-buf, a VMM handle, and either of them waiting in a
# UNIX socket. Run by hand, as root, on a machine whose GPU 0 nobody uses:
#     tests/gpu/dmabuf.sh GPUFREE HANDLE_HOLDER
# Each is listed with its size and its way of holding, killed, and the memory verified: once by BPF, once by /proc.
# What waits in a socket /proc cannot name: then it must say so (exit 3), end nobody, and never say "free".
set -u
gpufree=$1 holder=$2 mib=2048
work=$(mktemp -d) passed=0 failed=0
trap 'for p in $(cat "$work"/pids 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done; rm -rf "$work"' EXIT

ok() { passed=$((passed + 1)); echo "ok - $*"; }
bad() { failed=$((failed + 1)); echo "NOT OK - $*"; }
check() { # check WHAT EXPECTED GOT
    if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: expected $2, got $3"; fi
}
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0; }
runs() { grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"; }

# start SHAPE: sets $keeper, once the exporter is dead and the peer alone keeps the memory
start() {
    rm -f "$work/out"
    mkfifo "$work/out"
    setsid "$holder" "$1" $mib >"$work/out" 2>"$work/err" &
    echo $! >>"$work/pids"
    keeper=
    read -r -t 60 word keeper _ <"$work/out" && [ "$word" = ready ] || { bad "$1 did not start: $(cat "$work/err")"; return 1; }
    echo "$keeper" >>"$work/pids"
}

# listed SHAPE PID: the holder is in list.json by the right way, on GPU 0, with its size where the kernel tells it
listed() {
    python3 - "$work/list.json" "$1" "$2" "$mib" <<'PY'
import json, sys
path, shape, pid, mib = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
d = json.load(open(path))
holders = [h for h in d["holders"] if h["pid"] == pid]
if len(holders) != 1:
    sys.exit(f"{len(holders)} entries of PID {pid}: {d['holders']}")
h = holders[0]
print("devices:", json.dumps(h["devices"]), "gpus:", json.dumps(h["gpus"]))
ways = {v for u in h["devices"] for v in u["via"]}
gpus = [g for g in h["gpus"] if g["index"] == 0 and g["context"]]
if not gpus:
    sys.exit("not shown as a holder of GPU 0")
if shape.startswith("dmabuf"):
    # As a descriptor it is a dma-buf; in a queue it is one all the same.
    if not ways & {"dmabuf", "scm"}:
        sys.exit(f"held by {ways}")
    if gpus[0]["memory"] != mib << 20:
        sys.exit(f"memory {gpus[0]['memory']}")
else:
    # The driver tells nobody how much a handle keeps: the GPU's figure shows it.
    if not ways & {"fd", "scm"}:
        sys.exit(f"held by {ways}")
    gpu = [g for g in d["gpus"] if g["index"] == 0][0]
    if gpu["memory"]["used"] < mib << 20:
        sys.exit(f"GPU 0 has {gpu['memory']['used']} bytes used")
PY
}

baseline=$(used)
echo "driver's figure with nothing held: $baseline MiB"
sleep 100000 </dev/null &
bystander=$!
echo $bystander >>"$work/pids"

for scan in bpf proc; do
    for shape in dmabuf vmm dmabuf-queued vmm-queued; do
        start $shape || continue
        echo "--- $shape, by $scan: kept by $keeper, driver says $(used) MiB; fuser: $(fuser /dev/nvidia0 2>/dev/null)"
        echo "descriptors of $keeper: $(readlink /proc/"$keeper"/fd/* | tr '\n' ' ')"
        "$gpufree" list --scan $scan
        "$gpufree" list --scan $scan --json >"$work/list.json"
        code=$?
        if [ $scan = proc ] && [[ $shape == *-queued ]]; then
            check "$shape by /proc: the list is not complete, exit" 3 $code
            if grep -q 'descriptors on the way' "$work/list.json"; then ok "$shape by /proc: it says what it cannot see"; else bad "$shape by /proc: it is silent"; fi
            "$gpufree" kill --gpu 0 --yes -9 --scan proc >"$work/kill" 2>&1
            code=$?
            cat "$work/kill"
            check "$shape by /proc: kill says that it does not know, exit" 3 $code
            if grep -q 'verified free' "$work/kill"; then bad "$shape by /proc: free was said"; else ok "$shape by /proc: free was not said"; fi
            if runs "$keeper"; then ok "$shape by /proc: nobody was ended"; else bad "$shape by /proc: $keeper was ended"; fi
            kill -KILL "$keeper"
            "$gpufree" wait --timeout 20s >/dev/null 2>&1
            continue
        fi
        # By /proc a process that even root may not look at (PID 1 in some virtual machines) leaves the list incomplete.
        if [ "$scan" = proc ] && [ $code = 3 ] && grep -q '"unreadable": [1-9]' "$work/list.json"; then code=0; fi
        check "$shape by $scan: list exits" 0 $code
        listed $shape "$keeper"
        check "$shape by $scan: listed with its way and size" 0 $?
        "$gpufree" check --scan $scan >/dev/null 2>&1
        check "$shape by $scan: check says held" 1 $?
        "$gpufree" kill --gpu 0 --yes -9 --scan $scan
        check "$shape by $scan: kill exits" 0 $?
        if runs "$keeper"; then bad "$shape by $scan: $keeper lives"; else ok "$shape by $scan: ended"; fi
        check "$shape by $scan: memory back at the idle figure" "$baseline" "$(used)"
    done
done
if kill -0 $bystander; then ok "the bystander lives"; else bad "the bystander died"; fi

echo "--- nothing is counted twice"
start dmabuf && {
    "$gpufree" list --json >"$work/list.json"
    python3 - "$work/list.json" "$mib" <<'PY'
import json, sys
g = [g for g in json.load(open(sys.argv[1]))["gpus"] if g["index"] == 0][0]["memory"]
print(g)
sys.exit(0 if g["accounted"] is not None and g["accounted"] <= g["used"] + (64 << 20) else 1)
PY
    check "accounted is no more than used" 0 $?
    kill -KILL "$keeper"
    "$gpufree" wait --timeout 20s >/dev/null 2>&1
    check "free after its end" 0 $?
}
echo "$passed passed, $failed failed"
[ $failed = 0 ]

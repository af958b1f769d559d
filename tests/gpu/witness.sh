#!/bin/bash
# SPDX-License-Identifier: MIT
# The driver's own structures as a second witness, on a real NVIDIA GPU. Run by hand, as root, on a machine whose GPUs
# nobody uses; under 3 minutes:
#     tests/gpu/witness.sh GPUFREE CUDA_HOLDER HANDLE_HOLDER
# With NVML and with NVML hidden: who has a context and who has the GPU merely open; the GPU of a dead exporter's handle
# and dma-buf is the peer's; nothing that NVML says is changed; how long it takes. Ends with "N passed, N failed".
set -u
gpufree=$1 cuda=$2 handles=$3
work=$(mktemp -d) passed=0 failed=0
trap 'for p in $(cat "$work"/pids 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done; rm -rf "$work"' EXIT
: >"$work/pids"
ok() { passed=$((passed + 1)); echo "ok - $*"; }
bad() { failed=$((failed + 1)); echo "NOT OK - $*"; }
check() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: expected $2, got $3"; fi; }

uname -r
head -1 /proc/driver/nvidia/version
ls -l /sys/kernel/btf/nvidia /sys/kernel/btf/nvidia_uvm 2>&1
if ! [ -e /sys/kernel/btf/nvidia ]; then
    "$gpufree" list --json | grep -A4 '"witness": {'
    echo "this driver has no type information: nothing to be tried"
    exit 1
fi
# A library that is none: NVML is hidden by it.
mkdir "$work/none"
echo "no library" >"$work/none/libnvidia-ml.so.1"
blind() { LD_LIBRARY_PATH="$work/none:${LD_LIBRARY_PATH-}" "$@"; }

# start PROGRAM SHAPE MIB [ENV…]: sets $keeper
start() {
    local program=$1 shape=$2 mib=$3
    shift 3
    rm -f "$work/out"
    mkfifo "$work/out"
    setsid env "$@" "$program" "$shape" "$mib" >"$work/out" 2>"$work/err" &
    echo $! >>"$work/pids"
    keeper=
    read -r -t 60 word keeper _ <"$work/out" && [ "$word" = ready ] || { bad "$shape did not start: $(cat "$work/err")"; return 1; }
    echo "$keeper" >>"$work/pids"
}

# entry PID GPU: "CONTEXT WITNESS LISTED-NOTE" of PID on the GPU'th GPU by PCI order, from list.json
entry() {
    python3 - "$work/list.json" "$1" "$2" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
pcis = sorted(g["pci"] for g in d["gpus"])
for h in d["holders"]:
    if h["pid"] == int(sys.argv[2]):
        for g in h["gpus"]:
            if g["pci"] == pcis[int(sys.argv[3])]:
                notes = [n.split(":")[0] for n in h["notes"] if n.startswith("witness-")]
                print("context" if g["context"] else "open", g["witness"] or "unknown", *notes)
                sys.exit()
print("nothing")
PY
}
witness() { python3 -c 'import json,sys; w=json.load(open(sys.argv[1]))["scan"]["witness"]; print("read" if w["read"] else w["reason"])' "$work/list.json"; }
look() { # look WHO: list as NVML's user or blind, all that is open
    if [ "$1" = blind ]; then blind "$gpufree" list --any-open --json >"$work/list.json"; else "$gpufree" list --any-open --json >"$work/list.json"; fi
    code=$?
    check "$2, $1: the driver's structures were read" read "$(witness)"
}
gpus=$(find /proc/driver/nvidia/gpus -mindepth 1 -maxdepth 1 | wc -l)

# Opens every GPU's node and UVM, uses none: by its descriptors it could be a user of any.
cat >"$work/opener.py" <<'PY'
import glob, os, signal
fds = [os.open("/dev/nvidiactl", os.O_RDWR)]
fds += [os.open(n, os.O_RDWR) for n in glob.glob("/dev/nvidia[0-9]*") for _ in range(12)]
fds.append(os.open("/dev/nvidia-uvm", os.O_RDWR))
print("ready", os.getpid(), 0, flush=True)
signal.pause()
PY
rm -f "$work/opened"
mkfifo "$work/opened"
python3 "$work/opener.py" >"$work/opened" 2>"$work/err" &
echo $! >>"$work/pids"
read -r -t 30 word opener _ <"$work/opened"
[ "${word-}" = ready ] || bad "the opener did not start: $(cat "$work/err")"

echo "--- a context, and one who merely opens"
if start "$cuda" plain 2048; then
    for who in seeing blind; do
        look $who "plain"
        check "plain, $who: a context on GPU 0" "context context" "$(entry "$keeper" 0)"
        case $(entry "$opener" 0) in
        "open open" | "open unknown") ok "plain, $who: the opener is open: $(entry "$opener" 0)" ;;
        *) if [ $who = seeing ]; then bad "plain, $who: the opener: $(entry "$opener" 0)"; else echo "(the opener, blind: $(entry "$opener" 0))"; fi ;;
        esac
        if [ "$gpus" -gt 1 ]; then check "plain, $who: GPU 1 is merely open" "open open" "$(entry "$keeper" 1)"; fi
    done
    "$gpufree" explain "$keeper" | sed -n 1,6p
    python3 - "$work/list.json" <<'PY'
import json, sys
w = json.load(open(sys.argv[1]))["scan"]["witness"]
print("load", w["load_ms"], "ms, pass", w["pass_ms"], "ms")
PY
    for _ in 1 2 3 4 5; do
        "$gpufree" list --json | python3 -c 'import json,sys; d=json.load(sys.stdin)["scan"]; print("list", d["elapsed_ms"], "ms; load", d["witness"]["load_ms"], "pass", d["witness"]["pass_ms"])'
    done
    "$gpufree" list --scan proc --json | python3 -c 'import json,sys; d=json.load(sys.stdin)["scan"]; print("list by proc", d["elapsed_ms"], "ms;", d["witness"]["reason"])'
    check "check says held" 1 "$("$gpufree" check --gpu 0 >/dev/null 2>&1; echo $?)"
    blind "$gpufree" kill --yes -9 >/dev/null 2>&1
    if kill -0 "$keeper"; then ok "nobody is ended without the driver's word"; else bad "ended on the witness's word alone"; fi
    "$gpufree" kill --gpu 0 --yes -9 >/dev/null 2>&1
    check "kill --gpu 0 ends it" 0 $?
    if kill -0 "$opener"; then ok "and not the opener"; else bad "the opener was ended"; fi
fi

echo "--- a fork of a dead parent"
if start "$cuda" fork 2048; then
    for who in seeing blind; do
        look $who fork
        case $(entry "$keeper" 0) in
        "context context"*) ok "fork, $who: the heir has the VA space" ;;
        *) bad "fork, $who: $(entry "$keeper" 0)" ;;
        esac
    done
    "$gpufree" list --any-open
    kill -KILL "$keeper"
    "$gpufree" wait --gpu 0 --timeout 20s >/dev/null 2>&1
    check "fork: free after its end" 0 $?
fi

for shape in vmm dmabuf; do
    for gpu in 0 1; do
        [ "$gpu" -lt "$gpus" ] || continue
        echo "--- $shape on GPU $gpu, exporter dead"
        start "$handles" $shape 2048 CUDA_VISIBLE_DEVICES=$gpu CUDA_DEVICE_ORDER=PCI_BUS_ID || continue
        want=handle
        [ $shape = dmabuf ] && want=dma-buf
        for who in seeing blind; do
            look $who "$shape"
            check "$shape, $who: kept on GPU $gpu by the peer" "context $want" "$(entry "$keeper" "$gpu")"
        done
        "$gpufree" list --any-open
        "$gpufree" kill --gpu $gpu --yes -9 >/dev/null 2>&1
        check "$shape: kill --gpu $gpu ends it" 0 $?
    done
done
if kill -0 "$opener"; then ok "the opener lives"; else bad "the opener was ended"; fi
kill -KILL "$opener"
"$gpufree" check
check "all is free" 0 $?
echo "$passed passed, $failed failed"
[ $failed = 0 ]

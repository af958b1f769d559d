#!/bin/bash
# SPDX-License-Identifier: MIT
# What only a real NVIDIA GPU can show: what `gpufree explain` names is what the driver says is used. Run by hand, as
# root, on a machine whose GPU 0 nobody uses:  tests/gpu/explain.sh GPUFREE CUDA_HOLDER
#
# For every shape of cuda_holder, and for MPS where its programs are installed: named and used within 16 MiB, nothing
# unaccounted beyond that, the keeper among the keepers. Then check --for, in the presence of a holder and without.
# Ends with "N passed, N failed".
set -u
gpufree=$1 holder=$2
work=$(mktemp -d) passed=0 failed=0
export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
trap 'for p in $(cat "$work"/pids 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done
    [ -e "$work/mps/control" ] && echo quit | nvidia-cuda-mps-control >/dev/null 2>&1; rm -rf "$work"' EXIT
: >"$work/pids"

ok() { passed=$((passed + 1)); echo "ok - $*"; }
bad() { failed=$((failed + 1)); echo "NOT OK - $*"; }
check() { # check WHAT EXPECTED GOT
    if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: expected $2, got $3"; fi
}
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0; }

# start SHAPE MIB [ENV…]: sets $keeper, once the memory is held
start() {
    local shape=$1 mib=$2
    shift 2
    rm -f "$work/out"
    mkfifo "$work/out"
    setsid env "$@" "$holder" "$shape" "$mib" >"$work/out" 2>"$work/err" &
    echo $! >>"$work/pids"
    keeper=
    read -r -t 60 word keeper _ <"$work/out" && [ "$word" = ready ] || { bad "$shape did not start: $(cat "$work/err")"; return 1; }
    echo "$keeper" >>"$work/pids"
}

# account WHAT KIND PID|any: the account of GPU 0 adds up within 16 MiB, and PID keeps an entry of that kind.
account() {
    "$gpufree" explain --gpu 0
    "$gpufree" explain --gpu 0 --json >"$work/json"
    check "$1: explain exits 0" 0 $?
    python3 - "$work/json" "$(used)" "$2" "$3" <<'PY'
import json, sys
path, smi, kind, pid = sys.argv[1:]
a = json.load(open(path))["accounts"][0]
noise = 16 << 20
named = sum(e["bytes"] for e in a["entries"] if e["counts"])
print("used", a["used"], "named", named, "unaccounted", a["unaccounted"], "nvidia-smi MiB", smi)
assert a["used"] is not None and a["unaccounted"] is not None
assert abs(a["used"] - (int(smi) << 20)) <= noise, "nvidia-smi says something else"
assert abs(named - a["used"]) <= noise, "named and used differ"
assert a["unaccounted"] <= noise
assert any(e["kind"] == kind and (pid == "any" or int(pid) in e["keepers"]) for e in a["entries"]), f"{pid} keeps no {kind}"
PY
    check "$1: what is named is what is used, $2 of $3" 0 $?
}

baseline=$(used)
echo "driver's figure with nothing held: $baseline MiB"
"$gpufree" explain --gpu 0
check "explain with nothing held" 0 $?
"$gpufree" check --for reset --gpu 0
echo "(check --for reset with nothing held exits $?)"

while read -r shape kind; do
    start "$shape" 4096 || continue
    echo "--- $shape: kept by $keeper, driver says $(used) MiB"
    account "$shape" "$kind" "$keeper"
    "$gpufree" explain "$keeper" >"$work/story" 2>&1
    check "$shape: explain $keeper exits 0" 0 $?
    cat "$work/story"
    grep -q 'on GPU 0' "$work/story" && ok "$shape: its story names GPU 0" || bad "$shape: its story does not name GPU 0"
    "$gpufree" check --for reset --gpu 0 >"$work/for"
    check "$shape: check --for reset says it is in the way" 1 $?
    grep -q "$keeper" "$work/for" && ok "$shape: and names it" || bad "$shape: does not name $keeper: $(cat "$work/for")"
    "$gpufree" kill --gpu 0 --yes -9 >/dev/null
    check "$shape: memory back at the idle figure" "$baseline" "$(used)"
done <<'END'
plain process
fork dead
zombie-leader process
own-node process
ipc process
END

echo "--- two at once"
start plain 2048 && first=$keeper && start fork 3072 && {
    account "plain and fork" dead "$keeper"
    account "plain and fork" process "$first"
    "$gpufree" kill --gpu 0 --yes -9 >/dev/null
}

if command -v nvidia-cuda-mps-control >/dev/null; then
    echo "--- MPS"
    mkdir -p "$work/mps"
    nvidia-cuda-mps-control -d
    start plain 4096 && {
        account "MPS" mps-client "$keeper"
        account "MPS" mps-server any
        "$gpufree" check --for reset --gpu 0 >"$work/for"
        grep -q 'nvidia-cuda-mps-control' "$work/for" && ok "MPS: check --for reset names its stop" ||
            bad "MPS: check --for reset does not name its stop: $(cat "$work/for")"
        kill -KILL "$keeper"
    }
    echo quit | nvidia-cuda-mps-control
else
    echo "MPS is not installed here: left out"
fi

echo "--- unload and unbind"
for purpose in unload unbind mig; do
    "$gpufree" check --for $purpose --gpu 0
    code=$?
    case $code in 0 | 1 | 3) ok "check --for $purpose exits $code" ;; *) bad "check --for $purpose exits $code" ;; esac
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]

#!/bin/bash
# SPDX-License-Identifier: MIT
# What a simulated node cannot show: parking on a real NVIDIA GPU. Run by hand, as root, on a machine whose GPU 0 nobody
# uses (driver 570 or later, python3 with torch, host memory for the largest size):
#     tests/gpu/park.sh GPUFREE CUDA_HOLDER [ROUNDS] [SIZES]
# ROUNDS (10) of parking a PyTorch loop; SIZES ("4096 16384 65536") in MiB. Ends with "N passed, N failed".
set -u
gpufree=$1 holder=$2 rounds=${3:-10} sizes=${4:-4096 16384 65536}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) passed=0 failed=0 keeper=
export GPUFREE_RUNTIME_DIR=$work/run
mkdir -m 755 "$GPUFREE_RUNTIME_DIR"
trap 'for p in $(cat "$work"/pids 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done; rm -rf "$work"' EXIT

ok() { passed=$((passed + 1)); echo "ok - $*"; }
bad() { failed=$((failed + 1)); echo "NOT OK - $*"; }
check() { # check WHAT EXPECTED GOT
    if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: expected $2, got $3"; fi
}
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0; }
# nvidia files that a process has open or mapped
files() { { ls -l "/proc/$1/fd" 2>/dev/null; cat "/proc/$1/maps" 2>/dev/null; } | grep -c '/dev/nvidia'; }
lines() { wc -l <"$work/loop"; }
end() { kill -KILL "$1" 2>/dev/null; wait "$1" 2>/dev/null; "$gpufree" wait --gpu 0 --timeout 20s >/dev/null 2>&1; }
# field FILE NAME: of the first process of a document
field() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["parked"][0][sys.argv[2]])' "$1" "$2"; }

# start COMMAND…: sets $keeper (and $peer), once it says "ready"
start() {
    rm -f "$work/out"
    mkfifo "$work/out"
    setsid "$@" >"$work/out" 2>"$work/err" &
    echo $! >>"$work/pids"
    keeper='' peer=''
    read -r -t 120 word keeper peer _ <"$work/out" && [ "$word" = ready ] || { bad "$1 did not start: $(cat "$work/err")"; return 1; }
    echo "$keeper" >>"$work/pids"
}
# until_back PID: unpark, again while the driver is at it; 60 s at most
until_back() {
    local n
    for n in $(seq 60); do
        "$gpufree" unpark "$1" >"$work/back" 2>&1 && return 0
        sleep 1
    done
    cat "$work/back"
    return 1
}

nvidia-smi --query-gpu=index,name,driver_version,persistence_mode,memory.total --format=csv
grep -E 'MemTotal|MemAvailable' /proc/meminfo
baseline=$(used)
echo "driver's figure with nothing held: $baseline MiB"

echo "--- a PyTorch loop, parked and brought back $rounds times"
steps=4000
if start python3 "$here/park_loop.py" "$work/loop" $steps 4096; then
    for round in $(seq "$rounds"); do
        "$gpufree" park --pid "$keeper" >"$work/parked" 2>&1
        code=$?
        check "round $round: park exits 0 ($(tail -1 "$work/parked"))" 0 $code
        check "round $round: memory at the idle figure" "$baseline" "$(used)"
        check "round $round: no device file" 0 "$(files "$keeper")"
        a=$(lines)
        sleep 0.5
        check "round $round: it stands still" "$a" "$(lines)"
        if [ "$round" = 1 ]; then
            "$gpufree" list
            "$gpufree" list | grep -q "Parked: $keeper"
            check "list shows it" 0 $?
            "$gpufree" check --gpu 0 >/dev/null 2>&1
            check "check calls the GPU free" 0 $?
        fi
        "$gpufree" unpark "$keeper" >"$work/back" 2>&1
        code=$?
        check "round $round: unpark exits 0 ($(tail -1 "$work/back"))" 0 $code
        for _ in $(seq 100); do [ "$(lines)" -gt $((a + 3)) ] && break; sleep 0.1; done
        if [ "$(lines)" -gt $((a + 3)) ]; then ok "round $round: it goes on"; else bad "round $round: it does not go on"; fi
    done
    if [ "$(nvidia-smi -L | wc -l)" -gt 1 ]; then
        "$gpufree" park --pid "$keeper"
        "$gpufree" unpark "$keeper" --to 1
        check "moved to GPU 1" 0 $?
        # Its device file is open there: up to 3 MiB and the driver's own rounding.
        check "GPU 0 is idle" 1 $(($(used) <= baseline + 32))
        a=$(lines)
        sleep 2
        if [ "$(lines)" -gt "$a" ]; then ok "it goes on there"; else bad "it does not go on there"; fi
    else
        echo "moving to another GPU: passed over, this machine has one"
    fi
    cp "$work/loop" "$work/loop.parked"
    end "$keeper"
    n=$(($(wc -l <"$work/loop.parked") - 1))
    if start python3 "$here/park_loop.py" "$work/loop" $steps 4096; then
        for _ in $(seq 1200); do [ "$(lines)" -gt "$n" ] && break; sleep 0.2; done
        cmp <(head -n "$n" "$work/loop") <(head -n "$n" "$work/loop.parked")
        check "$n results are those of a run that was not parked" 0 $?
        end "$keeper"
    fi
fi

echo "--- rates"
for mib in $sizes; do
    start "$holder" plain "$mib" || continue
    for way in plain hugepages; do
        # What raises the rate: transparent huge pages for what the driver allocates in the target.
        before=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)
        [ $way = plain ] || { [ -w /sys/kernel/mm/transparent_hugepage/enabled ] && echo always >/sys/kernel/mm/transparent_hugepage/enabled; }
        "$gpufree" park --pid "$keeper" --json >"$work/json" 2>"$work/err"
        code=$?
        check "$mib MiB, $way: park exits 0 ($(cat "$work/err"))" 0 $code
        "$gpufree" unpark "$keeper" --json >"$work/json2" 2>"$work/err"
        code=$?
        check "$mib MiB, $way: unpark exits 0 ($(cat "$work/err"))" 0 $code
        down=$(field "$work/json" copy_ms) up=$(field "$work/json2" copy_ms)
        python3 -c "print(f'rate: $mib MiB, $way (was $before): park $down ms, {$mib / 1.024 / max(1, $down):.2f} GiB/s; unpark $up ms, {$mib / 1.024 / max(1, $up):.2f} GiB/s')"
        [ $way = plain ] || [ -z "$before" ] || echo "$before" >/sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null
    done
    end "$keeper"
done
echo "--- four processes at once"
all=
for _ in 1 2 3 4; do start "$holder" plain 4096 && all="$all $keeper"; done
a=$(date +%s%3N)
"$gpufree" park --gpu 0
check "four at once: park exits 0" 0 $?
b=$(date +%s%3N)
echo "rate: 4 × 4096 MiB at once: $((b - a)) ms"
check "four at once: memory at the idle figure" "$baseline" "$(used)"
"$gpufree" unpark --all
check "four at once: unpark --all exits 0" 0 $?
for p in $all; do end "$p"; done

echo "--- gpufree killed while it parks and while it brings back"
for delay in 0.02 0.1 0.2 0.3 0.5 1 2 4; do
    start "$holder" plain 16384 || break
    "$gpufree" park --pid "$keeper" >/dev/null 2>&1 &
    run=$!
    sleep "$delay"
    kill -KILL $run 2>/dev/null
    wait $run 2>/dev/null
    "$gpufree" list | grep -E "Parked|Locked|Parking|Failed|Unknown" || echo "killed after $delay s: runs"
    until_back "$keeper"
    check "killed after $delay s: it is brought back" 0 $?
    "$gpufree" park --pid "$keeper" >/dev/null 2>&1
    "$gpufree" unpark "$keeper" >/dev/null 2>&1 &
    run=$!
    sleep "$delay"
    kill -KILL $run 2>/dev/null
    wait $run 2>/dev/null
    until_back "$keeper"
    check "unpark killed after $delay s: it is brought back" 0 $?
    if [ "$(used)" -gt $((baseline + 16000)) ] && [ -e "/proc/$keeper" ]; then ok "killed after $delay s: it has its memory"; else bad "killed after $delay s: $(used) MiB used"; fi
    end "$keeper"
done

echo "--- refused, or said"
start "$holder" plain 1024
kill -STOP "$keeper"
"$gpufree" park --pid "$keeper"
check "a stopped process is refused" 4 $?
"$gpufree" park --pid "$keeper" --continue
check "--continue parks it" 0 $?
"$gpufree" unpark "$keeper"
check "and back" 0 $?
GPUFREE_RUNTIME_DIR='' setpriv --reuid 65534 --regid 65534 --clear-groups "$gpufree" unpark "$keeper"
check "another user is refused" 4 $?
cgroup=/sys/fs/cgroup/gpufree-park.$$
if mkdir "$cgroup" 2>/dev/null && echo 512M >"$cgroup/memory.max" 2>/dev/null && echo "$keeper" >"$cgroup/cgroup.procs"; then
    "$gpufree" park --pid "$keeper"
    check "a cgroup without room is refused" 4 $?
else
    echo "a cgroup without room: passed over, none can be made here"
fi
end "$keeper"
rmdir "$cgroup" 2>/dev/null
sleep 100000 &
plain=$!
echo $plain >>"$work/pids"
"$gpufree" park --pid $plain
check "a process that is not CUDA is refused" 4 $?
"$gpufree" unpark $plain
check "also by unpark" 4 $?
if start python3 "$here/park_export.py" 2048; then
    echo "$peer" >>"$work/pids"
    "$gpufree" park --pid "$keeper" >"$work/parked" 2>&1
    code=$?
    cat "$work/parked"
    check "a peer keeps exported memory: exit 5" 5 $code
    grep -q "$peer" "$work/parked"
    check "and is named" 0 $?
    "$gpufree" unpark "$keeper"
    echo "unpark with the peer: exit $?"
    kill -KILL "$peer"
    end "$keeper"
fi
start "$holder" plain 1024
"$gpufree" park --pid "$keeper" >/dev/null
kill -KILL "$keeper"
sleep 0.5
"$gpufree" list | grep -q "$keeper"
check "a parked process that was ended is not listed" 1 $?
check "the idle figure at the end" "$baseline" "$(used)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]

#!/bin/bash
# SPDX-License-Identifier: MIT
# What a simulated node cannot show: parking on a real NVIDIA GPU. Run by hand, as root, on a machine whose GPU 0 nobody
# uses (driver 570 or later, python3 with torch, park_lib.sh and park_loop.py beside it). About 4 minutes:
#     tests/gpu/park.sh GPUFREE CUDA_HOLDER [ROUNDS]
# ROUNDS (10) of parking a PyTorch loop; then gpufree is killed at each step. The refusals and the rates: park_more.sh.
# Ends with "N passed, N failed".
set -u
gpufree=$1 holder=$2 rounds=${3:-10}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/park_lib.sh
. "$here/park_lib.sh"

echo "--- a PyTorch loop, parked and brought back $rounds times"
steps=4000
if start python3 "$here/park_loop.py" "$work/loop" $steps 4096; then
    for round in $(seq "$rounds"); do
        g park --pid "$keeper" >"$work/parked" 2>&1
        code=$?
        check "round $round: park exits 0 ($(tail -1 "$work/parked"))" 0 $code
        check "round $round: memory at the idle figure" "$baseline" "$(used)"
        check "round $round: no device file" 0 "$(files "$keeper")"
        a=$(lines)
        sleep 0.5
        check "round $round: it stands still" "$a" "$(lines)"
        if [ "$round" = 1 ]; then
            g list
            g list | grep -q "Parked: $keeper"
            check "list shows it" 0 $?
            g check --gpu 0 >/dev/null 2>&1
            check "check calls the GPU free" 0 $?
        fi
        g unpark "$keeper" >"$work/back" 2>&1
        code=$?
        check "round $round: unpark exits 0 ($(tail -1 "$work/back"))" 0 $code
        for _ in $(seq 100); do [ "$(lines)" -gt $((a + 3)) ] && break; sleep 0.1; done
        if [ "$(lines)" -gt $((a + 3)) ]; then ok "round $round: it goes on"; else bad "round $round: it does not go on"; fi
    done
    if [ "$(nvidia-smi -L | wc -l)" -gt 1 ]; then
        g park --pid "$keeper"
        g unpark "$keeper" --to 1
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
took

echo "--- gpufree killed while it parks and while it brings back"
# 2 GiB are copied in about a second: the first delays are before and in the locking, the others in the copying.
for delay in 0.02 0.15 0.4 0.8; do
    late 360 && { bad "killed after $delay s: passed over, $SECONDS s are gone"; continue; }
    start "$holder" plain 2048 || break
    "$gpufree" park --pid "$keeper" >/dev/null 2>&1 &
    run=$!
    sleep "$delay"
    kill -KILL $run 2>/dev/null
    wait $run 2>/dev/null
    g list | grep -E "Parked|Locked|Parking|Failed|Unknown" || echo "killed after $delay s: runs"
    until_back "$keeper"
    check "killed after $delay s: it is brought back" 0 $?
    g park --pid "$keeper" >/dev/null 2>&1
    "$gpufree" unpark "$keeper" >/dev/null 2>&1 &
    run=$!
    sleep "$delay"
    kill -KILL $run 2>/dev/null
    wait $run 2>/dev/null
    until_back "$keeper"
    check "unpark killed after $delay s: it is brought back" 0 $?
    if [ "$(used)" -gt $((baseline + 2000)) ] && [ -e "/proc/$keeper" ]; then ok "killed after $delay s: it has its memory"; else bad "killed after $delay s: $(used) MiB used"; fi
    end "$keeper"
    took
done
check "the idle figure at the end" "$baseline" "$(used)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]

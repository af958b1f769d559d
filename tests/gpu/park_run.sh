#!/bin/bash
# SPDX-License-Identifier: MIT
# `run --park-on`, `run --preempt` and `kill --park-first` on a real NVIDIA GPU. Run by hand, as root, on a machine whose GPU 0 nobody uses
# (driver 570 or later; no torch; park_lib.sh beside it). About a minute:
#     tests/gpu/park_run.sh GPUFREE CUDA_HOLDER
# Ends with "N passed, N failed".
set -u
gpufree=$1 holder=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/park_lib.sh
. "$here/park_lib.sh"

# for_line PATTERN: until the guard has said it, 60 s at most
for_line() {
    for _ in $(seq 600); do grep -q "$1" "$work/guard" && return 0; sleep 0.1; done
    bad "not said within 60 s: $1"
    cat "$work/guard"
    return 1
}

echo "--- run --park-on"
"$gpufree" run --gpu 0 --park-on USR1 -- "$holder" plain 4096 >"$work/out2" 2>"$work/guard" &
guard=$!
echo $guard >>"$work/pids"
for _ in $(seq 600); do grep -q ready "$work/out2" && break; sleep 0.1; done
for round in 1 2 3; do
    : >"$work/guard"
    kill -USR1 $guard
    for_line "given up while it is parked" || break
    check "round $round: memory at the idle figure" "$baseline" "$(used)"
    g run -q --gpu 0 -- "$holder" plain 1 >"$work/other" 2>&1 &
    other=$!
    for _ in $(seq 300); do grep -q ready "$work/other" && break; sleep 0.1; done
    grep -q ready "$work/other"
    check "round $round: another guard's command has the GPU" 0 $?
    kill -USR2 $guard
    for_line "it stays parked: GPU 0 is claimed by another guard"
    kill -TERM $other
    wait $other
    kill -USR2 $guard
    for_line "runs again" || break
    if [ "$(used)" -gt $((baseline + 4000)) ]; then ok "round $round: it has its memory"; else bad "round $round: $(used) MiB"; fi
done
cat "$work/guard"
kill -TERM $guard
wait $guard
check "the guard ends as its command: 128 + TERM" 143 $?
check "memory at the idle figure" "$baseline" "$(used)"

echo "--- run --preempt"
: >"$work/out2"
"$gpufree" run --gpu 0 --park-on USR1 -- "$holder" plain 4096 >"$work/out2" 2>"$work/guard" &
guard=$!
echo $guard >>"$work/pids"
for _ in $(seq 600); do grep -q ready "$work/out2" && break; sleep 0.1; done
g run --gpu 0 --preempt --priority 1 -- sh -c 'nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0; exit 7' >"$work/other"
check "the command runs, its status is returned" 7 $?
check "it had the GPU to itself" "$baseline" "$(tail -1 "$work/other")"
for_line "runs again"
if [ "$(used)" -gt $((baseline + 4000)) ]; then ok "the first one has its memory again"; else bad "$(used) MiB"; fi
cat "$work/guard"
kill -TERM $guard
wait $guard
check "memory at the idle figure" "$baseline" "$(used)"

echo "--- kill --park-first"
start "$holder" plain 2048
cuda=$keeper
start "$holder" fork 1024
fork=$keeper
g kill -n --gpu 0 --park-first
g kill -y --gpu 0 --park-first
check "kill --park-first exits 0" 0 $?
check "memory at the idle figure" "$baseline" "$(used)"
[ -e "/proc/$cuda" ]
check "the CUDA process lives" 0 $?
[ -e "/proc/$fork" ] && grep -q '^State:.[^ZX]' "/proc/$fork/status"
check "the fork, which cannot be parked, is ended" 1 $?
g unpark "$cuda"
check "it comes back" 0 $?
end "$cuda"
check "the idle figure at the end" "$baseline" "$(used)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]

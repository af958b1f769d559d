# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What park.sh and park_more.sh share; they set $gpufree, $holder and $here before.
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
# No call may take the whole run with it: 124 is one that did not return.
g() { timeout -k 5 150 "$gpufree" "$@"; }
# late SECONDS: has the script run for longer? Then what is left is passed over, and said.
late() { [ $SECONDS -gt "$1" ]; }
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
# until_back PID [SECONDS]: unpark, again while the driver is at it; 60 s at most
until_back() {
    local deadline=$((SECONDS + ${2:-60}))
    while :; do
        timeout -k 5 60 "$gpufree" unpark "$1" >"$work/back" 2>&1 && return 0
        [ $SECONDS -lt $deadline ] || break
        sleep 0.2
    done
    cat "$work/back"
    return 1
}
took() { echo "($SECONDS s so far)"; }

nvidia-smi --query-gpu=index,name,driver_version,persistence_mode,memory.total --format=csv
grep -E 'MemTotal|MemAvailable' /proc/meminfo
baseline=$(used)
echo "driver's figure with nothing held: $baseline MiB"

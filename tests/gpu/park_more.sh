#!/bin/bash
# SPDX-License-Identifier: MIT
# The rest of park.sh: what is refused or said, and the rates, on a real NVIDIA GPU. Run by hand, as root, on a machine
# whose GPU 0 nobody uses (driver 570 or later, python3; torch for none of it; park_lib.sh and park_export.py beside it).
# About 5 minutes for all, each part by its name alone:
#     tests/gpu/park_more.sh GPUFREE CUDA_HOLDER [PART…]
# PART: stopped user cgroup plain export ended many rate4 rate16 rate64 huge16. Ends with "N passed, N failed".
set -u
gpufree=$1 holder=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/park_lib.sh
. "$here/park_lib.sh"

part_stopped() {
    start "$holder" plain 1024 || return
    kill -STOP "$keeper"
    g park --pid "$keeper"
    check "a stopped process is refused" 4 $?
    g park --pid "$keeper" --continue
    check "--continue parks it" 0 $?
    g unpark "$keeper"
    check "and back" 0 $?
    end "$keeper"
}

part_user() {
    local there
    there=$(mktemp -d)
    chmod 755 "$there"
    cp "$gpufree" "$there/gpufree" # where everybody may run it
    if start "$holder" plain 1024; then
        for way in park\ --pid unpark; do
            # shellcheck disable=SC2086
            GPUFREE_RUNTIME_DIR='' timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups "$there/gpufree" $way "$keeper"
            check "$way of another user's is refused" 4 $?
        done
        g park --pid "$keeper"
        GPUFREE_RUNTIME_DIR='' timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups "$there/gpufree" unpark "$keeper"
        check "unpark of another user's parked process is refused" 4 $?
        g unpark "$keeper"
        check "root brings it back" 0 $?
        end "$keeper"
    fi
    rm -rf "$there"
}

part_cgroup() {
    local cgroup=/sys/fs/cgroup/gpufree-park.$$
    start "$holder" plain 1024 || return
    if mkdir "$cgroup" 2>/dev/null && echo 512M >"$cgroup/memory.max" 2>/dev/null && echo "$keeper" >"$cgroup/cgroup.procs"; then
        g park --pid "$keeper"
        check "a cgroup without room is refused" 4 $?
    else
        echo "a cgroup without room: passed over, none can be made here"
    fi
    end "$keeper"
    rmdir "$cgroup" 2>/dev/null
}

part_plain() {
    sleep 100000 &
    local plain=$!
    echo $plain >>"$work/pids"
    g park --pid $plain
    check "a process that is not CUDA is refused" 4 $?
    g unpark $plain
    check "also by unpark" 4 $?
    kill -KILL $plain
}

part_export() {
    local code
    start python3 "$here/park_export.py" 2048 || return
    echo "$peer" >>"$work/pids"
    g park --pid "$keeper" >"$work/parked" 2>&1
    code=$?
    cat "$work/parked"
    check "a peer keeps exported memory: exit 5" 5 $code
    grep -q "$peer" "$work/parked"
    check "and is named" 0 $?
    g unpark "$keeper"
    echo "unpark with the peer: exit $?"
    kill -KILL "$peer"
    end "$keeper"
}

part_ended() {
    start "$holder" plain 1024 || return
    g park --pid "$keeper" >/dev/null
    kill -KILL "$keeper"
    wait "$keeper" 2>/dev/null
    g list | grep -q "$keeper"
    check "a parked process that was ended is not listed" 1 $?
}

part_many() {
    local all='' a b p
    for _ in 1 2 3 4; do start "$holder" plain 4096 && all="$all $keeper"; done
    a=$(date +%s%3N)
    g park --gpu 0
    check "four at once: park exits 0" 0 $?
    b=$(date +%s%3N)
    echo "rate: 4 x 4096 MiB at once: $((b - a)) ms"
    check "four at once: memory at the idle figure" "$baseline" "$(used)"
    g unpark --all
    check "four at once: unpark --all exits 0" 0 $?
    for p in $all; do end "$p"; done
}

rate() { # rate MIB WAY
    local mib=$1 way=$2 thp=/sys/kernel/mm/transparent_hugepage/enabled before code down up
    start "$holder" plain "$mib" || return
    before=$(sed 's/.*\[\(.*\)\].*/\1/' $thp 2>/dev/null)
    # What might raise the rate: transparent huge pages for what the driver allocates in the target.
    [ "$way" = plain ] || { [ -w $thp ] && echo always >$thp; }
    g park --pid "$keeper" --json >"$work/json" 2>"$work/err"
    code=$?
    check "$mib MiB, $way: park exits 0 ($(cat "$work/err"))" 0 $code
    g unpark "$keeper" --json >"$work/json2" 2>"$work/err"
    code=$?
    check "$mib MiB, $way: unpark exits 0 ($(cat "$work/err"))" 0 $code
    down=$(field "$work/json" copy_ms) up=$(field "$work/json2" copy_ms)
    python3 -c "print(f'rate: $mib MiB, $way (was $before): park $down ms, {$mib / 1.024 / max(1, $down):.2f} GiB/s; unpark $up ms, {$mib / 1.024 / max(1, $up):.2f} GiB/s')"
    [ "$way" = plain ] || [ -z "$before" ] || echo "$before" >$thp 2>/dev/null
    end "$keeper"
}
part_rate4() { rate 4096 plain; }
part_rate16() { rate 16384 plain; }
part_rate64() { rate 65536 plain; }
part_huge16() { rate 16384 hugepages; }

[ $# -gt 0 ] || set -- stopped user cgroup plain export ended many rate4 rate16 rate64 huge16
for part in "$@"; do
    declare -F "part_$part" >/dev/null || { echo "no part is called \"$part\"" >&2; exit 2; }
done
for part in "$@"; do
    echo "--- $part"
    if late 400; then bad "$part: passed over, $SECONDS s are gone"; else "part_$part"; took; fi
done
check "the idle figure at the end" "$baseline" "$(used)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]

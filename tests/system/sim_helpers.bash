# SPDX-License-Identifier: MIT
# For suites on a simulated node: source it with `load sim_helpers`.
# Each test gets a node of its own in $NODE, which is ended in teardown whatever happened.

: "${BUILD_DIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)/build}"
: "${SOURCE_DIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
SIM="$BUILD_DIR/sim/gpufree-sim"
HOLDER="$BUILD_DIR/sim/gpufree-sim-holder"
PROBE="$BUILD_DIR/tests/system/nvml-probe"

sim_setup() {
        NODE="$BATS_TEST_TMPDIR/node"
}

sim_teardown() {
        "$SIM" down "$NODE"
}

# sim_up [OPTIONS]: makes the node; the settings are in the environment afterwards.
sim_up() {
        local settings
        settings="$("$SIM" up "$NODE" "$@")" || return 1
        eval "$settings"
}

# sim_ttys: skips the test where the nodes are not ttys made by mknod.
sim_ttys() {
        "$SIM" status "$NODE" | grep -q 'unused ttys' || skip "device nodes cannot be made or opened here"
}

# sim_wait_gone PID: until the process has ended; a zombie that nobody reaps has ended too. At most 20 s.
sim_wait_gone() {
        local n
        for n in $(seq 400); do
                sim_runs "$1" || return 0
                sleep 0.05
        done
        echo "process $1 is still there"
        return 1
}

# sim_runs PID: is a thread of it running?
sim_runs() {
        grep -qs '^State:[[:space:]]*[^ZX[:space:]]' /proc/"$1"/task/*/status
}

# sim_wait_for COMMAND…: until the command succeeds; at most 20 s.
sim_wait_for() {
        local n
        for n in $(seq 400); do
                "$@" && return 0
                sleep 0.05
        done
        echo "did not come true: $*"
        return 1
}

# sim_fds PID NODE: how many descriptors of that node a process has, by number.
sim_fds() {
        sim_fds_in "/proc/$1/fd" "$2"
}

sim_fds_in() {
        local f n=0 want
        want="$(stat -L -c '%t:%T' "$NODE/dev/$2")"
        for f in "$1"/*; do
                [ "$(stat -L -c '%t:%T' "$f" 2>/dev/null)" = "$want" ] && n=$((n + 1))
        done
        echo "$n"
}

# sim_used GPU: bytes used on it, as the stand-in driver library says. sim_listed GPU: the PIDs listed.
sim_used() {
        "$PROBE" | awk -v gpu="$1" '$1 == "gpu" { at = $2 } at == gpu && $1 == "memory_v2" { print $6 }'
}

sim_listed() {
        "$PROBE" | awk -v gpu="$1" '$1 == "gpu" { at = $2 }
                at == gpu && $1 == "nvmlDeviceGetComputeRunningProcesses" && $2 == "pid" { print $3 }'
}

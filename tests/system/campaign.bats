#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The campaigns of tests/campaign in a short form; each is one command that takes as long as it is given.

: "${BUILD_DIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)/build}"
: "${SOURCE_DIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
export BUILD_DIR

campaign() {
        command -v python3 >/dev/null || skip "no python3"
        [ "$(id -u)" -eq 0 ] || skip "needs root for a PID namespace"
        unshare --pid --fork --mount --mount-proc true 2>/dev/null || skip "no PID namespaces here"
        # A build with sanitizers has allocations of its own, and cannot be traced by its leak check.
        run env ASAN_OPTIONS=detect_leaks=0 python3 "$SOURCE_DIR/tests/campaign/$1.py" "${@:2}"
        echo "$output"
        [ "$status" -eq 0 ]
        reason="$(sed -n 's/^1\.\.0 # SKIP //p' <<<"$output")"
        [ -z "$reason" ] || skip "$reason"
        grep -q '^ok 1 ' <<<"$output"
}

sanitized() {
        "${NM-nm}" "$BUILD_DIR/cli/gpufree" 2>/dev/null | grep -q __asan_init
}

@test "campaign: chains of forks are ended by --force, five runs of each pattern" {
        campaign races --runs 5 --how force --chains 10
}

@test "campaign: 200 holders among 200 bystanders while PIDs go round" {
        campaign recycle --kills 200
}

@test "campaign: system calls that fail once, some of them" {
        [ "$(uname -m)" = x86_64 ] || skip "the injector is made for x86-64"
        ! sanitized || skip "a build with sanitizers cannot be traced call by call"
        campaign faults --what calls --errnos ENOMEM,EMFILE,EIO --every 211
}

@test "campaign: allocations that fail once, some of them" {
        ! sanitized || skip "a build with sanitizers has an allocator of its own"
        campaign faults --what allocations --every 29
}

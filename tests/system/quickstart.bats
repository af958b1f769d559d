#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# quickstart's manners; what it does is tried by running it (.ci/run, tests/system/debootstrap.sh).

load sim_helpers

@test "quickstart says how it is used" {
        run "$SOURCE_DIR/quickstart" --help
        [ "$status" -eq 0 ]
        [[ "$output" == *"quickstart test"* ]]
}

@test "quickstart: what it does not understand exits 2 and begins nothing" {
        run "$SOURCE_DIR/quickstart" fly
        [ "$status" -eq 2 ]
        [[ "$output" == *'"fly" is not understood'* ]]
        [ "${#lines[@]}" -eq 1 ]
        run "$SOURCE_DIR/quickstart" test twice
        [ "$status" -eq 2 ]
}

# A copy of the script with nothing around it, and a PATH with only what is linked into it.
bare() {
        mkdir -p "$BATS_TEST_TMPDIR/src" "$BATS_TEST_TMPDIR/bin"
        cp "$SOURCE_DIR/quickstart" "$BATS_TEST_TMPDIR/src/"
        for tool in sh dirname nproc mkdir wc tail tr id env sort head readlink cat mktemp rmdir "$@"; do
                ln -s "$(command -v "$tool")" "$BATS_TEST_TMPDIR/bin/$tool"
        done
}

@test "quickstart: without apt-get it names what is missing and fails" {
        bare
        PATH="$BATS_TEST_TMPDIR/bin" run "$BATS_TEST_TMPDIR/src/quickstart"
        [ "$status" -eq 1 ]
        [[ "$output" == *"missing here:"*"libjansson-dev"*"no apt-get"* ]]
        [[ "$output" == *"the log is $BATS_TEST_TMPDIR/src/build/quickstart.log"* ]]
}

@test "quickstart: neither root nor sudo is said, with what to type" {
        bare
        printf '#!/bin/sh\necho 1000\n' >"$BATS_TEST_TMPDIR/id"
        chmod +x "$BATS_TEST_TMPDIR/id"
        ln -sf "$BATS_TEST_TMPDIR/id" "$BATS_TEST_TMPDIR/bin/id"
        printf '#!/bin/sh\nexit 99\n' >"$BATS_TEST_TMPDIR/bin/apt-get"
        chmod +x "$BATS_TEST_TMPDIR/bin/apt-get"
        PATH="$BATS_TEST_TMPDIR/bin" run "$BATS_TEST_TMPDIR/src/quickstart"
        [ "$status" -eq 1 ]
        [[ "$output" == *"run this as root or install sudo, or: apt-get install "*"meson"* ]]
}

@test "quickstart: a package that cannot be installed is a loud failure with the reason" {
        bare
        printf '#!/bin/sh\necho 0\n' >"$BATS_TEST_TMPDIR/id"
        chmod +x "$BATS_TEST_TMPDIR/id"
        ln -sf "$BATS_TEST_TMPDIR/id" "$BATS_TEST_TMPDIR/bin/id"
        cat >"$BATS_TEST_TMPDIR/bin/apt-get" <<'END'
#!/bin/sh
[ "$DEBIAN_FRONTEND" = noninteractive ] || exit 98
echo "E: the mirror is on fire" >&2
[ "$1" = update ]
END
        chmod +x "$BATS_TEST_TMPDIR/bin/apt-get"
        PATH="$BATS_TEST_TMPDIR/bin" run "$BATS_TEST_TMPDIR/src/quickstart"
        [ "$status" -eq 1 ]
        [[ "$output" == *"the mirror is on fire"*"apt-get install"*"failed with exit 1"* ]]
}

count() {
        printf '%s\n' "$@" >"$BATS_TEST_TMPDIR/log.json"
        run python3 "$SOURCE_DIR/tests/tools/count.py" "$BATS_TEST_TMPDIR/log.json"
}

@test "count: subtests, skips, and programs without TAP" {
        count '{"name": "a", "result": "OK", "stdout": "1..3\nok 1 x\nok 2 - y # SKIP no root\nok 3 # skipping is fine\n"}' \
                '{"name": "b", "result": "OK", "stdout": ""}' '{"name": "c", "result": "SKIP", "stdout": ""}'
        [ "$status" -eq 0 ]
        [ "${lines[-1]}" = "3 passed, 0 failed, 2 skipped" ]
}

@test "count: failures are shown and exit 1" {
        count '{"name": "a", "result": "FAIL", "stdout": "ok 1 x\nnot ok 2 y\n# why it is so\n", "stderr": "and this"}'
        [ "$status" -eq 1 ]
        [[ "$output" == *"not ok 2 y"*"why it is so"*"and this"* ]]
        [ "${lines[-1]}" = "1 passed, 1 failed" ]
}

@test "count: a crash or a time-out after good subtests is a failure" {
        count '{"name": "a", "result": "TIMEOUT", "stdout": "ok 1 x\n"}' '{"name": "b", "result": "ERROR", "stdout": ""}'
        [ "$status" -eq 1 ]
        [ "${lines[-1]}" = "1 passed, 2 failed" ]
}

@test "count: no test at all is no success" {
        : >"$BATS_TEST_TMPDIR/log.json"
        run python3 "$SOURCE_DIR/tests/tools/count.py" "$BATS_TEST_TMPDIR/log.json"
        [ "$status" -eq 1 ]
}

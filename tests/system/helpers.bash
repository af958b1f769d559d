# SPDX-License-Identifier: MIT
# For suites of the command line on a simulated node: `load helpers`. Each test gets a node of its own.

load sim_helpers

GPUFREE="${GPUFREE:-$BUILD_DIR/cli/gpufree}"

cli_setup() {
        sim_setup
        export LC_ALL=C.UTF-8
        unset NO_COLOR COLUMNS
}

cli_teardown() {
        sim_teardown
}

# gpufree ARGS…: the command, pointed at the node. A test may itself run in a PID namespace: what is asked is about it.
gpufree() {
        # shellcheck disable=SC2086
        "$GPUFREE" ${GPUFREE_OPTS-} --scope namespace "$@"
}

# add SHAPE [OPTIONS]: starts a holder; its PIDs are in $added, the first in $pid.
add() {
        added="$("$SIM" add "$NODE" "$@")" || return 1
        pid="${added%%$'\n'*}"
}

# add_or_skip: the same, for shapes that not every machine allows.
add_or_skip() {
        add "$@" || skip "shape $1 cannot be made here"
}

alive() {
        sim_runs "$1"
}

# as_nobody COMMAND…: as a user without rights; root only.
as_nobody() {
        setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

# json PATH…: a value of the document in $output, as `["gpus"][0]["index"]`.
json() {
        python3 -c 'import json,sys; print(json.dumps(eval("d" + sys.argv[1], {"d": json.load(sys.stdin)})))' "$1" <<<"$output"
}

# has_pid PID: is it a line of its own in $output?
has_pid() {
        grep -qx "$1" <<<"$output"
}

# Standard output and error apart: $out, $err, $status.
run_apart() {
        status=0
        "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
        out="$(cat "$BATS_TEST_TMPDIR/out")"
        err="$(cat "$BATS_TEST_TMPDIR/err")"
}

# not COMMAND…: fails the test when the command succeeds, anywhere in it; a bare "!" does so on the last line alone.
not() {
        ! "$@"
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Forms of output: escaping, widths, JSON, PIDs alone; data on standard output, everything else on standard error.

load helpers

setup() {
        cli_setup
}

teardown() {
        cli_teardown
}

@test "output: a command line with control sequences reaches no terminal" {
        sim_up --gpus 1
        add plain --gpu 0 --name $'ev\e[2Jil\a --x=\e]0;owned\a'
        for form in list "kill -n" check "list --json" "kill -n --json"; do
                # shellcheck disable=SC2086
                run_apart gpufree $form
                if LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]' "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/err"; then
                        false
                fi
        done
        run gpufree list
        [[ "$output" == *'\x1B'* ]]
}

@test "output: JSON has what the contract lists" {
        sim_up --gpus 2
        add plain --gpu 1 --memory 20GiB
        run_apart gpufree list --json
        [ "$status" -eq 0 ]
        [ "$err" = "" ]
        output=$out
        [ "$(json '["schema"]')" = 1 ]
        [ "$(json '["outcome"]')" = '"ok"' ]
        [ "$(json '["exit"]["code"]')" = 0 ]
        [ "$(json '["scan"]["complete"]')" = true ]
        [ "$(json '["gpus"][1]["index"]')" = 1 ]
        [ "$(json '["holders"][0]["pid"]')" = "$pid" ]
        [ "$(json '["holders"][0]["gpus"][0]["memory"]')" = $((20 << 30)) ]
        [ "$(json '["holders"][0]["uid"]')" = "$(id -u)" ]
}

@test "output: no line is wider than COLUMNS" {
        sim_up --gpus 8
        add plain --gpu 0 --name "python3 a-very-long-command-line --with=many --arguments=that --never=end --at=all"
        for columns in 20 40 60 80 120 200; do
                COLUMNS=$columns run_apart gpufree list
                output=$out
                widest=$(wc -L <<<"$output")
                [ "$widest" -le "$columns" ]
                grep -qw "$pid" <<<"$output"
        done
}

@test "output: a full disk and a closed output are errors of one line, exit 2" {
        sim_up --gpus 1
        for form in "list" "list --json" "list -q /dev/null" "check" "--help" "--version"; do
                run_apart sh -c "\"$GPUFREE\" $GPUFREE_OPTS $form >/dev/full"
                [ "$form" = "list -q /dev/null" ] && [ "$status" -eq 0 ] && continue # nothing to write, perhaps
                [ "$status" -eq 2 ]
                [ "$(wc -l <"$BATS_TEST_TMPDIR/err")" -ge 1 ]
                run_apart sh -c "\"$GPUFREE\" $GPUFREE_OPTS $form >&-"
                [ "$status" -eq 2 ]
        done
}

@test "output: wrong words are told in one line with what would be right" {
        sim_up --gpus 1
        for line in "lst:gpufree list" "kill --grace banana:500ms, 10s, 2m" "kill --signal FOO:TERM" "--jsn:--json" \
                "list --json -q:exclude" "kill 1234:--pid 1234"; do
                # shellcheck disable=SC2086
                run_apart "$GPUFREE" ${line%%:*}
                [ "$status" -eq 2 ]
                [ "$out" = "" ]
                [ "$(wc -l <"$BATS_TEST_TMPDIR/err")" -eq 1 ]
                [[ "$err" == "gpufree: "*"${line#*:}"* ]]
        done
}

@test "output: --version and --help are on standard output" {
        run_apart "$GPUFREE" --version
        [ "$status" -eq 0 ]
        [[ "$out" == "gpufree "[0-9]* ]]
        run_apart "$GPUFREE" --help
        [ "$status" -eq 0 ]
        [ "$err" = "" ]
        run_apart "$GPUFREE" help kill
        [ "$status" -eq 0 ]
        [[ "$out" == "Usage: gpufree kill"* ]]
}
